# SPDX-License-Identifier: Apache-2.0
"""The steps of packed sequences for the convolution of nn.Mamba2: none sees a step of another sequence."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, ops
from mindspore.common import dtype as mstype

from ms_custom_ops.mindspore.computed import owner_of


@ops.constexpr
def constant_bounds(cu: Any) -> Any:
    """cu_seqlens of a list as int32 tensor."""
    return Tensor(list(cu), mstype.int32)


def bounds_of(cu: Any) -> Any:
    """cu_seqlens as int32 tensor."""
    if isinstance(cu, (list, tuple)):
        return constant_bounds(tuple(cu))
    return ops.cast(ops.stop_gradient(cu), mstype.int32)


def kept_steps(x: Any, cu: Any) -> Any:
    """x (1, S, ...) with zeros, whatever it held, from the end of the last sequence on."""
    if isinstance(cu, (list, tuple)):
        return x
    steps = ops.cast(ops.arange(x.shape[1]), mstype.int32)
    inside = ops.expand_dims(ops.expand_dims(steps < bounds_of(cu)[-1], 0), 2)
    return ops.where(inside, x, ops.zeros_like(x))


def _places(steps: Any, start: Any, sequence: Any, before: int, count: int) -> Any:
    """Where a step of a sequence stands in the rows of :func:`packed_taps`: its own place, or that in the state."""
    return ops.where(steps >= start, count * before + steps, sequence * before + before + steps - start)


def packed_taps(mixed: Any, conv_state: Any, cu: Any) -> Any:
    """The steps d_conv - 1, ..., 0 before each step of mixed (1, S, channels), each (1, S, channels); and the
    conv_state (sequences, d_conv - 1, channels) after each sequence, the given one where it has no step."""
    count, before, channels = conv_state.shape
    if before == 0:
        return (mixed,), conv_state
    rows = ops.concat((conv_state.reshape(count * before, channels), mixed[0]), 0)
    bounds = bounds_of(cu)
    steps = ops.cast(ops.arange(mixed.shape[1]), mstype.int32)
    sequence = owner_of(steps, bounds, count)
    start = ops.gather(bounds, sequence, 0)
    # Behind the last sequence a step reads its own sequence's rows; the caller drops what comes of it.
    taps: Any = ()
    for tap in range(before + 1):
        places = _places(steps - (before - tap), start, sequence, before, count)
        taps = taps + (ops.expand_dims(ops.gather(rows, places, 0), 0),)
    each = ops.expand_dims(ops.cast(ops.arange(count), mstype.int32), 1)
    last = ops.expand_dims(bounds[1:], 1) - before + ops.expand_dims(ops.cast(ops.arange(before), mstype.int32), 0)
    places = _places(last, ops.expand_dims(bounds[:-1], 1), each, before, count)
    return taps, ops.gather(rows, places.reshape(-1), 0).reshape(count, before, channels)
