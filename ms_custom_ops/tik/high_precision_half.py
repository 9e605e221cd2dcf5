# SPDX-License-Identifier: Apache-2.0
"""vec_ln_high_preci and vec_expm1_high_preci: float16 functions computed in float32.

ln x is vln in float32. expm1 x is ``T(c) + (exp(x) - exp(c))`` with c = x clamped to +-1/4 and T the Taylor polynomial
of degree 6 of expm1: for small x the bracket is exactly 0, for others T adds what the bracket lacks.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikOverflowError
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import as_tensor, check_same_dtype
from ms_custom_ops.tik.high_precision import _Steps, _Vector, newton_repeats, span_of
from ms_custom_ops.where import user_location

# Elements of work_tensor per element that src spans, and the float32 parts used of it.
_LN_FACTOR, _EXPM1_FACTOR, _PARTS = 10, 11, 5
_CLAMP = 0.25
_DEGREE = 6


def _ln(run: _Steps, dst: _Vector, x: _Vector, parts: list[_Vector]) -> None:
    run.emit("vln", dst, x)


def _expm1(run: _Steps, dst: _Vector, x: _Vector, parts: list[_Vector]) -> None:
    near, far, series = parts[:3]
    run.emit("vmins", near, x, scalar=_CLAMP)
    run.emit("vmaxs", near, near, scalar=-_CLAMP)
    run.emit("vexp", far, x)
    run.emit("vexp", series, near)
    run.emit("vsub", far, far, series)
    run.emit("vmuls", series, near, scalar=1.0 / _DEGREE)
    for term in range(_DEGREE - 1, 0, -1):
        run.emit("vadds", series, series, scalar=1.0)
        run.emit("vmul", series, series, near)
        if term > 1:
            run.emit("vmuls", series, series, scalar=1.0 / term)
    run.emit("vadd", dst, series, far)


class HalfPrecisionMixin:
    """``Tik`` methods of this module."""

    _b: Builder
    _check_newton: Any
    _rows: Any
    _emit_rows: Any

    def vec_ln_high_preci(self, mask, dst, src, work_tensor, repeat_times, dst_rep_stride, src_rep_stride):
        """dst = ln src in float16. work_tensor: float16, 10 times the span of src in elements."""
        self._half_function(
            "vec_ln_high_preci",
            mask,
            dst,
            src,
            work_tensor,
            repeat_times,
            dst_rep_stride,
            src_rep_stride,
            _LN_FACTOR,
            _ln,
        )

    def vec_expm1_high_preci(self, mask, dst, src, work_tensor, repeat_times, dst_rep_stride, src_rep_stride):
        """dst = exp(src) - 1 in float16. work_tensor: float16, 11 times the span of src in elements."""
        self._half_function(
            "vec_expm1_high_preci",
            mask,
            dst,
            src,
            work_tensor,
            repeat_times,
            dst_rep_stride,
            src_rep_stride,
            _EXPM1_FACTOR,
            _expm1,
        )

    def _half_function(
        self,
        api: str,
        mask: Any,
        dst: Any,
        src: Any,
        work: Any,
        repeat: Any,
        dst_rep: Any,
        src_rep: Any,
        factor: int,
        steps: Any,
    ) -> None:
        b = self._b
        if b.dead:
            return
        dst, src, work = (as_tensor(x, api, n) for x, n in ((dst, "dst"), (src, "src"), (work, "work_tensor")))
        for t, name in ((src, "src"), (work, "work_tensor")):
            check_same_dtype(b, api, dst, t, name)
        require(b, api, api, SHORT[src.dtype], src.dtype)
        size = SIZE[src.dtype]
        m, r, reps = newton_repeats(b, api, mask, size, repeat, dst_rep, src_rep)
        self._check_newton(api, dst, src, work, m, r, reps)
        left = work.bytes_left()
        start = work.offset // (SIZE["float32"] // size)
        for rep, row, once in self._rows(m, reps[1], size):
            ext = span_of(m, r, 0 if once else row, size)
            if left is not None and ext.__class__ is int and left < factor * ext * size:
                raise TikOverflowError(
                    f"{api}: work_tensor ({work.name}) is too small: elements needed {factor * ext}, elements given "
                    f"{left // size}",
                    user_location(),
                )
            parts = [start + k * ext for k in range(_PARTS)]
            self._emit_rows(dst, src, work, parts, m, r, (reps[0], rep, row), once, steps)
