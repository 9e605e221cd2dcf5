# SPDX-License-Identifier: Apache-2.0
"""Comparators of case files over :mod:`ms_custom_ops.comparators`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ms_custom_ops import comparators
from ms_custom_ops.cases.model import OutputError, Standard
from ms_custom_ops.registry.spec import OpSpec, Tolerance

Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Comparator:
    """``numbers`` that a file gives per dtype; ``check(name, actual, golden, dtype, numbers)`` raises
    AssertionError."""

    numbers: tuple[str, ...]
    check: Callable[[str, np.ndarray, np.ndarray, str, Numbers], None]


def _single(name: str, actual: np.ndarray, golden: np.ndarray, dtype: str, numbers: Numbers) -> None:
    """|a - g| <= error*max(1, |g|) everywhere, and |sum(a - g)| <= eb*sum|g|.

    The meaning of ATK's two numbers is not published; this reads them as largest relative error and as bias. The
    golden is rounded to the output's dtype first, as a benchmark run on another device has it: the bias of
    rounding a few bfloat16 values alone exceeds 0.001.
    """
    a, g = actual.astype(np.float64), golden.astype(actual.dtype).astype(np.float64)
    comparators.assert_rms(name, a, g, np.inf)  # shapes and non-finite values
    good = np.isfinite(g)
    a, g = a[good], g[good]
    if not g.size:
        return
    worst = float((np.abs(a - g) / np.maximum(1.0, np.abs(g))).max())
    if worst > numbers["error"]:
        raise AssertionError(f"{name}: single_bm error {worst:.6g} exceeds {numbers['error']:g}")
    total = float(np.abs(g).sum())
    bias = abs(float((a - g).sum())) / total if total else 0.0
    if bias > numbers["eb"]:
        raise AssertionError(f"{name}: single_bm error balance {bias:.6g} exceeds {numbers['eb']:g}")


def _mixed(name: str, actual: np.ndarray, golden: np.ndarray, dtype: str, numbers: Numbers) -> None:
    comparators.assert_mixed(name, actual, golden, dtype)


COMPARATORS: Mapping[str, Comparator] = {
    "ratio": Comparator(
        ("ratio", "atol"), lambda n, a, g, dtype, x: comparators.assert_ratio(n, a, g, x["ratio"], x["atol"])
    ),
    "rms": Comparator(("rms",), lambda n, a, g, dtype, x: comparators.assert_rms(n, a, g, x["rms"])),
    "mixed": Comparator((), _mixed),
    "mixed_tolerance_bm": Comparator((), _mixed),
    "single_bm": Comparator(("error", "eb"), _single),
}


def measure(name: str, actual: np.ndarray, golden: np.ndarray, tolerance: Tolerance | None = None) -> OutputError:
    """rms ratio, largest absolute difference where both are finite and its index, share within the tolerance;
    AssertionError for another shape."""
    a, g = actual.astype(np.float64), golden.astype(np.float64)
    rms = comparators.rms_error(a, g)
    good = np.isfinite(a) & np.isfinite(g)
    diff = np.where(good, np.abs(np.where(good, a, 0.0) - np.where(good, g, 0.0)), 0.0)
    if not diff.size:
        return OutputError(name, rms, 0.0)
    at = tuple(int(i) for i in np.unravel_index(int(diff.argmax()), diff.shape))
    close = diff <= (0.0 if tolerance is None else tolerance.atol + tolerance.rtol * np.where(good, np.abs(g), 0.0))
    same = good | (np.isnan(a) & np.isnan(g)) | (a == g)
    return OutputError(name, rms, float(diff[at]), float((close & same).mean()), at)


def judge(
    op: OpSpec, standards: Sequence[Standard], name: str, actual: np.ndarray, golden: np.ndarray, dtype: str,
    accuracy: str,
) -> None:  # fmt: skip
    """Every comparator of ``standards``, or the op's own accuracy when there are none.

    ``dtype`` is that of the output, ``accuracy`` the one whose numbers count: that of the op's operands, since a
    float32 sum of float16 values is no better than they are. Integers must be equal. AssertionError otherwise.
    """
    if actual.dtype.kind in "iub":
        comparators.assert_mixed(name, actual, golden, dtype)
        return
    for standard in standards:
        numbers: Numbers = {}
        if COMPARATORS[standard.name].numbers:
            if accuracy not in standard.numbers:
                raise AssertionError(f"{name}: standard.acc.{standard.name} has no numbers for {accuracy}")
            numbers = standard.numbers[accuracy]
        COMPARATORS[standard.name].check(name, actual, golden, accuracy, numbers)
    if not standards:
        tolerance = op.tolerance(accuracy)
        if tolerance is None:
            raise AssertionError(f"{name}: {op.name} has no accuracy for {accuracy}")
        _within(name, actual, golden, accuracy, tolerance)


def _within(name: str, actual: np.ndarray, golden: np.ndarray, dtype: str, tolerance: Tolerance) -> None:
    usual = comparators.MIXED_TOLERANCES[dtype]
    if (tolerance.rtol, tolerance.atol, tolerance.worst, tolerance.matched) == (
        usual.rtol, usual.atol, usual.cap, usual.matched,
    ):  # fmt: skip
        comparators.assert_mixed(name, actual, golden, dtype)
    else:
        _own_mixed(name, actual, golden, tolerance)
    if tolerance.rms is not None:
        comparators.assert_rms(name, actual, golden, tolerance.rms)


def _own_mixed(name: str, actual: np.ndarray, golden: np.ndarray, tolerance: Tolerance) -> None:
    """The mixed standard with the numbers of an op_info file."""
    a, g = actual.astype(np.float64), golden.astype(np.float64)
    comparators.assert_rms(name, a, g, np.inf)
    good = np.isfinite(g)
    diff, size = np.abs(a[good] - g[good]), np.abs(g[good])
    matched = float((diff <= tolerance.atol + tolerance.rtol * size).mean()) if diff.size else 1.0
    if matched < tolerance.matched:
        raise AssertionError(f"{name}: match ratio {matched:.6g} is below {tolerance.matched:g}")
    worst = float((diff / np.maximum(1.0, size)).max()) if diff.size else 0.0
    if worst > tolerance.worst:
        raise AssertionError(f"{name}: worst error {worst:.6g}*max(1, |golden|) exceeds {tolerance.worst:g}")
