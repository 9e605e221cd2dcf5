# SPDX-License-Identifier: Apache-2.0
"""What the smoke cases of the op_info files reach: `ms-custom-ops test` without names runs all of them, which
test_cases_run.py asserts, so that what has a case here is compared with the golden.

Every op has a case for what its YAML promises: each dtype row on each chip, each optional tensor there and absent, each
value that a constraint lists. The ops of HELD promise more.
"""

from __future__ import annotations

import re
from ast import literal_eval
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ms_custom_ops.cases import PlannedCase, file_cases, read_cases, smoke_cases
from ms_custom_ops.cases.base import golden_outputs
from ms_custom_ops.cases.data import make_arrays
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.registry import get_op, list_ops
from ms_custom_ops.registry.dtypes import NAME_TO_CODE
from ms_custom_ops.registry.spec import DtypeRow
from ms_custom_ops.soc import get_soc

OPS = list_ops()
#: Ops for all chip families, each of whose attributes has two values or more and each of whose optional tensors comes
#: with each dtype. A new op need not be one of them.
HELD = (
    "bwd_dadt_cumsum", "bwd_dadt_fused", "bwd_dtrap_ddt", "bwd_segsum_dadt", "dacs_segsum", "flash_attention",
    "flash_attention_grad", "lightning_indexer", "mamba3_chunk_scan", "mamba3_chunk_scan_grad", "segsum_decay",
    "sparse_flash_attention", "sparse_flash_attention_grad", "sparse_lightning_indexer_grad_kl_loss",
    "ssd_chunk_scan", "ssd_chunk_scan_grad",
)  # fmt: skip
OPTIONAL = [(op, arg.name) for op in OPS for arg in get_op(op).optional_tensors]
DEFAULTED = [(op, arg.name) for op in HELD for arg in get_op(op).attributes if arg.has_default]
SEGSUM = Path(__file__).parents[1] / "data" / "atk_bwd_segsum_dadt.yaml"

#: Dtypes of the required tensors of rows without a smoke case. A case names the dtype of dtype_group alone, which gives
#: the first of the rows that agree in it; the second ones are run by the case file of the op.
ROWS_OF_A_FILE = {
    ("bwd_segsum_dadt", ("F16", "F16", "F32")): SEGSUM,
    ("bwd_segsum_dadt", ("BF16", "BF16", "F32")): SEGSUM,
}
#: Paged cases whose sequences share one page. `ms-custom-ops check` asks the gradient of every case, and that of
#: sparse_flash_attention wants as many key as query sequences, BK == B, which is 1 for TND: paged keys have no gradient
#: there. The call "packed_paged" of test_cases_data.py has more pages.
ONE_PAGE = {("sparse_flash_attention", "packed_paged"), ("sparse_flash_attention", "bfloat16_packed_paged")}


@cache
def cases_of(op: str) -> dict[str, list[PlannedCase]]:
    """Smoke cases of an op by chip family."""
    spec = get_op(op)
    return {family: smoke_cases(spec, get_soc(family).name) for family in spec.target.soc}


def required(op: str, row: DtypeRow) -> tuple[str, ...]:
    return tuple(row.codes[arg.name] for arg in get_op(op).tensors if not arg.optional)


def rows_of(op: str, case: PlannedCase) -> list[DtypeRow]:
    """Rows that have the dtypes of the tensors that are there."""
    given = {n: NAME_TO_CODE[str(case.dtypes[n])] for n in case.present}
    return [row for row in get_op(op).dtype_rows if all(row.codes[n] == code for n, code in given.items())]


def values_of(op: str, name: str) -> set[Any]:
    """Values that an attribute has in the cases, the default where it is not given."""
    default = {arg.name: arg.default for arg in get_op(op).attributes}[name]
    return {case.attrs.get(name, default) for cases in cases_of(op).values() for case in cases}


def listed_values() -> list[tuple[str, str, Any]]:
    """(op, attribute, value) of what constraints such as "rank in (1, 2)" list."""
    found = []
    for op in OPS:
        attributes = {arg.name for arg in get_op(op).attributes}
        for constraint in get_op(op).constraints:
            for name, values in re.findall(r"(\w+) in (\([^()]*\))", constraint.expr.text):
                assert name in attributes, constraint.expr.text
                found += [(op, name, value) for value in literal_eval(values)]
    return found


@pytest.mark.parametrize("op", OPS)
def test_every_dtype_row_has_a_case_on_every_family_that_has_it(op):
    spec = get_op(op)
    for family, cases in cases_of(op).items():
        codes = spec.target.soc[family]
        rows = [row for row in spec.dtype_rows if all(row.codes[n] in codes for n in spec.dtype_group)]
        wanted = {required(op, row) for row in rows}
        assert len(wanted) == len(rows) > 0
        run = {required(op, found[0]) for found in (rows_of(op, case) for case in cases) if len(found) == 1}
        assert wanted - run == {r for name, r in ROWS_OF_A_FILE if name == op} & wanted, family


