# SPDX-License-Identifier: Apache-2.0
"""Lanes of vector instructions: which are on, where they lie, and in what order repeats see each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_custom_ops.engine.reference.call import Call
from ms_custom_ops.engine.reference.memory import Operand
from ms_custom_ops.program.isa import BLOCK_BYTES, MASK_BITS, MASK_COUNTER, VECTOR_BYTES

_WORD = 64


@dataclass
class Access:
    """Elements that an instruction touches through one operand: arrays (repeats, elements of a repeat).

    ``on`` marks those really accessed (None: all). ``numpy`` is the dtype they are accessed in.
    """

    operand: Operand
    positions: np.ndarray
    on: np.ndarray | None
    numpy: Any

    def load(self, rows: slice) -> np.ndarray:
        """Values of some repeats; elements that are off hold anything."""
        return self.operand.load(self.positions[rows], self.numpy)

    def store(self, rows: slice, values: np.ndarray) -> None:
        """Write the elements that are on, in order of repeat and element."""
        values = np.broadcast_to(values, self.positions[rows].shape)
        if self.on is None:
            self.operand.store(self.positions[rows], values)
        elif self.on[rows].any():
            self.operand.store(self.positions[rows][self.on[rows]], values[self.on[rows]])

    def span(self) -> tuple[int, int]:
        """First and one past the last storage byte accessed."""
        used = self.positions if self.on is None else self.positions[self.on]
        if used.size == 0:
            return 0, 0
        return int(used.min()), int(used.max()) + np.dtype(self.numpy).itemsize


def lanes_per_repeat(*operands: Operand) -> int:
    """Lanes of a repeat: 256 bytes of the widest operand."""
    return VECTOR_BYTES // max(o.size for o in operands)


def selected(call: Call, lanes: int) -> np.ndarray:
    """The mask of a call as a bool array (repeats, lanes)."""
    kind = call.attrs["mask_kind"]
    mask0, mask1 = int(call.args["mask0"]), int(call.args["mask1"])
    repeat = int(call.args["repeat"])
    lane = np.arange(lanes)
    if kind == MASK_BITS:
        bits = (mask1 % (1 << _WORD)) << _WORD | mask0 % (1 << _WORD)
        call.need(bits >> lanes == 0, "mask", hex(bits), f"bits of {lanes} lanes")
        row = np.array([bits >> i & 1 for i in range(lanes)], bool)
        return np.broadcast_to(row, (repeat, lanes))
    call.need(mask0 >= 0, "mask0", mask0, "0 or more")
    if kind == MASK_COUNTER:
        return (np.arange(-(-mask0 // lanes))[:, None] * lanes + lane) < mask0
    call.need(mask0 <= lanes, "mask", mask0, f"0 to {lanes} lanes")
    return np.broadcast_to(lane < mask0, (repeat, lanes))


def vector_access(call: Call, name: str, on: np.ndarray) -> Access:
    """Access to operand ``name`` by its block and repeat strides (``<name>_blk``, ``<name>_rep``)."""
    operand = call[name]
    repeats, lanes = on.shape
    per_block = BLOCK_BYTES // operand.size
    lane = np.arange(lanes)
    offsets = (
        np.arange(repeats)[:, None] * int(call.args[f"{name}_rep"])
        + lane // per_block * int(call.args[f"{name}_blk"])
        + lane % per_block * operand.size
    )
    return Access(operand, operand.positions(offsets, on), on, operand.numpy)


def dense_access(
    operand: Operand, heads: np.ndarray, count: int, numpy: Any = None, on: np.ndarray | None = None
) -> Access:
    """Access to ``count`` consecutive elements per repeat at byte offsets ``heads`` (one per repeat)."""
    numpy = np.dtype(numpy or operand.numpy)
    offsets = heads[:, None] + np.arange(count) * numpy.itemsize
    return Access(operand, operand.positions(offsets, on, numpy.itemsize), on, numpy)


def run_repeats(dst: Access, sources: list[Access], body: Callable[..., np.ndarray]) -> None:
    """``dst = body(rows, *source values)``, repeat after repeat.

    Repeats are taken together when no repeat can see what another one wrote; the result is the same.
    """
    for rows in _groups(dst, sources):
        dst.store(rows, body(rows, *[s.load(rows) for s in sources]))


def _groups(dst: Access, sources: list[Access]) -> Iterator[slice]:
    repeats = dst.positions.shape[0]
    if repeats > 1 and not all(_independent(dst, s) for s in sources):
        for r in range(repeats):
            yield slice(r, r + 1)
    elif repeats:
        yield slice(0, repeats)


def _independent(dst: Access, source: Access) -> bool:
    if dst.operand.storage is not source.operand.storage:
        return True
    d0, d1 = dst.span()
    s0, s1 = source.span()
    if d1 <= s0 or s1 <= d0:
        return True
    same = dst.numpy == source.numpy and np.array_equal(dst.positions, source.positions)
    return same and _repeats_disjoint(dst)


def _repeats_disjoint(dst: Access) -> bool:
    first, last = dst.positions.min(axis=1), dst.positions.max(axis=1) + np.dtype(dst.numpy).itemsize
    return bool((last[:-1] <= first[1:]).all())
