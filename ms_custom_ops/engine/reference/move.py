# SPDX-License-Identifier: Apache-2.0
"""Data moves. Gaps run from the end of one burst to the start of the next; bursts run in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.convert import from_l0c
from ms_custom_ops.engine.reference.memory import Operand, round_up
from ms_custom_ops.engine.reference.numbers import narrow, widen
from ms_custom_ops.engine.reference.transpose import SIDE, transposed_fractal
from ms_custom_ops.program.isa import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ELEMENTS

_QUANTIZE = {0: None, 1: ("float32", "float16"), 2: ("int32", "float16")}


def _numbers(call: Call, *names: str) -> list[int]:
    return [int(call.args[n]) for n in names]


def _land(call: Call, first: int, raw: np.ndarray) -> None:
    """Write bytes at byte ``first`` of dst; a GM dst adds in the dtype of the block's atomic mode."""
    dst, atomic = call["dst"], call.block.atomic
    target = dst.view(first, raw.size)
    if not dst.is_gm or atomic is None:
        target[:] = raw
        return
    call.need(dst.dtype == atomic, "dtype of dst", dst.dtype, f"{atomic} of set_atomic_add")
    call.need(raw.size % dst.size == 0, "burst", f"{raw.size} bytes", f"whole elements of {dst.size} bytes")
    old, new = (widen(r.copy().view(dst.numpy), dst.dtype) for r in (target, raw))
    target[:] = narrow(old + new, dst.dtype, call.block.program_saturate).view(np.uint8)


def _check_bursts(operand: Operand, count: int, length: int, step: int) -> None:
    if count and length:
        operand.check(0, (count - 1) * step + length)


