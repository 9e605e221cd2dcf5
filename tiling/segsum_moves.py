# SPDX-License-Identifier: Apache-2.0
"""Which blocks of a C x C matrix a kernel reads: only those that hold entries of the triangle it needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Rows ``[row, row + rows)`` and columns ``[column, column + columns)`` of the matrix, as a UB tile of
    that shape.

    ``lower``: entries with column < row are needed, else those with column > row.
    """

    row: int
    rows: int
    column: int
    columns: int
    lower: bool


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
