# SPDX-License-Identifier: Apache-2.0
"""Instructions that convert what they computed, selections between scalars, conversion by a scale word, modes."""

from __future__ import annotations

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.convert import convert, dequantized
from ms_custom_ops.engine.reference.lanes import (
    Access,
    dense_access,
    lanes_per_repeat,
    run_repeats,
    selected,
    vector_access,
)
from ms_custom_ops.engine.reference.numbers import narrow, saturate_to_int, widen
from ms_custom_ops.program.isa import BLOCK_BYTES, MODE_FLOAT

BYTES = frozenset({"int8", "uint8"})
_SCALES = 16
_HALF = BLOCK_BYTES // 2


@instruction("vmulconv")
def vmulconv(call: Call) -> None:
    """float16 product, rounded, as an 8-bit integer."""
    dst, x, y = call["dst"], call["src0"], call["src1"]
    call.need_on_chip(dst, x, y)
    call.need_dtype(dst, BYTES)
    call.need_dtype(x, {"float16"})
    call.need_same_dtype(x, y)
    on = selected(call, lanes_per_repeat(x))
    sources = [vector_access(call, n, on) for n in ("src0", "src1")]

    def body(rows: slice, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        product = narrow(widen(a, "float16") * widen(b, "float16"), "float16", call.saturate)
        return convert(product, "float16", dst.dtype, 0, call.saturate, call.block.wrap)

    run_repeats(vector_access(call, "dst", on), sources, body)


@instruction("vadddeqrelu")
def vadddeqrelu(call: Call) -> None:
    """int32 sum to float16 by deqscale, clamped at 0."""
    dst, x, y = call["dst"], call["src0"], call["src1"]
    call.need_on_chip(dst, x, y)
    call.need_dtype(dst, {"float16"})
    call.need_dtype(x, {"int32"})
    call.need_same_dtype(x, y)
    on = selected(call, lanes_per_repeat(dst, x, y))
    sources = [vector_access(call, n, on) for n in ("src0", "src1")]
    scale = narrow(np.asarray(call.args["deqscale"], np.float64), "float16", False)

    def body(rows: slice, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = dequantized(a + b, scale, call.saturate)
        return np.where(result > 0, result, np.float16(0))

    run_repeats(vector_access(call, "dst", on), sources, body)


@instruction("vsels0", "vselss")
def vsels0(call: Call) -> None:
    """Selection by packed bits with a scalar in place of s0, or scalars in place of both."""
    dst = call["dst"]
    both = call.op == "vselss"
    tensors = [] if both else [call["src1"]]
    call.need_on_chip(dst, call["sel"], *tensors)
    call.need_same_dtype(dst, *tensors)
    mode = call.attrs["mode"]
    lanes = lanes_per_repeat(dst)
    on = selected(call, lanes)
    count = lanes // 8
    sel = dense_access(call["sel"], np.arange(on.shape[0]) * (count if mode else 0), count, np.uint8)
    first = call.value("scalar", dst)
    scalars = (call.value("scalar1", dst),) if both else ()
    sources: list[Access] = [sel, *([] if both else [vector_access(call, "src1", on)])]

    def body(rows: slice, bits: np.ndarray, *values: np.ndarray) -> np.ndarray:
        chosen = np.unpackbits(bits, axis=1, bitorder="little").astype(bool)
        return np.where(chosen, first, (*values, *scalars)[0])

    run_repeats(vector_access(call, "dst", on), sources, body)


def by_word(x: np.ndarray, words: np.ndarray, dtype: str) -> np.ndarray:
    """int16 values as 8-bit integers by 64-bit words: multiplier in bits 31..0, offset in bits 45..37."""
    multiplier = (words & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)
    offset = (words.view(np.int64) << 18) >> 55
    product = np.rint((x.astype(np.float32) * multiplier).astype(np.float64))
    return saturate_to_int(np.where(np.isnan(product), 0.0, product) + offset, dtype)


@instruction("vconv_deq")
def vconv_deq(call: Call) -> None:
    """int16 to 8 bits by a scale word; each block of src gives half a block of dst."""
    dst, src, scale = call["dst"], call["src"], call["scale"]
    call.need_on_chip(dst, src, scale)
    call.need_dtype(dst, BYTES)
    call.need_dtype(src, {"int16"})
    high, vector = call.attrs["high"], call.attrs["vector"]
    on = selected(call, lanes_per_repeat(src))
    lane = np.arange(on.shape[1])
    if vector:
        call.need_dtype(scale, {"uint64"})
        at = scale.positions(np.arange(_SCALES) * scale.size, None if on.any() else np.zeros(_SCALES, bool))
        words = scale.load(at).copy()[lane % _SCALES]
    else:
        words = np.full(len(lane), int(call.args["deqscale"]) % (1 << 64), np.uint64)
    source = vector_access(call, "src", on)
    offsets = (
        np.arange(len(on))[:, None] * int(call.args["dst_rep"])
        + lane // _HALF * int(call.args["dst_blk"])
        + lane % _HALF
        + high * _HALF
    )
    target = Access(dst, dst.positions(offsets, on), on, dst.numpy)
    run_repeats(target, [source], lambda rows, x: by_word(x, words, dst.dtype))


@instruction("set_mode")
def set_mode(call: Call) -> None:
    """Saturation of 16-bit floats or of conversions to integers, from here on in this block."""
    which, value = call.attrs["which"], bool(call.attrs["value"])
    if which == MODE_FLOAT:
        call.block.saturate = not value
    else:
        call.block.wrap = value
