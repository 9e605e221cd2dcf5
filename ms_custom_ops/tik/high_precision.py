# SPDX-License-Identifier: Apache-2.0
"""vec_rec_high_preci and vec_rsqrt_high_preci: Newton steps in float32 on top of the chip's approximations.

1/x: ``y = vrec(x)``, then twice ``y = y * (2 - x * y)``. 1/sqrt(x): 1/vsqrt(x) by those steps; on Ascend310, which
has no vsqrt, ``y = vrsqrt(x)``, then twice ``y = (y + 1 / (x * y)) / 2``. A float16 source is converted to float32 in
two halves of its lanes and the result back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

from ms_custom_ops.errors import TikError, TikOverflowError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import binary, cast, const
from ms_custom_ops.program.isa import BLOCK_BYTES, MASK_BITS, MASK_COUNT, VECTOR_BYTES
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
    mask_of,
    ranged,
    vector_need,
)
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.tik.vector import MAX_REPEAT
from ms_custom_ops.where import user_location

_NEWTON_STEPS = 2
_WORD = (1 << 64) - 1
# Parts of the size of src that work_tensor must hold.
_REC_PARTS = {"float32": 2, "float16": 4}
_RSQRT_PARTS = {"float32": 3, "float16": 5}
_RSQRT_PARTS_310 = {"float32": 4, "float16": 6}
_SINGLE = SIZE["float32"]


class _Vector(NamedTuple):
    """An operand: start in elements and the distance of repeats in bytes."""

    buffer: ir.Buffer
    dtype: str
    offset: Any
    rep: Any


class _Half(NamedTuple):
    """Lanes that one float32 instruction covers: canonical mask and first lane. ``when``: the condition of there being
    any, where that is known only at run time."""

    kind: int
    low: Any
    high: Any
    lane: int
    when: Any = None


def _halves(mask: Mask, dtype: str) -> list[_Half]:
    """float32 instructions of 64 lanes that cover a mask of ``dtype``."""
    lanes = VECTOR_BYTES // _SINGLE
    if dtype == "float32":
        return [_Half(mask.kind, mask.low, mask.high, 0)]
    if mask.lanes is None and mask.kind == MASK_BITS:
        words = ((0, mask.low), (lanes, mask.high))
        known = [(k, w, w.__class__ is int) for k, w in words]
        return [
            _Half(MASK_BITS, w, 0, k, None if here else binary("!=", w, 0)) for k, w, here in known if not here or w
        ]
    if mask.lanes is None:
        rest = binary("max", binary("-", mask.low, lanes), 0)
        return [
            _Half(MASK_COUNT, binary("min", mask.low, lanes), 0, 0),
            _Half(MASK_COUNT, rest, 0, lanes, binary(">", mask.low, lanes)),
        ]
    if mask.kind == MASK_BITS:
        return [_Half(MASK_BITS, word, 0, k * lanes) for k, word in enumerate((mask.low, mask.high)) if word]
    return [_Half(MASK_COUNT, min(mask.low - k, lanes), 0, k) for k in (0, lanes) if mask.low > k]


class _Steps:
    """Emits float32 instructions over the repeats of a call."""

    def __init__(self, b: Builder, half: _Half, repeat: Any, loc: int):
        self._b = b
        self._half = half
        self.repeat = repeat
        self._loc = loc

    def emit(self, op: str, *operands: _Vector, scalar: float | None = None) -> None:
        """One instruction, destination first."""
        half = self._half
        refs = tuple(ir.Ref(v.buffer, v.dtype, v.offset + half.lane) for v in operands)
        strides = tuple(x for v in operands for x in (BLOCK_BYTES, v.rep))
        middle = () if scalar is None else (const(scalar, "float16" if op == "vconv" else "float32"),)
        attrs = (half.kind, 0, 0) if op == "vconv" else (half.kind,)
        self._b.body.append(ir.Instr(op, refs, (half.low, half.high, self.repeat, *middle, *strides), attrs, self._loc))

    def reciprocal(self, dst: _Vector, x: _Vector, y: _Vector, t: _Vector) -> None:
        """dst = 1/x; y and t are scratch, dst may be y."""
        self.emit("vrec", y, x)
        for step in range(_NEWTON_STEPS):
            self.emit("vmul", t, x, y)
            self.emit("vmuls", t, t, scalar=-1.0)
            self.emit("vadds", t, t, scalar=2.0)
            self.emit("vmul", dst if step == _NEWTON_STEPS - 1 else y, y, t)


def _emit_half(run: _Steps, spread: _Steps, target: _Vector, source: _Vector, parts: list[_Vector], steps: Any) -> None:
    """The steps of 64 lanes: ``run`` has the repeats of src, ``spread`` those of dst."""
    known = run.repeat.__class__ is int and spread.repeat.__class__ is int
    once = run.repeat != spread.repeat if known else run.repeat is not spread.repeat
    if source.dtype == "float32" and not once:
        steps(run, target, source, parts)
        return
    if source.dtype == "float16":
        run.emit("vconv", parts[0], source, scalar=0.0)
        source, result, parts = parts[0], parts[-1], parts[1:]
    else:
        result = parts[0]
    steps(run, result, source, parts)
    result = result._replace(rep=0) if once else result
    if target.dtype == "float16":
        spread.emit("vconv", target, result, scalar=0.0)
    else:
        spread.emit("vmuls", target, result, scalar=1.0)


def newton_repeats(
    b: Builder, api: str, mask: Any, size: int, repeat: Any, dst_rep: Any, src_rep: Any
) -> tuple[Mask, Any, list[Any]]:
    """Mask, repeats and repeat strides of dst and src for elements of ``size`` bytes. All may be known only at run
    time; TikError unless the repeats of src lie apart, as far as that is known."""
    m = mask_of(mask, VECTOR_BYTES // size, api)
    r = ranged(repeat, api, "repeat_times", 1, MAX_REPEAT)
    reps = [ranged(v, api, n, 0, 255) for v, n in ((dst_rep, "dst_rep_stride"), (src_rep, "src_rep_stride"))]
    blocks = VECTOR_BYTES // BLOCK_BYTES if m.lanes is None else -(-m.lanes * size // BLOCK_BYTES)
    if reps[1].__class__ is int and 0 < reps[1] < blocks and (r.__class__ is not int or r > 1):
        raise b.fail(TikError, api, "src_rep_stride", reps[1], f"0, {blocks}..255 (repeats of src that are apart)")
    return m, r, reps


def span_of(m: Mask, r: Any, rep: Any, size: int) -> Any:
    """Elements of the whole blocks that a source spans with ``r`` repeats ``rep`` blocks apart; an expression of what
    is known only at run time."""
    rep, repeats = (x if x.__class__ is int else cast(x, "int64") for x in (rep, r))
    return ((repeats - 1) * rep + _blocks(m, size)) * (BLOCK_BYTES // size)


def _blocks(m: Mask, size: int) -> Any:
    """Blocks of a repeat that hold selected lanes."""
    if m.lanes is None and m.kind == MASK_BITS:
        return VECTOR_BYTES // BLOCK_BYTES
    lanes, per_block = cast(m.low, "int64") if m.lanes is None else m.lanes, BLOCK_BYTES // size
    return (lanes + per_block - 1) // per_block


class HighPrecisionMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def vec_rec_high_preci(self, mask, dst, src, work_tensor, repeat_times, dst_rep_stride, src_rep_stride):
        """dst = 1/src. work_tensor: float32, 2 (float32) or 4 (float16) times the span of src in elements."""

        def steps(run: _Steps, dst: _Vector, x: _Vector, parts: list[_Vector]) -> None:
            run.reciprocal(dst, x, parts[0], parts[1])

        self._newton(
            "vec_rec_high_preci",
            mask,
            dst,
            src,
            work_tensor,
            repeat_times,
            dst_rep_stride,
            src_rep_stride,
            _REC_PARTS,
            steps,
        )

    def vec_rsqrt_high_preci(self, mask, dst, src, work_tensor, repeat_times, dst_rep_stride, src_rep_stride):
        """dst = 1/sqrt(src). work_tensor: float32, 3 (float32) or 5 (float16) times the span of src in elements; one
        more on Ascend310."""
        small = self._b.family == "310"

        def steps(run: _Steps, dst: _Vector, x: _Vector, parts: list[_Vector]) -> None:
            first, second, third = parts[:3]
            if not small:
                run.emit("vsqrt", first, x)
                run.reciprocal(dst, first, second, third)
                return
            run.emit("vrsqrt", first, x)
            for step in range(_NEWTON_STEPS):
                run.emit("vmul", second, x, first)
                run.reciprocal(third, second, third, parts[3])
                run.emit("vadd", first, first, third)
                run.emit("vmuls", dst if step == _NEWTON_STEPS - 1 else first, first, scalar=0.5)

        self._newton(
            "vec_rsqrt_high_preci",
            mask,
            dst,
            src,
            work_tensor,
            repeat_times,
            dst_rep_stride,
            src_rep_stride,
            _RSQRT_PARTS_310 if small else _RSQRT_PARTS,
            steps,
        )

    def _newton(
        self,
        api: str,
        mask: Any,
        dst: Any,
        src: Any,
        work: Any,
        repeat: Any,
        dst_rep: Any,
        src_rep: Any,
        factors: dict[str, int],
        steps: Any,
    ) -> None:
        b = self._b
        if b.dead:
            return
        dst, src, work = (as_tensor(x, api, n) for x, n in ((dst, "dst"), (src, "src"), (work, "work_tensor")))
        check_same_dtype(b, api, dst, src)
        require(b, api, api, SHORT[src.dtype], src.dtype)
        if work.dtype != "float32":
            raise b.fail(TikError, api, "dtype of work_tensor", work.dtype, "float32")
        size = SIZE[src.dtype]
        m, r, reps = newton_repeats(b, api, mask, size, repeat, dst_rep, src_rep)
        self._check_newton(api, dst, src, work, m, r, reps)
        for rep, row, once in self._rows(m, reps[1], size):
            ext = span_of(m, r, 0 if once else row, size)
            self._check_newton_work(api, work, factors[src.dtype] * ext)
            parts = [(work.offset + k * ext) for k in range(factors[src.dtype])]
            self._emit_rows(dst, src, work, parts, m, r, (reps[0], rep, row), once, steps)

    def _rows(self, m: Mask, rep: Any, size: int) -> Iterator[tuple[Any, Any, bool]]:
        """Repeat stride of src, distance of the rows of scratch (both in blocks of src), and whether src repeats one
        row: then the steps run on that row once. A stride known only at run time gives both ways, each in its
        branch."""
        if rep.__class__ is int:
            yield rep, rep or VECTOR_BYTES // BLOCK_BYTES, not rep
            return
        with self.if_scope(binary("==", rep, 0)):  # type: ignore[attr-defined]
            yield 0, VECTOR_BYTES // BLOCK_BYTES, True
        with self.else_scope():  # type: ignore[attr-defined]
            yield rep, binary("max", rep, _blocks(m, size)), False

    def _emit_rows(
        self,
        dst: Tensor,
        src: Tensor,
        work: Tensor,
        starts: list[Any],
        m: Mask,
        r: Any,
        strides: tuple[Any, Any, Any],
        once: bool,
        steps: Any,
    ) -> None:
        """The instructions of each half of the lanes. ``starts``: of the parts of scratch, in elements of float32;
        ``strides``: of the repeats of dst and src and of the rows of scratch."""
        b = self._b
        apart = strides[2] * (BLOCK_BYTES * _SINGLE // SIZE[src.dtype])
        parts = [_Vector(work.storage.buffer, "float32", start, apart) for start in starts]
        target, source = (
            _Vector(t.storage.buffer, t.dtype, t.offset, stride * BLOCK_BYTES)
            for t, stride in zip((dst, src), strides[:2], strict=True)
        )
        loc = b.loc()
        for half in _halves(m, src.dtype):
            there = nullcontext() if half.when is None else self.if_scope(half.when)  # type: ignore[attr-defined]
            with there:
                run, spread = (_Steps(b, half, n, loc) for n in (1 if once else r, r))
                _emit_half(run, spread, target, source, parts, steps)

    def _check_newton(self, api: str, dst: Tensor, src: Tensor, work: Tensor, m: Mask, r: Any, reps: list[Any]) -> None:
        """Of lanes and repeats that are known only at run time one counts here; the engine sees the rest."""
        size, lanes, r = SIZE[src.dtype], m.lanes or 1, r if r.__class__ is int else 1
        reps = [v if v.__class__ is int else 0 for v in reps]
        need = vector_need(lanes, r, BLOCK_BYTES, reps[1] * BLOCK_BYTES, size)
        for t, name in ((dst, "dst"), (src, "src"), (work, "work_tensor")):
            check_scope(self._b, t, api, name, VECTOR_SCOPES)
            check_start(t, api, name)
        check_extent(src, need, api, "src")
        written = vector_need(lanes, r, BLOCK_BYTES, reps[0] * BLOCK_BYTES, size)
        check_extent(dst, written, api, "dst")
        spans = [(dst, "dst", written), (src, "src", need), (work, "work_tensor", work.bytes_left())]
        for k, (t, name, length) in enumerate(spans):
            for other, other_name, other_length in spans[k + 1 :]:
                self._check_newton_apart(api, t, name, length, other, other_name, other_length)

    def _check_newton_apart(
        self, api: str, t: Tensor, name: str, length: Any, other: Tensor, other_name: str, other_length: Any
    ) -> None:
        if t.storage is not other.storage or None in (length, other_length):
            return
        first, second = (x.offset * SIZE[x.dtype] if x.offset.__class__ is int else None for x in (t, other))
        if first is None or second is None:
            return
        if first < second + other_length and second < first + length:
            raise self._b.fail(
                TikError,
                api,
                f"bytes of {name} in tensor {t.name}",
                f"{first}..{first + length - 1}",
                f"bytes apart from {other_name}, {second}..{second + other_length - 1}",
            )

    def _check_newton_work(self, api: str, work: Tensor, need: Any) -> None:
        left = work.bytes_left()
        if left is not None and need.__class__ is int and left < need * _SINGLE:
            raise TikOverflowError(
                f"{api}: work_tensor ({work.name}) is too small: elements needed {need}, elements "
                f"given {left // _SINGLE}",
                user_location(),
            )
