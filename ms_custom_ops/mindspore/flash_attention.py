# SPDX-License-Identifier: Apache-2.0
"""``flash_attention``: the public function over the generated primitive. Usable in construct and in plain
Python.

Whatever decides is static (shapes, dtypes, ``is None``) and computed by one constexpr; the rest is tensor
code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, ops
from mindspore.common import dtype as mstype

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.mindspore.attention_plan import OP, Operand, plan_call
from ms_custom_ops.mindspore.custom import dtype_name
from ms_custom_ops.registry import get_op
from ms_custom_ops.registry.call_values import full_attrs

_ATTRIBUTES = (
    "seed",
    "sparse_mode",
    "pre_tokens",
    "next_tokens",
    "prev_block_num",
    "next_block_num",
    "tiling_stgy_name",
    "high_precision",
)


def _operand(shape: Any, dtype: Any) -> Operand:
    if shape is None:
        return Operand(None, None)
    return Operand(tuple(shape), dtype_name(dtype))


def _length_operand(shape: Any, dtype: Any) -> Operand:
    """Of a tensor's shape and dtype, or of a list (dtype None)."""
    return _operand(shape, dtype) if dtype is not None or shape is None else Operand(None, None, tuple(shape))


@ops.constexpr
def _plan(query, key, value, attn_mask, real_shift, drop_mask, q_lengths, kv_lengths, scale_value, keep_prob, attrs):
    """Plan as a tuple, in the order of flash_attention's use of it.

    Each argument is (shape, dtype) or a value; ``attrs`` are the values of _ATTRIBUTES, whose types are checked
    here so that a refusal names this op and not the gradient, which is built first.
    """
    plan = plan_call(
        _operand(*query),
        _operand(*key),
        _operand(*value),
        _operand(*attn_mask),
        _operand(*real_shift),
        _operand(*drop_mask),
        _length_operand(*q_lengths),
        _length_operand(*kv_lengths),
        scale_value,
        keep_prob,
    )
    full_attrs(get_op(OP), dict(zip(_ATTRIBUTES, attrs, strict=True)))
    return (
        plan.empty,
        plan.stats_shape,
        plan.head_dim,
        plan.pad_d,
        plan.pad_s1,
        plan.pad_s2,
        plan.pad_b,
        plan.scale,
        plan.mask,
    )


@ops.constexpr
def _lengths_tensor(lengths, pad):
    return Tensor(np.array(tuple(lengths) + (0,) * pad, np.int32))


def shape_dtype(x):
    """(shape, dtype) of a tensor, (None, None) of None."""
    if x is None:
        return (None, None)
    return (x.shape, x.dtype)


def shape_dtype_or_values(x):
    """(shape, dtype) of a tensor, (values, None) of a list or tuple, (None, None) of None."""
    if isinstance(x, (list, tuple)):
        return (tuple(x), None)
    return shape_dtype(x)


def pad_last(x, count, value):
    """``count`` elements of ``value`` appended to the last axis. Concat is the one of MindSpore's ways to pad
    that its CPU back end has for bfloat16 too."""
    if count == 0:
        return x
    filler = ops.cast(ops.full(x.shape[:-1] + (count,), value, dtype=mstype.float32), x.dtype)
    return ops.concat((x, filler), -1)


def take_last(x, count):
    """The first ``count`` elements of the last axis. MindSpore's CPU back end cannot slice bfloat16; float32
    holds every bfloat16 exactly."""
    if x.shape[-1] == count:
        return x
    if x.dtype == mstype.bfloat16:
        return ops.cast(ops.cast(x, mstype.float32)[..., :count], mstype.bfloat16)
    return x[..., :count]


def _flags(mask):
    """0 and 1 as float16; any other value than 0 counts as 1."""
    if mask.dtype != mstype.bool_:
        mask = ops.not_equal(mask, ops.zeros_like(mask))
    return ops.cast(mask, mstype.float16)


def _prepared_mask(mask, shapes, pad):
    if mask is None:
        return None
    mask = ops.reshape(_flags(ops.stop_gradient(mask)), shapes[0])
    if shapes[0] != shapes[1]:
        mask = ops.broadcast_to(mask, shapes[1])
    return pad_last(mask, pad, 1.0)


