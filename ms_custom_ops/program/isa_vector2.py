# SPDX-License-Identifier: Apache-2.0
"""Rows of the instruction set: gather and compaction, fused conversions, sorting, proposals, control registers.

Plain rows (name, tensors, args, attrs, pipe, doc) that :mod:`ms_custom_ops.program.isa` appends to its table; the rules
of that module hold. What public documents leave open is settled in the sentences here and nowhere else.

Order of scores, for every sorting instruction: descending; -0 equals +0; NaN stands behind every number and equals
other NaN; equal scores keep their order (lower list number first when lists are merged).
"""

from __future__ import annotations

_M = "mask0 mask1 repeat"
_UN = f"{_M} dst_blk dst_rep src_blk src_rep"
_BIN = f"{_M} dst_blk dst_rep src0_blk src0_rep src1_blk src1_rep"

MASK_PER_REPEAT = 3  # mask_kind of vreduce alone: mask0 elements in each of `repeat` repeats
MODE_FLOAT, MODE_INT = 0, 1  # "which" of set_mode

GATHER = (
    (
        "vgather",
        "dst* src offset",
        f"{_M} base dst_blk dst_rep",
        "mask_kind",
        "V",
        "lane L of repeat r = the element at byte base + offset[r*lanes + L] of src; offsets are uint32 or int32, one per "
        "lane, contiguous, and read before dst is written; lanes are those of dst",
    ),
    (
        "vscatter",
        "dst+ src offset",
        f"{_M} base src_blk src_rep",
        "mask_kind",
        "V",
        "the element at byte base + offset[r*lanes + L] of dst = lane L of repeat r of src; offsets as in vgather; "
        "where two lanes name one place the later lane (then the later repeat) stays",
    ),
    (
        "vgatherb",
        "dst* src offset",
        "repeat dst_blk dst_rep",
        "",
        "V",
        "block b (0 to 7) of repeat r = the 32 bytes at byte offset[8*r + b] of src; uint32 offsets, read before dst is "
        "written",
    ),
    (
        "vbcb",
        "dst* src",
        "repeat dst_blk dst_rep",
        "",
        "V",
        "block b (0 to 7) of repeat r holds src[8*r + b] in every element",
    ),
    (
        "vci",
        "dst*",
        f"{_M} scalar dst_blk dst_rep",
        "mask_kind",
        "V",
        "lane L of repeat r = scalar + (r*lanes + L), rounded once (integers wrap)",
    ),
    ("vcopy", "dst* src", _UN, "mask_kind", "V", "dst = src, bit for bit"),
    (
        "vpadding",
        "dst* src",
        _UN,
        "mask_kind pad_mode pad_side",
        "V",
        "each block of dst is the block that would lie beside the block x of src. pad_side 0: on its left, 1: on its "
        "right. pad_mode 0: the nearest element (x[0] or x[E-1]) in every place; 1: x mirrored with its edge, x[E-1-i]; 2:"
        " x mirrored without its edge, x[E-i] on the left and x[E-2-i] on the right, the place beyond x holds 0. A block "
        "with a selected lane is read whole",
    ),
    (
        "vbi",
        "dst* src0 src1 offset",
        f"{_M} h_repeat dst_blk dst_rep",
        "mask_kind repeat_mode",
        "V",
        "bilinear interpolation: in vertical repeat v (0 to repeat-1) block b of dst + v*dst_rep is the sum over the "
        "horizontal repeats h of the block at byte offset[(v*h_repeat + h)*8 + b] of src0 times a weight: src1[v*h_repeat"
        " + h] (repeat_mode 0) or src1[(v*h_repeat + h)*8 + b] (1); product and sum each rounded, in order of h; uint32 "
        "offsets, read with the weights before dst is written; h_repeat 0 writes nothing",
    ),
    (
        "vreduce",
        "dst* src0 src1 count*",
        "mask0 repeat src0_blk src0_rep src1_rep",
        "mask_kind pattern",
        "V",
        "the kept elements of src0, densely and in order, at dst; count[0] (uint32) is their number. mask_kind 0: all "
        "lanes of each repeat, mask0 unused; 2: mask0 elements in all; 3: mask0 elements in each repeat, blocks "
        "src0_blk apart. pattern 1: even elements of a repeat; 2: odd; 3 to 6: numbers 0 to 3 modulo 4; 7: all; 0: "
        "element e where bit e of the bytes of src1 at r*src1_rep is 1. src1 is read only for pattern 0, and before dst"
        " is written",
    ),
)

