# SPDX-License-Identifier: Apache-2.0
"""Rounding of the reference engine against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ms_custom_ops.engine.reference import numbers
from ms_custom_ops.program.isa import ROUND_MODES

FORMATS = {
    "float16": (11, -14, np.float16),
    "bfloat16": (8, -126, ml_dtypes.bfloat16),
    "float32": (24, -126, np.float32),
}
MODES = {number: name for name, number in ROUND_MODES.items() if name and name != "ceil"}


def round_quotient(q: Fraction, mode: int) -> int:
    """``q`` rounded to an integer by a mode; the textbook rule on the exact fraction."""
    low = math.floor(q)
    rest = q - low
    if rest == 0:
        return low
    if mode == 2:
        return low
    if mode == 3:
        return low + 1
    truncated = low if q > 0 else low + 1
    if mode == 5:
        return truncated
    if mode == 6:
        return truncated if truncated % 2 else truncated + (1 if q > 0 else -1)
    if rest != Fraction(1, 2):
        return low + (rest > Fraction(1, 2))
    if mode == 4:
        return low + 1 if q > 0 else low
    return low if low % 2 == 0 else low + 1


def exact_round(x: Fraction, dtype: str, mode: int = 0) -> float:
    """``x`` rounded to a float format; infinity when the rounded value needs a larger exponent."""
    precision, least, _ = FORMATS[dtype]
    if x == 0:
        return 0.0
    exponent = max(math.frexp(float(x))[1] - 1, least)
    unit = Fraction(2) ** (exponent - precision + 1)
    rounded = round_quotient(x / unit, mode) * unit
    limit = Fraction(2) ** (16 if dtype == "float16" else 128)
    return math.copysign(math.inf, x) if abs(rounded) >= limit else float(rounded)


def interesting(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    """float64 values on, between and beside the values of a format, subnormals and overflow included."""
    numpy = FORMATS[dtype][2]
    bits = np.dtype(numpy).itemsize
    with np.errstate(all="ignore"):
        grid = rng.integers(0, 256, count * bits, np.uint8).view(numpy).astype(np.float64)
    grid = grid[np.isfinite(grid)]
    largest = 65504.0 if dtype == "float16" else 2.0**127
    step = np.abs(grid) * 2.0 ** -FORMATS[dtype][0]
    around = [grid, grid + step / 2, grid + step, grid - step / 4, grid * 1.3, np.array([largest * 1.0002, largest])]
    return np.concatenate(around)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("mode", MODES, ids=MODES.get)
def test_round_float_is_the_exact_rounding(dtype, mode):
    rng = np.random.default_rng(mode)
    x = interesting(rng, dtype, 60)
    with np.errstate(all="ignore"):
        got = numbers.round_float(x, dtype, mode).astype(np.float64)
    want = np.array([exact_round(Fraction(v), dtype, mode) for v in x.tolist()])
    assert np.array_equal(got, want), [(v, g, w) for v, g, w in zip(x, got, want, strict=True) if g != w][:5]


@pytest.mark.parametrize("dtype", FORMATS)
def test_narrow_of_float64_rounds_once(dtype):
    x = interesting(np.random.default_rng(1), dtype, 200)
    with np.errstate(all="ignore"):
        got = numbers.narrow(x, dtype, False).astype(np.float64)
    assert np.array_equal(got, [exact_round(Fraction(v), dtype) for v in x.tolist()])


@pytest.mark.parametrize("mode", MODES, ids=MODES.get)
def test_round_integral(mode):
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.25, -0.25, 0.75, 3.0, -4.0, 1e6 + 0.5, 2.0**40])
    assert numbers.round_integral(x, mode).tolist() == [round_quotient(Fraction(v), mode) for v in x.tolist()]


@pytest.mark.parametrize("mode", [0, 1, 3, 4, 5])
def test_round_integral_keeps_the_sign_of_zero(mode):
    assert np.signbit(numbers.round_integral(np.array([-0.25, -0.0]), mode)).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_saturate_to_int(dtype):
    info = np.iinfo(dtype)
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, 7.0, float(info.min), float(info.max)])
    want = [0, info.max, info.min, info.max, info.min, 0, 7, info.min, info.max]
    assert numbers.saturate_to_int(x, dtype).tolist() == want


def test_fused_multiply_add_has_one_rounding():
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(2000).astype(np.float32) for _ in range(2))
    c = (-(a * b) * (1 + rng.integers(-2, 3, 2000) * 2.0**-24)).astype(np.float32)
    c[::3] = rng.standard_normal(c[::3].size) * 1e8
    got = numbers.fused_multiply_add(a, b, c)
    want = [
        exact_round(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), "float32")
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert np.array_equal(got.astype(np.float64), want)


def test_fused_multiply_add_at_a_tie_of_the_second_rounding():
    # The exact sum lies 2**-64 below a tie of float32; float64 cannot see that and would go to the even side.
    a, b = np.float32([2.0**-12 * (1 + 2.0**-20)]), np.float32([2.0**-12 * (1 - 2.0**-20)])
    odd = np.float32([1 + 2.0**-23])
    assert numbers.fused_multiply_add(a, b, odd)[0] == odd[0]
    assert numbers.fused_multiply_add(-a, b, -odd)[0] == -odd[0]


def test_fused_multiply_add_of_non_finite_values():
    inf, nan = np.float32(np.inf), np.float32(np.nan)
    a, b, c = (np.float32([inf, inf, 0, nan, 1]), np.float32([2, 2, inf, 1, 1]), np.float32([1, -inf, 1, 1, inf]))
    with np.errstate(all="ignore"):
        got = numbers.fused_multiply_add(a, b, c)
    np.testing.assert_array_equal(got, [inf, nan, nan, nan, inf])


@pytest.mark.parametrize("value", [2**62 + 1, -(2**62 + 1), 2**53 + 1, 2**63 - 1, -(2**63), 12345, 2**60 + 2**36])
def test_int64_to_float32_rounds_once(value):
    odd = numbers.int_to_float64_odd(np.array([value], np.int64))
    assert float(odd.astype(np.float32)[0]) == exact_round(Fraction(value), "float32")


@pytest.mark.parametrize("dtype, largest", [("float16", 65504.0), ("bfloat16", 3.3895313892515355e38)])
def test_saturation(dtype, largest):
    x = np.array([np.inf, -np.inf, np.nan, 1.0, -0.0], np.float32)
    got = numbers.narrow(x, dtype, True).astype(np.float64)
    assert got.tolist() == [largest, -largest, 0.0, 1.0, 0.0]
    assert numbers.narrow(np.array([np.inf], np.float32), "float32", True)[0] == np.inf


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("function", ["exp", "log", "reciprocal", "rsqrt"])
def test_float64_decides_every_16_bit_rounding(dtype, function):
    # No result of a 16-bit input lies so close to a tie that the error of float64 (1e-16) could turn its rounding.
    precision, least, numpy = FORMATS[dtype]
    with np.errstate(all="ignore"):
        x = np.arange(65536, dtype=np.uint16).view(numpy).astype(np.float64)
        y = np.abs(1 / np.sqrt(x) if function == "rsqrt" else getattr(np, function)(x))
    y = y[(y < 2.0**128) & (y > 2.0 ** (least - precision - 1))]
    unit = 2.0 ** (np.maximum(np.frexp(y)[1] - 1, least) - precision + 1)
    from_tie = np.abs(y / unit % 1 - 0.5) * unit / y
    assert from_tie.min() > 1e-9
