# SPDX-License-Identifier: Apache-2.0
"""NaN and Inf in operands of the Ascend C kernels: where the golden is finite, results are those without them."""

from __future__ import annotations

import pytest
from asc_cases import need_ascendc
from flash_ascendc import SOC, Arrays, Case, bits, compiled, operands_of, run_ascendc
from flash_cases import tensors_of, with_dtype
from test_flash_attention_isolation import CASES as TIK_CASES
from test_flash_attention_isolation import bias, compare, gradients, keys, queries, values

from ms_custom_ops.compile_launch import op_of

need_ascendc()

CASES = [
    (Case(40, 70, 32, "band"), values),
    (Case(150, 150, 16, "causal"), keys),
    (Case(40, 70, 32, "mask", n2=1), queries),
    (Case(130, 140, 160, "causal,dropout", n1=4), gradients),
    (Case(40, 40, 32, "causal,shift"), bias),
    (Case(70, 200, 64, "mask_batch,lengths,alibi,statistics", batch=2, n1=4), keys),
]
ALL = [(case, plant) for case, plant in TIK_CASES if case.high_precision]


def check(case: Case, plant) -> None:
    arrays = tensors_of(case)
    wanted = run_ascendc(case, arrays)
    plant(arrays)
    found = run_ascendc(case, arrays)
    compare(found, wanted, case, arrays)


@pytest.mark.parametrize("case, plant", CASES, ids=[f"{plant.__name__}-{case.id}" for case, plant in CASES])
def test_rows_that_do_not_see_it_are_as_without_it(case: Case, plant) -> None:
    check(case, plant)


def test_rows_that_do_not_see_it_are_as_without_it_in_bfloat16() -> None:
    check(with_dtype(CASES[0][0], "bfloat16"), values)


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case, plant", ALL, ids=[f"{plant.__name__}-{case.id}" for case, plant in ALL])
def test_cases_of_the_tik_kernels(case: Case, plant, dtype: str) -> None:
    check(with_dtype(case, dtype), plant)


def test_a_part_that_is_done_again_has_the_same_bits_in_any_order() -> None:
    case = Case(150, 200, 32, "causal,alibi,dropout", batch=2, n1=4, n2=2)
    arrays: Arrays = tensors_of(case)
    values(arrays)
    gradients(arrays)
    forward, gradient, attrs = operands_of(case, arrays)
    for op, given in (("flash_attention", forward), ("flash_attention_grad", gradient)):
        runs = {bits(op, given, attrs, threads, reverse) for threads, reverse in ((1, False), (2, True))}
        assert len(runs) == 1, op


@pytest.mark.parametrize("case", [Case(70, 90, 32, "causal,alibi,statistics", n1=4), Case(40, 70, 32, "mask,dropout")],
                         ids=lambda c: c.id)  # fmt: skip
@pytest.mark.parametrize("plant", [None, values], ids=["finite", "values"])
def test_the_checker_finds_nothing(case: Case, plant) -> None:
    arrays = tensors_of(case)
    if plant is not None:
        plant(arrays)
    forward, gradient, attrs = operands_of(case, arrays)
    for op, given in (("flash_attention", forward), ("flash_attention_grad", gradient)):
        project = op_of(compiled(op, given, attrs)[0].spec, SOC)
        report = project.check(*[given.get(param.name) for param in project.inputs], **attrs)
        assert not report.findings, str(report)
