# SPDX-License-Identifier: Apache-2.0
"""Reductions: one result, pair or row of results per repeat."""

from __future__ import annotations

from typing import Any, NamedTuple

from ms_custom_ops.errors import TikError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.isa import BLOCK_BYTES, VECTOR_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import (
    VECTOR_SCOPES,
    as_tensor,
    check_extent,
    check_same_dtype,
    check_scope,
    check_start,
    flag,
    mask_of,
    ranged,
    vector_need,
)
from ms_custom_ops.tik.vector import MAX_REPEAT, canonical_strides

_HALF = 65535


class _Reduction(NamedTuple):
    op: str
    unit: Any  # bytes of dst_rep_stride for an element size
    results: Any  # elements written per repeat for an element size
    align: Any  # alignment of dst for an element size


_ROWS = {
    "vcadd": _Reduction("vcadd", lambda s: s, lambda s: 1, lambda s: s),
    "vcmax": _Reduction("vcmax", lambda s: 2 * s, lambda s: 2, lambda s: 2 * s),
    "vcmin": _Reduction("vcmin", lambda s: 2 * s, lambda s: 2, lambda s: 2 * s),
    "vcgadd": _Reduction("vcgadd", lambda s: 8 * s, lambda s: 8, lambda s: 8 * s),
    "vcgmax": _Reduction("vcgmax", lambda s: 8 * s, lambda s: 8, lambda s: 8 * s),
    "vcgmin": _Reduction("vcgmin", lambda s: 8 * s, lambda s: 8, lambda s: 8 * s),
    "vcpadd": _Reduction("vcpadd", lambda s: 128, lambda s: VECTOR_BYTES // s // 2, lambda s: BLOCK_BYTES),
}


class ReduceMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def _whole_reduce(
        self,
        api: str,
        op: str,
        mask: Any,
        dst: Any,
        src: Any,
        repeat: Any,
        dst_rep: Any,
        src_blk: Any,
        src_rep: Any,
        stride_unit: Any,
        attrs: tuple,
    ) -> None:
        b = self._b
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        check_same_dtype(b, api, dst, src)
        dtype = src.dtype
        require(b, api, op, SHORT[dtype], dtype)
        row, size = _ROWS[op], SIZE[dtype]
        lanes = VECTOR_BYTES // size
        m = mask_of(mask, lanes, api)
        r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT)
        lowest = 1 if b.family == "910A" and r.__class__ is int and r > 1 else 0
        dst_stride = ranged(dst_rep, api, "dst_rep_stride", lowest, _HALF)
        blk = ranged(src_blk, api, "src_blk_stride", 0, _HALF)
        rep = ranged(src_rep, api, "src_rep_stride", 0, _HALF)
        su = ranged(stride_unit, api, "stride_unit", 0, 3)
        blk_b, rep_b = canonical_strides(blk, rep, su, VECTOR_BYTES // BLOCK_BYTES, size)
        dst_b = dst_stride * row.unit(size)
        check_scope(b, dst, api, "dst", VECTOR_SCOPES)
        check_scope(b, src, api, "src", VECTOR_SCOPES)
        check_start(dst, api, "dst", row.align(size))
        check_start(src, api, "src")
        if r.__class__ is int:
            if dst_b.__class__ is int:
                check_extent(dst, (r - 1) * dst_b + row.results(size) * size, api, "dst")
            if m.lanes is not None and blk_b.__class__ is int and rep_b.__class__ is int:
                check_extent(src, vector_need(m.lanes, r, blk_b, rep_b, size), api, "src")
        b.body.append(
            ir.Instr(op, (dst.ref(), src.ref()), (m.low, m.high, r, dst_b, blk_b, rep_b), (m.kind, *attrs), b.loc())
        )

    def vcadd(self, mask, dst, src, repeat_times, dst_rep_stride, src_blk_stride, src_rep_stride, stride_unit=0):
        """Sum of the selected lanes per repeat; dst_rep_stride in elements."""
        self._whole_reduce(
            "vcadd",
            "vcadd",
            mask,
            dst,
            src,
            repeat_times,
            dst_rep_stride,
            src_blk_stride,
            src_rep_stride,
            stride_unit,
            (),
        )

    def vcmax(
        self,
        mask,
        dst,
        src,
        repeat_times,
        dst_rep_stride,
        src_blk_stride,
        src_rep_stride,
        stride_unit=0,
        index_low=False,
        max_cnt_index=None,
    ):
        """(maximum, lane number as raw bits) per repeat; dst_rep_stride in pairs."""
        self._extreme(
            "vcmax",
            mask,
            dst,
            src,
            repeat_times,
            dst_rep_stride,
            src_blk_stride,
            src_rep_stride,
            stride_unit,
            index_low,
            max_cnt_index,
        )

    def vcmin(
        self,
        mask,
        dst,
        src,
        repeat_times,
        dst_rep_stride,
        src_blk_stride,
        src_rep_stride,
        stride_unit=0,
        index_low=False,
        min_cnt_index=None,
    ):
        """(minimum, lane number as raw bits) per repeat; dst_rep_stride in pairs."""
        self._extreme(
            "vcmin",
            mask,
            dst,
            src,
            repeat_times,
            dst_rep_stride,
            src_blk_stride,
            src_rep_stride,
            stride_unit,
            index_low,
            min_cnt_index,
        )

    def _extreme(
        self,
        api: str,
        mask: Any,
        dst: Any,
        src: Any,
        repeat: Any,
        dst_rep: Any,
        src_blk: Any,
        src_rep: Any,
        stride_unit: Any,
        index_low: Any,
        cnt_index: Any,
    ) -> None:
        if cnt_index is not None:
            raise self._b.fail(TikError, api, "max_cnt_index/min_cnt_index", "a list", "None")
        low = flag(index_low, api, "index_low")
        if low and self._b.family in ("310", "910A"):
            raise self._b.fail(TikError, api, f"index_low on {self._b.soc.name}", True, "False")
        self._whole_reduce(api, api, mask, dst, src, repeat, dst_rep, src_blk, src_rep, stride_unit, (int(low),))

    def vec_cpadd(self, mask, dst, src, repeat_times, dst_rep_stride, src_rep_stride):
        """Sums of adjacent pairs; dst_rep_stride in 128 bytes."""
        self._whole_reduce(
            "vec_cpadd", "vcpadd", mask, dst, src, repeat_times, dst_rep_stride, 1, src_rep_stride, 0, ()
        )


def _plain(op: str) -> Any:
    def method(self, mask, dst, src, repeat_times, dst_rep_stride, src_blk_stride, src_rep_stride, stride_unit=0):
        self._whole_reduce(
            op, op, mask, dst, src, repeat_times, dst_rep_stride, src_blk_stride, src_rep_stride, stride_unit, ()
        )

    method.__name__ = op
    method.__qualname__ = f"Tik.{op}"
    method.__doc__ = f"Reduction ``{op}`` of the isa module; dst_rep_stride in units of one repeat's results."
    return method


for _op in ("vcgadd", "vcgmax", "vcgmin", "vcpadd"):
    setattr(ReduceMixin, _op, _plain(_op))
