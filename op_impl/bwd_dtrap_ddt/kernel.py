# SPDX-License-Identifier: Apache-2.0
"""bwd_dtrap_ddt in TIK: element-wise; the step before comes from GM one element earlier."""

from __future__ import annotations

from typing import Any

from ms_custom_ops import tik
from ms_custom_ops.op_impl.common.kernel import Kernel
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.common.vector import lanes_of, pieces
from ms_custom_ops.soc.table import BLOCK_BYTES
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.budget import DTYPE_BYTES
from ms_custom_ops.tiling.segsum_dtrap import DtrapProblem, plan_dtrap

_BLOCK = BLOCK_BYTES // DTYPE_BYTES["float32"]
_INPUTS = ("trap", "dt", "dfactor", "dgamma_diag")


class TrapezoidBackward(Kernel):
    """Four float32 tensors (B, H, S) and cu_seqlens or not -> ddt, dtrap (B, H, S)."""

    def prepare(self) -> None:
        super().prepare()
        self.vector.dup(self.buffers["ones"], 1.0, lanes_of("float32"))
        if self.problem.bounds:
            bounds, blocks = self.buffers["bounds"], self.problem.bounds // _BLOCK
            self.tik.data_move(bounds[0], self.gm["cu_seqlens"][0], 0, 1, blocks, 0, 0)

    def task(self, index: Any) -> None:
        self._piece(self.scalar.minimum(index * self.plan.piece, self.plan.last_start))

    def _piece(self, start: Any) -> None:
        b, blocks = self.buffers, self.plan.piece // _BLOCK
        for name in _INPUTS:
            self.tik.data_move(b[name][0], self.gm[name][start], 0, 1, blocks, 0, 0)
        self._load_before(start, blocks)
        self._clear_starts(start)
        self._gradients()
        for output, name in (("ddt", "before"), ("dtrap", "dt")):
            self.tik.data_move(self.gm[output][start], b[name][0], 0, 1, blocks, 0, 0)

    def _load_before(self, start: Any, blocks: int) -> None:
        """before[i] = dfactor[start + i - 1]."""
        t, before, factor = self.tik, self.buffers["before"], self.gm["dfactor"]
        with t.if_scope(start > 0):
            t.data_move(before[0], factor[start - 1], 0, 1, blocks, 0, 0)
        with t.else_scope():
            before[0].set_as(0.0)
            for i in range(1, _BLOCK):
                before[i].set_as(self.buffers["dfactor"][i - 1])
            if blocks > 1:
                t.data_move(before[_BLOCK], factor[_BLOCK - 1], 0, 1, blocks - 1, 0, 0)

    def _clear_starts(self, start: Any) -> None:
        """before = 0 at the first step of every sequence."""
        t, steps, piece = self.tik, self.problem.steps, self.plan.piece
        before = self.buffers["before"]
        beyond = self.scalar.hold((start + (piece + steps - 1)) // steps)
        if not self.problem.bounds:
            with t.for_range(self.scalar.hold((start + (steps - 1)) // steps), beyond, dtype="int64") as row:
                before[row * steps - start].set_as(0.0)
            return
        with t.for_range(self.scalar.hold(start // steps), beyond, dtype="int64") as row:
            with t.for_range(0, self.problem.bounds) as i:
                at = t.Scalar("int32")
                at.set_as(self.buffers["bounds"][i])
                place = self.scalar.hold(row * steps + at - start)
                with t.if_scope(tik.all(place >= 0, place < piece)):
                    before[place].set_as(0.0)

    def _gradients(self) -> None:
        """ddt over "before", dtrap over "dt"."""
        b, v, n = self.buffers, self.vector, self.plan.piece
        own, before, dt = b["dfactor"], b["before"], b["dt"]
        self._sigmoid(b["sigmoid"], b["trap"], -1.0)
        self._sigmoid(b["rest"], b["trap"], 1.0)
        v.add(own, own, b["dgamma_diag"], n)
        v.sub(b["trap"], own, before, n)
        v.mul(dt, dt, b["trap"], n)
        v.mul(dt, dt, b["sigmoid"], n)
        v.mul(dt, dt, b["rest"], n)
        v.mul(before, before, b["rest"], n)
        v.mul(own, own, b["sigmoid"], n)
        v.add(before, before, own, n)

    def _sigmoid(self, dst: Tile, trap: Tile, sign: float) -> None:
        """dst = 1 / (1 + e^(sign * trap)): sigmoid(trap) for -1, 1 - sigmoid(trap) without cancellation for
        1.
        """
        v, n = self.vector, self.plan.piece
        v.muls(dst, trap, sign, n)
        v.exp(dst, dst, n)
        v.adds(dst, dst, 1.0, n)
        lanes = lanes_of("float32")
        full = lanes // _BLOCK
        for at, mask, repeat in pieces(n, lanes):
            self.tik.vdiv(mask, dst[at], self.buffers["ones"][0], dst[at], repeat, 1, 1, 1, full, 0, full)


def bwd_dtrap_ddt(call: KernelCall) -> Any:
    """Entry of the kernel."""
    b, h, s = call["trap"].shape
    bounds = call["cu_seqlens"].shape[0] if "cu_seqlens" in call else 0
    return TrapezoidBackward(call, plan_dtrap(DtrapProblem(b * h, s, bounds), call.soc)).build()
