# SPDX-License-Identifier: Apache-2.0
"""Decay factors of one block: running sums of da, and the triangle exp(cs_i - cs_j).

"Lanes" ``[L, 16]`` repeat a row's value 16 times: a running sum over rows then shifts by whole 32-byte
blocks, and lanes line up with every 16-column slice of a tile.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.rows import RowUnit
from ms_custom_ops.op_impl.common.tile import Buffers, Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit
from ms_custom_ops.op_impl.ssd_chunk_scan.resets import Resets
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, MAX_REPEAT, VECTOR_REPEAT_BYTES
from ms_custom_ops.tiling.ssd_chunk_scan import FRACTAL, LANES, ScanPlan

_ROWS = LANES // CUBE_BLOCK  # rows of a 16-column slice in one repeat
_FULL = VECTOR_REPEAT_BYTES // BLOCK_BYTES


class Decay:
    """Works on the plan's buffers ``da_row, cs_row, cs, work, grow, rest, line, turn``.

    Running sums leave resets out (:class:`Resets`). In a block with resets ``da_row`` and lanes ``work`` hold their
    counts from :meth:`load` until the last :meth:`triangle`.
    """

    def __init__(self, tik_instance: Any, plan: ScanPlan, buffers: Buffers, vector: VectorUnit, rows: RowUnit):
        self._tik = tik_instance
        self._plan = plan
        self._b = buffers
        self._v = vector
        self._rows = rows
        self._count = plan.block * CUBE_BLOCK

    def prepare(self) -> None:
        """Constant ``own``: 1 where row and column of a diagonal 16x16 tile belong to one step."""
        self.resets = Resets(self._tik, self._plan, self._b, self._v)
        self._last, self._growth = (self._tik.Scalar("float32", name, 0.0) for name in ("cs_last", "growth"))
        if self._plan.problem.weighted:
            rank = self._plan.problem.rank
            self._v.dup(self._b["own"], 0.0, FRACTAL)
            self._fill(self._b["own"], 1.0, lambda i, j: i // rank == j // rank)

    def _fill(self, tile: Tile, value: float, where: Any) -> None:
        """Overwrite the elements (i, j) of a 16x16 tile for which ``where(i, j)``."""
        for first in range(0, CUBE_BLOCK, _ROWS):
            bits = sum(
                1 << (i * CUBE_BLOCK + j) for i in range(_ROWS) for j in range(CUBE_BLOCK) if where(first + i, j)
            )
            if bits:
                self._tik.vec_dup([0, bits], tile[first * CUBE_BLOCK], value, 1, _FULL)

    def zero_not_below(self, tile: Tile, diagonal: bool) -> None:
        """Zero the columns after a row's step in a diagonal 16x16 tile, and with ``diagonal`` its own too."""
        rank = self._plan.problem.rank
        self._fill(tile, 0.0, lambda i, j: j // rank > i // rank or (diagonal and j // rank == i // rank))

    def load(self) -> tuple[Any, Any]:
        """From ``da_row``: lanes ``cs`` (running sum), ``grow`` = exp(cs), ``rest`` = exp(cs_last - cs), row
        ``cs_row``. Returns registers with (cs_last, exp(cs_last)), good until the next call."""
        b, v, rows, count = self._b, self._v, self._plan.block, self._count
        self.resets.find()
        with self.resets.present():
            self.resets.clear(b["da_row"])
        self._rows.spread(b["work"], b["da_row"], rows)
        found = self.scan(b["work"], b["grow"])
        v.adds(b["cs"], found, 0.0, count)
        v.adds(b["cs_row"], self._rows.to_columns(b["cs"], rows), 0.0, rows)
        v.exp(b["grow"], b["cs"], count)
        last, growth = self._last, self._growth
        last.set_as(b["cs"][count - CUBE_BLOCK])
        v.muls(b["rest"], b["cs"], -1.0, count)
        v.adds(b["rest"], b["rest"], last, count)
        with self.resets.present():
            self._forget()
        growth.set_as(b["grow"][count - CUBE_BLOCK])
        v.exp(b["rest"], b["rest"], count)
        return last, growth

    def _forget(self) -> None:
        """Counts of resets as ``da_row`` and lanes ``work``; ``grow`` = 0 behind the first one, ``rest`` gets
        -2^100 before the last one."""
        b, v, rows, count = self._b, self._v, self._plan.block, self._count
        self.resets.mark()
        self._rows.spread(b["work"], b["da_row"], rows)
        found = self.scan(b["work"], b["grow"])
        if found is not b["work"]:
            v.adds(b["work"], found, 0.0, count)
        turned = self._rows.to_columns(b["work"], rows)
        v.adds(b["da_row"], turned, 0.0, rows)
        v.sub(b["grow"], b["cs"], b["work"], count)
        v.exp(b["grow"], b["grow"], count)
        every = self._tik.Scalar("float32")
        every.set_as(b["work"][count - CUBE_BLOCK])
        later = turned  # the scratch, free again
        v.muls(later, b["work"], -1.0, count)
        v.adds(later, later, every, count)
        v.sub(b["rest"], b["rest"], later, count)

    def scan(self, source: Tile, other: Tile, reverse: bool = False) -> Tile:
        """Running sum over the rows of lanes, doubling the distance at each step; the result lies in one of
        the two tiles, the other one is overwritten."""
        v, shift = self._v, CUBE_BLOCK
        while shift < self._count:
            left = self._count - shift
            if reverse:
                v.add(other, source, source.shift(shift), left)
                v.adds(other.shift(left), source.shift(left), 0.0, shift)
            else:
                v.adds(other, source, 0.0, shift)
                v.add(other.shift(shift), source.shift(shift), source, left)
            source, other, shift = other, source, shift * 2
        return source

    def repeat_line(self, line: Tile, row: Tile, column: int) -> None:
        """``line`` = the 16 values of ``row`` from ``column`` on, repeated to fill one vector repeat."""
        self._tik.vec_adds(CUBE_BLOCK, line[0], row[column], 0.0, _ROWS, CUBE_BLOCK * 4 // BLOCK_BYTES, 0)

    def triangle(self, target: Tile, column: int, diagonal: bool) -> int:
        """Columns ``column`` to ``column + 15`` of exp(cs_i - cs_j) for the rows from ``column`` on, 0 above
        the diagonal and, with ``diagonal``, on it. Returns the number of elements."""
        b, v = self._b, self._v
        start = column * CUBE_BLOCK
        count, between = self._count - start, b["turn"]
        self.repeat_line(b["line"], b["cs_row"], column)
        v.sub(target, b["cs"].shift(start), b["line"], count, row=True)
        with self.resets.present():
            self.repeat_line(b["line"], b["da_row"], column)
            v.sub(between, b["work"].shift(start), b["line"], count, row=True)
            v.sub(target, target, between, count)
        v.exp(target, target, count)
        self.zero_not_below(target, diagonal)  # overwrites what overflowed there
        return count

    def weigh(self, triangle: Tile, column: int, count: int) -> None:
        """Strictly lower triangle -> factor_j times it, plus gamma_j where row and column are one step."""
        b, v = self._b, self._v
        self.repeat_line(b["line"], b["factor_row"], column)
        v.mul(triangle, triangle, b["line"], count, row=True)
        self.repeat_line(b["gamma_line"], b["gamma_row"], column)
        v.mul_add(triangle, b["own"], b["gamma_line"], FRACTAL, row=True)

    def rest_weights(self) -> Tile:
        """Lanes exp(cs_last - cs), times factor in Mamba-3; in ``work`` there."""
        b = self._b
        if not self._plan.problem.weighted:
            return b["rest"]
        self._rows.spread(b["work"], b["factor_row"], self._plan.block)
        self._v.mul(b["work"], b["work"], b["rest"], self._count)
        return b["work"]

    def sum_lanes(self, sums: Tile, src: Tile, count: int) -> None:
        """sums (one repeat) += every repeat of ``src``, in order; ``count`` is a whole number of repeats."""
        for first in range(0, count // LANES, MAX_REPEAT):
            repeat = min(MAX_REPEAT, count // LANES - first)
            self._tik.vec_add(LANES, sums[0], src[first * LANES], sums[0], repeat, 0, _FULL, 0)

    def sum_columns(self, dst: Tile, src: Tile, count: int) -> None:
        """dst (16) = sums over the rows of ``src`` ``[count/16, 16]``."""
        sums, v = self._b["sums"], self._v
        v.dup(sums, 0.0, LANES)
        self.sum_lanes(sums, src, count)
        half = LANES // 2
        while half > CUBE_BLOCK:
            v.add(sums, sums, sums.shift(half), half)
            half //= 2
        v.add(dst, sums, sums.shift(half), half)
