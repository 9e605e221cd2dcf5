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

MASK_COUNT, MASK_BITS, MASK_COUNTER = 0, 1, 2
ROUND_MODES = {"": 0, "none": 0, "round": 1, "floor": 2, "ceil": 3, "ceiling": 3, "away-zero": 4, "to-zero": 5,
               "odd": 6}
COMPARES = {"lt": 0, "gt": 1, "ge": 2, "eq": 3, "ne": 4, "le": 5}
PIPES = {"PIPE_S": 0, "PIPE_V": 1, "PIPE_M": 2, "PIPE_MTE1": 3, "PIPE_MTE2": 4, "PIPE_MTE3": 5, "PIPE_FIX": 6,
         "PIPE_ALL": 7}
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


def _vector_specs() -> list[InstrSpec]:
    unary = {
        "vabs": "|x|", "vrelu": "max(x, 0)", "vexp": "e**x", "vln": "ln x", "vrec": "1/x", "vsqrt": "sqrt x",
        "vrsqrt": "1/sqrt x", "vnot": "bitwise not (16-bit integers)",
    }
    binary = {
        "vadd": "s0 + s1", "vsub": "s0 - s1", "vmul": "s0 * s1", "vdiv": "s0 / s1 (float)",
        "vmax": "s0 if s0 > s1 else s1 (either NaN gives s1)", "vmin": "s0 if s0 < s1 else s1 (either NaN gives s1)",
        "vand": "bitwise and (16-bit integers)", "vor": "bitwise or (16-bit integers)",
        "vaddrelu": "max(s0 + s1, 0)", "vsubrelu": "max(s0 - s1, 0)",
    }
    accumulating = {
        "vmla": "s0 * s1 + dst; float32 dst may have float16 sources (product exact, one rounding of the sum)",
        "vmadd": "s0 * dst + s1", "vmaddrelu": "max(s0 * dst + s1, 0)",
    }
    scalar = {
        "vadds": "x + scalar", "vmuls": "x * scalar", "vmaxs": "x if x > scalar else scalar",
        "vmins": "x if x < scalar else scalar", "vlrelu": "x if x >= 0 else x * scalar",
        "vshl": "x << scalar (integer)",
    }
    specs = [_spec(n, "dst* src", _UN, "mask_kind", "V", d) for n, d in unary.items()]
    specs += [_spec(n, "dst* src0 src1", _BIN, "mask_kind", "V", d) for n, d in binary.items()]
    specs += [_spec(n, "dst+ src0 src1", _BIN, "mask_kind", "V", d) for n, d in accumulating.items()]
    specs += [_spec(n, "dst* src", _SC, "mask_kind", "V", d) for n, d in scalar.items()]
    return specs


