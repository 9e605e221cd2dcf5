# SPDX-License-Identifier: Apache-2.0
"""Conversion, comparison, selection and reductions of the reference engine against plain formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from programs import run_vector, values

from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.program.isa import COMPARES, ROUND_MODES


def vconv(x: np.ndarray, src: str, dst: str, mode: str = "none", saturate: bool = True, **more) -> np.ndarray:
    lanes = 256 // max(SIZE[src], SIZE[dst])
    full = np.zeros(lanes, DTYPES[src].numpy)
    full[: len(x)] = x
    attrs = {"round_mode": ROUND_MODES[mode], "has_deq": int("deqscale" in more)}
    got = run_vector(
        "vconv", {"src": full}, np.zeros(lanes, DTYPES[dst].numpy), {"dst": dst, "src": src}, attrs, saturate, **more
    )
    return got[: len(x)]


@pytest.mark.parametrize(
    "mode, want",
    [
        ("none", [0, 2, 2, -2, 3]),
        ("round", [0, 2, 2, -2, 3]),
        ("floor", [0, 1, 2, -3, 2]),
        ("ceil", [1, 2, 3, -2, 3]),
        ("away-zero", [1, 2, 3, -3, 3]),
        ("to-zero", [0, 1, 2, -2, 2]),
        ("odd", [1, 1, 3, -3, 3]),
    ],
)
@pytest.mark.parametrize(
    "src, dst",
    [("float16", "int32"), ("float32", "int16"), ("float16", "int8"), ("float32", "int64"), ("float32", "float32")],
)
def test_vconv_rounding_modes(mode, want, src, dst):
    x = np.array([0.5, 1.5, 2.5, -2.5, 2.75], DTYPES[src].numpy)
    if src == dst and mode == "none":
        want = x.tolist()
    assert vconv(x, src, dst, mode).tolist() == want


@pytest.mark.parametrize(
    "mode, want",
    [
        ("round", [1.0, -1.0, 1 + 2**-9]),
        ("floor", [1.0, -1 - 2**-10, 1 + 2**-10]),
        ("ceil", [1 + 2**-10, -1.0, 1 + 2**-9]),
        ("away-zero", [1 + 2**-10, -1 - 2**-10, 1 + 2**-9]),
        ("to-zero", [1.0, -1.0, 1 + 2**-10]),
        ("odd", [1 + 2**-10, -1 - 2**-10, 1 + 2**-10]),
    ],
)
def test_vconv_to_float16_by_mode(mode, want):
    half = 2.0**-11
    assert vconv(np.float32([1 + half, -1 - half, 1 + 3 * half]), "float32", "float16", mode).tolist() == want


def test_vconv_saturates():
    x = np.float32([1e6, -1e6, np.inf, np.nan, 300])
    assert vconv(x, "float32", "float16").tolist() == [65504, -65504, 65504, 0, 300]
    np.testing.assert_array_equal(
        vconv(x, "float32", "float16", saturate=False), [np.inf, -np.inf, np.inf, np.nan, 300]
    )
    assert vconv(x, "float32", "int16", "round").tolist() == [32767, -32768, 32767, 0, 300]
    assert vconv(np.float16([-3, 300, 7]), "float16", "uint8").tolist() == [0, 255, 7]
    assert vconv(np.int32([70000, -70000, 5]), "int32", "int16").tolist() == [32767, -32768, 5]
    assert vconv(np.int64([2**40, -5]), "int64", "int32").tolist() == [2**31 - 1, -5]


@pytest.mark.parametrize("deqscale", [1.0, 0.5, 3.0])
def test_vconv_deqscale_rounds_three_times(deqscale):
    x = np.int32([0, 1, 100, 2049, 65519, 2**20 + 77, -77777])
    step = np.float16(np.float32(x) * np.float32(2.0**-17))
    step = np.float16(np.float32(step) * np.float32(deqscale))
    want = np.clip(np.float32(step) * 131072, -65504, 65504).astype(np.float16)
    assert np.array_equal(vconv(x, "int32", "float16", deqscale=deqscale), want)


@pytest.mark.parametrize("compare", COMPARES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_vcmpv_and_vcmpvs(compare, dtype):
    rng = np.random.default_rng(2)
    lanes = 256 // SIZE[dtype]
    x, y = (rng.integers(0, 3, 2 * lanes).astype(DTYPES[dtype].numpy) for _ in range(2))
    if dtype != "int32":
        x[::7], y[::5] = np.nan, np.nan
    relation = {
        "lt": np.less,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
        "ne": np.not_equal,
        "le": np.less_equal,
    }[compare]
    attrs = {"compare": COMPARES[compare]}
    got = run_vector(
        "vcmpv",
        {"src0": x, "src1": y},
        np.zeros(64, np.uint8),
        {"dst": "uint8", "src0": dtype, "src1": dtype},
        attrs,
        repeat=2,
    )
    assert np.array_equal(np.unpackbits(got, bitorder="little")[: 2 * lanes], relation(x, y))
    got = run_vector(
        "vcmpvs", {"src": x}, np.zeros(64, np.uint8), {"dst": "uint8", "src": dtype}, attrs, repeat=2, scalar=1
    )
    assert np.array_equal(np.unpackbits(got, bitorder="little")[: 2 * lanes], relation(x, x.dtype.type(1)))


@pytest.mark.parametrize("op, mode", [("vsel", 0), ("vsel", 2), ("vsels", 0), ("vsels", 1)])
def test_vsel(op, mode):
    rng = np.random.default_rng(4)
    x, y = np.arange(256, dtype=np.float16), -np.arange(256, dtype=np.float16)
    sel = rng.integers(0, 256, 32, np.uint8)
    sources = {"sel": sel, "src0": x} | ({"src1": y} if op == "vsel" else {})
    dtypes = {n: "uint8" if n == "sel" else "float16" for n in ("dst", *sources)}
    got = run_vector(op, sources, np.zeros(256, np.float16), dtypes, {"mode": mode}, repeat=2, mask=100, scalar=0.5)
    bits = np.unpackbits(sel, bitorder="little").astype(bool)
    if mode == 0:
        bits = np.tile(bits[:128], 2)
    want = np.where(bits, x, y if op == "vsel" else np.float16(0.5))
    want[100:128] = want[228:] = 0
    assert np.array_equal(got, want)


def reduce(op: str, x: np.ndarray, dst_count: int, dtype: str, **more) -> np.ndarray:
    return run_vector(op, {"src": x}, np.full(dst_count, 9, x.dtype), {"dst": dtype, "src": dtype}, **more)


def tree(x: list, r) -> float:
    """Sum of adjacent pairs, recursively, rounded by ``r`` at each node."""
    if len(x) == 1:
        return x[0]
    return r(tree(x[: len(x) // 2], r) + tree(x[len(x) // 2 :], r))


@pytest.mark.parametrize("mask", [128, 63, 1])
def test_vcadd_is_a_tree(mask):
    x = (np.random.default_rng(6).standard_normal(256) * 100).astype(np.float16)
    got = reduce("vcadd", x, 16, "float16", mask=mask, repeat=2, dst_rep=4)
    lanes = np.where(np.arange(128) < mask, x.reshape(2, 128), np.float16(0))
    want = np.full(16, 9.0)
    want[0], want[2] = (tree(row.tolist(), lambda v: float(np.float16(v))) for row in lanes)
    assert got.tolist() == want.tolist()


def test_vcadd_saturates_at_each_node():
    x = np.zeros(128, np.float16)
    x[:4] = [65504, 65504, -65504, -65504]
    assert reduce("vcadd", x, 16, "float16")[0] == 0
    assert np.isnan(reduce("vcadd", x, 16, "float16", saturate=False)[0])


@pytest.mark.parametrize("index_low", [0, 1])
@pytest.mark.parametrize("op", ["vcmax", "vcmin"])
def test_vcmax_gives_value_and_lowest_lane(op, index_low):
    x = np.zeros(128, np.float32)
    x[[5, 40]] = 3 if op == "vcmax" else -3
    got = reduce(op, x, 8, "float32", attrs={"index_low": index_low}, repeat=2, dst_rep=8)
    pair = [got[0], got[1:2].view(np.uint32)[0]] if not index_low else [got[1], got[:1].view(np.uint32)[0]]
    assert pair == [3 if op == "vcmax" else -3, 5]
    second = got[2:4][::-1] if index_low else got[2:4]
    assert (second[0], second[1:].view(np.uint32)[0]) == (0, 0)


@pytest.mark.parametrize("op, lane", [("vcmax", 0), ("vcgmax", 0), ("vcmin", 1), ("vcgmin", 1)])
def test_extremes_saturate(op, lane):
    x = np.zeros(128, np.float16)
    x[:2] = [np.inf, -np.inf]
    assert reduce(op, x, 16, "float16")[0] == (-65504 if lane else 65504)
    assert reduce(op, x, 16, "float16", saturate=False)[0] == (-np.inf if lane else np.inf)


def test_vcmax_without_a_lane_leaves_dst():
    x = np.zeros(64, np.float32)
    assert reduce("vcmax", x, 8, "float32", mask=(0, 0)).tolist() == [9] * 8
    assert reduce("vcadd", x, 8, "float32", mask=(0, 0)).tolist() == [0] + [9] * 7


@pytest.mark.parametrize("op, formula", [("vcgadd", sum), ("vcgmax", max), ("vcgmin", min)])
def test_vcg_skips_blocks_without_a_lane(op, formula):
    x = np.random.default_rng(8).integers(-9, 9, 128).astype(np.float16)
    got = reduce(op, x, 16, "float16", mask=37)
    want = [formula(x[i * 16 : min(37, i * 16 + 16)].tolist()) for i in range(3)]
    assert got.tolist() == want + [9] * 13


def test_vcpadd():
    x = np.arange(128, dtype=np.float16)
    got = reduce("vcpadd", x, 64, "float16", mask=5)
    assert got.tolist() == [1, 5, 4] + [9] * 61


def test_vconv_of_every_float16_to_float32_and_back():
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = x[np.isfinite(x)][: 63 * 64 * 15]
    up = run_vector(
        "vconv", {"src": finite[:4096]}, np.zeros(4096, np.float32), {"dst": "float32", "src": "float16"}, repeat=64
    )
    assert np.array_equal(up, finite[:4096].astype(np.float32))
    down = run_vector("vconv", {"src": up}, np.zeros(4096, np.float16), {"dst": "float16", "src": "float32"}, repeat=64)
    assert np.array_equal(down.view(np.uint16), finite[:4096].view(np.uint16))


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint8"])
def test_vconv_from_integers(dtype):
    target = "float16" if dtype == "uint8" else "float32"
    x = values(np.random.default_rng(3), dtype, 256 // max(SIZE[dtype], SIZE[target]))
    assert vconv(x, dtype, target, "round").tolist() == [
        math.copysign(65504, v) if target == "float16" and abs(v) > 65504 else float(x.dtype.type(v).astype(target))
        for v in x.tolist()
    ]
