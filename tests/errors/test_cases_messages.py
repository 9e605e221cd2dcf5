# SPDX-License-Identifier: Apache-2.0
"""Every message of reading a case file, and of the command: a case breaks one thing in a good file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from click.testing import CliRunner

from ms_custom_ops.cases import CaseFileError, file_cases, read_cases, run_case
from ms_custom_ops.cli import main
from ms_custom_ops.op_impl.ssd_chunk_scan.cases import CASES as SCAN_CASES
from ms_custom_ops.registry import Registry, get_op, load_registry

GOOD = """\
api: function
name: bwd_segsum_dadt
dtype_numbers: 2
generate:
  symbols: [B, H, N, C]
  shapes:
    - [1, 1, 2, 16]
  random: {B: [1, 2], C: [16, 32]}
standard:
  acc:
    ratio: {fp32: {ratio: 1.0e-4, atol: 1.0e-5}}
    single_bm:
      high_performance: {fp32: {error: 0.01, eb: 0.001}}
inputs:
  - name: dSSdA
    type: tensor
    required: true
    dtypes: {values: [fp32]}
    ranges: {valid: {values: [[-1, 1], {normal: 1.0, lower: .inf}]}}
    layouts: {values: [contiguous, swapped]}
    shapes: {dim_numbers: {values: [5]}, max_length: 64, invalid: {values: [[B, H, C + 1]]}}
  - name: SSdA
    dtypes: {values: [fp32], invalid: {values: [fp16]}}
  - name: ddt_out
    ranges: {valid: {values: [0]}}
  - name: chunk_size
    type: attr
    dtypes: {values: [int]}
    ranges: {valid: {values: [C]}, invalid: {values: [[300, 400]]}}
    expected_error_msg: chunk_size
