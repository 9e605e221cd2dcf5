# SPDX-License-Identifier: Apache-2.0
"""segsum_decay in TIK: segment sums row by row, and their exponentials below the diagonal."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.segsum.forward import ForwardKernel
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.segsum import SegsumProblem, plan_forward


class SegsumDecay(ForwardKernel):
    """da (B, H, S) float32 -> decay, segsum (B, H, N, C, C)."""

    with_decay = True

    def group(self, first: Any, count: int) -> None:
        with self.buffers.phase("finish"):
            self.load_steps(first, count)
        self.each_tile(first, count, self.matrix_tile)


def segsum_decay(call: KernelCall) -> Any:
    """Entry of the kernel."""
    b, h, s = call["da"].shape
    chunk = call.attrs["chunk_size"]
    problem = SegsumProblem(b * h * (s // chunk), s // chunk, chunk)
    return SegsumDecay(call, plan_forward(problem, call.soc, True)).build()
