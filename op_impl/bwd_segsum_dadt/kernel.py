# SPDX-License-Identifier: Apache-2.0
"""bwd_segsum_dadt in TIK: two reductions of the strict triangle and one scan over C values."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.segsum.kernel import BackwardKernel
from ms_custom_ops.op_impl.segsum.rows import GROUP
from ms_custom_ops.soc import current_soc
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


def bwd_segsum_dadt(
    dSSdA: dict[str, Any],
    SSdA: dict[str, Any],
    ddt_out: dict[str, Any],
    lengths: dict[str, Any] | None,
    ddt: dict[str, Any],
    chunk_size: int,
    layout: str = "key_query",
    kernel_name: str = "bwd_segsum_dadt",
) -> Any:
    """Build the kernel; tensors are dicts with "shape" and "dtype" in the order of the YAML."""
    b, h, n, c, _ = dSSdA["shape"]
    problem = SegsumProblem(
        b * h * n, n, chunk_size, dSSdA["dtype"], ddt["dtype"], layout == "query_key", lengths is not None
    )
    kernel = SegsumBackward(plan_backward(problem, current_soc()))
    for name, tensor in (("dSSdA", dSSdA), ("SSdA", SSdA), ("ddt_out", ddt_out), ("lengths", lengths)):
        kernel.gm_tensor("in", name, tensor)
    kernel.gm_tensor("out", "ddt", ddt)
    return kernel.build(kernel_name)
