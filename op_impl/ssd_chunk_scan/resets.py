# SPDX-License-Identifier: Apache-2.0
"""Resets: steps whose decay exp(da) is 0 in float32, so that nothing passes them.

In a running sum a reset of -1e9 takes the digits of the steps around it, and -inf makes differences inf - inf. So
resets are taken out of da, and counted instead: what lies before a reset has a smaller count, and its exponent gets
-2^100 for each reset between. The counts are multiples of 2^100, exact, as their differences are.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.tile import Buffers, Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit
from ms_custom_ops.soc.table import BLOCK_BYTES, VECTOR_REPEAT_BYTES
from ms_custom_ops.tiling.ssd_chunk_scan import LANES, ScanPlan

RESET = -104.0
"""Below it exp(da) is 0 in float32, subnormal numbers included."""
_ONE = 2.0**100
_FULL = VECTOR_REPEAT_BYTES // BLOCK_BYTES
_WORDS = BLOCK_BYTES // 8
"""uint64 words of a block; the 64 bits of a repeat lie in the first."""


class Resets:
    """Works on the plan's buffers ``da_row``, ``reset_bits`` and ``line``."""

    def __init__(self, tik_instance: Any, plan: ScanPlan, buffers: Buffers, vector: VectorUnit):
        self._tik = tik_instance
        self._b = buffers
        self._v = vector
        self._rows = plan.block
        self._padded = buffers["da_row"].tensor.shape[0]
        self._bits = buffers["reset_bits"].tensor.reinterpret_cast_to("uint64")
        vector.dup(buffers["da_row"], 0.0, self._padded)  # a comparison reads whole repeats
        self._any = tik_instance.Scalar("uint64")

    def find(self) -> None:
        """Where ``da_row`` has resets."""
        b, t = self._b, self._tik
        self._v.dup(b["line"], RESET, LANES)
        self._any.set_as(0)
        word = t.Scalar("uint64")
        for repeat in range(self._padded // LANES):
            row = b["da_row"][repeat * LANES]
            t.vec_cmpv_lt(self._bits[repeat * _WORDS], row, b["line"][0], 1, _FULL, _FULL)
            word.set_as(self._bits[repeat * _WORDS])
            self._any.set_as(self._any | word)

    def present(self) -> Any:
        """A scope for a block of steps with a reset."""
        return self._tik.if_scope(self._any != 0)

    def clear(self, row: Tile) -> None:
        """0 at the resets."""
        self._v.dup(self._b["line"], 0.0, LANES)
        self._select(row, self._b["line"])

    def mark(self) -> None:
        """``da_row`` = 2^100 at the resets, 0 elsewhere."""
        row, line = self._b["da_row"], self._b["line"]
        self._v.dup(row, 0.0, self._rows)
        self._v.dup(line, _ONE, LANES)
        self._select(row, line)

    def _select(self, row: Tile, line: Tile) -> None:
        for repeat, offset in enumerate(range(0, self._rows, LANES)):
            mask = min(LANES, self._rows - offset)
            at, bits = row[offset], self._bits[repeat * _WORDS]
            self._tik.vec_sel(mask, 0, at, bits, line[0], at, 1, _FULL, _FULL, _FULL)
