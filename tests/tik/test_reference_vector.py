# SPDX-License-Identifier: Apache-2.0
"""Element-wise instructions of the reference engine: arithmetic against plain formulas, addressing against a
byte-by-byte interpreter."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import Builder, ref, reference, run_vector, same_bits, values

from ms_custom_ops.engine.reference import DEFINITIONS
from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.program.isa import ISA

LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}


def test_every_instruction_has_a_definition():
    assert set(DEFINITIONS) == set(ISA)


@np.errstate(over="ignore", invalid="ignore")
def rounded(x: float, dtype: str, saturate: bool) -> float:
    """One rounding of a float64, through the scalar conversions of NumPy and ml_dtypes."""
    if dtype in LARGEST:
        x = float(np.float32(x)) if dtype == "bfloat16" else x
        x = float((ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)(x))
        if saturate:
            return 0.0 if math.isnan(x) else max(-LARGEST[dtype], min(LARGEST[dtype], x))
        return x
    return float(np.float32(x))


BINARY = {
    "vadd": lambda r, x, y, d: r(x + y),
    "vsub": lambda r, x, y, d: r(x - y),
    "vmul": lambda r, x, y, d: r(x * y),
    "vmax": lambda r, x, y, d: r(x if x > y else y),
    "vmin": lambda r, x, y, d: r(x if x < y else y),
    "vaddrelu": lambda r, x, y, d: r(max(0.0, r(x + y)) if r(x + y) == r(x + y) else 0.0),
    "vsubrelu": lambda r, x, y, d: r(max(0.0, r(x - y)) if r(x - y) == r(x - y) else 0.0),
    "vmla": lambda r, x, y, d: r(r(x * y) + d),
    "vmadd": lambda r, x, y, d: r(r(x * d) + y),
    "vmaddrelu": lambda r, x, y, d: max(0.0, r(r(x * d) + y)) if r(r(x * d) + y) == r(r(x * d) + y) else 0.0,
}


@pytest.mark.parametrize("saturate", [False, True], ids=["ieee", "saturate"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("op", BINARY)
def test_binary_float(op, dtype, saturate):
    rng = np.random.default_rng(len(op))
    count = 256 // SIZE[dtype]
    x, y, d = (values(rng, dtype, count) for _ in range(3))
    got = run_vector(op, {"src0": x, "src1": y}, d, dict.fromkeys(("dst", "src0", "src1"), dtype), saturate=saturate)
    with np.errstate(all="ignore"):
        want = [
            BINARY[op](lambda v: rounded(np.float64(v), dtype, saturate), *(np.float64(v) for v in lane))
            for lane in zip(x, y, d, strict=True)
        ]
    assert same_bits(got, np.array(want, np.float64).astype(got.dtype), dtype).all()


@pytest.mark.parametrize(
    "op, exact",
    [
        ("vexp", math.exp),
        ("vln", math.log),
        ("vrec", lambda v: 1 / v),
        ("vsqrt", math.sqrt),
        ("vrsqrt", lambda v: 1 / math.sqrt(v)),
        ("vabs", abs),
        ("vrelu", lambda v: max(v, 0.0)),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_unary_float(op, exact, dtype):
    x = np.abs(values(np.random.default_rng(5), dtype, 256 // SIZE[dtype]).astype(np.float64))
    x = np.where(np.isfinite(x) & (x > 0) & (x < 80), x, 1.0).astype(DTYPES[dtype].numpy)
    x = np.where(x == 0, x.dtype.type(1), x)
    got = run_vector(op, {"src": x}, np.zeros_like(x), {"dst": dtype, "src": dtype})
    want = [rounded(exact(v), dtype, True) for v in x.astype(np.float64).tolist()]
    assert same_bits(got, np.array(want).astype(got.dtype), dtype, ulp=1).all()


def test_unary_at_the_border():
    x = np.float32([0, -1, -np.inf, np.inf, np.nan] + [1] * 59)
    one = {"dst": "float32", "src": "float32"}
    with_inf = {op: run_vector(op, {"src": x}, x, one)[:5].tolist() for op in ("vrec", "vln", "vsqrt", "vexp")}
    np.testing.assert_array_equal(with_inf["vrec"], [np.inf, -1, -0.0, 0, np.nan])
    np.testing.assert_array_equal(with_inf["vln"], [-np.inf, np.nan, np.nan, np.inf, np.nan])
    np.testing.assert_array_equal(with_inf["vsqrt"], [0, np.nan, np.nan, np.inf, np.nan])
    np.testing.assert_array_equal(with_inf["vexp"][2:], [0, np.inf, np.nan])


@pytest.mark.parametrize(
    "op, formula",
    [
        ("vadds", lambda x, s: x + s),
        ("vmuls", lambda x, s: x * s),
        ("vmaxs", max),
        ("vmins", min),
        ("vlrelu", lambda x, s: x if x >= 0 else x * s),
    ],
)
def test_scalar_operand(op, formula):
    x = np.linspace(-4, 4, 64).astype(np.float32)
    got = run_vector(op, {"src": x}, np.zeros_like(x), {"dst": "float32", "src": "float32"}, scalar=0.25)
    assert got.tolist() == [float(np.float32(formula(v, 0.25))) for v in x.tolist()]


@pytest.mark.parametrize("op", ["vmax", "vmin"])
def test_equal_or_unordered_operands_give_the_second(op):
    x, y = np.float32([0.0, -0.0, np.nan, 1] * 16), np.float32([-0.0, 0.0, 5, np.nan] * 16)
    got = run_vector(op, {"src0": x, "src1": y}, np.zeros_like(x), dict.fromkeys(("dst", "src0", "src1"), "float32"))
    assert same_bits(got, y, "float32").all()
    got = run_vector(op + "s", {"src": x}, np.zeros_like(x), {"dst": "float32", "src": "float32"}, scalar=-0.0)
    want = np.float32([-0.0, -0.0, -0.0, 1 if op == "vmax" else -0.0] * 16)
    assert same_bits(got, want, "float32").all()


def test_vlrelu_keeps_zero():
    x = np.zeros(64, np.float32)
    got = run_vector("vlrelu", {"src": x}, x - 1, {"dst": "float32", "src": "float32"}, scalar=-math.inf)
    assert got.tobytes() == x.tobytes()


def test_scalar_is_converted_to_the_dtype_of_src():
    x = np.zeros(128, np.float16)
    got = run_vector("vadds", {"src": x}, x, {"dst": "float16", "src": "float16"}, scalar=0.1)
    assert (got == np.float16(0.1)).all()


@pytest.mark.parametrize(
    "op, dtype, formula",
    [
        ("vadd", "int32", lambda x, y: x + y),
        ("vmul", "int16", lambda x, y: x * y),
        ("vsub", "int16", lambda x, y: x - y),
        ("vand", "uint16", lambda x, y: x & y),
        ("vor", "int16", lambda x, y: x | y),
        ("vmax", "int32", max),
    ],
)
def test_integers_wrap(op, dtype, formula):
    rng = np.random.default_rng(9)
    x, y = (values(rng, dtype, 256 // SIZE[dtype]) for _ in range(2))
    got = run_vector(op, {"src0": x, "src1": y}, np.zeros_like(x), dict.fromkeys(("dst", "src0", "src1"), dtype))
    exact = [formula(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert (
        got.tolist()
        == np.array(exact, object).__mod__(1 << 8 * SIZE[dtype]).astype(f"u{SIZE[dtype]}").view(x.dtype).tolist()
    )


@pytest.mark.parametrize(
    "op, count, round_en, value, want",
    [
        ("vshl", 3, 0, 0x4001, 8),
        ("vshl", 16, 0, -1, 0),
        ("vshr", 2, 0, -5, -2),
        ("vshr", 1, 1, -5, -2),
        ("vshr", 16, 0, -5, -1),
        ("vshr", 0, 1, 7, 7),
        ("vshr", 3, 1, 32767, 4096),
        ("vshr", 40, 0, -5, -1),
        ("vshr", 3, 1, 3, 0),
        ("vshr", 3, 1, 4, 1),
    ],
)
def test_shift(op, count, round_en, value, want):
    x = np.full(128, value, np.int16)
    got = run_vector(
        op, {"src": x}, np.zeros_like(x), {"dst": "int16", "src": "int16"}, {"round_en": round_en}, scalar=count
    )
    assert set(got.tolist()) == {want}


@pytest.mark.parametrize("op", ["vmla", "vaxpy"])
def test_float16_products_are_exact_in_float32(op):
    x = np.full(64, 1 + 2.0**-10, np.float16)
    d = np.full(64, 2.0**-20, np.float32)
    sources = {"src": x} if op == "vaxpy" else {"src0": x, "src1": x}
    got = run_vector(op, sources, d, {"dst": "float32", **dict.fromkeys(sources, "float16")}, scalar=1 + 2.0**-10)
    assert set(got.tolist()) == {float(np.float32((1 + 2.0**-10) ** 2 + 2.0**-20))}


def test_mask_keeps_the_other_lanes():
    x, d = np.ones(128, np.float16), np.full(128, 7, np.float16)
    same = dict.fromkeys(("dst", "src0", "src1"), "float16")
    got = run_vector("vadd", {"src0": x, "src1": x}, d, same, mask=15)
    assert got.tolist() == [2] * 15 + [7] * 113
    got = run_vector("vadd", {"src0": x, "src1": x}, d, same, mask=(1 << 63, 1))
    assert got.tolist() == [2] + [7] * 126 + [2]
    got = run_vector(
        "vadd",
        {"src0": np.ones(256, np.float16), "src1": np.ones(256, np.float16)},
        np.full(256, 7, np.float16),
        same,
        {"mask_kind": 2},
        mask=200,
        repeat=0,
    )
    assert got.tolist() == [2] * 200 + [7] * 56
    assert run_vector("vadd", {"src0": x, "src1": x}, d, same, repeat=0).tolist() == d.tolist()


def test_accumulate_idiom_chains_through_the_repeats():
    rows = np.arange(4 * 64, dtype=np.float32)
    got = run_vector(
        "vmla",
        {"src0": rows, "src1": np.ones(64, np.float32)},
        np.zeros(64, np.float32),
        dict.fromkeys(("dst", "src0", "src1"), "float32"),
        repeat=4,
        dst_rep=0,
        src1_rep=0,
    )
    assert got.tolist() == rows.reshape(4, 64).sum(0).tolist()


def test_vector_dup_is_a_bit_move():
    got = run_vector("vector_dup", {}, np.zeros(128, np.float16), {"dst": "float16"}, mask=63, scalar=math.inf)
    assert got.tolist() == [math.inf] * 63 + [0] * 65


def naive_image(
    image: np.ndarray, op: str, mask: int, repeat: int, place: dict[str, tuple[int, int, int]]
) -> np.ndarray:
    """One int16 instruction on a byte image, lane by lane with Python integers."""
    memory = bytearray(image.tobytes())

    def address(name: str, r: int, lane: int) -> int:
        base, blk, rep = place[name]
        return base + r * rep + lane // 16 * blk + lane % 16 * 2

    for r in range(repeat):
        results = []
        for lane in range(128):
            if mask >> lane & 1:
                a, b, d = (
                    int.from_bytes(memory[address(n, r, lane) : address(n, r, lane) + 2], "little")
                    for n in ("src0", "src1", "dst")
                )
                results.append((lane, a + b if op == "vadd" else a * b + d if op == "vmla" else a - b))
        for lane, result in results:
            at = address("dst", r, lane)
            memory[at : at + 2] = (result & 0xFFFF).to_bytes(2, "little")
    return np.frombuffer(bytes(memory), np.uint8)


@st.composite
def layouts(draw):
    """(base, block stride, repeat stride) of three int16 operands in a 4096-byte image."""
    place = {}
    for name in ("dst", "src0", "src1"):
        base = 32 * draw(st.integers(0, 20))
        place[name] = (
            base,
            draw(st.sampled_from([32, 32, 32, 0, 64, 16])),
            draw(st.sampled_from([256, 256, 0, 32, 64, 288])),
        )
    if draw(st.booleans()):
        place["src1"] = place["dst"]
    return place


@settings(max_examples=150, deadline=None)
@given(layouts(), st.sampled_from(["vadd", "vsub", "vmla"]), st.integers(0, 2**128 - 1), st.integers(0, 5))
def test_addressing_and_order_match_a_lane_by_lane_interpreter(place, op, mask, repeat):
    image = np.random.default_rng(mask % 1000).integers(0, 256, 4096, np.uint8)
    b = Builder()
    x, y = b.gm("x", "uint8", 4096, "input"), b.gm("y", "uint8", 4096, "output")
    u = b.local("u", "ub", "uint8", 4096)
    b.move(u, x)
    args = {f"{n}_{kind}": place[n][i + 1] for n in place for i, kind in enumerate(("blk", "rep"))}
    b.instr(
        op,
        {n: ref(u, place[n][0] // 2, "int16") for n in place},
        {"mask_kind": 1},
        mask0=mask & (2**64 - 1),
        mask1=mask >> 64,
        repeat=repeat,
        **args,
    )
    b.move(y, u)
    assert np.array_equal(reference(b.program, [image])[0], naive_image(image, op, mask, repeat, place))
