# SPDX-License-Identifier: Apache-2.0
"""Rows that sort, merge, and work on proposals (8 elements: x1 y1 x2 y2 score label, two unused)."""

from __future__ import annotations

from ms_custom_ops.program.access import groups as access
from ms_custom_ops.program.isa.row import row

_REPEAT = "repeat:count{0..255}"

ROWS = (
    row(
        "vconcat",
        "dst:w src:r",
        f"{_REPEAT} field:count[0..5]",
        "",
        "V",
        access.field,
        "element `field` of proposal 16*r + i of dst = src[16*r + i]; a proposal is 8 elements: x1 y1 x2 y2 score "
        "label",
    ),
    row(
        "vextract",
        "dst:w src:r",
        f"{_REPEAT} field:count[0..5]",
        "",
        "V",
        access.field,
        "dst[16*r + i] = element `field` of proposal 16*r + i of src",
    ),
    row(
        "vrpsort16",
        "dst:w src:r",
        _REPEAT,
        "",
        "V",
        access.sort16,
        "each 16 proposals sorted by score; a group is read whole before it is written",
    ),
    row(
        "vsort32",
        "dst:w src0:r src1:r",
        _REPEAT,
        "",
        "V",
        access.sort32,
        "each 32 scores of src0 (float16, float32) sorted with their uint32 indices of src1 into records of 8 bytes: "
        "score in the first bytes (float16: bytes 2, 3 are 0), index in the last 4",
    ),
    row(
        "vmrgsort",
        "dst:w src0:r src1:r src2:r src3:r sr:w",
        f"{' '.join(f'len{i}:count{{0..65535}}' for i in range(4))} valid_bit:count[1..15] {_REPEAT}",
        "lists[1..4] suspend[0..1] record[0..1]",
        "V",
        access.merge,
        "merge of sorted lists of len_i records: the first 1, 2, 3 or 4 of the `lists` that are given, for valid_bit "
        "1, 3, 7 or 15. record 0: proposals of 8 elements, score "
        "in element 4; 1: the 8-byte records of vsort32. suspend 1 stops when a list runs out (one of length 0 at "
        "once). Repeat r takes its lists, and dst, r * (len0 + .. of the lists) records further on. sr: four uint16, "
        "the records taken from each list in the last repeat. The lists of a repeat are read before dst is written; "
        "others are not read",
    ),
    row(
        "vrpac",
        "dst:w src:r",
        f"{_REPEAT} scalar:value",
        "",
        "V",
        access.areas,
        "areas of 16 proposals per repeat: (x2 - x1 + scalar) * (y2 - y1 + scalar), every step rounded",
    ),
    row(
        "vaadd",
        "dst:w src0:r src1:r",
        _REPEAT,
        "",
        "V",
        access.square,
        "dst[r][i][j] = src0[16*r + i] + src1[j], i and j from 0 to 15",
    ),
    row(
        "viou",
        "dst:w src0:r src1:r",
        f"{_REPEAT} scalar:value",
        "",
        "V",
        access.square,
        "dst[r][i][j]: intersection of proposal a = 16*r + i of src0 and b = j of src1: w*h with w = max(min(a.x2, "
        "b.x2) - max(a.x1, b.x1) + scalar, 0), h alike with y, every step rounded",
    ),
    row(
        "vmrgch",
        "dst:w src:r",
        _REPEAT,
        "",
        "V",
        access.heads,
        "the first 4 elements of each of 8 blocks of 32 bytes per repeat, densely: 32 elements per repeat",
    ),
    row(
        "rpn_cor",
        "ir:rw src0:r src1:r",
        f"{_REPEAT} src0_rep:bytes src1_rep:bytes",
        "",
        "V",
        access.suppression,
        "ir (one uint16) |= the row src0[r][i] (uint16) of every i (0 to 15) and repeat r whose src1[r][i] (uint16) "
        "is 0",
    ),
    row(
        "rpn_cor_diag",
        "dst:w src:r ir:r",
        "",
        "",
        "V",
        access.suppression,
        "i from 0 to 15 in turn: dst[i] = bit i of s; if that is 0, the bits above i of src[i] join s; s starts as ir",
    ),
)
