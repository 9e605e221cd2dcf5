# SPDX-License-Identifier: Apache-2.0
"""conv2d from L1, filling of L0A, L0B and L1 with a value."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr, cast, var
from ms_custom_ops.program.isa import BLOCK_BYTES, FRACTAL_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import (
    as_tensor,
    check_dense,
    check_extent,
    check_scope,
    check_start,
    flag,
    ranged,
    scalar_operand,
)
from ms_custom_ops.tik.cube import product_code, round_up
from ms_custom_ops.tik.img2col import Geometry, geometry, need_static, pairs_of

ROWS = 16
MAX_C1, MAX_COUT = 4095, 65520
MAX_FILL_REPEAT = 255


class ConvMixin:
    """``Tik`` methods of this module."""

    _b: Builder
    _product_bias: Any  # of CubeMixin
    _l1_align: Any
    _l0_value: dict[str, int] | None = None

    def conv2d(
        self,
        dst,
        feature_map,
        weight,
        fm_shape,
        kernel_shape,
        stride,
        pad,
        dilation,
        pad_value=0,
        init_l1out=True,
        bias=None,
    ):
        """dst [Cout/16, Ho*Wo rounded up to 16, 16] (L0C) = convolution of ``feature_map`` [C1, H, W, C0] with
        ``weight`` [C1, Kh, Kw, Cout, C0] (both L1); ``init_l1out=False`` adds to dst.

        ``fm_shape`` and ``kernel_shape`` are those shapes, ``stride`` [h, w], ``pad`` [left, right, top, bottom],
        ``dilation`` [h, w], all Python ints; C0 is 32 bytes, Cout a multiple of 16. ``bias``: a row of Cout values
        in UB or L1 that dst starts from.
        """
        b, api = self._b, "conv2d"
        if b.dead:
            return
        dst, fm, weight = (
            as_tensor(t, api, n) for t, n in ((dst, "dst"), (feature_map, "feature_map"), (weight, "weight"))
        )
        code = product_code(fm.dtype, weight.dtype, dst.dtype)
        require(b, api, api, code, f"{fm.dtype} x {weight.dtype} to {dst.dtype}")
        k0 = BLOCK_BYTES // SIZE[fm.dtype]
        c1, height, width, fm_c0 = self._conv_shape(api, "fm_shape", fm_shape, 4)
        kernel_c1, kh, kw, cout, kernel_c0 = self._conv_shape(api, "kernel_shape", kernel_shape, 5)
        for name, given, accepted in (
            ("C0 of fm_shape", fm_c0, k0),
            ("C0 of kernel_shape", kernel_c0, k0),
            ("C1 of kernel_shape", kernel_c1, c1),
        ):
            if given != accepted:
                raise b.fail(TikError, api, name, given, str(accepted))
        if cout % ROWS or cout > MAX_COUT:
            raise b.fail(TikError, api, "Cout of kernel_shape", cout, f"multiples of {ROWS} up to {MAX_COUT}")
        ranged(c1, api, "C1 of fm_shape", 1, MAX_C1)
        g = self._conv_geometry(api, pad, height, width, (kh, kw), stride, dilation)
        assert g.out is not None
        rows, depth = round_up(g.out[0] * g.out[1], ROWS), c1 * kh * kw * k0
        for t, name, scope, need, align in (
            (dst, "dst", ir.L0C, rows * cout, 1024),
            (fm, "feature_map", ir.L1, c1 * height * width * k0, self._l1_align()),
            (weight, "weight", ir.L1, depth * cout, self._l1_align()),
        ):
            check_scope(b, t, api, name, (scope,))
            check_start(t, api, name, align)
            check_dense(self._b, t, api, name, need)
        init = self._product_bias(api, dst, bias, rows, cout, flag(init_l1out, api, "init_l1out"))
        value = scalar_operand(b, pad_value, fm.dtype, api, "pad_value")
        attrs = (c1, cout, *g.args, int(init))
        b.body.append(ir.Instr(api, (dst.ref(), fm.ref(), weight.ref()), (value,), attrs, b.loc()))

    def _conv_shape(self, api: str, name: str, shape: Any, rank: int) -> list[int]:
        if not isinstance(shape, (list, tuple)) or len(shape) != rank:
            raise self._b.fail(TikError, api, name, shape, f"{rank} dimensions")
        return [need_static(api, name, ranged(d, api, name, 1, 65535)) for d in shape]

    def _conv_geometry(
        self, api: str, pad: Any, height: int, width: int, kernel: tuple[int, int], stride: Any, dilation: Any
    ) -> Geometry:
        sides = {}
        for name, pair in (("stride", stride), ("dilation", dilation)):
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise self._b.fail(TikError, api, name, pair, "[h, w]")
            sides[name] = [need_static(api, name, ranged(v, api, name, 1, 255)) for v in pair]
        (sh, sw), (dh, dw) = sides["stride"], sides["dilation"]
        g = geometry(self._b, api, pad, height, width, pairs_of(sw, sh, kernel[1], kernel[0], dw, dh))
        for value in g.args:
            need_static(api, "pad", value)
        return g

    # ---- filling ----
    def set_l0_set_value(self, value, dtype):
        """The value that tensor_padding_with_matrix writes into tensors of ``dtype`` when it is given none."""
        b, api = self._b, "set_l0_set_value"
        if b.dead:
            return
        require(b, api, "tensor_padding_with_matrix", SHORT.get(dtype, dtype), dtype)
        if self._l0_value is None:
            self._l0_value = {}
        if dtype not in self._l0_value:
            self._l0_value[dtype] = b.register(f"l0_set_value_{dtype}", dtype)
        operand = scalar_operand(b, value, dtype, api, "value")
        b.body.append(ir.Assign(self._l0_value[dtype], cast(operand, dtype), b.loc()))

    def tensor_padding_with_matrix(self, dst, repeat_times, value=None):
        """``repeat_times`` units of 512 bytes of L0A, L0B or L1 filled with ``value``, or with that of
        set_l0_set_value when it is None."""
        b, api = self._b, "tensor_padding_with_matrix"
        if b.dead:
            return
        dst = as_tensor(dst, api, "dst")
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        check_scope(b, dst, api, "dst", (ir.L0A, ir.L0B, ir.L1))
        check_start(dst, api, "dst")
        repeat = ranged(repeat_times, api, "repeat_times", 1, MAX_FILL_REPEAT)
        if repeat.__class__ is int:
            check_extent(dst, repeat * FRACTAL_BYTES, api, "dst")
        fill: Expr
        if value is not None:
            fill = scalar_operand(b, value, dst.dtype, api, "value")
        elif self._l0_value is not None and dst.dtype in self._l0_value:
            fill = self._l0_register(dst.dtype)
        else:
            raise b.fail(TikError, api, "value", None, f"a number, or a set_l0_set_value(value, {dst.dtype!r}) before")
        b.body.append(ir.Instr("fill", (dst.ref(),), (repeat, fill), (), b.loc()))

    def _l0_register(self, dtype: str) -> Expr:
        assert self._l0_value is not None
        return var(self._l0_value[dtype], dtype)
