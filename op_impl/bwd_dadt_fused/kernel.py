# SPDX-License-Identifier: Apache-2.0
"""bwd_dadt_fused in TIK: the sums of bwd_segsum_dadt join the scan of bwd_dadt_cumsum."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.segsum.cumsum import CUMSUM_INPUTS, cumsum_gradient
from ms_custom_ops.op_impl.segsum.kernel import BackwardKernel
from ms_custom_ops.soc import current_soc
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


def bwd_dadt_fused(
    dSSdA: dict[str, Any],
    SSdA: dict[str, Any],
    ddA_cs: dict[str, Any],
    ddA_cs_rev: dict[str, Any],
    dA_cs: dict[str, Any],
    dA_cs_rev: dict[str, Any],
    lengths: dict[str, Any] | None,
    dadt: dict[str, Any],
    chunk_size: int,
    kernel_name: str = "bwd_dadt_fused",
) -> Any:
    """Build the kernel; tensors are dicts with "shape" and "dtype" in the order of the YAML."""
    b, h, n, _, _ = dSSdA["shape"]
    problem = SegsumProblem(b * h * n, n, chunk_size, dSSdA["dtype"], has_lengths=lengths is not None)
    kernel = FusedBackward(plan_backward(problem, current_soc()))
    for name, tensor in (
        ("dSSdA", dSSdA),
        ("SSdA", SSdA),
        *zip(CUMSUM_INPUTS, (ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev), strict=True),
        ("lengths", lengths),
    ):
        kernel.gm_tensor("in", name, tensor)
    kernel.gm_tensor("out", "dadt", dadt)
    return kernel.build(kernel_name)