"""

# id: (text that is replaced once, its replacement, line of the finding, its text)
# fmt: off
CASES = {
    "unknown_key": ("dtype_numbers: 2", "dtype_numbers: 2\ndtype_number: 3", 4,
        "unknown key 'dtype_number' in the file; nearest known: 'dtype_numbers'"),
    "unknown_key_of_generate": ("  random:", "  randon:", 8,
        "unknown key 'randon' in generate; nearest known: 'random'"),
    "unknown_key_of_input": ("    required: true", "    requird: true", 17,
        "unknown key 'requird' in inputs.0; nearest known: 'required'"),
    "unknown_key_of_ranges": ("{valid: {values: [0]}}", "{valit: {values: [0]}}", 25,
        "unknown key 'valit' in inputs.2.ranges; nearest known: 'valid'"),
    "unknown_key_of_values": ("{valid: {values: [0]}}", "{valid: {value: [0]}}", 25,
        "unknown key 'value' in inputs.2.ranges.valid; nearest known: 'values'"),
    "unknown_key_of_shapes": ("max_length: 64", "max_lenght: 64", 21,
        "unknown key 'max_lenght' in inputs.0.shapes; nearest known: 'max_length'"),
    "unknown_key_of_dtypes": ("{values: [fp32], invalid:", "{values: [fp32], invaild:", 23,
        "unknown key 'invaild' in inputs.1.dtypes; nearest known: 'invalid'"),
    "unknown_key_of_fill": ("{normal: 1.0, lower: .inf}", "{normal: 1.0, lowr: .inf}", 19,
        "unknown key 'lowr' in inputs.0.ranges.valid.values.1; nearest known: 'lower'"),
    "unknown_comparator": ("    ratio: {fp32", "    ration: {fp32", 11,
        "unknown key 'ration' in standard.acc; nearest known: 'ratio'"),
    "unknown_number": ("atol: 1.0e-5", "atoll: 1.0e-5", 11,
        "unknown key 'atoll' in standard.acc.ratio.fp32; nearest known: 'atol'"),
    "unknown_mode_of_single_bm": ("      high_performance:", "      high_perfomance:", 13,
        "unknown key 'high_perfomance' in standard.acc.single_bm; nearest known: 'high_performance'"),
    "unknown_dtype_of_standard": ("ratio: {fp32", "ratio: {fp33", 11,
        "unknown key 'fp33' in standard.acc.ratio; nearest known: 'fp32'"),
    "duplicate_key": ("dtype_numbers: 2", "dtype_numbers: 2\napi: function", 4,
        "duplicate key 'api' (first at line 1)"),
    "no_op": ("name: bwd_segsum_dadt", "name: bwd_segsum_dad", 2,
        "name is 'bwd_segsum_dad'; accepted: an op, nearest known: 'bwd_segsum_dadt'"),
    "api": ("api: function", "api: triton", 1,
        "api is 'triton'; accepted: function, primitive, pytorch (= function)"),
    "symbols": ("[B, H, N, C]", "[B, H, N, D]", 5,
        "symbols are B, H, N, D; accepted: those of bwd_segsum_dadt, B, H, N, C, in any order"),
    "size": ("[1, 1, 2, 16]", "[1, 1, 0, 16]", 7, "generate.shapes.0 is 0; accepted: an int of 1 or more"),
    "sizes": ("[1, 1, 2, 16]", "[1, 1, 16]", 7,
        "generate.shapes.0 has 3 sizes; accepted: 4, B, H, N, C"),
    "shapes_no_list": ("\n    - [1, 1, 2, 16]", " 3", 6, "generate.shapes is 3; accepted: a list of lists of sizes"),
    "random_of_no_symbol": ("random: {B:", "random: {S:", 8, "unknown key 'S' in generate.random; known: B, H, N, C"),
    "random_empty": ("random: {B: [1, 2]", "random: {B: []", 8,
        "generate.random.B is empty; accepted: at least one size"),
    "count": ("dtype_numbers: 2", "dtype_numbers: -1", 3, "dtype_numbers is -1; accepted: an int of 0 or more"),
    "standard_without_numbers": ("    ratio: {fp32: {ratio: 1.0e-4, atol: 1.0e-5}}", "    ratio: {}", 11,
        "standard.acc.ratio has no numbers; accepted: {fp32: {ratio, atol}, ..}"),
    "standard_lacks_a_number": ("ratio: 1.0e-4, atol", "atol", 11,
        "standard.acc.ratio.fp32 has no ratio; accepted: ratio, atol"),
    "number_as_text": ("1.0e-4", "1e-4", 11,
        "standard.acc.ratio.fp32.ratio is '1e-4'; accepted: a number (YAML wants 1.0e-3, not 1e-3)"),
    "input_name": ("name: SSdA", "name: SSDA", 22, "input 'SSDA'; nearest known: 'SSdA'"),
    "input_of_the_primitive_only": ("name: ddt_out", "name: lengths", 24,
        "input 'lengths'; known: dSSdA, SSdA, ddt_out, chunk_size"),
    "input_twice": ("name: SSdA", "name: dSSdA", 22, "input 'dSSdA' is given twice; accepted: once"),
    "input_missing": ("  - name: ddt_out\n    ranges: {valid: {values: [0]}}\n", "", 14,
        "no input 'ddt_out'; accepted: one for each of dSSdA, SSdA, ddt_out, chunk_size"),
    "type": ("type: tensor", "type: tensors", 16, "type of 'dSSdA' is 'tensors'; accepted: tensor"),
    "required": ("required: true", "required: false", 17,
        "required of 'dSSdA' is False; accepted: true, 'dSSdA' has no default"),
    "expected_error": ("_msg: chunk_size", "_msg: 3", 30, "expected_error_msg is 3; accepted: a string"),
    "dtype": ("dtypes: {values: [fp32]}", "dtypes: {values: [fp31]}", 18, "dtype 'fp31'; nearest known: 'fp32'"),
    "dtype_of_no_row": ("dtypes: {values: [fp32]}", "dtypes: {values: [int8]}", 18,
        "dtype of 'dSSdA' is int8; accepted: bfloat16, float16, float32"),
    "dtype_of_attribute": ("{values: [int]}", "{values: [float]}", 28,
        "dtype of the attribute 'chunk_size' is 'float'; accepted: int"),
    "shapes_of_attribute": ("    type: attr", "    type: attr\n    shapes: {max_length: 3}", 28,
        "shapes of the attribute 'chunk_size'; accepted: shapes of tensors"),
    "attribute_without_values": ("{valid: {values: [C]}, ", "{", 26,
        "attribute 'chunk_size' has no ranges.valid.values; accepted: values, [low, high] ranges or expressions"),
    "values_missing": ("{valid: {values: [0]}}", "{valid: {}}", 25,
        "inputs.2.ranges.valid has no values; accepted: a list of"),
    "values_no_list": ("{valid: {values: [0]}}", "{valid: {values: 0}}", 25,
        "inputs.2.ranges.valid.values is 0; accepted: a list of [low, high], a number"),
    "values_no_mapping": ("{valid: {values: [0]}}", "{valid: 0}", 25,
        "inputs.2.ranges.valid is 0; accepted: a mapping with the keys values"),
    "unknown_symbol": ("values: [C]", "values: [K]", 29, "'K' uses the unknown symbol 'K'; known: B, C, H, N, NP, S"),
    "not_an_expression": ("values: [C]", "values: [C ** 2]", 29, "'C ** 2'"),  # the rest is the expression parser's
    "attribute_range": ("[[300, 400]]", "[[400, 300]]", 29,
        "inputs.3.ranges.invalid.values.0 is [400, 300]; accepted: [low, high] of numbers, for an attribute"),
    "fill": ("{values: [0]}", "{values: [uniform]}", 25,
        "inputs.2.ranges.valid.values.0 is 'uniform'; accepted: [low, high], a number, normal, or"),
    "fill_range": ("[-1, 1]", "[1, -1]", 19,
        "inputs.0.ranges.valid.values.0 is [1, -1]; accepted: [low, high], a number"),
    "fill_of_two_kinds": ("{normal: 1.0,", "{normal: 1.0, constant: 0,", 19,
        "inputs.0.ranges.valid.values.1 has normal, constant; accepted: one of normal, uniform, constant"),
    "fill_uniform": ("{normal: 1.0,", "{uniform: 1.0,", 19, "uniform is 1.0; accepted: [low, high]"),
    "rank": ("dim_numbers: {values: [5]}", "dim_numbers: {values: [4]}", 21,
        "ranks of 'dSSdA' are [4]; accepted: a list with 5, shape (B, H, N, C, C)"),
    "max_length": ("max_length: 64", "max_length: 0", 21,
        "inputs.0.shapes.max_length is 0; accepted: an int of 1 or more"),
    "layout": ("[contiguous, swapped]", "[contiguous, swaped]", 20, "layout 'swaped'; nearest known: 'swapped'"),
    "layout_of_primitive": ("api: function", "api: primitive", 20,
        "layout swapped with api primitive, which takes contiguous tensors; accepted: api function, or contiguous"),
}
# fmt: on


def read(tmp_path: Path, text: str):
    path = tmp_path / "cases.yaml"
    path.write_text(text, encoding="utf-8")
    return read_cases(path)


def test_the_good_file_is_good(tmp_path):
    assert len(read(tmp_path, GOOD).inputs) == 4


@pytest.mark.parametrize("name", CASES)
def test_finding_with_file_and_line(name, tmp_path):
    old, new, line, text = CASES[name]
    assert GOOD.count(old) >= 1
    with pytest.raises(CaseFileError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    findings = str(caught.value).splitlines()[1:]
    assert any(f"cases.yaml:{line}: " in item and text in item for item in findings), str(caught.value)


def test_all_findings_are_collected(tmp_path):
    text = GOOD.replace("max_length", "max_lenght").replace("atol", "atoll").replace("[1, 1, 2, 16]", "[16]")
    with pytest.raises(CaseFileError) as caught:
        read(tmp_path, text)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("cases: 4 finding(s) in ") and len(lines) == 5


PRIMITIVE = "api: primitive\nname: flash_attention\ndtype_numbers: 1\ninputs:\n" + "".join(
    f"  - {{name: {name}}}\n" for name in ("query", "key", "value")
)


def test_no_case(tmp_path):
    with pytest.raises(CaseFileError, match="no case: give generate.shapes, or dtype_numbers of 1 or more"):
        read(tmp_path, PRIMITIVE.replace("dtype_numbers: 1", "dtype_numbers: 0"))


def test_function_form_of_an_op_that_has_none(tmp_path):
    with pytest.raises(CaseFileError, match="api is 'function'; accepted: primitive for flash_attention"):
        read(tmp_path, PRIMITIVE.replace("primitive", "function"))


def test_required_is_no_bool(tmp_path):
    text = PRIMITIVE + "  - {name: attn_mask, required: 3}\n"
    with pytest.raises(CaseFileError, match="required of 'attn_mask' is 3; accepted: true or false"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ("ranges: {valid: {values: [{constant: 0, upper: 1}]}}", "upper and lower of 'actual_seq_qlen' of rank 1"),
        ("layouts: {values: [swapped]}", "layout swapped of 'actual_seq_qlen' of rank 1; accepted: rank 2 or more"),
    ],
    ids=["triangle", "layout"],
)
def test_one_axis_has_no_triangle_and_no_swap(tmp_path, extra, text):
    with pytest.raises(CaseFileError, match=text):
        read(tmp_path, PRIMITIVE + f"  - {{name: actual_seq_qlen, {extra}}}\n")


def test_no_yaml(tmp_path):
    with pytest.raises(CaseFileError, match=r"cases.yaml:2: not valid YAML"):
        read(tmp_path, "api: [\n")


def test_no_mapping(tmp_path):
    with pytest.raises(CaseFileError, match="the file holds list; accepted: a mapping with the keys api, name, "):
        read(tmp_path, "- api\n")


def test_no_file(tmp_path):
    with pytest.raises(CaseFileError, match="is no file; accepted: a YAML file"):
        read_cases(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["flash_attention", "--mindspore", "--engine", "both"], 2, "--mindspore with --engine both; accepted: one"),
        (["flash_attention", "--case", "nothing"], 1, "no case for these chips and --case nothing"),
        (["flash_attentio"], 1, "op name is 'flash_attentio'; accepted: nearest known: 'flash_attention'"),
        (["flash_attention", "--soc", "Ascend9"], 1, "Ascend9"),
        (["--cases", "none.yaml"], 2, "none.yaml"),
    ],
    ids=["mindspore_and_engine", "only", "op", "soc", "file"],
)
def test_command_line(arguments, code, text):
    result = CliRunner().invoke(main, ["test", *arguments])
    assert result.exit_code == code and text in result.output, result.output


SINKS = """\
api: primitive
name: sparse_flash_attention
generate: {shapes: [[1, 1, 3, 20, 4, 1, 16, 16, 8]], symbols: [B, BK, S1, S2, N1, N2, D, DV, K]}
inputs: [{name: query}, {name: key}, {name: value}, {name: sparse_indices},
  {name: sinks, ranges: {valid: {values: [normal]}}}]
