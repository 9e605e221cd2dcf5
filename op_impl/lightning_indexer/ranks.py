# SPDX-License-Identifier: Apache-2.0
"""Selection without sort instructions: a list bit by bit, and ranks of its entries.

For chips whose sort instructions know no float32 (Ascend910A), and for lists too long for the records of those that
do. The rank of an entry is the number of better ones, plus the equal ones before it: the vector work grows with the
square of the count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.lightning_indexer.select import FULL, Selection, Store, pieces
from ms_custom_ops.soc.table import BLOCK_BYTES, MAX_REPEAT
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES

_WORD_BLOCK = BLOCK_BYTES // 8  # 64-bit words of a block


class RankSelection(Selection):
    """``found`` entries at the front of the list."""

    def _list_above(self, base: Any) -> None:
        self._list(self._tik.vec_cmpv_gt, base)

    def _list_equal(self, base: Any) -> None:
        self._list(self._tik.vec_cmpv_eq, base)

    def _list(self, compare: Callable[..., None], base: Any) -> None:
        t, b = self._tik, self._b
        words = self._plan.candidates // F32_LANES
        bits = b["bits"].tensor.reinterpret_cast_to("uint64")
        for first, repeats in pieces(words, MAX_REPEAT // _WORD_BLOCK * _WORD_BLOCK):
            compare(bits[first], b["candidates"][first * F32_LANES], b["level"][0], repeats, FULL, 0)
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
        self.value[self.found].set_as(b["candidates"][place])
        if kept:
            with t.if_scope(place < kept):
                self.id[self.found].set_as(b["ids"][place])
            with t.else_scope():
                self.id[self.found].set_as(place + (base - kept))
        else:
            self.id[self.found].set_as(place + base)
        self.found.set_as(self.found + 1)

    def sort(self, store: Store) -> None:
        t, b, v, count = self._tik, self._b, self._v, self._plan.listed
        taken, rank = b["taken"], b["rank"]
        places = Tile(b["steps"].tensor.reinterpret_cast_to("int32"))
        v.dup(rank, 0.0, count)
        v.dup(taken, 0, count)
        v.muls(self.value, self.value, -1.0, count)
        value = t.Scalar("float32")
        with t.for_range(0, self.found) as i:
            value.set_as(self.value[i])
            self.steps(b["steps"], self.value, 0.0 - value, count)
            v.add(rank, rank, b["steps"], count)
        v.convert(places, rank, count, "round")
        place, before = t.Scalar("int32"), t.Scalar("int32")
        with t.for_range(0, self.found) as i:
            place.set_as(places[i])
            before.set_as(taken[place])
            taken[place].set_as(before + 1)
            places[i].set_as(place + before)
        v.muls(self.value, self.value, -1.0, count)
        for name, source, absent in (("sparse_indices", self.id, -1), ("sparse_values", self.value, 0.0)):
            target = Tile(rank.tensor.reinterpret_cast_to(source.dtype))
            v.dup(target, absent, count)
            with t.for_range(0, self.found) as i:
                place.set_as(places[i])
                target[place].set_as(source[i])
            store(name, target)
