# SPDX-License-Identifier: Apache-2.0
"""Rows keep to what they see: NaN and Inf of a key, value or query reach no row that does not see it.

A tile holds rows that see different keys, and a product multiplies what is hidden by 0; 0 times NaN is NaN. Finite
operands need nothing against that, so nothing is done at first: results are watched, and where one of them is not
finite the work is done again, isolated. The order of every sum is the same then; only hidden scores are cleared by
their bits, and products that sum over keys or query rows take 0 for what is not finite. What rows do see of it comes
back by components: products of visibility (0 or 1) with marks (1 where an operand is not finite), driven to infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ms_custom_ops.op_impl.common.kernel import round_mode_to
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.common.vector import lanes_of, pieces
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, VECTOR_REPEAT_BYTES
from ms_custom_ops.tiling.budget import align

_LANES = lanes_of("float32")
_FULL = VECTOR_REPEAT_BYTES // BLOCK_BYTES
_F32_BLOCK = BLOCK_BYTES // 4
_LARGEST = 3.4028234663852886e38
_BIG = 1e38
"""Twice a factor of a count: infinity, and 0 of 0."""
_STEEP = 1e-29
"""Turns a penalty into at least 1 before it is clipped."""


class Isolation:
    """``on``: 1 while work is done isolated. The visibility of a tile is kept in GM as words of 32 bits, all ones where
    a row sees a key."""

    def __init__(self, kernel: Any):
        self._kernel = kernel
        self._tik = kernel.tik
        self._vector = kernel.vector
        self._buffers = kernel.buffers
        self._scalar = kernel.scalar
        plan = kernel.plan
        self._words = Tile(kernel.gm["visible_tiles"], kernel.core * (plan.q_block * plan.kv_block))
        self.on = self._tik.Scalar("int32", init_value=0)
        self._found = self._tik.Scalar("int32", init_value=0)

    def active(self) -> AbstractContextManager:
        """Scope of what is done only while ``on``."""
        return self._tik.if_scope(self.on > 0)

    def guarded(self, body: Callable[[], None]) -> None:
        """``body()``, and again while ``on`` where something it watched is not finite."""
        self.on.set_as(0)
        with self._tik.for_range(0, 2) as turn:
            with self._tik.if_scope(turn == self.on):
                self._found.set_as(0)
                body()
                with self._tik.if_scope(self._found > 0):
                    self.on.set_as(1)

    def watch(self, *tiles: tuple[Tile, int]) -> None:
        """Look whether float32 ``(tile, count)`` are finite. Uses ``line`` and ``wide_a``."""
        t, lanes, total = self._tik, self._buffers["line"], self._buffers["wide_a"].tensor
        self._vector.dup(lanes, 0.0, _LANES)
        for tile, count in tiles:
            for offset, mask, repeat in pieces(count, _LANES):
                t.vec_axpy(mask, lanes[0], tile[offset], 0.0, repeat, 0, _FULL)
        t.vcadd(_LANES, total[0], lanes[0], 1, 1, 1, _FULL)
        word = t.Scalar("int32")
        word.set_as(total.reinterpret_cast_to("int32")[0])
        with t.if_scope(word != 0):  # 0 times a finite number is 0, all bits
            self._found.set_as(1)

    # ---- visibility of a tile ----
    def see(self, head: Any, q0: Any, height: int, k0: Any, width: int) -> None:
        """Make the words of the tile of ``height`` rows from ``q0`` and ``width`` keys from ``k0``; rows of padding see
        nothing. In phase "clean"."""
        kernel, v, rows = self._kernel, self._vector, align(height)
        tile, count = self._buffers["operand_wide"], rows * CUBE_BLOCK
        words = Tile(tile.tensor.reinterpret_cast_to("int32"))
        with self._tik.for_range(0, align(width) // CUBE_BLOCK) as n1:
            at = self._scalar.hold(k0 + n1 * CUBE_BLOCK)
            v.dup(tile, 0.0, count)
            kernel.penalties(tile, head, q0, height, at, CUBE_BLOCK)
            v.muls(tile, tile, -_STEEP, count)
            v.min(tile, tile, self._buffers["ones"], count, row=True)
            v.adds(tile, tile, -1.0, count)
            v.convert(words, tile, count, "floor")
            if height < rows:
                v.dup(tile.shift(height * CUBE_BLOCK), 0.0, (rows - height) * CUBE_BLOCK)
            self._tik.data_move(self._words[n1 * count], tile[0], 0, 1, count // _F32_BLOCK, 0, 0)

    def _and(self, target: Tile, source: Tile, count: int, row: bool = False) -> None:
        halves = [Tile(x.tensor.reinterpret_cast_to("uint16"), x.offset * 2) for x in (target, source)]
        repeat, lanes = count // _LANES, lanes_of("float16")
        self._tik.vec_and(lanes, halves[0][0], halves[0][0], halves[1][0], repeat, _FULL, _FULL, 0 if row else _FULL)

    def _words_of(self, n1: Any, count: int) -> Tile:
        words = self._buffers["turn"]
        self._tik.data_move(words[0], self._words[n1 * count], 0, 1, count // _F32_BLOCK, 0, 0)
        return words

    def hide(self, tile: Tile, rows: int, columns: int) -> None:
        """0 where a row of a float32 tile ``[columns/16, rows, 16]`` does not see a key, whatever stands there."""
        count = rows * CUBE_BLOCK
        with self.active():
            with self._tik.for_range(0, columns // CUBE_BLOCK) as n1:
                self._and(tile.shift(n1 * count), self._words_of(n1, count), count)

    def _visible_to_l1(self, target: Tile, rows: int, columns: int) -> None:
        """L1 tile of 1 and 0 in the dtype of the operands."""
        b, count = self._buffers, rows * CUBE_BLOCK
        with self._tik.for_range(0, columns // CUBE_BLOCK) as n1:
            words = self._words_of(n1, count)
            self._and(words, b["ones"], count, row=True)
            self._vector.convert(b["operand"], words, count, round_mode_to(self._kernel.problem.dtype))
            self._kernel.cube.to_l1(target.shift(n1 * count), b["operand"], count)

    # ---- operands that are not finite ----
    def clean(self, l1: str, name: str, start: Any, height: int, depth: int, sign: Any = None) -> None:
        """L1 tile ``[depth/16, rows, 16]`` = ``height`` rows of GM tensor ``name`` with 0 for what is not finite; with
        ``sign``, a register of 1.0 or -1.0: 1 where it is NaN or infinity of that sign, else 0."""
        kernel, b, v = self._kernel, self._buffers, self._vector
        rows = align(height)
        count, half, wide = rows * CUBE_BLOCK, b["operand"], b["operand_wide"]
        with self._tik.for_range(0, depth // CUBE_BLOCK) as c:
            kernel.load_slice(half, name, start + c * CUBE_BLOCK, height, depth)
            v.convert(wide, half, count)
            if sign is None:
                self._keep_finite(wide, count)
            else:
                v.muls(wide, wide, sign, count)
                self._mark_above(wide, count)
            v.convert(half, wide, count, round_mode_to(half.dtype))
            kernel.cube.to_l1(b[l1].shift(c * count), half, count)

    def _keep_finite(self, tile: Tile, count: int) -> None:
        t, zeros, line = self._tik, self._buffers["zeros"], self._buffers["line"]
        with t.for_range(0, count // _LANES) as r:
            part = tile.shift(r * _LANES)
            self._vector.muls(line, part, 0.0, _LANES)
            bits = t.vcmp_eq(_LANES, line[0], zeros[0], 1, 1)
            t.vsel(_LANES, 0, part[0], bits, part[0], zeros[0], 1, 1, 1, 1, _FULL, _FULL, _FULL)

    def _mark_above(self, tile: Tile, count: int) -> None:
        t, zeros, ones, line = (self._tik, *(self._buffers[n] for n in ("zeros", "ones", "line")))
        self._vector.dup(line, _LARGEST, _LANES)
        with t.for_range(0, count // _LANES) as r:
            part = tile.shift(r * _LANES)
            bits = t.vcmp_le(_LANES, part[0], line[0], 1, 1)
            t.vsel(_LANES, 0, part[0], bits, zeros[0], ones[0], 1, 1, 1, 1, _FULL, _FULL, _FULL)

    def _each_sign(self, body: Callable[[Any], None]) -> None:
        with self._tik.for_range(0, 2) as turn:
            body(self._scalar.to_float(1 - turn * 2))

    def _to_infinity(self, tile: Tile, sign: Any, count: int) -> None:
        """Counts become infinity of that sign, 0 stays."""
        for factor in (_BIG, _BIG, sign):
            self._vector.muls(tile, tile, factor, count)

    def restore_values(self, start: Any, height: int, width: int) -> None:
        """out += what rows see of values that are not finite. L1 p and v are used up."""
        kernel, b, cube = self._kernel, self._buffers, self._kernel.cube
        rows, columns, depth = align(height), align(width), kernel.problem.head_dim
        with b.phase("clean"):
            self._visible_to_l1(b["p"], rows, columns)

        def add(sign: Any) -> None:
            with b.phase("clean"):
                self.clean("v", "value", start, width, depth, sign)
            with b.phase("product"):
                cube.load_left(b["left_p"], b["p"], rows, columns)
                cube.load_right(b["right_v"], b["v"], columns, depth, turned=True)
                cube.multiply(b["acc_o"], b["left_p"], b["right_v"], rows, columns, depth)
                cube.to_ub(b["product"], b["acc_o"], rows, depth)
                self._to_infinity(b["product"], sign, rows * depth)
                self._vector.add(b["out"], b["out"], b["product"], rows * depth)

        self._each_sign(add)

    def restore_d_out(self, start: Any, height: int, width: int) -> None:
        """``value_marks`` += what keys are seen with by rows of d_attention_out that are not finite. L1 p and do are
        used up."""
        kernel, b, cube = self._kernel, self._buffers, self._kernel.cube
        rows, columns, depth = align(height), align(width), kernel.problem.head_dim
        count = columns * CUBE_BLOCK
        with b.phase("clean"):
            self._visible_to_l1(b["p"], rows, columns)

        def add(sign: Any) -> None:
            with b.phase("clean"):
                self.clean("do", "d_attention_out", start, height, depth, sign)
            with b.phase("marks"), self._tik.for_range(0, depth // CUBE_BLOCK) as c:
                cube.load_left(b["left_seen"], b["p"], columns, rows, turned=True)
                cube.load_right(b["right_marks"], b["do"].shift(c * rows * CUBE_BLOCK), rows, CUBE_BLOCK, turned=True)
                cube.multiply(b["acc_marks"], b["left_seen"], b["right_marks"], columns, rows, CUBE_BLOCK)
                cube.to_ub(b["marks"], b["acc_marks"], columns, CUBE_BLOCK)
                self._to_infinity(b["marks"], sign, count)
                self.add_to_marks(b["marks"], c * count, count)

        self._each_sign(add)

    def _marks_at(self, element: Any) -> Any:
        plan = self._kernel.plan
        return self._kernel.gm["value_marks"][
            self._kernel.core * (plan.kv_block * self._kernel.problem.head_dim) + element
        ]

    def add_to_marks(self, tile: Tile, at: Any, count: int) -> None:
        """``value_marks`` of this core from element ``at`` on += a float32 tile of UB."""
        self._tik.set_atomic_add(1)
        self._tik.data_move(self._marks_at(at), tile[0], 0, 1, count // _F32_BLOCK, 0, 0)
        self._tik.set_atomic_add(0)

    def clear_marks(self, tile: Tile, count: int) -> None:
        """``value_marks`` = 0 by way of a tile of UB."""
        self._vector.dup(tile, 0.0, count)
        self._tik.data_move(self._marks_at(0), tile[0], 0, 1, count // _F32_BLOCK, 0, 0)

    def join_marks(self, tile: Tile, count: int) -> None:
        """tile += ``value_marks``, which are used up."""
        self.add_to_marks(tile, 0, count)
        self._tik.data_move(tile[0], self._marks_at(0), 0, 1, count // _F32_BLOCK, 0, 0)