"""
WEIGHTS = """\
api: primitive
name: mamba3_chunk_scan
generate: {shapes: [[1, 32, 1, 16, 1, 16, 1]], symbols: [B, S, H, P, G, N, NS]}
inputs: [{name: v}, {name: da}, {name: factor}, {name: gamma, ranges: {valid: {values: [GAMMA]}}}, {name: k}, {name: q},
  {name: initial_states}, {name: rank, ranges: {valid: {values: [2]}}},
  {name: chunk_size, ranges: {valid: {values: [16]}}}]
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SINKS, "cases: sinks is different in different rows; accepted: one per head"),
        (WEIGHTS.replace("GAMMA", "normal"), "cases: da, factor, gamma is values that no trapezoid gives; accepted"),
        (WEIGHTS.replace("GAMMA", "0"), "cases: da, factor, gamma is values that no trapezoid gives; accepted"),
    ],
    ids=["sinks", "negative_weights", "zero_weights"],
)
def test_values_that_the_golden_does_not_take_are_an_error(tmp_path, text, message):
    path = tmp_path / "cases.yaml"
    path.write_text(text, encoding="utf-8")
    results = [run_case(case, "Ascend910A") for case in file_cases(read_cases(path), "Ascend910A")]
    assert [r.verdict for r in results] == ["error"] and message in results[0].message, results[0].message


def test_ops_that_their_cases_file_leaves_out_are_refused_before_any_runs(monkeypatch):
    monkeypatch.delitem(SCAN_CASES, "ssd_chunk_scan_grad")
    result = CliRunner().invoke(main, ["test"])
    assert result.exit_code == 1 and result.output.startswith("Error: ssd_chunk_scan_grad: CASES in ")
    assert result.output.endswith(" is ssd_chunk_scan; accepted: an entry for every op of the folder, CaseData() for "
                                  "plain numbers\n")  # fmt: skip


def test_an_op_without_a_case_is_refused_by_name(monkeypatch):
    op = get_op("dacs_segsum")
    empty = Registry("here", {**load_registry().ops, op.name: dataclasses.replace(op, cases=())})
    monkeypatch.setattr("ms_custom_ops.scope.Scope.registry", lambda scope: empty)
    result = CliRunner().invoke(main, ["test"])
    assert result.exit_code == 1 and result.output == (
        "Error: dacs_segsum: no case for Ascend910A, Ascend310P3, Ascend910B1, Ascend910_9391; accepted: at least one "
        f"under cases in {op.location}\n"
    )
