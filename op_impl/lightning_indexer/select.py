# SPDX-License-Identifier: Apache-2.0
"""Top-K of scores in UB.

The K-th best score is found by bisection over the bit patterns of float32, which are ordered like integers; then the
candidates above it are listed in ascending position, and as many equal ones as there is room for. :meth:`sort` puts
the list in order: the rank of an entry is the number of better ones, plus the equal ones before it.
"""
from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ms_custom_ops import tik
from ms_custom_ops.op_impl.common.scalar import ScalarUnit
from ms_custom_ops.op_impl.common.tile import Buffers, Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit
from ms_custom_ops.soc.table import BLOCK_BYTES, MAX_REPEAT, VECTOR_REPEAT_BYTES
from ms_custom_ops.tiling.budget import align
from ms_custom_ops.tiling.lightning_indexer import IndexerPlan
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES

ABSENT = -1e30
"""Score of a candidate place that holds no key."""
LOWEST = -1e29
"""Every score of a key is above this."""
_STEP = 1e30
"""Applied twice, lifts any positive float32, subnormal ones included, above 1."""
_INFINITY_BITS = 0x7F800000
_SIGN_FLIP = 0x7FFFFFFF
_BISECTIONS = 32
_FULL = VECTOR_REPEAT_BYTES // BLOCK_BYTES
_WORD_BLOCK = BLOCK_BYTES // 8  # 64-bit words of a block


def ordered_bits(value: float) -> int:
    """Integer that orders like the float32 ``value``."""
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    return bits if bits >= 0 else bits ^ _SIGN_FLIP


