# SPDX-License-Identifier: Apache-2.0
"""Rows that take byte offsets, broadcast elements to blocks, or build borders of blocks."""

from __future__ import annotations

from ms_custom_ops.program.access import gather as access
from ms_custom_ops.program.access import lanes
from ms_custom_ops.program.isa.args import LONG, MASK, MASK_KIND, strides
from ms_custom_ops.program.isa.row import row

_BLOCKS = f"repeat:count{{0..255}} {strides('dst')}"

ROWS = (
    row(
        "vgather",
        "dst:w src:r[any] offset:r",
        f"{MASK} base:bytes {strides('dst')}",
        MASK_KIND,
        "V",
        access.gather,
        "lane L of repeat r = the element at byte base + offset[r*lanes + L] of src; offsets are uint32 or int32, "
        "one per lane, contiguous, and read before dst is written, base + offset a multiple of the size of an element; "
        "lanes are those of dst",
    ),
    row(
        "vscatter",
        "dst:w[any] src:r offset:r",
        f"{MASK} base:bytes {strides('src')}",
        MASK_KIND,
        "V",
        access.gather,
        "the element at byte base + offset[r*lanes + L] of dst = lane L of repeat r of src; offsets as in vgather; "
        "where two lanes name one place the later lane (then the later repeat) stays",
    ),
    row(
        "vgatherb",
        "dst:w src:r[any] offset:r",
        _BLOCKS,
        "",
        "V",
        access.blocks,
        "block b (0 to 7) of repeat r = the 32 bytes at byte offset[8*r + b] of src; uint32 offsets, multiples of "
        "32, read before dst is written",
    ),
    row(
        "vbcb",
        "dst:w src:r",
        _BLOCKS,
        "",
        "V",
        access.blocks,
        "block b (0 to 7) of repeat r holds src[8*r + b] in every element",
    ),
    row(
        "vpadding",
        "dst:w src:r",
        f"{MASK} {strides('dst', 'src')}",
        f"{MASK_KIND} pad_mode[0..2] pad_side[0..1]",
        "V",
        lanes.border,
        "each block of dst is the block that would lie beside the block x of src. pad_side 0: on its left, 1: on its "
        "right. pad_mode 0: the nearest element (x[0] or x[E-1]) in every place; 1: x mirrored with its edge, "
        "x[E-1-i]; 2: x mirrored without its edge, x[E-i] on the left and x[E-2-i] on the right, the place beyond x "
        "holds 0. A block with a selected lane is read whole",
    ),
    row(
        "vbi",
        "dst:w src0:r[any] src1:r offset:r",
        f"{MASK} h_repeat:count{{0..255}} {strides('dst', rep=LONG)}",
        f"{MASK_KIND} repeat_mode[0..1]",
        "V",
        access.bilinear,
        "bilinear interpolation: in vertical repeat v (0 to repeat-1) block b of dst + v*dst_rep is the sum over the "
        "horizontal repeats h of the block at byte offset[(v*h_repeat + h)*8 + b] of src0 times a weight: "
        "src1[v*h_repeat + h] (repeat_mode 0) or src1[(v*h_repeat + h)*8 + b] (1); product and sum each rounded, in "
        "order of h; uint32 offsets, read with the weights before dst is written; h_repeat 0 writes nothing",
    ),
)
