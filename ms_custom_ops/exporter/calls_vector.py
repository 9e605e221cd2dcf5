# SPDX-License-Identifier: Apache-2.0
"""Calls of the vector unit: element by element, conversions, comparisons, selections, reductions."""

from __future__ import annotations

from ms_custom_ops.exporter.context import MOST_REPEATS, Call, Use
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.names import BLOCK_BYTES, MASK_BITS, MASK_COUNTER, MASK_PER_REPEAT

FLOAT = ("float16", "float32")
NUMBER = ("int16", "float16", "int32", "float32")
WORD = ("int16", "uint16")
SHIFTED = ("uint16", "int16", "uint32", "int32")
COPIED = ("float16", "bfloat16", "int16", "uint16", "int32", "uint32", "float32")
ROUND = ("CAST_NONE", "CAST_RINT", "CAST_FLOOR", "CAST_CEIL", "CAST_ROUND", "CAST_TRUNC", "CAST_ODD")
_MASK_BYTES = 16  # the register of compare masks
COMPARE = ("LT", "GT", "GE", "EQ", "NE", "LE")
CASTS = frozenset(
    [("float16", d) for d in ("int8", "uint8", "int16", "int32", "float32")]
    + [("float32", d) for d in ("float16", "bfloat16", "int16", "int32", "int64", "float32")]
    + [("bfloat16", "float32"), ("bfloat16", "int32"), ("int8", "float16"), ("uint8", "float16")]
    + [("int16", "float16"), ("int16", "float32"), ("int32", "float32"), ("int32", "float16"), ("int32", "int16")]
    + [("int32", "int64"), ("int64", "int32"), ("int64", "float32")]
)


def _chunks(u: Use, *strided: str) -> list[int]:
    """Repeats of each call: what is known to be more than 255 becomes several, ``strided`` operands move on."""
    repeat = u.known("repeat")
    if repeat is None or repeat <= MOST_REPEATS or u.attrs.get("mask_kind") == MASK_COUNTER:
        return [0]
    for name in strided:
        if u.known(f"{name}_rep") is None:
            raise u.refuse(f"{name}_rep with {repeat} repeats", "a value of the run", f"at most {MOST_REPEATS} repeats")
    return [min(MOST_REPEATS, repeat - done) for done in range(0, repeat, MOST_REPEATS)]


def _each(u: Use, names: tuple[str, ...], write: object) -> list[str]:
    """One call for each chunk of repeats."""
    found, done = [], 0
    for part in _chunks(u, *names):
        u.moved = {n: done * (u.known(f"{n}_rep") or 0) for n in names} if part else {}
        found.append(write(str(part) if part else u.repeat()))  # type: ignore[operator]
        done += part
    u.moved = {}
    return found


def _unary_params(u: Use, src: str = "src") -> str:
    return (f"UnaryRepeatParams({u.blocks('dst_blk', 65535)}, {u.blocks(f'{src}_blk', 65535)}, "
            f"{u.blocks('dst_rep')}, {u.blocks(f'{src}_rep')})")  # fmt: skip


def _binary_params(u: Use) -> str:
    names = ("dst_blk", "src0_blk", "src1_blk", "dst_rep", "src0_rep", "src1_rep")
    return f"BinaryRepeatParams({', '.join(u.blocks(n) for n in names)})"


def unary(name: str, *dtypes: str) -> Call:
    def call(u: Use) -> list[str]:
        u.need("dst", *dtypes)
        u.need("src", u.dtype("dst"))
        mask, params = u.mask(), _unary_params(u)
        return _each(u, ("dst", "src"), lambda n: f"{name}({u.ref('dst')}, {u.ref('src')}, {mask}, {n}, {params});")

    return call


def binary(name: str, *dtypes: str) -> Call:
    def call(u: Use) -> list[str]:
        u.need("dst", *dtypes)
        u.need("src0", u.dtype("dst"), *(("float16",) if name == "MulAddDst" else ()))
        u.need("src1", u.dtype("src0"))
        mask, params = u.mask(), _binary_params(u)
        return _each(u, ("dst", "src0", "src1"), lambda n: f"{name}({u.ref('dst')}, {u.ref('src0')}, {u.ref('src1')}, "
                     f"{mask}, {n}, {params});")  # fmt: skip

    return call


