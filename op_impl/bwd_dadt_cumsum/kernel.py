# SPDX-License-Identifier: Apache-2.0
"""bwd_dadt_cumsum in TIK: two scans with a chunk per lane."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.segsum.cumsum import cumsum_gradient
from ms_custom_ops.op_impl.segsum.kernel import SegsumKernel
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.segsum import SegsumProblem, plan_cumsum


class CumsumBackward(SegsumKernel):
    """ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev (B, H, S) float32 -> dadt (B, H, S)."""

    def group(self, first: Any, count: int) -> None:
        with self.buffers.phase("finish"):
            unit, rows = self.rows_unit(), self.buffers["rows_a"]
            unit.turn_back(rows, cumsum_gradient(self, unit, first, count, None), count, "float32")
            unit.store(self.gm["dadt"], first * self.problem.chunk, rows, count)


def bwd_dadt_cumsum(call: KernelCall) -> Any:
    """Entry of the kernel."""
    b, h, s = call["ddA_cs"].shape
    chunk = call.attrs["chunk_size"]
    problem = SegsumProblem(b * h * (s // chunk), s // chunk, chunk)
    return CumsumBackward(call, plan_cumsum(problem, call.soc)).build()
