# SPDX-License-Identifier: Apache-2.0
"""bwd_segsum_dadt in TIK: two reductions of the strict triangle and one scan over C values."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.segsum.kernel import BackwardKernel
from ms_custom_ops.op_impl.segsum.rows import GROUP
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.segsum import SegsumProblem, plan_backward


class SegsumBackward(BackwardKernel):
    """dSSdA, SSdA (B, H, N, C, C), ddt_out (B, H, N*C), lengths or absent -> ddt (B, H, N*C)."""

    def group(self, first: Any, count: int) -> None:
        p = self.problem
        self.each_tile(first, count, self.sum_tile)
        with self.buffers.phase("finish"):
            unit = self.rows_unit()
            turned = self.buffers["turn_a"]
            unit.turn(turned.shift(GROUP), self.net_sums(count))
            unit.zero_step(turned, 0)
            sums, _ = unit.scan(turned, self.buffers["turn_b"])
            rows, start = self.buffers["rows_a"], first * p.chunk
            unit.turn_back(rows, sums, count, p.vector_dtype)
            unit.load(self.buffers["rows_b"], self.gm["ddt_out"], start, count)
            self.vector.add(rows, rows, self.buffers["rows_b"], count * p.pitch)
            unit.store(self.gm["ddt"], start, rows, count)


def bwd_segsum_dadt(call: KernelCall) -> Any:
    """Entry of the kernel."""
    matrices, query_major = call["dSSdA"], call.attrs["layout"] == "query_key"
    b, h, n, chunk, _ = matrices.shape
    dtypes = matrices.dtype, call["ddt"].dtype
    problem = SegsumProblem(b * h * n, n, chunk, *dtypes, query_major, "lengths" in call)
    return SegsumBackward(call, plan_backward(problem, call.soc, call.op)).build()