_OTHER = [
    _spec("vaxpy", "dst+ src", _SC, "mask_kind", "V",
          "src * scalar + dst; float32 dst may have float16 src and scalar (product exact, one rounding of the sum)"),
    _spec("vshr", "dst* src", _SC, "mask_kind round_en", "V",
          "x >> scalar, arithmetic for signed dtypes; round_en adds half of the last place first"),
    _spec("vector_dup", "dst*", f"{_M} scalar dst_blk dst_rep", "mask_kind", "V", "every lane = scalar"),
    _spec("vconv", "dst* src", f"{_M} deqscale dst_blk dst_rep src_blk src_rep", "mask_kind round_mode has_deq", "V",
          "conversion of src dtype to dst dtype; round_mode numbers are ROUND_MODES; mode 0 is nearest even into a "
          "float and exact-or-nearest-even into an integer; integers saturate, NaN gives 0; float16 overflow gives "
          "inf, which saturate turns into 65504. int32 to float16 with has_deq: "
          "f16(f16(f32(src) * 2**-17) * f16(deqscale)) * 2**17, rounded to float16 after each step"),
    _spec("vcmpv", "dst* src0 src1", "repeat src0_blk src0_rep src1_blk src1_rep", "compare", "V",
          "bit (r*lanes + L) of dst, little endian, = s0 <compare> s1 for every lane of every repeat; COMPARES "
          "numbers; dst is written as whole bytes, lanes/8 per repeat"),
    _spec("vcmpvs", "dst* src", "repeat scalar src_blk src_rep", "compare", "V", "as vcmpv against a scalar"),
    _spec("vsel", "dst* sel src0 src1", _BIN, "mask_kind mode", "V",
          "s0 where the bit of sel is 1, else s1. mode 0: the first lanes/8 bytes of sel serve every repeat; "
          "mode 2: lanes/8 further bytes of sel per repeat"),
    _spec("vsels", "dst* sel src0", f"{_M} scalar dst_blk dst_rep src0_blk src0_rep", "mask_kind mode", "V",
          "as vsel with a scalar in place of s1 (mode 1: lanes/8 further bytes of sel per repeat)"),
    _spec("vcadd", "dst* src", f"{_M} dst_rep src_blk src_rep", "mask_kind", "V",
          "one element per repeat at dst + r*dst_rep: tree sum of adjacent pairs over all lanes, lanes that are off "
          "count as +0, each node rounded to the dtype"),
    _spec("vcmax", "dst* src", f"{_M} dst_rep src_blk src_rep", "mask_kind index_low", "V",
          "per repeat the pair (value, lane number as raw unsigned bits of the element width); ties give the lowest "
          "lane; index_low stores the index first. No selected lane: dst is left alone"),
    _spec("vcmin", "dst* src", f"{_M} dst_rep src_blk src_rep", "mask_kind index_low", "V", "as vcmax, the minimum"),
    _spec("vcgadd", "dst* src", f"{_M} dst_rep src_blk src_rep", "mask_kind", "V",
          "per repeat 8 consecutive results, one per 32-byte block: tree sum, lanes that are off count as +0; a block "
          "with no selected lane leaves its result alone"),
    _spec("vcgmax", "dst* src", f"{_M} dst_rep src_blk src_rep", "mask_kind", "V", "as vcgadd, the maximum"),
    _spec("vcgmin", "dst* src", f"{_M} dst_rep src_blk src_rep", "mask_kind", "V", "as vcgadd, the minimum"),
    _spec("vcpadd", "dst* src", f"{_M} dst_rep src_blk src_rep", "mask_kind", "V",
          "dst[i] = src[2i] + src[2i+1], lanes/2 consecutive results per repeat at dst + r*dst_rep; lanes that are off "
          "count as +0; a pair with neither lane selected leaves its result alone"),
    _spec("vnchwconv", " ".join([f"dst{i}*" for i in range(16)] + [f"src{i}" for i in range(16)]),
          "repeat dst_rep src_rep", "dst_high src_high", "V",
          "16 blocks of 32 bytes per repeat at src_i + r*src_rep, transposed into dst_j + r*dst_rep. 16-bit: "
          "dst_j[i] = src_i[j]. 8-bit: the low or high 16 bytes of each block (src_high, dst_high), the other half of "
          "dst is kept. 32-bit: column k of the 16x8 source goes to dst_2k (rows 0-7) and dst_2k+1 (rows 8-15)"),
    _spec("vtranspose", "dst* src", "", "", "V", "16x16 transpose of 16-bit elements in 512 contiguous bytes"),
    _spec("data_move", "dst* src", "nburst burst src_gap dst_gap", "", "MTE",
          "burst bytes per burst between GM, UB and L1 (also GM to L0A/L0B); bursts in order; a GM destination obeys "
          "the block's atomic mode (set_atomic_add)"),
    _spec("data_move_l0c", "dst* src", "nburst burst src_gap dst_gap deqscale", "block_mode relu", "V",
          "L0C to UB or UB to L0C: burst units per burst, unit = 256 elements (block_mode 0 'm') or the first 16 "
          "elements of a 256-element fractal of L0C against 16 contiguous elements of UB (1 'v'); float32 to float16 "
          "rounds to nearest even, float16 to float32 is exact, int32 to float16 multiplies by deqscale; relu clamps "
          "at 0 afterwards"),
    _spec("data_move_pad", "dst* src", "nburst burst src_gap dst_gap left_pad right_pad pad_value", "", "MTE",
          "GM to UB: per burst left_pad elements of pad_value, burst bytes, right_pad elements, then the UB side "
          "advances to the next 32-byte boundary (bytes up to it undefined; the engines write zeros) plus dst_gap. "
          "UB to GM: exactly burst bytes, the UB side advances by burst rounded up to 32 plus src_gap"),
    _spec("nd2nz", "dst* src",
          "nd_num nd_n nd_d src_nd_stride src_n_stride dst_c0_stride dst_n_stride dst_nd_stride", "", "MTE2",
          "data_move_multi_nd2nz, strides in the units of TIK (elements; c0 and n strides of dst in 32-byte blocks); "
          "the tail of D up to 32 bytes is written as zeros"),
    _spec("load2d", "dst* src", "index repeat src_stride dst_gap", "transpose", "MTE1",
          "512-byte fractals: source fractal index + r*src_stride, destination fractal r*(1 + dst_gap); transpose "
          "turns each 16x16 fractal of 16-bit elements"),
    _spec("mmad", "dst+ fm filter", "m k n", "accumulate", "M",
          "L0C[m, n] (+)= L0A[m, k] @ L0B[k, n]; L0A is zZ, L0B nZ, L0C zN (fractal column n1, then m1, then 16x16); "
          "float: products exact in float32, summed into float32 in ascending k by fused multiply-add, starting from 0 "
          "or (accumulate) from L0C; a float16 L0C rounds at the end. int8/uint8: int32. m == 1 reads L0A as a plain "
          "row of k elements and writes row 0 of each fractal. Rows and columns beyond m, n up to the next multiple "
          "of 16 are computed from what L0A and L0B hold there; k beyond its true size is not read"),
    _spec("matmul", "dst+ a b", "", "m k n init", "M",
          "L0C [N1, M, 16] (+)= L1 a [K1, M, K0] @ L1 b [K1, N, K0] with M and N rounded up to 16 and K0 = 32 bytes; "
          "same arithmetic as mmad; init 1 overwrites, 0 accumulates"),
    _spec("fixpipe", "dst* src", "cburst_num burst_len src_gap dst_gap deqscale", "quantize relu", "FIX",
          "L0C to GM: per burst burst_len bytes of source elements, converted on the way (quantize 0 none, 1 "
          "float32 to float16, 2 int32 to float16 times deqscale), written densely; dst_gap and src_gap in bytes"),
    _spec("set_atomic_add", "", "", "mode", "S", "ATOMIC_MODES number for the following moves of this block to GM"),
    _spec("set_flag", "", "event", "pipe trigger", "S", "PIPES numbers; no effect on results"),
    _spec("wait_flag", "", "event", "pipe trigger", "S", "PIPES numbers; no effect on results"),
    _spec("pipe_barrier", "", "", "pipe", "S", "PIPES number; no effect on results"),
    _spec("block_barrier", "workspace+", "", "", "S", "every block of the multi-core loop arrives before one goes on"),
]

ISA: dict[str, InstrSpec] = {s.name: s for s in (*_vector_specs(), *_OTHER)}
