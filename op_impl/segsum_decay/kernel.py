# SPDX-License-Identifier: Apache-2.0
"""segsum_decay in TIK: segment sums row by row, and their exponentials below the diagonal."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.segsum.forward import ForwardKernel
from ms_custom_ops.soc import current_soc
from ms_custom_ops.tiling.segsum import SegsumProblem, plan_forward


class SegsumDecay(ForwardKernel):
    """da (B, H, S) float32 -> decay, segsum (B, H, N, C, C), zeros (B, H, S)."""

    with_decay = True

    def group(self, first: Any, count: int) -> None:
        with self.buffers.phase("finish"):
            self.load_steps(first, count)
            rows, elements = self.buffers["rows_a"], count * self.problem.pitch
            self.vector.dup(rows, 0.0, elements)
            self.rows_unit().store(self.gm["ddt_start"], first * self.problem.chunk, rows, count)
        self.each_tile(first, count, self.matrix_tile)


def segsum_decay(
    da: dict[str, Any],
    decay: dict[str, Any],
    segsum: dict[str, Any],
    ddt_start: dict[str, Any],
    chunk_size: int,
    decay_layout: str = "query_key",
    kernel_name: str = "segsum_decay",
) -> Any:
    """Build the kernel; tensors are dicts with "shape" and "dtype" in the order of the YAML."""
    del decay_layout  # the only order there is; the gradient takes it from the attribute
    b, h, s = da["shape"]
    slots = s // chunk_size
    kernel = SegsumDecay(plan_forward(SegsumProblem(b * h * slots, slots, chunk_size), current_soc(), True))
    kernel.gm_tensor("in", "da", da)
    kernel.gm_tensor("out", "decay", decay)
    kernel.gm_tensor("out", "segsum", segsum)
    kernel.gm_tensor("out", "ddt_start", ddt_start)
    return kernel.build(kernel_name)
