# SPDX-License-Identifier: Apache-2.0
"""Image to column: load3dv1, load3dv2 and the inverse col2img."""

from __future__ import annotations

from typing import Any, NamedTuple

from ms_custom_ops.errors import TikError, TikSupportError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr
from ms_custom_ops.program.isa import BLOCK_BYTES, FRACTAL_BYTES
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import (
    as_tensor,
    check_extent,
    check_same_dtype,
    check_scope,
    check_start,
    flag,
    ranged,
    scalar_operand,
)
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.where import user_location

ROWS = 16  # pixels of a fractal
COL2IMG_CHANNELS = 16  # of a pixel in every dtype
MAX_PAD, MAX_MAP, MAX_STRIDE, MAX_FILTER = 255, 32767, 63, 255


class Geometry(NamedTuple):
    """Arguments of a window in the order of the isa module; ``size`` and ``last`` are None where unknown."""

    args: tuple[Any, ...]
    last: tuple[int, int] | None  # last window (x, y) of the padded map
    out: tuple[int, int] | None  # width and height of the output map


def geometry(b: Builder, api: str, pad: Any, l1_h: Any, l1_w: Any, pairs: dict[str, Any], low: int = 1) -> Geometry:
    """Checked geometry. ``pad`` is [left, right, top, bottom], ``pairs`` holds stride, filter and dilation."""
    if not isinstance(pad, (list, tuple)) or len(pad) != 4:
        raise b.fail(TikError, api, "pad", pad, "[left, right, top, bottom]")
    pads = [ranged(p, api, f"pad[{k}]", 0, MAX_PAD) for k, p in enumerate(pad)]
    height, width = ranged(l1_h, api, "l1_h", low, MAX_MAP), ranged(l1_w, api, "l1_w", low, MAX_MAP)
    top = {"stride": MAX_STRIDE}
    values = [ranged(v, api, name, 1, top.get(name[:6], MAX_FILTER)) for name, v in pairs.items()]
    args = (*pads, height, width, *values)
    if any(v.__class__ is not int for v in args):
        return Geometry(args, None, None)
    stride_w, stride_h, filter_w, filter_h, dilation_w, dilation_h = values
    whole = (width + pads[0] + pads[1], height + pads[2] + pads[3])
    span = ((filter_w - 1) * dilation_w + 1, (filter_h - 1) * dilation_h + 1)
    if span[0] > whole[0] or span[1] > whole[1]:
        accepted = f"at most {whole[0]} x {whole[1]}, the padded map"
        raise b.fail(TikError, api, "span of the filter", f"{span[0]} x {span[1]}", accepted)
    last = (whole[0] - span[0], whole[1] - span[1])
    return Geometry(args, last, (last[0] // stride_w + 1, last[1] // stride_h + 1))


def pairs_of(
    stride_w: Any, stride_h: Any, filter_w: Any, filter_h: Any, dilation_w: Any, dilation_h: Any
) -> dict[str, Any]:
    """Parameters of a filter by name."""
    return {
        "stride_w": stride_w,
        "stride_h": stride_h,
        "filter_w": filter_w,
        "filter_h": filter_h,
        "dilation_filter_w": dilation_w,
        "dilation_filter_h": dilation_h,
    }


def _first(b: Builder, api: str, name: str, value: Any, pad: Any, last: int | None) -> Any:
    """Position of the first window in the padded map."""
    v = ranged(value, api, name, -MAX_PAD, MAX_MAP)
    if v.__class__ is int and pad.__class__ is int:
        top = MAX_MAP if last is None else last - pad
        if not -pad <= v <= top:
            raise b.fail(TikError, api, name, v, f"{-pad}..{top} (the padded map)")
    return v + pad


def _fetch(b: Builder, api: str, name: str, value: Any, count: Any) -> Any:
    v = ranged(value, api, name, 0, MAX_FILTER - 1)
    if v.__class__ is int and count.__class__ is int and v >= count:
        raise b.fail(TikError, api, name, v, f"0..{count - 1}")
    return v


class Img2colMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def load3dv1(
        self,
        dst,
        src,
        pad,
        l1_h,
        l1_w,
        c1_index,
        fetch_filter_w,
        fetch_filter_h,
        left_top_w,
        left_top_h,
        stride_w,
        stride_h,
        filter_w,
        filter_h,
        dilation_filter_w,
        dilation_filter_h,
        jump_offset,
        repeat_mode,
        repeat_time,
        _csize=0,
        pad_value=0,
    ):
        """``repeat_time`` fractals of 16 output pixels x C0 channels under one filter tap, from L1 [C1, H, W,
        C0] to L0A, L0B or UB. ``pad`` [left, right, top, bottom]; fractal r goes to dst + r * jump_offset
        fractals. repeat_mode 0 moves on along the filter, 1 along the pixels."""
        b, api = self._b, "load3dv1"
        if b.dead:
            return
        dst, src = self._load3d_operands(api, dst, src, (ir.L0A, ir.L0B, ir.UB))
        if _csize not in (0, False):
            raise b.fail(TikSupportError, api, "_csize", _csize, "0")
        if repeat_mode not in (0, 1):
            raise b.fail(TikError, api, "repeat_mode", repeat_mode, "0, 1")
        pairs = pairs_of(stride_w, stride_h, filter_w, filter_h, dilation_filter_w, dilation_filter_h)
        g = geometry(b, api, pad, l1_h, l1_w, pairs)
        start = self._first_tap(api, g, fetch_filter_w, fetch_filter_h, left_top_w, left_top_h)
        c1 = ranged(c1_index, api, "c1_index", 0, 4095)
        jump = ranged(jump_offset, api, "jump_offset", 1, 127)
        repeat = ranged(repeat_time, api, "repeat_time", 1, 255)
        if jump.__class__ is int and repeat.__class__ is int:
            check_extent(dst, ((repeat - 1) * jump + 1) * FRACTAL_BYTES, api, "dst")
        if c1.__class__ is int and g.out is not None:
            # At least one element of the channel block is read.
            check_extent(src, c1 * g.args[4] * g.args[5] * BLOCK_BYTES + BLOCK_BYTES, api, "src")
        value = scalar_operand(b, pad_value, src.dtype, api, "pad_value")
        args = (c1, *start, *g.args, jump, repeat, value)
        b.body.append(ir.Instr(api, (dst.ref(), src.ref()), args, (int(repeat_mode),), b.loc()))

    def _load3d_operands(self, api: str, dst: Any, src: Any, scopes: tuple[str, ...]) -> tuple[Tensor, Tensor]:
        b = self._b
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        check_same_dtype(b, api, dst, src)
        require(b, api, api, SHORT[src.dtype], src.dtype)
        check_scope(b, dst, api, "dst", scopes)
        check_scope(b, src, api, "src", (ir.L1,))
        check_start(dst, api, "dst")
        check_start(src, api, "src")
        return dst, src

    def _first_tap(
        self, api: str, g: Geometry, fetch_w: Any, fetch_h: Any, left_w: Any, left_h: Any
    ) -> tuple[Any, ...]:
        """Filter tap and first window of a repeated instruction, in the order of the isa module."""
        b = self._b
        return (
            _fetch(b, api, "fetch_filter_w", fetch_w, g.args[8]),
            _fetch(b, api, "fetch_filter_h", fetch_h, g.args[9]),
            _first(b, api, "left_top_w", left_w, g.args[0], None if g.last is None else g.last[0]),
            _first(b, api, "left_top_h", left_h, g.args[2], None),
        )

    def load3dv2(
        self,
        dst,
        src,
        pad_list,
        l1_h,
        l1_w,
        channel_size,
        k_extension,
        m_extension,
        k_start_pt,
        m_start_pt,
        stride_w,
        stride_h,
        filter_w,
        filter_h,
        dilation_filter_w,
        dilation_filter_h,
        en_transpose=False,
        en_small_k=False,
        pad_value=None,
    ):
        """m_extension x k_extension of the image-to-column matrix (rows: output pixels; columns: c1, filter_h,
        filter_w, c0) from L1 to L0A, or, its rows being k of the product, to L0B. ``en_transpose``: the
        transpose into L0A. ``pad_value`` None is 0."""
        b, api = self._b, "load3dv2"
        if b.dead:
            return
        dst, src = self._load3d_operands(api, dst, src, (ir.L0A, ir.L0B))
        size, to_l0b = SIZE[src.dtype], dst.storage.buffer.scope == ir.L0B
        if flag(en_small_k, api, "en_small_k"):
            raise b.fail(TikSupportError, api, "en_small_k", True, "False")
        turn = flag(en_transpose, api, "en_transpose") and not to_l0b
        if (turn or to_l0b) and size == 1:
            what = "dtype of a transposed load" if turn else "dtype of a load into l0b"
            raise b.fail(TikError, api, what, src.dtype, "16 and 32-bit dtypes")
        pairs = pairs_of(stride_w, stride_h, filter_w, filter_h, dilation_filter_w, dilation_filter_h)
        g = geometry(b, api, pad_list, l1_h, l1_w, pairs)
        k0 = BLOCK_BYTES // size
        names = ("channel_size", "k_extension", "m_extension", "k_start_pt", "m_start_pt")
        given = (channel_size, k_extension, m_extension, k_start_pt, m_start_pt)
        window = tuple(
            ranged(v, api, n, 0, MAX_MAP if n == "m_start_pt" else 65535) for n, v in zip(names, given, strict=True)
        )
        for name, value in (("channel_size", window[0]), ("k_start_pt", window[3])):
            if value.__class__ is int and value % k0:
                raise b.fail(TikSupportError, api, name, value, f"multiples of {k0} for {src.dtype}")
        layout = 1 if to_l0b else 2 if turn else 0
        k_ext, m_ext = window[1], window[2]
        if k_ext.__class__ is int and m_ext.__class__ is int:
            units = (k0, ROWS) if layout == 0 else (ROWS, k0)
            check_extent(dst, -(-k_ext // units[0]) * units[0] * -(-m_ext // units[1]) * units[1] * size, api, "dst")
        value = scalar_operand(b, 0 if pad_value is None else pad_value, src.dtype, api, "pad_value")
        b.body.append(ir.Instr(api, (dst.ref(), src.ref()), (*window, *g.args, value), (layout,), b.loc()))

    def col2img(
        self,
        dst,
        src,
        pad,
        l1_h,
        l1_w,
        fetch_filter_w,
        fetch_filter_h,
        left_top_w,
        left_top_h,
        stride_w,
        stride_h,
        filter_w,
        filter_h,
        dilation_filter_w,
        dilation_filter_h,
        repeat_time,
    ):
        """Inverse of load3dv1 in UB for one filter tap: rows of ``repeat_time`` fractals of 16 pixels x 16
        channels are added to dst [H, W, 16] where the tap of each pixel lies."""
        b, api = self._b, "col2img"
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        check_same_dtype(b, api, dst, src)
        require(b, api, api, SHORT[src.dtype], src.dtype)
        for t, name in ((dst, "dst"), (src, "src")):
            check_scope(b, t, api, name, (ir.UB,))
            check_start(t, api, name)
        pairs = pairs_of(stride_w, stride_h, filter_w, filter_h, dilation_filter_w, dilation_filter_h)
        g = geometry(b, api, pad, l1_h, l1_w, pairs)
        start = self._first_tap(api, g, fetch_filter_w, fetch_filter_h, left_top_w, left_top_h)
        repeat = ranged(repeat_time, api, "repeat_time", 1, 255)
        size = SIZE[src.dtype]
        if repeat.__class__ is int:
            check_extent(src, repeat * ROWS * COL2IMG_CHANNELS * size, api, "src")
        height, width = g.args[4], g.args[5]
        if height.__class__ is int and width.__class__ is int:
            check_extent(dst, height * width * COL2IMG_CHANNELS * size, api, "dst")
        b.body.append(ir.Instr(api, (dst.ref(), src.ref()), (*start, *g.args, repeat), (), b.loc()))


def need_static(api: str, name: str, value: Any) -> int:
    """Python int of a parameter that must be known while tracing."""
    if isinstance(value, Expr) or value.__class__ is not int:
        raise TikError(describe(api, name, "a Scalar", "a Python int"), user_location())
    return value
