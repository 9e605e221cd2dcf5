# SPDX-License-Identifier: Apache-2.0
"""The scan backward in TIK: one task per (sequence, head), blocks in reverse, the state's gradient dh stays
in UB.

A first sweep recomputes the state before every block into a GM workspace. Then per block, with A = C B^T,
D = dY X^T, T_ij = exp(cs_i - cs_j) for j <= i, e = exp(cs), w = exp(cs_last - cs), h the state before it::

    dX = (A*T)^T dY + w (B dh^T)            dB = (D*T)^T C + w (X dh)        dC = (D*T) B + e (dY h)
    dh <- exp(cs_last) dh + (e dY)^T C

da needs no triangle in memory. Let Z = A*D*T strictly below the diagonal, r_i = C_i . e_i (dY h)_i and
q_j = X_j . w_j (B dh^T)_j. Then::

    d_da_k = sum_{i >= k} (rowsum Z + r - colsum Z - q)_i + sum q + exp(cs_last) <h, dh>

and 0 where exp(da_k) is 0.

Every sum has one owner and one order. Where heads share B and C, each head leaves float32 tiles in a
workspace, and after a barrier each tile of dB and dC is summed over the heads of its group in their order.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.ssd_chunk_scan.base import Operand, ScanKernel, Task, problem_of, round_mode_to
from ms_custom_ops.soc.table import CUBE_BLOCK
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.ssd_chunk_scan import FRACTAL, LANES, plan_backward

_BARRIER_WORDS = 4
"""int64 words of the barrier's workspace per block."""


