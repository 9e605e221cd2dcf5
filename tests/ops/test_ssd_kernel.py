# SPDX-License-Identifier: Apache-2.0
"""The scan kernels against the float64 goldens, without MindSpore, on both chip families."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops.errors import BudgetError
from ms_custom_ops.soc import get_soc
from ms_custom_ops.testing import assert_rms
from ms_custom_ops.tiling.ssd_chunk_scan import ScanProblem, plan_backward, plan_forward

sys.path.insert(0, str(Path(__file__).parent))
from ssd_cases import LIMIT, Case, run_golden, run_golden3, run_kernel, run_kernel3, tensors3_of, tensors_of

SOCS = ("Ascend910A", "Ascend310P3", "Ascend910B1")
CASES = [
    Case(16, 16, heads=1, groups=1),
    Case(64, 16, 32, 48, batch=2, heads=4),
    Case(96, 48, 48, 80, groups=1),
    Case(128, 64, 64, 128, heads=4, groups=2),
    Case(256, 256, 64, 64, groups=1),
    Case(256, 128, 128, 256, heads=1, groups=1),
    Case(128, 64, 16, 16, decay=5.0),
    Case(512, 64, 16, 32, decay=1e-3),
    Case(128, 128, 16, 16, decay=50.0),
    Case(64, 16, heads=3, groups=1, chunks=(1, 0, 3)),
    Case(160, 32, 32, 32, heads=4, chunks=(2, 1, 0, 2), groups=4),
    Case(48, 16, batch=17, heads=3, groups=3),
]
CASES3 = [
    Case(16, 16, heads=1, groups=1),
    Case(64, 32, 32, 48, batch=2, heads=4, rank=2),
    Case(64, 64, 64, 64, heads=4, groups=1, rank=4),
    Case(24, 48, 16, 80, rank=8),
    Case(16, 128, 64, 128, groups=1, rank=16),
    Case(96, 32, 16, 16, rank=1, decay=5.0),
    Case(128, 128, 128, 64, heads=1, groups=1, rank=4),
    Case(64, 16, heads=3, groups=1, chunks=(1, 0, 3)),
    Case(40, 32, 32, 48, heads=4, chunks=(2, 1, 0, 2), groups=4, rank=4),
]
TINY = 1e-6
"""What strong decay leaves of a state is multiplied by a float16 factor, whose smallest step is 6e-8."""


def compare(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray], limit: float) -> None:
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        if np.abs(expected[name]).max() < TINY:
            assert np.abs(value).max() < TINY, name
        else:
            assert_rms(name, value.astype(np.float64), expected[name], limit)


def check(case: Case, soc: str, engine: str = "native") -> None:
    t = tensors_of(case)
    compare(run_kernel(case, t, soc, engine), run_golden(case, t), LIMIT[case.dtype])


def check3(case: Case, soc: str, engine: str = "native") -> None:
    t = tensors3_of(case)
    compare(run_kernel3(case, t, soc, engine), run_golden3(case, t), LIMIT[case.dtype])


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_mamba2_float16(case: Case, soc: str) -> None:
    check(case, soc)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("case", CASES3, ids=lambda c: c.id)
def test_mamba3_float16(case: Case, soc: str) -> None:
    check3(case, soc)


RESETS = (-103.0, -105.0, -1e5, -1e9, -3e38, -np.inf)
"""Decays of 0, or next to it. -103 is none to the kernel: exp(-103) is a subnormal number."""


def with_resets(t: dict[str, np.ndarray], value: float) -> dict[str, np.ndarray]:
    """Resets at the first and the last step, at two in a row, and one that a growth follows."""
    steps = t["da"].shape[-1]
    at = [0, steps // 3, steps // 3 + 1, steps // 2 + 5, steps - 1]
    t["da"][..., at] = value
    t["da"][..., steps // 2 + 6 : steps // 2 + 9] = 0.5
    return t


@pytest.mark.parametrize("soc", ("Ascend910A", "Ascend910B1"))
@pytest.mark.parametrize("value", RESETS)
@pytest.mark.parametrize("chunk", (16, 32, 96))
def test_mamba2_forgets_at_a_reset(chunk: int, value: float, soc: str) -> None:
    case = Case(96, chunk, 32, 48, heads=2, groups=1)
    t = with_resets(tensors_of(case), value)
    found = run_kernel(case, t, soc)
    compare(found, run_golden(case, t), 2e-3)
    if value < RESETS[0]:
        assert not found["d_da"][..., t["da"][0, 0] == value].any()


@pytest.mark.parametrize("soc", ("Ascend910A", "Ascend910B1"))
@pytest.mark.parametrize("value", RESETS)
@pytest.mark.parametrize("rank, chunk", [(1, 16), (4, 64), (2, 96)])
def test_mamba3_forgets_at_a_reset(rank: int, chunk: int, value: float, soc: str) -> None:
    case = Case(48, chunk, 32, 48, heads=2, groups=1, rank=rank)
    t = with_resets(tensors3_of(case), value)
    compare(run_kernel3(case, t, soc), run_golden3(case, t), 2e-3)


@pytest.mark.parametrize("value", (-1e9, -np.inf))
def test_resets_of_packed_sequences_and_in_bfloat16(value: float) -> None:
    case = Case(64, 16, heads=3, groups=1, chunks=(1, 0, 3), dtype="bfloat16")
    t = with_resets(tensors_of(case), value)
    compare(run_kernel(case, t, "Ascend910B1"), run_golden(case, t), LIMIT["bfloat16"])


def test_every_step_a_reset_and_a_nan_stay_what_they_are() -> None:
    """Without any decay left y is the step's own part; a NaN is no reset."""
    case = Case(128, 128, heads=1, groups=1)
    t = tensors_of(case)
    t["da"][:] = -np.inf
    compare(run_kernel(case, t, "Ascend910A"), run_golden(case, t), 2e-3)
    t["da"][..., 100] = np.nan
    found = run_kernel(case, t, "Ascend910A")
    assert np.isfinite(found["y"][:, :100]).all() and np.isnan(found["final_states"]).all()


