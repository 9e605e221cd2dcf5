# SPDX-License-Identifier: Apache-2.0
"""Between (B, H, S) tensors and the chunk slots of the segment-sum primitives; static decisions of a call."""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, ops
from mindspore.common import dtype as mstype
from mindspore.ops import PrimitiveWithInfer

from ms_custom_ops.mindspore.attention_plan import Operand
from ms_custom_ops.mindspore.custom import dtype_name
from ms_custom_ops.mindspore.segsum_plan import ChunkPlan, check_vectors, plan_matrices, plan_vectors, sequences_of

_BLOCK = 8  # float32 or int32 values of a 32-byte block
_FLOATS = ("float32", "float16", "bfloat16")


class _Eager(PrimitiveWithInfer):
    """True where Python runs the code, False where it is compiled into a graph."""

    def __init__(self):
        super().__init__("MsCustomOpsEager")

    def __infer__(self):
        return {"shape": (), "dtype": mstype.bool_, "value": False}

    def __call__(self):
        return True


eager = _Eager()


def _operand(entry: Any) -> Operand:
    """Of (shape, dtype) of a tensor, (values, None) of a list, (None, None) of None."""
    shape, dtype = entry
    if shape is None:
        return Operand(None, None)
    return Operand(tuple(shape), dtype_name(dtype)) if dtype is not None else Operand(None, None, tuple(shape))


def _tuple(plan: ChunkPlan) -> tuple:
    return (
        plan.empty,
        plan.steps,
        plan.chunk,
        plan.slots,
        plan.fill,
        plan.widen,
        plan.short,
        plan.sequences,
        plan.through_float32,
    )


@ops.constexpr
def plan_of_vectors(op, names, operands, chunk_size, cu_seqlens):
    given = {name: _operand(entry) for name, entry in zip(names, operands, strict=True)}
    return _tuple(plan_vectors(op, given, chunk_size, _operand(cu_seqlens)))


@ops.constexpr
def plan_of_matrices(op, matrices, names, operands, chunk_size, cu_seqlens):
    given = {name: _operand(entry) for name, entry in zip(names, operands, strict=True)}
    pair = {"dSSdA": _operand(matrices[0]), "SSdA": _operand(matrices[1])}
    return _tuple(plan_matrices(op, pair, given, chunk_size, _operand(cu_seqlens)))


@ops.constexpr
def plan_of_trapezoid(operands, cu_seqlens):
    """(zeros to append to S, zeros to append to cu_seqlens)."""
    names = ("trap", "dt", "dfactor", "dgamma_diag")
    given = {name: _operand(entry) for name, entry in zip(names, operands, strict=True)}
    b, h, s = check_vectors("bwd_dtrap_ddt", given, _FLOATS)
    sequences = sequences_of("bwd_dtrap_ddt", _operand(cu_seqlens), s)
    return (
        0 in (b, h, s),
        _BLOCK - s if b * h * s < _BLOCK else 0,
        0 if sequences is None else -(sequences + 1) % _BLOCK,
    )


@ops.constexpr
def _int_tensor(values):
    return Tensor(np.array(values, np.int32))


@ops.constexpr
def _steps(count):
    return Tensor(np.arange(count, dtype=np.int32))


@ops.constexpr
def _dense_lengths(steps, chunk, slots):
    lengths = np.zeros(slots + -slots % _BLOCK, np.int32)
    lengths[:slots] = np.clip(steps - np.arange(slots) * chunk, 0, chunk)
    return Tensor(lengths)


def about(x):
    """(shape, dtype) of a tensor, (values, None) of a list or tuple, (None, None) of None."""
    if x is None:
        return (None, None)
    if isinstance(x, (list, tuple)):
        return (tuple(x), None)
    return (x.shape, x.dtype)


def _bounds(cu_seqlens):
    if isinstance(cu_seqlens, (list, tuple)):
        return _int_tensor(tuple(cu_seqlens))
    return ops.cast(ops.stop_gradient(cu_seqlens), mstype.int32)


def zeros_after(x, count, axis):
    """``count`` zeros appended along ``axis`` (-1 or -2). Concat is what MindSpore's CPU has for bfloat16
    too.
    """
    if count == 0:
        return x
    shape = x.shape[:-1] + (count,) if axis == -1 else x.shape[:-2] + (count,) + x.shape[-1:]
    return ops.concat((x, ops.cast(ops.zeros(shape, mstype.float32), x.dtype)), axis)


