# SPDX-License-Identifier: Apache-2.0
"""Computed tensors of lowered calls, in a graph: positions of packed sequences."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, ops
from mindspore.common import dtype as mstype


def compute(function, tensors, source, parameters):
    """Results of the function of that name, of the tensor at ``source``."""
    bounds = ops.cast(ops.stop_gradient(tensors[source]), mstype.int32)
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
