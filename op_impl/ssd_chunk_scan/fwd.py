# SPDX-License-Identifier: Apache-2.0
"""The scan forward in TIK: one task per (sequence, head), blocks in order, the state stays in UB.

Per block, with A = C B^T: ``y = (A * exp(cs_i - cs_j)) X + exp(cs) * (C h^T)`` and
``h = exp(cs_last) h + (exp(cs_last - cs) * X)^T B``. In Mamba-3 the strictly lower part is multiplied by
factor_j and the step's own part is gamma_j * A.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.kernel import round_mode_to
from ms_custom_ops.op_impl.ssd_chunk_scan.base import ScanKernel, Task, problem_of
from ms_custom_ops.soc.table import CUBE_BLOCK
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.ssd_chunk_scan import plan_forward


class ScanForward(ScanKernel):
    """x, da, b, c, initial_states -> y in the dtype of x, final_states float32."""

    def scan(self, task: Task) -> None:
        self.load_state("initial_states", task)
        with self.tik.for_range(0, task.count) as turn:
            self._block(task, self.scalar.hold(task.first + turn))
        self.store_state("final_states", task)

    def _block(self, task: Task, block: Any) -> None:
        p, b, rows, two = self.problem, self.buffers, self.plan.block, self.plan.two_products
        at_x, at_bc = self.x_at(task, block), self.bc_at(task.batch, block, task.group)
        self.load_da(task, block)
        self.load_weights(task, block)
        self.load_operand("b", "b", at_bc)
        self.load_operand("c", "c", at_bc)
        self.load_operand("x", "x", at_x)
        self.start_product(rows, p.state, rows, (b["c"], False), (b["b"], False))
        self.load_step("x", at_x)
        if two:
            self.state_to_l1("h")
            self.start_product(rows, p.state, p.size, (b["c"], False), (b["h"], False), second=True)
        growth = self._scores()
        if not two:
            self.state_to_l1("h")
        self._output(at_x)
        self.advance("x", at_x, self.decay.rest_weights(), "b", growth)

    def _scores(self) -> Any:
        """L1 p = A times the decay triangle, in the operand dtype; the result is exp(cs_last). The cube makes A beside
        the decay."""
        p, b, v, rows = self.problem, self.buffers, self.vector, self.plan.block
        _, growth = self.decay.load()
        with b.phase("scores"):
            self.fetch_product(b["scores"], rows, rows)
            for column in range(0, rows, CUBE_BLOCK):
                above = column * CUBE_BLOCK
                count = self.decay.triangle(b["decay"], column, diagonal=p.weighted)
                if p.weighted:
                    self.decay.weigh(b["decay"], column, count)
                part = b["scores"].shift(column * rows + above)
                v.mul(part, part, b["decay"], count)
                if above:
                    v.dup(b["scores"].shift(column * rows), 0.0, above)
            v.convert(b["cast"], b["scores"], rows * rows, round_mode_to(p.dtype))
            self.cube.to_l1(b["p"], b["cast"], rows * rows)
        return growth

    def _output(self, at_x: Any) -> None:
        p, b, v, rows, two = self.problem, self.buffers, self.vector, self.plan.block, self.plan.two_products
        count = rows * CUBE_BLOCK
        with b.phase("y"):
            if two:
                self.fetch_product(b["inter"], rows, p.size, second=True)
            self.product(b["y"], rows, rows, p.size, (b["p"], False), (b["x"], True))
            if not two:
                self.product(b["inter"], rows, p.state, p.size, (b["c"], False), (b["h"], False))
            for c in range(0, p.size, CUBE_BLOCK):
                v.mul_add(b["y"].shift(c * rows), b["inter"].shift(c * rows), b["grow"], count)
            v.convert(b["y_cast"], b["y"], rows * p.size, round_mode_to(p.dtype))
            self.moves.from_tile(self.gm["y"], at_x, b["y_cast"], rows, p.size, p.heads * p.size)


def ssd_chunk_scan(call: KernelCall) -> Any:
    """Entry of the kernel."""
    return ScanForward(call, plan_forward(problem_of(call), call.soc)).build()
