# SPDX-License-Identifier: Apache-2.0
"""h_ reductions: sum, maximum, minimum and their places, over all dimensions or some.

Sums: 8192 contiguous elements at a time as a tree of adjacent pairs (256 bytes, then the sums of these), the pieces
added in order; over outer dimensions in order. Places: the first element that no later one is beyond; NaN in front
stays, a later NaN never wins. Which of NaN and a number a maximum or minimum gives is not promised.
"""

from __future__ import annotations

import contextlib
from typing import Any

from ms_custom_ops.errors import TikError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, FLOATS, INT_RANGE, SIZE
from ms_custom_ops.program.expr import binary, cast, const
from ms_custom_ops.program.isa import BLOCK_BYTES, MASK_COUNTER, VECTOR_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.h_views import HBase, Run, check_h_scope, operand, work_of
from ms_custom_ops.tik.tensor import Tensor

PIECE = 8192
_INFINITY = float("inf")
# Work space in elements of 4 bytes: accumulator, then two areas that the passes write in turn.
_ACCUMULATOR, _AREAS = 32, (64, 64 + PIECE // 8 + 32)
_OPS = {
    "sum": ("vcadd", "vcadd", "vadd", 0.0),
    "max": ("vcmax", "vcgmax", "vmax", -_INFINITY),
    "min": ("vcmin", "vcgmin", "vmin", _INFINITY),
}


class HReduceMixin(HBase):
    """``Tik`` methods of this module."""

    def h_reduce_sum(self, dst, src, axis=None):
        """Sum over ``axis`` (a number, a list, or None for all: then dst is a Scalar)."""
        self._h_reduce("h_reduce_sum", "sum", dst, src, axis)

    def h_reduce_max(self, dst, src, axis=None):
        """Maximum over ``axis``."""
        self._h_reduce("h_reduce_max", "max", dst, src, axis)

    def h_reduce_min(self, dst, src, axis=None):
        """Minimum over ``axis``."""
        self._h_reduce("h_reduce_min", "min", dst, src, axis)

    def h_reduce_argmax(self, dst, src, axis=None):
        """Place of the maximum along one axis, or in the flattened src (dst is then a Scalar)."""
        self._h_place("h_reduce_argmax", "vcmax", ">", dst, src, axis)

    def h_reduce_argmin(self, dst, src, axis=None):
        """Place of the minimum along one axis, or in the flattened src (dst is then a Scalar)."""
        self._h_place("h_reduce_argmin", "vcmin", "<", dst, src, axis)

    def _h_axes(self, api: str, dst: Any, src: Tensor, axis: Any) -> tuple[list[int], list[int]]:
        """Reduced and kept dimensions; dst is checked against the kept ones."""
        b = self._b
        rank = len(src.shape)
        items = list(range(rank)) if axis is None else list(axis) if isinstance(axis, (list, tuple)) else [axis]
        for a in items:
            if a.__class__ is not int or not -rank <= a < rank:
                raise b.fail(TikError, api, "axis", axis, f"numbers in {-rank}..{rank - 1}")
        reduced = sorted({a % rank for a in items})
        kept = [k for k in range(rank) if k not in reduced]
        if not isinstance(dst, Tensor):
            if kept or not hasattr(dst, "set_as"):
                raise b.fail(TikError, api, "dst", type(dst).__name__, "a Tensor" if kept else "a Scalar or a Tensor")
            return reduced, kept
        want = [src.shape[k] for k in kept] or [1]
        have = [n for n in dst.shape if not (n.__class__ is int and n == 1)]
        need = [n for n in want if not (n.__class__ is int and n == 1)]
        static = all(n.__class__ is int for n in (*have, *need))
        if static and have != need or len(have) != len(need):
            raise b.fail(TikError, api, "shape of dst", list(dst.shape), f"{want}, the shape without axis {axis}")
        return reduced, kept

    def _h_reduce(self, api: str, kind: str, dst: Any, src: Any, axis: Any) -> None:
        b = self._b
        if b.dead:
            return
        check_h_scope(b, api)
        src = operand(b, api, "src", src)
        reduced, kept = self._h_axes(api, dst, src, axis)
        require(b, api, _OPS[kind][0], SHORT[src.dtype], src.dtype)
        if dst.dtype != src.dtype:
            raise b.fail(TikError, api, "dtype of dst", dst.dtype, f"dtype of src, {src.dtype}")
        if isinstance(dst, Tensor):
            dst = operand(b, api, "dst", dst)
        work_of(b, api)
        if kept and kept[-1] == len(src.shape) - 1 and src.strides[-1] == 1:
            self._h_fold(kind, dst, src, reduced, kept)
        else:
            self._h_rows(api, kind, dst, src, reduced, kept)

    def _h_fold(self, kind: str, dst: Tensor, src: Tensor, reduced: list[int], kept: list[int]) -> None:
        """Reduction over outer dimensions: rows are combined element by element in dst."""
        combine, start = _OPS[kind][2], _start(kind, src.dtype)
        target = _kept_view(dst, src, kept)
        self._elementwise("vector_dup", [target], [], (const(start, src.dtype),))
        with contextlib.ExitStack() as stack:
            offset = src.offset
            for k in reduced:
                offset = offset + stack.enter_context(self.for_range(0, src.shape[k])) * src.strides[k]
            row = _view(src, kept, offset)
            self._elementwise(combine, [target, row, target], [])

    def _h_rows(self, api: str, kind: str, dst: Any, src: Tensor, reduced: list[int], kept: list[int]) -> None:
        """Reduction of the elements of each kept place, run after run."""
        combine, start = _OPS[kind][2], _start(kind, src.dtype)
        total = self._h_work_run(api, src.dtype, _ACCUMULATOR)
        with contextlib.ExitStack() as stack:
            offset = src.offset
            place = dst.offset if isinstance(dst, Tensor) else 0
            target = _kept_view(dst, src, kept) if isinstance(dst, Tensor) else None
            for n, k in enumerate(kept):
                i = stack.enter_context(self.for_range(0, src.shape[k]))
                offset = offset + i * src.strides[k]
                place = place + i * target.strides[n] if target is not None else place
            self._fill(total, const(start, src.dtype), 1)

            def piece(runs: list[Run], count: Any) -> None:
                def one(first: Any, n: Any) -> None:
                    result = self._h_tree(api, kind, runs[0].moved(first), n, count)
                    self._emit_run(combine, [total, result, total], 1)

                self._tiles(count, one, PIECE)

            self._over([_view(src, reduced, offset)], piece)
            if isinstance(dst, Tensor):
                self._emit_run("vcopy", [Run(dst.storage.buffer, dst.dtype, place, 0), total], 1)
            else:
                value = self._b.temporary(src.dtype)
                self._b.body.append(ir.Load(value.value, ir.Ref(total.buffer, src.dtype, total.offset), self._b.loc()))
                dst.set_as(value)

    def _h_work_run(self, api: str, dtype: str, first: int) -> Run:
        return Run(work_of(self._b, api).buffer, dtype, first * 4 // SIZE[dtype], 0)

    def _h_tree(self, api: str, kind: str, x: Run, count: Any, whole: Any) -> Run:
        """One element: ``count`` contiguous ones reduced in passes."""
        size = SIZE[x.dtype]
        whole_pass = kind == "sum"
        op, share = ("vcadd", VECTOR_BYTES // size) if whole_pass else (_OPS[kind][1], BLOCK_BYTES // size)
        unit = size if whole_pass else VECTOR_BYTES // BLOCK_BYTES * size
        left = min(whole, PIECE) if whole.__class__ is int else PIECE  # most elements a pass can have
        area = 0
        while True:
            out = self._h_work_run(api, x.dtype, _AREAS[area])
            self._instr(op, [out, x], (count, 0, 0, unit, BLOCK_BYTES, VECTOR_BYTES), (MASK_COUNTER,))
            count = -(-count // share) if count.__class__ is int else binary("/", count + (share - 1), share)
            left = -(-left // share)
            x, area = out, 1 - area
            if left == 1:
                return out

    # ---- places ----
    def _h_place(self, api: str, instruction: str, beyond: str, dst: Any, src: Any, axis: Any) -> None:
        b = self._b
        if b.dead:
            return
        check_h_scope(b, api)
        src = operand(b, api, "src", src)
        reduced, kept = self._h_axes(api, dst, src, axis)
        require(b, api, instruction, SHORT[src.dtype], src.dtype)
        if DTYPES[dst.dtype].kind not in "iu":
            raise b.fail(TikError, api, "dtype of dst", dst.dtype, "integer dtypes")
        if axis is not None and len(reduced) != 1:
            raise b.fail(TikError, api, "axis", axis, "one dimension, or None")
        work_of(b, api)
        target = _kept_view(dst, src, kept) if isinstance(dst, Tensor) else None
        best, value = b.temporary(src.dtype), b.temporary(src.dtype)
        where, number = b.temporary("int32"), b.temporary("int32")
        with contextlib.ExitStack() as stack:
            offset, place = src.offset, dst.offset if target is not None else 0
            for n, k in enumerate(kept):
                i = stack.enter_context(self.for_range(0, src.shape[k]))
                offset = offset + i * src.strides[k]
                place = place + i * target.strides[n] if target is not None else place
            loc = b.loc()
            b.body += [
                ir.Load(best.value, ir.Ref(src.storage.buffer, src.dtype, offset), loc),
                ir.Assign(where.value, const(0, "int32"), loc),
                ir.Assign(number.value, const(0, "int32"), loc),
            ]
            with contextlib.ExitStack() as inner:
                at = offset
                for k in reduced:
                    at = at + inner.enter_context(self.for_range(0, src.shape[k])) * src.strides[k]
                b.body.append(ir.Load(value.value, ir.Ref(src.storage.buffer, src.dtype, at), loc))
                won = [ir.Assign(best.value, value, loc), ir.Assign(where.value, number, loc)]
                b.body.append(ir.If(binary(beyond, value, best), won, [], loc))
                b.body.append(ir.Assign(number.value, number + 1, loc))
            if target is not None:
                b.body.append(ir.Store(ir.Ref(dst.storage.buffer, dst.dtype, place), cast(where, dst.dtype), loc))
            else:
                dst.set_as(where)


def _start(kind: str, dtype: str) -> int | float:
    """What a combination begins with."""
    start = _OPS[kind][3]
    return start if dtype in FLOATS or not start else INT_RANGE[dtype][start > 0]


def _view(t: Tensor, dims: list[int], offset: Any) -> Tensor:
    """Some dimensions of a view, from an offset on."""
    shape = tuple(t.shape[k] for k in dims) or (1,)
    strides = tuple(t.strides[k] for k in dims) or (1,)
    return Tensor(t.storage, t.dtype, shape, strides, offset, t.total)


def _kept_view(dst: Tensor, src: Tensor, kept: list[int]) -> Tensor:
    """dst with one dimension for each kept dimension of src (dimensions of length 1 may be written or left out)."""

    def one(n: Any) -> bool:
        return n.__class__ is int and n == 1

    strides = [s for n, s in zip(dst.shape, dst.strides, strict=True) if not one(n)]
    shape = tuple(src.shape[k] for k in kept) or (1,)
    spread = tuple(1 if one(n) else strides.pop(0) for n in shape)
    return Tensor(dst.storage, dst.dtype, shape, spread, dst.offset, dst.total)
