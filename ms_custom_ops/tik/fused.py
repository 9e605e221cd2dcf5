# SPDX-License-Identifier: Apache-2.0
"""Vector instructions that convert what they computed: vmulconv, vadddeqrelu, vcbd, vconv by a scale word."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import const
from ms_custom_ops.program.isa import BLOCK_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import as_tensor, check_extent, check_scope, check_start, number, scalar_operand
from ms_custom_ops.tik.gather import check_operand
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.tik.vector import Row, check_operands, plan_for

_BYTE, _HALF = 255, 65535
_MULCONV = Row("vmulconv", "vmulconv", "", _BYTE, _BYTE)
_ADDDEQ = Row("vadddeqrelu", "vadddeqrelu", "", _BYTE, _BYTE)
_VCBD = Row("vcbd", "vconv", "", _HALF, _BYTE, False, ("dst", "src"))
_DEQ = Row("vconv", "vconv_deq", "", _HALF, _BYTE, False, ("dst", "src"))
_SCALES = 16
SIGN_BIT = 46
_ZERO = const(0.0, "float16")


class FusedMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def vmulconv(
        self,
        mask,
        dst,
        src0,
        src1,
        repeat_times,
        dst_blk_stride,
        src0_blk_stride,
        src1_blk_stride,
        dst_rep_stride,
        src0_rep_stride,
        src1_rep_stride,
        stride_unit=0,
    ):
        """dst (int8 or uint8) = the float16 product, rounded to nearest even and saturated."""
        self._two_sources(
            _MULCONV,
            "{dst}{src0}{src1}",
            mask,
            (dst, src0, src1),
            repeat_times,
            (dst_blk_stride, src0_blk_stride, src1_blk_stride),
            (dst_rep_stride, src0_rep_stride, src1_rep_stride),
            stride_unit,
            None,
        )

    def vadddeqrelu(
        self,
        mask,
        dst,
        deqscale,
        src0,
        src1,
        repeat_times,
        dst_blk_stride,
        src0_blk_stride,
        src1_blk_stride,
        dst_rep_stride,
        src0_rep_stride,
        src1_rep_stride,
        stride_unit=0,
    ):
        """dst (float16) = max(deqscale * (src0 + src1), 0) of int32 sources."""
        self._two_sources(
            _ADDDEQ,
            "{dst}{src0}{src1}",
            mask,
            (dst, src0, src1),
            repeat_times,
            (dst_blk_stride, src0_blk_stride, src1_blk_stride),
            (dst_rep_stride, src0_rep_stride, src1_rep_stride),
            stride_unit,
            deqscale,
        )

    def _two_sources(
        self,
        row: Row,
        code: str,
        mask: Any,
        tensors: tuple,
        repeat: Any,
        blks: tuple,
        reps: tuple,
        stride_unit: Any,
        deqscale: Any,
    ) -> None:
        b = self._b
        if b.dead:
            return
        operands = tuple(as_tensor(t, row.api, n) for t, n in zip(tensors, row.names, strict=True))
        short = {n: SHORT.get(t.dtype, t.dtype) for n, t in zip(row.names, operands, strict=True)}
        given = ", ".join(t.dtype for t in operands)
        require(b, row.api, row.api, code.format(**short), f"{given} (dst, src0, src1)")
        dtypes = tuple(t.dtype for t in operands)
        plan = plan_for(b, row, dtypes, mask, repeat, blks, reps, stride_unit, "normal")
        check_operands(b, row, operands, plan)
        scale = () if row is _MULCONV else (scalar_operand(b, deqscale, "float16", row.api, "deqscale"),)
        refs = tuple(t.ref() for t in operands)
        b.body.append(ir.Instr(row.op, refs, (*plan.head, *scale, *plan.tail), plan.attrs, b.loc()))

    def vcbd(
        self,
        mask,
        dst,
        src,
        repeat_times,
        dst_blk_stride,
        src_blk_stride,
        dst_rep_stride,
        src_rep_stride,
        stride_unit=0,
        mask_mode="normal",
    ):
        """dst = src in another integer dtype, saturating (set_fp2int_mode(1): the low bits)."""
        b, api = self._b, "vcbd"
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        code = f"{SHORT.get(src.dtype)}2{SHORT.get(dst.dtype)}"
        require(b, api, api, code, f"{src.dtype} to {dst.dtype}")
        plan = plan_for(
            b,
            _VCBD,
            (dst.dtype, src.dtype),
            mask,
            repeat_times,
            (dst_blk_stride, src_blk_stride),
            (dst_rep_stride, src_rep_stride),
            stride_unit,
            mask_mode,
        )
        check_operands(b, _VCBD, (dst, src), plan)
        args = (*plan.head, _ZERO, *plan.tail)
        b.body.append(ir.Instr("vconv", (dst.ref(), src.ref()), args, (plan.attrs[0], 0, 0), b.loc()))

    def _conv_by_word(
        self,
        api: str,
        mask: Any,
        dst: Tensor,
        src: Tensor,
        repeat: Any,
        blks: tuple,
        reps: tuple,
        deqscale: Any,
        high: bool,
        stride_unit: Any,
    ) -> None:
        """int16 to 8 bits by a 64-bit scale word, or by a tensor of 16 of them."""
        b = self._b
        row = _DEQ._replace(api=api)
        # Each block of src fills half a block of dst, so that dst has as many blocks as src.
        plan = plan_for(b, row, ("int16", "int16"), mask, repeat, blks, reps, stride_unit, "normal")
        check_operand(b, src, api, "src", plan.needs[1])
        check_scope(b, dst, api, "dst", ("ub",))
        check_start(dst, api, "dst")
        if plan.needs[0] is not None:
            check_extent(dst, -(-plan.needs[0] // BLOCK_BYTES) * BLOCK_BYTES, api, "dst")
        if isinstance(deqscale, Tensor):
            if deqscale.dtype != "uint64":
                raise b.fail(TikError, api, "dtype of deqscale", deqscale.dtype, "uint64")
            check_operand(b, deqscale, api, "deqscale", _SCALES * SIZE["uint64"])
            scale, word, vector = deqscale, const(0, "uint64"), 1
        else:
            value = number(deqscale, api, "deqscale")
            if value.__class__ is int and bool(value >> SIGN_BIT & 1) != (dst.dtype == "int8"):
                raise b.fail(
                    TikError,
                    api,
                    f"bit {SIGN_BIT} of deqscale for {dst.dtype}",
                    value >> SIGN_BIT & 1,
                    "1 for int8, 0 for uint8",
                )
            scale, word, vector = src, const(value, "uint64") if value.__class__ is int else value, 0
        refs = (dst.ref(), src.ref(), scale.ref())
        args = (*plan.head, word, *plan.tail)
        b.body.append(ir.Instr("vconv_deq", refs, args, (plan.attrs[0], int(high), vector), b.loc()))
