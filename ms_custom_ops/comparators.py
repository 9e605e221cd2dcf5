# SPDX-License-Identifier: Apache-2.0
"""Comparators for kernels against their goldens; NumPy only.

All comparisons run in float64. Non-finite values are compared by position and kind (NaN with NaN, +Inf with
+Inf) and then left out of every mean. A failed comparison raises AssertionError whose text holds the count of
bad elements, the worst index with both values, and the figure that broke its limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ms_custom_ops.errors import describe


@dataclass(frozen=True)
class MixedTolerance:
    """|a - g| <= atol + rtol*|g| for a share ``matched`` of the elements, |a - g| <= cap*max(1, |g|) for all.

    The cap is relative above 1: at |g| = 1000 one float16 step is 0.5, more than an absolute cap of 0.1.
    """

    rtol: float
    atol: float
    cap: float
    matched: float = 0.99


#: Public operator-accuracy standard of the CANN ecosystem (mixed tolerance), by storage dtype.
MIXED_TOLERANCES: dict[str, MixedTolerance] = {
    "float16": MixedTolerance(rtol=2.0**-9, atol=2.0**-9, cap=1e-1),
    "bfloat16": MixedTolerance(rtol=2.0**-6, atol=2.0**-6, cap=1.0),
    "float32": MixedTolerance(rtol=2.0**-10, atol=2.0**-16, cap=1e-2),
}

#: Compared without conversion: float64 would merge neighbours above 2**53.
_EXACT = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def rms_error(actual: npt.ArrayLike, golden: npt.ArrayLike) -> float:
    """sqrt(mean((actual - golden)^2)) / sqrt(mean(golden^2)), with 0/0 = 0 and x/0 = inf.

    Both arrays have the same shape (AssertionError otherwise). inf if non-finite values disagree.
    """
    a, g = _as_float64("rms_error", actual, golden)
    if _nonfinite_disagreement(a, g).any():
        return float("inf")
    finite = np.isfinite(g)
    return _ratio(a[finite] - g[finite], g[finite])


def assert_rms(name: str, actual: npt.ArrayLike, golden: npt.ArrayLike, limit: float) -> None:
    """Require ``rms_error(actual, golden) <= limit``."""
    a, g = _as_float64(name, actual, golden)
    _assert_nonfinite_agree(name, a, g)
    error = rms_error(a, g)
    if not error <= limit:
        diff = _abs_diff(a, g)
        bad = diff > limit * _rms(g[np.isfinite(g)])
        what = f"rms error ratio {error:.6g} exceeds {limit:.6g}"
        raise AssertionError(_report(name, what, a, g, diff, bad, "differ by more than limit * rms(golden)"))


def assert_ratio(name: str, actual: npt.ArrayLike, golden: npt.ArrayLike, ratio: float, atol: float) -> None:
    """Pass if max|actual - golden| <= atol, else require rms(actual - golden) / rms(golden) < ratio."""
    a, g = _as_float64(name, actual, golden)
    _assert_nonfinite_agree(name, a, g)
    diff = _abs_diff(a, g)
    if not diff.size or diff.max() <= atol:
        return
    error = rms_error(a, g)
    if not error < ratio:
        worst = f"max |diff| {diff.max():.6g} > atol {atol:.6g}"
        what = f"rms error ratio {error:.6g} is not below {ratio:.6g} and {worst}"
        raise AssertionError(_report(name, what, a, g, diff, diff > atol, "differ by more than atol"))


def assert_mixed(name: str, actual: npt.ArrayLike, golden: npt.ArrayLike, dtype: npt.DTypeLike) -> None:
    """Require the mixed tolerance of ``dtype`` (see MIXED_TOLERANCES); integers and bool must be equal.

    ``dtype`` is the storage dtype of the output: float16, bfloat16 (name or ml_dtypes type), float32, an
    integer type or bool; ValueError for any other.
    """
    kind = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    if kind in _EXACT:
        _assert_equal(name, np.asarray(actual), np.asarray(golden))
        return
    if kind not in MIXED_TOLERANCES:
        raise ValueError(describe("assert_mixed", "dtype", kind, ", ".join((*MIXED_TOLERANCES, *_EXACT))))
    tolerance = MIXED_TOLERANCES[kind]
    a, g = _as_float64(name, actual, golden)
    _assert_nonfinite_agree(name, a, g)
    diff = _abs_diff(a, g)
    size = np.where(np.isfinite(g), np.abs(g), 0.0)
    bad = diff > tolerance.atol + tolerance.rtol * size
    matched = 1.0 - bad.mean() if bad.size else 1.0
    note = f"differ by more than {tolerance.atol:.6g} + {tolerance.rtol:.6g}*|golden|"
    if matched < tolerance.matched:
        what = f"{kind} match ratio {matched:.6g} is below {tolerance.matched:g}"
        raise AssertionError(_report(name, what, a, g, diff, bad, note))
    capped = diff / np.maximum(1.0, size)
    if capped.size and capped.max() > tolerance.cap:
        what = f"{kind} worst error {capped.max():.6g}*max(1, |golden|) exceeds the cap {tolerance.cap:g}"
        raise AssertionError(_report(name, what, a, g, capped, bad, note))


def _as_float64(name: str, actual: npt.ArrayLike, golden: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    a, g = np.asarray(actual).astype(np.float64), np.asarray(golden).astype(np.float64)
    _assert_same_shape(name, a, g)
    return a, g


def _assert_same_shape(name: str, a: np.ndarray, g: np.ndarray) -> None:
    # No broadcasting: a (1, N) result against an (M, N) golden is a bug of the kernel, not a match.
    if a.shape != g.shape:
        raise AssertionError(f"{name}: actual has shape {a.shape}, golden has shape {g.shape}")


def _nonfinite_disagreement(a: np.ndarray, g: np.ndarray) -> np.ndarray:
    nonfinite = ~np.isfinite(a) | ~np.isfinite(g)
    same = (np.isnan(a) & np.isnan(g)) | (a == g)
    return nonfinite & ~same


def _assert_nonfinite_agree(name: str, a: np.ndarray, g: np.ndarray) -> None:
    bad = _nonfinite_disagreement(a, g)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise AssertionError(
            f"{name}: non-finite values disagree at {int(bad.sum())} of {bad.size} elements; "
            f"first at {index}: actual {a[index]}, golden {g[index]}"
        )


def _assert_equal(name: str, a: np.ndarray, g: np.ndarray) -> None:
    _assert_same_shape(name, a, g)
    bad = a != g
    if bad.any():
        diff = np.where(bad, np.abs(a.astype(np.float64) - g.astype(np.float64)), 0.0)
        # Neighbours above 2**53 are 0 apart in float64 and still unequal.
        diff = np.where(bad, np.maximum(diff, 1.0), 0.0)
        raise AssertionError(_report(name, "values must be equal", a, g, diff, bad, "differ"))


def _abs_diff(a: np.ndarray, g: np.ndarray) -> np.ndarray:
    """|a - g|, 0 where both are the same non-finite value."""
    finite = np.isfinite(a) & np.isfinite(g)
    return np.abs(np.where(finite, a, 0.0) - np.where(finite, g, 0.0))


def _rms(x: np.ndarray) -> float:
    """Root mean square, scaled by the largest element so that no square over- or underflows."""
    peak = float(np.abs(x).max()) if x.size else 0.0
    return peak * float(np.sqrt(np.mean(np.square(x / peak)))) if peak else 0.0


def _ratio(diff: np.ndarray, golden: np.ndarray) -> float:
    numerator, denominator = _rms(diff), _rms(golden)
    if numerator == 0.0:
        return 0.0
    return numerator / denominator if denominator else float("inf")


def _report(name: str, what: str, a: np.ndarray, g: np.ndarray, badness: np.ndarray, bad: np.ndarray, note: str) -> str:
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(badness)), badness.shape))
    return (
        f"{name}: {what}; {int(bad.sum())} of {bad.size} elements {note}; "
        f"worst at {index}: actual {a[index]}, golden {g[index]}"
    )
