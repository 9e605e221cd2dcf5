# SPDX-License-Identifier: Apache-2.0
"""Compaction: the elements that a pattern keeps, densely."""

from __future__ import annotations

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.gather import MOVED
from ms_custom_ops.program.isa import BLOCK_BYTES, MASK_COUNT, MASK_PER_REPEAT, VECTOR_BYTES

_ALL = 7
_FIRST_OF_FOUR = 3


def _elements(call: Call, lanes: int) -> np.ndarray:
    """Which elements of each repeat exist: (repeats, elements)."""
    kind, count, repeat = call.attrs["mask_kind"], int(call.args["mask0"]), int(call.args["repeat"])
    if kind == MASK_COUNT:
        return np.ones((repeat, lanes), bool)
    call.need(count >= 0, "mask0", count, "0 or more")
    if kind == MASK_PER_REPEAT:
        return np.ones((repeat, count), bool)
    return np.arange(-(-count // lanes) * lanes).reshape(-1, lanes) < count


def _kept(call: Call, exist: np.ndarray) -> np.ndarray:
    """Which elements stay, by the fixed pattern or the bits of src1."""
    pattern = call.attrs["pattern"]
    number = np.arange(exist.shape[1])
    if pattern == 0:
        if not exist.any():
            return exist
        width = -(-exist.shape[1] // 8)
        heads = np.arange(exist.shape[0])[:, None] * int(call.args["src1_rep"])
        # The bytes of a row up to its last element.
        used = np.arange(width) * 8 < exist.sum(axis=1)[:, None]
        operand = call["src1"]
        positions = operand.positions(heads + np.arange(width), used, 1)
        bits = np.unpackbits(operand.load(positions, np.uint8), axis=1, bitorder="little")
        return exist & bits[:, : exist.shape[1]].astype(bool)
    if pattern == _ALL:
        chosen = np.ones_like(number, bool)
    elif pattern < _FIRST_OF_FOUR:
        chosen = number % 2 == pattern - 1
    else:
        chosen = number % 4 == pattern - _FIRST_OF_FOUR
    return exist & chosen


@instruction("vreduce")
def vreduce(call: Call) -> None:
    """The kept elements of src0, repeat after repeat, at dst, and their number."""
    dst, src, count = call["dst"], call["src0"], call["count"]
    call.need_on_chip(dst, src, call["src1"], count)
    call.need_dtype(dst, MOVED)
    call.need_same_dtype(dst, src)
    call.need_dtype(count, {"uint32"})
    exist = _elements(call, VECTOR_BYTES // src.size)
    kept = _kept(call, exist)
    number, per_block = np.arange(exist.shape[1]), BLOCK_BYTES // src.size
    at = (
        np.arange(len(exist))[:, None] * int(call.args["src0_rep"])
        + number // per_block * int(call.args["src0_blk"])
        + number % per_block * src.size
    )
    positions = src.positions(at, exist)
    total = int(kept.sum())
    targets = dst.positions(np.arange(total) * dst.size)
    place = count.positions(np.zeros(1, np.int64))
    done = 0
    for r in range(len(exist)):
        values = src.load(positions[r])[kept[r]]
        dst.store(targets[done : done + len(values)], values)
        done += len(values)
    count.store(place, np.array([total], np.uint32))
