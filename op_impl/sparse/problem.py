# SPDX-License-Identifier: Apache-2.0
"""The problem that the tensors and attributes of a call state."""

from __future__ import annotations

from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.sparse_flash_attention_problem import PAGED, SparseProblem


def problem_of(call: KernelCall, merged: bool | None = None) -> SparseProblem:
    """At the primitive level: rank 4, TND as one batch entry. ``merged`` is the attribute kv_merged where it is not
    given: the value is the key."""
    query, attrs = call["query"], call.attrs
    batches, q_len, q_heads, head_dim = query.shape
    kv_batches, kv_len, kv_heads, _ = call["key"].shape
    merged = attrs["kv_merged"] if merged is None else merged
    packed = attrs.get("layout", attrs.get("layout_query")) == "TND"
    return SparseProblem(
        batch=call["actual_seq_lengths_query"].shape[0] if packed else batches,
        q_rows=batches * q_len,
        q_len=q_len,
        kv_rows=kv_batches * kv_len,
        kv_len=kv_len,
        q_heads=q_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=head_dim if merged else call["value"].shape[3],
        rope_dim=call["query_rope"].shape[3] if "query_rope" in call else 0,
        slots=call["sparse_indices"].shape[3],
        dtype=query.dtype,
        scale_value=attrs["scale_value"],
        block_size=attrs.get("sparse_block_size", 1),
        packed=packed,
        sparse_mode=attrs["sparse_mode"],
        paged=attrs.get("layout_kv") == PAGED,
        pages=call["block_table"].shape[1] if "block_table" in call else 0,
        merged=merged,
        has_sinks="sinks" in call,
        has_q_lengths="actual_seq_lengths_query" in call,
        has_kv_lengths="actual_seq_lengths_kv" in call,
        has_d_statistics="d_softmax_max" in call,
    )
