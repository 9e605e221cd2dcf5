# SPDX-License-Identifier: Apache-2.0
"""Case files: what the project's own file holds, and how cases and their data come from a seed."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from ms_custom_ops.cases import CaseFileError, file_cases, read_cases, smoke_cases
from ms_custom_ops.cases.base import CaseData, case_data
from ms_custom_ops.cases.data import LAYOUTS, filled, make_arrays, plain_fill, stored, view
from ms_custom_ops.cases.model import Fill
from ms_custom_ops.errors import OpInfoError, SocError
from ms_custom_ops.registry import get_op, list_ops

SEGSUM = Path(__file__).parents[1] / "data" / "atk_bwd_segsum_dadt.yaml"
ATTENTION = """\
api: primitive
name: flash_attention
version: v2.1
dtype_numbers: 6
generate:
  random: {B: [1, 2], N1: [2, 4], N2: [1, 2]}
standard: {acc: mixed_tolerance_bm, perf: not_key}
inputs:
  - name: query
    type: tensor
    required: true
    dtypes: {values: [fp16]}
    shapes: {dim_numbers: {values: [2, 4]}, max_length: 48}
  - {name: key, type: tensor, dtypes: {values: [fp16]}, ranges: {valid: {values: [[-1, 1]], weights: [1.0]}}}
  - {name: value, type: tensor, shapes: {max_length: 40}}
  - {name: attn_mask, type: tensor, required: false}
  - {name: scale_value, type: attr, dtypes: {values: [float]}, ranges: {valid: {values: [0.125, [0.1, 0.5]]}}}
  - {name: sparse_mode, type: attr, required: false, ranges: {valid: {values: [3]}, invalid: {values: [1, 2]}}}
