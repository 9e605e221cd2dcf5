# SPDX-License-Identifier: Apache-2.0
"""Tiling of the Mamba-2 and Mamba-3 scans: steps per block, columns of the state handled at once, buffers,
core split.

A block is the piece of a chunk that is on the chip at once. The result does not depend on it beyond rounding,
so the plan takes the largest divisor of ``chunk_size`` whose buffers fit the chip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ms_custom_ops.errors import BudgetError
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, VECTOR_REPEAT_BYTES, Soc
from ms_custom_ops.tiling.budget import BufferSpec, align, fits, table
from ms_custom_ops.tiling.choice import tuned_choice
from ms_custom_ops.tiling.split import CoreSplit

LANES = VECTOR_REPEAT_BYTES // 4
"""float32 lanes of a repeat."""
FRACTAL = CUBE_BLOCK * CUBE_BLOCK


@dataclass(frozen=True)
class ScanProblem:
    """One call at the primitive level. ``rows`` counts (step, rank) pairs and is a multiple of
    ``chunk_size``, itself a multiple of 16; ``size`` P and ``state`` N are multiples of 16. ``rank`` divides
    16. ``sequences`` > 0: packed batch (``batch`` 1) with an input that gives the first chunk of each.
    ``weighted``: inputs factor and gamma (Mamba-3)."""

    op: str
    batch: int
    rows: int
    heads: int
    groups: int
    size: int
    state: int
    dtype: str
    chunk_size: int
    rank: int = 1
    sequences: int = 0
    weighted: bool = False

    @property
    def owners(self) -> int:
        """Independent state sequences per head."""
        return self.sequences or self.batch

    @property
    def tasks(self) -> int:
        """(sequence, head) pairs."""
        return self.owners * self.heads

    @property
    def shared(self) -> bool:
        """Several heads use one B and C."""
        return self.heads > self.groups


@dataclass(frozen=True)
class ScanPlan:
    """``block`` rows per block, ``columns`` of the state per piece, buffers and core split of one kernel."""

    problem: ScanProblem
    soc: Soc
    block: int
    columns: int
    buffers: tuple[BufferSpec, ...]
    split: CoreSplit

    @property
    def early_moves(self) -> bool:
        """The block that advances the state has a place of its own, so that it may come before other work ends."""
        return any(b.name == "x_half" and not b.phase for b in self.buffers)

    @property
    def two_products(self) -> bool:
        """L0C holds two products."""
        return any(b.name == "acc_2" for b in self.buffers)

    @property
    def blocks(self) -> int:
        """Blocks of one row of the batch."""
        return self.problem.rows // self.block

    @property
    def blocks_per_chunk(self) -> int:
        """Blocks of one chunk."""
        return self.problem.chunk_size // self.block


def _ub(phase: str, **elements: int) -> list[BufferSpec]:
    return [BufferSpec(name, "ub", "float32", count, phase) for name, count in elements.items()]


def _common(p: ScanProblem, block: int) -> list[BufferSpec]:
    """Rows (L,), lanes (L, 16) and constants that both passes keep, and the operands in L1."""
    lanes = block * CUBE_BLOCK
    out = _ub(
        "",
        state=p.size * p.state,
        da_row=align(block, LANES),
        cs_row=block,
        turn=lanes,
        cs=lanes,
        work=lanes,
        grow=lanes,
        rest=lanes,
        line=LANES,
    )
    out.append(BufferSpec("reset_bits", "ub", "int32", align(block, LANES) // LANES * (BLOCK_BYTES // 4)))
    if p.weighted:
        out += _ub("", factor_row=block, gamma_row=block, own=FRACTAL, gamma_line=LANES)
    if p.sequences:
        out.append(BufferSpec("first_chunks", "ub", "int32", align(p.sequences + 1, 8)))
    shapes = dict(b=p.state, c=p.state, x=p.size, scaled=p.size, p=block)
    out += [BufferSpec(name, "l1", p.dtype, block * width) for name, width in shapes.items()]
    return out + [BufferSpec("h", "l1", p.dtype, p.size * p.state)]


def _cube(dtype: str, *products: tuple[int, int, int]) -> list[BufferSpec]:
    """L0 for any one of the products (m, k, n) of a kernel."""
    return [
        BufferSpec("left", "l0a", dtype, max(m * k for m, k, _ in products)),
        BufferSpec("right", "l0b", dtype, max(k * n for _, k, n in products)),
        BufferSpec("acc", "l0c", "float32", max(m * n for m, _, n in products)),
    ]


def _advance(p: ScanProblem, block: int, columns: int) -> list[BufferSpec]:
    """Phase "advance": the state over one block."""
    return [BufferSpec("x_half", "ub", p.dtype, block * p.size, "advance"), *_ub("advance", delta=p.size * columns)]


def forward_buffers(p: ScanProblem, block: int, columns: int) -> tuple[BufferSpec, ...]:
    """On-chip buffers of the forward kernel."""
    area, piece = block * block, p.size * columns
    return (
        *_common(p, block),
        *_advance(p, block, columns),
        BufferSpec("h_half", "ub", p.dtype, piece, "convert"),
        *_ub("scores", scores=area, decay=block * CUBE_BLOCK),
        BufferSpec("cast", "ub", p.dtype, area, "scores"),
        *_ub("y", y=block * p.size, inter=block * p.size),
        BufferSpec("y_cast", "ub", p.dtype, block * p.size, "y"),
        *_cube(
            p.dtype, (p.size, block, columns), (block, p.state, block), (block, p.state, p.size), (block, block, p.size)
        ),
    )


def backward_buffers(p: ScanProblem, block: int, columns: int) -> tuple[BufferSpec, ...]:
    """On-chip buffers of the backward kernel. ``state`` holds the gradient of the state."""
    t, lanes, area, piece = p.dtype, block * CUBE_BLOCK, block * block, p.size * columns
    weighted = _ub("", d_gamma_row=block, own_tile=FRACTAL) if p.weighted else []
    tile = block * columns
    return (
        *_common(p, block),
        *_advance(p, block, columns),
        *weighted,
        *_ub("", column_row=block, row_sums=lanes, q_lanes=lanes, sums=LANES, lane_sums=LANES, total=LANES),
        *[BufferSpec(name, "l1", t, block * width) for name, width in dict(dy=p.size, ds=block).items()],
        BufferSpec("dh", "l1", t, p.size * p.state),
        *_ub("convert", h_wide=piece),
        BufferSpec("h_half", "ub", t, piece, "convert"),
        *_ub("scores", scores=area, d_scores=area, decay=lanes, product=lanes),
        BufferSpec("cast", "ub", t, area, "scores"),
        *_ub("dx", dx=block * p.size, part=block * p.size),
        BufferSpec("dx_half", "ub", t, block * p.size, "dx"),
        *_ub("dbc", grad=tile, inter=tile),
        BufferSpec("grad_half", "ub", t, tile, "dbc"),
        *_cube(
            t,
            (p.size, block, columns),
            (block, max(p.state, p.size), block),
            (block, max(p.state, block), p.size),
            (block, max(p.size, block), columns),
        ),
        *_ub("group", group_sum=tile, group_part=tile),
        BufferSpec("group_half", "ub", t, tile, "group"),
    )


BuffersOf = Callable[[ScanProblem, int, int], tuple[BufferSpec, ...]]


def _divisors(value: int) -> list[int]:
    """Divisors of ``value`` that are multiples of 16, the largest first."""
    return [d for d in range(value, 0, -CUBE_BLOCK) if value % d == 0]


def _fitting(p: ScanProblem, soc: Soc, buffers_of: BuffersOf) -> Iterator[dict[str, int]]:
    """Longest block first, then most columns."""
    for block in _divisors(p.chunk_size):
        for columns in _divisors(p.state):
            if fits(buffers_of(p, block, columns), soc):
                yield {"block": block, "columns": columns}


def _plan(p: ScanProblem, soc: Soc, buffers_of: BuffersOf) -> ScanPlan:
    found = tuned_choice(
        p.op, p, soc, lambda: list(_fitting(p, soc, buffers_of)), lambda block, columns: buffers_of(p, block, columns)
    )
    choice = found or next(_fitting(p, soc, buffers_of), None)
    if choice is None:
        smallest = buffers_of(p, CUBE_BLOCK, CUBE_BLOCK)
        raise BudgetError(
            f"{p.op}: no block of chunk_size {p.chunk_size} with P = {p.size}, N = {p.state} {p.dtype} fits "
            f"{soc.name}; the smallest:\n{table(smallest, soc)}"
        )
    block, columns = choice["block"], choice["columns"]
    buffers = _with_room(buffers_of(p, block, columns), soc)
    return ScanPlan(p, soc, block, columns, buffers=buffers, split=CoreSplit(p.tasks, soc.core_count))


def _with_room(buffers: tuple[BufferSpec, ...], soc: Soc) -> tuple[BufferSpec, ...]:
    """What lets moves and products start early, where the buffers of a choice leave room for it: the choice, and with
    it the rounding of results, does not depend on that."""
    early = tuple(replace(b, phase="") if b.name == "x_half" else b for b in buffers)
    buffers = early if fits(early, soc) else buffers
    second = (*buffers, replace(next(b for b in buffers if b.name == "acc"), name="acc_2"))
    return second if fits(second, soc) else buffers


def plan_forward(p: ScanProblem, soc: Soc) -> ScanPlan:
    """Plan of the forward kernel, one task per (sequence, head). Raises BudgetError when nothing fits."""
    return _plan(p, soc, forward_buffers)


def plan_backward(p: ScanProblem, soc: Soc) -> ScanPlan:
    """Plan of the backward kernel, one task per (sequence, head). Raises BudgetError when nothing fits."""
    return _plan(p, soc, backward_buffers)
