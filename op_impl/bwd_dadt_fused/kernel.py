# SPDX-License-Identifier: Apache-2.0
"""bwd_dadt_fused in TIK: the sums of bwd_segsum_dadt join the scan of bwd_dadt_cumsum."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.segsum.cumsum import cumsum_gradient
from ms_custom_ops.op_impl.segsum.kernel import BackwardKernel
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.segsum import SegsumProblem, plan_backward


class FusedBackward(BackwardKernel):
    """dSSdA, SSdA (B, H, N, C, C), four float32 tensors (B, H, N*C), lengths or absent -> dadt (B, H,
    N*C).
    """

    def group(self, first: Any, count: int) -> None:
        self.each_tile(first, count, self.sum_tile)
        net = self.net_sums(count)
        with self.buffers.phase("finish"):
            unit, rows = self.rows_unit(), self.buffers["rows_a"]
            unit.turn_back(rows, cumsum_gradient(self, unit, first, count, net), count, "float32")
            unit.store(self.gm["dadt"], first * self.problem.chunk, rows, count)


def bwd_dadt_fused(call: KernelCall) -> Any:
    """Entry of the kernel."""
    matrices = call["dSSdA"]
    b, h, n, chunk, _ = matrices.shape
    problem = SegsumProblem(b * h * n, n, chunk, matrices.dtype, has_lengths="lengths" in call)
    return FusedBackward(call, plan_backward(problem, call.soc, call.op)).build()
