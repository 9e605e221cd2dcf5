# SPDX-License-Identifier: Apache-2.0
"""NaN and Inf in operands of the primitives: where the golden is finite, results are those without them, to the bit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from flash_cases import Case, run_golden, run_kernel, tensors_of

Arrays = dict[str, np.ndarray]
SOCS = ("Ascend910A", "Ascend910B1")


def keys(t: Arrays) -> None:
    t["key"][:, :, 20] = np.nan
    t["key"][0, 0, 31, 5] = np.nan  # infinity may be a score of -inf, which is no NaN


def values(t: Arrays) -> None:
    t["value"][:, :, 20, 3] = np.inf
    t["value"][:, :, 22, 4] = -np.inf
    t["value"][:, :, 25] = np.nan


def queries(t: Arrays) -> None:
    t["query"][:, :, 7] = np.nan


def gradients(t: Arrays) -> None:
    t["d_out"][:, :, 9, 5] = np.nan
    t["d_out"][:, 0, 11, 2] = -np.inf


def bias(t: Arrays) -> None:
    t["real_shift"][:, :, 12, 20:] = np.nan


CASES = [
    (Case(40, 40, 32, "causal", batch=2, n1=4), keys),
    (Case(40, 40, 32, "causal"), values),
    (Case(150, 150, 16, "causal", strategy="wukong"), keys),
    (Case(40, 70, 32, "band"), values),
    (Case(40, 70, 32, "mask", n2=1), queries),
    (Case(40, 40, 32, "causal,dropout"), gradients),
    (Case(40, 40, 32, "causal,shift"), values),
    (Case(40, 40, 32, "causal,shift"), bias),
    (Case(40, 70, 50, "mask_batch,lengths,alibi", batch=2, n1=4), keys),
    (Case(40, 40, 32, "causal,statistics"), values),
    (Case(40, 70, 32, "band", high_precision=False), keys),
    (Case(200, 300, 32, "blocks", high_precision=False), values),
]


def compare(found: Arrays, wanted: Arrays, case: Case, arrays: Arrays, may_hide_nan: bool = False) -> None:
    """``found`` of planted ``arrays``: where the golden is finite, ``wanted`` of those without; elsewhere no number,
    unless the chip ``may_hide_nan``."""
    with np.errstate(all="ignore"):
        expected = run_golden(case, arrays)
    clean_of = {name: np.isfinite(golden) for name, golden in expected.items()}
    assert any(clean.any() for clean in clean_of.values()), "a case that proves nothing"
    for name, clean in clean_of.items():
        np.testing.assert_array_equal(found[name][clean], wanted[name][clean], err_msg=name)
        if name != "softmax_max" and not may_hide_nan:  # a maximum may leave NaN out: the sum tells
            assert not np.isfinite(found[name].astype(np.float64))[~clean].any(), name


def check(case: Case, plant: Callable[[Arrays], None], soc: str, may_hide_nan: bool) -> None:
    arrays = tensors_of(case)
    wanted = run_kernel(case, arrays, soc)
    plant(arrays)
    found = run_kernel(case, arrays, soc)
    compare(found, wanted, case, arrays, may_hide_nan)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("case, plant", CASES, ids=[f"{plant.__name__}-{case.id}" for case, plant in CASES])
def test_rows_that_do_not_see_it_are_as_without_it(case: Case, plant: Callable[[Arrays], None], soc: str) -> None:
    check(case, plant, soc, may_hide_nan=soc == "Ascend910A")  # its float16 has no NaN


def test_rows_that_do_not_see_it_are_as_without_it_in_bfloat16() -> None:
    for plant in (keys, values, gradients):
        check(Case(40, 40, 32, "causal,lengths", batch=2, dtype="bfloat16"), plant, "Ascend910B1", False)


def test_scores_that_drown_the_penalty_are_hidden_too() -> None:
    case = Case(40, 40, 32, "causal", dtype="bfloat16")
    arrays = tensors_of(case)
    wanted = run_kernel(case, arrays, "Ascend910B1")
    arrays["key"][:, :, 30] = 3e35 * np.sign(arrays["query"][:, :, 3].astype(np.float32)).astype(arrays["key"].dtype)
    found = run_kernel(case, arrays, "Ascend910B1")
    for name in ("attention_out", "softmax_sum", "d_query"):
        np.testing.assert_array_equal(found[name][:, :, :30], wanted[name][:, :, :30], err_msg=name)
