# SPDX-License-Identifier: Apache-2.0
"""The count best of the candidates in UB.

The K-th best score is found by bisection over the bit patterns of float32, which are ordered like integers; then the
candidates above it are listed in ascending position, and as many equal ones as there is room for. How they are listed,
and put in order at the end, is up to the subclasses.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from ms_custom_ops import tik
from ms_custom_ops.op_impl.common.scalar import ScalarUnit
from ms_custom_ops.op_impl.common.tile import Buffers, Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit
from ms_custom_ops.soc.table import BLOCK_BYTES, MAX_REPEAT, VECTOR_REPEAT_BYTES
from ms_custom_ops.tiling.lightning_indexer import IndexerPlan
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES, I32_BLOCK

HIGHEST = (2.0 - 2.0**-23) * 2.0**127
"""The highest float32: scores are at most this, so that differences of scores are never NaN."""
ABSENT = -HIGHEST
"""Score of a place that holds no key."""
LOWEST = -(2.0 - 2.0**-22) * 2.0**127
"""The float32 above ABSENT: every score of a key is at least this, and NaN counts as this."""
_STEP = 1e30
"""Applied twice, lifts any positive float32, subnormal ones included, above 1."""
_INFINITY_BITS = 0x7F800000
_SIGN_FLIP = 0x7FFFFFFF
_BISECTIONS = 32
_ALL_LANES = (1 << F32_LANES) - 1
FULL = VECTOR_REPEAT_BYTES // BLOCK_BYTES
"""Blocks of a repeat."""
Store = Callable[[str, Tile], None]


def ordered_bits(value: float) -> int:
    """Integer that orders like the float32 ``value``."""
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    return bits if bits >= 0 else bits ^ _SIGN_FLIP


def pieces(total: int, most: int) -> Iterator[tuple[int, int]]:
    """``(first, count)`` of at most ``most``."""
    return ((at, min(most, total - at)) for at in range(0, total, most))


class Selection:
    """The list is ``value`` and ``id``: two halves of the buffer "best", ``plan.listed`` places each. After
    :meth:`select`, ``found`` places of it hold keys, the others ABSENT."""

    def __init__(self, tik_instance: Any, plan: IndexerPlan, buffers: Buffers, vector: VectorUnit, scalar: ScalarUnit):
        self._tik, self._plan, self._b, self._v, self._s = tik_instance, plan, buffers, vector, scalar
        self.found = tik_instance.Scalar("int64", "found", 0)
        best = buffers["best"].tensor
        self.value = Tile(best)
        self.id = Tile(best.reinterpret_cast_to("int32"), plan.listed)

    # ---- what a way to order defines ----
    def _list_above(self, base: Any) -> None:
        """List the candidates above ``level``, in ascending position; there is room for all of them."""
        raise NotImplementedError

    def _list_equal(self, base: Any) -> None:
        """List the candidates equal to ``level`` behind them, in ascending position, while there is room."""
        raise NotImplementedError

    def sort(self, store: Store) -> None:
        """``store(name, tile)`` for "sparse_indices" and "sparse_values": the list with the best first, equal scores
        by ascending id; then -1 and 0. Needs the phase "order"; destroys the list."""
        raise NotImplementedError

    # ---- candidates ----
    def clear(self) -> None:
        """An empty list."""
        self._v.dup(self.value, ABSENT, self._plan.listed)
        self._v.dup(self.id, -1, self._plan.listed)
        self.found.set_as(0)

    def begin(self, base: Any) -> Tile:
        """Candidates = the list and no new key; returns the places of the new keys, the first of which is ``base``."""
        plan, b, v = self._plan, self._b, self._v
        if plan.kept:
            v.adds(b["candidates"], self.value, 0.0, plan.kept)
            self._tik.data_move(b["ids"][0], self.id[0], 0, 1, plan.kept // I32_BLOCK, 0, 0)
        new = b["candidates"].shift(plan.kept)
        v.dup(new, ABSENT, plan.candidates - plan.kept)
        return new

    def fill(self, tile: Tile, first: Any, end: Any, value: float) -> None:
        """Elements ``[first, end)`` of a tile of 32-bit values = ``value``; ``end`` is a multiple of a repeat's lanes,
        at most MAX_REPEAT repeats from ``first``."""
        t, s = self._tik, self._s
        word = s.hold(first // F32_LANES)
        with t.if_scope(first < end):
            lanes = t.Scalar("uint64", init_value=_ALL_LANES)
            lanes.set_as(lanes << (first - word * F32_LANES))
            t.vec_dup([0, lanes], tile[word * F32_LANES], value, 1, FULL)
        rest = s.hold(end // F32_LANES - word - 1)
        with t.if_scope(rest > 0):
            t.vec_dup(F32_LANES, tile[(word + 1) * F32_LANES], value, rest, FULL)

    # ---- selection ----
    def select(self, present: Any, base: Any) -> None:
        """List the best candidates, ``present`` of which are keys; a place behind the kept ones is key
        ``base + place - kept``."""
        t, b, count = self._tik, self._b, self._plan.count
        total = t.Scalar("int64", init_value=present)
        with b.phase("chunk.select"):
            level = t.Scalar("float32", init_value=ABSENT)
            with t.if_scope(total > count):
                self._bisect(level)
            self.clear()
            self._v.dup(b["level"], level, F32_LANES)
            self._list_above(base)
            with t.if_scope(tik.all(self.found < count, total > self.found)):
                self._list_equal(base)

    def _bisect(self, level: Any) -> None:
        """level = the count-th best score."""
        t, b, v, candidates = self._tik, self._b, self._v, self._plan.candidates
        low, high = (t.Scalar("int64", init_value=x) for x in (ordered_bits(LOWEST), _INFINITY_BITS))
        v.muls(b["candidates"], b["candidates"], -1.0, candidates)  # back again below: exact
        with t.for_range(0, _BISECTIONS):
            with t.if_scope(high - low <= 1):
                t.tik_break()
            middle = t.Scalar("int64", init_value=low + (high - low) // 2)
            probe = self._float_of(middle)
            reached = t.Scalar("int32")
            t.scalar_conv("round", reached, self._below(probe))
            reached.set_as(candidates - reached)
            with t.if_scope(reached >= self._plan.count):
                low.set_as(middle)
            with t.else_scope():
                high.set_as(middle)
            with t.if_scope(reached == self._plan.count):
                t.tik_break()
        v.muls(b["candidates"], b["candidates"], -1.0, candidates)
        level.set_as(self._float_of(low))

    def _float_of(self, ordered: Any) -> Any:
        """float32 register with the value that ``ordered`` stands for."""
        t = self._tik
        bits = t.Scalar("int32", init_value=ordered)
        with t.if_scope(ordered < 0):
            bits.set_as(bits ^ _SIGN_FLIP)
        cell = self._b["sum"].tensor
        cell.reinterpret_cast_to("int32")[0].set_as(bits)
        out = t.Scalar("float32")
        out.set_as(cell[0])
        return out

    def steps(self, out: Tile, negated: Tile, level: Any, count: int) -> None:
        """out = 1 where the score, given negated, is below ``level``, else 0."""
        v, b = self._v, self._b
        v.adds(out, negated, level, count)
        v.muls(out, out, _STEP, count)
        v.muls(out, out, _STEP, count)
        v.max(out, out, b["zeros"], count, row=True)
        v.min(out, out, b["ones"], count, row=True)

    def _below(self, level: Any) -> Any:
        """Number of candidates, negated in place, below ``level``; a float32 register."""
        t, b, candidates = self._tik, self._b, self._plan.candidates
        self.steps(b["probe"], b["candidates"], level, candidates)
        total = b["sum"]
        self._v.dup(total, 0.0, F32_LANES)
        for first, repeats in pieces(candidates // F32_LANES, MAX_REPEAT):
            t.vec_add(F32_LANES, total[0], b["probe"][first * F32_LANES], total[0], repeats, 0, FULL, 0)
        t.vcadd(F32_LANES, total[0], total[0], 1, 1, 1, FULL)
        out = t.Scalar("float32")
        out.set_as(total.tensor[0])
        return out
