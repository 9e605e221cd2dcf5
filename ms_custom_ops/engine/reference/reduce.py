# SPDX-License-Identifier: Apache-2.0
"""Reductions of a repeat: sums are trees of adjacent pairs, each node rounded to the dtype."""

from __future__ import annotations

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.lanes import dense_access, lanes_per_repeat, run_repeats, selected, vector_access
from ms_custom_ops.engine.reference.numbers import narrow, saturated, widen
from ms_custom_ops.engine.reference.vector import NUMERIC
from ms_custom_ops.program.dtypes import FLOATS
from ms_custom_ops.program.isa import BLOCK_BYTES, VECTOR_BYTES

_RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32}
_BLOCKS = VECTOR_BYTES // BLOCK_BYTES


def pair_sum(call: Call, x: np.ndarray) -> np.ndarray:
    """Sums of adjacent pairs along the last axis, rounded to the dtype of dst."""
    kind = call["dst"].dtype
    wide = widen(x, kind)
    return narrow(wide[..., 0::2] + wide[..., 1::2], kind, call.saturate)


def tree_sum(call: Call, x: np.ndarray) -> np.ndarray:
    """Sum along the last axis (a power of two long) as a tree of adjacent pairs."""
    while x.shape[-1] > 1:
        x = pair_sum(call, x)
    return x[..., 0]


def extreme(call: Call, x: np.ndarray, on: np.ndarray, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """(value, index) along the last axis of the first lane that is on and that no later lane beats."""
    shape = x.shape[:-1]
    best = np.zeros(shape, x.dtype)
    where = np.full(shape, -1)
    for lane in range(x.shape[-1]):
        candidate = x[..., lane]
        beats = candidate > best if largest else candidate < best
        taken = on[..., lane] & ((where < 0) | beats)
        best, where = np.where(taken, candidate, best), np.where(taken, lane, where)
    return best, where


def _heads(call: Call, repeats: int) -> np.ndarray:
    return np.arange(repeats) * int(call.args["dst_rep"])


def _mask(call: Call, accepted: frozenset[str]) -> np.ndarray:
    call.need_on_chip(call["dst"], call["src"])
    call.need_dtype(call["dst"], accepted)
    call.need_same_dtype(call["dst"], call["src"])
    return selected(call, lanes_per_repeat(call["dst"]))


def _or_zero(x: np.ndarray, on: np.ndarray) -> np.ndarray:
    return np.where(on, x, x.dtype.type(0))


@instruction("vcadd")
def vcadd(call: Call) -> None:
    """One sum per repeat; lanes that are off count as +0."""
    on = _mask(call, FLOATS)
    source = vector_access(call, "src", on)
    target = dense_access(call["dst"], _heads(call, len(on)), 1)
    run_repeats(target, [source], lambda rows, x: tree_sum(call, _or_zero(x, on[rows]))[:, None])


@instruction("vcmax", "vcmin")
def vcmax(call: Call) -> None:
    """The pair (value, lane number as raw bits) per repeat; a repeat with no lane on writes nothing."""
    on = _mask(call, NUMERIC)
    dst = call["dst"]
    any_on = np.broadcast_to(on.any(axis=1, keepdims=True), (len(on), 2))
    source = vector_access(call, "src", on)
    target = dense_access(dst, _heads(call, len(on)), 2, on=any_on)

    def body(rows: slice, x: np.ndarray) -> np.ndarray:
        value, lane = extreme(call, x, on[rows], call.op == "vcmax")
        index = lane.astype(_RAW[dst.size]).view(dst.numpy)
        pair = [saturated(value, dst.dtype) if call.saturate else value, index]
        return np.stack(pair[::-1] if call.attrs["index_low"] else pair, axis=1)

    run_repeats(target, [source], body)


@instruction("vcgadd", "vcgmax", "vcgmin")
def vcgadd(call: Call) -> None:
    """8 results per repeat, one per 32-byte block; a block with no lane on leaves its result alone."""
    adding = call.op == "vcgadd"
    on = _mask(call, FLOATS if adding else NUMERIC)
    dst = call["dst"]
    grouped = on.reshape(len(on), _BLOCKS, on.shape[1] // _BLOCKS)
    source = vector_access(call, "src", on)
    target = dense_access(dst, _heads(call, len(on)), _BLOCKS, on=grouped.any(axis=2))

    def body(rows: slice, x: np.ndarray) -> np.ndarray:
        blocks = x.reshape(len(x), _BLOCKS, -1)
        if adding:
            return tree_sum(call, _or_zero(blocks, grouped[rows]))
        value, _ = extreme(call, blocks, grouped[rows], call.op == "vcgmax")
        return saturated(value, dst.dtype) if call.saturate else value

    run_repeats(target, [source], body)


@instruction("vcpadd")
def vcpadd(call: Call) -> None:
    """Sums of adjacent pairs; a pair with no lane on leaves its result alone."""
    on = _mask(call, FLOATS)
    either = on[:, 0::2] | on[:, 1::2]
    source = vector_access(call, "src", on)
    target = dense_access(call["dst"], _heads(call, len(on)), either.shape[1], on=either)
    run_repeats(target, [source], lambda rows, x: pair_sum(call, _or_zero(x, on[rows])))