class Selection:
    """``found`` entries of ``best_value`` and ``best_id`` after :meth:`select`."""

    def __init__(self, tik_instance: Any, plan: IndexerPlan, buffers: Buffers, vector: VectorUnit, scalar: ScalarUnit):
        self._tik, self._plan, self._b, self._v, self._s = tik_instance, plan, buffers, vector, scalar
        self.found = tik_instance.Scalar("int64", "found", 0)
        self._listed = align(plan.count, F32_LANES)

    def clear(self) -> None:
        """An empty list."""
        self._v.dup(self._b["best_value"], ABSENT, self._listed)
        self._v.dup(self._b["best_id"], -1, self._listed)
        self.found.set_as(0)

    def select(self, candidates: int, present: Any, base: Any) -> None:
        """List the best of ``candidates`` places, ``present`` of which hold a key; a place behind the kept ones is key
        ``base + place - kept``."""
        t, b = self._tik, self._b
        total = t.Scalar("int64", init_value=present)
        with b.phase("select"):
            level = t.Scalar("float32", init_value=LOWEST)
            with t.if_scope(total > self._plan.count):
                self._bisect(candidates, level)
            self.clear()
            self._v.dup(b["level"], level, F32_LANES)
            self._list(t.vec_cmpv_gt, candidates, base)
            with t.if_scope(tik.all(self.found < self._plan.count, total > self.found)):
                self._list(t.vec_cmpv_eq, candidates, base)

    def _bisect(self, candidates: int, level: Any) -> None:
        """level = the count-th best score."""
        t, b, v = self._tik, self._b, self._v
        low, high = (t.Scalar("int64", init_value=x) for x in (ordered_bits(LOWEST), _INFINITY_BITS))
        v.muls(b["candidates"], b["candidates"], -1.0, candidates)  # back again below: exact
        with t.for_range(0, _BISECTIONS):
            with t.if_scope(high - low <= 1):
                t.tik_break()
            middle = t.Scalar("int64", init_value=low + (high - low) // 2)
            probe = self._float_of(middle)
            reached = t.Scalar("int32")
            t.scalar_conv("round", reached, self._below(candidates, probe))
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

    def _steps(self, probe: Tile, negated: Tile, level: Any, count: int) -> None:
        """probe = 1 where the score is below ``level``, else 0."""
        v, b = self._v, self._b
        v.adds(probe, negated, level, count)
        v.muls(probe, probe, _STEP, count)
        v.muls(probe, probe, _STEP, count)
        v.max(probe, probe, b["zeros"], count, row=True)
        v.min(probe, probe, b["ones"], count, row=True)

    def _below(self, candidates: int, level: Any) -> Any:
        """Number of candidates, negated in place, below ``level``; a float32 register."""
        t, b = self._tik, self._b
        self._steps(b["probe"], b["candidates"], level, candidates)
        total = b["sum"]
        self._v.dup(total, 0.0, F32_LANES)
        for first, repeats in _pieces(candidates // F32_LANES, MAX_REPEAT):
            t.vec_add(F32_LANES, total[0], b["probe"][first * F32_LANES], total[0], repeats, 0, _FULL, 0)
        t.vcadd(F32_LANES, total[0], total[0], 1, 1, 1, _FULL)
        out = t.Scalar("float32")
        out.set_as(total.tensor[0])
        return out

    def _list(self, compare: Callable[..., None], candidates: int, base: Any) -> None:
        """Append the places where the comparison with ``level`` holds, in ascending order, while there is room."""
        t, b = self._tik, self._b
        words = candidates // F32_LANES
        bits = b["bits"].tensor.reinterpret_cast_to("uint64")
        for first, repeats in _pieces(words, MAX_REPEAT // _WORD_BLOCK * _WORD_BLOCK):
            compare(bits[first], b["candidates"][first * F32_LANES], b["level"][0], repeats, _FULL, 0)
        with t.for_range(0, words) as index:
            word, count, low, zeros = (t.Scalar("uint64") for _ in range(4))
            word.set_as(bits[index])
            t.scalar_countbit1(count, word)
            room = t.Scalar("int64", init_value=count)
            room = self._s.minimum(room, self._plan.count - self.found)
            with t.for_range(0, room):
                low.set_as(word & (~word + 1))
                word.set_as(word ^ low)
                t.scalar_countleading0(zeros, low)
                place = t.Scalar("int64", init_value=zeros)
                place.set_as(index * F32_LANES + (F32_LANES - 1) - place)
                self._append(place, base)

    def _append(self, place: Any, base: Any) -> None:
        t, b, kept = self._tik, self._b, self._plan.kept
        b["best_value"][self.found].set_as(b["candidates"][place])
        if kept:
            with t.if_scope(place < kept):
                b["best_id"][self.found].set_as(b["spare_id"][place])
            with t.else_scope():
                b["best_id"][self.found].set_as(place + (base - kept))
        else:
            b["best_id"][self.found].set_as(place + base)
        self.found.set_as(self.found + 1)

    def sort(self, store: Callable[[str, Tile], None]) -> None:
        """``store(name, tile)`` for "sparse_indices" and "sparse_values": the list with the best first, equal scores by
        ascending id; then -1 and 0. Needs the phase "order"; destroys list and candidates."""
        t, b, v, count = self._tik, self._b, self._v, self._listed
        taken, rank = b["spare_id"], b["rank"]
        places = Tile(b["candidates"].tensor.reinterpret_cast_to("int32"))
        v.dup(rank, 0.0, count)
        v.dup(taken, 0, count)
        v.muls(b["best_value"], b["best_value"], -1.0, count)
        value = t.Scalar("float32")
        with t.for_range(0, self.found) as i:
            value.set_as(b["best_value"][i])
            self._steps(b["candidates"], b["best_value"], 0.0 - value, count)
            v.add(rank, rank, b["candidates"], count)
        v.convert(places, rank, count, "round")
        place, before = t.Scalar("int32"), t.Scalar("int32")
        with t.for_range(0, self.found) as i:
            place.set_as(places[i])
            before.set_as(taken[place])
            taken[place].set_as(before + 1)
            places[i].set_as(place + before)
        v.muls(b["best_value"], b["best_value"], -1.0, count)
        for name, source, absent in (("sparse_indices", "best_id", -1), ("sparse_values", "best_value", 0.0)):
            target = Tile(rank.tensor.reinterpret_cast_to(b[source].dtype))
            v.dup(target, absent, count)
            with t.for_range(0, self.found) as i:
                place.set_as(places[i])
                target[place].set_as(b[source][i])
            store(name, target)


def _pieces(total: int, most: int) -> list[tuple[int, int]]:
    """``(first, count)`` of at most ``most``."""
    return [(at, min(most, total - at)) for at in range(0, total, most)]
