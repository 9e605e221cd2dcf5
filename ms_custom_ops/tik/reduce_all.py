# SPDX-License-Identifier: Apache-2.0
"""Reductions of all repeats to one element: vec_reduce_add, vec_reduce_max, vec_reduce_min.

vec_reduce_add sums the repeats into ``work_tensor`` and these sums again until one is left, each pass a tree
of adjacent pairs. The chips chunk long inputs differently, so the last bit of their result may differ from
this order.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, TikOverflowError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import binary, cast, const
from ms_custom_ops.program.isa import BLOCK_BYTES, MASK_BITS, MASK_COUNT, MASK_COUNTER, VECTOR_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import (
    VECTOR_SCOPES,
    Mask,
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
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.tik.vector import MAX_REPEAT
from ms_custom_ops.where import user_location

_HALF = 65535
_RAW = {2: "uint16", 4: "uint32"}
_MAX_INDEXED = {"float16": 511, "float32": 4095, "int16": 255}
_MAX_REDUCE = 4095


class ReduceAllMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def _reduce_operands(
        self, api: str, op: str, mask: Any, dst: Any, src: Any, work: Any, repeat: Any, src_rep: Any, top: dict | None
    ) -> tuple:
        b = self._b
        dst, src, work = (as_tensor(t, api, n) for t, n in ((dst, "dst"), (src, "src"), (work, "work_tensor")))
        for t, n in ((src, "src"), (work, "work_tensor")):
            check_same_dtype(b, api, dst, t, n)
        require(b, api, op, SHORT[dst.dtype], dst.dtype)
        size = SIZE[dst.dtype]
        lanes = VECTOR_BYTES // size
        m = mask_of(mask, lanes, api)
        limit = _MAX_REDUCE if top is None else top[dst.dtype]
        r = ranged(repeat, api, "repeat_times", 1, limit)
        rep = ranged(src_rep, api, "src_rep_stride", 0, _HALF)
        known = r.__class__ is int and rep.__class__ is int
        if not known and op != "vcadd":
            raise b.fail(TikError, api, "repeat_times and src_rep_stride", "known only at run time", "Python ints")
        for t, n in ((dst, "dst"), (src, "src"), (work, "work_tensor")):
            check_scope(b, t, api, n, VECTOR_SCOPES)
            check_start(t, api, n, size if n == "dst" and b.family not in ("310", "910A") else None)
        if m.lanes is not None and known:
            check_extent(src, vector_need(m.lanes, r, BLOCK_BYTES, rep * BLOCK_BYTES, size), api, "src")
        return dst, src, work, m, r, rep * BLOCK_BYTES, size, lanes

    def vec_reduce_add(self, mask, dst, src, work_tensor, repeat_times, src_rep_stride):
        """dst[0] = sum of all selected lanes; work_tensor holds at least repeat_times elements."""
        b = self._b
        if b.dead:
            return
        api = "vec_reduce_add"
        dst, src, work, m, r, rep, size, lanes = self._reduce_operands(
            api, "vcadd", mask, dst, src, work_tensor, repeat_times, src_rep_stride, None
        )
        loc = b.loc()
        if r.__class__ is not int or rep.__class__ is not int:
            self._reduce_add_later(dst, src, work, m, r, rep, size, lanes, loc)
            return
        self._check_work(api, work, r * size)

        def emit(
            out: Tensor, at: int, inp: Tensor, start: int, kind: int, low: Any, high: Any, times: int, stride: int
        ) -> None:
            for first in range(0, times, MAX_REPEAT):
                n = min(MAX_REPEAT, times - first)
                refs = (_at(out, at + first), _at(inp, start + first * stride // size))
                b.body.append(ir.Instr("vcadd", refs, (low, high, n, size, BLOCK_BYTES, stride), (kind,), loc))

        if r == 1:
            emit(dst, 0, src, 0, m.kind, m.low, m.high, 1, rep)
            return
        emit(work, 0, src, 0, m.kind, m.low, m.high, r, rep)
        left = r
        while left > lanes:
            whole, tail = divmod(left, lanes)
            emit(work, 0, work, 0, MASK_COUNT, lanes, 0, whole, VECTOR_BYTES)
            if tail:
                emit(work, whole, work, whole * lanes, MASK_COUNT, tail, 0, 1, VECTOR_BYTES)
            left = whole + bool(tail)
        emit(dst, 0, work, 0, MASK_COUNT, left, 0, 1, VECTOR_BYTES)

    def _reduce_add_later(
        self, dst: Tensor, src: Tensor, work: Tensor, m: Mask, r: Any, rep: Any, size: int, lanes: int, loc: int
    ) -> None:
        """vec_reduce_add of a number of repeats known only at run time: at most lanes * lanes of them, so that two
        passes over their sums leave one."""
        b = self._b
        pieces = -(-r // MAX_REPEAT) if r.__class__ is int else binary("/", r + (MAX_REPEAT - 1), MAX_REPEAT)
        with self.for_range(0, pieces) as piece:  # type: ignore[attr-defined]
            first = binary("*", piece, const(MAX_REPEAT, "int64"))
            times = binary("min", binary("-", r, first), MAX_REPEAT)
            source = binary("/", binary("*", first, rep), size)
            b.body.append(
                ir.Instr(
                    "vcadd",
                    (_at(work, first), _at(src, source)),
                    (m.low, m.high, times, size, BLOCK_BYTES, rep),
                    (m.kind,),
                    loc,
                )
            )
        count: Any = r
        for out in (work, dst):
            args = (count, 0, 0, size, BLOCK_BYTES, VECTOR_BYTES)
            b.body.append(ir.Instr("vcadd", (_at(out, 0), _at(work, 0)), args, (MASK_COUNTER,), loc))
            count = -(-r // lanes) if r.__class__ is int else binary("/", r + (lanes - 1), lanes)

    def vec_reduce_max(self, mask, dst, src, work_tensor, repeat_times, src_rep_stride, cal_index=False):
        """dst[0] = maximum of all selected lanes; with cal_index dst[1] = its index (repeat * lanes + lane)
        as bits."""
        self._reduce_extreme(
            "vec_reduce_max", "vcmax", mask, dst, src, work_tensor, repeat_times, src_rep_stride, cal_index
        )

    def vec_reduce_min(self, mask, dst, src, work_tensor, repeat_times, src_rep_stride, cal_index=False):
        """dst[0] = minimum of all selected lanes; with cal_index dst[1] = its index (repeat * lanes + lane)
        as bits."""
        self._reduce_extreme(
            "vec_reduce_min", "vcmin", mask, dst, src, work_tensor, repeat_times, src_rep_stride, cal_index
        )

    def _reduce_extreme(
        self, api: str, op: str, mask: Any, dst: Any, src: Any, work: Any, repeat: Any, src_rep: Any, cal_index: Any
    ) -> None:
        b = self._b
        if b.dead:
            return
        with_index = flag(cal_index, api, "cal_index")
        dst, src, work, m, r, rep, size, lanes = self._reduce_operands(
            api, op, mask, dst, src, work, repeat, src_rep, _MAX_INDEXED if with_index else None
        )
        check_extent(dst, (2 if with_index else 1) * size, api, "dst")
        levels = [0]  # start of each pass in work_tensor, in elements
        pairs = [r]
        while pairs[-1] > 1:
            levels.append(levels[-1] + -(-2 * pairs[-1] * size // BLOCK_BYTES) * BLOCK_BYTES // size)
            pairs.append(-(-2 * pairs[-1] // lanes))
        self._check_work(api, work, (levels[-1] + 2 * pairs[-1]) * size)
        loc = b.loc()

        def emit(at: int, inp: Tensor, start: int, kind: int, low: Any, high: Any, times: int, stride: int) -> None:
            for first in range(0, times, MAX_REPEAT):
                n = min(MAX_REPEAT, times - first)
                refs = (_at(work, at + 2 * first), _at(inp, start + first * stride // size))
                b.body.append(ir.Instr(op, refs, (low, high, n, 2 * size, BLOCK_BYTES, stride), (kind, 0), loc))

        emit(0, src, 0, m.kind, m.low, m.high, r, rep)
        for level in range(1, len(levels)):
            elements = 2 * pairs[level - 1]
            whole, tail = divmod(elements, lanes)
            even = sum(1 << k for k in range(0, lanes, 2))
            for times, at, start, bits in (
                (whole, 0, 0, even),
                (bool(tail), 2 * whole, whole * lanes, even & ((1 << tail) - 1)),
            ):
                if times:
                    emit(
                        levels[level] + at,
                        work,
                        levels[level - 1] + start,
                        MASK_BITS,
                        bits & (2**64 - 1),
                        bits >> 64,
                        int(times),
                        VECTOR_BYTES,
                    )
        self._store_extreme(dst, work, levels, lanes, size, with_index, loc)

    def _store_extreme(
        self, dst: Tensor, work: Tensor, levels: list[int], lanes: int, size: int, with_index: bool, loc: int
    ) -> None:
        """Copy the value out and follow the lane numbers back through the passes to the index."""
        b = self._b
        raw = _RAW[size]
        value = b.temporary(raw)
        top = levels[-1]
        b.body.append(ir.Load(value.value, _at(work, top, raw), loc))
        lane = b.temporary(raw)
        if with_index:
            b.body.append(ir.Load(lane.value, _at(work, top + 1, raw), loc))
            group: Any = const(0, "int32")
            for level in range(len(levels) - 1, 0, -1):
                # A lane of a later pass numbers an element of the earlier one: pair number = element / 2.
                element = binary("+", binary("*", group, lanes), cast(lane, "int32"))
                pair = b.temporary("int32")
                b.body.append(ir.Assign(pair.value, binary("/", element, 2), loc))
                offset = binary("+", binary("*", pair, 2), levels[level - 1] + 1)
                b.body.append(ir.Load(lane.value, ir.Ref(work.storage.buffer, raw, work.offset + offset), loc))
                group = pair
            index = binary("+", binary("*", group, lanes), cast(lane, "int32"))
            b.body.append(ir.Assign(lane.value, cast(index, raw), loc))
        b.body.append(ir.Store(_at(dst, 0, raw), value, loc))
        if with_index:
            b.body.append(ir.Store(_at(dst, 1, raw), lane, loc))

    def _check_work(self, api: str, work: Tensor, need: int) -> None:
        left = work.bytes_left()
        if left is not None and left < need:
            size = SIZE[work.dtype]
            raise TikOverflowError(
                f"{api}: work_tensor ({work.name}) is too small: elements needed {need // size}, "
                f"elements given {left // size}",
                user_location(),
            )


def _at(tensor: Tensor, elements: Any, dtype: str | None = None) -> ir.Ref:
    return ir.Ref(tensor.storage.buffer, dtype or tensor.dtype, tensor.offset + elements)
