# SPDX-License-Identifier: Apache-2.0
"""The instruction set of a Program: for each instruction its operands, arguments and attributes, in order.

The three generations of TIK names (``vadd``, ``vec_add``, ``h_add``) all become these canonical instructions, so that
the engines know one form. Common rules:

* Strides, gaps and bursts are BYTES; block strides and repeat strides are distances from head to head, gaps of moves
  run from the end of one burst to the start of the next.
* A vector instruction works on ``lanes = 256 // widest operand size`` lanes per repeat. Lane ``L`` of repeat ``r`` of
  an operand of ``size`` bytes lies at ``base + r*rep + (L // E)*blk + (L % E)*size`` with ``E = 32 // size``.
* ``mask_kind`` 0 ("count"): the first ``mask0`` lanes; 1 ("bits"): lane L is bit L of ``mask1 << 64 | mask0``;
  2 ("counter"): ``mask0`` elements in all, ``repeat`` is ignored and is ``ceil(mask0 / lanes)``.
  Lanes that are off keep their destination.
* Repeats run in order. Within a repeat every source lane is read before a destination lane is written.
* ``repeat`` 0 is a no-op. A negative count, stride or mask is an error of the Program.
* float16 and bfloat16 results round to nearest even once per instruction (a multiply-add rounds after each of its two
  steps). With ``Program.saturate`` an infinite result becomes the largest finite value and NaN becomes 0;
  float32 is never saturated. Integer arithmetic wraps.
* exp, ln, rec, rsqrt, sqrt and div are the exact function rounded to the destination dtype (float32: within 1 ulp).
"""

from __future__ import annotations

from dataclasses import dataclass

from ms_custom_ops.program.isa_vector2 import ROWS as VECTOR2_ROWS

MASK_COUNT, MASK_BITS, MASK_COUNTER = 0, 1, 2
ROUND_MODES = {
    "": 0,
    "none": 0,
    "round": 1,
    "floor": 2,
    "ceil": 3,
    "ceiling": 3,
    "away-zero": 4,
    "to-zero": 5,
    "odd": 6,
}
COMPARES = {"lt": 0, "gt": 1, "ge": 2, "eq": 3, "ne": 4, "le": 5}
PIPES = {
    "PIPE_S": 0,
    "PIPE_V": 1,
    "PIPE_M": 2,
    "PIPE_MTE1": 3,
    "PIPE_MTE2": 4,
    "PIPE_MTE3": 5,
    "PIPE_FIX": 6,
    "PIPE_ALL": 7,
}
ATOMIC_MODES = {0: None, 1: "float32", 2: "float16", 3: "int16", 4: "int32", 5: "int8", 6: "bfloat16"}

VECTOR_BYTES = 256
BLOCK_BYTES = 32
FRACTAL_ELEMENTS = 256
FRACTAL_BYTES = 512


@dataclass(frozen=True)
class InstrSpec:
    """One instruction: operand names ("dst*" written, "dst+" read and written), arguments, attributes, pipe."""

    name: str
    tensors: tuple[str, ...]
    args: tuple[str, ...]
    attrs: tuple[str, ...]
    pipe: str
    doc: str


def _spec(name: str, tensors: str, args: str, attrs: str, pipe: str, doc: str) -> InstrSpec:
    return InstrSpec(name, tuple(tensors.split()), tuple(args.split()), tuple(attrs.split()), pipe, doc)


_M = "mask0 mask1 repeat"
_UN = f"{_M} dst_blk dst_rep src_blk src_rep"
_BIN = f"{_M} dst_blk dst_rep src0_blk src0_rep src1_blk src1_rep"
_SC = f"{_M} scalar dst_blk dst_rep src_blk src_rep"
_WINDOW = "pad_l pad_r pad_t pad_b l1_h l1_w stride_w stride_h filter_w filter_h dilation_w dilation_h"


def _vector_specs() -> list[InstrSpec]:
    unary = {
        "vabs": "|x|",
        "vrelu": "max(x, 0)",
        "vexp": "e**x",
        "vln": "ln x",
        "vrec": "1/x",
        "vsqrt": "sqrt x",
        "vrsqrt": "1/sqrt x",
        "vnot": "bitwise not (16-bit integers)",
    }
    binary = {
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
    }
    accumulating = {
        "vmla": "s0 * s1 + dst; float32 dst may have float16 sources (product exact, one rounding of the sum)",
        "vmadd": "s0 * dst + s1",
        "vmaddrelu": "max(s0 * dst + s1, 0)",
    }
    scalar = {
        "vadds": "x + scalar",
        "vmuls": "x * scalar",
        "vmaxs": "x if x > scalar else scalar",
        "vmins": "x if x < scalar else scalar",
        "vlrelu": "x if x >= 0 else x * scalar",
        "vshl": "x << scalar (integer)",
    }
    specs = [_spec(n, "dst* src", _UN, "mask_kind", "V", d) for n, d in unary.items()]
    specs += [_spec(n, "dst* src0 src1", _BIN, "mask_kind", "V", d) for n, d in binary.items()]
    specs += [_spec(n, "dst+ src0 src1", _BIN, "mask_kind", "V", d) for n, d in accumulating.items()]
    specs += [_spec(n, "dst* src", _SC, "mask_kind", "V", d) for n, d in scalar.items()]
    return specs


