# SPDX-License-Identifier: Apache-2.0
"""C x C matrices of several chunks: loading one triangle, and zeros in the other before anything is
summed.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit
from ms_custom_ops.op_impl.segsum.vector import BLOCK, FULL_MASK, GridUnit, column_bits, triangle_bits
from ms_custom_ops.soc.table import BLOCK_BYTES
from ms_custom_ops.tiling.budget import DTYPE_BYTES
from ms_custom_ops.tiling.segsum_moves import Run, Window, needed, triangle_runs

CMPMASK_WORDS = 4
"""int32 words of the compare mask register."""


class TriangleLoader:
    """Moves the blocks that hold needed entries of ``count`` chunks into a UB tile ``[count, rows,
    columns]``.

    The rest of the tile is left as it is. ``fix`` is scratch of one block of the matrix dtype.
    """

    def __init__(self, tik_instance: Any, chunks: int, chunk: int, fix: Tile):
        self._tik = tik_instance
        self._chunks = chunks
        self._chunk = chunk
        self._fix = fix

    def load(self, tile: Tile, gm: Any, first: Any, count: int, window: Window) -> None:
        """``first`` is the index of the first chunk in GM ``[chunks, C, C]``."""
        block = BLOCK_BYTES // DTYPE_BYTES[gm.dtype]
        runs = triangle_runs(window, self._chunk, block)
        if self._chunk % block:
            for n in range(count):
                self._rows(tile.shift(n * window.size), gm, first + n, window, runs, block)
            return
        dense = window.pitch == self._chunk
        across = sum(1 if dense and run.blocks * block == self._chunk else run.rows for run in runs)
        for run in runs:
            if across >= count * len(runs):
                self._along(tile, gm, first, count, window, run, block)
            else:
                self._across(tile, gm, first, count, window, run, block, dense)

    def _start(self, first: Any, window: Window, row: int, column: int) -> Any:
        chunk = self._chunk
        return first * (chunk * chunk) + ((window.row + row) * chunk + window.column + column)

    def _along(self, tile: Tile, gm: Any, first: Any, count: int, window: Window, run: Run, block: int) -> None:
        """One move per chunk, a burst per row."""
        column = run.block * block
        gaps = self._chunk // block - run.blocks, window.pitch // block - run.blocks
        for n in range(count):
            at = tile[n * window.size + run.row * window.pitch + column]
            self._tik.data_move(at, gm[self._start(first + n, window, run.row, column)], 0, run.rows, run.blocks, *gaps)

    def _across(
        self, tile: Tile, gm: Any, first: Any, count: int, window: Window, run: Run, block: int, dense: bool
    ) -> None:
        """One move per row, or per run of whole rows, a burst per chunk."""
        whole = dense and run.blocks * block == self._chunk
        rows, burst = (1, run.rows * run.blocks) if whole else (run.rows, run.blocks)
        column = run.block * block
        gaps = self._chunk * self._chunk // block - burst, window.size // block - burst
        if count == 1:
            gaps = 0, 0
        for r in range(run.row, run.row + rows):
            self._tik.data_move(
                tile[r * window.pitch + column], gm[self._start(first, window, r, column)], 0, count, burst, *gaps
            )

    def _rows(self, tile: Tile, gm: Any, chunk: Any, window: Window, runs: list[Run], block: int) -> None:
        """Rows that are no whole number of blocks: one move each; what it carries too much is never used."""
        for run in runs:
            for r in range(run.row, run.row + run.rows):
                column = run.block * block
                at, source = tile[r * window.pitch + column], self._start(chunk, window, r, column)
                end = window.column + column + run.blocks * block
                if window.row + r < self._chunk - 1 or end <= self._chunk:
                    self._tik.data_move(at, gm[source], 0, 1, run.blocks, 0, 0)
                    continue
                with self._tik.if_scope(chunk < self._chunks - 1):
                    self._tik.data_move(at, gm[source], 0, 1, run.blocks, 0, 0)
                with self._tik.else_scope():
                    self._last_row(tile, gm, chunk, window, r, block)

    def _last_row(self, tile: Tile, gm: Any, chunk: Any, window: Window, row: int, block: int) -> None:
        """The last row of the last matrix: whole blocks that end inside the tensor, then single elements."""
        first, end = needed(window, row, self._chunk)
        first = first // block * block
        whole = (self._chunk - window.column) // block * block
        if whole > first:
            self._tik.data_move(
                tile[row * window.pitch + first],
                gm[self._start(chunk, window, row, first)],
                0,
                1,
                (whole - first) // block,
                0,
                0,
            )
        if whole >= end:
            return
        last_block = self._chunk - block - window.column
        self._tik.data_move(self._fix[0], gm[self._start(chunk, window, row, last_block)], 0, 1, 1, 0, 0)
        for column in range(max(first, whole), end):
            tile[row * window.pitch + column].set_as(self._fix[column - last_block])


def spans(window: Window, chunk: int) -> list[tuple[int, int, int]]:
    """(group of 8 rows, first block, blocks) of the 8 x 8 blocks of the window that hold needed entries."""
    found = []
    for group in range(window.rows // BLOCK):
        rows = [needed(window, group * BLOCK + r, chunk) for r in range(BLOCK)]
        rows = [(first, end) for first, end in rows if first < end]
        if rows:
            first, end = min(f for f, _ in rows) // BLOCK, -(-max(e for _, e in rows) // BLOCK)
            found.append((group, first, end - first))
    return found


class TriangleMask:
    """Zeros in every entry that does not count of the 8 x 8 blocks with needed entries, in a float32 tile
    ``[count, rows, columns]``. The other blocks are left as they are; :func:`spans` leaves them out
    everywhere."""

    def __init__(self, tik_instance: Any, chunk: int, bits: Tile, zeros: Tile):
        """``bits``: 2 blocks of int32; ``zeros``: a block of float32; both filled by :meth:`prepare`."""
        self._tik = tik_instance
        self._chunk = chunk
        self._triangle, self._columns = bits, bits.shift(BLOCK)
        self._zeros = zeros
        self._grid = GridUnit(tik_instance)
        self._vector = VectorUnit(tik_instance)

    def prepare(self, lower: bool) -> None:
        """Fills the constants for windows of one kind."""
        self._vector.dup(self._zeros, 0.0, BLOCK)
        columns = FULL_MASK ^ column_bits(self._chunk % BLOCK)
        for tile, bits in ((self._triangle, triangle_bits(lower)), (self._columns, columns)):
            for word in range(2):
                value = bits >> (32 * word) & (1 << 32) - 1
                tile[word].set_as(value - (1 << 32) if value >> 31 else value)
            for word in range(2, CMPMASK_WORDS):
                tile[word].set_as(0)

    def apply(self, tile: Tile, count: int, window: Window) -> None:
        """Keeps what ``window.lower`` asks for, inside the C x C matrix."""
        pitch, step = window.pitch // BLOCK, window.size
        at = window.row - window.column  # column of the diagonal in row 0
        self._grid.keep_blocks(
            tile.shift(at),
            self._triangle,
            self._zeros,
            pitch,
            [(window.rows // BLOCK, BLOCK * window.pitch + BLOCK), (count, step)],
        )
        if window.lower:
            self._zero_rows(tile, count, window)
        else:
            self._zero_columns(tile, count, window)

    def _zero_rows(self, tile: Tile, count: int, window: Window) -> None:
        """Rows beyond the matrix."""
        rows = max(self._chunk - window.row, 0)
        for n in range(count if rows < window.rows else 0):
            self._vector.dup(
                tile.shift(n * window.size + rows * window.pitch), 0.0, (window.rows - rows) * window.pitch
            )

    def _zero_columns(self, tile: Tile, count: int, window: Window) -> None:
        """Columns beyond the matrix, in the block that it ends in; later blocks hold nothing that counts."""
        if self._chunk % BLOCK:
            column = self._chunk // BLOCK * BLOCK - window.column
            cells = [(count * window.rows // BLOCK, BLOCK * window.pitch), (1, 0)]
            self._grid.keep_blocks(tile.shift(column), self._columns, self._zeros, window.pitch // BLOCK, cells)

    def shorten(self, tile: Tile, length: Any, window: Window) -> None:
        """Zeros for queries at ``length`` (a Scalar below C) and later, in the tile of one chunk."""
        if window.lower:
            self._shorten_rows(tile, length, window)
        else:
            self._shorten_columns(tile, length, window)

    def _shorten_rows(self, tile: Tile, length: Any, window: Window) -> None:
        t = self._tik
        for row in range(window.rows):
            with t.if_scope(length <= window.row + row):
                self._vector.dup(tile.shift(row * window.pitch), 0.0, window.columns)

    def _shorten_columns(self, tile: Tile, length: Any, window: Window) -> None:
        t, pitch = self._tik, window.pitch // BLOCK
        cells = [(window.rows // BLOCK, BLOCK * window.pitch), (1, 0)]
        for column in range(0, window.columns, BLOCK):
            first = window.column + column
            with t.if_scope(length <= first):
                self._grid.zero_blocks(tile.shift(column), FULL_MASK, pitch, cells)
            for inside in range(1, BLOCK):
                with t.if_scope(length == first + inside):
                    self._grid.zero_blocks(tile.shift(column), column_bits(inside), pitch, cells)