"""


@pytest.fixture
def attention(tmp_path: Path) -> Path:
    path = tmp_path / "attention.yaml"
    path.write_text(ATTENTION, encoding="utf-8")
    return path


def test_the_own_file_has_the_public_shapes_and_thresholds():
    file = read_cases(SEGSUM)
    assert file.form == "function" and file.symbols == ("B", "H", "N", "C") and not file.notes
    unit_test = {(1, 1, 1, 8), (1, 1, 1, 16), (1, 2, 2, 16), (2, 4, 4, 32), (1, 1, 2, 64), (1, 8, 1, 32)}
    assert unit_test | {(2, 2, 4, 16), (1, 4, 2, 32), (1, 16, 1, 16)} <= set(file.shapes)
    assert {1, 2, 3, 7, 24, 48, 100, 128, 256} <= {shape[3] for shape in file.shapes}
    ratio, single = (standard.numbers for standard in file.standards)
    assert ratio == {
        "float32": {"ratio": 1e-4, "atol": 1e-5},
        "float16": {"ratio": 1e-3, "atol": 5e-4},
        "bfloat16": {"ratio": 1e-2, "atol": 5e-3},
    }
    assert single["float16"] == {"error": 0.02, "eb": 0.002}
    assert single["float32"] == single["bfloat16"] == {"error": 0.01, "eb": 0.001}
    assert file.count == 15


@pytest.mark.parametrize(("soc", "rows"), [("Ascend910A", 3), ("Ascend910B1", 5)])
def test_every_listed_shape_runs_with_every_dtype_and_round(soc, rows):
    file = read_cases(SEGSUM)
    cases = file_cases(file, soc)
    listed = [case for case in cases if case.name.endswith(("-r0", "-r1", "-r2"))]
    assert len(listed) == len(file.shapes) * rows * 3
    assert sum("random" in case.name for case in cases) == 15 * rows
    assert len({case.name for case in cases}) == len(cases)
    assert {case.layouts["SSdA"] for case in listed} == set(LAYOUTS)
    assert {str(case.fills["ddt_out"]) for case in listed} == {"0", "[-1, 1]", "normal 1"}


def test_chip_without_bfloat16_gets_no_such_case():
    cases = file_cases(read_cases(SEGSUM), "Ascend910A")
    assert {case.dtypes["dSSdA"] for case in cases if not case.invalid} == {"float32", "float16"}


def test_each_invalid_entry_is_one_case_that_is_wrong_in_one_thing():
    cases = [case for case in file_cases(read_cases(SEGSUM), "Ascend910A") if case.invalid]
    assert len(cases) == 21 and all(case.expected_error in case.name for case in cases)
    by_name = {case.name: case for case in cases}
    assert by_name["invalid-chunk_size-C + 1"].attrs == {"chunk_size": 9}
    assert by_name["invalid-ddt_out-BxHxN * C + 1"].shapes["ddt_out"] == (1, 1, 9)
    assert by_name["invalid-SSdA-float16"].dtypes == {"dSSdA": "float32", "SSdA": "float16", "ddt_out": "float32"}


def test_the_seed_decides_cases_and_data():
    file = read_cases(SEGSUM)
    first, again, other = (file_cases(file, "Ascend910B1", seed) for seed in (3, 3, 4))
    assert [case.name for case in first] == [case.name for case in again] != [case.name for case in other]
    for a, b, c in zip(first[:3], again[:3], other[:3], strict=True):
        one, two, three = make_arrays(a), make_arrays(b), make_arrays(c)
        assert all(one[n].tobytes() == two[n].tobytes() for n in one)
        assert any(one[n].tobytes() != three[n].tobytes() for n in one)


def test_data_does_not_depend_on_the_chip():
    old, new = (
        {case.name: case for case in file_cases(read_cases(SEGSUM), soc)} for soc in ("Ascend910A", "Ascend910B1")
    )
    name = "B1-H2-N2-C16-F16-r1"
    first, second = make_arrays(old[name]), make_arrays(new[name])
    assert all(first[n].tobytes() == second[n].tobytes() for n in first)


def test_garbage_fills_the_unused_triangle_only():
    case = next(c for c in file_cases(read_cases(SEGSUM), "Ascend910A") if c.name == "B1-H1-N1-C16-F32-r2")
    arrays = make_arrays(case)
    used = np.tril(np.ones((16, 16), bool), -1)
    assert np.isfinite(arrays["SSdA"][..., used]).all() and np.isnan(arrays["SSdA"][..., ~used]).all()
    assert np.isfinite(arrays["dSSdA"][..., used.T]).all() and np.isinf(arrays["dSSdA"][..., ~used.T]).all()


def test_random_shapes_obey_the_op(attention):
    file = read_cases(attention)
    assert file.notes == ("version", "inputs.1.ranges.valid.weights", "standard.perf")
    cases = [case for case in file_cases(file, "Ascend910A") if not case.invalid]
    assert len(cases) == 6
    for case in cases:
        assert case.op.check_call(case.shapes, case.dtypes, case.attrs, "Ascend910A")["D"] in (16, 32)
        assert case.symbols["S1"] <= 48 and case.symbols["S2"] <= 40
        assert np.abs(make_arrays(case)["key"].astype(np.float32)).max() <= 1
        assert 0.1 <= case.attrs["scale_value"] <= 0.5
    assert {"attn_mask" in case.present for case in cases} == {True, False}
    assert {case.attrs.get("sparse_mode") for case in cases} == {3, None}


def test_random_shapes_that_cannot_obey_the_op(attention):
    attention.write_text(ATTENTION.replace("max_length: 40", "max_length: 15"), encoding="utf-8")
    with pytest.raises(CaseFileError, match=r"random shapes in .*1000 that break the op's rules.*D % 16 == 0"):
        file_cases(read_cases(attention), "Ascend910A")


def test_dtypes_that_no_row_of_the_op_has(attention):
    attention.write_text(ATTENTION.replace("value, type: tensor", "value, type: tensor, dtypes: {values: [bf16]}"),
                         encoding="utf-8")  # fmt: skip
    with pytest.raises(CaseFileError, match=r"dtypes in .* is query float16; .*value bfloat16.*; accepted: a row of"):
        file_cases(read_cases(attention), "Ascend910A")


def test_file_without_a_case_for_the_chip(attention):
    attention.write_text(ATTENTION.replace("fp16", "bf16"), encoding="utf-8")
    with pytest.raises(CaseFileError, match=r"no case for Ascend910A; accepted: dtypes F16"):
        file_cases(read_cases(attention), "Ascend910A")


def test_chip_without_a_kernel(attention):
    with pytest.raises(SocError, match=r"flash_attention: soc is 'Ascend310'; accepted: Ascend910A"):
        file_cases(read_cases(attention), "Ascend310")


def test_smoke_cases_are_those_of_the_op_info_file():
    op = get_op("flash_attention")
    assert [c.name for c in smoke_cases(op, "Ascend910B1")] == [case.name for case in op.cases]
    assert "bfloat16" not in [c.name for c in smoke_cases(op, "Ascend910A")]


@pytest.mark.parametrize("golden", ["math:exp", "json.decoder:scan"], ids=["no_package", "no_file"])
def test_op_without_a_cases_file_has_plain_data(golden):
    """flash_attention as if its golden stood in a folder without cases.py: its own data has lengths within S1."""
    op = get_op("flash_attention")
    op = dataclasses.replace(op, impl=dataclasses.replace(op.impl, golden=golden))
    assert case_data(op) == CaseData()
    case = {c.name: c for c in smoke_cases(op, "Ascend910A")}["grouped_masked"]
    arrays = make_arrays(case)
    assert abs(arrays["query"].mean()) < 0.05 and abs(arrays["query"].astype(np.float64).std() - 1) < 0.05
    lengths = np.concatenate([arrays["actual_seq_qlen"], arrays["actual_seq_kvlen"]])
    assert lengths.dtype == np.int32 and -9 <= lengths.min() < 0 < lengths.max() <= 9


@pytest.mark.parametrize(("dtype", "found"), [("int8", range(-9, 10)), ("uint16", range(10)), ("bool", range(2))])
def test_plain_integers_are_all_in_their_range(dtype, found):
    array = filled(np.random.default_rng(0), plain_fill(dtype), (1000,), dtype)
    assert array.dtype == dtype and set(array.astype(int)) == set(found)


def test_a_cases_file_speaks_of_every_op_of_its_folder():
    op = dataclasses.replace(get_op("segsum_decay"), name="other")
    with pytest.raises(OpInfoError, match=r"^other: CASES in .*segsum_decay/cases.py is segsum_decay; accepted: an e"):
        case_data(op)


def test_every_entry_of_a_cases_file_is_an_op():
    for name in list_ops():
        package = get_op(name).impl.golden.partition(":")[0].rpartition(".")[0]
        if importlib.util.find_spec(f"{package}.cases") is not None:
            assert set(importlib.import_module(f"{package}.cases").CASES) <= set(list_ops())


def test_attributes_come_before_the_shapes_that_use_them(attention):
    tensors = ("query", "key", "value", "sparse_indices", "query_rope", "key_rope")
    text = "api: primitive\nname: sparse_flash_attention\ninputs:\n" + "".join(f"  - {{name: {n}}}\n" for n in tensors)
    text += "  - {name: rope_dim, ranges: {valid: {values: [32]}}}\n"
    text += "generate: {symbols: [B, BK, S1, S2, N1, N2, D, DV, K], shapes: [[1, 1, 2, 9, 1, 1, 16, 16, 8]]}\n"
    attention.write_text(text, encoding="utf-8")
    case = file_cases(read_cases(attention), "Ascend910A")[0]
    assert case.shapes["query_rope"] == (1, 2, 1, 32)


@pytest.mark.parametrize("seed", range(5))
def test_usual_data_keeps_the_rules_of_its_op(seed):
    by_name = {}
    for op in ("bwd_dtrap_ddt", "ssd_chunk_scan", "flash_attention"):
        by_name.update({(op, c.name): (c, make_arrays(c)) for c in smoke_cases(get_op(op), "Ascend910A", seed)})
    _, arrays = by_name["bwd_dtrap_ddt", "packed"]
    bounds = list(arrays["cu_seqlens"])
    end = bounds.index(40)
    assert bounds[0] == 0 and bounds[: end + 1] == sorted(set(bounds[: end + 1])) and not any(bounds[end + 1 :])
    _, arrays = by_name["ssd_chunk_scan", "packed"]
    first = list(arrays["first_chunks"])
    assert first[0] == 0 and first[3] == 6 and first[:4] == sorted(first[:4])
    case, arrays = by_name["flash_attention", "grouped_masked"]
    assert set(np.unique(arrays["attn_mask"])) == {0, 1} and arrays["attn_mask"][..., 200:].all()
    assert arrays["actual_seq_qlen"].max() <= case.symbols["S1"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_view_of_what_is_stored_is_the_array(layout):
    array = np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5)
    again = view(stored(array, layout), layout)
    np.testing.assert_array_equal(again, array)
    assert again.flags.c_contiguous == (layout == "contiguous")


def test_fills():
    rng = np.random.default_rng(0)
    whole = filled(rng, Fill("uniform", -2, 3), (1000,), "int32")
    assert whole.dtype == np.int32 and set(whole) == set(range(-2, 4))
    assert set(filled(rng, Fill("constant", 0, 2.5), (17,), "bfloat16").astype(float)) == {2.5}
    assert abs(float(filled(rng, Fill("normal", 0, 3.0), (4000,), "float32").std()) - 3) < 0.2