_OTHER = [
    _spec(
        "vaxpy",
        "dst+ src",
        _SC,
        "mask_kind",
        "V",
        "src * scalar + dst; float32 dst may have float16 src and scalar (product exact, one rounding of the sum)",
    ),
    _spec(
        "vshr",
        "dst* src",
        _SC,
        "mask_kind round_en",
        "V",
        "x >> scalar, arithmetic for signed dtypes; round_en adds half of the last place first",
    ),
    _spec("vector_dup", "dst*", f"{_M} scalar dst_blk dst_rep", "mask_kind", "V", "every lane = scalar"),
    _spec(
        "vconv",
        "dst* src",
        f"{_M} deqscale dst_blk dst_rep src_blk src_rep",
        "mask_kind round_mode has_deq",
        "V",
        "conversion of src dtype to dst dtype; round_mode numbers are ROUND_MODES; mode 0 is nearest even into a "
        "float and exact-or-nearest-even into an integer; integers saturate, NaN gives 0; float16 overflow gives "
        "inf, which saturate turns into 65504. int32 to float16 with has_deq: "
        "f16(f16(f32(src) * 2**-17) * f16(deqscale)) * 2**17, rounded to float16 after each step",
    ),
    _spec(
        "vcmpv",
        "dst* src0 src1",
        "repeat src0_blk src0_rep src1_blk src1_rep",
        "compare",
        "V",
        "bit (r*lanes + L) of dst, little endian, = s0 <compare> s1 for every lane of every repeat; COMPARES "
        "numbers; dst is written as whole bytes, lanes/8 per repeat",
    ),
    _spec("vcmpvs", "dst* src", "repeat scalar src_blk src_rep", "compare", "V", "as vcmpv against a scalar"),
    _spec(
        "vcmp",
        "dst+ src0 src1",
        f"{_M} src0_blk src0_rep src1_blk src1_rep",
        "mask_kind compare",
        "V",
        "as vcmpv for the lanes that are on; the bits of the others keep what they are",
    ),
    _spec(
        "vsel",
        "dst* sel src0 src1",
        _BIN,
        "mask_kind mode",
        "V",
        "s0 where the bit of sel is 1, else s1. mode 0: the first lanes/8 bytes of sel serve every repeat; "
        "mode 2: lanes/8 further bytes of sel per repeat",
    ),
    _spec(
        "vsels",
        "dst* sel src0",
        f"{_M} scalar dst_blk dst_rep src0_blk src0_rep",
        "mask_kind mode",
        "V",
        "as vsel with a scalar in place of s1 (mode 1: lanes/8 further bytes of sel per repeat)",
    ),
    _spec(
        "vcadd",
        "dst* src",
        f"{_M} dst_rep src_blk src_rep",
        "mask_kind",
        "V",
        "one element per repeat at dst + r*dst_rep: tree sum of adjacent pairs over all lanes, lanes that are off "
        "count as +0, each node rounded to the dtype",
    ),
    _spec(
        "vcmax",
        "dst* src",
        f"{_M} dst_rep src_blk src_rep",
        "mask_kind index_low",
        "V",
        "per repeat the pair (value, lane number as raw unsigned bits of the element width); ties give the lowest "
        "lane; index_low stores the index first. No selected lane: dst is left alone",
    ),
    _spec("vcmin", "dst* src", f"{_M} dst_rep src_blk src_rep", "mask_kind index_low", "V", "as vcmax, the minimum"),
    _spec(
        "vcgadd",
        "dst* src",
        f"{_M} dst_rep src_blk src_rep",
        "mask_kind",
        "V",
        "per repeat 8 consecutive results, one per 32-byte block: tree sum, lanes that are off count as +0; a block "
        "with no selected lane leaves its result alone",
    ),
    _spec("vcgmax", "dst* src", f"{_M} dst_rep src_blk src_rep", "mask_kind", "V", "as vcgadd, the maximum"),
    _spec("vcgmin", "dst* src", f"{_M} dst_rep src_blk src_rep", "mask_kind", "V", "as vcgadd, the minimum"),
    _spec(
        "vcpadd",
        "dst* src",
        f"{_M} dst_rep src_blk src_rep",
        "mask_kind",
        "V",
        "dst[i] = src[2i] + src[2i+1], lanes/2 consecutive results per repeat at dst + r*dst_rep; lanes that are off "
        "count as +0; a pair with neither lane selected leaves its result alone",
    ),
    _spec(
        "vnchwconv",
        " ".join([f"dst{i}*" for i in range(16)] + [f"src{i}" for i in range(16)]),
        "repeat dst_rep src_rep",
        "dst_high src_high",
        "V",
        "16 blocks of 32 bytes per repeat at src_i + r*src_rep, transposed into dst_j + r*dst_rep. 16-bit: "
        "dst_j[i] = src_i[j]. 8-bit: the low or high 16 bytes of each block (src_high, dst_high), the other half of "
        "dst is kept. 32-bit: column k of the 16x8 source goes to dst_2k (rows 0-7) and dst_2k+1 (rows 8-15)",
    ),
    _spec("vtranspose", "dst* src", "", "", "V", "16x16 transpose of 16-bit elements in 512 contiguous bytes"),
    _spec(
        "data_move",
        "dst* src",
        "nburst burst src_gap dst_gap",
        "",
        "MTE",
        "burst bytes per burst between GM, UB and L1 (also GM to L0A/L0B); bursts in order; a GM destination obeys "
        "the block's atomic mode (set_atomic_add)",
    ),
    _spec(
        "data_move_l0c",
        "dst* src",
        "nburst burst src_gap dst_gap deqscale",
        "block_mode relu",
        "V",
        "L0C to UB or UB to L0C: burst units per burst, unit = 256 elements (block_mode 0 'm') or the first 16 "
        "elements of a 256-element fractal of L0C against 16 contiguous elements of UB (1 'v'); float32 to float16 "
        "rounds to nearest even, float16 to float32 is exact, int32 to float16 multiplies by deqscale; relu clamps "
        "at 0 afterwards",
    ),
    _spec(
        "data_move_pad",
        "dst* src",
        "nburst burst src_gap dst_gap left_pad right_pad pad_value",
        "",
        "MTE",
        "GM to UB: per burst left_pad elements of pad_value, burst bytes, right_pad elements, then the UB side "
        "advances to the next 32-byte boundary (bytes up to it undefined; the engines write zeros) plus dst_gap. "
        "UB to GM: exactly burst bytes, the UB side advances by burst rounded up to 32 plus src_gap",
    ),
    _spec(
        "nd2nz",
        "dst* src",
        "nd_num nd_n nd_d src_nd_stride src_n_stride dst_c0_stride dst_n_stride dst_nd_stride",
        "",
        "MTE2",
        "data_move_multi_nd2nz, strides in the units of TIK (elements; c0 and n strides of dst in 32-byte blocks); "
        "the tail of D up to 32 bytes is written as zeros",
    ),
    _spec(
        "load2d",
        "dst* src",
        "index repeat src_stride dst_gap",
        "transpose",
        "MTE1",
        "512-byte fractals: source fractal index + r*src_stride, destination fractal r*(1 + dst_gap); transpose "
        "turns each 16x16 fractal of 16-bit elements",
    ),
    _spec(
        "mmad",
        "dst+ fm filter",
        "m k n",
        "accumulate",
        "M",
        "L0C[m, n] (+)= L0A[m, k] @ L0B[k, n]; L0A is zZ, L0B nZ, L0C zN (fractal column n1, then m1, then 16x16); "
        "float: products exact in float32, summed into float32 in ascending k by fused multiply-add, starting from 0 "
        "or (accumulate) from L0C; a float16 L0C rounds at the end. int8/uint8: int32. m == 1 reads L0A as a plain "
        "row of k elements and writes row 0 of each fractal. Rows and columns beyond m, n up to the next multiple "
        "of 16 are computed from what L0A and L0B hold there; k beyond its true size is not read",
    ),
    _spec(
        "matmul",
        "dst+ a b",
        "",
        "m k n init",
        "M",
        "L0C [N1, M, 16] (+)= L1 a [K1, M, K0] @ L1 b [K1, N, K0] with M and N rounded up to 16 and K0 = 32 bytes; "
        "same arithmetic as mmad; init 1 overwrites, 0 accumulates",
    ),
    _spec(
        "fixpipe",
        "dst* src",
        "cburst_num burst_len src_gap dst_gap deqscale",
        "quantize relu",
        "FIX",
        "L0C to GM: per burst burst_len bytes of source elements, converted on the way (quantize 0 none, 1 "
        "float32 to float16, 2 int32 to float16 times deqscale), written densely; dst_gap and src_gap in bytes",
    ),
    _spec(
        "load3dv1",
        "dst* src",
        f"c1 fetch_w fetch_h first_w first_h {_WINDOW} jump repeat pad_value",
        "repeat_mode",
        "MTE1",
        "image to column: src is [C1, l1_h, l1_w] blocks of 32 bytes (C0 channels), padded by pad_*; repeat r "
        "writes one fractal of 16 blocks at dst + r*jump*512: block i is the element under the filter tap for "
        "output pixel i. Pixels run over windows at (first_w, first_h) of the padded map, then every stride_w to "
        "the last one that fits, then the next row from its start; taps outside the map, and pixels beyond the "
        "last row, give pad_value. repeat_mode 0: the tap (fetch_w, fetch_h) of channel block c1 moves on by one "
        "per repeat (width, height, c1); 1: the 16 pixels move on by 16 per repeat",
    ),
    _spec(
        "load3dv2",
        "dst* src",
        f"channels k_ext m_ext k_start m_start {_WINDOW} pad_value",
        "layout",
        "MTE1",
        "window [m_start, m_start + m_ext) x [k_start, k_start + k_ext) of the image-to-column matrix, whose rows"
        " are the output pixels and whose columns are (c1, filter_h, filter_w, c0). layout 0: zZ fractals of it "
        "(L0A); 1: nZ fractals of it (L0B, rows are k of the product); 2: zZ fractals of its transpose (L0A). The"
        " window is rounded up to whole fractals; what lies outside the matrix is pad_value. A size of 0 does "
        "nothing",
    ),
    _spec(
        "col2img",
        "dst+ src",
        f"fetch_w fetch_h first_w first_h {_WINDOW} repeat",
        "",
        "V",
        "inverse of load3dv1 with repeat_mode 1 for one filter tap: row i of fractal r of src (16 channels per "
        "pixel in every dtype) is added to the element of dst [l1_h, l1_w, 16] under the tap of pixel 16*r + i; "
        "taps in the padding and pixels beyond the last row add nothing; one rounding per addition, fractals in "
        "order",
    ),
    _spec(
        "conv2d",
        "dst+ fm weight",
        "pad_value",
        f"c1 cout {_WINDOW} init",
        "M",
        "L0C [cout/16, pixels rounded up to 16, 16] (+)= image-to-column matrix of L1 fm [C1, l1_h, l1_w, C0] @ "
        "L1 weight [C1, filter_h, filter_w, cout, C0]; same arithmetic and order of k as matmul over k = (c1, h, "
        "w, c0); rows beyond the last pixel are computed from pad_value",
    ),
    _spec(
        "broadcast_l0c",
        "dst* src",
        "nburst burst copies src_gap dst_gap",
        "",
        "V",
        "per burst, burst rows of 16 elements of src, each written as the 16 equal rows of `copies` successive "
        "256-element fractals of dst; equal dtypes or float16 to float32",
    ),
    _spec(
        "l0c_out",
        "dst* src scale bias add",
        "nburst burst src_gap dst_gap deqscale",
        "block_mode relu quant store flags",
        "V",
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
    _spec("fill", "dst*", "repeat pad_value", "", "MTE1", "repeat * 512 bytes of the value in the dtype of dst"),
    _spec(
        "v4dtrans",
        "dst* src",
        "m_len channels",
        "to_hwc",
        "V",
        "to_hwc 1: src [channels, m_len] to dst [m_len, channels]; 0: the reverse. src is read whole first",
    ),
    _spec(
        "load_image",
        "dst* src src1",
        "src_w src_h first_w first_h width height",
        "format swap",
        "MTE2",
        "crop of an image in GM to [height, width] blocks of 32 bytes, channels beyond 3 (YUV400: 1) are 0; uint8"
        " as it is, float16 by value. format 0 YUV420SP (src: Y plane, src1: U and V interleaved, one pair per "
        "2x2 pixels), 4 RGB888, 9 YUV400; swap exchanges R and B, or U and V",
    ),
    _spec("set_atomic_add", "", "", "mode", "S", "ATOMIC_MODES number for the following moves of this block to GM"),
    _spec("set_flag", "", "event", "pipe trigger", "S", "PIPES numbers; no effect on results"),
    _spec("wait_flag", "", "event", "pipe trigger", "S", "PIPES numbers; no effect on results"),
    _spec("pipe_barrier", "", "", "pipe", "S", "PIPES number; no effect on results"),
    _spec("block_barrier", "workspace+", "", "", "S", "every block of the multi-core loop arrives before one goes on"),
]

ISA: dict[str, InstrSpec] = {s.name: s for s in (*_vector_specs(), *_OTHER, *(_spec(*row) for row in VECTOR2_ROWS))}
