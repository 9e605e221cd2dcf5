# SPDX-License-Identifier: Apache-2.0
"""h_ methods on whole tensors and slices: arithmetic, conversion, fill, moves ("TIK 1.5")."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikAlignError, TikError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr, const
from ms_custom_ops.program.isa import BLOCK_BYTES, ROUND_MODES
from ms_custom_ops.soc.support import ROUND_SUFFIX, SHORT, codes, conversion_code, require, unsupported
from ms_custom_ops.tik.checks import check_same_dtype, check_start, scalar_operand
from ms_custom_ops.tik.h_views import HBase, Run, check_alias, check_h_scope, operand, same_shape, work_of
from ms_custom_ops.tik.scalar import Scalar
from ms_custom_ops.tik.tensor import Tensor

_BINARY = {
    "add": "vadd",
    "sub": "vsub",
    "mul": "vmul",
    "div": "vdiv",
    "max": "vmax",
    "min": "vmin",
    "and": "vand",
    "or": "vor",
}
_UNARY = {"abs": "vabs", "relu": "vrelu", "not": "vnot", "exp": "vexp", "ln": "vln", "rec": "vrec", "rsqrt": "vrsqrt"}
_ZERO = const(0.0, "float16")


class HApiMixin(HBase):
    """``Tik`` methods of this module; those of the tables are added below."""

    def _h_binary(self, api: str, op: str, dst: Any, src0: Any, src1: Any) -> None:
        b = self._b
        if b.dead:
            return
        check_h_scope(b, api)
        dst = operand(b, api, "dst", dst)
        require(b, api, op, SHORT[dst.dtype], dst.dtype)
        sources = {"src0": src0, "src1": src1}
        tensors = {n: operand(b, api, n, t) for n, t in sources.items() if isinstance(t, Tensor)}
        if not tensors:
            raise b.fail(TikError, api, "src0 and src1", "two scalars", "at least one tensor")
        for n, t in tensors.items():
            check_same_dtype(b, api, dst, t, n)
        same_shape(b, api, dst, tensors)
        check_alias(b, api, dst, tensors)
        work_of(b, api)
        extra = [self._scalar_block(api, n, v, dst.dtype, 0) for n, v in sources.items() if n not in tensors]
        order = (0, 2, 1) if "src0" not in tensors else (0, 1, 2)
        self._elementwise(op, [dst, *tensors.values()], extra, order=order)

    def _h_unary(self, api: str, op: str, dst: Any, src: Any) -> None:
        b = self._b
        if b.dead:
            return
        dst, src = self._h_pair(api, dst, src)
        check_same_dtype(b, api, dst, src)
        require(b, api, op, SHORT[dst.dtype], dst.dtype)
        self._elementwise(op, [dst, src], [])

    def _h_pair(self, api: str, dst: Any, src: Any) -> tuple[Tensor, Tensor]:
        b = self._b
        check_h_scope(b, api)
        dst, src = operand(b, api, "dst", dst), operand(b, api, "src", src)
        same_shape(b, api, dst, {"src": src})
        check_alias(b, api, dst, {"src": src})
        work_of(b, api)
        return dst, src

    # ---- conversion ----
    def h_cast(self, dst, src, round_mode):
        """dst = src in the dtype of dst, by a rounding mode of vec_conv."""
        self._h_convert("h_cast", dst, src, round_mode)

    def h_conv(self, dst, src, round_mode):
        """h_cast under its other name."""
        self._h_convert("h_conv", dst, src, round_mode)

    def _h_convert(self, api: str, dst: Any, src: Any, mode: Any) -> None:
        b = self._b
        if b.dead:
            return
        dst, src = self._h_pair(api, dst, src)
        if mode not in ROUND_SUFFIX:
            raise b.fail(TikError, api, "round_mode", repr(mode), ", ".join(map(repr, ROUND_SUFFIX)))
        scaled = (src.dtype, dst.dtype) == ("int32", "float16")
        code = conversion_code(src.dtype, dst.dtype, "" if scaled else mode)
        by_word = src.dtype == "int16" and dst.dtype in ("int8", "uint8")
        if code not in codes("vconv", b.family) or by_word:
            raise unsupported(b, api, "vconv", code, f"{src.dtype} to {dst.dtype}, round_mode {mode!r}")
        scale = const(1.0, "float16") if scaled else _ZERO
        attrs = (0 if scaled else ROUND_MODES[mode], int(scaled))
        self._elementwise("vconv", [dst, src], [], (scale,), attrs)

    def h_quant(self, dst, src, deqscale):
        """dst (float16) = src (int32) times deqscale."""
        b, api = self._b, "h_quant"
        if b.dead:
            return
        dst, src = self._h_pair(api, dst, src)
        require(b, api, api, conversion_code(src.dtype, dst.dtype, ""), f"{src.dtype} to {dst.dtype}")
        scale = scalar_operand(b, deqscale, "float16", api, "deqscale")
        self._elementwise("vconv", [dst, src], [], (scale,), (0, 1))

    # ---- fill and move ----
    def h_duplicate(self, dst, src):
        """Every element of dst = a number or Scalar."""
        b, api = self._b, "h_duplicate"
        if b.dead:
            return
        check_h_scope(b, api)
        dst = operand(b, api, "dst", dst)
        require(b, api, "vector_dup", SHORT[dst.dtype], dst.dtype)
        if isinstance(src, Expr) and not isinstance(src, Scalar) and src.get().op != "const":
            if dst.dtype == "float16" or dst.dtype == "float32" and b.family == "310":
                raise b.fail(
                    TikError, api, f"src for {dst.dtype} on {b.soc.name}", "an expression", "an immediate or a Scalar"
                )
        work_of(b, api)
        self._elementwise("vector_dup", [dst], [], (scalar_operand(b, src, dst.dtype, api, "src"),))

    def h_data_move(self, dst, src):
        """dst = src between GM and UB or within UB: same dtype, shape and steps, pieces of whole 32-byte blocks."""
        b, api = self._b, "h_data_move"
        if b.dead:
            return
        check_h_scope(b, api)
        dst, src = (operand(b, api, n, t, (ir.GM, ir.UB)) for t, n in ((dst, "dst"), (src, "src")))
        if ir.UB not in (dst.storage.buffer.scope, src.storage.buffer.scope):
            raise b.fail(TikError, api, "route", "gm->gm", "gm->ub, ub->gm, ub->ub")
        for t, name in ((dst, "dst"), (src, "src")):
            if t.dtype == "bool":
                raise b.fail(TikError, api, f"dtype of {name}", "bool", "the other dtypes")
        check_same_dtype(b, api, dst, src)
        same_shape(b, api, dst, {"src": src})
        work_of(b, api)
        self._over([dst, src], lambda runs, count: self._h_move(api, (dst, src), runs, count))

    def _h_move(self, api: str, views: tuple[Tensor, Tensor], runs: list[Run], count: Any) -> None:
        size = SIZE[views[0].dtype]
        if count.__class__ is int and count * size % BLOCK_BYTES:
            raise self._b.fail(
                TikAlignError, api, "contiguous bytes of a piece", count * size, f"multiples of {BLOCK_BYTES}"
            )
        for t, name in zip(views, ("dst", "src"), strict=True):
            if t.storage.buffer.scope == ir.UB:
                check_start(t, api, name)
        self._instr("data_move", runs, (1, count * size, 0, 0))


def _h_binary_method(api: str, op: str) -> Any:
    def method(self, dst, src0, src1):
        self._h_binary(api, op, dst, src0, src1)

    return method


def _h_unary_method(api: str, op: str) -> Any:
    def method(self, dst, src):
        self._h_unary(api, op, dst, src)

    return method


for _table, _make in ((_BINARY, _h_binary_method), (_UNARY, _h_unary_method)):
    for _name, _op in _table.items():
        _method = _make(f"h_{_name}", _op)
        _method.__name__ = f"h_{_name}"
        _method.__qualname__ = f"Tik.h_{_name}"
        _method.__module__ = __name__
        _method.__doc__ = f"Instruction ``{_op}`` of the isa module on whole tensors, slices and scalars."
        setattr(HApiMixin, _method.__name__, _method)