def _slot_places(bounds, plan):
    """(int32 (slots*C,): step at each place of the slots, S where there is none; int32 (slots,): steps per
    slot).

    Sequence i has its first slot at ``bounds[i] // C + i``, which grows with i."""
    _, steps, chunk, slots, _, _, _, sequences, _ = plan
    starts, ends = bounds[:-1], bounds[1:]
    bases = ops.floor_div(starts, chunk) + _steps(sequences)
    slot = _steps(slots)
    owner = ops.cast(ops.less_equal(ops.expand_dims(bases, 0), ops.expand_dims(slot, 1)), mstype.int32).sum(1) - 1
    first = ops.gather(starts, owner, 0) + (slot - ops.gather(bases, owner, 0)) * chunk
    lengths = ops.clip_by_value(ops.gather(ends, owner, 0) - first, _int_tensor(0), _int_tensor(chunk))
    inside = ops.expand_dims(_steps(chunk), 0)
    place = ops.expand_dims(first, 1) + inside
    kept = ops.less(inside, ops.expand_dims(lengths, 1))
    place = ops.select(kept, place, ops.zeros_like(place) + steps)
    return ops.reshape(place, (slots * chunk,)), lengths


def _step_places(bounds, plan):
    """int32 (S,): place of each step in the slots; behind the slots for steps of no sequence."""
    _, steps, chunk, slots, _, _, _, sequences, _ = plan
    step = _steps(steps)
    owner = ops.cast(ops.less_equal(ops.expand_dims(bounds[1:], 0), ops.expand_dims(step, 1)), mstype.int32).sum(1)
    known = ops.less(owner, _int_tensor(sequences))
    owner = ops.select(known, owner, ops.zeros_like(owner))
    start = ops.gather(bounds, owner, 0)
    place = (ops.floor_div(start, chunk) + owner) * chunk + step - start
    return ops.select(known, place, ops.zeros_like(place) + slots * chunk)


def to_slots(x, bounds, plan):
    """(B, H, S) as (B, H, slots * C'), C' the primitive's chunk; zeros where a slot has no step."""
    _, steps, chunk, slots, fill, widen, _, sequences, _ = plan
    if sequences > 0:
        x = ops.gather(zeros_after(x, 1, -1), _slot_places(bounds, plan)[0], 2)
    else:
        x = zeros_after(x, fill, -1)
    if widen == 0:
        return x
    x = zeros_after(ops.reshape(x, x.shape[:2] + (slots, chunk)), widen, -1)
    return ops.reshape(x, x.shape[:2] + (slots * (chunk + widen),))


def from_slots(x, bounds, plan):
    """The inverse of :func:`to_slots`; zeros for steps of no sequence."""
    _, steps, chunk, slots, fill, widen, _, sequences, _ = plan
    if widen > 0:
        x = ops.reshape(x, x.shape[:2] + (slots, chunk + widen))[..., :chunk]
        x = ops.reshape(x, x.shape[:2] + (slots * chunk,))
    if sequences > 0:
        return ops.gather(zeros_after(x, 1, -1), _step_places(bounds, plan), 2)
    return x if fill == 0 else x[..., :steps]


def slot_lengths(bounds, plan):
    """int32 (slots padded to a block,): steps of each slot; None when every chunk is full."""
    _, steps, chunk, slots, _, _, short, sequences, _ = plan
    if not short:
        return None
    if sequences == 0:
        return _dense_lengths(steps, chunk, slots)
    return zeros_after(_slot_places(bounds, plan)[1], -slots % _BLOCK, -1)


def wide(x, widen):
    """A (.., C, C) tensor with zeros up to the primitive's chunk."""
    return zeros_after(zeros_after(x, widen, -1), widen, -2)


def narrow(x, chunk):
    """The (.., C, C) corner of a tensor that is at least that large."""
    return x if x.shape[-1] == chunk else x[..., :chunk, :chunk]


def bounds_or_none(cu_seqlens):
    """cu_seqlens as an int32 tensor; None without them."""
    return None if cu_seqlens is None else _bounds(cu_seqlens)
