# SPDX-License-Identifier: Apache-2.0
"""Reductions and logarithms of a line of float32 values in UB, with scalars as results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_custom_ops.op_impl.common.tile import Buffers, Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit, pieces
from ms_custom_ops.soc.table import BLOCK_BYTES, VECTOR_REPEAT_BYTES
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES

_FULL = VECTOR_REPEAT_BYTES // BLOCK_BYTES
_BLOCK = BLOCK_BYTES // 4
_LOWEST = -3e38


class LineUnit:
    """Uses the buffers ``reduced`` and ``single`` of one repeat each."""

    def __init__(self, tik_instance: Any, vector: VectorUnit, buffers: Buffers):
        self._tik, self._v, self._b = tik_instance, vector, buffers

    def _fold(self, call: Callable[..., None], line: Tile, count: int, start: float) -> Tile:
        """reduced ``[64]`` = the line folded onto one repeat."""
        reduced = self._b["reduced"]
        self._v.dup(reduced, start, F32_LANES)
        for offset, mask, repeat in pieces(count, F32_LANES):
            call(mask, reduced[0], line[offset], reduced[0], repeat, 0, _FULL, 0)
        return reduced

    def _first(self, tile: Tile) -> Any:
        out = self._tik.Scalar("float32")
        out.set_as(tile.tensor[tile.offset])
        return out

    def total(self, line: Tile, count: int) -> Any:
        """Sum of the line, a float32 register."""
        reduced = self._fold(self._tik.vec_add, line, count, 0.0)
        self._tik.vcadd(F32_LANES, reduced[0], reduced[0], 1, 1, 1, _FULL)
        return self._first(reduced)

    def largest(self, line: Tile, count: int) -> Any:
        """Maximum of the line, a float32 register. Lanes of a block are compared one by one: not every chip reduces
        float32 to its maximum."""
        t, reduced = self._tik, self._fold(self._tik.vec_max, line, count, _LOWEST)
        half = F32_LANES // 2
        while half >= _BLOCK:
            t.vec_max(half, reduced[0], reduced[0], reduced[half], 1, 0, 0, 0)
            half //= 2
        best, lane_value = self._first(reduced), t.Scalar("float32")
        for lane in range(1, _BLOCK):
            lane_value.set_as(reduced.tensor[lane])
            with t.if_scope(lane_value > best):
                best.set_as(lane_value)
        return best

    def log(self, dst: Tile, src: Tile, count: int) -> None:
        """dst = ln(src)."""
        for offset, mask, repeat in pieces(count, F32_LANES):
            self._tik.vec_ln(mask, dst[offset], src[offset], repeat, _FULL, _FULL)

    def log_of(self, value: Any) -> Any:
        """ln of a register."""
        single = self._b["single"]
        self._v.dup(single, value, F32_LANES)
        self.log(single, single, F32_LANES)
        return self._first(single)

    def inverse(self, value: Any) -> Any:
        """1 / register; the vector unit divides."""
        single = self._b["single"]
        self._v.dup(single, value, F32_LANES)
        self._v.div(single, self._b["ones"], single, F32_LANES)
        return self._first(single)
