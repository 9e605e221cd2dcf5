# SPDX-License-Identifier: Apache-2.0
"""What the forward and the backward scan kernel share: tasks, products, the step of the state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ms_custom_ops.op_impl.common.kernel import CubeKernel, round_mode_to
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.ssd_chunk_scan.decay import Decay
from ms_custom_ops.op_impl.ssd_chunk_scan.layout import RowMoves
from ms_custom_ops.soc.table import CUBE_BLOCK
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.ssd_chunk_scan import ScanPlan, ScanProblem

Operand = tuple[Tile, bool]
"""An L1 tile and whether it is read transposed."""
Factors = tuple[Tile, int, Operand, Operand]
"""A product: UB target, depth, left and right operand."""


def problem_of(call: KernelCall, x: str = "x", b: str = "b", **weights: Any) -> ScanProblem:
    """The problem that the tensors of a call state; ``x`` and ``b`` are their names in the op."""
    batch, rows, heads, size = call[x].shape
    _, _, groups, state = call[b].shape
    sequences = call["initial_states"].shape[0] if "first_chunks" in call else 0
    dtype, chunk = call[x].dtype, call.attrs["chunk_size"]
    return ScanProblem(call.op, batch, rows, heads, groups, size, state, dtype, chunk, sequences=sequences, **weights)


@dataclass(frozen=True)
class Task:
    """One (sequence, head): positions in GM and the blocks of the sequence."""

    index: Any
    batch: Any
    head: Any
    group: Any
    first: Any
    count: Any


class ScanKernel(CubeKernel):
    """Base of both kernels, with the names of Mamba-2; a :class:`Task` is one (sequence, head)."""

    problem: ScanProblem
    plan: ScanPlan
    spare_exchange = True

    def task(self, index: Any) -> None:
        self.scan(self._task(index))

    def scan(self, task: Task) -> None:
        """One (sequence, head)."""
        raise NotImplementedError

    def prepare(self) -> None:
        super().prepare()
        t, plan = self.tik, self.plan
        self.moves = RowMoves(t, plan.soc)
        self.decay = Decay(t, plan, self.buffers, self.vector, self.rows)
        self.decay.prepare()
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

    def load_da(self, task: Task, block: Any) -> None:
        """da of the block, for ``decay.load``: what the vector unit starts with, so best before larger moves."""
        self.moves.line(self.buffers["da_row"][0], self.gm["da"][self.da_at(task, block)], self.plan.block, "float32")

    def load_weights(self, task: Task, block: Any) -> None:
        """In Mamba-3 factor and gamma of the block."""
        for name in ("factor", "gamma") if self.problem.weighted else ():
            source = self.gm[name][self.da_at(task, block)]
            self.moves.line(self.buffers[f"{name}_row"][0], source, self.plan.block, "float32")

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

    def product(self, target: Tile, m: int, k: int, n: int, left: Operand, right: Operand) -> None:
        """UB target ``[n/16, m, 16]`` = left (m, k) @ right (k, n). Left is stored (m, k), or (k, m) when
        turned; right (n, k), or (k, n) when turned."""
        self.start_product(m, k, n, left, right)
        self.fetch_product(target, m, n)

    def start_product(self, m: int, k: int, n: int, left: Operand, right: Operand, second: bool = False) -> None:
        """The product as far as the cube goes with it; ``second``: beside one that was not fetched yet, where the plan
        has ``two_products``."""
        b, cube, acc = self.buffers, self.cube, "acc_2" if second else "acc"
        cube.load_left(b["left"], left[0], m, k, turned=left[1])
        cube.load_right(b["right"], right[0], k, n, turned=right[1])
        cube.multiply(b[acc], b["left"], b["right"], m, k, n)
        cube.leave(b[acc], m, n, spare=second)

    def fetch_product(self, target: Tile, m: int, n: int, second: bool = False) -> None:
        """The rest of the way."""
        self.cube.fetch(target, self.buffers["acc_2" if second else "acc"], m, n, spare=second)

    def two_products(self, m: int, n: int, first: Factors, second: Factors) -> None:
        """Two products (target, k, left, right) of m rows and n columns, the second beside the first where the plan has
        ``two_products``."""
        if not self.plan.two_products:
            for target, k, left, right in (first, second):
                self.product(target, m, k, n, left, right)
            return
        self.start_product(m, first[1], n, first[2], first[3])
        self.start_product(m, second[1], n, second[2], second[3], second=True)
        self.fetch_product(first[0], m, n)
        self.fetch_product(second[0], m, n, second=True)

    def each_slice(self, combine: Any, tile: Tile, lanes: Tile, rows: int, columns: int) -> None:
        """``combine(slice, slice, lanes)`` for every 16-column slice of a tile."""
        count = rows * CUBE_BLOCK
        for c in range(0, columns, CUBE_BLOCK):
            part = tile.shift(c * rows)
            combine(part, part, lanes, count)

    def load_step(self, source: str, start: Any) -> None:
        """The block of ``source`` that advances the state, early where it has a place of its own."""
        if self.plan.early_moves:
            self._to_step(source, start)

    def _to_step(self, source: str, start: Any) -> None:
        p = self.problem
        self.moves.to_tile(self.buffers["x_half"], self.gm[source], start, self.plan.block, p.size, p.heads * p.size)

    def advance(self, source: str, start: Any, weights: Tile, right: str, growth: Any) -> None:
        """``state`` = growth * state + (weights * block of source)^T @ L1 ``right``; after :meth:`load_step`."""
        p, b, v, rows = self.problem, self.buffers, self.vector, self.plan.block
        count, wide = rows * CUBE_BLOCK, b["turn"]
        with b.phase("advance"):
            if not self.plan.early_moves:
                self._to_step(source, start)
            for c in range(0, p.size, CUBE_BLOCK):
                part = b["x_half"].shift(c * rows)
                v.convert(wide, part, count)
                v.mul(wide, wide, weights, count)
                v.convert(part, wide, count, round_mode_to(p.dtype))
            self.cube.to_l1(b["scaled"], b["x_half"], rows * p.size)
            pieces, columns = list(self.pieces()), self.plan.columns
            self._start_step(right, pieces[0])
            v.muls(b["state"], b["state"], growth, p.size * p.state)
            for c in pieces:
                piece = b["state"].shift(c * p.size)
                if c:
                    self._start_step(right, c)
                self.fetch_product(b["delta"], p.size, columns)
                v.add(piece, piece, b["delta"], p.size * columns)

    def _start_step(self, right: str, column: int) -> None:
        p, b, rows = self.problem, self.buffers, self.plan.block
        operands = (b["scaled"], True), (b[right].shift(column * rows), True)
        self.start_product(p.size, rows, self.plan.columns, *operands)

    def state_to_l1(self, target: str) -> None:
        """L1 target = ``state`` in the operand dtype."""
        p, b = self.problem, self.buffers
        count = p.size * self.plan.columns
        with b.phase("convert"):
            for c in self.pieces():
                self.vector.convert(b["h_half"], b["state"].shift(c * p.size), count, round_mode_to(p.dtype))
                self.cube.to_l1(b[target].shift(c * p.size), b["h_half"], count)
