# SPDX-License-Identifier: Apache-2.0
"""The problem that the tensor descriptions and attributes of a call state."""

from __future__ import annotations

from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.tiling.sparse_flash_attention_problem import PAGED, SparseProblem


def problem_of(
    tensors: dict[str, dict | None],
    scale_value: float,
    block_size: int,
    layout_query: str,
    layout_kv: str,
    sparse_mode: int,
    merged: bool,
) -> SparseProblem:
    """``tensors``: name -> {"shape", "dtype"} or None, at the primitive level (rank 4, TND as one batch entry)."""
    query, key, indices = _given(tensors, "query"), _given(tensors, "key"), _given(tensors, "sparse_indices")
    batches, q_len, q_heads, head_dim = query["shape"]
    kv_batches, kv_len, kv_heads, _ = key["shape"]
    q_lengths, kv_lengths = tensors["actual_seq_lengths_query"], tensors["actual_seq_lengths_kv"]
    rope, table = tensors["query_rope"], tensors.get("block_table")
    packed = layout_query == "TND"
    return SparseProblem(
        batch=_given(tensors, "actual_seq_lengths_query")["shape"][0] if packed else batches,
        q_rows=batches * q_len,
        q_len=q_len,
        kv_rows=kv_batches * kv_len,
        kv_len=kv_len,
        q_heads=q_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=head_dim if merged else _given(tensors, "value")["shape"][3],
        rope_dim=0 if rope is None else rope["shape"][3],
        slots=indices["shape"][3],
        dtype=query["dtype"],
        scale_value=scale_value,
        block_size=block_size,
        packed=packed,
        sparse_mode=sparse_mode,
        paged=layout_kv == PAGED,
        pages=0 if table is None else table["shape"][1],
        merged=merged,
        has_sinks=tensors.get("sinks") is not None,
        has_q_lengths=q_lengths is not None,
        has_kv_lengths=kv_lengths is not None,
    )


def _given(tensors: dict[str, dict | None], name: str) -> dict:
    """A tensor that op_info says is there."""
    tensor = tensors[name]
    if tensor is None:
        raise OpArgumentError(describe("sparse_flash_attention", name, None, "a tensor"))
    return tensor
