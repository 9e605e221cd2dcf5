# SPDX-License-Identifier: Apache-2.0
"""Element-wise rows: arithmetic, conversion, comparison, selection."""

from __future__ import annotations

from ms_custom_ops.program.access import lanes as access
from ms_custom_ops.program.isa.args import LONG, MASK, MASK_KIND, strides
from ms_custom_ops.program.isa.row import Row, row

_UNARY = f"{MASK} {strides('dst', 'src')}"
_BINARY = f"{MASK} {strides('dst', 'src0', 'src1')}"
_SCALAR = f"{MASK} scalar:value {strides('dst', 'src')}"
_SHIFT = f"{MASK} scalar:count {strides('dst', 'src')}"


def _lanewise(operands: str, args: str, layout: str, docs: dict[str, str]) -> list[Row]:
    return [row(n, operands, args, MASK_KIND, "V", access.lanes, d, True, layout) for n, d in docs.items()]


_PLAIN = [
    *_lanewise(
        "dst:w src:r",
        _UNARY,
        "unary",
        {
            "vabs": "|x|",
            "vrelu": "max(x, 0)",
            "vexp": "e**x",
            "vln": "ln x",
            "vrec": "1/x",
            "vsqrt": "sqrt x",
            "vrsqrt": "1/sqrt x",
            "vnot": "bitwise not (16-bit integers)",
        },
    ),
    *_lanewise(
        "dst:w src:r", f"{MASK} {strides('dst', 'src', rep=LONG)}", "unary", {"vcopy": "dst = src, bit for bit"}
    ),
    *_lanewise(
        "dst:w src0:r src1:r",
        _BINARY,
        "binary",
        {
            "vadd": "s0 + s1",
            "vsub": "s0 - s1",
            "vmul": "s0 * s1",
            "vdiv": "s0 / s1 (float)",
            "vmax": "s0 if s0 > s1 else s1 (either NaN gives s1)",
            "vmin": "s0 if s0 < s1 else s1 (either NaN gives s1)",
            "vand": "bitwise and (16-bit integers)",
            "vor": "bitwise or (16-bit integers)",
            "vaddrelu": "max(s0 + s1, 0)",
            "vsubrelu": "max(s0 - s1, 0)",
            "vmulconv": "float16 product, rounded, then converted to int8 or uint8 as by vconv mode 0",
        },
    ),
    *_lanewise(
        "dst:rw src0:r src1:r",
        _BINARY,
        "binary",
        {
            "vmla": "s0 * s1 + dst; float32 dst may have float16 sources (product exact, one rounding of the sum)",
            "vmadd": "s0 * dst + s1",
            "vmaddrelu": "max(s0 * dst + s1, 0)",
        },
    ),
    *_lanewise(
        "dst:w src:r",
        _SCALAR,
        "scalar",
        {
            "vadds": "x + scalar",
            "vmuls": "x * scalar",
            "vmaxs": "x if x > scalar else scalar",
            "vmins": "x if x < scalar else scalar",
            "vlrelu": "x if x >= 0 else x * scalar",
        },
    ),
    *_lanewise(
        "dst:rw src:r",
        _SCALAR,
        "scalar",
        {
            "vaxpy": "src * scalar + dst; float32 dst may have float16 src and scalar (product exact, one rounding of "
            "the sum)"
        },
    ),
    *_lanewise("dst:w src:r", _SHIFT, "scalar", {"vshl": "x << scalar (integer)"}),
    *_lanewise("dst:w", f"{MASK} scalar:value {strides('dst')}", "constant", {"vector_dup": "every lane = scalar"}),
    *_lanewise(
        "dst:w",
        f"{MASK} scalar:value {strides('dst')}",
        "constant",
        {"vci": "lane L of repeat r = scalar + (r*lanes + L), rounded once (integers wrap)"},
    ),
]

