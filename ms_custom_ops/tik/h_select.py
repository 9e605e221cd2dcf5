# SPDX-License-Identifier: Apache-2.0
"""h_ comparison and selection by bool tensors (one byte per element), and sine and cosine."""

from __future__ import annotations

import math
from typing import Any

from ms_custom_ops.errors import TikError
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import const
from ms_custom_ops.program.isa import BLOCK_BYTES, COMPARES, ROUND_MODES, VECTOR_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.checks import check_same_dtype, scalar_operand
from ms_custom_ops.tik.h_views import TILE, HBase, Run, check_alias, check_h_scope, operand, same_shape, work_of
from ms_custom_ops.tik.tensor import Tensor

# pi in pieces of few bits, so that products with a half-integer below 2**16 are exact in float32.
_PI_PARTS = (3.140625, 0.0009670257568359375, 6.2771141529083251953125e-07, 1.2154201256553420762e-10)
_SIN_TERMS = 6
_ZERO = const(0.0, "float16")


class HSelectMixin(HBase):
    """``Tik`` methods of this module."""

    def h_cmpv(self, mask_tensor, src0, src1, cmp_mode):
        """mask (bool, one byte per element) = src0 compared with src1, tensors or one scalar; cmp_mode "LT", "LE",
        "GT", "GE", "EQ", "NE"."""
        b, api = self._b, "h_cmpv"
        if b.dead:
            return
        check_h_scope(b, api)
        mask = operand(b, api, "mask_tensor", mask_tensor)
        sources, dtype = self._h_sources(api, mask, {"src0": src0, "src1": src1})
        if mask.dtype != "bool":
            raise b.fail(TikError, api, "dtype of mask_tensor", mask.dtype, "bool")
        mode = cmp_mode.lower() if isinstance(cmp_mode, str) else ""
        if mode not in COMPARES:
            raise b.fail(TikError, api, "cmp_mode", repr(cmp_mode), ", ".join(repr(m.upper()) for m in COMPARES))
        require(b, api, api, SHORT[dtype], dtype)
        work = work_of(b, api)
        blocks = [
            self._scalar_block(api, n, v, dtype, k)
            for k, (n, v) in enumerate(sources.items())
            if not isinstance(v, Tensor)
        ]
        left, right = work.tile(dtype, 0), work.tile(dtype, 1)
        bits, picked = work.tile("uint8", 2), work.tile("float16", 3)
        repeat = TILE * SIZE[dtype] // VECTOR_BYTES
        views = [t for t in sources.values() if isinstance(t, Tensor)]

        def body(runs: list[Run], count: Any) -> None:
            def tile(first: Any, n: Any) -> None:
                tensors, scalars = list(runs[1:]), list(blocks)
                for to, value in zip((left, right), sources.values(), strict=True):
                    source = tensors.pop(0).moved(first) if isinstance(value, Tensor) else scalars.pop(0)
                    self._emit_run("vcopy", [to, source], n)
                args = (repeat, BLOCK_BYTES, VECTOR_BYTES, BLOCK_BYTES, VECTOR_BYTES)
                self._instr("vcmpv", [bits, left, right], args, (COMPARES[mode],))
                one, zero = const(1.0, "float16"), const(0.0, "float16")
                self._instr("vselss", [picked, bits], (n, 0, 0, one, zero, BLOCK_BYTES, VECTOR_BYTES), (2, 2))
                target = runs[0].moved(first)._replace(dtype="uint8")
                self._emit_run("vconv", [target, picked], n, (_ZERO,), (0, 0))

            self._tiles(count, tile)

        self._over([mask, *views], body)

    def _h_sources(self, api: str, like: Tensor, given: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Tensors or scalars of one dtype and of the shape of ``like``; at least one tensor."""
        b = self._b
        sources = {n: operand(b, api, n, v) if isinstance(v, Tensor) else v for n, v in given.items()}
        tensors = {n: t for n, t in sources.items() if isinstance(t, Tensor)}
        if not tensors:
            raise b.fail(TikError, api, "src0 and src1", "two scalars", "at least one tensor")
        dtype = next(iter(tensors.values())).dtype
        for n, t in tensors.items():
            if t.dtype != dtype:
                raise b.fail(TikError, api, f"dtype of {n}", t.dtype, dtype)
        same_shape(b, api, like, tensors)
        return sources, dtype

    def h_sel(self, dst, src0, src1, mask_tensor):
        """dst = src0 where the mask (bool, one byte per element) is true, else src1; tensors or scalars."""
        b, api = self._b, "h_sel"
        if b.dead:
            return
        check_h_scope(b, api)
        dst, mask = operand(b, api, "dst", dst), operand(b, api, "mask_tensor", mask_tensor)
        if mask.dtype != "bool":
            raise b.fail(TikError, api, "dtype of mask_tensor", mask.dtype, "bool")
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        sources = {"src0": src0, "src1": src1}
        tensors = {n: operand(b, api, n, t) for n, t in sources.items() if isinstance(t, Tensor)}
        for n, t in tensors.items():
            check_same_dtype(b, api, dst, t, n)
        same_shape(b, api, dst, {**tensors, "mask_tensor": mask})
        check_alias(b, api, dst, tensors)
        values = [scalar_operand(b, v, dst.dtype, api, n) for n, v in sources.items() if n not in tensors]
        op = {2: "vsel", 0: "vselss"}.get(len(tensors)) or ("vsels0" if "src1" in tensors else "vsels")
        work = work_of(b, api)
        wide, bits = work.tile("float16", 0), work.tile("uint8", 1)
        repeat = TILE * SIZE["float16"] // VECTOR_BYTES
        # vsels takes its bits successively in mode 1, the others in mode 2.
        mode = 1 if op == "vsels" else 2

        def body(runs: list[Run], count: Any) -> None:
            def tile(first: Any, n: Any) -> None:
                source = runs[1].moved(first)._replace(dtype="uint8")
                self._emit_run("vconv", [wide, source], n, (_ZERO,), (0, 0))
                args = (repeat, const(0.0, "float16"), BLOCK_BYTES, VECTOR_BYTES)
                self._instr("vcmpvs", [bits, wide], args, (COMPARES["ne"],))
                target, *picked = (r.moved(first) for r in (runs[0], *runs[2:]))
                tail = [x for _ in (target, *picked) for x in (BLOCK_BYTES, VECTOR_BYTES)]
                self._instr(op, [target, bits, *picked], (n, 0, 0, *values, *tail), (2, mode))

            self._tiles(count, tile)

        self._over([dst, mask, *tensors.values()], body)

    def h_sin(self, dst, src):
        """dst = sin(src), computed in float32 after a reduction by multiples of pi; for |src| up to 65504."""
        self._h_wave("h_sin", dst, src, 0.0)

    def h_cos(self, dst, src):
        """dst = cos(src), computed in float32 after a reduction by multiples of pi; for |src| up to 65504."""
        self._h_wave("h_cos", dst, src, 0.5)

    def _h_wave(self, api: str, dst: Any, src: Any, shift: float) -> None:
        """(-1)**k * sin(src - (k - shift) * pi) with k = round(src / pi + shift)."""
        b = self._b
        if b.dead:
            return
        check_h_scope(b, api)
        dst, src = operand(b, api, "dst", dst), operand(b, api, "src", src)
        check_same_dtype(b, api, dst, src)
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        same_shape(b, api, dst, {"src": src})
        check_alias(b, api, dst, {"src": src})
        work = work_of(b, api)
        x, k, t, r, square = (work.tile("float32", n) for n in range(5))
        whole = work.tile("int32", 5)

        def body(runs: list[Run], count: Any) -> None:
            def tile(first: Any, n: Any) -> None:
                target, source = (v.moved(first) for v in runs)
                narrow = src.dtype == "float16"
                if narrow:
                    self._emit_run("vconv", [x, source], n, (_ZERO,), (0, 0))
                else:
                    self._emit_run("vcopy", [x, source], n)
                self._h_angle((x, k, t, r, whole), n, shift)
                self._h_sine((x, k, t, r, square, whole), n)
                if narrow:
                    self._emit_run("vconv", [target, r], n, (_ZERO,), (0, 0))
                else:
                    self._emit_run("vcopy", [target, r], n)

            self._tiles(count, tile)

        self._over([dst, src], body)

    def _scaled(self, op: str, to: Run, x: Run, n: Any, value: float) -> None:
        self._emit_run(op, [to, x], n, (const(value, "float32"),))

    def _round_trip(self, to: Run, x: Run, whole: Run, n: Any, mode: str) -> None:
        """to = x rounded to an integral value."""
        self._emit_run("vconv", [whole, x], n, (_ZERO,), (ROUND_MODES[mode], 0))
        self._emit_run("vconv", [to, whole], n, (_ZERO,), (0, 0))

    def _h_angle(self, tiles: tuple, n: Any, shift: float) -> None:
        """k and r = x - (k - shift) * pi."""
        x, k, t, r, whole = tiles
        self._scaled("vmuls", t, x, n, 1 / math.pi)
        self._scaled("vadds", t, t, n, shift)
        self._round_trip(k, t, whole, n, "round")
        self._scaled("vadds", t, k, n, -shift)
        self._emit_run("vcopy", [r, x], n)
        for part in _PI_PARTS:
            self._scaled("vmuls", x, t, n, part)
            self._emit_run("vsub", [r, r, x], n)

    def _h_sine(self, tiles: tuple, n: Any) -> None:
        """r = (-1)**k * sin(r) by the Taylor series, |r| at most pi/2."""
        x, k, t, r, square, whole = tiles
        self._emit_run("vmul", [square, r, r], n)
        self._scaled("vmuls", t, square, n, -1.0 / ((2 * _SIN_TERMS) * (2 * _SIN_TERMS + 1)))
        for term in range(_SIN_TERMS - 1, 0, -1):
            self._scaled("vadds", t, t, n, 1.0)
            self._emit_run("vmul", [t, t, square], n)
            self._scaled("vmuls", t, t, n, -1.0 / ((2 * term) * (2 * term + 1)))
        self._emit_run("vmul", [t, t, r], n)
        self._emit_run("vadd", [r, r, t], n)
        # 1 - 2 * (k mod 2)
        self._scaled("vmuls", t, k, n, 0.5)
        self._round_trip(x, t, whole, n, "floor")
        self._scaled("vmuls", x, x, n, -2.0)
        self._emit_run("vadd", [k, k, x], n)
        self._scaled("vmuls", k, k, n, -2.0)
        self._scaled("vadds", k, k, n, 1.0)
        self._emit_run("vmul", [r, r, k], n)