def _prepared_lengths(lengths, pad):
    if lengths is None:
        return None
    if isinstance(lengths, (list, tuple)):
        return _lengths_tensor(lengths, pad)
    lengths = ops.cast(ops.stop_gradient(lengths), mstype.int32)
    if pad == 0:
        return lengths
    return ops.concat((lengths, ops.zeros((pad,), mstype.int32)), 0)


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    real_shift: Tensor | None = None,
    drop_mask: Tensor | None = None,
    actual_seq_qlen: Tensor | list[int] | tuple[int, ...] | None = None,
    actual_seq_kvlen: Tensor | list[int] | tuple[int, ...] | None = None,
    *,
    scale_value: float | None = None,
    keep_prob: float = 1.0,
    seed: int = 0,
    sparse_mode: int = 0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647,
    prev_block_num: int = 65536,
    next_block_num: int = 65536,
    tiling_stgy_name: str = "auto",
    high_precision: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Scaled dot-product attention without the S1 x S2 matrix in memory; layout BNSD.

    ``attention_out = dropout(softmax(mask(scale_value * query @ key^T + real_shift))) @ value``
    (op_impl/flash_attention/README.md has the formulas and the order of the masks).

    Args:
        query: (B, N1, S1, D), float16, or bfloat16 on split-core chips. D from 1 to 256.
        key: (B, N2, S2, D), dtype of query; N1 is a multiple of N2 (grouped heads).
        value: shape and dtype of key.
        attn_mask: bool, uint8 or float16, broadcastable to (B, N1, S1, S2); 1 = masked.
        real_shift: float16, bfloat16 or float32 (used in the dtype of query), (1 or B, N1, 1 or S1, S2);
            added to the scaled scores. :func:`alibi_slopes` helps with ALiBi.
        drop_mask: bool, uint8 or float16, (B, N1, S1, S2); 1 = kept. Takes the place of ``seed``; what is
            kept is divided by ``keep_prob``.
        actual_seq_qlen: int32 or int64 tensor (B,) or a list of B ints: tokens of query in each batch, 0 to
            S1.
        actual_seq_kvlen: the same for key and value, 0 to S2.
        scale_value: factor on the scores, applied inside; None means D^-0.5.
        keep_prob: probability to keep a weight, 0 < keep_prob <= 1. Below 1 without ``drop_mask``, the mask
            comes from a counter-based generator and is made again in the backward pass.
        seed: seed of that generator. It is part of the graph: the same seed drops the same weights at every
            step.
        sparse_mode: 0 none, 3 causal aligned to the lower right, 4 band of ``pre_tokens`` and ``next_tokens``
            around the lower-right diagonal. Modes and ``attn_mask`` both apply.
        pre_tokens: mode 4: keys kept to the left of the diagonal.
        next_tokens: mode 4: keys kept to the right of the diagonal.
        prev_block_num: blocks of 128 keys kept before the block of the query.
        next_block_num: blocks of 128 keys kept after the block of the query.
        tiling_stgy_name: "auto", "sparse", "wukong" or "xunfei".
        high_precision: exponent, sum and output accumulate in float32.

    Returns:
        attention_out, shape and dtype of query; softmax_max and softmax_sum, float32 (B, N1, S1), of the
        scaled scores with the natural exponent. A row with all keys masked has 0 in all three and gradient 0.
        Gradients flow from attention_out to query, key and value only. With B = 0 or N1 = 0 the outputs are
        empty.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    plan = _plan(
        shape_dtype(query),
        shape_dtype(key),
        shape_dtype(value),
        shape_dtype(attn_mask),
        shape_dtype(real_shift),
        shape_dtype(drop_mask),
        shape_dtype_or_values(actual_seq_qlen),
        shape_dtype_or_values(actual_seq_kvlen),
        scale_value,
        keep_prob,
        (seed, sparse_mode, pre_tokens, next_tokens, prev_block_num, next_block_num, tiling_stgy_name, high_precision),
    )
    empty, stats_shape, head_dim, pad_d, pad_s1, pad_s2, pad_b, scale, mask_shapes = plan
    if empty:
        stats = ops.zeros(stats_shape, mstype.float32)
        return ops.zeros_like(query), stats, stats
    if real_shift is not None:
        real_shift = pad_last(ops.cast(ops.stop_gradient(real_shift), query.dtype), pad_s2, 0.0)
    if drop_mask is not None:
        drop_mask = pad_last(_flags(ops.stop_gradient(drop_mask)), pad_s2, 0.0)
    out, softmax_max, softmax_sum = mco_generated_ops.flash_attention(
        pad_last(query, pad_d, 0.0),
        pad_last(key, pad_d, 0.0),
        pad_last(value, pad_d, 0.0),
        _prepared_mask(attn_mask, mask_shapes, pad_s2),
        real_shift,
        drop_mask,
        _prepared_lengths(actual_seq_qlen, pad_b),
        _prepared_lengths(actual_seq_kvlen, pad_b),
        scale_value=scale,
        keep_prob=keep_prob,
        seed=seed,
        sparse_mode=sparse_mode,
        pre_tokens=pre_tokens,
        next_tokens=next_tokens,
        prev_block_num=prev_block_num,
        next_block_num=next_block_num,
        tiling_stgy_name=tiling_stgy_name,
        high_precision=high_precision,
    )
    if pad_s1 != 0:
        softmax_max = softmax_max[..., : stats_shape[2]]
        softmax_sum = softmax_sum[..., : stats_shape[2]]
    return take_last(out, head_dim), softmax_max, softmax_sum