def product_cast(u: Use) -> list[str]:
    u.need("src0", "float16")
    u.need("dst", "int8", "uint8")
    if u.attrs["mask_kind"] == MASK_BITS:
        raise u.refuse("mask", "a list of bits", "a number of lanes")
    mask, params = u.mask(), _binary_params(u)
    return _each(u, ("dst", "src0", "src1"), lambda n: f"MulCast({u.ref('dst')}, {u.ref('src0')}, {u.ref('src1')}, "
                 f"{mask}, {n}, {params});")  # fmt: skip


def scalar(name: str, *dtypes: str) -> Call:
    def call(u: Use) -> list[str]:
        u.need("dst", *dtypes)
        u.need("src", u.dtype("dst"), *(("float16",) if name == "Axpy" else ()))
        mask, params = u.mask(), _unary_params(u)
        by = u.value("scalar", u.dtype("src"))
        more = f", {'true' if u.attrs['round_en'] else 'false'}" if "round_en" in u.attrs else ""
        return _each(u, ("dst", "src"), lambda n: f"{name}({u.ref('dst')}, {u.ref('src')}, {by}, {mask}, {n}, {params}"
                     f"{more});")  # fmt: skip

    return call


def constant(name: str, *dtypes: str) -> Call:
    def call(u: Use) -> list[str]:
        u.need("dst", *dtypes)
        mask, by = u.mask(), u.value("scalar", u.dtype("dst"))
        blk, rep = u.blocks("dst_blk", 65535), u.blocks("dst_rep")
        return _each(u, ("dst",), lambda n: f"{name}({u.ref('dst')}, {by}, {mask}, {n}, {blk}, {rep});")

    return call


def copy(u: Use) -> list[str]:
    u.need("dst", *COPIED)
    mask = u.mask()
    params = ", ".join(u.blocks(n, 65535) for n in ("dst_blk", "src_blk", "dst_rep", "src_rep"))
    return _each(u, ("dst", "src"), lambda n: f"Copy({u.ref('dst')}, {u.ref('src', u.dtype('dst'))}, {mask}, {n}, "
                 f"CopyRepeatParams({params}));")  # fmt: skip


def convert(u: Use) -> list[str]:
    pair = (u.dtype("src"), u.dtype("dst"))
    if pair not in CASTS:
        raise u.refuse("conversion", f"{pair[0]} to {pair[1]}", "a pair that Cast has; others go through float32 "
                       "or float16")  # fmt: skip
    scaled = pair == ("int32", "float16")
    if scaled and not u.attrs["has_deq"]:
        raise u.refuse("int32 to float16", "without deqscale", "deqscale=..., which Cast asks for")
    if scaled:
        u.before.append(f"SetDeqScale({u.value('deqscale', 'float16')});")
    mask, params = u.mask(), _unary_params(u)
    mode = f"RoundMode::{ROUND[u.attrs['round_mode']]}"
    return _each(u, ("dst", "src"), lambda n: f"Cast({u.ref('dst')}, {u.ref('src')}, {mode}, {mask}, {n}, {params});")


def _compared(u: Use, dtype: str) -> str:
    mode = COMPARE[u.attrs["compare"]]
    if dtype not in ("float16", "float32", "int32") or (dtype == "int32" and mode != "EQ"):
        raise u.refuse("comparison", f"{mode} of {dtype}", "float16, float32, or EQ of int32")
    return f"CMPMODE::{mode}"


def compare(u: Use) -> list[str]:
    """Into a tensor of bits, or into the register of compare masks."""
    dtype = u.dtype("src0")
    mode, lanes = _compared(u, dtype), 256 // SIZE[dtype]
    sides = [u.blocks(name) for name in ("src0_blk", "src1_blk", "src0_rep", "src1_rep")]
    params = f"BinaryRepeatParams(1, {sides[0]}, {sides[1]}, 8, {sides[2]}, {sides[3]})"
    if u.scope("dst") == ir.SMASK:
        if u.known("repeat") != 1:
            raise u.refuse("repeat", u.number("repeat"), "1 into the register of compare masks")
        mask = u.mask() if "mask0" in u.args else str(lanes)
        return [f"Compare({u.ref('src0')}, {u.ref('src1')}, {mode}, {mask}, {params});"]
    if "mask0" in u.args:
        raise u.refuse("dst", "a tensor, with lanes that are off", "vcmpv, which compares every lane")
    dst = u.ref("dst", "uint8")
    return [f"Compare({dst}, {u.ref('src0')}, {u.ref('src1')}, {mode}, {lanes}, {u.number('repeat')}, {params});"]


