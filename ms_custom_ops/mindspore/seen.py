# SPDX-License-Identifier: Apache-2.0
"""``op_impl/flash_attention/seen.py`` in a graph."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, ops
from mindspore.common import dtype as mstype

from ms_custom_ops.op_impl.flash_attention.seen import MASK_BLOCK


@ops.constexpr
def _positions(count):
    """(1, count) positions, and the first of the block of each."""
    at = np.arange(count, dtype=np.int32)[None]
    return Tensor(at), Tensor(at // MASK_BLOCK * MASK_BLOCK)


@ops.constexpr
def _int_tensor(value):
    return Tensor(np.array(value, np.int32))


def _length(lengths, most):
    """(B, 1) lengths in their range; (1, 1) where there are none."""
    if lengths is None:
        return _int_tensor(((most,),))
    lengths = ops.cast(ops.stop_gradient(lengths), mstype.int32)
    return ops.clip_by_value(ops.expand_dims(lengths, 1), _int_tensor(0), _int_tensor(most))


def _between(at, block, shift, before, after, blocks_before, blocks_after, length):
    """First and one past the last position that each of ``at`` reaches on the other side."""
    low = ops.maximum(at + (shift - before), block - blocks_before * MASK_BLOCK)
    high = ops.minimum(at + (shift + after + 1), block + (blocks_after + 1) * MASK_BLOCK)
    return ops.maximum(low, _int_tensor(0)), ops.minimum(high, length)


def _under_mask(mask, low, high, inside, columns, kv_heads):
    low, high, inside = ops.expand_dims(low, 2), ops.expand_dims(high, 2), ops.expand_dims(inside, 2)
    columns = ops.expand_dims(columns, 0)
    inside = ops.logical_and(ops.logical_and(ops.less_equal(low, columns), ops.less(columns, high)), inside)
    mask = ops.stop_gradient(mask)
    mask = ops.reshape(mask, (1,) * (4 - mask.ndim) + mask.shape)
    if mask.dtype != mstype.bool_:
        mask = ops.not_equal(mask, ops.zeros_like(mask))
    visible = ops.logical_and(ops.expand_dims(inside, 1), ops.logical_not(mask))
    queries, keys = visible.any(3), visible.any(2)
    if keys.shape[1] > 1:
        keys = ops.reshape(keys, (keys.shape[0], kv_heads, -1, keys.shape[2])).any(2)
    return ops.expand_dims(queries, 3), ops.expand_dims(keys, 3), queries


def seen(q_lengths, kv_lengths, mask, parameters):
    """As the function of this name for arrays."""
    q_len, kv_len, kv_heads, upper, lower, before, after = parameters
    rows, row_block = _positions(q_len)
    columns, column_block = _positions(kv_len)
    q_length, kv_length = _length(q_lengths, q_len), _length(kv_lengths, kv_len)
    shift = kv_length - q_length
    low, high = _between(rows, row_block, shift, lower, upper, before, after, kv_length)
    inside = ops.less(rows, q_length)
    if mask is not None:
        return _under_mask(mask, low, high, inside, columns, kv_heads)
    queries = ops.expand_dims(ops.logical_and(ops.less(low, high), inside), 1)
    low, high = _between(columns, column_block, -shift, upper, lower, after, before, q_length)
    keys = ops.expand_dims(ops.logical_and(ops.less(low, high), ops.less(columns, kv_length)), 1)
    return ops.expand_dims(queries, 3), ops.expand_dims(keys, 3), queries
