# SPDX-License-Identifier: Apache-2.0
"""Sparse attention: the public functions over the generated primitives. Usable in construct and in plain Python."""

from __future__ import annotations

from mindspore import Tensor, ops
from mindspore.common import dtype as mstype

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.mindspore.lowered import check_tensors, lowered
from ms_custom_ops.op_impl.sparse_flash_attention.helpers import (
    check_sparse_indices,
    counts_to_prefix_sums,
    dense_sparse_indices,
    get_workspace_size,
    prefix_sums_to_counts,
)

__all__ = [
    "check_sparse_indices",
    "counts_to_prefix_sums",
    "dense_sparse_indices",
    "indexer_kl_loss",
    "lightning_indexer",
    "prefix_sums_to_counts",
    "sparse_flash_attention",
    "sparse_flash_attention_grad",
    "sparse_lightning_indexer_grad_kl_loss",
    "get_workspace_size",
]

_UNLIMITED = 9223372036854775807
_KL_TENSORS = (
    *("query", "key", "query_index", "key_index", "weights", "sparse_indices", "softmax_max", "softmax_sum"),
    *("query_rope", "key_rope"),
)


def sparse_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    sparse_indices: Tensor,
    scale_value: float,
    *,
    block_table: Tensor | None = None,
    actual_seq_lengths_query: Tensor | list[int] | tuple[int, ...] | None = None,
    actual_seq_lengths_kv: Tensor | list[int] | tuple[int, ...] | None = None,
    query_rope: Tensor | None = None,
    key_rope: Tensor | None = None,
    sparse_block_size: int = 1,
    layout_query: str = "BSND",
    layout_kv: str = "BSND",
    sparse_mode: int = 3,
    pre_tokens: int = _UNLIMITED,
    next_tokens: int = _UNLIMITED,
    attention_mode: int = 0,
    return_softmax_lse: bool = False,
    sinks: Tensor | None = None,
    deterministic: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of every query row over the key blocks that its index row names; trainable.

    For the row's visible keys ``n`` (all of its sequence, or causally ``Lkv - Lq + i + 1``) the first
    ``min(K, ceil(n / sparse_block_size))`` ids are read, up to the first negative one; each names the tokens
    ``[id, id + 1) * sparse_block_size``, cut at ``n``. Then ``softmax(scale_value * (q k^T + q_rope k_rope^T)) @
    value`` over these tokens (op_impl/sparse_flash_attention/README.md has the formulas).

    Args:
        query: (B, S1, N1, D) or, TND, (T1, N1, D); float16, or bfloat16 on split-core chips. D a multiple
            of 16, at most 512.
        key: (B, S2, N2, D), (T2, N2, D) or, paged, (blocks, block_size, N2, D); dtype of query. N1 is a multiple of N2,
            at most 128 times.
        value: as key, with a last axis Dv of its own; None: key is the value, and the gradient of key is the sum of
            both parts.
        sparse_indices: int32 (B, S1, N2, K) or (T1, N2, K): ids of blocks within the sequence. A repeated id counts
            again; one out of range names nothing and does not end the list. :func:`check_sparse_indices` finds what is
            likely a mistake.
        scale_value: factor on the scores.
        block_table: int32 (B, pages): the pages of each sequence, for layout_kv "PA_BSND" (no gradient).
        actual_seq_lengths_query: int32 or int64 tensor (B,) or a list. BSND: tokens of each sequence, None means all;
            TND: inclusive prefix sums (:func:`counts_to_prefix_sums`), needed.
        actual_seq_lengths_kv: likewise; paged: tokens of each sequence, needed.
        query_rope, key_rope: rotary parts, shapes of query and key with a last axis that is a multiple of 16, at most
            64; both or neither.
        sparse_block_size: tokens that an id names, 1 to 128.
        layout_query: "BSND" or "TND".
        layout_kv: layout_query, or "PA_BSND".
        sparse_mode: 0 none, 3 causal aligned to the lower right.
        pre_tokens, next_tokens: only 2^63 - 1: no window.
        attention_mode: 0 and 2 are the same.
        return_softmax_lse: also return the statistics, which have gradients as attention_out has; in every mode.
        sinks: float32 (N1,): a score per head that has no value. -inf is no sink; with +inf the head attends to
            nothing: output and gradients are 0, and softmax_max is the largest float32.
        deterministic: in the gradient, one core per sequence adds to its keys, in one order. Off: all cores add
            atomically, in the order of the chip; the engine's order is fixed either way.

    Returns:
        attention_out, query with last axis Dv; softmax_max and softmax_sum, float32 (B, N2, S1, N1/N2) or
        (N2, T1, N1/N2), of the scaled scores with natural exponent, or of shape (0,) when not asked for. A row that
        selects nothing has 0 in all three (with sinks: the sink and 1) and gradient 0.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    given = (
        query,
        key,
        value,
        sparse_indices,
        block_table,
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        query_rope,
        key_rope,
        sinks,
    )
    attrs = {
        "scale_value": scale_value,
        "sparse_block_size": sparse_block_size,
        "layout_query": layout_query,
        "layout_kv": layout_kv,
        "sparse_mode": sparse_mode,
        "pre_tokens": pre_tokens,
        "next_tokens": next_tokens,
        "attention_mode": attention_mode,
        "return_softmax_lse": return_softmax_lse,
        "deterministic": deterministic,
    }
    return lowered("sparse_flash_attention", mco_generated_ops.sparse_flash_attention, given, attrs)


