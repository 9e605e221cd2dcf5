# SPDX-License-Identifier: Apache-2.0
"""What the forward and the backward scan kernel share: GM tensors, tasks, products, the step of the state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ms_custom_ops import tik
from ms_custom_ops.op_impl.common.cube import CubeUnit
from ms_custom_ops.op_impl.common.rows import RowUnit
from ms_custom_ops.op_impl.common.scalar import ScalarUnit
from ms_custom_ops.op_impl.common.tile import Buffers, Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit
from ms_custom_ops.op_impl.ssd_chunk_scan.decay import Decay
from ms_custom_ops.op_impl.ssd_chunk_scan.layout import RowMoves
from ms_custom_ops.soc.table import CUBE_BLOCK
from ms_custom_ops.tiling.ssd_chunk_scan import ScanPlan, ScanProblem

Operand = tuple[Tile, bool]
"""An L1 tile and whether it is read transposed."""


def problem_of(
    op: str, x: dict, b: dict, chunk_size: int, first_chunks: dict | None, states: dict, **weights: Any
) -> ScanProblem:
    """The problem that tensor descriptions (TBE dicts with "shape" and "dtype") state."""
    batch, rows, heads, size = x["shape"]
    _, _, groups, state = b["shape"]
    sequences = 0 if first_chunks is None else states["shape"][0]
    return ScanProblem(
        op, batch, rows, heads, groups, size, state, x["dtype"], chunk_size, sequences=sequences, **weights
    )


def round_mode_to(dtype: str) -> str:
    """Rounding mode name of float32 to ``dtype``: the chips have different names for nearest even."""
    return "round" if dtype == "bfloat16" else "none"


@dataclass(frozen=True)
class Task:
    """One (sequence, head): positions in GM and the blocks of the sequence."""

    index: Any
    batch: Any
    head: Any
    group: Any
    first: Any
    count: Any


class ScanKernel:
    """Base of both kernels. Subclasses declare their GM tensors in the order of the YAML, then call
    :meth:`build`."""

    def __init__(self, problem: ScanProblem, plan: ScanPlan):
        self.problem = problem
        self.plan = plan
        self.tik = tik.Tik()
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.gm: dict[str, Any] = {}

    def gm_input(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Declare the next input."""
        self.gm[name] = self.tik.Tensor(dtype, shape, tik.scope_gm, name)
        self.inputs.append(self.gm[name])

    def gm_output(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Declare the next output."""
        self.gm[name] = self.tik.Tensor(dtype, shape, tik.scope_gm, name)
        self.outputs.append(self.gm[name])

    def gm_workspace(self, name: str, dtype: str, elements: int) -> None:
        """Declare a GM workspace."""
        self.gm[name] = self.tik.Tensor(dtype, (elements,), tik.scope_gm, name, is_workspace=True)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """GM shapes by role: x, da (one float32 per row), bc, states."""
        p = self.problem
        return dict(
            x=(p.batch, p.rows, p.heads, p.size),
            da=(p.batch, p.heads, p.rows),
            bc=(p.batch, p.rows, p.groups, p.state),
            states=(p.owners, p.heads, p.size, p.state),
        )

    def declare_operands(self) -> None:
        """The inputs that both kernels begin with."""
        p, s = self.problem, self.shapes
        self.gm_input("x", p.dtype, s["x"])
        self.gm_input("da", "float32", s["da"])
        for name in ("factor", "gamma") if p.weighted else ():
            self.gm_input(name, "float32", s["da"])
        self.gm_input("b", p.dtype, s["bc"])
        self.gm_input("c", p.dtype, s["bc"])
        self.gm_input("initial_states", "float32", s["states"])

    def declare_first_chunks(self) -> None:
        """The optional input of packed batches."""
        if self.problem.sequences:
            size = -(-(self.problem.sequences + 1) // 8) * 8
            self.gm_input("first_chunks", "int32", (size,))

    def build(self, kernel_name: str) -> Any:
        """Emit the multi-core loop and finish the kernel."""
        split, plan = self.plan.split, self.plan
        wide, half = plan.most("l0c"), plan.most("l1")
        if plan.soc.split_core:
            self.gm_workspace("exchange_wide", "float32", split.block_num * wide)
            self.gm_workspace("exchange_half", self.problem.dtype, split.block_num * half)
        with self.tik.for_range(0, split.block_num, block_num=split.block_num) as core:
            self._units(core, wide, half)
            with self.share(core, split.total) as index:
                self.task(core, self._task(self.scalar.hold(index)))
            self.finish(core)
        self.tik.BuildCCE(kernel_name=kernel_name, inputs=self.inputs, outputs=self.outputs)
        return self.tik

    def share(self, core: Any, total: int) -> Any:
        """Loop over the core's contiguous share of ``total`` equal tasks."""
        cores = self.plan.split.block_num
        quotient, remainder = divmod(total, cores)
        first = self.scalar.hold(core * quotient + self.scalar.minimum(core, remainder))
        count = self.tik.Scalar("int64", init_value=quotient)
        if remainder:
            with self.tik.if_scope(core < remainder):
                count.set_as(quotient + 1)
        return self.tik.for_range(first, first + count)

    def task(self, core: Any, task: Task) -> None:
        """One (sequence, head)."""
        raise NotImplementedError

    def finish(self, core: Any) -> None:
        """Work after the tasks of a core."""

    def _units(self, core: Any, wide: int, half: int) -> None:
        t, plan = self.tik, self.plan
        self.buffers = Buffers(t, plan)
        self.buffers.resident()
        self.vector = VectorUnit(t)
        self.scalar = ScalarUnit(t)
        self.moves = RowMoves(t, plan.soc)
        self.rows = RowUnit(t, self.vector, self.buffers["turn"])
        self.decay = Decay(t, plan, self.buffers, self.vector, self.rows)
        self.decay.prepare()
        wide_tile = half_tile = None
        if plan.soc.split_core:
            wide_tile = Tile(self.gm["exchange_wide"], core * wide)
            half_tile = Tile(self.gm["exchange_half"], core * half)
        self.cube = CubeUnit(t, plan.soc, wide_tile, half_tile)
        if self.problem.sequences:
            chunks = self.gm["first_chunks"]
            self.moves.line(self.buffers["first_chunks"][0], chunks, chunks.shape[0], "int32")

    def _task(self, index: Any) -> Task:
        p, plan, hold = self.problem, self.plan, self.scalar.hold
        owner, head = hold(index // p.heads), hold(index % p.heads)
        group = hold(head // (p.heads // p.groups))
        if not p.sequences:
            return Task(index, owner, head, group, 0, plan.blocks)
        first, behind = self.tik.Scalar("int32"), self.tik.Scalar("int32")
        first.set_as(self.buffers["first_chunks"][owner])
        behind.set_as(self.buffers["first_chunks"][owner + 1])
        count = hold((behind - first) * plan.blocks_per_chunk)
        return Task(index, 0, head, group, hold(first * plan.blocks_per_chunk), count)

    def x_at(self, task: Task, block: Any) -> Any:
        """First element of the block in x, y and their gradients; rows are heads * P apart."""
        p = self.problem
        return self.scalar.hold(((task.batch * p.rows + block * self.plan.block) * p.heads + task.head) * p.size)

    def bc_at(self, batch: Any, block: Any, group: Any) -> Any:
        """First element of the block in b, c and their gradients; rows are groups * N apart."""
        p = self.problem
        return self.scalar.hold(((batch * p.rows + block * self.plan.block) * p.groups + group) * p.state)

    def da_at(self, task: Task, block: Any) -> Any:
        """First element of the block in da and what has its shape."""
        p = self.problem
        return self.scalar.hold((task.batch * p.heads + task.head) * p.rows + block * self.plan.block)

    def load_rows(self, task: Task, block: Any) -> tuple[Any, Any]:
        """da and, in Mamba-3, factor and gamma of the block; the result of ``decay.load``."""
        b, at = self.buffers, self.da_at(task, block)
        for name in ("da", "factor", "gamma") if self.problem.weighted else ("da",):
            self.moves.line(b[f"{name}_row"][0], self.gm[name][at], self.plan.block, "float32")
        return self.decay.load()

    def load_operand(self, target: str, source: str, start: Any) -> None:
        """L1 tile ``target`` = the block of x, dy, b or c."""
        p = self.problem
        columns, copies = (p.state, p.groups) if source in ("b", "c") else (p.size, p.heads)
        self.moves.to_l1(self.buffers[target], self.gm[source], start, self.plan.block, columns, columns * copies)

    def load_state(self, source: str, task: Task) -> None:
        """``state`` = the task's (P, N) matrix of ``source``, as ``[N/16, P, 16]``."""
        p = self.problem
        start = self.scalar.hold(task.index * (p.size * p.state))
        self.moves.to_tile(self.buffers["state"], self.gm[source], start, p.size, p.state, p.state)

    def store_state(self, target: str, task: Task) -> None:
        """The way back."""
        p = self.problem
        start = self.scalar.hold(task.index * (p.size * p.state))
        self.moves.from_tile(self.gm[target], start, self.buffers["state"], p.size, p.state, p.state)

    def pieces(self) -> Iterator[int]:
        """First columns of the pieces of the state."""
        return iter(range(0, self.problem.state, self.plan.columns))

    def product(self, phase: str, target: Tile, m: int, k: int, n: int, left: Operand, right: Operand) -> None:
        """UB target ``[n/16, m, 16]`` = left (m, k) @ right (k, n). Left is stored (m, k), or (k, m) when
        turned; right (n, k), or (k, n) when turned."""
        b, cube, tag = self.buffers, self.cube, phase.replace(".", "_")
        cube.load_left(b[f"left_{tag}"], left[0], m, k, turned=left[1])
        cube.load_right(b[f"right_{tag}"], right[0], k, n, turned=right[1])
        cube.multiply(b[f"acc_{tag}"], b[f"left_{tag}"], b[f"right_{tag}"], m, k, n)
        cube.to_ub(target, b[f"acc_{tag}"], m, n)

    def each_slice(self, combine: Any, tile: Tile, lanes: Tile, rows: int, columns: int) -> None:
        """``combine(slice, slice, lanes)`` for every 16-column slice of a tile."""
        count = rows * CUBE_BLOCK
        for c in range(0, columns, CUBE_BLOCK):
            part = tile.shift(c * rows)
            combine(part, part, lanes, count)

    def advance(self, source: str, start: Any, weights: Tile, right: str, growth: Any) -> None:
        """``state`` = growth * state + (weights * block of source)^T @ L1 ``right``."""
        p, b, v, rows = self.problem, self.buffers, self.vector, self.plan.block
        count, wide = rows * CUBE_BLOCK, b["turn"]
        with b.phase("advance"):
            self.moves.to_tile(b["x_half"], self.gm[source], start, rows, p.size, p.heads * p.size)
            for c in range(0, p.size, CUBE_BLOCK):
                part = b["x_half"].shift(c * rows)
                v.convert(wide, part, count)
                v.mul(wide, wide, weights, count)
                v.convert(part, wide, count, round_mode_to(p.dtype))
            self.cube.to_l1(b["scaled"], b["x_half"], rows * p.size)
            v.muls(b["state"], b["state"], growth, p.size * p.state)
            for c in self.pieces():
                columns, piece = self.plan.columns, b["state"].shift(c * p.size)
                self.product(
                    "advance", b["delta"], p.size, rows, columns, (b["scaled"], True), (b[right].shift(c * rows), True)
                )
                v.add(piece, piece, b["delta"], p.size * columns)

    def state_to_l1(self, target: str) -> None:
        """L1 target = ``state`` in the operand dtype."""
        p, b = self.problem, self.buffers
        count = p.size * self.plan.columns
        with b.phase("convert"):
            for c in self.pieces():
                self.vector.convert(b["h_half"], b["state"].shift(c * p.size), count, round_mode_to(p.dtype))
                self.cube.to_l1(b[target].shift(c * p.size), b["h_half"], count)