def compare_scalar(u: Use) -> list[str]:
    dtype = u.dtype("src")
    mode, lanes = _compared(u, dtype), 256 // SIZE[dtype]
    if u.scope("dst") == ir.SMASK:
        raise u.refuse("dst", "the register of compare masks", "a tensor in UB")
    params = f"UnaryRepeatParams(1, {u.blocks('src_blk')}, 8, {u.blocks('src_rep')})"
    return [f"CompareScalar({u.ref('dst', 'uint8')}, {u.ref('src')}, {u.value('scalar', dtype)}, {mode}, {lanes}, "
            f"{u.number('repeat')}, {params});"]  # fmt: skip


def select(u: Use) -> list[str]:
    """Of two tensors."""
    u.need("dst", *FLOAT)
    params = _binary_params(u)
    if u.scope("sel") == ir.SMASK:
        return _by_register(u, params)
    if not u.attrs["mode"] and not u.on_grid("sel", BLOCK_BYTES):
        return _by_register(u, params)
    mode = "VSEL_TENSOR_TENSOR_MODE" if u.attrs["mode"] else "VSEL_CMPMASK_SPR"
    return [f"Select({u.ref('dst')}, {u.ref('sel', 'uint8')}, {u.ref('src0')}, {u.ref('src1')}, SELMODE::{mode}, "
            f"{u.mask()}, {u.repeat()}, {params});"]  # fmt: skip


def _by_register(u: Use, params: str) -> list[str]:
    """By the register of compare masks, which takes bits that Select does not: those between two blocks of 32 bytes."""
    if u.scope("sel") != ir.SMASK:
        if not u.on_grid("sel", _MASK_BYTES):
            raise u.refuse("sel", "a start that is known only while running", f"multiples of {_MASK_BYTES} bytes")
        u.before.append(f"SetCmpMask({u.ref('sel', 'uint8')});")
    _set_mask(u)
    return [f"Select<{u.kind('dst')}, SELMODE::VSEL_CMPMASK_SPR>({u.ref('dst')}, {u.ref('src0')}, {u.ref('src1')}, "
            f"{u.repeat()}, {params});"]  # fmt: skip


def select_scalar(u: Use) -> list[str]:
    """Of a tensor and a number."""
    u.need("dst", *FLOAT)
    if u.scope("sel") == ir.SMASK or not u.attrs["mode"]:
        raise u.refuse("mode", u.attrs["mode"], "1, with the bits in a tensor")
    sides = [u.blocks(name) for name in ("dst_blk", "src0_blk", "dst_rep", "src0_rep")]
    params = f"BinaryRepeatParams({sides[0]}, {sides[1]}, 1, {sides[2]}, {sides[3]}, 8)"
    return [f"Select({u.ref('dst')}, {u.ref('sel', 'uint8')}, {u.ref('src0')}, {u.value('scalar', u.dtype('dst'))}, "
            f"SELMODE::VSEL_TENSOR_SCALAR_MODE, {u.mask()}, {u.repeat()}, {params});"]  # fmt: skip


def _set_mask(u: Use) -> None:
    """The mask register, for a call that has no mask of its own."""
    kind = u.attrs["mask_kind"]
    if kind == MASK_COUNTER:
        raise u.refuse("mask", "a count of elements in all", "a mask for each repeat")
    low, high = u.known("mask0"), u.known("mask1")
    if low is None or high is None:
        raise u.refuse("mask", "known only while running", "a mask that is known while tracing")
    if kind == 0:
        word = (1 << low) - 1
        low, high = word & (1 << 64) - 1, word >> 64
    words = ", ".join(f"0x{v & (1 << 64) - 1:x}" for v in (high, low))
    u.before.append(f"SetVectorMask<{u.kind('dst')}, MaskMode::NORMAL>({words});")