def sparse_flash_attention_grad(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    sparse_indices: Tensor,
    d_out: Tensor,
    out: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    scale_value: float,
    sparse_block_size: int = 1,
    query_rope: Tensor | None = None,
    key_rope: Tensor | None = None,
    actual_seq_qlen: Tensor | list[int] | tuple[int, ...] | None = None,
    actual_seq_kvlen: Tensor | list[int] | tuple[int, ...] | None = None,
    layout: str = "BSND",
    sparse_mode: int = 3,
    pre_tokens: int = _UNLIMITED,
    next_tokens: int = _UNLIMITED,
    attention_mode: int = 0,
    *,
    deterministic: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradient of :func:`sparse_flash_attention`, for callers that do not use its own.

    Args:
        d_out: gradient of attention_out. out, softmax_max, softmax_sum: outputs of the forward call with
            return_softmax_lse. The rest is as in the forward call.

    Returns:
        d_query, d_key, d_value, d_query_rope, d_key_rope in shape and dtype of the inputs. Without value, d_key is the
        sum of both parts and d_value of shape (0,); without rope, its gradients are of shape (0,).

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    given = (
        query,
        key,
        value,
        sparse_indices,
        d_out,
        out,
        softmax_max,
        softmax_sum,
        query_rope,
        key_rope,
        actual_seq_qlen,
        actual_seq_kvlen,
    )
    attrs = {
        "scale_value": scale_value,
        "sparse_block_size": sparse_block_size,
        "layout": layout,
        "sparse_mode": sparse_mode,
        "pre_tokens": pre_tokens,
        "next_tokens": next_tokens,
        "attention_mode": attention_mode,
        "deterministic": deterministic,
    }
    return lowered("sparse_flash_attention_grad", mco_generated_ops.sparse_flash_attention_grad, given, attrs)


def lightning_indexer(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    *,
    actual_seq_lengths_query: Tensor | list[int] | tuple[int, ...] | None = None,
    actual_seq_lengths_key: Tensor | list[int] | tuple[int, ...] | None = None,
    block_table: Tensor | None = None,
    layout_query: str = "BSND",
    layout_key: str = "BSND",
    sparse_count: int = 2048,
    sparse_mode: int = 3,
    pre_tokens: int = _UNLIMITED,
    next_tokens: int = _UNLIMITED,
    return_value: bool = False,
) -> tuple[Tensor, Tensor]:
    """The ``sparse_count`` best keys of every query row by ``sum over heads of weights * relu(query . key)``.

    Args:
        query: (B, S1, N1, D) or, TND, (T1, N1, D); float16, or bfloat16 on split-core chips. N1 from 1 to 128; D a
            multiple of 16, at most 256.
        key: (B, S2, 1, D), (T2, 1, D) or, paged, (blocks, block_size, 1, D); dtype of query.
        weights: (B, S1, N1) or (T1, N1); dtype of query or float32.
        actual_seq_lengths_query, actual_seq_lengths_key, block_table, layout_query, layout_key, sparse_mode: as in
            :func:`sparse_flash_attention`.
        sparse_count: 1 to 8192.
        pre_tokens, next_tokens: only 2^63 - 1: no window.
        return_value: also return the scores; in every mode.

    Returns:
        sparse_indices, int32 (B, S1, 1, sparse_count) or (T1, 1, sparse_count): tokens within the sequence, best first,
        equal scores by ascending token, -1 in unused slots; sparse_values, their scores in the dtype of query (0 in
        unused slots), or of shape (0,) when not asked for. No gradient flows through either.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    given = (query, key, weights, actual_seq_lengths_query, actual_seq_lengths_key, block_table)
    attrs = {
        "layout_query": layout_query,
        "layout_key": layout_key,
        "sparse_count": sparse_count,
        "sparse_mode": sparse_mode,
        "pre_tokens": pre_tokens,
        "next_tokens": next_tokens,
        "return_value": return_value,
    }
    return lowered("lightning_indexer", mco_generated_ops.lightning_indexer, given, attrs)


def sparse_lightning_indexer_grad_kl_loss(
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    sparse_indices: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    query_rope: Tensor | None = None,
    key_rope: Tensor | None = None,
    actual_seq_qlen: Tensor | list[int] | tuple[int, ...] | None = None,
    actual_seq_klen: Tensor | list[int] | tuple[int, ...] | None = None,
    *,
    scale_value: float,
    layout: str = "BSND",
    sparse_mode: int = 3,
    deterministic: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """KL divergence of the indexer's softmax from the main attention over the selected tokens, and its gradient.

    The main attention (query, key, rope parts, softmax_max and softmax_sum of :func:`sparse_flash_attention` with the
    same indices) is summed over heads, normalised, and a constant. :func:`indexer_kl_loss` is the form to train with.

    Args:
        query: (B, S1, N1, D) or (T1, N1, D). key: one head.
        query_index: (B, S1, Ni, Di) or (T1, Ni, Di). key_index: one head. Ni from 1 to 128; Di a multiple of 16, at
            most 256.
        weights: (B, S1, Ni) or (T1, Ni); dtype of query or float32.
        sparse_indices: int32 (B, S1, 1, K) or (T1, 1, K), token ids.
        scale_value, lengths, layout, sparse_mode: as in :func:`sparse_flash_attention`.
        deterministic: one core per sequence adds to the key gradient, in one order.

    Returns:
        d_query_index, d_key_index, d_weights in shape and dtype of the inputs; loss, float32 (1,), summed over rows.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    given = (
        query,
        key,
        query_index,
        key_index,
        weights,
        sparse_indices,
        softmax_max,
        softmax_sum,
        query_rope,
        key_rope,
        actual_seq_qlen,
        actual_seq_klen,
    )
    attrs = {"scale_value": scale_value, "layout": layout, "sparse_mode": sparse_mode, "deterministic": deterministic}
    return lowered(
        "sparse_lightning_indexer_grad_kl_loss", mco_generated_ops.sparse_lightning_indexer_grad_kl_loss, given, attrs
    )


def indexer_kl_loss(
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    sparse_indices: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    query_rope: Tensor | None = None,
    key_rope: Tensor | None = None,
    actual_seq_qlen: Tensor | list[int] | tuple[int, ...] | None = None,
    actual_seq_klen: Tensor | list[int] | tuple[int, ...] | None = None,
    *,
    scale_value: float,
    layout: str = "BSND",
    sparse_mode: int = 3,
    deterministic: bool = False,
) -> Tensor:
    """The loss of :func:`sparse_lightning_indexer_grad_kl_loss` as a float32 scalar, shape (), whose gradient flows to
    query_index, key_index and weights, and to nothing else."""
    given = (
        query,
        key,
        query_index,
        key_index,
        weights,
        sparse_indices,
        softmax_max,
        softmax_sum,
        query_rope,
        key_rope,
    )
    check_tensors("sparse_lightning_indexer_grad_kl_loss", _KL_TENSORS, given)
    constants = [
        None if x is None else ops.stop_gradient(x)
        for x in (query, key, sparse_indices, softmax_max, softmax_sum, query_rope, key_rope)
    ]
    query, key, sparse_indices, softmax_max, softmax_sum, query_rope, key_rope = constants
    d_query, d_key, d_weights, loss = sparse_lightning_indexer_grad_kl_loss(
        query,
        key,
        ops.stop_gradient(query_index),
        ops.stop_gradient(key_index),
        ops.stop_gradient(weights),
        sparse_indices,
        softmax_max,
        softmax_sum,
        query_rope,
        key_rope,
        actual_seq_qlen,
        actual_seq_klen,
        scale_value=scale_value,
        layout=layout,
        sparse_mode=sparse_mode,
        deterministic=deterministic,
    )
    # A linear function of the trained tensors whose value is taken away again: what stays of it is its gradient.
    slope = _inner(query_index, d_query) + _inner(key_index, d_key) + _inner(weights, d_weights)
    return ops.reshape(ops.stop_gradient(loss), ()) + (slope - ops.stop_gradient(slope))


def _inner(x, gradient):
    """Inner product in float32, linear in ``x`` with ``gradient`` as its slope; 0 where that is 0, whatever x holds."""
    x, gradient = ops.cast(x, mstype.float32), ops.cast(ops.stop_gradient(gradient), mstype.float32)
    zeros = ops.zeros_like(x)
    return (ops.where(ops.equal(gradient, zeros), zeros, x) * gradient).sum()
