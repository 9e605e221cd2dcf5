# SPDX-License-Identifier: Apache-2.0
"""bwd_dadt_cumsum in TIK: two scans with a chunk per lane."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.segsum.cumsum import CUMSUM_INPUTS, cumsum_gradient
from ms_custom_ops.op_impl.segsum.kernel import SegsumKernel
from ms_custom_ops.soc import current_soc
from ms_custom_ops.tiling.segsum import SegsumProblem, plan_cumsum


class CumsumBackward(SegsumKernel):
    """ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev (B, H, S) float32 -> dadt (B, H, S)."""

    def group(self, first: Any, count: int) -> None:
        with self.buffers.phase("finish"):
            unit, rows = self.rows_unit(), self.buffers["rows_a"]
            unit.turn_back(rows, cumsum_gradient(self, unit, first, count, None), count, "float32")
            unit.store(self.gm["dadt"], first * self.problem.chunk, rows, count)


def bwd_dadt_cumsum(
    ddA_cs: dict[str, Any],
    ddA_cs_rev: dict[str, Any],
    dA_cs: dict[str, Any],
    dA_cs_rev: dict[str, Any],
    dadt: dict[str, Any],
    chunk_size: int,
    kernel_name: str = "bwd_dadt_cumsum",
) -> Any:
    """Build the kernel; tensors are dicts with "shape" and "dtype" in the order of the YAML."""
    b, h, s = ddA_cs["shape"]
    slots = s // chunk_size
    kernel = CumsumBackward(plan_cumsum(SegsumProblem(b * h * slots, slots, chunk_size), current_soc()))
    for name, tensor in zip(CUMSUM_INPUTS, (ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev), strict=True):
        kernel.gm_tensor("in", name, tensor)
    kernel.gm_tensor("out", "dadt", dadt)
    return kernel.build(kernel_name)
