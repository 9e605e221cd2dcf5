# SPDX-License-Identifier: Apache-2.0
"""Sparse attention: the public functions over the generated primitives. Usable in construct and in plain Python.

Whatever decides is static (shapes, dtypes, attributes, ``is None``) and computed by one constexpr per function; the
rest is tensor code that gives TND tensors a batch axis of 1 and pads rows to whole blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, ops
from mindspore.common import dtype as mstype

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.mindspore import sparse_plan as plans
from ms_custom_ops.mindspore.attention_plan import Operand
from ms_custom_ops.mindspore.custom import dtype_name
from ms_custom_ops.mindspore.lowered import about as shape_dtype
from ms_custom_ops.mindspore.lowered import about as shape_dtype_or_values
from ms_custom_ops.mindspore.lowered import pad_last
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


def _operands(tensors: Any) -> list[Any]:
    return [_operand(entry) for entry in tensors]


def _operand(entry: Any) -> Operand:
    """Of (shape, dtype) of a tensor, (values, None) of a list, (None, None) of None."""
    shape, dtype = entry
    if shape is None:
        return Operand(None, None)
    if isinstance(dtype, np.dtype):
        return Operand(tuple(shape), f"{dtype} (a NumPy array)")
    return Operand(tuple(shape), dtype_name(dtype)) if dtype is not None else Operand(None, None, tuple(shape))


def _attention_tuple(plan):
    p = plan.problem
    return (
        p.empty,
        p.packed,
        p.n2,
        p.group,
        p.stats_shape(),
        plan.value_dim,
        plan.rope_dim,
        plan.pad_k,
        plan.pad_group,
        plan.pad_pages,
        plan.pad_lengths,
        plan.merged,
        plan.scale,
    )


@ops.constexpr
def _plan_attention(tensors, attributes):
    return _attention_tuple(plans.plan_attention("sparse_flash_attention", *_operands(tensors), *attributes))


@ops.constexpr
def _plan_gradient(tensors, extra, attributes):
    op = "sparse_flash_attention_grad"
    operands = _operands(tensors)
    plan = plans.plan_attention(op, *operands, *attributes)
    return _attention_tuple(plans.plan_gradient(op, plan, operands[0], *_operands(extra)))


@ops.constexpr
def _plan_indexer(tensors, attributes):
    plan = plans.plan_indexer("lightning_indexer", *_operands(tensors), *attributes)
    return (
        plan.problem.empty,
        plan.problem.packed,
        plan.problem.lead_q,
        plan.pad_weights,
        plan.pad_pages,
        plan.pad_lengths,
    )


@ops.constexpr
def _plan_kl(tensors, attributes):
    plan = plans.plan_kl("sparse_lightning_indexer_grad_kl_loss", *_operands(tensors), *attributes)
    return (
        plan.problem.empty,
        plan.problem.packed,
        plan.pad_weights,
        plan.pad_lengths,
        plan.pad_k,
        plan.pad_group,
        plan.scale,
    )


@ops.constexpr
def _lengths_tensor(values, pad, packed):
    filler = (values[-1] if packed else 0,) * pad
    return Tensor(np.array(tuple(values) + filler, np.int32))


def _lengths(lengths, pad, packed):
    """int32 lengths padded to whole blocks; prefix sums by repeating the last: sequences without tokens."""
    if lengths is None:
        return None
    if isinstance(lengths, (list, tuple)):
        return _lengths_tensor(tuple(lengths), pad, packed)
    lengths = ops.cast(ops.stop_gradient(lengths), mstype.int32)
    if pad == 0:
        return lengths
    filler = ops.tile(lengths[-1:], (pad,)) if packed else ops.zeros((pad,), mstype.int32)
    return ops.concat((lengths, filler), 0)


def _pages(table, pad):
    if table is None:
        return None
    return pad_last(ops.cast(ops.stop_gradient(table), mstype.int32), pad, 0.0)


def _batched(x, packed):
    """A batch axis of 1 in front of a packed tensor."""
    if x is None or not packed:
        return x
    return ops.expand_dims(x, 0)


def _unbatched(x, packed):
    return ops.reshape(x, x.shape[1:]) if packed else x


def _sink_rows(sinks, query, packed, n2, group, pad):
    """Sinks (N1,) as rows (B, N2, S1, G padded) of the statistics; MindSpore sums the gradient back."""
    if sinks is None:
        return None
    rows = pad_last(ops.reshape(sinks, (1, n2, 1, group)), pad, 0.0)
    lead = (1, query.shape[0]) if packed else query.shape[:2]
    return ops.broadcast_to(rows, (lead[0], n2, lead[1], group + pad))


def _nothing():
    """What stands for an output that was not asked for."""
    return ops.zeros((0,), mstype.float32)


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
            again. :func:`check_sparse_indices` finds what is likely a mistake.
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
        return_softmax_lse: also return the statistics; in every mode.
        sinks: float32 (N1,): a score per head that has no value.
        deterministic: in the gradient, one core per sequence adds to its keys, in one order. Off: all cores add
            atomically, in the order of the chip; the engine's order is fixed either way.

    Returns:
        attention_out, query with last axis Dv; softmax_max and softmax_sum, float32 (B, N2, S1, N1/N2) or
        (N2, T1, N1/N2), of the scaled scores with natural exponent, or of shape (0,) when not asked for. A row that
        selects nothing has 0 in all three (with sinks: the sink and 1) and gradient 0.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    tensors = (
        shape_dtype(query),
        shape_dtype(key),
        shape_dtype(value),
        shape_dtype(sparse_indices),
        shape_dtype(block_table),
        shape_dtype_or_values(actual_seq_lengths_query),
        shape_dtype_or_values(actual_seq_lengths_kv),
        shape_dtype(query_rope),
        shape_dtype(key_rope),
        shape_dtype(sinks),
    )
    plan = _plan_attention(
        tensors,
        (scale_value, sparse_block_size, layout_query, layout_kv, sparse_mode, pre_tokens, next_tokens, attention_mode),
    )
    (
        empty,
        packed,
        n2,
        group,
        stats_shape,
        value_dim,
        rope_dim,
        pad_k,
        pad_group,
        pad_pages,
        pad_lengths,
        merged,
        scale,
    ) = plan
    if empty:
        stats = ops.zeros(stats_shape, mstype.float32) if return_softmax_lse else _nothing()
        return ops.zeros(query.shape[:-1] + (value_dim,), query.dtype), stats, stats
    paged = layout_kv == "PA_BSND"
    keys = _batched(key, packed and not paged)
    out, softmax_max, softmax_sum = mco_generated_ops.sparse_flash_attention(
        _batched(query, packed),
        keys,
        keys if merged else _batched(value, packed and not paged),
        _batched(pad_last(ops.stop_gradient(sparse_indices), pad_k, -1.0), packed),
        _pages(block_table, pad_pages),
        _lengths(actual_seq_lengths_query, pad_lengths, packed),
        _lengths(actual_seq_lengths_kv, pad_lengths, packed and not paged),
        _batched(query_rope, packed),
        _batched(key_rope, packed and not paged),
        _sink_rows(sinks, query, packed, n2, group, pad_group),
        scale_value=scale,
        sparse_block_size=sparse_block_size,
        layout_query=layout_query,
        layout_kv=layout_kv,
        sparse_mode=sparse_mode,
        rope_dim=rope_dim,
        pre_tokens=pre_tokens,
        next_tokens=next_tokens,
        attention_mode=attention_mode,
        deterministic=deterministic,
        kv_merged=merged,
    )
    out = _unbatched(out, packed)
    if not return_softmax_lse:
        return out, _nothing(), _nothing()
    return (out, _unbatched(softmax_max[..., :group], packed), _unbatched(softmax_sum[..., :group], packed))


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
    tensors = (
        shape_dtype(query),
        shape_dtype(key),
        shape_dtype(value),
        shape_dtype(sparse_indices),
        (None, None),
        shape_dtype_or_values(actual_seq_qlen),
        shape_dtype_or_values(actual_seq_kvlen),
        shape_dtype(query_rope),
        shape_dtype(key_rope),
        (None, None),
    )
    extra = (shape_dtype(d_out), shape_dtype(out), shape_dtype(softmax_max), shape_dtype(softmax_sum))
    plan = _plan_gradient(
        tensors,
        extra,
        (scale_value, sparse_block_size, layout, layout, sparse_mode, pre_tokens, next_tokens, attention_mode),
    )
    empty, packed, _, _, _, _, rope_dim, pad_k, pad_group, _, pad_lengths, merged, scale = plan
    if empty:
        return (
            ops.zeros_like(query),
            ops.zeros_like(key),
            _nothing() if merged else ops.zeros_like(value),
            _nothing() if query_rope is None else ops.zeros_like(query_rope),
            _nothing() if key_rope is None else ops.zeros_like(key_rope),
        )
    keys = _batched(key, packed)
    grads = mco_generated_ops.sparse_flash_attention_grad(
        _batched(query, packed),
        keys,
        keys if merged else _batched(value, packed),
        _batched(pad_last(sparse_indices, pad_k, -1.0), packed),
        _batched(d_out, packed),
        _batched(out, packed),
        _batched(pad_last(softmax_max, pad_group, 0.0), packed),
        _batched(pad_last(softmax_sum, pad_group, 0.0), packed),
        None,
        _lengths(actual_seq_qlen, pad_lengths, packed),
        _lengths(actual_seq_kvlen, pad_lengths, packed),
        _batched(query_rope, packed),
        _batched(key_rope, packed),
        scale_value=scale,
        sparse_block_size=sparse_block_size,
        layout=layout,
        sparse_mode=sparse_mode,
        rope_dim=rope_dim,
        pre_tokens=pre_tokens,
        next_tokens=next_tokens,
        attention_mode=attention_mode,
        deterministic=deterministic,
        kv_merged=merged,
    )
    d_query, d_key, d_value, d_query_rope, d_key_rope = grads[0], grads[1], grads[2], grads[3], grads[4]
    return (
        _unbatched(d_query, packed),
        ops.cast(_unbatched(d_key, packed), key.dtype),
        _nothing() if merged else ops.cast(_unbatched(d_value, packed), key.dtype),
        _nothing() if query_rope is None else _unbatched(d_query_rope, packed),
        _nothing() if key_rope is None else ops.cast(_unbatched(d_key_rope, packed), key.dtype),
    )


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
    tensors = (
        shape_dtype(query),
        shape_dtype(key),
        shape_dtype(weights),
        shape_dtype_or_values(actual_seq_lengths_query),
        shape_dtype_or_values(actual_seq_lengths_key),
        shape_dtype(block_table),
    )
    plan = _plan_indexer(tensors, (layout_query, layout_key, sparse_count, sparse_mode, pre_tokens, next_tokens))
    empty, packed, lead, pad_weights, pad_pages, pad_lengths = plan
    if empty:
        shape = lead + (1, sparse_count)
        return ops.full(shape, -1, dtype=mstype.int32), ops.zeros(shape, query.dtype) if return_value else _nothing()
    paged = layout_key == "PA_BSND"
    weights = pad_last(ops.cast(ops.stop_gradient(weights), mstype.float32), pad_weights, 0.0)
    indices, values = mco_generated_ops.lightning_indexer(
        _batched(ops.stop_gradient(query), packed),
        _batched(ops.stop_gradient(key), packed and not paged),
        _batched(weights, packed),
        _lengths(actual_seq_lengths_query, pad_lengths, packed),
        _lengths(actual_seq_lengths_key, pad_lengths, packed and not paged),
        _pages(block_table, pad_pages),
        layout_query=layout_query,
        layout_key=layout_key,
        sparse_count=sparse_count,
        sparse_mode=sparse_mode,
    )
    indices = _unbatched(indices[..., :sparse_count], packed)
    if not return_value:
        return indices, _nothing()
    return indices, ops.cast(_unbatched(values[..., :sparse_count], packed), query.dtype)


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
    tensors = (
        shape_dtype(query),
        shape_dtype(key),
        shape_dtype(query_index),
        shape_dtype(key_index),
        shape_dtype(weights),
        shape_dtype(sparse_indices),
        shape_dtype(softmax_max),
        shape_dtype(softmax_sum),
        shape_dtype(query_rope),
        shape_dtype(key_rope),
        shape_dtype_or_values(actual_seq_qlen),
        shape_dtype_or_values(actual_seq_klen),
    )
    plan = _plan_kl(tensors, (scale_value, layout, sparse_mode))
    empty, packed, pad_weights, pad_lengths, pad_k, pad_group, scale = plan
    if empty:
        return (
            ops.zeros_like(query_index),
            ops.zeros_like(key_index),
            ops.zeros_like(weights),
            ops.zeros((1,), mstype.float32),
        )
    wide = pad_last(ops.cast(weights, mstype.float32), pad_weights, 0.0)
    d_query, d_key, d_weights, rows = mco_generated_ops.sparse_lightning_indexer_grad_kl_loss(
        _batched(query, packed),
        _batched(key, packed),
        _batched(query_index, packed),
        _batched(key_index, packed),
        _batched(wide, packed),
        _batched(pad_last(sparse_indices, pad_k, -1.0), packed),
        _batched(pad_last(softmax_max, pad_group, 0.0), packed),
        _batched(pad_last(softmax_sum, pad_group, 0.0), packed),
        _batched(query_rope, packed),
        _batched(key_rope, packed),
        _lengths(actual_seq_qlen, pad_lengths, packed),
        _lengths(actual_seq_klen, pad_lengths, packed),
        scale_value=scale,
        layout=layout,
        sparse_mode=sparse_mode,
        deterministic=deterministic,
    )
    heads = weights.shape[-1]
    return (
        _unbatched(d_query, packed),
        ops.cast(_unbatched(d_key, packed), key_index.dtype),
        ops.cast(_unbatched(d_weights[..., :heads], packed), weights.dtype),
        ops.reshape(rows[..., :1].sum(), (1,)),
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
    """Inner product in float32, linear in ``x`` with ``gradient`` as its slope."""
    return (ops.cast(x, mstype.float32) * ops.cast(ops.stop_gradient(gradient), mstype.float32)).sum()