def test_resets_do_not_take_the_digits_of_other_steps() -> None:
    """A reset after every second step of a whole block: as exact as without."""
    case = Case(256, 256, heads=1, groups=1)
    t = tensors_of(case)
    t["da"][..., 1::2] = -1e30
    compare(run_kernel(case, t, "Ascend910B1"), run_golden(case, t), 5e-4)


@pytest.mark.parametrize("soc", ("Ascend910A", "Ascend910B1"))
def test_resets_in_the_reference_engine(soc: str) -> None:
    case = Case(32, 16, groups=1)
    t = with_resets(tensors_of(case), -np.inf)
    compare(run_kernel(case, t, soc, "reference"), run_golden(case, t), LIMIT["float16"])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_mamba2_bfloat16(case: Case) -> None:
    check(replace(case, dtype="bfloat16"), "Ascend910B1")


@pytest.mark.parametrize("case", CASES3, ids=lambda c: c.id)
def test_mamba3_bfloat16(case: Case) -> None:
    check3(replace(case, dtype="bfloat16"), "Ascend910B1")


@pytest.mark.parametrize("soc", ("Ascend910A", "Ascend910B1"))
@pytest.mark.parametrize(
    "case", [Case(32, 16, groups=1), Case(48, 16, heads=1, groups=1, chunks=(1, 0, 2))], ids=lambda c: c.id
)
def test_mamba2_reference_engine(case: Case, soc: str) -> None:
    check(case, soc, "reference")


@pytest.mark.parametrize("soc", ("Ascend910A", "Ascend910B1"))
@pytest.mark.parametrize(
    "case",
    [Case(16, 32, groups=1, rank=4), Case(12, 16, heads=1, groups=1, rank=4, chunks=(1, 0, 2))],
    ids=lambda c: c.id,
)
def test_mamba3_reference_engine(case: Case, soc: str) -> None:
    check3(case, soc, "reference")


@pytest.mark.parametrize("soc", ("Ascend910A", "Ascend910B1"))
def test_engines_agree(soc: str) -> None:
    """Both engines run the same instructions; only exp may differ, by one unit in the last place."""
    case = Case(32, 16, groups=1)
    t = tensors_of(case)
    native, reference = run_kernel(case, t, soc), run_kernel(case, t, soc, "reference")
    for name, value in native.items():
        limit = 1e-5 if value.dtype == np.float32 else 1e-4
        assert_rms(name, value.astype(np.float64), reference[name].astype(np.float64), limit)


def test_result_does_not_depend_on_threads() -> None:
    case = Case(64, 16, batch=3, heads=4, groups=1)
    t, before = tensors_of(case), mco.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            mco.set_num_threads(threads)
            results.append(run_kernel(case, t, "Ascend910A"))
    finally:
        mco.set_num_threads(before)
    for other in results[1:]:
        for name, value in results[0].items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)


def test_future_does_not_leak_into_the_past() -> None:
    case = Case(64, 32, heads=1, groups=1)
    t = tensors_of(case)
    first = run_kernel(case, t, "Ascend910A")["y"]
    for name in ("x", "B", "C"):
        t[name] = t[name].copy()
        t[name][:, 37:] = 100
    np.testing.assert_array_equal(run_kernel(case, t, "Ascend910A")["y"][:, :37], first[:, :37])


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("size, state", [(16, 16), (64, 128), (128, 256)], ids=lambda v: str(v))
@pytest.mark.parametrize("chunk", [16, 48, 112, 256])
def test_plan_fits_every_chip(chunk: int, size: int, state: int, soc: str) -> None:
    problem = ScanProblem("ssd_chunk_scan", 1, 256, 2, 1, size, state, "float16", chunk, rank=4, weighted=True)
    for plan in (plan_forward(problem, get_soc(soc)), plan_backward(problem, get_soc(soc))):
        assert chunk % plan.block == 0 and plan.block % 16 == 0
        assert state % plan.columns == 0 and plan.columns % 16 == 0


def test_plan_refuses_a_state_that_no_chip_holds() -> None:
    problem = ScanProblem("ssd_chunk_scan", 1, 256, 2, 1, 256, 512, "float16", 64)
    with pytest.raises(
        BudgetError,
        match=r"ssd_chunk_scan: no block of chunk_size 64 with P = 256, N = 512 float16 "
        r"fits Ascend910A; the smallest:\n(.*\n)*  ub: peak \d+ of \d+ bytes OVER",
    ):
        plan_forward(problem, get_soc("Ascend910A"))