_OTHER = [
    row(
        "vshr",
        "dst:w src:r",
        _SHIFT,
        f"{MASK_KIND} round_en[0..1]",
        "V",
        access.lanes,
        "x >> scalar, arithmetic for signed dtypes; round_en adds half of the last place first",
        True,
        "scalar",
    ),
    row(
        "vconv",
        "dst:w src:r",
        f"{MASK} deqscale:value {strides('dst', 'src')}",
        f"{MASK_KIND} round_mode[0..6] has_deq[0..1]",
        "V",
        access.lanes,
        "conversion of src dtype to dst dtype; round_mode numbers are ROUND_MODES; mode 0 is nearest even into a "
        "float and exact-or-nearest-even into an integer; integers saturate, NaN gives 0; float16 overflow gives "
        "inf, which saturate turns into 65504. int32 to float16 with has_deq: "
        "f16(f16(f32(src) * 2**-17) * f16(deqscale)) * 2**17, rounded to float16 after each step",
        True,
    ),
    row(
        "vadddeqrelu",
        "dst:w src0:r src1:r",
        f"{MASK} deqscale:value {strides('dst', 'src0', 'src1')}",
        MASK_KIND,
        "V",
        access.lanes,
        "float16 max(y, 0) where y is the int32 sum (wrapping) converted with deqscale as by vconv",
        True,
    ),
    row(
        "vconv_deq",
        "dst:w src:r scale:r",
        f"{MASK} deqscale:word {strides('dst', 'src')}",
        f"{MASK_KIND} high[0..1] vector[0..1]",
        "V",
        access.half_blocks,
        "int16 to int8 or uint8 by a 64-bit word s: saturate(rint(float32(x) * M) + N), M = bits 31..0 as float32, "
        "N = bits 45..37 as signed; NaN counts as 0. s is deqscale, or (vector 1) scale[L % 16], 16 uint64 values. "
        "The 16 results of block b go to the low (high 0) or high (1) half of the 32-byte block b of dst, the other "
        "half is kept",
    ),
    row(
        "vcmpv",
        "dst:w src0:r src1:r",
        f"repeat:count{{0..255}} {strides('src0', 'src1')}",
        "compare[0..5]",
        "V",
        access.compare,
        "bit (r*lanes + L) of dst, little endian, = s0 <compare> s1 for every lane of every repeat; COMPARES "
        "numbers; dst is written as whole bytes, lanes/8 per repeat",
    ),
    row(
        "vcmpvs",
        "dst:w src:r",
        f"repeat:count{{0..255}} scalar:value {strides('src')}",
        "compare[0..5]",
        "V",
        access.compare,
        "as vcmpv against a scalar",
    ),
    row(
        "vcmp",
        "dst:rw src0:r src1:r",
        f"{MASK} {strides('src0', 'src1')}",
        f"{MASK_KIND} compare[0..5]",
        "V",
        access.compare,
        "as vcmpv for the lanes that are on; the bits of the others keep what they are",
    ),
    row(
        "vsel",
        "dst:w sel:r[1] src0:r src1:r",
        _BINARY,
        f"{MASK_KIND} mode[0,2]",
        "V",
        access.select,
        "s0 where the bit of sel is 1, else s1. mode 0: the first lanes/8 bytes of sel serve every repeat; "
        "mode 2: lanes/8 further bytes of sel per repeat. sel may start inside a block, as the bits of a later "
        "repeat do",
        True,
    ),
    row(
        "vsels",
        "dst:w sel:r[1] src0:r",
        f"{MASK} scalar:value {strides('dst', 'src0')}",
        f"{MASK_KIND} mode[0,1]",
        "V",
        access.select,
        "as vsel with a scalar in place of s1 (mode 1: lanes/8 further bytes of sel per repeat)",
        True,
    ),
    row(
        "vsels0",
        "dst:w sel:r[1] src1:r",
        f"{MASK} scalar:value {strides('dst', 'src1')}",
        f"{MASK_KIND} mode[0..2]",
        "V",
        access.select,
        "as vsel with a scalar in place of s0 (mode 1 as mode 2)",
        True,
    ),
    row(
        "vselss",
        "dst:w sel:r[1]",
        f"{MASK} scalar:value scalar1:value {strides('dst')}",
        f"{MASK_KIND} mode[0..2]",
        "V",
        access.select,
        "as vsel with scalars in place of s0 and s1 (mode 1 as mode 2)",
        True,
    ),
]

ROWS = (*_PLAIN, *_OTHER)
