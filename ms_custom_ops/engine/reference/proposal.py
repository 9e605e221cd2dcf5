# SPDX-License-Identifier: Apache-2.0
"""Proposals (boxes of 8 elements x1 y1 x2 y2 score label - -): fields, areas, intersections, suppression."""

from __future__ import annotations

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.gather import BLOCKS
from ms_custom_ops.engine.reference.memory import Operand
from ms_custom_ops.engine.reference.numbers import narrow, widen
from ms_custom_ops.engine.reference.sort import GROUP, PROPOSAL, SCORES
from ms_custom_ops.program.isa import BLOCK_BYTES

_KEPT = 4
_CORNERS = 4
X1, Y1, X2, Y2 = range(4)


def _elements(operand: Operand, first: int, count: int) -> np.ndarray:
    """``count`` consecutive elements from element ``first`` on, as a writable array."""
    return operand.view(first * operand.size, count * operand.size).view(operand.numpy)


def _checked(call: Call, *counts: tuple[str, int]) -> None:
    """Elements that each operand needs, sources first."""
    for name, count in counts:
        call[name].check(0, count * call[name].size)


@instruction("vconcat", "vextract")
def field(call: Call) -> None:
    """One field of 16 proposals per repeat, written or read."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need_dtype(dst, SCORES)
    call.need_same_dtype(dst, src)
    at, repeat = call.ranged("field"), int(call.args["repeat"])
    count = repeat * GROUP
    packing = call.op == "vconcat"
    wide = count * PROPOSAL - (PROPOSAL - 1 - at) if count else 0
    _checked(call, ("src", count if packing else wide), ("dst", wide if packing else count))
    for r in range(repeat):
        for i in range(GROUP) if packing else ():
            n = r * GROUP + i
            _elements(dst, n * PROPOSAL + at, 1)[:] = _elements(src, n, 1)
        if not packing:
            places = (r * GROUP + np.arange(GROUP)) * PROPOSAL + at
            _elements(dst, r * GROUP, GROUP)[:] = src.load(src.positions(places * src.size)).copy()


class _Boxes:
    """Coordinates of 16 proposals, widened, and their arithmetic rounded to the dtype."""

    def __init__(self, call: Call, operand: Operand, first: int):
        self._call, self._dtype = call, operand.dtype
        elements = (first + np.arange(GROUP)[:, None]) * PROPOSAL + np.arange(_CORNERS)
        corners = operand.load(operand.positions(elements * operand.size)).copy()
        self.field = widen(corners, operand.dtype).T


def _rounded(call: Call, x: np.ndarray, dtype: str) -> np.ndarray:
    return widen(narrow(x, dtype, call.saturate), dtype)


@instruction("vrpac")
def vrpac(call: Call) -> None:
    """Areas of 16 proposals per repeat."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need_dtype(dst, SCORES)
    call.need_same_dtype(dst, src)
    repeat, kind = int(call.args["repeat"]), src.dtype
    extra = widen(call.value("scalar", src), kind)
    _checked(call, ("src", repeat * GROUP * PROPOSAL), ("dst", repeat * GROUP))
    for r in range(repeat):
        box = _Boxes(call, src, r * GROUP).field
        sides = [_rounded(call, _rounded(call, box[b] - box[a], kind) + extra, kind) for a, b in ((X1, X2), (Y1, Y2))]
        _elements(dst, r * GROUP, GROUP)[:] = narrow(sides[0] * sides[1], kind, call.saturate)


@instruction("viou")
def viou(call: Call) -> None:
    """Intersections of 16 proposals per repeat with the same 16."""
    dst, a, b = call["dst"], call["src0"], call["src1"]
    call.need_on_chip(dst, a, b)
    call.need_dtype(dst, SCORES)
    call.need_same_dtype(dst, a, b)
    repeat, kind = int(call.args["repeat"]), dst.dtype
    extra = widen(call.value("scalar", dst), kind)
    some = GROUP * PROPOSAL if repeat else 0
    _checked(call, ("src0", repeat * GROUP * PROPOSAL), ("src1", some), ("dst", repeat * GROUP * GROUP))
    for r in range(repeat):
        left, right = _Boxes(call, a, r * GROUP).field, _Boxes(call, b, 0).field
        sides = []
        for low, high in ((X1, X2), (Y1, Y2)):
            first, second = left[low][:, None], right[low][None, :]
            start = np.where(first > second, first, second)
            first, second = left[high][:, None], right[high][None, :]
            end = np.where(first < second, first, second)
            side = _rounded(call, _rounded(call, end - start, kind) + extra, kind)
            sides.append(np.where(side > 0, side, side.dtype.type(0)))
        result = narrow(sides[0] * sides[1], kind, call.saturate)
        _elements(dst, r * GROUP * GROUP, GROUP * GROUP)[:] = result.reshape(-1)


