# SPDX-License-Identifier: Apache-2.0
"""Moves that fill or rearrange: fill, v4dtrans, load_image."""

from __future__ import annotations

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.program.isa import BLOCK_BYTES, FRACTAL_BYTES
from ms_custom_ops.program.names import IMAGE_CROP, IMAGE_PAD, IMAGE_SWAP, RGB888, YUV400, YUV420SP

_BYTES_PER_PIXEL = {YUV420SP: 1, RGB888: 3, YUV400: 1}


@instruction("fill")
def fill(call: Call) -> None:
    """512-byte units of one value."""
    dst, repeat = call["dst"], call.ranged("repeat")
    call.need_on_chip(dst)
    if repeat:
        view = dst.view(0, repeat * FRACTAL_BYTES)
        view[:] = np.tile(np.broadcast_to(call.value("pad_value", dst), (1,)).view(np.uint8), view.size // dst.size)


@instruction("fill_blocks")
def fill_blocks(call: Call) -> None:
    """Runs of 32-byte blocks of one value."""
    dst, repeat = call["dst"], call.ranged("repeat")
    length, gap = call.ranged("blocks") * BLOCK_BYTES, int(call.args["gap"]) * BLOCK_BYTES
    call.need_on_chip(dst)
    if not repeat or not length:
        return
    dst.check(0, (repeat - 1) * (length + gap) + length)
    row = np.tile(np.broadcast_to(call.value("pad_value", dst), (1,)).view(np.uint8), length // dst.size)
    for n in range(repeat):
        dst.view(n * (length + gap), length)[:] = row


@instruction("v4dtrans")
def v4dtrans(call: Call) -> None:
    """Transpose of a channels x m_len matrix."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need_same_dtype(dst, src)
    m_len, channels = call.ranged("m_len"), call.ranged("channels")
    size = m_len * channels * dst.size
    if not size:
        return
    rows, columns = (channels, m_len) if call.attrs["to_hwc"] else (m_len, channels)
    matrix = src.view(0, size).copy().view(f"u{src.size}").reshape(rows, columns)
    dst.view(0, size)[:] = np.ascontiguousarray(matrix.T).reshape(-1).view(np.uint8)


def _plane(call: Call, name: str, rows: np.ndarray, row_bytes: int, columns: np.ndarray) -> np.ndarray:
    operand = call[name]
    return operand.load(operand.positions(rows * row_bytes + columns))


_SWAP_OF = {RGB888: "rb_swap", YUV420SP: "uv_swap", YUV400: None}
_FUNCTIONS = IMAGE_CROP | IMAGE_SWAP | IMAGE_PAD


def _swap(call: Call, kind: int) -> bool:
    """Whether two channels are exchanged."""
    on = False
    for name in ("rb_swap", "uv_swap", "ax_swap"):
        value = call.ranged(name)
        call.need(not value or name == _SWAP_OF[kind], f"{name} of format {kind}", value, "0")
        on = on or bool(value)
    return on


@instruction("load_image")
def load_image(call: Call) -> None:
    """A crop of an image in GM as blocks of 32 bytes per pixel."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst)
    call.need_dtype(dst, {"uint8", "float16"})
    call.need_dtype(src, {"uint8"})
    kind = int(call.args["format"])
    call.need(kind in _SWAP_OF, "format", kind, "0, 4 or 9")
    functions = int(call.args["functions"])
    call.need(not functions & ~_FUNCTIONS, "functions", functions, "sums of 1, 4 and 512")
    swap = _swap(call, kind) if functions & IMAGE_SWAP else False
    names = ("src_w", "src_h", "first_w", "first_h", "width", "height")
    src_w, src_h, first_w, first_h, width, height = (call.ranged(n) for n in names)
    if not functions & IMAGE_CROP:
        first_w, first_h, width, height = 0, 0, src_w, src_h
    for name, size, end in (("width", src_w, first_w + width), ("height", src_h, first_h + height)):
        call.need(end <= size, f"first and {name} of the crop", end, f"0 to {size}")
    dst.check(0, width * height * BLOCK_BYTES)
    if not width or not height:
        return
    y, x, c = np.ogrid[first_h : first_h + height, first_w : first_w + width, :3]
    if kind == RGB888:
        pixels = _plane(call, "src", y, src_w * 3, x * 3 + (2 - c if swap else c))
    else:
        pixels = _plane(call, "src", y, src_w, x + 0 * c[..., :1])
        if kind == YUV420SP:
            call.need_dtype(call["src1"], {"uint8"})
            order = np.array([1, 0] if swap else [0, 1])
            pairs = _plane(call, "src1", y // 2, -(-src_w // 2) * 2, x // 2 * 2 + order)
            pixels = np.concatenate([pixels, pairs], axis=2)
    out = np.zeros((height, width, BLOCK_BYTES // dst.size), dst.numpy)
    out[..., : pixels.shape[2]] = pixels
    dst.view(0, out.nbytes)[:] = out.reshape(-1).view(np.uint8)
