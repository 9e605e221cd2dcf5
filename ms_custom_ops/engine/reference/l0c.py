# SPDX-License-Identifier: Apache-2.0
"""What leaves L0C with quantization, and what is broadcast into it."""

from __future__ import annotations

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.cube import SIDE
from ms_custom_ops.engine.reference.memory import Operand
from ms_custom_ops.engine.reference.move import _land
from ms_custom_ops.engine.reference.numbers import narrow, saturate_to_int, widen
from ms_custom_ops.program.dtypes import FLOATS
from ms_custom_ops.program.isa import FRACTAL_ELEMENTS
from ms_custom_ops.program.names import ADD, BIAS, SHORT_SCALE, VECTOR_SCALE

BYTES = ("int8", "uint8")
_CASTS = {("float32", "float16"), ("float32", "bfloat16"), ("float16", "float32")}
_QUANT1 = {("int32", "float16"), ("float16", "float16")}
_QUANT2 = {("int32", d) for d in ("int8", "uint8", "int16", "float16")} | {("float32", d) for d in BYTES}
_RELU_BIT = 47
UNIT = (256, 16, 64, 128, 8)  # elements of a unit of each block mode


def unit_offsets(mode: int, burst: int) -> np.ndarray:
    """Element offsets of a burst of ``burst`` units in L0C, in the order they are written."""
    if mode == 4:
        return np.arange(burst * 8)
    if mode == 3:
        unit, row, column = np.ogrid[:burst, :SIDE, :8]
        return (unit // 2 * FRACTAL_ELEMENTS + row * SIDE + unit % 2 * 8 + column).reshape(-1)
    rows, columns = {0: (SIDE, SIDE), 1: (1, SIDE), 2: (SIDE, 4)}[mode]
    unit, row, column = np.ogrid[:burst, :rows, :columns]
    return (unit * FRACTAL_ELEMENTS + row * SIDE + column).reshape(-1)


def burst_elements(mode: int, burst: int) -> int:
    """Elements of L0C from the head of a burst to its end, whole fractals but in mode 4."""
    return burst * 8 if mode == 4 else (-(-burst // 2) if mode == 3 else burst) * FRACTAL_ELEMENTS


def reach(mode: int, burst: int) -> int:
    """Elements of L0C from the head of a burst to the last one it touches."""
    if mode == 4:
        return burst * 8
    if mode == 3:
        return burst // 2 * FRACTAL_ELEMENTS + (burst % 2) * (FRACTAL_ELEMENTS - 8)
    return (burst - 1) * FRACTAL_ELEMENTS + {0: FRACTAL_ELEMENTS, 1: SIDE, 2: FRACTAL_ELEMENTS - 12}[mode]


def quantized(x: np.ndarray, source: str, target: str, scale: np.ndarray, short: bool, relu: bool) -> np.ndarray:
    """x by 64-bit scales: multiplier, shift, offset (see ``l0c_out`` of the isa module)."""
    bits = scale.astype(np.uint64).view(np.int64)
    shift = (bits >> 32 & 15) + 1
    if target == "int16":
        return np.clip(x.astype(np.int64) >> shift, -32768, 32767).astype(np.int16)
    low = (bits & (0xFFFFE000 if short else 0xFFFFFFFF)).astype(np.uint32)
    multiplier = np.ascontiguousarray(low).view(np.float32)
    wide = x.astype(np.float32)
    if source == "int32":
        shifted = np.clip(x.astype(np.int64) >> shift, -32768, 32767).astype(np.float32)
        wide = np.where(bits >> 36 & 1, shifted, wide)
    if target == "float16":
        return wide * multiplier
    offset = (bits >> 37 & 511 ^ 256) - 256
    wide = np.where(wide > 0, wide, np.float32(0)) if relu else wide
    product = wide * multiplier
    product = np.where(np.isnan(product), np.float32(0), product)
    return saturate_to_int(np.rint(product).astype(np.float64) + offset, target)


def _convert(call: Call, x: np.ndarray, scale: np.ndarray, relu: bool) -> np.ndarray:
    """Values of L0C as dst dtype, clamped at 0 with relu."""
    dst, src, quant = call["dst"], call["src"], call.attrs["quant"]
    if quant == 1:
        result = narrow(widen(x, src.dtype).astype(np.float32) * scale, "float16", call.saturate)
    elif quant == 2:
        short = bool(call.attrs["flags"] & SHORT_SCALE)
        result = quantized(x, src.dtype, dst.dtype, scale, short, relu)
        if dst.dtype in BYTES:
            return result
        result = narrow(result, "float16", call.saturate) if dst.dtype == "float16" else result
    else:
        result = x if src.dtype == dst.dtype else narrow(widen(x, src.dtype), dst.dtype, call.saturate)
    return np.where(result > 0, result, result.dtype.type(0)) if relu else result


def _check(call: Call) -> tuple[int, int, int, int]:
    """Block mode, quantization, store mode and flags, checked."""
    dst, src = call["dst"], call["src"]
    mode, quant = call.attrs["block_mode"], call.attrs["quant"]
    store, flags = call.attrs["store"], call.attrs["flags"]
    call.need_on_chip(src)
    pairs = ({(src.dtype, src.dtype)} | _CASTS, _QUANT1, _QUANT2)[quant]
    call.need(
        (src.dtype, dst.dtype) in pairs,
        f"conversion with quant {quant}",
        f"{src.dtype} to {dst.dtype}",
        ("equal dtypes or a cast", "int32 or float16 to float16", "int32 or float32 to a quantized dtype")[quant],
    )
    call.need_dtype(src, {"float16", "float32", "int32", "uint32"})
    call.need(store == 0 or dst.dtype in BYTES and not dst.is_gm and mode < 4, "store", store, "0")
    if flags & VECTOR_SCALE:
        call.need(quant > 0, "quant with a vector scale", quant, "1 or 2")
        call.need_dtype(call["scale"], {"float16"} if quant == 1 else {"uint64"})
    if flags & BIAS:
        call.need_same_dtype(src, call["bias"])
    if flags & ADD:
        call.need_dtype(dst, {"float16", "float32", "int32"})
        call.need_same_dtype(dst, call["add"])
    return mode, quant, store, flags


def _column_values(operand: Operand, burst: int, column: np.ndarray) -> np.ndarray:
    return operand.load(operand.positions((burst * SIDE + column) * operand.size))


def _scalar_scale(call: Call, quant: int, flags: int) -> tuple[np.ndarray, bool]:
    """deqscale as an array, and relu with the bit of a scale word."""
    relu = bool(call.attrs["relu"])
    if quant == 1:
        scale = narrow(np.asarray(call.args["deqscale"], np.float64), "float16", False)
        return widen(scale, "float16"), relu
    if quant == 0 or flags & VECTOR_SCALE:
        return np.zeros(1, np.float32), relu
    call.need(isinstance(call.args["deqscale"], int), "dtype of deqscale", "a float", "an integer")
    word = int(call.args["deqscale"]) % (1 << 64)
    return np.full(1, word, np.uint64), relu or bool(word >> _RELU_BIT & 1)


def _burst(call: Call, n: int, at: np.ndarray, column: np.ndarray, scale: np.ndarray, relu: bool) -> np.ndarray:
    """The values of burst ``n``, whose elements of src lie at byte offsets ``at``."""
    dst, src, flags = call["dst"], call["src"], call.attrs["flags"]
    x = src.load(src.positions(at))
    if flags & BIAS:
        bias = _column_values(call["bias"], n, column)
        x = narrow(widen(x, src.dtype) + widen(bias, src.dtype), src.dtype, call.saturate)
    if flags & VECTOR_SCALE:
        scale = widen(_column_values(call["scale"], n, column), call["scale"].dtype)
    result = _convert(call, x, scale, relu)
    if flags & ADD:
        add = call["add"]
        old = add.load(add.positions((n * at.size + np.arange(at.size)) * add.size))
        result = narrow(widen(result, dst.dtype) + widen(old, dst.dtype), dst.dtype, call.saturate)
    return result


@instruction("l0c_out")
def l0c_out(call: Call) -> None:
    """L0C to UB or GM, burst by burst: bias, quantization, relu, addition."""
    mode, quant, store, flags = _check(call)
    dst, src = call["dst"], call["src"]
    nburst, burst, src_gap, dst_gap = (int(call.args[n]) for n in ("nburst", "burst", "src_gap", "dst_gap"))
    scale, relu = _scalar_scale(call, quant, flags)
    if not nburst or not burst:
        return
    for name in ("nburst", "burst"):
        call.ranged(name)
    src_step = burst_elements(mode, burst) * src.size + src_gap
    count = burst * UNIT[mode]
    written = count * dst.size * (2 if store else 1)
    src.check(0, (nburst - 1) * src_step + reach(mode, burst) * src.size)
    dst.check(0, (nburst - 1) * (written + dst_gap) + written)
    rows = nburst * SIDE
    for flag, name, elements in ((VECTOR_SCALE, "scale", rows), (BIAS, "bias", rows), (ADD, "add", nburst * count)):
        if flags & flag:
            call[name].check(0, elements * call[name].size)
    offsets = unit_offsets(mode, burst)
    for n in range(nburst):
        at = n * src_step + offsets * src.size
        raw = np.ascontiguousarray(_burst(call, n, at, offsets % SIDE, scale, relu)).view(np.uint8)
        if store:
            for half, row in enumerate(raw.reshape(-1, SIDE)):
                dst.view(n * (written + dst_gap) + (2 * half + store - 1) * SIDE, SIDE)[:] = row
        else:
            _land(call, n * (written + dst_gap), raw)


@instruction("broadcast_l0c")
def broadcast_l0c(call: Call) -> None:
    """Rows of 16 elements repeated over the 16 rows of fractals."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need_dtype(src, FLOATS | {"int32", "uint32"})
    wider = (src.dtype, dst.dtype) == ("float16", "float32")
    call.need(wider or src.dtype == dst.dtype, "dtype of dst", dst.dtype, f"{src.dtype} as src, or float32")
    nburst, burst, copies, src_gap, dst_gap = (
        int(call.args[n]) for n in ("nburst", "burst", "copies", "src_gap", "dst_gap")
    )
    if not nburst or not burst or not copies:
        return
    for name in ("nburst", "burst", "copies"):
        call.ranged(name)
    read, written = burst * SIDE * src.size, burst * copies * FRACTAL_ELEMENTS * dst.size
    src.check(0, (nburst - 1) * (read + src_gap) + read)
    dst.check(0, (nburst - 1) * (written + dst_gap) + written)
    for n in range(nburst):
        rows = src.view(n * (read + src_gap), read).copy().view(src.numpy).reshape(burst, SIDE)
        out = np.repeat(rows.astype(dst.numpy) if wider else rows, copies * SIDE, axis=0)
        dst.view(n * (written + dst_gap), written)[:] = np.ascontiguousarray(out).reshape(-1).view(np.uint8)


def _matrix_check(call: Call) -> bool:
    """Whether scale words apply, after the checks."""
    dst, src, quant = call["dst"], call["src"], bool(call.attrs["quant"])
    call.need_on_chip(src)
    call.need_dtype(src, {"float32", "int32"})
    call.need(
        (src.dtype, dst.dtype) in (_QUANT2 if quant else {(src.dtype, src.dtype)} | _CASTS),
        f"conversion with quant {int(quant)}",
        f"{src.dtype} to {dst.dtype}",
        "int32 or float32 to a quantized dtype" if quant else "equal dtypes or a cast",
    )
    if call.attrs["vector"]:
        call.need(quant, "quant with a vector scale", 0, 1)
        call.need_on_chip(call["scale"])
        call.need_dtype(call["scale"], {"uint64"})
    return quant


def _matrix_values(call: Call, x: np.ndarray, quant: bool) -> np.ndarray:
    """Rows of src as dst dtype."""
    dst, src = call["dst"], call["src"]
    word = int(call.args["deqscale"]) % (1 << 64)
    vector = call.attrs["vector"]
    relu = bool(call.attrs["relu"]) or (quant and not vector and bool(word >> _RELU_BIT & 1))
    if not quant:
        result = x if src.dtype == dst.dtype else narrow(widen(x, src.dtype), dst.dtype, call.saturate)
        return np.where(result > 0, result, result.dtype.type(0)) if relu else result
    scale = np.full(1, word, np.uint64)
    if vector:
        scale = call["scale"].load(call["scale"].positions(np.arange(x.shape[1]) * 8))
    result = quantized(x, src.dtype, dst.dtype, scale, True, relu)
    if dst.dtype in BYTES:
        return result
    result = narrow(result, "float16", call.saturate) if dst.dtype == "float16" else result
    return np.where(result > 0, result, result.dtype.type(0)) if relu else result


@instruction("l0c_matrix")
def l0c_matrix(call: Call) -> None:
    """Matrices of L0C to rows or columns of dst."""
    quant = _matrix_check(call)
    dst, src, width = call["dst"], call["src"], call.attrs["width"]
    count, rows, columns = (call.ranged(n) for n in ("matrices", "rows", "columns"))
    if not count or not rows or not columns:
        return
    r, c = np.ogrid[:rows, :columns]
    source = c // SIDE * int(call.args["src_stride"]) + (r * SIDE + c % SIDE) * src.size
    stride, step = int(call.args["dst_stride"]), int(call.args["dst_next"])
    target = c // width * stride + (r * width + c % width) * dst.size if width else r * stride + c * dst.size
    from_next = int(call.args["src_next"])
    src.check(0, (count - 1) * from_next + int(source.max()) + src.size)
    dst.check(0, (count - 1) * step + int(target.max()) + dst.size)
    piece = min(width or SIDE, SIDE)
    for n in range(count):
        values = _matrix_values(call, src.load(src.positions(n * from_next + source)), quant)
        for first in range(0, columns, piece):
            part = np.ascontiguousarray(values[:, first : first + piece])
            for row in range(rows):
                _land(call, n * step + int(target[row, first]), part[row].view(np.uint8))
