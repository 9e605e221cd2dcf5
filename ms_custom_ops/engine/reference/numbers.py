# SPDX-License-Identifier: Apache-2.0
"""Rounding of NumPy values to the dtypes of TIK: the one place where a result loses bits."""

from __future__ import annotations

import numpy as np

from ms_custom_ops.program.dtypes import DTYPES, INT_RANGE, SIZE

_LARGEST = {"float16": 65504.0, "bfloat16": float.fromhex("0x1.fep127")}
_OVERFLOW = {"float16": 2.0**16, "bfloat16": 2.0**128, "float32": 2.0**128}
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def widen(x: np.ndarray, dtype: str) -> np.ndarray:
    """Values of ``dtype`` as they are computed with: 16-bit floats as float32 (exact), others as they are."""
    return x.astype(np.float32) if dtype in ("float16", "bfloat16") else x


def saturated(x: np.ndarray, dtype: str) -> np.ndarray:
    """``x`` of a 16-bit float dtype with infinities at the largest finite value and NaN at 0."""
    if dtype not in _LARGEST:
        return x
    wide = x.astype(np.float32)
    largest = np.float32(_LARGEST[dtype])
    limited = np.where(np.isnan(wide), np.float32(0), np.clip(wide, -largest, largest))
    return np.where(np.isfinite(wide), x, limited.astype(x.dtype))


def narrow(x: np.ndarray, dtype: str, saturate: bool) -> np.ndarray:
    """``x`` (float32 or float64, or an integer array that wraps) rounded to nearest even in ``dtype``."""
    if dtype == "bfloat16" and x.dtype == np.float64:
        x = _odd_float32(x)
    result = x.astype(DTYPES[dtype].numpy)
    return saturated(result, dtype) if saturate else result


def _odd_float32(x: np.ndarray) -> np.ndarray:
    """float64 rounded to odd in float32, so that rounding that to 16 bits is the rounding of ``x`` itself."""
    return _to_odd(x, toward_zero(x, "float32"))


def _to_odd(x: np.ndarray, truncated: np.ndarray) -> np.ndarray:
    inexact = (truncated.astype(np.float64) != x) & ~np.isnan(x)
    bits = truncated.view(_BITS[truncated.dtype.itemsize])
    return np.where(inexact, bits | bits.dtype.type(1), bits).view(truncated.dtype)


def toward_zero(x: np.ndarray, dtype: str) -> np.ndarray:
    """float64 ``x`` truncated to the precision of a float dtype; a finite ``x`` never becomes infinite."""
    near = x.astype(np.float32).astype(DTYPES[dtype].numpy) if dtype == "bfloat16" else narrow(x, dtype, False)
    too_far = np.abs(near.astype(np.float64)) > np.abs(x)
    bits = near.view(_BITS[SIZE[dtype]])
    return np.where(too_far, bits - bits.dtype.type(1), bits).view(near.dtype)


def away_from_zero(x: np.ndarray, dtype: str) -> np.ndarray:
    """The nearest value at least as large in magnitude as float64 ``x``, or infinity."""
    down = toward_zero(x, dtype)
    short = np.abs(down.astype(np.float64)) < np.abs(x)
    bits = down.view(_BITS[SIZE[dtype]])
    return np.where(short, bits + bits.dtype.type(1), bits).view(down.dtype)


def round_float(x: np.ndarray, dtype: str, mode: int) -> np.ndarray:
    """float64 ``x`` in a float dtype by a rounding mode of :data:`ms_custom_ops.program.isa.ROUND_MODES`."""
    if mode in (0, 1):
        return narrow(x, dtype, False)
    down, up = toward_zero(x, dtype), away_from_zero(x, dtype)
    if mode == 6:
        result = _to_odd(x, down)
    elif mode == 4:
        near = narrow(x, dtype, False)
        middle = np.abs(x) - np.abs(down.astype(np.float64)) == np.abs(up.astype(np.float64)) - np.abs(x)
        result = np.where(middle, up, near)
    else:
        outward = {2: x < 0, 3: x > 0, 5: np.zeros(x.shape, bool)}[mode]
        result = np.where(outward, up, down)
    beyond = np.abs(x) >= _OVERFLOW[dtype]
    infinity = np.copysign(np.inf, x).astype(DTYPES[dtype].numpy)
    return np.where(np.isnan(x), x.astype(infinity.dtype), np.where(beyond, infinity, result))


def round_integral(x: np.ndarray, mode: int) -> np.ndarray:
    """float64 ``x`` rounded to an integral value by a rounding mode."""
    if mode in (0, 1):
        return np.rint(x)
    if mode == 2:
        return np.floor(x)
    if mode == 3:
        return np.ceil(x)
    whole = np.trunc(x)
    if mode == 5:
        return whole
    if mode == 4:
        outward = np.abs(x - whole) >= 0.5
    else:
        outward = (whole != x) & (np.fmod(whole, 2) == 0) & np.isfinite(x)
    return np.where(outward, whole + np.copysign(1.0, x), whole)


def saturate_to_int(x: np.ndarray, dtype: str) -> np.ndarray:
    """Integral float64 ``x`` in an integer dtype: saturating, NaN gives 0."""
    low, high = INT_RANGE[dtype]
    inside = (x >= low) & (x < float(high) + (1.0 if high < 1 << 53 else 0.0))
    result = np.where(inside, x, 0.0).astype(DTYPES[dtype].numpy)
    result[x >= float(high)] = high
    result[x < low] = low
    return result


def wrap_to_int(x: np.ndarray, dtype: str) -> np.ndarray:
    """The low bits of integral float64 ``x``; NaN and infinities give 0."""
    bits = 8 * SIZE[dtype]
    exact = [int(v) % (1 << bits) if np.isfinite(v) else 0 for v in x.reshape(-1).tolist()]
    return np.array(exact, _BITS[SIZE[dtype]]).reshape(x.shape).view(DTYPES[dtype].numpy)


def int_to_float64_odd(x: np.ndarray) -> np.ndarray:
    """Integers as float64; 64-bit ones rounded to odd, so that rounding that to 24 bits or fewer is exact."""
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    out = np.empty(x.shape, np.float64)
    for i, value in enumerate(x.reshape(-1).tolist()):
        shift = max(abs(value).bit_length() - 53, 0)
        kept = abs(value) >> shift
        kept |= int(kept << shift != abs(value))
        out.reshape(-1)[i] = float(kept << shift) * (1 if value >= 0 else -1)
    return out


def fused_multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """float32 ``a*b + c`` with one rounding.

    The product of two float32 is exact in float64. The sum is taken in float64 and rounded to odd by its
    error term (TwoSum), so that the rounding to float32 sees on which side of a tie the exact sum lies.
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    with np.errstate(invalid="ignore"):
        bits = total.view(np.int64)
        adjust = np.isfinite(total) & np.isfinite(error) & (error != 0) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(adjust, bits + step, bits).view(np.float64).astype(np.float32)
