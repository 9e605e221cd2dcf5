# SPDX-License-Identifier: Apache-2.0
"""Which blocks of a C x C matrix a kernel reads: only those that hold entries of the triangle it needs."""

from __future__ import annotations

from dataclasses import dataclass

_BANK_ROW = 32
"""float32 elements: rows of a multiple of them put the blocks of 8 rows into at most 4 of the 16 groups of banks."""


@dataclass(frozen=True)
class Window:
    """Rows ``[row, row + rows)`` and columns ``[column, column + columns)`` of the matrix, as a UB tile of
    that shape.

    ``lower``: entries with column < row are needed, else those with column > row. ``pad``: elements between two rows of
    the tile.
    """

    row: int
    rows: int
    column: int
    columns: int
    lower: bool
    pad: int = 0

    @property
    def pitch(self) -> int:
        """Elements from row to row of the tile."""
        return self.columns + self.pad

    @property
    def size(self) -> int:
        """Elements of the tile."""
        return self.rows * self.pitch


def row_pad(columns: int, pad: int) -> int:
    """``pad`` elements behind each row, where the blocks of 8 rows in one column would meet in the banks of UB."""
    return 0 if columns % _BANK_ROW else pad


def panel_windows(
    pitch: int, panels: tuple[tuple[int, int], ...], query_major: bool, pad: int
) -> list[tuple[Window, Window]]:
    """(of Z and dSSdA, of SSdA as it lies in GM) per panel of a matrix with rows of ``pitch``; the panel that covers
    every column first."""
    if query_major:
        found = [Window(row, rows, 0, row + rows, True, row_pad(row + rows, pad)) for row, rows in reversed(panels)]
        return [(w, w) for w in found]
    return [
        (
            Window(row, rows, row, pitch - row, False, row_pad(pitch - row, pad)),
            Window(row, pitch - row, row, rows, True, row_pad(rows, pad)),
        )
        for row, rows in panels
    ]


@dataclass(frozen=True)
class Run:
    """``rows`` rows from ``row`` on (of the window) that need the same blocks: ``blocks`` from ``block``
    on.
    """

    row: int
    rows: int
    block: int
    blocks: int


def needed(window: Window, row: int, chunk: int) -> tuple[int, int]:
    """First column and end of what row ``row`` of the window needs, relative to the window; empty if
    equal.
    """
    at = window.row + row
    if at >= chunk:
        return 0, 0
    first, end = (0, at) if window.lower else (at + 1, chunk)
    first, end = max(first, window.column), min(end, window.column + window.columns, chunk)
    return (first - window.column, end - window.column) if first < end else (0, 0)


def triangle_runs(window: Window, chunk: int, block: int) -> list[Run]:
    """Runs of the rows that need something; ``block`` elements per 32-byte block."""
    runs: list[Run] = []
    for row in range(window.rows):
        first, end = needed(window, row, chunk)
        if first == end:
            continue
        start, count = first // block, -(-end // block) - first // block
        last = runs[-1] if runs else None
        if last and (last.block, last.blocks, last.row + last.rows) == (start, count, row):
            runs[-1] = Run(last.row, last.rows + 1, start, count)
        else:
            runs.append(Run(row, 1, start, count))
    return runs
