# SPDX-License-Identifier: Apache-2.0
"""Tiling of the segment-sum ops: chunks per task, panels of a C x C matrix, buffers, and the split over
cores.

A task is a group of at most 16 chunks, since 16 is what one transpose turns: the scans run with a chunk per
lane. Inside a task, ``tile`` chunks are handled together, each in panels of ``panel`` rows. C is at least 16
here; the public functions fill smaller chunks up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ms_custom_ops.errors import BudgetError, TilingError
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, KIB, VECTOR_REPEAT_BYTES, Soc
from ms_custom_ops.tiling.budget import DTYPE_BYTES, BufferSpec, align, fits, table
from ms_custom_ops.tiling.choice import tuned_choice
from ms_custom_ops.tiling.segsum_moves import Window, panel_windows
from ms_custom_ops.tiling.split import CoreSplit, vector_cores

GROUP = CUBE_BLOCK
"""Chunks of a full task: a transpose turns 16 rows."""
MIN_CHUNK, MAX_CHUNK = CUBE_BLOCK, 256
_F32_BLOCK = BLOCK_BYTES // DTYPE_BYTES["float32"]
_PANELS = (128, 64, 48, 32, 16)
_GROUPS = (16, 8, 4, 2, 1)
"""Chunks of a task, and of a tile, that tune tries."""
_HALVED = {"bwd_segsum_dadt": 48 * KIB, "bwd_dadt_fused": 48 * KIB, "dacs_segsum": 128 * KIB}
"""Bytes of a matrix tile from which on a half is taken at a time: the other arrives, or leaves, beside the work on it.
Chosen by modelled cycles on 910A and 910B1; no bit of a result depends on it."""


@dataclass(frozen=True)
class SegsumProblem:
    """``chunks`` = B * H * N chunks of ``chunk`` steps; ``slots`` = N. ``matrix_dtype`` is that of the C x C
    operands ("" without any), ``vector_dtype`` that of the (B, H, N*C) operand. ``query_major``: both
    matrices have queries as rows.
    """

    chunks: int
    slots: int
    chunk: int
    matrix_dtype: str = ""
    vector_dtype: str = "float32"
    query_major: bool = False
    has_lengths: bool = False

    @property
    def pitch(self) -> int:
        """Row length in UB: C rounded up to what a transpose turns."""
        return align(self.chunk, CUBE_BLOCK)

    @property
    def pads(self) -> tuple[int, ...]:
        """What may lie between two rows of a matrix in UB, the best first: a block of its dtype, or nothing."""
        return (BLOCK_BYTES // DTYPE_BYTES[self.matrix_dtype], 0) if self.matrix_dtype else (0,)

    def panels(self, panel: int) -> tuple[tuple[int, int], ...]:
        """``(first row, rows)`` of the panels of one matrix."""
        return tuple((row, min(panel, self.pitch - row)) for row in range(0, self.pitch, panel))

    def windows(self, panel: int, pad: int) -> list[tuple[Window, Window]]:
        """What the backward kernels hold of both matrices, panel by panel."""
        return panel_windows(self.pitch, self.panels(panel), self.query_major, pad)

    @property
    def wide_matrices(self) -> bool:
        """The C x C operands are float32 and need no conversion."""
        return self.matrix_dtype == "float32"


@dataclass(frozen=True)
class SegsumPlan:
    """``group`` chunks per task, of which ``tile`` at a time, in panels of ``panel`` rows. ``pad``: elements between
    rows of matrices that the backward kernels hold, where the banks of UB ask for them."""

    problem: SegsumProblem
    soc: Soc
    group: int
    tile: int
    panel: int
    pad: int
    buffers: tuple[BufferSpec, ...]
    split: CoreSplit

    @property
    def full_groups(self) -> int:
        """Tasks with ``group`` chunks."""
        return self.problem.chunks // self.group

    @property
    def last_group(self) -> int:
        """Chunks of the last, smaller task; 0 without one."""
        return self.problem.chunks % self.group

    @property
    def panels(self) -> tuple[tuple[int, int], ...]:
        """``(first row, rows)`` of the panels of one matrix."""
        return self.problem.panels(self.panel)

    def tiles(self, count: int) -> tuple[int, int]:
        """(full tiles, chunks of the smaller one after them) of ``count`` chunks."""
        return divmod(count, self.tile)


BuffersOf = Callable[[SegsumProblem, int, int, int], tuple[BufferSpec, ...]]


def group_size(chunks: int, soc: Soc) -> int:
    """Chunks per task: as many as a transpose turns, fewer where cores would stay idle."""
    return max(1, min(GROUP, -(-chunks // vector_cores(soc))))


def _finish_buffers(p: SegsumProblem, phase: str = "finish") -> list[BufferSpec]:
    """Rows (16, P) and their transposes (P + 16, 16), of which the scans need two."""
    rows = GROUP * p.pitch
    out = [BufferSpec(n, "ub", "float32", rows, phase) for n in ("rows_a", "rows_b")]
    out += [BufferSpec(n, "ub", "float32", rows + GROUP * GROUP, phase) for n in ("turn_a", "turn_b", "turn_c")]
    out.append(BufferSpec("edge", "ub", "float32", GROUP * GROUP, phase))
    if p.vector_dtype != "float32":
        out.append(BufferSpec("rows_half", "ub", p.vector_dtype, rows, phase))
    return out


def backward_buffers(p: SegsumProblem, tile: int, panel: int, pad: int) -> tuple[BufferSpec, ...]:
    """Buffers of bwd_segsum_dadt and bwd_dadt_fused."""
    rows, windows = GROUP * p.pitch, p.windows(panel, pad)
    own = tile * max(window.size for window, _ in windows)
    sizes = {"decay": max(own, tile * max(source.size for _, source in windows)), "product": own, "turned": own}
    out = [BufferSpec(n, "ub", "float32", rows) for n in ("row_sums", "column_sums")]
    out.append(BufferSpec("zero_block", "ub", "float32", _F32_BLOCK))
    out.append(BufferSpec("keep_bits", "ub", "int32", 2 * _F32_BLOCK))
    out += [BufferSpec(n, "ub", "float32", tile * panel * _F32_BLOCK, "panel") for n in ("lane_sums", "lane_rows")]
    names = ("decay", "product") if p.query_major else ("decay", "product", "turned")
    if p.wide_matrices:
        out += [BufferSpec(n, "ub", "float32", sizes[n], "panel") for n in names]
    else:
        out += [BufferSpec(n, "ub", "float32", sizes["product"], "panel") for n in ("decay", "product")]
        out += [BufferSpec(n + "_half", "ub", p.matrix_dtype, sizes[n], "panel") for n in names]
    out.append(BufferSpec("fix", "ub", p.matrix_dtype, CUBE_BLOCK, "panel"))
    if p.has_lengths:
        out.append(BufferSpec("lengths", "ub", "int32", align(p.slots, _F32_BLOCK)))
    return (*out, *_finish_buffers(p))


def cumsum_buffers(p: SegsumProblem) -> tuple[BufferSpec, ...]:
    """Buffers of bwd_dadt_cumsum."""
    return tuple(_finish_buffers(p))


def forward_buffers(p: SegsumProblem, tile: int, panel: int, with_decay: bool) -> tuple[BufferSpec, ...]:
    """Buffers of dacs_segsum and segsum_decay: matrix tiles are (panel, tile, P), ``*_edge`` their last 8
    columns.
    """
    rows = GROUP * p.pitch
    lanes = VECTOR_REPEAT_BYTES // DTYPE_BYTES["float32"]
    out = [BufferSpec("steps", "ub", "float32", rows), BufferSpec("zeros", "ub", "float32", lanes), *_finish_buffers(p)]
    names = ("segsum", "decay") if with_decay else ("segsum",)
    for name in names:
        out.append(BufferSpec(name, "ub", "float32", tile * panel * p.pitch, "matrix"))
        if p.chunk % _F32_BLOCK:
            out.append(BufferSpec(name + "_edge", "ub", "float32", tile * panel * _F32_BLOCK, "matrix"))
    out.append(BufferSpec("lanes", "ub", "float32", tile * p.pitch * CUBE_BLOCK, "matrix"))
    out.append(BufferSpec("carry", "ub", "float32", tile * p.pitch, "matrix"))
    out.append(BufferSpec("carry_edge", "ub", "float32", tile * _F32_BLOCK, "matrix"))
    return tuple(out)


def _check(p: SegsumProblem) -> None:
    if not MIN_CHUNK <= p.chunk <= MAX_CHUNK:
        raise TilingError(f"segment sums: chunk_size is {p.chunk}; accepted: {MIN_CHUNK} to {MAX_CHUNK}")


def _fitting(
    p: SegsumProblem, soc: Soc, buffers_of: BuffersOf, group: int, tiles: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """(tile, panel, pad) that fit: the whole matrix or else the highest panel, since panels cost instructions; rows
    apart, since conflicts in the banks cost more than moves; of it as many chunks as fit."""
    for panel in [p.pitch, *(h for h in _PANELS if h < p.pitch)]:
        for pad in p.pads:
            for tile in tiles:
                if tile <= group and fits(buffers_of(p, tile, panel, pad), soc):
                    yield tile, panel, pad


def _choose(p: SegsumProblem, soc: Soc, buffers_of: BuffersOf, group: int) -> tuple[int, int, int]:
    """The first of :func:`_fitting`."""
    found = next(_fitting(p, soc, buffers_of, group, range(group, 0, -1)), None)
    if found is not None:
        return found
    smallest = buffers_of(p, 1, _PANELS[-1], 0)
    raise BudgetError(f"segment sums: chunk_size {p.chunk} does not fit {soc.name}:\n{table(smallest, soc)}")


def _choices(p: SegsumProblem, soc: Soc, buffers_of: BuffersOf) -> list[dict[str, int]]:
    """What tune may try: plans whose tiles have other buffers, each once."""
    found: dict[tuple[Any, ...], dict[str, int]] = {}
    for group in sorted({group_size(p.chunks, soc), *_GROUPS}, reverse=True):
        for tile, panel, pad in _fitting(p, soc, buffers_of, group, sorted({group, *_GROUPS}, reverse=True)):
            key = group, buffers_of(p, tile, panel, pad)
            found.setdefault(key, {"group": group, "tile": tile, "panel": panel, "pad": pad})
    return list(found.values())


def _plan(op: str, p: SegsumProblem, soc: Soc, buffers_of: BuffersOf) -> SegsumPlan:
    _check(p)
    found = tuned_choice(
        op,
        p,
        soc,
        lambda: _choices(p, soc, buffers_of),
        lambda group, tile, panel, pad: buffers_of(p, tile, panel, pad),
    )
    if found is not None:
        group, tile, panel, pad = (found[name] for name in ("group", "tile", "panel", "pad"))
    else:
        group = group_size(p.chunks, soc)
        tile, panel, pad = _choose(p, soc, buffers_of, group)
        if tile > 1 and tile * panel * p.pitch * DTYPE_BYTES["float32"] >= _HALVED.get(op, soc.ub_bytes):
            tile = -(-tile // 2)
    split = CoreSplit(-(-p.chunks // group), vector_cores(soc))
    return SegsumPlan(p, soc, group, tile, panel, pad, buffers_of(p, tile, panel, pad), split)


def plan_backward(p: SegsumProblem, soc: Soc, op: str = "bwd_segsum_dadt") -> SegsumPlan:
    """Plan of bwd_segsum_dadt and bwd_dadt_fused. Raises TilingError, BudgetError."""
    return _plan(op, p, soc, backward_buffers)


def plan_cumsum(p: SegsumProblem, soc: Soc) -> SegsumPlan:
    """Plan of bwd_dadt_cumsum. Raises TilingError, BudgetError."""
    return _plan("bwd_dadt_cumsum", p, soc, lambda problem, tile, panel, pad: cumsum_buffers(problem))


def plan_forward(p: SegsumProblem, soc: Soc, with_decay: bool) -> SegsumPlan:
    """Plan of dacs_segsum, and of segsum_decay ``with_decay``. Raises TilingError, BudgetError."""
    op = "segsum_decay" if with_decay else "dacs_segsum"
    return _plan(op, p, soc, lambda problem, tile, panel, pad: forward_buffers(problem, tile, panel, with_decay))
