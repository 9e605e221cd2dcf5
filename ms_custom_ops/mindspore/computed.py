# SPDX-License-Identifier: Apache-2.0
"""Computed tensors of lowered calls, in a graph: positions of packed sequences, weights of the trapezoid rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, ops
from mindspore.common import dtype as mstype


def compute(function, tensors, sources, parameters):
    """Results of the function of that name, of ``sources``: places in ``tensors``, or tensors of their own."""
    given: tuple[Any, ...] = ()
    for source in sources:
        given = given + (tensors[source] if isinstance(source, int) else source,)
    if function == "trapezoid":
        return _trapezoid(given[0], given[1], given[2] if len(given) > 2 else None, parameters)
    if function == "row_bounds":
        return (_row_bounds(given[0], given[1], parameters),)
    bounds = ops.cast(ops.stop_gradient(given[0]), mstype.int32)
    if function == "packed_places":
        return _packed_places(bounds, parameters)
    if function == "packed_steps":
        return (_range(parameters[0]) < bounds[-1],)
    if function == "slot_places":
        return _slot_places(bounds, parameters)
    return _step_places(bounds, parameters)


@ops.constexpr
def _int_tensor(value):
    return Tensor(np.array(value, np.int32))


@ops.constexpr
def _range(count):
    return Tensor(np.arange(count, dtype=np.int32))


def _slot_places(bounds, parameters):
    """As :func:`ms_custom_ops.op_impl.segsum.chunks.slot_places`. Sequence i has its first slot at
    ``bounds[i] // C + i``, which grows with i."""
    steps, chunk, slots, sequences = parameters
    starts, ends = bounds[:-1], bounds[1:]
    bases = ops.floor_div(starts, chunk) + _range(sequences)
    slot = _range(slots)
    owner = ops.cast(ops.less_equal(ops.expand_dims(bases, 0), ops.expand_dims(slot, 1)), mstype.int32).sum(1) - 1
    first = ops.gather(starts, owner, 0) + (slot - ops.gather(bases, owner, 0)) * chunk
    lengths = ops.clip_by_value(ops.gather(ends, owner, 0) - first, _int_tensor(0), _int_tensor(chunk))
    inside = ops.expand_dims(_range(chunk), 0)
    place = ops.expand_dims(first, 1) + inside
    kept = ops.less(inside, ops.expand_dims(lengths, 1))
    place = ops.select(kept, place, ops.zeros_like(place) + steps)
    return ops.reshape(place, (slots * chunk,)), lengths


def _step_places(bounds, parameters):
    """As :func:`ms_custom_ops.op_impl.segsum.chunks.step_places`."""
    steps, chunk, slots, sequences = parameters
    step = _range(steps)
    owner = ops.cast(ops.less_equal(ops.expand_dims(bounds[1:], 0), ops.expand_dims(step, 1)), mstype.int32).sum(1)
    known = ops.less(owner, _int_tensor(sequences))
    owner = ops.select(known, owner, ops.zeros_like(owner))
    start = ops.gather(bounds, owner, 0)
    place = (ops.floor_div(start, chunk) + owner) * chunk + step - start
    return (ops.select(known, place, ops.zeros_like(place) + slots * chunk),)


def _starts(ends, most):
    """(sequences + 2,) first positions of sequences from inclusive prefix sums; the last two are the end."""
    ends = ops.clip_by_value(ops.cast(ops.stop_gradient(ends), mstype.int32), _int_tensor(0), _int_tensor(most))
    sequences = ends.shape[0]
    before = ops.less_equal(ops.expand_dims(_range(sequences), 0), ops.expand_dims(_range(sequences), 1))
    ends = ops.cast(before, mstype.int32) * ops.expand_dims(ends, 0)
    ends = ops.cast(ops.amax(ops.cast(ends, mstype.float32), 1), mstype.int32)
    return ops.concat((ops.zeros((1,), mstype.int32), ends, ends[-1:]), 0)


def _row_bounds(q_ends, kv_ends, parameters):
    """As :func:`ms_custom_ops.op_impl.flash_attention.packed.row_bounds`."""
    queries, keys, upper, lower = parameters
    q_start, kv_start = _starts(q_ends, queries), _starts(kv_ends, keys)
    rows = _range(queries + -queries % 16)
    behind = ops.expand_dims(rows, 1) >= ops.expand_dims(q_start[1:-1], 0)
    owner = ops.cast(ops.cast(behind, mstype.int32).sum(1), mstype.int32)
    q0, q1 = ops.gather(q_start, owner, 0), ops.gather(q_start, owner + 1, 0)
    k0, k1 = ops.gather(kv_start, owner, 0), ops.gather(kv_start, owner + 1, 0)
    at = k0 + rows - q0 + (k1 - k0) - (q1 - q0)
    low = ops.minimum(ops.maximum(at - lower, k0), k1)
    return ops.stack((low, ops.minimum(ops.maximum(at + upper + 1, low), k1)), 0)


def owner_of(at, bounds, sequences):
    """Index of the sequence that holds each place; ``bounds`` (sequences + 1,) begins with 0."""
    behind = ops.cast(ops.expand_dims(at, 1) >= ops.expand_dims(bounds[1:], 0), mstype.int32).sum(1)
    return ops.clamp(ops.cast(behind, mstype.int32), 0, sequences - 1)


def _divided(x, chunk):
    return ops.cast(ops.floor_divide(x, chunk), mstype.int32)


def _packed_places(cu, parameters):
    """As :func:`ms_custom_ops.op_impl.ssd_chunk_scan.public.packed_places`."""
    steps, chunk, rows, sequences = parameters
    first = _divided(cu, chunk) + ops.cast(ops.arange(sequences + 1), mstype.int32)
    row = ops.cast(ops.arange(rows), mstype.int32)
    one = owner_of(_divided(row, chunk), first, sequences)
    step = ops.gather(cu, one, 0) + row - ops.gather(first, one, 0) * chunk
    source = ops.where(step < ops.gather(cu, one + 1, 0), step, ops.full_like(step, steps))
    step = ops.cast(ops.arange(steps), mstype.int32)
    one = owner_of(step, cu, sequences)
    target = ops.clamp(ops.gather(first, one, 0) * chunk + step - ops.gather(cu, one, 0), 0, rows - 1)
    behind = -(sequences + 1) % 8
    if behind > 0:
        first = ops.concat((first, ops.zeros((behind,), mstype.int32)), 0)
    return source, target, first, step < cu[sequences]


def _behind(x, count):
    """(B, H, S) with ``count`` zeros behind."""
    return x if count == 0 else ops.concat((x, ops.zeros(x.shape[:2] + (count,), mstype.float32)), 2)


def _trapezoid(trap, dt, source, parameters):
    """As :func:`ms_custom_ops.op_impl.ssd_chunk_scan.public.trapezoid`; differentiable."""
    steps, rows = parameters
    # What lies behind the last sequence is taken nowhere, so that a NaN there has no gradient either.
    if source is None:
        trap, dt = _behind(trap, rows - steps), _behind(dt, rows - steps)
    else:
        trap, dt = ops.gather(_behind(trap, 1), source, 2), ops.gather(_behind(dt, 1), source, 2)
    gamma = ops.sigmoid(trap) * dt
    before = dt - gamma
    factor = gamma + _behind(before[..., 1:], 1)
    if source is not None:
        # Cuts the gradient from such a place to the first step of the next sequence: it is 0, or a NaN.
        factor = ops.where(source < steps, factor, ops.zeros_like(factor))
    return factor, gamma
