# SPDX-License-Identifier: Apache-2.0
"""Image to column and back: load3dv1, load3dv2, col2img, conv2d.

The feature map is [C1, l1_h, l1_w] blocks of 32 bytes (C0 channels). Output pixel p of the map stands for the window
at (x, y) of the padded map; the tap (fw, fh) of the filter lies at (x + fw * dilation_w, y + fh * dilation_h) there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.engine.reference.cube import ACCEPTED, SIDE, k0_of, l0c_offsets, product, start_of
from ms_custom_ops.engine.reference.memory import Operand, round_up
from ms_custom_ops.engine.reference.numbers import narrow, widen
from ms_custom_ops.program.isa import BLOCK_BYTES, FRACTAL_BYTES


def need_other_scope(call: Call, dst: Operand, *sources: Operand) -> None:
    """Precondition: dst lies on the chip, in another buffer than the sources."""
    call.need_on_chip(dst, *sources)
    for source in sources:
        call.need(dst.scope != source.scope, "scope of dst", dst.scope, f"another scope than {source.name}")


@dataclass
class Window:
    """Geometry of a convolution."""

    pad: tuple[int, int, int, int]  # left, right, top, bottom
    height: int
    width: int
    stride: tuple[int, int]  # of width, of height, as all pairs here
    filter: tuple[int, int]
    dilation: tuple[int, int]

    @classmethod
    def of(cls, call: Call) -> Window:
        """Geometry of a call, checked."""
        pads = tuple(call.ranged(f"pad_{s}") for s in "lrtb")
        height, width = call.ranged("l1_h"), call.ranged("l1_w")
        pairs = [(call.ranged(f"{n}_w"), call.ranged(f"{n}_h")) for n in ("stride", "filter", "dilation")]
        window = cls(pads, height, width, *pairs)  # type: ignore[arg-type]
        span = [(f - 1) * d + 1 for f, d in zip(window.filter, window.dilation, strict=True)]
        whole = (width + pads[0] + pads[1], height + pads[2] + pads[3])
        call.need(
            span[0] <= whole[0] and span[1] <= whole[1],
            "span of the filter",
            f"{span[0]} x {span[1]}",
            f"at most {whole[0]} x {whole[1]}",
        )
        return window

    @property
    def last(self) -> tuple[int, int]:
        """Position (x, y) of the last window that fits."""
        return (
            self.width + self.pad[0] + self.pad[1] - ((self.filter[0] - 1) * self.dilation[0] + 1),
            self.height + self.pad[2] + self.pad[3] - ((self.filter[1] - 1) * self.dilation[1] + 1),
        )

    @property
    def out(self) -> tuple[int, int]:
        """Width and height of the output map."""
        return self.last[0] // self.stride[0] + 1, self.last[1] // self.stride[1] + 1

    def place(self, pixel: np.ndarray, first: tuple[int, int] = (0, 0)) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) of windows, counted from the one at ``first``."""
        (sw, sh), (x0, y0) = self.stride, first
        in_row = (self.last[0] - x0) // sw + 1
        later = pixel - in_row
        x = np.where(later < 0, x0 + pixel * sw, later % self.out[0] * sw)
        y = np.where(later < 0, y0, y0 + (1 + later // self.out[0]) * sh)
        return x, y

    def tap(
        self, x: np.ndarray, y: np.ndarray, fw: np.ndarray, fh: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Column and row of a tap in the map, and whether it lies inside (of a window that fits)."""
        column = x + fw * self.dilation[0] - self.pad[0]
        row = y + fh * self.dilation[1] - self.pad[2]
        inside = (column >= 0) & (column < self.width) & (row >= 0) & (row < self.height) & (y <= self.last[1])
        return column, row, inside

    def split(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(c1, fh, fw) of a column block of the image-to-column matrix."""
        fw, rest = column % self.filter[0], column // self.filter[0]
        return rest // self.filter[1], rest % self.filter[1], fw


def _start(call: Call, window: Window) -> tuple[tuple[int, int], int, int]:
    """First window, and filter tap of a repeated instruction."""
    first = call.ranged("first_w"), call.ranged("first_h")
    call.need(first[0] <= window.last[0], "first_w", first[0], f"0 to {window.last[0]}")
    tap = []
    for name, count in (("fetch_w", window.filter[0]), ("fetch_h", window.filter[1])):
        value = int(call.args[name])
        call.need(value < count, name, value, f"0 to {count - 1}")
        tap.append(value)
    return first, tap[0], tap[1]


def _gather(src: Operand, block: np.ndarray, inside: np.ndarray, channel: np.ndarray, pad: np.ndarray) -> np.ndarray:
    """Elements ``channel`` of 32-byte blocks of src, ``pad`` where a block is not inside."""
    block, inside, channel = np.broadcast_arrays(block, inside, channel)
    positions = src.positions(block * BLOCK_BYTES + channel * src.size, inside)
    return np.where(inside, src.load(positions), pad)


@instruction("load3dv1")
def load3dv1(call: Call) -> None:
    """One fractal per repeat: 16 pixels under one filter tap of one channel block."""
    dst, src = call["dst"], call["src"]
    need_other_scope(call, dst, src)
    call.need_same_dtype(dst, src)
    window = Window.of(call)
    mode, repeat = call.attrs["repeat_mode"], call.ranged("repeat")
    c1, jump = call.ranged("c1"), call.ranged("jump")
    first, fw, fh = _start(call, window)
    r, i, element = np.ogrid[:repeat, :SIDE, : k0_of(src)]
    target = dst.positions(r * jump * FRACTAL_BYTES + i * BLOCK_BYTES + element * src.size)
    start = (c1 * window.filter[1] + fh) * window.filter[0] + fw
    channel, fh_at, fw_at = window.split(start + (np.zeros_like(r) if mode else r))
    column, row, inside = window.tap(*window.place(i + (SIDE * r if mode else 0), first), fw_at, fh_at)
    block = (channel * window.height + row) * window.width + column
    dst.store(target, _gather(src, block, inside, element, call.value("pad_value", dst)))


@instruction("load3dv2")
def load3dv2(call: Call) -> None:
    """A window of the image-to-column matrix in fractals."""
    dst, src = call["dst"], call["src"]
    need_other_scope(call, dst, src)
    call.need_same_dtype(dst, src)
    layout = call.attrs["layout"]
    channels, k_ext, m_ext = (call.ranged(n) for n in ("channels", "k_ext", "m_ext"))
    k_start, m_start = call.ranged("k_start"), call.ranged("m_start")
    window, k0 = Window.of(call), k0_of(src)
    call.need(channels % k0 == 0, "channels", channels, f"a multiple of {k0}")
    if not channels or not k_ext or not m_ext:
        return
    rows, columns = (SIDE, k0) if layout == 0 else (k0, SIDE)
    i, j = np.ogrid[: round_up(m_ext, rows), : round_up(k_ext, columns)]
    dst.check(0, i.size * j.size * dst.size)
    outer, inner, across = (i, j, j.size // k0) if layout == 0 else (j, i, i.size // k0)
    fractal = i // k0 * (j.size // SIDE) + j // SIDE if layout == 1 else outer // SIDE * across + inner // k0
    target = dst.positions((fractal * SIDE * k0 + outer % SIDE * k0 + inner % k0) * dst.size)
    pixel, k = m_start + i, k_start + j
    channel, fh, fw = window.split(k // k0)
    column, row, inside = window.tap(*window.place(pixel), fw, fh)
    inside = inside & (channel * k0 < channels)
    block = (channel * window.height + row) * window.width + column
    dst.store(target, _gather(src, block, inside, k % k0, call.value("pad_value", dst)))


@instruction("col2img")
def col2img(call: Call) -> None:
    """Rows of fractals added to the map under one filter tap, 16 channels per pixel."""
    dst, src = call["dst"], call["src"]
    call.need_on_chip(dst, src)
    call.need_dtype(src, {"float16", "float32"})
    call.need_same_dtype(src, dst)
    window, repeat = Window.of(call), call.ranged("repeat")
    first, fw, fh = _start(call, window)
    pixel, channel = np.ogrid[: repeat * SIDE, :SIDE]
    addend = widen(src.load(src.positions((pixel * SIDE + channel) * src.size)), src.dtype)
    column, row, inside = window.tap(*window.place(pixel, first), np.asarray(fw), np.asarray(fh))
    offsets = ((row * window.width + column) * SIDE + channel) * dst.size
    inside = np.broadcast_to(inside, offsets.shape)
    target = dst.positions(offsets, inside)
    for p in np.flatnonzero(inside[:, 0]):
        old = widen(dst.load(target[p]), dst.dtype)
        dst.store(target[p], narrow(old + addend[p], dst.dtype, call.saturate))


@instruction("conv2d")
def conv2d(call: Call) -> None:
    """dst (+)= image-to-column matrix @ weight, straight from L1."""
    dst, fm, weight = call["dst"], call["fm"], call["weight"]
    need_other_scope(call, dst, fm, weight)
    call.need_dtype(fm, ACCEPTED)
    call.need_same_dtype(fm, weight)
    call.need_dtype(dst, ACCEPTED[fm.dtype])
    window, c1, cout, k0 = Window.of(call), call.ranged("c1"), call.ranged("cout"), k0_of(fm)
    call.need(cout % SIDE == 0, "cout", cout, f"a multiple of {SIDE}")
    if not c1 or not cout:
        return
    pixels = window.out[0] * window.out[1]
    rows, depth = round_up(pixels, SIDE), c1 * window.filter[0] * window.filter[1] * k0
    dst.check(0, rows * cout * dst.size)
    weight.check(0, depth * cout * weight.size)
    m, k = np.ogrid[:rows, :depth]
    channel, fh, fw = window.split(k // k0)
    column, row, inside = window.tap(*window.place(m), fw, fh)
    block = (channel * window.height + row) * window.width + column
    a = _gather(fm, block, inside, k % k0, call.value("pad_value", fm))
    kk, n = np.ogrid[:depth, :cout]
    b = weight.load(weight.positions(((kk // k0 * cout + n) * k0 + kk % k0) * weight.size))
    target = dst.positions(l0c_offsets(rows, cout) * dst.size)
    total = product(a, b, start_of(dst, target, not call.attrs["init"]), fm.dtype)
    dst.store(target, narrow(total, dst.dtype, call.saturate))
