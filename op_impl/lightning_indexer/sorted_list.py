# SPDX-License-Identifier: Apache-2.0
"""Selection with sort instructions: compaction lists the best, groups of them are sorted, merges of four do the rest.

The list has two parts, each from a 32-byte block on: what is above the level, and what equals it. Places between and
behind them are ABSENT and end up last. Equal scores stand in ascending order of their ids, which sorts and merges keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ms_custom_ops import tik
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.lightning_indexer.select import ABSENT, Selection, Store, pieces
from ms_custom_ops.op_impl.sparse.tokens import number_columns
from ms_custom_ops.soc.table import MAX_REPEAT
from ms_custom_ops.tiling.lightning_indexer import RECORD_FLOATS
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES, I32_BLOCK

_MERGED = 4
"""Lists of one merge."""


class SortedSelection(Selection):
    """Entries lie in the first ``end`` places of the list. What moves in sorts and merges are records of a score and
    its id, ``RECORD_FLOATS`` elements each."""

    group: int
    """Entries that one repeat of the sort instruction puts in order."""

    def __init__(self, *units: Any):
        super().__init__(*units)
        self._end = self._tik.Scalar("int64", "list_end", 0)
        self._record = RECORD_FLOATS[self._plan.order]
        line = self._b["line"]
        number_columns(self._v, line, F32_LANES)
        self._v.convert(self._b["ramp"], line, F32_LANES, "round")

    # ---- what a set of instructions defines ----
    def _mark(self, compare: Callable[..., None]) -> None:
        """``bits`` = where the comparison of the candidates with ``level`` holds."""
        raise NotImplementedError

    def _compact(self, dst: Tile, src: Tile, number: Any = None) -> None:
        """dst = the elements of ``src``, one per candidate, whose bit is set; ``number`` (uint32) of them."""
        raise NotImplementedError

    def _sort_groups(self, groups: Any) -> tuple[Tile, Tile]:
        """The list as records, each group in order, and a tile for as many records."""
        raise NotImplementedError

    def _merge(self, dst: Tile, lists: list[Tile], lengths: list[Any], repeat: Any) -> None:
        """dst = lists of records merged; repeats take lists that follow each other."""
        raise NotImplementedError

    def _split(self, records: Tile, spare: Tile, groups: Any) -> tuple[Tile, Tile]:
        """ids and scores of the records of so many groups, apart from the records."""
        raise NotImplementedError

    # ---- listing ----
    def clear(self) -> None:
        super().clear()
        self._end.set_as(0)

    def begin(self, base: Any) -> Tile:
        new = super().begin(base)
        ids, places = self._b["ids"].shift(self._plan.kept), self._plan.candidates - self._plan.kept
        self._v.adds(ids, self._b["ramp"], self._tik.Scalar("int32", init_value=base), F32_LANES)
        filled = F32_LANES
        while filled < places:
            step = min(filled, places - filled)
            self._v.adds(ids.shift(filled), ids, filled, step)
            filled += step
        return new

    def _list_above(self, base: Any) -> None:
        number = self._tik.Scalar("uint32")
        self._mark(self._tik.vec_cmpv_gt)
        self._compact(self.value, self._b["candidates"], number)
        self._compact(self.id, self._b["ids"])
        self.found.set_as(number)
        self._end.set_as(self._blocks(self.found) * I32_BLOCK)

    def _list_equal(self, base: Any) -> None:
        t, b, probe = self._tik, self._b, self._b["probe"]  # there may be more than the list has room for
        number = t.Scalar("uint32")
        self._mark(t.vec_cmpv_eq)
        self._compact(probe, b["candidates"], number)
        wanted = self._s.minimum(t.Scalar("int64", init_value=number), self._plan.count - self.found)
        blocks = self._s.hold(self._blocks(wanted))
        self.fill(probe, wanted, (wanted + (F32_LANES - 1)) // F32_LANES * F32_LANES, ABSENT)
        t.data_move(self.value[self._end], probe[0], 0, 1, blocks, 0, 0)
        ids = Tile(probe.tensor.reinterpret_cast_to("int32"))
        self._compact(ids, b["ids"])
        t.data_move(self.id[self._end], ids[0], 0, 1, blocks, 0, 0)
        self.found.set_as(self.found + wanted)
        self._end.set_as(self._end + wanted)

    @staticmethod
    def _blocks(places: Any) -> Any:
        return (places + (I32_BLOCK - 1)) // I32_BLOCK

    # ---- order ----
    def sort(self, store: Store) -> None:
        groups = self._s.hold((self._s.maximum(self._end, 1) + (self.group - 1)) // self.group)
        records, spare = self._sort_groups(groups)
        length = self.group
        while length < self._plan.listed:
            self._merge_all(spare, records, length, self._s.hold(groups * self.group))
            records, spare, length = spare, records, length * _MERGED
        ids, scores = self._split(records, spare, groups)
        for name, tile, absent in (("sparse_indices", ids, -1), ("sparse_values", scores, 0.0)):
            self.fill(tile, self.found, self._plan.listed, absent)
            store(name, tile)

    def _merge_all(self, dst: Tile, src: Tile, length: int, total: Any) -> None:
        """dst = the ``total`` records of src, lists of ``length`` (the last one may be shorter) merged by fours."""
        t, s, most = self._tik, self._s, self._plan.listed
        whole = s.hold(total // (_MERGED * length))
        if _MERGED * length <= most:
            with t.if_scope(whole > 0):
                lists = [self._at(src, i * length) for i in range(_MERGED)]
                self._merge(dst, lists, [length] * _MERGED, whole)
        first = s.hold(whole * (_MERGED * length))
        rest = s.hold(total - first)
        to = self._at(dst, first)
        for count in range(1, _MERGED + 1):
            before = (count - 1) * length
            if before >= most:
                break
            with t.if_scope(tik.all(rest > before, rest <= count * length)):
                lists = [self._at(src, first + i * length) for i in range(count)]
                if count == 1:
                    t.data_move(to[0], lists[0][0], 0, 1, s.hold(rest * self._record // I32_BLOCK), 0, 0)
                else:
                    self._merge(to, lists, [length] * (count - 1) + [s.hold(rest - before)], 1)

    def _at(self, records: Tile, record: Any) -> Tile:
        return records.shift(record * self._record)

    def _repeats(self, groups: Any) -> Iterator[tuple[int, Any]]:
        """``(first entry, repeats)`` of the instructions that handle the groups, for the body of a loop."""
        for first, most in pieces(self._plan.listed // self.group, MAX_REPEAT):
            with self._tik.if_scope(groups > first):
                yield first * self.group, self._s.minimum(groups - first, most)
