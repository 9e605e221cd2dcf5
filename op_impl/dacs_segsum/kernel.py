# SPDX-License-Identifier: Apache-2.0
"""dacs_segsum in TIK: two scans with a chunk per lane, and the segment sums row by row."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.segsum.forward import ForwardKernel
from ms_custom_ops.op_impl.segsum.rows import GROUP
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.segsum import SegsumProblem, plan_forward


class RunningSums(ForwardKernel):
    """da (B, H, S) float32 -> da_cs, da_cs_rev (B, H, S), segsum (B, H, N, C, C)."""

    def group(self, first: Any, count: int) -> None:
        b, chunk = self.buffers, self.problem.chunk
        with b.phase("finish"):
            turned = self.load_steps(first, count)
            # A scan loses its operand; what comes after a step starts one step later.
            self.vector.adds(b["turn_c"], turned.shift(GROUP), 0.0, (chunk - 1) * GROUP)
            self._finish("da_cs", first, count, turned, False)
            later = b["turn_c"]
            self.rows_unit().zero_step(later, chunk - 1)
            self._finish("da_cs_rev", first, count, later, True)
        self.each_tile(first, count, self.matrix_tile)

    def _finish(self, name: str, first: Any, count: int, turned: Tile, reverse: bool) -> None:
        unit, rows = self.rows_unit(), self.buffers["rows_a"]
        sums, _ = unit.scan(turned, self.buffers["turn_b"], reverse)
        self.vector.min(sums, sums, self.buffers["zeros"], self.problem.chunk * GROUP, row=True)
        unit.turn_back(rows, sums, count, "float32")
        unit.store(self.gm[name], first * self.problem.chunk, rows, count)


def dacs_segsum(call: KernelCall) -> Any:
    """Entry of the kernel."""
    b, h, s = call["da"].shape
    chunk = call.attrs["chunk_size"]
    problem = SegsumProblem(b * h * (s // chunk), s // chunk, chunk)
    return RunningSums(call, plan_forward(problem, call.soc, False)).build()