def _bursts(
    call: Call, count: int, dst: tuple[int, int], src: tuple[int, int], through: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Bursts through a function of their bytes; dst and src are (bytes accessed, distance of bursts)."""
    _check_bursts(call["src"], count, *src)
    _check_bursts(call["dst"], count, *dst)
    if dst[0] == 0:
        return
    for n in range(count):
        _land(call, n * dst[1], through(call["src"].view(n * src[1], src[0]).copy()))


@instruction("data_move")
def data_move(call: Call) -> None:
    """Bursts of bytes as they are; not from GM to GM. Behind a GM tensor, in the rest of its allocation, zeros are
    read and what is written is dropped."""
    dst, src = call["dst"], call["src"]
    if dst.is_gm:
        call.need_on_chip(src)
    nburst, burst, src_gap, dst_gap = _numbers(call, "nburst", "burst", "src_gap", "dst_gap")
    if not nburst or not burst:
        return
    for operand, gap in ((src, src_gap), (dst, dst_gap)):
        operand.check(0, (nburst - 1) * (burst + gap) + burst, operand.tail)
    for n in range(nburst):
        source, target = n * (burst + src_gap), n * (burst + dst_gap)
        raw = np.zeros(burst, np.uint8)
        have, take = src.held(source, burst), dst.held(target, burst)
        raw[:have] = src.view(source, have)
        if take:
            _land(call, target, raw[:take])


@instruction("data_move_l0c")
def data_move_l0c(call: Call) -> None:
    """Bursts of 256-element fractals (mode 0), or of their first 16 elements on the L0C side (mode 1)."""
    nburst, burst, src_gap, dst_gap = _numbers(call, "nburst", "burst", "src_gap", "dst_gap")
    dst, src, mode = call["dst"], call["src"], call.attrs["block_mode"]
    call.need_on_chip(dst, src)
    scale = narrow(np.asarray(call.args["deqscale"], np.float64), "float16", False)
    unit = SIDE if mode else FRACTAL_ELEMENTS
    count = burst * unit

    def elements(operand: Operand) -> np.ndarray:
        """Offsets of a burst's elements; in mode 1 the L0C side has 16 of them in each fractal."""
        spread = FRACTAL_ELEMENTS if mode and operand.scope == "l0c" else unit
        return (np.arange(burst)[:, None] * spread + np.arange(unit)).reshape(-1) * operand.size

    def head_step(operand: Operand, gap: int) -> int:
        spread = FRACTAL_ELEMENTS if mode and operand.scope == "l0c" else unit
        return burst * spread * operand.size + gap

    if not nburst or not count:
        return
    targets = np.arange(nburst)[:, None] * head_step(dst, dst_gap) + elements(dst)
    sources = np.arange(nburst)[:, None] * head_step(src, src_gap) + elements(src)
    source_at, target_at = src.positions(sources), dst.positions(targets)
    for n in range(nburst):
        x = src.load(source_at[n])
        dst.store(target_at[n], from_l0c(call, x, src.dtype, dst.dtype, scale, bool(call.attrs["relu"])))


@instruction("data_move_pad")
def data_move_pad(call: Call) -> None:
    """Bursts of any length between GM and 32-byte aligned runs of UB."""
    nburst, burst, src_gap, dst_gap = _numbers(call, "nburst", "burst", "src_gap", "dst_gap")
    dst = call["dst"]
    left, right = (int(call.args[n]) * dst.size for n in ("left_pad", "right_pad"))
    if dst.is_gm:
        call.need_on_chip(call["src"])
        call.need(left == right == 0, "padding of a move to GM", f"{left} and {right} bytes", "none")
        _bursts(call, nburst, (burst, burst + dst_gap), (burst, round_up(burst, BLOCK_BYTES) + src_gap), lambda r: r)
        return
    length = left + burst + right
    whole = round_up(length, BLOCK_BYTES)
    pad = np.broadcast_to(call.value("pad_value", dst), (1,)).view(np.uint8)

    def padded(raw: np.ndarray) -> np.ndarray:
        fill = np.zeros(whole - length, np.uint8)
        return np.concatenate([np.tile(pad, left // dst.size), raw, np.tile(pad, right // dst.size), fill])

    _bursts(call, nburst, (whole, whole + dst_gap), (burst, burst + src_gap), padded)


@instruction("nd2nz")
def nd2nz(call: Call) -> None:
    """(q, n, d) of row-major matrices to blocks of K0 columns; columns beyond D up to K0 become zero."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst)
    call.need_same_dtype(dst, src)
    nd_num, rows, columns = _numbers(call, "nd_num", "nd_n", "nd_d")
    src_nd, src_n = _numbers(call, "src_nd_stride", "src_n_stride")
    dst_c0, dst_n, dst_nd = _numbers(call, "dst_c0_stride", "dst_n_stride", "dst_nd_stride")
    if not nd_num or not rows or not columns:
        return
    k0 = BLOCK_BYTES // dst.size
    q, n, d = np.ogrid[:nd_num, :rows, : round_up(columns, k0)]
    inside = np.broadcast_to(d < columns, (nd_num, rows, d.size))
    target = (q * dst_nd + (d // k0) * dst_c0 * k0 + n * dst_n * k0 + d % k0) * dst.size
    source_at = src.positions((q * src_nd + n * src_n + d) * src.size, inside)
    target_at = dst.positions(target)
    raw = src.load(source_at, f"u{src.size}")
    dst.store(target_at, np.where(inside, raw, raw.dtype.type(0)))


@instruction("load2d")
def load2d(call: Call) -> None:
    """512-byte fractals, each 16x16 of 16-bit elements transposed on demand."""
    index, repeat, src_stride, dst_gap = _numbers(call, "index", "repeat", "src_stride", "dst_gap")
    dst, src, transpose = call["dst"], call["src"], call.attrs["transpose"]
    call.need_on_chip(dst)
    if transpose:
        call.need(dst.size == src.size == 2, "element size with transpose", f"{src.size} to {dst.size}", "2 bytes")
    step = 1 + dst_gap
    for operand, first, distance in ((src, index, src_stride), (dst, 0, step)):
        if repeat:
            operand.check(first * FRACTAL_BYTES, (first + (repeat - 1) * distance + 1) * FRACTAL_BYTES)
    for r in range(repeat):
        raw = src.view((index + r * src_stride) * FRACTAL_BYTES, FRACTAL_BYTES)
        dst.view(r * step * FRACTAL_BYTES, FRACTAL_BYTES)[:] = transposed_fractal(raw) if transpose else raw.copy()


@instruction("load2d_square")
def load2d_square(call: Call) -> None:
    """Square blocks of one or two fractals, transposed."""
    index, repeat, stride = (call.ranged(n) for n in ("index", "repeat", "src_stride"))
    gap, between = _numbers(call, "dst_gap", "fractal_gap")
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need_same_dtype(dst, src)
    call.need(dst.size <= 4, "element size", dst.size, "1, 2 or 4 bytes")
    parts = 1 if dst.size == 2 else 2
    block = parts * FRACTAL_BYTES
    if repeat:
        src.check(index * block, (index + (repeat - 1) * stride + 1) * block)
        dst.check(0, ((repeat - 1) * (1 + gap) + (parts - 1) * (1 + between) + 1) * FRACTAL_BYTES)
    for r in range(repeat):
        raw = src.view((index + r * stride) * block, block).copy().view(f"u{dst.size}").reshape(parts, SIDE, -1)
        square = np.concatenate(list(raw), axis=0 if dst.size == 1 else 1).T
        for part, piece in enumerate(np.split(square, parts, axis=0 if dst.size == 1 else 1)):
            first = (r * (1 + gap) + part * (1 + between)) * FRACTAL_BYTES
            dst.view(first, FRACTAL_BYTES)[:] = np.ascontiguousarray(piece).reshape(-1).view(np.uint8)


@instruction("fixpipe")
def fixpipe(call: Call) -> None:
    """L0C to GM, converted on the way and written densely."""
    count, length, src_gap, dst_gap = _numbers(call, "cburst_num", "burst_len", "src_gap", "dst_gap")
    dst, src, quantize = call["dst"], call["src"], call.attrs["quantize"]
    call.need_on_chip(src)
    expected = _QUANTIZE[quantize] or (src.dtype, src.dtype)
    call.need(
        (src.dtype, dst.dtype) == expected,
        f"conversion with quantize {quantize}",
        f"{src.dtype} to {dst.dtype}",
        " to ".join(expected),
    )
    call.need(length % src.size == 0, "burst_len", f"{length} bytes", f"a multiple of {src.size}")
    scale = narrow(np.asarray(call.args["deqscale"], np.float64), "float16", False)
    written = length // src.size * dst.size

    def converted(raw: np.ndarray) -> np.ndarray:
        x = from_l0c(call, raw.view(src.numpy), src.dtype, dst.dtype, scale, bool(call.attrs["relu"]))
        return np.ascontiguousarray(x).view(np.uint8)

    _bursts(call, count, (written, written + dst_gap), (length, length + src_gap), converted)
