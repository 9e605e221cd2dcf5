# SPDX-License-Identifier: Apache-2.0
"""Gradients of softmax_max (dm) and softmax_sum (dl) in the backward kernel.

dS = P * (dP - delta) as README.md says, where delta has lost dl * l; what dm has beside dl * l, the peak, goes to the
key or sink that holds the maximum: P = 1 / l there, to the bit, since the scores are those of the forward kernel.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.sparse.base import F32_BLOCK, LARGEST
from ms_custom_ops.soc.table import CUBE_BLOCK
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES, chunks

_ROUNDING = 1e-5
"""Share of dl * l up to which dm - dl * l is rounding: a loss on m + ln(l) has dm = dl * l."""
_NEAR = 1.0 / (1 << 22)
"""A weight that close to 1 / l is one of the maximum."""
_STEEP = 1e30
"""Slope that turns a float32 difference into a large number."""


class Peaks:
    """``peak`` holds the peaks times l of a tile of heads, ``any`` is 1 while one of them is not 0."""

    def __init__(self, kernel: Any):
        self._k = kernel
        self._b, self._v, self._tik = kernel.buffers, kernel.vector, kernel.tik
        self.any = self._tik.Scalar("int32", "peaked", 0)

    def find(self, at: Any, heads: int, rows: int) -> None:
        """row_c (delta) -= dl * l; ``peak`` from the statistics at element ``at``."""
        b, v, k, peak = self._b, self._v, self._k, self._b["peak"]
        share, total, size, spare = (b["turn"].shift(i * rows) for i in range(4))
        for gm, row in (("softmax_sum", total), ("d_softmax_sum", share), ("d_softmax_max", peak)):
            k.move_rows(row[0], k.gm[gm][at], rows)
        v.mul(share, share, total, rows)
        with self._tik.if_scope(k.sequences.inside == 0):
            v.dup(share, 0.0, rows)
            v.dup(peak, 0.0, rows)
        k.clear_rows(share, heads, rows)
        k.clear_rows(peak, heads, rows)
        v.sub(b["row_c"], b["row_c"], share, rows)
        v.sub(peak, peak, share, rows)
        v.muls(size, peak, -1.0, rows)
        v.max(size, size, peak, rows)
        v.muls(spare, share, -1.0, rows)
        v.max(spare, spare, share, rows)
        v.muls(spare, spare, -_ROUNDING, rows)
        v.add(size, size, spare, rows)
        v.muls(size, size, _STEEP, rows)
        v.dup(spare, 0.0, rows)
        v.max(size, size, spare, rows)
        v.min(size, size, b["ones"], rows)
        v.mul(peak, peak, size, rows)
        v.mul(peak, peak, total, rows)
        k.clear_rows(peak, heads, rows)
        self._count(size, spare, rows)

    def _count(self, size: Tile, sums: Tile, rows: int) -> None:
        """``any`` from 1 or 0 per row; NaN counts. ``sums`` is scratch."""
        t, read = self._tik, self._tik.Scalar("int32")
        self.any.set_as(0)
        for start, lanes in chunks(rows, F32_LANES):
            t.vcadd(lanes, sums[start], size[start], 1, 1, 1, F32_LANES // F32_BLOCK)
            read.set_as(sums.tensor.reinterpret_cast_to("int32")[sums.offset + start])
            with t.if_scope(read != 0):  # 0.0 has no bits
                self.any.set_as(1)

    def _mark(self, where: Tile, count: int) -> None:
        """Differences become 1 where they are positive, else 0."""
        v = self._v
        v.muls(where, where, _STEEP, count)
        v.max(where, where, self._b["zeros"], count, row=True)
        v.muls(where, where, -1.0, count)
        v.exp(where, where, count)
        v.muls(where, where, -1.0, count)
        v.adds(where, where, 1.0, count)

    def keep_sinks(self, weight: Tile, rows: int) -> None:
        """weight (e to sink less maximum) = 0 where the sink is +inf, whose gradient is 0; it lies at ``turn``."""
        b, v = self._b, self._v
        # +inf counts as the largest float32, which is then the maximum: no other row has it
        flag = b["turn"].shift(rows)
        v.muls(flag, b["row_a"], -1.0, rows)
        v.adds(flag, flag, LARGEST, rows)
        v.min(flag, flag, b["ones"], rows)
        v.mul(weight, weight, flag, rows)

    def add_to_sinks(self, at: Any, weight: Tile, rows: int) -> None:
        """weight (the gradient of the sinks so far) += peaks of sinks that hold the maximum."""
        b, v, k = self._b, self._v, self._k
        with self._tik.if_scope(self.any > 0):
            where, flag = b["turn"].shift(rows), b["turn"].shift(2 * rows)
            k.move_rows(where[0], k.gm["sinks"][at], rows)
            v.sub(where, where, b["row_a"], rows)
            v.exp(where, where, rows)
            v.adds(where, where, -(1.0 - _NEAR), rows)
            v.min(where, where, b["ones"], rows)
            self._mark(where, rows)
            v.muls(flag, b["row_a"], -1.0, rows)
            v.adds(flag, flag, LARGEST, rows)
            v.min(flag, flag, b["ones"], rows)
            v.mul(where, where, flag, rows)
            v.mul(where, where, b["peak"], rows)
            v.mul(where, where, b["row_b"], rows)
            v.add(weight, weight, where, rows)

    def add(self, rows: int, columns: int) -> None:
        """d_probs += peaks where P = 1 / l."""
        b, v, k, count = self._b, self._v, self._k, rows * CUBE_BLOCK
        with self._tik.if_scope(self.any > 0):
            k.rows.spread(b["delta"], b["peak"], rows)
            v.muls(b["inverse"], b["inverse"], 1.0 - _NEAR, count)
            for n1 in range(columns // CUBE_BLOCK):
                where, target = b["turn"], b["d_probs"].shift(n1 * count)
                v.sub(where, b["scores"].shift(n1 * count), b["inverse"], count)
                self._mark(where, count)
                v.mul_add(target, where, b["delta"], count)
            k.rows.spread(b["delta"], b["row_c"], rows)
            k.rows.spread(b["inverse"], b["row_b"], rows)
