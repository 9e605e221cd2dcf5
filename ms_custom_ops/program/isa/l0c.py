# SPDX-License-Identifier: Apache-2.0
"""Rows of moves out of and into L0C."""

from __future__ import annotations

from ms_custom_ops.program.access import bursts
from ms_custom_ops.program.access import cube as access
from ms_custom_ops.program.isa.args import BY_ROUTE
from ms_custom_ops.program.isa.row import row

_GAPS = "src_gap:bytes dst_gap:bytes"
_COUNT = "count[0..65535]"

ROWS = (
    row(
        "data_move_l0c",
        "dst:w src:r",
        f"nburst:count burst:count {_GAPS} deqscale:value",
        "block_mode[0..1] relu[0..1]",
        BY_ROUTE,
        bursts.l0c_bursts,
        "L0C to UB or UB to L0C: burst units per burst, unit = 256 elements (block_mode 0 'm') or the first 16 "
        "elements of a 256-element fractal of L0C against 16 contiguous elements of UB (1 'v'); float32 to float16 "
        "rounds to nearest even, float16 to float32 is exact, int32 to float16 multiplies by deqscale; relu clamps "
        "at 0 afterwards",
    ),
    row(
        "fixpipe",
        "dst:w src:r",
        f"cburst_num:count burst_len:bytes {_GAPS} deqscale:value",
        "quantize[0..2] relu[0..1]",
        BY_ROUTE,
        bursts.fixpipe,
        "L0C to GM: per burst burst_len bytes of source elements, converted on the way (quantize 0 none, 1 "
        "float32 to float16, 2 int32 to float16 times deqscale), written densely; dst_gap and src_gap in bytes",
    ),
    row(
        "broadcast_l0c",
        "dst:w src:r",
        f"nburst:{_COUNT} burst:{_COUNT} copies:{_COUNT} {_GAPS}",
        "",
        BY_ROUTE,
        access.broadcast,
        "per burst, burst rows of 16 elements of src, each written as the 16 equal rows of `copies` successive "
        "256-element fractals of dst; equal dtypes or float16 to float32",
    ),
    row(
        "l0c_out",
        "dst:w src:r scale:r bias:r add:r",
        f"nburst:{_COUNT} burst:{_COUNT} {_GAPS} deqscale:value",
        "block_mode[0..4] relu[0..1] quant[0..2] store[0..2] flags[0..15]",
        BY_ROUTE,
        access.l0c_out,
        "L0C to UB or GM with conversion. Units of a burst: block_mode 0 a 16x16 fractal, 1 its first row, 2 its "
        "first 4 columns, 3 a half of 8 columns (2 units per fractal), 4 eight successive elements; dst is "
        "written densely, gaps in bytes. Per element, column n of its fractal in burst b: x + bias[16*b + n] "
        "(flag 2), then quant 0: rounded to dst (float32 to float16, bfloat16; float16 to float32); 1: times a "
        "float16 scale, in float32, rounded to float16; 2: by the bits of a 64-bit scale s, M = bits 31..0 as "
        "float32 (flag 8: low 13 bits 0), N = bits 35..32 + 1, t = float32(x), or with bit 36 "
        "float32(saturate16(x >> N)); int16 dst: saturate(x >> N); float16 dst: t*M rounded to float32, then to "
        "float16; 8-bit dst: saturate(rint(t*M) + bits 45..37 as signed), NaN counts as 0. scale is deqscale, or "
        "scale[16*b + n] (flag 1). relu (or bit 47 of a deqscale with quant 2) clamps the result at 0, for 8-bit "
        "dst x before quantization. Then + add[element of dst] (flag 4). store 1, 2: 16 bytes of an 8-bit dst go "
        "to the low, high half of each 32. Operands without their flag are not read",
    ),
    row(
        "l0c_matrix",
        "dst:w src:r scale:r",
        f"matrices:{_COUNT} rows:{_COUNT} columns:{_COUNT} src_stride:bytes src_next:bytes dst_stride:bytes "
        "dst_next:bytes deqscale:word",
        "width[0,8,16,32] quant[0..1] relu[0..1] vector[0..1]",
        BY_ROUTE,
        access.l0c_matrix,
        "L0C to GM or L1: matrices of rows x columns elements, one every src_next bytes of src and dst_next bytes of "
        "dst. Element (r, c) is read at c/16*src_stride bytes + 16*r + c%16 elements. width 0: written at r*dst_stride "
        "bytes + c elements; 8, 16 or 32: at c/width*dst_stride bytes + r*width + c%width elements. quant 0: as it "
        "is, or rounded to dst (float32 to float16, bfloat16); 1: by the bits of a scale word as quant 2 of l0c_out "
        "with flag 8, the word is deqscale, or scale[c] (vector 1); scale is not read otherwise. relu as there",
    ),
)