FUSED = (
    (
        "vmulconv",
        "dst* src0 src1",
        _BIN,
        "mask_kind",
        "V",
        "float16 product, rounded, then converted to int8 or uint8 as by vconv mode 0",
    ),
    (
        "vadddeqrelu",
        "dst* src0 src1",
        f"{_M} deqscale dst_blk dst_rep src0_blk src0_rep src1_blk src1_rep",
        "mask_kind",
        "V",
        "float16 max(y, 0) where y is the int32 sum (wrapping) converted with deqscale as by vconv",
    ),
    (
        "vsels0",
        "dst* sel src1",
        f"{_M} scalar dst_blk dst_rep src1_blk src1_rep",
        "mask_kind mode",
        "V",
        "as vsel with a scalar in place of s0",
    ),
    (
        "vselss",
        "dst* sel",
        f"{_M} scalar scalar1 dst_blk dst_rep",
        "mask_kind mode",
        "V",
        "as vsel with scalars in place of s0 and s1",
    ),
    (
        "vconv_deq",
        "dst* src scale",
        f"{_M} deqscale dst_blk dst_rep src_blk src_rep",
        "mask_kind high vector",
        "V",
        "int16 to int8 or uint8 by a 64-bit word s: saturate(rint(float32(x) * M) + N), M = bits 31..0 as float32, N = "
        "bits 45..37 as signed; NaN counts as 0. s is deqscale, or (vector 1) scale[L % 16], 16 uint64 values. The 16 "
        "results of block b go to the low (high 0) or high (1) half of the 32-byte block b of dst, the other half is "
        "kept",
    ),
)

SORT = (
    (
        "vconcat",
        "dst+ src",
        "repeat",
        "field",
        "V",
        "element `field` of proposal 16*r + i of dst = src[16*r + i]; a proposal is 8 elements: x1 y1 x2 y2 score label",
    ),
    ("vextract", "dst* src", "repeat", "field", "V", "dst[16*r + i] = element `field` of proposal 16*r + i of src"),
    (
        "vrpsort16",
        "dst* src",
        "repeat",
        "",
        "V",
        "each 16 proposals sorted by score; a group is read whole before it is written",
    ),
    (
        "vsort32",
        "dst* src0 src1",
        "repeat",
        "",
        "V",
        "each 32 scores of src0 (float16, float32) sorted with their uint32 indices of src1 into records of 8 bytes: "
        "score in the first bytes (float16: bytes 2, 3 are 0), index in the last 4",
    ),
    (
        "vmrgsort",
        "dst* src0 src1 src2 src3 sr*",
        "len0 len1 len2 len3 repeat",
        "lists suspend record",
        "V",
        "merge of the first `lists` (1 to 4) sorted lists of len_i records. record 0: proposals of 8 elements, score in"
        " element 4; 1: the 8-byte records of vsort32. suspend 1 stops when a list runs out (one of length 0 at once). "
        "Repeat r takes its lists, and dst, r * (len0 + .. of the lists) records further on. sr: four uint16, the "
        "records taken from each list in the last repeat. The lists of a repeat are read before dst is written; others "
        "are not read",
    ),
    (
        "vrpac",
        "dst* src",
        "repeat scalar",
        "",
        "V",
        "areas of 16 proposals per repeat: (x2 - x1 + scalar) * (y2 - y1 + scalar), every step rounded",
    ),
    ("vaadd", "dst* src0 src1", "repeat", "", "V", "dst[r][i][j] = src0[16*r + i] + src1[j], i and j from 0 to 15"),
    (
        "viou",
        "dst* src0 src1",
        "repeat scalar",
        "",
        "V",
        "dst[r][i][j]: intersection of proposal a = 16*r + i of src0 and b = j of src1: w*h with w = max(min(a.x2, "
        "b.x2) - max(a.x1, b.x1) + scalar, 0), h alike with y, every step rounded",
    ),
    (
        "vmrgch",
        "dst* src",
        "repeat",
        "",
        "V",
        "the first 4 elements of each of 8 blocks of 32 bytes per repeat, densely: 32 elements per repeat",
    ),
    (
        "rpn_cor",
        "ir+ src0 src1",
        "repeat src0_rep src1_rep",
        "",
        "V",
        "ir (one uint16) |= the row src0[r][i] (uint16) of every i (0 to 15) and repeat r whose src1[r][i] (uint16) is 0",
    ),
    (
        "rpn_cor_diag",
        "dst* src ir",
        "",
        "",
        "V",
        "i from 0 to 15 in turn: dst[i] = bit i of s; if that is 0, the bits above i of src[i] join s; s starts as ir",
    ),
)

CONTROL = (
    (
        "set_mode",
        "",
        "",
        "which value",
        "S",
        "from here on in this block. which 0: float16 and bfloat16 results saturate (value 0) or keep inf and NaN (1); "
        "which 1: vconv into an integer saturates (0) or keeps the low bits of the rounded value (1, NaN and inf give 0)",
    ),
)

ROWS = (*GATHER, *FUSED, *SORT, *CONTROL)
