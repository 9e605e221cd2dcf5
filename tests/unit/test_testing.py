# SPDX-License-Identifier: Apache-2.0
"""The comparators accept what they should, refuse what they should, and say where and by how much."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ms_custom_ops.testing import MIXED_TOLERANCES, assert_mixed, assert_ratio, assert_rms, rms_error

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("actual", "golden", "expected"),
    [
        pytest.param([3.0, 4.0], [3.0, 4.0], 0.0, id="equal"),
        pytest.param([3.0, 5.0], [3.0, 4.0], 0.2, id="one_of_two"),
        pytest.param([0.0, 0.0], [0.0, 0.0], 0.0, id="0_over_0"),
        pytest.param([0.0, 1e-9], [0.0, 0.0], INF, id="x_over_0"),
        pytest.param([], [], 0.0, id="no_elements"),
        pytest.param([NAN, INF, -INF, 3.0], [NAN, INF, -INF, 4.0], 0.25, id="agreeing_nonfinite_left_out"),
        pytest.param([NAN, 1.0], [1.0, 1.0], INF, id="nan_disagrees"),
        pytest.param([-INF, 1.0], [INF, 1.0], INF, id="inf_of_other_sign"),
        pytest.param([2e-200], [1e-200], 1.0, id="squares_underflow"),
        pytest.param([2e200], [1e200], 1.0, id="squares_overflow"),
    ],
)
def test_rms_error(actual, golden, expected):
    assert rms_error(actual, golden) == pytest.approx(expected, rel=1e-12)


def test_rms_error_widens_half_precision():
    # In float16 the squares of 300 overflow.
    assert rms_error(np.full(17, 303, np.float16), np.full(17, 300, np.float16)) == pytest.approx(0.01)
    assert rms_error(np.full(3, 2, ml_dtypes.bfloat16), np.ones(3)) == 1.0


def test_rms_error_is_no_distance_of_broadcast_shapes():
    with pytest.raises(AssertionError, match=r"actual has shape \(1, 3\), golden has shape \(2, 3\)"):
        rms_error(np.ones((1, 3)), np.ones((2, 3)))


def golden_and_one_bad():
    golden = np.ones((3, 5, 7))
    actual = golden.copy()
    actual[1, 2, 3], actual[0, 0, 0] = 3.0, 1.75
    return actual, golden


def test_assert_rms_passes_at_its_limit():
    assert_rms("x", [1.25, 1.25], [1.0, 1.0], 0.25)


def test_assert_rms_names_count_worst_values_and_ratio():
    actual, golden = golden_and_one_bad()
    with pytest.raises(AssertionError) as failure:
        assert_rms("dq", actual, golden, 0.1)
    assert str(failure.value) == (
        f"dq: rms error ratio {np.sqrt((4 + 0.5625) / 105):.6g} exceeds 0.1; 2 of 105 elements differ by "
        "more than limit * rms(golden); worst at (1, 2, 3): actual 3.0, golden 1.0"
    )


def test_assert_rms_refuses_a_nan_limit():
    with pytest.raises(AssertionError, match="exceeds nan"):
        assert_rms("x", [1.0], [1.0], NAN)


every_comparator = pytest.mark.parametrize(
    "compare",
    [
        pytest.param(lambda a, g: assert_rms("out", a, g, INF), id="rms"),
        pytest.param(lambda a, g: assert_mixed("out", a, g, "bfloat16"), id="mixed"),
        pytest.param(lambda a, g: assert_ratio("out", a, g, INF, INF), id="ratio"),
    ],
)


@every_comparator
def test_agreeing_nonfinite_values_pass(compare):
    values = [NAN, INF, -INF, 1.0]
    compare(values, values)


@every_comparator
@pytest.mark.parametrize(
    ("bad", "good"),
    [(NAN, 1.0), (1.0, NAN), (INF, -INF), (INF, NAN), (INF, 6e4), (6e4, INF)],
    ids=["nan_for_1", "1_for_nan", "inf_for_-inf", "inf_for_nan", "inf_for_6e4", "6e4_for_inf"],
)
def test_disagreeing_nonfinite_values_are_located(compare, bad, good):
    with pytest.raises(AssertionError) as failure:
        compare([[0.0, 0.0], [0.0, bad]], [[0.0, 0.0], [0.0, good]])
    assert str(failure.value) == (
        f"out: non-finite values disagree at 1 of 4 elements; first at (1, 1): actual {bad}, golden {good}"
    )


@every_comparator
def test_other_shape_is_refused(compare):
    with pytest.raises(AssertionError, match=r"out: actual has shape \(3,\), golden has shape \(3, 1\)"):
        compare(np.zeros(3), np.zeros((3, 1)))


@every_comparator
def test_empty_arrays_pass(compare):
    compare(np.zeros((0, 17)), np.zeros((0, 17)))


def test_assert_ratio_passes_within_atol_whatever_the_ratio():
    assert_ratio("x", [2e-6, 0.0], [1e-6, 0.0], ratio=1e-4, atol=1e-5)


def test_assert_ratio_passes_below_the_ratio_whatever_atol():
    assert_ratio("x", [1000.05, 1000.0], [1000.0, 1000.0], ratio=1e-4, atol=1e-5)


def test_assert_ratio_is_strict_and_names_the_worst():
    with pytest.raises(AssertionError) as failure:
        assert_ratio("ddt", [1.0, 1.5], [1.0, 1.0], ratio=np.sqrt(0.125), atol=0.25)
    assert str(failure.value) == (
        "ddt: rms error ratio 0.353553 is not below 0.353553 and max |diff| 0.5 > atol 0.25; "
        "1 of 2 elements differ by more than atol; worst at (1,): actual 1.5, golden 1.0"
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_assert_mixed_accepts_one_percent_beyond_tolerance(dtype):
    t = MIXED_TOLERANCES[dtype]
    golden = np.linspace(-1, 1, 200)
    edge = golden + 0.999 * (t.atol + t.rtol * np.abs(golden))
    assert_mixed("x", edge, golden, dtype)
    edge[[0, 1]] = golden[[0, 1]] + t.cap * 0.9
    assert_mixed("x", edge, golden, dtype)
    edge[2] = golden[2] + t.cap * 0.9
    with pytest.raises(AssertionError, match=rf"x: {dtype} match ratio 0.985 is below 0.99; 3 of 200 "):
        assert_mixed("x", edge, golden, dtype)


@pytest.mark.parametrize(
    ("dtype", "rtol", "atol", "cap"),
    [("float16", 2**-9, 2**-9, 0.1), ("bfloat16", 2**-6, 2**-6, 1.0), ("float32", 2**-10, 2**-16, 0.01)],
    ids=["float16", "bfloat16", "float32"],
)
def test_mixed_tolerances_are_the_public_standard(dtype, rtol, atol, cap):
    t = MIXED_TOLERANCES[dtype]
    assert (t.rtol, t.atol, t.cap, t.matched) == (rtol, atol, cap, 0.99)


def test_assert_mixed_caps_the_worst_error():
    golden = np.full(200, 0.5)
    actual = golden.copy()
    actual[63] += 0.11
    message = r"^o: float16 worst error 0.11\*.*cap 0.1; 1 of 200 .*worst at \(63,\)"
    with pytest.raises(AssertionError, match=message):
        assert_mixed("o", actual, golden, np.float16)
    # Above 1 the cap is relative.
    assert_mixed("o", np.where(np.arange(200) == 63, 1090.0, 1000.0), np.full(200, 1000.0), np.float16)


def test_assert_mixed_takes_dtype_objects():
    assert_mixed("x", [1.0], [1.01], ml_dtypes.bfloat16)
    with pytest.raises(AssertionError, match="float32 match ratio 0"):
        assert_mixed("x", [1.0], [1.01], np.dtype(np.float32))


@pytest.mark.parametrize("dtype", [np.int64, "int64", np.uint8, bool], ids=["int64", "name", "uint8", "bool"])
def test_assert_mixed_requires_equal_integers(dtype):
    values = np.zeros((15, 17), dtype)
    assert_mixed("idx", values, values, dtype)
    other = values.copy()
    other[14, 0] = 1
    with pytest.raises(AssertionError, match=r"idx: values must be equal; 1 of 255 .*; worst at \(14, 0\)"):
        assert_mixed("idx", other, values, dtype)


def test_assert_mixed_tells_large_integers_apart():
    with pytest.raises(AssertionError, match=f"actual {2**53 + 1}, golden {2**53}"):
        assert_mixed("idx", np.array([7, 2**53 + 1]), np.array([7, 2**53]), np.int64)


def test_assert_mixed_refuses_other_dtypes():
    with pytest.raises(ValueError, match="assert_mixed: dtype is complex64; accepted: float16, bfloat16"):
        assert_mixed("x", [1.0], [1.0], np.complex64)