@pytest.mark.parametrize(("op", "row"), ROWS_OF_A_FILE, ids=lambda x: x if isinstance(x, str) else "-".join(x))
def test_rows_without_a_smoke_case_are_those_of_a_case_file(op, row):
    cases = [case for case in file_cases(read_cases(ROWS_OF_A_FILE[op, row]), "Ascend910B1") if not case.invalid]
    assert [c for c in cases if c.op.name == op and [required(op, r) for r in rows_of(op, c)] == [row]]


@pytest.mark.parametrize(("op", "tensor"), OPTIONAL)
def test_every_optional_tensor_is_given_on_every_family(op, tensor):
    for family, cases in cases_of(op).items():
        assert {tensor in case.present for case in cases} == {True, False}, family


@pytest.mark.parametrize("op", HELD)
def test_every_family_has_the_op(op):
    assert {"Ascend910A", "Ascend310P", "Ascend910B", "Ascend910_93"} == set(get_op(op).target.soc)


@pytest.mark.parametrize("op", [op for op in HELD if get_op(op).optional_tensors])
def test_optional_tensors_are_given_with_every_dtype(op):
    for row in get_op(op).dtype_rows:
        if (op, required(op, row)) in ROWS_OF_A_FILE:
            continue
        cases = [case for cases in cases_of(op).values() for case in cases if row in rows_of(op, case)]
        given = {name for case in cases for name in case.present}
        assert given >= {arg.name for arg in get_op(op).optional_tensors}, required(op, row)


@pytest.mark.parametrize(("op", "name"), DEFAULTED)
def test_every_attribute_has_its_default_and_another_value(op, name):
    default = {arg.name: arg.default for arg in get_op(op).attributes}[name]
    found = values_of(op, name)
    assert default in found and len(found) > 1, found


@pytest.mark.parametrize(("op", "name", "value"), listed_values())
def test_every_value_that_a_constraint_lists_is_run(op, name, value):
    assert value in values_of(op, name)


@pytest.mark.parametrize(("op", "key"), [("sparse_flash_attention", "layout_kv"), ("lightning_indexer", "layout_key")])
def test_every_pair_of_layouts_is_run(op, key):
    for cases in cases_of(op).values():
        pairs = {tuple(case.attrs.get(n, "BSND") for n in ("layout_query", key)) for case in cases}
        assert pairs == {("BSND", "BSND"), ("TND", "TND"), *product(("BSND", "TND"), ("PA_BSND",))}


@pytest.mark.parametrize("op", ["flash_attention", "flash_attention_grad", "sparse_flash_attention"])
def test_heads_are_single_and_grouped(op):
    groups = {case.symbols["N1"] // case.symbols["N2"] for case in cases_of(op)["Ascend910B"]}
    assert 1 in groups and max(groups) > 1


def packed(case: PlannedCase) -> bool:
    return "TND" in (case.attrs.get("layout"), case.attrs.get("layout_query"))


@pytest.mark.parametrize("op", [op for op in HELD if (op, "actual_seq_lengths_query") in OPTIONAL])
def test_packed_cases_have_sequences_and_pages_have_another_order(op):
    cases = cases_of(op)["Ascend910B"]
    assert {packed(case) for case in cases} == {True, False}
    for case in cases:
        arrays = make_arrays(case)
        if packed(case):
            tokens = np.diff(arrays["actual_seq_lengths_query"], prepend=0)
            assert (tokens > 0).sum() > 1 and tokens.sum() == case.symbols["S1"], case.name
        if "block_table" in arrays and (op, case.name) not in ONE_PAGE:
            used = [row[row >= 0] for row in arrays["block_table"]]
            assert all(len(pages) > 1 and (pages != np.arange(len(pages))).any() for pages in used), case.name
            key = next(n for n in ("actual_seq_lengths_kv", "actual_seq_lengths_key") if n in arrays)
            assert arrays[key][: len(used)].max() > case.symbols["S2"], f"{case.name}: one page is enough"


def changed(case: PlannedCase, name: str, array: np.ndarray) -> np.ndarray:
    """All sequences in one where an array has their first steps, zeros otherwise."""
    other = np.zeros_like(array)
    if name == "cu_seqlens":
        other[1] = case.symbols["S"]
    elif name == "first_chunks":
        other[1:] = array[case.symbols["NS"]]
    return other


def matters(case: PlannedCase, name: str) -> bool:
    arrays = make_arrays(case)
    first = golden_outputs(case.op, arrays, case.attrs, case.symbols)
    arrays[name] = changed(case, name, arrays[name])
    try:
        second = golden_outputs(case.op, arrays, case.attrs, case.symbols)
    except OpArgumentError:  # prefix sums of packed tokens cannot be 0
        return False
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a.dtype != object]
    return any(not np.allclose(a, b, rtol=0.01, atol=1e-4) for a, b in pairs)


@pytest.mark.parametrize(("op", "tensor"), OPTIONAL)
def test_the_result_of_a_case_depends_on_the_optional_tensor(op, tensor):
    """Otherwise a kernel that does not read it would pass."""
    cases = next(iter(sorted(cases_of(op).items(), key=lambda item: item[0] != "Ascend910B")))[1]
    small = sorted((c for c in cases if tensor in c.present), key=lambda c: len(c.present))
    assert any(matters(case, tensor) for case in small)
