# SPDX-License-Identifier: Apache-2.0
"""Rows that move, fill and transpose."""

from __future__ import annotations

from ms_custom_ops.program.access import bursts as access
from ms_custom_ops.program.isa.args import BY_ROUTE, LONG
from ms_custom_ops.program.isa.row import row

_BURSTS = f"nburst:count{{1..4095}} burst:bytes{{1..{LONG}}} src_gap:bytes{{0..{LONG}}} dst_gap:bytes{{0..{LONG}}}"
_PADDED = "nburst:count{1..4095} burst:bytes{1..65535} src_gap:bytes dst_gap:bytes"
_PAD = "left_pad:count{0..32} right_pad:count{0..32}"
_SIDE = "count[0..65535]"

ROWS = (
    row(
        "data_move",
        "dst:w src:r",
        _BURSTS,
        "",
        BY_ROUTE,
        access.bursts,
        "burst bytes per burst between GM, UB and L1 (also GM to L0A/L0B); bursts in order; a GM destination obeys "
        "the block's atomic mode (set_atomic_add). Behind a GM tensor, in the rest of its allocation, zeros are read "
        "and what is written is dropped",
    ),
    row(
        "data_move_pad",
        "dst:w src:r",
        f"{_PADDED} {_PAD} pad_value:value",
        "",
        BY_ROUTE,
        access.padded_bursts,
        "GM to UB: per burst left_pad elements of pad_value, burst bytes, right_pad elements, then the UB side "
        "advances to the next 32-byte boundary (bytes up to it undefined; the engines write zeros) plus dst_gap. "
        "UB to GM: exactly burst bytes, the UB side advances by burst rounded up to 32 plus src_gap",
    ),
    row(
        "nd2nz",
        "dst:w src:r",
        "nd_num:count nd_n:count nd_d:count src_nd_stride:elements src_n_stride:elements dst_c0_stride:blocks "
        "dst_n_stride:blocks dst_nd_stride:elements",
        "",
        "MTE2",
        access.matrices,
        "data_move_multi_nd2nz, strides in the units of TIK (elements; c0 and n strides of dst in 32-byte blocks); "
        "the tail of D up to 32 bytes is written as zeros",
    ),
    row(
        "load2d",
        "dst:w src:r",
        "index:fractals{0..65535} repeat:count{0..255} src_stride:fractals{0..65535} dst_gap:fractals{0..65535}",
        "transpose[0..1]",
        BY_ROUTE,
        access.fractals,
        "512-byte fractals: source fractal index + r*src_stride, destination fractal r*(1 + dst_gap); transpose "
        "turns each 16x16 fractal of 16-bit elements",
    ),
    row(
        "load2d_square",
        "dst:w src:r",
        f"index:{_SIDE} repeat:{_SIDE} src_stride:{_SIDE} dst_gap:fractals fractal_gap:fractals",
        "",
        BY_ROUTE,
        access.squares,
        "square blocks, transposed: 32x32 elements of 1 byte, 16x16 of 2 or 4 bytes. A block is one fractal, or two "
        "that follow each other in src: of 1 byte one below the other, of 4 bytes side by side. Block index + "
        "r*src_stride goes to fractals r*(1 + dst_gap) and, the second half, r*(1 + dst_gap) + 1 + fractal_gap of dst",
    ),
    row(
        "vnchwconv",
        " ".join([f"dst{i}:w" for i in range(16)] + [f"src{i}:r" for i in range(16)]),
        f"repeat:count{{0..255}} dst_rep:bytes{{0..{LONG}}} src_rep:bytes{{0..{LONG}}}",
        "dst_high[0..1] src_high[0..1]",
        "V",
        access.rows_of_16,
        "16 blocks of 32 bytes per repeat at src_i + r*src_rep, transposed into dst_j + r*dst_rep. 16-bit: "
        "dst_j[i] = src_i[j]. 8-bit: the low or high 16 bytes of each block (src_high, dst_high), the other half of "
        "dst is kept. 32-bit: column k of the 16x8 source goes to dst_2k (rows 0-7) and dst_2k+1 (rows 8-15)",
    ),
    row(
        "vtranspose",
        "dst:w src:r",
        "",
        "",
        "V",
        access.transpose,
        "16x16 transpose of 16-bit elements in 512 contiguous bytes",
    ),
    row(
        "v4dtrans",
        "dst:w src:r",
        f"m_len:{_SIDE} channels:{_SIDE}",
        "to_hwc[0..1]",
        "V",
        access.transpose,
        "to_hwc 1: src [channels, m_len] to dst [m_len, channels]; 0: the reverse. src is read whole first",
    ),
    row(
        "fill",
        "dst:w",
        f"repeat:{_SIDE} pad_value:value",
        "",
        "MTE1",
        access.fill,
        "repeat * 512 bytes of the value in the dtype of dst",
    ),
    row(
        "fill_blocks",
        "dst:w",
        f"repeat:{_SIDE} blocks:{_SIDE} gap:blocks pad_value:value",
        "",
        "MTE2",
        access.filled_blocks,
        "repeat runs of so many blocks of 32 bytes, of the value in the dtype of dst; gap blocks between them",
    ),
    row(
        "load_image",
        "dst:w src:r src1:r",
        " ".join(f"{n}:{_SIDE}" for n in ("src_w", "src_h", "first_w", "first_h", "width", "height"))
        + " format:count[0..9] functions:count[0..1023] rb_swap:count[0..1] uv_swap:count[0..1] ax_swap:count[0..1]",
        "",
        "MTE2",
        access.crop,
        "image in GM to [height, width] blocks of 32 bytes, channels beyond 3 (YUV400: 1) are 0; uint8 as it is, "
        "float16 by value. format 0 YUV420SP (src: Y plane, src1: U and V interleaved, one pair per 2x2 pixels), 4 "
        "RGB888, 9 YUV400. functions is a sum of 1: the crop of width and height from first_w and first_h, else the "
        "whole image; 4: rb_swap exchanges R and B of RGB888, uv_swap U and V of YUV420SP; 512: further channels are "
        "0, as they are without it. Others, and a swap that a format does not have, are refused",
    ),
)