@instruction("vaadd")
def vaadd(call: Call) -> None:
    """Sums of 16 elements per repeat with the same 16."""
    dst, a, b = call["dst"], call["src0"], call["src1"]
    call.need_on_chip(dst, a, b)
    call.need_dtype(dst, SCORES)
    call.need_same_dtype(dst, a, b)
    repeat, kind = int(call.args["repeat"]), dst.dtype
    _checked(call, ("src0", repeat * GROUP), ("src1", GROUP if repeat else 0), ("dst", repeat * GROUP * GROUP))
    for r in range(repeat):
        x, y = widen(_elements(a, r * GROUP, GROUP), kind), widen(_elements(b, 0, GROUP), kind)
        result = narrow(x[:, None] + y[None, :], kind, call.saturate)
        _elements(dst, r * GROUP * GROUP, GROUP * GROUP)[:] = result.reshape(-1)


@instruction("vmrgch")
def vmrgch(call: Call) -> None:
    """4 elements of each block of 32 bytes, 8 blocks per repeat."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need(src.size in (1, 2), "element size of src", src.size, "1 or 2 bytes")
    call.need_same_dtype(dst, src)
    repeat, per_block = int(call.args["repeat"]), BLOCK_BYTES // src.size
    _checked(call, ("src", repeat * BLOCKS * per_block), ("dst", repeat * BLOCKS * _KEPT))
    for r in range(repeat):
        elements = (r * BLOCKS + np.arange(BLOCKS)[:, None]) * per_block + np.arange(_KEPT)
        kept = src.load(src.positions(elements * src.size)).copy()
        _elements(dst, r * BLOCKS * _KEPT, BLOCKS * _KEPT)[:] = kept.reshape(-1)


def _suppression(call: Call, *names: str) -> None:
    operands = [call[n] for n in names]
    call.need_on_chip(*operands)
    for operand in operands:
        call.need_dtype(operand, {"uint16"})


@instruction("rpn_cor")
def rpn_cor(call: Call) -> None:
    """Rows of the boxes that stand, joined to the suppression bits."""
    _suppression(call, "ir", "src0", "src1")
    ir, matrix, vector = call["ir"], call["src0"], call["src1"]
    repeat = int(call.args["repeat"])
    if not repeat:
        return
    reps = [int(call.args[n]) for n in ("src0_rep", "src1_rep")]
    for operand, rep in ((matrix, reps[0]), (vector, reps[1])):
        operand.check(0, (repeat - 1) * rep + GROUP * 2)
    state = ir.view(0, 2).view(np.uint16)
    for r in range(repeat):
        rows = matrix.view(r * reps[0], GROUP * 2).view(np.uint16)
        standing = vector.view(r * reps[1], GROUP * 2).view(np.uint16) == 0
        state |= np.bitwise_or.reduce(rows[standing], initial=np.uint16(0))


@instruction("rpn_cor_diag")
def rpn_cor_diag(call: Call) -> None:
    """Which of 16 boxes are suppressed, each by the boxes before it that stand."""
    _suppression(call, "dst", "src", "ir")
    source, state = call["src"].view(0, GROUP * 2), int(call["ir"].view(0, 2).view(np.uint16)[0])
    target = call["dst"].view(0, GROUP * 2)
    rows = source.copy().view(np.uint16)
    result = np.zeros(GROUP, np.uint16)
    for i in range(GROUP):
        result[i] = state >> i & 1
        if not result[i]:
            state |= int(rows[i]) & (0xFFFF << (i + 1)) & 0xFFFF
    target[:] = result.view(np.uint8)
