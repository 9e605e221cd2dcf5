# SPDX-License-Identifier: Apache-2.0
"""Sort instructions by family: vsort32 and vmrgsort on records of 8 bytes, vrpsort16 and vmrgsort4 on proposals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.lightning_indexer.select import FULL, pieces
from ms_custom_ops.op_impl.lightning_indexer.sorted_list import SortedSelection
from ms_custom_ops.soc.table import BLOCK_BYTES, MAX_REPEAT
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES

_WORDS = BLOCK_BYTES // 8
"""64-bit words of a block."""
_EVEN, _ODD = 1, 2
"""Fixed patterns of vreducev2."""
_SCORE, _LABEL = 4, 5
"""Fields of a region proposal."""
_VALID_BITS = {2: 3, 3: 7, 4: 15}


class RecordSelection(SortedSelection):
    """Ascend910B and later: a record is a score and its id; the list itself has room for the records in turn."""

    group = 32

    def _mark(self, compare: Callable[..., None]) -> None:
        b = self._b
        bits = b["bits"].tensor.reinterpret_cast_to("uint64")
        for first, repeats in pieces(self._plan.candidates // F32_LANES, MAX_REPEAT // _WORDS * _WORDS):
            compare(bits[first], b["candidates"][first * F32_LANES], b["level"][0], repeats, FULL, 0)

    def _compact(self, dst: Tile, src: Tile, number: Any = None) -> None:
        bits = self._b["bits"].tensor.reinterpret_cast_to("uint32")
        self._tik.vreducev2(self._plan.candidates, dst[0], src[0], bits, 1, 1, 0, 0, number, mask_mode="counter")

    def _sort_groups(self, groups: Any) -> tuple[Tile, Tile]:
        out, ids = self._b["sorted"], Tile(self.id.tensor.reinterpret_cast_to("uint32"), self.id.offset)
        for at, repeats in self._repeats(groups):
            self._tik.vsort32(self._at(out, at)[0], self.value[at], ids[at], repeats)
        return out, self.value

    def _merge(self, dst: Tile, lists: list[Tile], lengths: list[Any], repeat: Any) -> None:
        self._tik.vmrgsort(dst[0], [x[0] for x in lists], lengths, False, repeat)

    def _split(self, records: Tile, spare: Tile, groups: Any) -> tuple[Tile, Tile]:
        t, listed = self._tik, self._plan.listed
        ids = Tile(spare.tensor.reinterpret_cast_to("int32"), listed)
        words = Tile(records.tensor.reinterpret_cast_to("int32"))
        t.vreducev2(F32_LANES, spare[0], records[0], _EVEN, groups, 1, FULL, 0)
        t.vreducev2(F32_LANES, ids[0], words[0], _ODD, groups, 1, FULL, 0)
        return ids, spare


class ProposalSelection(SortedSelection):
    """Ascend310P: a record is a region proposal with the score in its place and the id, as float32, for a label."""

    group = 16

    def _mark(self, compare: Callable[..., None]) -> None:
        """One word at a time: vreduce looks for the bits of each repeat in a block of their own."""
        t, b = self._tik, self._b
        bits = b["bits"].tensor.reinterpret_cast_to("uint64")
        with t.for_range(0, self._plan.candidates // F32_LANES) as word:
            compare(bits[word * _WORDS], b["candidates"][word * F32_LANES], b["level"][0], 1, FULL, 0)

    def _compact(self, dst: Tile, src: Tile, number: Any = None) -> None:
        bits, places = self._b["bits"].tensor.reinterpret_cast_to("uint32"), self._plan.candidates
        self._tik.vreduce(places, dst[0], src[0], bits, 1, 1, FULL, 1, 0, number, "counter")

    def _sort_groups(self, groups: Any) -> tuple[Tile, Tile]:
        t, out, proposals = self._tik, self._b["sorted"], self._b["merged"]
        self._v.convert(self._float_ids, self.id, self._plan.listed)
        for at, repeats in self._repeats(groups):
            to = self._at(proposals, at)
            t.vconcat(to[0], self.value[at], repeats, _SCORE)
            t.vconcat(to[0], self._float_ids[at], repeats, _LABEL)
            t.vrpsort16(self._at(out, at)[0], to[0], repeats)
        return out, proposals

    @property
    def _float_ids(self) -> Tile:
        return self.value.shift(self.id.offset)

    def _merge(self, dst: Tile, lists: list[Tile], lengths: list[Any], repeat: Any) -> None:
        self._tik.vmrgsort4(dst[0], [x[0] for x in lists], lengths, False, _VALID_BITS[len(lists)], repeat)

    def _split(self, records: Tile, spare: Tile, groups: Any) -> tuple[Tile, Tile]:
        t = self._tik
        for at, repeats in self._repeats(groups):
            source = self._at(records, at)
            t.vextract(self.value[at], source[0], repeats, _SCORE)
            t.vextract(self._float_ids[at], source[0], repeats, _LABEL)
        self._v.convert(self.id, self._float_ids, self._plan.listed, "round")
        return self.id, self.value
