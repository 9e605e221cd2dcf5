# SPDX-License-Identifier: Apache-2.0
"""Rows that reduce the lanes of a repeat, or keep some of them."""

from __future__ import annotations

from ms_custom_ops.program.access import lanes as access
from ms_custom_ops.program.isa.args import LONG, MASK_KIND, strides
from ms_custom_ops.program.isa.row import Row, row

_ARGS = f"mask0:mask mask1:mask repeat:count{{0..255}} dst_rep:bytes{{0..{65535 * 256}}} {strides('src', rep=LONG)}"


def _reduction(name: str, doc: str, attrs: str = "", start: str = "") -> Row:
    return row(
        name, f"dst:w{start} src:r", _ARGS, f"{MASK_KIND} {attrs}", "V", access.reductions, doc, layout="reduction"
    )


ROWS = (
    _reduction(
        "vcadd",
        "one element per repeat at dst + r*dst_rep: tree sum of adjacent pairs over all lanes, lanes that are off "
        "count as +0, each node rounded to the dtype",
        start="[1]",
    ),
    _reduction(
        "vcmax",
        "per repeat the pair (value, lane number as raw unsigned bits of the element width); ties give the lowest "
        "lane; index_low stores the index first. No selected lane: dst is left alone",
        "index_low[0..1]",
        "[1]",
    ),
    _reduction("vcmin", "as vcmax, the minimum", "index_low[0..1]", "[1]"),
    _reduction(
        "vcgadd",
        "per repeat 8 consecutive results, one per 32-byte block: tree sum, lanes that are off count as +0; a block "
        "with no selected lane leaves its result alone",
        start="[8]",
    ),
    _reduction("vcgmax", "as vcgadd, the maximum", start="[8]"),
    _reduction("vcgmin", "as vcgadd, the minimum", start="[8]"),
    _reduction(
        "vcpadd",
        "dst[i] = src[2i] + src[2i+1], lanes/2 consecutive results per repeat at dst + r*dst_rep; lanes that are off "
        "count as +0; a pair with neither lane selected leaves its result alone",
    ),
    row(
        "vreduce",
        "dst:w src0:r src1:r count:w",
        f"mask0:mask repeat:count{{0..65535}} {strides('src0', rep=LONG)} src1_rep:bytes{{0..{LONG}}}",
        "mask_kind[0,2,3] pattern[0..7]",
        "V",
        access.compaction,
        "the kept elements of src0, densely and in order, at dst; count[0] (uint32) is their number. mask_kind 0: "
        "all lanes of each repeat, mask0 unused; 2: mask0 elements in all; 3: mask0 elements in each repeat, blocks "
        "src0_blk apart. pattern 1: even elements of a repeat; 2: odd; 3 to 6: numbers 0 to 3 modulo 4; 7: all; 0: "
        "element e where bit e of the bytes of src1 at r*src1_rep is 1. src1 is read only for pattern 0, and before "
        "dst is written",
    ),
)