def reduction(name: str, unit: str) -> Call:
    """``unit``: what dst_rep counts: "element", "pair", "results" (8), "half" (128 bytes)."""

    def call(u: Use) -> list[str]:
        u.need("dst", *FLOAT)
        size = SIZE[u.dtype("dst")]
        step = {"element": size, "pair": 2 * size, "results": 8 * size, "half": 128}[unit]
        mask = u.mask()
        dst_rep = u.units("dst_rep", step, f"{name} counts them", 65535)
        src_blk, src_rep = u.blocks("src_blk", 65535), u.blocks("src_rep", 65535)
        order = ""
        if unit == "pair":
            order = ", ReduceOrder::ORDER_INDEX_VALUE" if u.attrs["index_low"] else ", ReduceOrder::ORDER_VALUE_INDEX"

        def one(n: str) -> str:
            lanes = f"{mask}, {n}" if unit in ("element", "pair") else f"{n}, {mask}"
            return f"{name}({u.ref('dst')}, {u.ref('src')}, {lanes}, {dst_rep}, {src_blk}, {src_rep}{order});"

        return _each(u, ("dst", "src"), one)

    return call


def compaction(u: Use) -> list[str]:
    """GatherMask; what it kept is a variable."""
    if u.scope("count") != ir.SMASK:
        raise u.refuse("count", f"in {u.scope('count')}", "a Scalar (remain_repeat or rsvd_scalar)")
    kind, pattern = u.attrs["mask_kind"], u.attrs["pattern"]
    wanted = MASK_PER_REPEAT if u.program.split_cores else MASK_COUNTER
    if kind not in (0, wanted):
        raise u.refuse("mask mode", "counter", "normal, on this chip")
    u.need("src0", *COPIED)
    bits = "uint16" if SIZE[u.dtype("src0")] == 2 else "uint32"
    what = f"uint8_t({pattern})" if pattern else u.ref("src1", bits)
    strides = f"{u.blocks('src0_rep', 65535)}, {u.blocks('src1_rep')}"
    params = f"GatherMaskParams({u.blocks('src0_blk')}, {u.number('repeat')}, {strides})"
    kept = u.places.kept()
    return [f"GatherMask({u.ref('dst')}, {u.ref('src0', u.dtype('dst'))}, {what}, {'true' if kind else 'false'}, "
            f"{u.number('mask0')}, {params}, {kept});"]  # fmt: skip


CALLS: dict[str, Call] = {
    "vabs": unary("Abs", *FLOAT), "vrelu": unary("Relu", "float16", "float32", "int32"), "vexp": unary("Exp", *FLOAT),
    "vln": unary("Ln", *FLOAT), "vrec": unary("Reciprocal", *FLOAT), "vsqrt": unary("Sqrt", *FLOAT),
    "vrsqrt": unary("Rsqrt", *FLOAT), "vnot": unary("Not", *WORD), "vcopy": copy,
    "vadd": binary("Add", *NUMBER), "vsub": binary("Sub", *NUMBER), "vmul": binary("Mul", *NUMBER),
    "vdiv": binary("Div", *FLOAT), "vmax": binary("Max", *NUMBER), "vmin": binary("Min", *NUMBER),
    "vand": binary("And", *WORD), "vor": binary("Or", *WORD),
    "vmulconv": product_cast,
    "vaddrelu": binary("AddRelu", "float16", "float32", "int16"),
    "vsubrelu": binary("SubRelu", "float16", "float32", "int16"), "vmla": binary("MulAddDst", *FLOAT),
    "vmadd": binary("FusedMulAdd", *FLOAT), "vmaddrelu": binary("FusedMulAddRelu", *FLOAT),
    "vadds": scalar("Adds", *NUMBER), "vmuls": scalar("Muls", *NUMBER), "vmaxs": scalar("Maxs", *NUMBER),
    "vmins": scalar("Mins", *NUMBER), "vlrelu": scalar("LeakyRelu", *FLOAT), "vaxpy": scalar("Axpy", *FLOAT),
    "vshl": scalar("ShiftLeft", *SHIFTED), "vshr": scalar("ShiftRight", *SHIFTED),
    "vector_dup": constant("Duplicate", *COPIED), "vci": constant("CreateVecIndex", *NUMBER), "vconv": convert,
    "vcmpv": compare, "vcmp": compare, "vcmpvs": compare_scalar, "vsel": select, "vsels": select_scalar,
    "vcadd": reduction("WholeReduceSum", "element"), "vcmax": reduction("WholeReduceMax", "pair"),
    "vcmin": reduction("WholeReduceMin", "pair"), "vcgadd": reduction("BlockReduceSum", "results"),
    "vcgmax": reduction("BlockReduceMax", "results"), "vcgmin": reduction("BlockReduceMin", "results"),
    "vcpadd": reduction("PairReduceSum", "half"), "vreduce": compaction,
}  # fmt: skip
"""Rows that a call of the vector unit says."""
