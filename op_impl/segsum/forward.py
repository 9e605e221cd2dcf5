# SPDX-License-Identifier: Apache-2.0
"""Segment sums of chunks, row by row: row i of the matrix is row i-1 plus da[i] in the lanes below the
diagonal.

A tile of ``count`` chunks lies as ``[rows, count, P]``, so that one vector addition makes a row of every
chunk. Entries on and above the diagonal are zeros that nothing overwrites. When C is no whole number of
blocks, the last 8 columns are made a second time as an aligned piece ``[rows, count, 8]``; moves to GM then
never touch what lies beyond a row.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.segsum.kernel import SegsumKernel
from ms_custom_ops.op_impl.segsum.rows import GROUP
from ms_custom_ops.op_impl.segsum.vector import BLOCK, LANES
from ms_custom_ops.soc.table import BLOCK_BYTES, VECTOR_REPEAT_BYTES

_FULL = VECTOR_REPEAT_BYTES // BLOCK_BYTES


class Columns:
    """A column range of a matrix tile: ``width`` lanes per row from matrix column ``first`` on."""

    def __init__(self, name: str, first: int, width: int):
        self.name = name
        self.first = first
        self.width = width

    def lanes_below(self, row: int) -> int:
        """Lanes of row ``row`` that lie below the diagonal."""
        return min(max(row - self.first, 0), self.width)


class ForwardKernel(SegsumKernel):
    """da (B, H, S) float32 -> segsum (B, H, N, C, C), with running sums or with decay (exp of it)."""

    with_decay = False

    @property
    def _columns(self) -> list[Columns]:
        chunk, pitch = self.problem.chunk, self.problem.pitch
        main = [Columns("", 0, pitch)]
        return main + ([Columns("_edge", chunk - BLOCK, BLOCK)] if chunk % BLOCK else [])

    def load_steps(self, first: Any, count: int) -> Tile:
        """turn_a ``[C, 16]`` = da of the group; rows "steps" hold it with position = step. Inside phase
        "finish".
        """
        unit, b = self.rows_unit(), self.buffers
        unit.load(b["rows_a"], self.gm["da"], first * self.problem.chunk, count)
        unit.turn(b["turn_a"], b["rows_a"], "float32")
        unit.turn_back(b["steps"], b["turn_a"], count)
        return b["turn_a"]

    def matrix_tile(self, first: Any, place: Any, count: int) -> None:
        """Make and store the matrices of ``count`` chunks."""
        b, pitch = self.buffers, self.problem.pitch
        with b.phase("matrix"):
            for n in range(count):
                self.transpose.spread(
                    b["lanes"].shift(n * GROUP), count * GROUP, b["steps"].shift((place + n) * pitch), pitch
                )
            for start, rows in self.plan.panels:
                rows = min(rows, self.problem.chunk - start)
                if rows <= 0:
                    continue
                # The sums are on their way out while the vector unit makes their exponentials.
                for columns in self._columns:
                    self._panel(columns, start, rows, count)
                self._store("segsum", first, start, rows, count)
                if not self.with_decay:
                    continue
                for columns in self._columns:
                    self._decay(columns, start, rows, count)
                self._store("decay", first, start, rows, count)

    def _panel(self, columns: Columns, start: int, rows: int, count: int) -> None:
        tile, step = self.buffers["segsum" + columns.name], count * columns.width
        carry = self.buffers["carry" + columns.name]
        # Lanes that stay zero may hold the rows of an earlier tile or panel.
        self.vector.dup(tile, 0.0, rows * step)
        if start:
            self._add_row(tile, carry, columns, start, count)
        for row in range(1, rows):
            self._add_row(tile.shift(row * step), tile.shift((row - 1) * step), columns, start + row, count)
        if start + rows < self.problem.chunk:
            self.vector.adds(carry, tile.shift((rows - 1) * step), 0.0, step)
        self._clamp(tile, rows * step)

    def _decay(self, columns: Columns, start: int, rows: int, count: int) -> None:
        """The exponentials of a panel below the diagonal."""
        tile, step = self.buffers["segsum" + columns.name], count * columns.width
        decay = self.buffers["decay" + columns.name]
        self.vector.dup(decay, 0.0, rows * step)
        for row in range(rows):
            self._exp_row(decay.shift(row * step), tile.shift(row * step), columns, start + row, count)

    def _add_row(self, row: Tile, before: Tile, columns: Columns, index: int, count: int) -> None:
        """row = before + da[index] in the lanes below the diagonal, for every chunk."""
        lanes, stride = self.buffers["lanes"].shift(index * count * GROUP), columns.width // BLOCK
        below = columns.lanes_below(index)
        for at in range(0, below, LANES):
            self.tik.vadd(
                min(LANES, below - at), row[at], before[at], lanes[0], count, 1, 1, 0, stride, stride, GROUP // BLOCK
            )

    def _exp_row(self, decay: Tile, row: Tile, columns: Columns, index: int, count: int) -> None:
        below, stride = columns.lanes_below(index), columns.width // BLOCK
        for at in range(0, below, LANES):
            self.tik.vec_exp(min(LANES, below - at), decay[at], row[at], count, stride, stride)

    def _clamp(self, tile: Tile, elements: int) -> None:
        self.vector.min(tile, tile, self.buffers["zeros"], elements, row=True)

    def _store(self, name: str, first: Any, start: int, rows: int, count: int) -> None:
        for n in range(count):
            base = (first + n) * (self.problem.chunk * self.problem.chunk) + start * self.problem.chunk
            self._store_rows(name, base, n, rows, count)

    def _store_rows(self, name: str, base: Any, n: int, rows: int, count: int) -> None:
        """``rows`` rows of chunk ``n`` of the tile to GM from element ``base`` on."""
        chunk, pitch, gm = self.problem.chunk, self.problem.pitch, self.gm[name]
        main = chunk // BLOCK
        if chunk % BLOCK == 0:
            gap = count * pitch // BLOCK - main if rows > 1 else 0
            self.tik.data_move(gm[base], self.buffers[name][n * pitch], 0, rows, main, gap, 0)
            return
        # Rows 8 apart are whole blocks apart in GM.
        for row in range(min(BLOCK, rows)):
            bursts = -(-(rows - row) // BLOCK)
            at = base + row * chunk
            for columns, blocks, offset in ((self._columns[0], main, 0), (self._columns[1], 1, chunk - BLOCK)):
                step = count * columns.width
                source = self.buffers[name + columns.name][row * step + n * columns.width]
                gaps = (BLOCK * step // BLOCK - blocks, chunk - blocks) if bursts > 1 else (0, 0)
                self.tik.data_move(gm[at + offset], source, 0, bursts, blocks, *gaps)

    def prepare(self) -> None:
        self.vector.dup(self.buffers["zeros"], 0.0, LANES)
