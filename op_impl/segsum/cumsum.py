# SPDX-License-Identifier: Apache-2.0
"""The gradient of da through the two running sums of a chunk, in the turned form of a group."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.segsum.kernel import SegsumKernel
from ms_custom_ops.op_impl.segsum.rows import GROUP, GroupRows


def _weighted(kernel: SegsumKernel, unit: GroupRows, gradient: str, log_decay: str, start: Any, count: int) -> Tile:
    """rows_a = exp(log_decay) * gradient."""
    a, b = kernel.buffers["rows_a"], kernel.buffers["rows_b"]
    elements = count * kernel.problem.pitch
    unit.load(a, kernel.gm[log_decay], start, count)
    unit.load(b, kernel.gm[gradient], start, count)
    kernel.vector.exp(a, a, elements)
    kernel.vector.mul(a, a, b, elements)
    return a


def cumsum_gradient(kernel: SegsumKernel, unit: GroupRows, first: Any, count: int, net: Tile | None) -> Tile:
    """Turned ``[C, 16]``: sums over this and all later steps of exp(dA_cs) * ddA_cs, plus sums over all
    earlier ones of exp(dA_cs_rev) * ddA_cs_rev and, if given, of rows ``net``.
    """
    start = first * kernel.problem.chunk
    one, two, three = (kernel.buffers[n] for n in ("turn_a", "turn_b", "turn_c"))
    unit.turn(one, _weighted(kernel, unit, "ddA_cs", "dA_cs", start, count), "float32")
    later, earlier = unit.scan(one, two, reverse=True)
    unit.turn(earlier.shift(GROUP), _weighted(kernel, unit, "ddA_cs_rev", "dA_cs_rev", start, count), "float32")
    if net is not None:
        unit.turn(three, net)
        kernel.vector.add(earlier.shift(GROUP), earlier.shift(GROUP), three, (kernel.problem.chunk - 1) * GROUP)
    unit.zero_step(earlier, 0)
    sums, _ = unit.scan(earlier, three)
    kernel.vector.add(sums, sums, later, kernel.problem.chunk * GROUP)
    return sums
