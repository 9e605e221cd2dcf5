# SPDX-License-Identifier: Apache-2.0
"""v4dtrans, load_smask, load_image."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, TikSupportError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr
from ms_custom_ops.program.isa import BLOCK_BYTES
from ms_custom_ops.program.names import IMAGE_CROP, IMAGE_PAD, IMAGE_SWAP
from ms_custom_ops.soc.support import SHORT, require
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import (
    as_tensor,
    check_apart,
    check_extent,
    check_same_dtype,
    check_scope,
    check_start,
    flag,
    number,
    ranged,
)
from ms_custom_ops.tik.tensor import Tensor

MAX_SIDE = 4095
SMASK_BLOCKS = 8
_FUNCTIONS = "sums of 1 (crop), 4 (swap) and 512 (padding of channels)"
# input_format numbers of the public documents: name, bytes of a pixel in src0.
IMAGE_FORMATS = {0: ("YUV420SP_U8", 1), 4: ("RGB888_U8", 3), 9: ("YUV400_U8", 1)}


class ShapeMixin:
    """``Tik`` methods of this module."""

    _b: Builder

    def v4dtrans(self, chw2hwc, dst, src, m_len, channels):
        """Transpose in UB between [channels, m_len] (CHW) and [m_len, channels] (HWC)."""
        b, api = self._b, "v4dtrans"
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        check_same_dtype(b, api, dst, src)
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        for t, name in ((dst, "dst"), (src, "src")):
            check_scope(b, t, api, name, (ir.UB,))
            check_start(t, api, name)
        to_hwc = flag(chw2hwc, api, "chw2hwc")
        m, c = ranged(m_len, api, "m_len", 1, MAX_SIDE), ranged(channels, api, "channels", 1, MAX_SIDE)
        size = SIZE[dst.dtype]
        if m.__class__ is int and m * size % BLOCK_BYTES:
            raise b.fail(TikError, api, "m_len", m, f"multiples of {BLOCK_BYTES // size} for {dst.dtype}")
        if m.__class__ is int and c.__class__ is int:
            need = m * c * size
            check_extent(dst, need, api, "dst")
            check_extent(src, need, api, "src")
            check_apart(api, dst, src, need, need)
            same = dst.storage is src.storage and dst.offset == src.offset if isinstance(dst.offset, int) else False
            if same and need > 256:
                raise b.fail(TikError, api, "bytes transposed in place", need, "at most 256")
        b.body.append(ir.Instr(api, (dst.ref(), src.ref()), (m, c), (int(to_hwc),), b.loc()))

    def load_smask(self, dst, src, load_size, sid=0):
        """``load_size`` units of 32 bytes from GM or UB to a tensor of scope_smask."""
        b, api = self._b, "load_smask"
        if b.dead:
            return
        dst, src = as_tensor(dst, api, "dst"), as_tensor(src, api, "src")
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        check_same_dtype(b, api, dst, src)
        check_scope(b, dst, api, "dst", (ir.SMASK,))
        check_scope(b, src, api, "src", (ir.GM, ir.UB))
        check_start(dst, api, "dst")
        check_start(src, api, "src")
        ranged(sid, api, "sid", 0, 15)
        units = ranged(load_size, api, "load_size", 1, SMASK_BLOCKS)
        if units.__class__ is int:
            for t, name in ((dst, "dst"), (src, "src")):
                check_extent(t, units * BLOCK_BYTES, api, name)
        b.body.append(ir.Instr("data_move", (dst.ref(), src.ref()), (1, units * BLOCK_BYTES, 0, 0), (), b.loc()))

    def load_image(
        self,
        dst,
        src0,
        src1,
        input_format,
        function_switch,
        src_info,
        crop_info,
        pre_clip_info,
        swap_list,
        csc_info,
        scf_info,
        post_clip_info,
        dtc_info,
        flip_mode,
        channel_pad_info,
        area_pad_info,
        stretch_info,
        raw_info,
        sid,
    ):
        """An image in GM to L1 [H, W, C0] (uint8: C0 32; float16, by value: C0 16; further channels 0).

        ``input_format`` 0 YUV420SP_U8 (src0 Y, src1 UV, None: behind Y), 4 RGB888_U8, 9 YUV400_U8. ``function_switch``
        is a sum of 1 (crop), 4 (swap of channels) and 512 (padding of channels, with zeros); 0 or None: what
        ``crop_info`` and ``swap_list`` ask for. ``src_info``: ``src_horizontal_size``, ``src_vertical_size``;
        ``crop_info``: ``dst_horizontal_size``, ``dst_vertical_size``, ``crop_horizontal_start``,
        ``crop_vertical_start``; ``swap_list`` [rb_swap, uv_swap, ax_swap]. All of them may be Scalars, which are
        checked while the kernel runs. The data of other functions is not read: a ``function_switch`` that asks for one
        is refused, and so is a ``flip_mode``.
        """
        b, api = self._b, "load_image"
        if b.dead:
            return
        kind = number(input_format, api, "input_format")
        if kind.__class__ is int and kind not in IMAGE_FORMATS:
            names = ", ".join(f"{k} ({n})" for k, (n, _) in IMAGE_FORMATS.items())
            raise b.fail(TikSupportError, api, "input_format", kind, names)
        functions = self._image_functions(api, function_switch, crop_info, swap_list)
        off = {
            "pre_clip_info": pre_clip_info,
            "csc_info": csc_info,
            "scf_info": scf_info,
            "post_clip_info": post_clip_info,
            "dtc_info": dtc_info,
            "channel_pad_info": channel_pad_info,
            "area_pad_info": area_pad_info,
            "stretch_info": stretch_info,
            "raw_info": raw_info,
        }
        if function_switch is None or not isinstance(function_switch, Expr) and not function_switch:
            for name, value in off.items():  # nothing else says that it is off
                if value not in (None, 0, False, {}, []):
                    raise b.fail(TikSupportError, api, name, value, "None or 0 (crop and swap alone are supported)")
        flip = number(0 if flip_mode is None else flip_mode, api, "flip_mode")
        if flip.__class__ is not int or flip:
            raise b.fail(TikSupportError, api, "flip_mode", flip_mode, "0")
        ranged(sid, api, "sid", 0, 15)
        dst, src0 = as_tensor(dst, api, "dst"), as_tensor(src0, api, "src0")
        require(b, api, api, SHORT[dst.dtype], dst.dtype)
        check_scope(b, dst, api, "dst", (ir.L1,))
        check_start(dst, api, "dst")
        window = self._image_window(api, kind, src_info, crop_info)
        src1 = self._image_pairs(api, kind, src0, src1, window)
        for t, name in ((src0, "src0"), (src1, "src1")):
            check_scope(b, t, api, name, (ir.GM,))
            if t.dtype != "uint8":
                raise b.fail(TikError, api, f"dtype of {name}", t.dtype, "uint8")
        swaps = self._image_swaps(api, kind, swap_list)
        known = [v for v in (kind, functions) if v.__class__ is int]
        if len(known) == 2:
            self._image_extents(api, dst, src0, src1, kind, _seen(functions, window))
        args = (*window, kind, functions, *swaps)
        b.body.append(ir.Instr(api, (dst.ref(), src0.ref(), src1.ref()), args, (), b.loc()))

    def _image_functions(self, api: str, switch: Any, crop_info: Any, swap_list: Any) -> Any:
        """The functions that are on, as a sum."""
        value = number(0 if switch is None else switch, api, "function_switch")
        if value.__class__ is not int:
            return value
        if not value:
            return IMAGE_CROP * (crop_info is not None) + IMAGE_SWAP * (swap_list not in (None, 0))
        if value & ~(IMAGE_CROP | IMAGE_SWAP | IMAGE_PAD):
            raise self._b.fail(TikSupportError, api, "function_switch", value, _FUNCTIONS)
        return value

    def _image_pairs(self, api: str, kind: Any, src0: Tensor, src1: Any, window: tuple) -> Tensor:
        """The plane of U and V: of its own, or behind the plane of Y."""
        if src1 is not None:
            return as_tensor(src1, api, "src1") if kind.__class__ is not int or kind == 0 else src0
        if kind.__class__ is int and kind != 0:
            return src0
        return src0.shifted(window[0] * window[1])

    def _image_window(self, api: str, kind: Any, src_info: Any, crop_info: Any) -> tuple[Any, ...]:
        """src width and height, first column and row, width and height of the crop."""
        b = self._b

        def side(info: Any, info_name: str, key: str, low: int, default: Any = None) -> Any:
            if not isinstance(info, dict):
                raise b.fail(TikError, api, info_name, info, "a dict")
            value = info.get(key, default)
            v = ranged(value, api, key, low, MAX_SIDE)
            if kind.__class__ is int and kind == 0 and v.__class__ is int and v % 2:
                raise b.fail(TikError, api, f"{key} of YUV420SP_U8", v, "even numbers")
            return v

        src_w = side(src_info, "src_info", "src_horizontal_size", 1)
        src_h = side(src_info, "src_info", "src_vertical_size", 1)
        crop = {} if crop_info is None else crop_info
        x = side(crop, "crop_info", "crop_horizontal_start", 0, 0)
        y = side(crop, "crop_info", "crop_vertical_start", 0, 0)
        w = side(crop, "crop_info", "dst_horizontal_size", 1, src_w)
        h = side(crop, "crop_info", "dst_vertical_size", 1, src_h)
        line = crop.get("single_line_enable", 0)
        if not (line is None or line.__class__ in (int, bool) and not line):
            raise b.fail(TikSupportError, api, "single_line_enable", line, "0")
        for name, first, length, size in (("horizontal", x, w, src_w), ("vertical", y, h, src_h)):
            if all(v.__class__ is int for v in (first, length, size)) and first + length > size:
                raise b.fail(TikError, api, f"end of the {name} crop", first + length, f"at most {size}")
        return src_w, src_h, x, y, w, h

    def _image_extents(self, api: str, dst: Tensor, src0: Tensor, src1: Tensor, kind: int, window: tuple) -> None:
        if any(v.__class__ is not int for v in window):
            return
        src_w, _, _, y, w, h = window
        check_extent(dst, w * h * BLOCK_BYTES, api, "dst")
        rows = y + h
        check_extent(src0, ((rows - 1) * src_w + window[2] + w) * IMAGE_FORMATS[kind][1], api, "src0")
        if kind == 0:
            check_extent(src1, (rows // 2 - 1) * src_w + window[2] + w, api, "src1")

    def _image_swaps(self, api: str, kind: Any, swap_list: Any) -> list[Any]:
        """rb_swap, uv_swap, ax_swap: R and B of RGB888_U8, U and V of YUV420SP_U8 are exchanged."""
        if swap_list is None or swap_list.__class__ is int and swap_list == 0:
            return [0, 0, 0]
        if not isinstance(swap_list, (list, tuple)) or len(swap_list) != 3:
            raise self._b.fail(TikError, api, "swap_list", swap_list, "[rb_swap, uv_swap, ax_swap]")
        swaps = [ranged(s, api, f"swap_list[{k}]", 0, 1) for k, s in enumerate(swap_list)]
        wanted = {4: 0, 0: 1}.get(kind) if kind.__class__ is int else -1
        for k, on in enumerate(swaps):
            if on.__class__ is int and on and k != wanted and wanted != -1:
                name = IMAGE_FORMATS[kind][0]
                raise self._b.fail(TikSupportError, api, f"swap_list[{k}] for {name}", 1, "0")
        return swaps


def _seen(functions: int, window: tuple) -> tuple:
    """src width and height, first column and row, width and height of what is read."""
    return window if functions & IMAGE_CROP else (*window[:2], 0, 0, *window[:2])