class ScanBackward(ScanKernel):
    """Inputs of the forward, dy and d_final_states -> gradients in the order and the dtypes of the inputs."""

    def workspaces(self) -> None:
        p, cores = self.problem, self.plan.split.block_num
        self.workspace("states", "float32", cores * self.plan.blocks * p.size * p.state)
        if p.shared:
            for name in ("head_b", "head_c"):
                self.workspace(name, "float32", p.batch * p.heads * p.rows * p.state)
            if cores > 1:
                self.workspace("barrier", "int64", cores * _BARRIER_WORDS, zeroed=True)
        super().workspaces()

    def scan(self, task: Task) -> None:
        self.load_state("initial_states", task)
        with self.tik.for_range(0, task.count) as turn:
            self._recompute(task, turn)
        self.load_state("d_final_states", task)
        with self.tik.if_scope(task.count > 0):
            last = self.scalar.hold(task.first + task.count - 1)
            self.load_da(task, last)
            self._load_operands(task, last, ("x", "dy", "b", "c"))
        with self.tik.for_range(0, task.count) as turn:
            self._block(task, self.scalar.hold(task.count - 1 - turn))
        self.store_state("d_initial_states", task)

    def _state_at(self, turn: Any, column: int = 0) -> Any:
        p = self.problem
        return self.gm["states"][(self.core * self.plan.blocks + turn) * (p.size * p.state) + column * p.size]

    def _recompute(self, task: Task, turn: Any) -> None:
        """Keep the state before block ``turn`` of the task, and advance it."""
        p, block = self.problem, self.scalar.hold(task.first + turn)
        self.moves.line(self._state_at(turn), self.buffers["state"][0], p.size * p.state, "float32")
        at_x = self.x_at(task, block)
        self.load_da(task, block)
        self.load_weights(task, block)
        self.load_step("x", at_x)
        self.load_operand("b", "b", self.bc_at(task.batch, block, task.group))
        _, growth = self.decay.load()
        self.advance("x", at_x, self.decay.rest_weights(), "b", growth)

    def _block(self, task: Task, turn: Any) -> None:
        block = self.scalar.hold(task.first + turn)
        at_x, at_bc = self.x_at(task, block), self.bc_at(task.batch, block, task.group)
        self.load_weights(task, block)
        self._start_scores()
        self.load_step("dy", at_x)
        _, growth = self.decay.load()
        self._load_states(turn, growth)
        self._scores()
        self._d_x(at_x)
        self._d_bc(task, block, at_bc)
        with self.tik.if_scope(turn > 0):
            self.load_da(task, block - 1)
            self._load_operands(task, block - 1, ("x", "dy", "b"))
        self.advance("dy", at_x, self.buffers["grow"], "c", growth)
        with self.tik.if_scope(turn > 0):
            self._load_operands(task, block - 1, ("c",))
        self._d_rows(task, block)

    def _load_operands(self, task: Task, block: Any, names: tuple[str, ...]) -> None:
        """L1 tiles of a block: those of the next one come as soon as those at hand were used."""
        at_x, at_bc = self.x_at(task, block), self.bc_at(task.batch, block, task.group)
        for name in names:
            self.load_operand(name, name, at_bc if name in ("b", "c") else at_x)

    def _load_states(self, turn: Any, growth: Any) -> None:
        """L1 h and dh in the operand dtype; ``total`` = exp(cs_last) * lanes of <h, dh>."""
        p, b, v = self.problem, self.buffers, self.vector
        count = p.size * self.plan.columns
        self.state_to_l1("dh")
        v.dup(b["total"], 0.0, LANES)
        with b.phase("convert"):
            for c in self.pieces():
                self.moves.line(b["h_wide"][0], self._state_at(turn, c), count, "float32")
                v.convert(b["h_half"], b["h_wide"], count, round_mode_to(p.dtype))
                self.cube.to_l1(b["h"].shift(c * p.size), b["h_half"], count)
                v.mul(b["h_wide"], b["h_wide"], b["state"].shift(c * p.size), count)
                self.decay.sum_lanes(b["total"], b["h_wide"], count)
        v.muls(b["total"], b["total"], growth, LANES)

    def _start_scores(self) -> None:
        """A = C B^T and D = dY X^T, as far as the cube goes with them beside the work on decays and states."""
        p, b, rows = self.problem, self.buffers, self.plan.block
        self.start_product(rows, p.state, rows, (b["c"], False), (b["b"], False))
        if self.plan.two_products:
            self.start_product(rows, p.size, rows, (b["dy"], False), (b["x"], False), second=True)

    def _scores(self) -> None:
        """L1 p = A*T and ds = D*T in the operand dtype, lanes of the row sums of Z, column sums of Z."""
        p, b, v, rows = self.problem, self.buffers, self.vector, self.plan.block
        area, mode = rows * rows, round_mode_to(p.dtype)
        v.dup(b["row_sums"], 0.0, rows * CUBE_BLOCK)
        with b.phase("scores"):
            self.fetch_product(b["scores"], rows, rows)
            if self.plan.two_products:
                self.fetch_product(b["d_scores"], rows, rows, second=True)
            else:
                self.product(b["d_scores"], rows, p.size, rows, (b["dy"], False), (b["x"], False))
            for column in range(0, rows, CUBE_BLOCK):
                self._column(column)
            for tile, target in (("scores", "p"), ("d_scores", "ds")):
                v.convert(b["cast"], b[tile], area, mode)
                self.cube.to_l1(b[target], b["cast"], area)

    def _column(self, column: int) -> None:
        """16 columns of both score tiles, from the diagonal down; zeros above."""
        p, b, v, decay = self.problem, self.buffers, self.vector, self.decay
        above, start = column * CUBE_BLOCK, column * self.plan.block
        a, d = b["scores"].shift(start + above), b["d_scores"].shift(start + above)
        count = decay.triangle(b["decay"], column, diagonal=p.weighted)
        product, sums = b["product"], b["row_sums"].shift(above)
        v.mul(product, a, d, count)
        if p.weighted:
            v.mul(b["own_tile"], b["own"], product, FRACTAL)
            decay.sum_columns(b["d_gamma_row"].shift(column), b["own_tile"], FRACTAL)
        v.mul(product, product, b["decay"], count)
        if not p.weighted:
            decay.zero_not_below(product, diagonal=True)
        decay.sum_columns(b["column_row"].shift(column), product, count)
        if p.weighted:
            decay.repeat_line(b["line"], b["factor_row"], column)
            v.mul(product, product, b["line"], count, row=True)
            decay.weigh(b["decay"], column, count)
        v.add(sums, sums, product, count)
        for tile in (a, d):
            v.mul(tile, tile, b["decay"], count)
        for tile in ("scores", "d_scores") if above else ():
            v.dup(b[tile].shift(start), 0.0, above)

    def _d_x(self, at_x: Any) -> None:
        """dX to GM; ``q_lanes`` = lanes of q (without factor)."""
        p, b, v, rows = self.problem, self.buffers, self.vector, self.plan.block
        count, mode = rows * CUBE_BLOCK, round_mode_to(p.dtype)
        v.dup(b["q_lanes"], 0.0, count)
        with b.phase("dx"):
            self.moves.to_tile(b["dx_half"], self.gm["x"], at_x, rows, p.size, p.heads * p.size)
            outer = (b["part"], p.state, (b["b"], False), (b["dh"], False))
            self.two_products(rows, p.size, (b["dx"], rows, (b["p"], True), (b["dy"], True)), outer)
            self.each_slice(v.mul, b["part"], b["rest"], rows, p.size)
            for c in range(0, p.size, CUBE_BLOCK):
                v.convert(b["turn"], b["dx_half"].shift(c * rows), count)
                v.mul_add(b["q_lanes"], b["turn"], b["part"].shift(c * rows), count)
            if p.weighted:
                self.rows.spread(b["work"], b["factor_row"], rows)
                self.each_slice(v.mul, b["part"], b["work"], rows, p.size)
            v.add(b["dx"], b["dx"], b["part"], rows * p.size)
            v.convert(b["dx_half"], b["dx"], rows * p.size, mode)
            self.moves.from_tile(self.gm["d_x"], at_x, b["dx_half"], rows, p.size, p.heads * p.size)

    def _d_bc(self, task: Task, block: Any, at_bc: Any) -> None:
        """dC and dB, or the head's share of them; r joins the row sums."""
        p, b, v, rows = self.problem, self.buffers, self.vector, self.plan.block
        count, weights = rows * CUBE_BLOCK, self.decay.rest_weights()
        for first in self.pieces():
            columns = self.plan.columns
            at, piece = at_bc + first, first * rows
            state = first * p.size
            with b.phase("dbc"):
                self.moves.to_tile(b["grad_half"], self.gm["c"], at, rows, columns, p.groups * p.state)
                self._piece((b["ds"], False), b["b"].shift(piece), (b["dy"], False), b["h"].shift(state), b["grow"])
                for c in range(0, columns, CUBE_BLOCK):
                    v.convert(b["turn"], b["grad_half"].shift(c * rows), count)
                    v.mul_add(b["row_sums"], b["turn"], b["inter"].shift(c * rows), count)
                self._store_piece("c", task, block, at, piece)
                self._piece((b["ds"], True), b["c"].shift(piece), (b["x"], False), b["dh"].shift(state), weights)
                self._store_piece("b", task, block, at, piece)

    def _piece(self, inner: Operand, right: Any, outer: Operand, state: Any, lanes: Any) -> None:
        """grad = inner @ right, inter = lanes * (outer @ state); the sum goes to grad when it is stored."""
        p, b, rows, columns = self.problem, self.buffers, self.plan.block, self.plan.columns
        beside = (b["inter"], p.size, outer, (state, True))
        self.two_products(rows, columns, (b["grad"], rows, inner, (right, True)), beside)
        self.each_slice(self.vector.mul, b["inter"], lanes, rows, columns)

    def _store_piece(self, name: str, task: Task, block: Any, at: Any, piece: int) -> None:
        p, b, v, rows = self.problem, self.buffers, self.vector, self.plan.block
        columns = self.plan.columns
        v.add(b["grad"], b["grad"], b["inter"], rows * columns)
        if p.shared:
            target = self.gm[f"head_{name}"][self._share_at(task.batch, task.head, block) + piece]
            self.moves.line(target, b["grad"][0], rows * columns, "float32")
            return
        v.convert(b["grad_half"], b["grad"], rows * columns, round_mode_to(p.dtype))
        self.moves.from_tile(self.gm[f"d_{name}"], at, b["grad_half"], rows, columns, p.groups * p.state)

    def _share_at(self, batch: Any, head: Any, block: Any) -> Any:
        """A head's tile ``[N/16, L, 16]`` in the workspaces."""
        p = self.problem
        return ((batch * p.heads + head) * self.plan.blocks + block) * (self.plan.block * p.state)

    def _d_rows(self, task: Task, block: Any) -> None:
        """d_da, and d_factor and d_gamma, of the block."""
        p, b, v, rows = self.problem, self.buffers, self.vector, self.plan.block
        count, at = rows * CUBE_BLOCK, self.da_at(task, block)
        column, row = b["column_row"], b["cs_row"]
        if p.weighted:
            self.rows.fold(v.add, row, b["q_lanes"], rows)
            v.add(row, row, column, rows)
            self.moves.line(self.gm["d_factor"][at], row[0], rows, "float32")
            self.moves.line(self.gm["d_gamma"][at], b["d_gamma_row"][0], rows, "float32")
            v.mul(column, column, b["factor_row"], rows)
            self.rows.spread(b["work"], b["factor_row"], rows)
            v.mul(b["q_lanes"], b["q_lanes"], b["work"], count)
        v.sub(b["row_sums"], b["row_sums"], b["q_lanes"], count)
        self.rows.fold(v.add, row, b["row_sums"], rows)
        v.sub(row, row, column, rows)
        self.rows.spread(b["row_sums"], row, rows)
        found = self.decay.scan(b["row_sums"], b["work"], reverse=True)
        self.decay.sum_lanes(b["total"], b["q_lanes"], count)
        self.tik.vcadd(LANES, b["lane_sums"][0], b["total"][0], 1, 1, 1, 8)
        whole = self.tik.Scalar("float32")
        whole.set_as(b["lane_sums"][0])
        v.adds(row, self.rows.to_columns(found, rows), whole, rows)
        with self.decay.resets.present():
            self.decay.resets.clear(row)
        self.moves.line(self.gm["d_da"][at], row[0], rows, "float32")

    def finish(self) -> None:
        """Sums over the heads of each group."""
        p = self.problem
        if not p.shared:
            return
        if self.plan.split.block_num > 1:
            self.tik.block_barrier(self.gm["barrier"])
        self.each_task(self._sum_group, p.batch * p.groups * self.plan.blocks)

    def _sum_group(self, index: Any) -> None:
        """b and c of one (batch entry, group, block)."""
        hold, groups = self.scalar.hold, self.problem.groups
        flat, block = hold(index // self.plan.blocks), hold(index % self.plan.blocks)
        batch, group = hold(flat // groups), hold(flat % groups)
        for name in ("b", "c"):
            for first in self.pieces():
                self._sum_heads(name, batch, group, block, first)

    def _sum_heads(self, name: str, batch: Any, group: Any, block: Any, first: int) -> None:
        p, b, v, rows = self.problem, self.buffers, self.vector, self.plan.block
        columns, per_group = self.plan.columns, p.heads // p.groups
        count = rows * columns
        with b.phase("group"):
            v.dup(b["group_sum"], 0.0, count)
            with self.tik.for_range(0, per_group) as member:
                at = self._share_at(batch, group * per_group + member, block) + first * rows
                self.moves.line(b["group_part"][0], self.gm[f"head_{name}"][at], count, "float32")
                v.add(b["group_sum"], b["group_sum"], b["group_part"], count)
            v.convert(b["group_half"], b["group_sum"], count, round_mode_to(p.dtype))
            self.moves.from_tile(
                self.gm[f"d_{name}"],
                self.bc_at(batch, block, group) + first,
                b["group_half"],
                rows,
                columns,
                p.groups * p.state,
            )


def ssd_chunk_scan_grad(call: KernelCall) -> Any:
    """Entry of the kernel."""
    return ScanBackward(call, plan_backward(problem_of(call), call.soc)).build()
