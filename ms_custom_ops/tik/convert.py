# SPDX-License-Identifier: Apache-2.0
"""Conversions between dtypes and 16x16 transposes."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, TikSupportError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import const
from ms_custom_ops.program.isa import BLOCK_BYTES, FRACTAL_BYTES, ROUND_MODES
from ms_custom_ops.soc.support import ROUND_SUFFIX, SHORT, codes, conversion_code, require, unsupported
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import (
    VECTOR_SCOPES,
    as_tensor,
    check_apart,
    check_extent,
    check_scope,
    check_start,
    flag,
    ranged,
    scalar_operand,
)
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.tik.vector import MAX_REPEAT, Row, check_operands, plan_for
from ms_custom_ops.where import user_location

_HALF = 65535
_ZERO = const(0.0, "float16")
_CONV_ROWS = {api: Row(api, "vconv", "", _HALF, 255, False, ("dst", "src")) for api in ("vec_conv", "vconv")}
TRANSPOSE_LIST = 16


class ConvertMixin:
    """``Tik`` methods of this module."""

    _b: Builder
    _conv_by_word: Any
    for_range: Any

    # ---- conversion ----
    def vec_conv(
        self,
        mask,
        round_mode,
        dst,
        src,
        repeat_times,
        dst_rep_stride,
        src_rep_stride,
        deqscale=None,
        ldst_high_half=False,
    ):
        """dst = src converted; the wider dtype sets the lanes per repeat. int32 to float16 needs
        ``deqscale``."""
        self._conv(
            "vec_conv",
            mask,
            round_mode,
            dst,
            src,
            repeat_times,
            (1, 1),
            (dst_rep_stride, src_rep_stride),
            deqscale,
            ldst_high_half,
            0,
        )

    def vconv(
        self,
        mask,
        round_mode,
        dst,
        src,
        repeat_times,
        dst_blk_stride,
        src_blk_stride,
        dst_rep_stride,
        src_rep_stride,
        deqscale=None,
        ldst_high_half=False,
        stride_unit=0,
        name="vconv",
        mask_o=None,
    ):
        """vec_conv with block strides."""
        self._conv(
            "vconv",
            mask,
            round_mode,
            dst,
            src,
            repeat_times,
            (dst_blk_stride, src_blk_stride),
            (dst_rep_stride, src_rep_stride),
            deqscale,
            ldst_high_half,
            stride_unit,
        )

    def _conv(
        self,
        api: str,
        mask: Any,
        round_mode: Any,
        dst: Any,
        src: Any,
        repeat: Any,
        blks: tuple,
        reps: tuple,
        deqscale: Any,
        high_half: Any,
        stride_unit: Any,
    ) -> None:
        b = self._b
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        s, d = src.dtype, dst.dtype
        if round_mode not in ROUND_SUFFIX:
            raise b.fail(TikError, api, "round_mode", repr(round_mode), ", ".join(map(repr, ROUND_SUFFIX)))
        if s == "int16" and d in ("int8", "uint8") and conversion_code(s, d, "") in codes("vconv", b.family):
            if deqscale is None:
                raise b.fail(TikError, api, f"deqscale for {s} to {d}", None, "a scale word, or a uint64 tensor of 16")
            high = flag(high_half, api, "ldst_high_half")
            self._conv_by_word(api, mask, dst, src, repeat, blks, reps, deqscale, high, stride_unit)
            return
        self._check_conversion(api, s, d, round_mode, deqscale, high_half)
        row = _CONV_ROWS[api]
        plan = plan_for(b, row, (d, s), mask, repeat, blks, reps, stride_unit, "normal")
        check_operands(b, row, (dst, src), plan)
        scale = _ZERO if deqscale is None else scalar_operand(b, deqscale, "float16", api, "deqscale")
        mode = 0 if deqscale is not None else ROUND_MODES[round_mode]
        attrs = (plan.attrs[0], mode, int(deqscale is not None))
        b.body.append(ir.Instr("vconv", (dst.ref(), src.ref()), (*plan.head, scale, *plan.tail), attrs, b.loc()))

    def _check_conversion(self, api: str, s: str, d: str, mode: str, deqscale: Any, high_half: Any) -> None:
        b = self._b
        to_half = s == "int32" and d == "float16"
        code = conversion_code(s, d, "" if to_half else mode)
        pair = f"{SHORT[s]}2{SHORT[d]}"
        key = ("conv", code, deqscale is None, bool(high_half))
        if key in b.plans:
            return
        have = codes("vconv", b.family)
        if code not in have:
            same = [c for c in have if c.startswith(pair) and c[len(pair) :] in ROUND_SUFFIX.values()]
            if same:
                modes = [repr(m) for m, suffix in ROUND_SUFFIX.items() if pair + suffix in have]
                raise TikSupportError(
                    describe(api, f"round_mode for {s} to {d} on {b.soc.name}", repr(mode), ", ".join(modes)),
                    user_location(),
                )
            raise unsupported(b, api, "vconv", code, f"{s} to {d}")
        if to_half and deqscale is None:
            raise b.fail(
                TikError,
                api,
                "deqscale",
                None,
                "a number or float16 Scalar (int32 to float16 scales by it; 1.0 converts plainly)",
            )
        if deqscale is not None and not to_half:
            raise b.fail(TikError, api, f"deqscale for {s} to {d}", deqscale, "None")
        if high_half:
            raise b.fail(TikError, api, f"ldst_high_half for {s} to {d}", high_half, "False")
        b.plans[key] = True

    # ---- transposes ----
    def vnchwconv(
        self, dst_high_half, src_high_half, dst_list, src_list, repeat_times, dst_rep_stride, src_rep_stride, name=None
    ):
        """Transpose between lists of 16 blocks of 32 bytes, see the isa module. With one repeat both strides
        are 0."""
        self._nchw(
            "vnchwconv", dst_high_half, src_high_half, dst_list, src_list, repeat_times, dst_rep_stride, src_rep_stride
        )

    def vec_trans_scatter(
        self, dst_high_half, src_high_half, dst_list, src_list, repeat_times, dst_rep_stride, src_rep_stride
    ):
        """vnchwconv under its newer name."""
        self._nchw(
            "vec_trans_scatter",
            dst_high_half,
            src_high_half,
            dst_list,
            src_list,
            repeat_times,
            dst_rep_stride,
            src_rep_stride,
        )

    def _nchw(
        self,
        api: str,
        dst_high: Any,
        src_high: Any,
        dst_list: Any,
        src_list: Any,
        repeat: Any,
        dst_rep: Any,
        src_rep: Any,
    ) -> None:
        b = self._b
        if b.dead:
            return
        tensors = self._nchw_operands(api, dst_list, src_list)
        dtype = tensors[0].dtype
        require(b, api, api, SHORT[dtype], dtype)
        r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT)
        dr, sr = (ranged(v, api, n, 0, _HALF) for v, n in ((dst_rep, "dst_rep_stride"), (src_rep, "src_rep_stride")))
        if r.__class__ is int and r == 1:
            for v, n in ((dr, "dst_rep_stride"), (sr, "src_rep_stride")):
                if v.__class__ is not int or v != 0:
                    raise b.fail(
                        TikError,
                        api,
                        f"{n} with repeat_times 1",
                        v,
                        "0 (the chip adds the stride to the start address even then)",
                    )
        for k, t in enumerate(tensors):
            side = "dst_list" if k < 16 else "src_list"
            stride = dr if k < 16 else sr
            check_scope(b, t, api, f"{side}[{k % 16}]", VECTOR_SCOPES)
            check_start(t, api, f"{side}[{k % 16}]")
            if r.__class__ is int and stride.__class__ is int:
                check_extent(t, (r - 1) * stride * BLOCK_BYTES + BLOCK_BYTES, api, f"{side}[{k % 16}]")
        high = tuple(int(flag(v, api, n)) for v, n in ((dst_high, "dst_high_half"), (src_high, "src_high_half")))
        b.body.append(
            ir.Instr(
                "vnchwconv", tuple([t.ref() for t in tensors]), (r, dr * BLOCK_BYTES, sr * BLOCK_BYTES), high, b.loc()
            )
        )

    def _nchw_operands(self, api: str, dst_list: Any, src_list: Any) -> list[Tensor]:
        """The 16 destinations and 16 sources, of one dtype."""
        b = self._b
        for what, items in (("dst_list", dst_list), ("src_list", src_list)):
            if not isinstance(items, (list, tuple)) or len(items) != TRANSPOSE_LIST:
                given = f"{len(items)} items" if isinstance(items, (list, tuple)) else type(items).__name__
                raise b.fail(TikError, api, what, given, f"a list of {TRANSPOSE_LIST} tensors")
        tensors = [
            as_tensor(t, api, f"{what}[{i}]")
            for what, items in (("dst_list", dst_list), ("src_list", src_list))
            for i, t in enumerate(items)
        ]
        dtype = tensors[0].dtype
        for k, t in enumerate(tensors):
            if t._dtype != dtype:
                raise b.fail(
                    TikError, api, f"dtype of operand {k % 16} of {'dst' if k < 16 else 'src'}_list", t.dtype, dtype
                )
        return tensors

    def vtranspose(self, dst, src):
        """16x16 transpose of 16-bit elements in 512 contiguous bytes."""
        self._transpose("vtranspose", dst, src, 1, 0, 0)

    def vec_trans(self, dst, src, repeat_times, dst_rep_stride, src_rep_stride):
        """vtranspose per repeat; the repeat strides count 512-byte fractals."""
        self._transpose("vec_trans", dst, src, repeat_times, dst_rep_stride, src_rep_stride)

    def _transpose(self, api: str, dst: Any, src: Any, repeat: Any, dst_rep: Any, src_rep: Any) -> None:
        b = self._b
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        if dst.dtype != src.dtype:
            raise b.fail(TikError, api, "dtype of src", src.dtype, dst.dtype)
        require(b, api, "vtranspose", SHORT[dst.dtype], dst.dtype)
        r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT)
        strides = [ranged(v, api, n, 0, 4095) for v, n in ((dst_rep, "dst_rep_stride"), (src_rep, "src_rep_stride"))]
        known = r.__class__ is int and all(s.__class__ is int for s in strides)
        for t, name, s in ((dst, "dst", strides[0]), (src, "src", strides[1])):
            check_scope(b, t, api, name, VECTOR_SCOPES)
            check_start(t, api, name)
            check_extent(t, ((r - 1) * s + 1) * FRACTAL_BYTES if known else None, api, name)
        elements = FRACTAL_BYTES // SIZE[dst.dtype]
        loc = b.loc()
        if known and r == 1:
            check_apart(api, dst, src, FRACTAL_BYTES, FRACTAL_BYTES)

        def tile(k: Any) -> None:
            pair = tuple(
                ir.Ref(t.storage.buffer, t.dtype, t.offset + k * s * elements)
                for t, s in ((dst, strides[0]), (src, strides[1]))
            )
            b.body.append(ir.Instr("vtranspose", pair, (), (), loc))

        if known:
            for k in range(r):
                tile(k)
        else:
            with self.for_range(0, r) as i:
                tile(i)
