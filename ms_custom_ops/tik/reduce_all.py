# SPDX-License-Identifier: Apache-2.0
"""Reductions of all repeats to one element: vec_reduce_add, vec_reduce_max, vec_reduce_min.

vec_reduce_add sums the repeats into ``work_tensor`` and these sums again until one is left, each pass a tree
of adjacent pairs. The chips chunk long inputs differently, so the last bit of their result may differ from
this order.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikOverflowError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr, as_expr, binary, cast, const
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
_WORD = 64  # lanes of a mask word
_EVEN = 0x5555555555555555
_LATER_LEVELS = 4  # passes behind the first: 65536 pairs become one


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
        if r.__class__ is not int or rep.__class__ is not int:
            self._reduce_extreme_later(op, dst, src, work, m, r, rep, size, lanes, with_index)
            return
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

    def _reduce_extreme_later(
        self,
        op: str,
        dst: Tensor,
        src: Tensor,
        work: Tensor,
        m: Mask,
        r: Any,
        rep: Any,
        size: int,
        lanes: int,
        with_index: bool,
    ) -> None:
        """The same passes over a number of repeats known only at run time: how many there are is decided then, and of
        none dst is left alone."""
        b = self._b
        loc = b.loc()

        def fixed(value: Any) -> Expr:
            register = b.temporary("int32")
            b.body.append(ir.Assign(register.value, cast(as_expr(value), "int32"), loc))
            return register

        def emit(at: Any, inp: Tensor, start: Any, mask: tuple, kind: int, times: Any, stride: Any) -> None:
            with self.for_range(0, binary("/", times + (MAX_REPEAT - 1), MAX_REPEAT)) as piece:  # type: ignore[attr-defined]
                first = binary("*", piece, const(MAX_REPEAT, "int64"))
                count = binary("min", binary("-", times, first), MAX_REPEAT)
                source = binary("/", binary("*", first, stride), size)
                refs = (_at(work, at + binary("*", first, 2)), _at(inp, start + source))
                b.body.append(ir.Instr(op, refs, (*mask, count, 2 * size, BLOCK_BYTES, stride), (kind, 0), loc))

        def later(levels: list[Any], pairs: Expr) -> None:
            if len(levels) > _LATER_LEVELS:  # more repeats than that have no room in a work tensor
                self._store_extreme(dst, work, levels, lanes, size, with_index, loc)
                return
            with self.if_scope(binary(">", pairs, 1)):  # type: ignore[attr-defined]
                block = BLOCK_BYTES // size
                start = fixed(levels[-1] + binary("/", pairs * 2 + (block - 1), block) * block)
                whole, tail = fixed(binary("/", pairs * 2, lanes)), fixed(binary("%", pairs * 2, lanes))
                even = (_EVEN, _EVEN if lanes > _WORD else 0)
                emit(start, work, levels[-1], even, MASK_BITS, whole, VECTOR_BYTES)
                with self.if_scope(binary(">", tail, 0)):  # type: ignore[attr-defined]
                    refs = (_at(work, start + whole * 2), _at(work, levels[-1] + whole * lanes))
                    args = (*_even_below(tail, lanes), 1, 2 * size, BLOCK_BYTES, VECTOR_BYTES)
                    b.body.append(ir.Instr(op, refs, args, (MASK_BITS, 0), loc))
                later([*levels, start], fixed(whole + binary("min", tail, 1)))
            with self.else_scope():  # type: ignore[attr-defined]
                self._store_extreme(dst, work, levels, lanes, size, with_index, loc)

        repeats = fixed(r)
        with self.if_scope(binary(">", repeats, 0)):  # type: ignore[attr-defined]
            emit(0, src, 0, (m.low, m.high), m.kind, repeats, rep)
            later([0], repeats)

    def _store_extreme(
        self, dst: Tensor, work: Tensor, levels: list[Any], lanes: int, size: int, with_index: bool, loc: int
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


def _even_below(tail: Expr, lanes: int) -> tuple[Any, Any]:
    """Mask words of the even lanes below ``tail``, an even number from 2 to ``lanes`` - 2."""
    even, wide = const(_EVEN, "uint64"), cast(tail, "uint64")
    if lanes <= _WORD:
        return binary(">>", even, binary("-", const(_WORD, "uint64"), wide)), 0
    low = binary(">>", even, binary("-", const(_WORD, "uint64"), binary("min", wide, const(_WORD, "uint64"))))
    beyond = binary("-", binary("max", wide, const(_WORD, "uint64")), const(_WORD, "uint64"))
    return low, binary(">>", binary(">>", even, binary("-", const(_WORD - 2, "uint64"), beyond)), const(2, "uint64"))


def _at(tensor: Tensor, elements: Any, dtype: str | None = None) -> ir.Ref:
    return ir.Ref(tensor.storage.buffer, dtype or tensor.dtype, tensor.offset + elements)
