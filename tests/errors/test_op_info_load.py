# SPDX-License-Identifier: Apache-2.0
"""Every message of loading op_info files: a case breaks one thing in a good file and expects it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from ms_custom_ops.errors import OpInfoError
from ms_custom_ops.registry import load_registry

GOOD = """\
scale:
  doc: x * factor + bias
  args:
    x: {dtype: tensor, shape: [B, N]}
    bias: {dtype: tensor, default: None, shape: ["1|B", N]}
    factor: {dtype: float, default: 1.0, prim_init: True}
    mode: {dtype: str, default: "'fast'", prim_init: True}
  args_signature: {dtype_group: "(x)"}
  symbols: {NP: "(N + 7) // 8 * 8"}
  returns:
    y: {dtype: tensor, shape: [B, N], dtype_from: x}
    stat: {dtype: tensor, shape: [B, NP], dtype_from: float32}
  constraints:
    - {expr: "N >= 1", msg: "not empty"}
  dtype_format:
    - {x: F16, bias: F16, y: F16, stat: F32, format: ND}
  bprop:
    x: scale_grad(x, dout[0], bias, factor)
    bias: non_differentiable
    output_differentiability: [True, False]
  impl:
    tik: {entry: "toy.fwd:scale", kernel_name: scale}
    golden: "toy.golden:scale"
    tiling: "toy.tiling"
  target:
    soc: {Ascend910A: {dtypes: [F16]}}
    deterministic: True
  accuracy: {standard: mixed, fp16: {rtol: 0.001}}
  status: {null_pointer: 161001}
  cases:
    - {name: small, B: 2, N: 17, dtype: F16}
    - {name: biased, B: 1, N: 8, dtype: F16, present: [bias]}
scale_grad:
  args:
    x: {dtype: tensor, shape: [B, N]}
    d_y: {dtype: tensor, shape: [B, N]}
    bias: {dtype: tensor, default: None, shape: ["1|B", N]}
    factor: {dtype: float, default: 1.0, prim_init: True}
  returns: {d_x: {dtype: tensor, shape: [B, N], dtype_from: x}}
  dtype_format: [{x: F16, d_y: F16, bias: F16, d_x: F16}]
  bprop: none
  impl: {tik: {entry: "toy.bwd:scale_grad"}, golden: "toy.golden:scale_grad", tiling: "toy.tiling"}
  target: {soc: {Ascend910A: {dtypes: [F16]}}}
"""
X = "    x: {dtype: tensor, shape: [B, N]}\n    bias"
FORMULA = "scale_grad(x, dout[0], bias, factor)"

# id: (text that is replaced once, its replacement, expected finding). It must carry the line of the change.
# fmt: off
CASES = {
    "unknown_key_of_op": ("  status:", "  statuss:",
        "unknown key 'statuss' in the op; nearest known: 'status'"),
    "unknown_key_of_arg": ("bias: {dtype: tensor, default", "bias: {dtype: tensor, defalt: None, default",
        "unknown key 'defalt' in args.bias; nearest known: 'default'"),
    "unknown_key_of_return": ("dtype_from: x}", "dtype_from: x, shap: 1}",
        "unknown key 'shap' in returns.y; "),
    "unknown_key_of_signature": ("{dtype_group:", "{dtype_grp: 1, dtype_group:",
        "unknown key 'dtype_grp' in args_signature"),
    "unknown_key_of_constraint": ('not empty"}', 'not empty", text: 1}',
        "unknown key 'text' in constraints.0; "),
    "unknown_key_of_row": ("stat: F32,", "stat: F32, z: F16,", "unknown key 'z' in dtype_format.0; "),
    "unknown_key_of_impl": ('    golden: "toy.golden:scale"',
        '    golden: "toy.golden:scale"\n    goldn: x',
        "unknown key 'goldn' in impl; nearest known: 'golden'"),
    "unknown_key_of_target": ("    deterministic: True", "    determinstic: True",
        "unknown key 'determinstic' in target; nearest known: 'deterministic'"),
    "unknown_key_of_accuracy": ("{standard: mixed,", "{standard: mixed, fp8: {},",
        "unknown key 'fp8' in accuracy; "),
    "unknown_key_of_tolerance": ("{rtol: 0.001}", "{rtoll: 0.001}",
        "unknown key 'rtoll' in accuracy.fp16; nearest known: 'rtol'"),
    "unknown_key_of_case": ("N: 17, dtype", "M: 17, N: 17, dtype", "unknown key 'M' in cases.0; "),
    "duplicate_key": ("    deterministic: True", "    deterministic: True\n    deterministic: True",
        "duplicate key 'deterministic'"),
    "duplicate_op": ("scale_grad:\n  args:\n", "scale: {}\nscale_grad:\n  args:\n",
        "duplicate op name 'scale' (first at line 1)"),
    "key_is_list": ("    deterministic: True", "    [1, 2]: True", "a key that is a list or a mapping"),
    "op_is_no_mapping": ("scale_grad:\n", "other: 3\nscale_grad:\n", "the op is 3; accepted: a mapping"),
    "section_is_no_mapping": ("  status: {null_pointer: 161001}", "  status: 3",
        "status is 3; accepted: a mapping"),
    "op_name": ("scale_grad:\n  args:\n", "1st: {}\nscale_grad:\n  args:\n",
        "op name '1st' is no identifier"),
    "reserved_name": (X, "    dout: {dtype: tensor, shape: [B, N]}\n" + X,
        "argument 'dout' is reserved in generated code"),
    "argument_name_is_keyword": (X, "    in: {dtype: tensor, shape: [B, N]}\n" + X,
        "argument 'in' is no identifier"),
    "tensor_without_shape": (X, X.replace(", shape: [B, N]", ""), "tensor 'x' has no shape"),
    "shape_is_no_list": (X, X.replace("[B, N]", "B"), "args.x.shape is 'B'; accepted: a list"),
    "shape_grammar": (X, X.replace("N]", "N**2]"),
        "'N**2': the operator Pow is not part of the expression grammar"),
    "shape_syntax": (X, X.replace("N]", '"N +"]'), "'N +': not an expression"),
    "shape_unknown_symbol": ("[B, NP], dtype_from", "[B, NQ], dtype_from",
        "'NQ' uses the unknown name 'NQ'; nearest known: 'N"),
    "tensor_default": ("default: None", "default: 0", "default of tensor 'bias' is 0; accepted: None"),
    "not_prim_init": ("default: 1.0, prim_init: True}\n    mode", "default: 1.0}\n    mode",
        "attribute 'factor' is not prim_init"),
    "attribute_shape": ("{dtype: float, default: 1.0, prim_init: True}\n    mode",
        "{dtype: float, default: 1.0, prim_init: True, shape: [B]}\n    mode",
        "attribute 'factor' has a shape"),
    "attribute_default": ("default: 1.0, prim_init: True}\n    mode",
        "default: [], prim_init: True}\n    mode", "default [] does not fit dtype float"),
    "string_default": ("\"'fast'\"", "fast", "default of a str is fast; accepted: a quoted literal"),
    "unknown_kind": ("mode: {dtype: str", "mode: {dtype: list",
        "dtype of 'mode' is 'list'; accepted: tensor, int, float, bool, str"),
    "tensor_after_attribute": ("  args_signature",
        "    late: {dtype: tensor, default: None, shape: [B]}\n  args_signature",
        "tensor 'late' follows attribute 'mode'; accepted: all tensors first"),
    "required_after_optional": ("    factor: {dtype: float, default: 1.0, prim_init: True}\n    mode",
        "    late: {dtype: tensor, shape: [B]}\n    factor: {dtype: float, prim_init: True}\n    mode",
        "'late' without a default follows 'bias', which has one"),
    "symbol_is_attribute": ("    mode: {", "    NP: {dtype: int, default: 1, prim_init: True}\n    mode: {",
        "'NP' is both an attribute and a shape symbol"),
    "symbol_unknown_name": ("(N + 7)", "(K + 7)", "'(K + 7) // 8 * 8' uses the unknown name 'K'"),
    "return_dtype": ("y: {dtype: tensor", "y: {dtype: float",
        "dtype of return 'y' is 'float'; accepted: tensor"),
    "return_without_shape": ("shape: [B, N], dtype_from: x}", "dtype_from: x}", "return 'y' has no shape"),
    "return_alternatives": ("[B, N], dtype_from: x}", '["1|B", N], dtype_from: x}',
        "return 'y' has the alternatives 1|B"),
    "return_present_if": ("dtype_from: float32}", "dtype_from: float32, present_if: x}",
        "present_if of 'stat' is 'x'; accepted: an optional"),
    "return_dtype_from": ("dtype_from: float32}", "dtype_from: bias}",
        "dtype_from of 'stat' is 'bias'; accepted: a required tensor"),
    "return_is_argument": ("    stat: {dtype",
        "    x: {dtype: tensor, shape: [B], dtype_from: x}\n    stat: {dtype",
        "'x' is both an argument and a return"),
    "constraint_is_text": ('- {expr: "N >= 1", msg: "not empty"}', "- N >= 1",
        "constraints.0 is 'N >= 1'; accepted: a mapping"),
    "constraint_without_msg": (', msg: "not empty"', "", "the constraint has no msg"),
    "constraint_name": ("N >= 1", "factr >= 1",
        "'factr >= 1' uses the unknown name 'factr'; nearest known: 'factor'"),
    "constraint_tensor": ("N >= 1", "present(bia)",
        "'present(bia)' uses the unknown tensor 'bia'; nearest known: 'bias'"),
    "dtype_group": ('"(x)"', '"(xx)"', "dtype_group names 'xx', which is no tensor argument; "),
    "no_rows": ("  dtype_format:\n    - {x: F16, bias: F16, y: F16, stat: F32, format: ND}\n",
        "  dtype_format: []\n", "dtype_format has no row"),
    "row_incomplete": ("bias: F16, y", "y", "the row has no dtype for 'bias'"),
    "row_code": ("{x: F16, bias", "{x: F61, bias", "dtype code of 'x' is 'F61'; nearest known: 'F16'"),
    "row_format": ("format: ND", "format: NZ", "format is 'NZ'; accepted: ND"),
    "row_contradicts_return": ("stat: F32,", "stat: F16,",
        "the row gives 'stat' F16, dtype_from (float32) gives F32"),
    "missing_golden": ('    golden: "toy.golden:scale"\n', "", "impl.golden is missing"),
    "golden_form": ('"toy.golden:scale"\n', '"toy.golden"\n',
        "impl.golden is 'toy.golden'; accepted: \"package.module:function\""),
    "no_chip": ("    soc: {Ascend910A: {dtypes: [F16]}}\n", "    soc: {}\n", "target.soc names no chip"),
    "chip_code": ("[F16]}}\n    deter", "[FP16]}}\n    deter",
        "dtype code 'FP16' of Ascend910A; nearest known: 'F16'"),
    "deterministic": ("deterministic: True", "deterministic: 3",
        "target.deterministic is 3; accepted: True or False"),
    "standard": ("standard: mixed", "standard: loose", "standard is 'loose'; accepted: mixed"),
    "accuracy_number": ("rtol: 0.001", "rtol: 1e-3",
        "rtol is '1e-3'; accepted: a number >= 0 (YAML wants 1.0e-3, not 1e-3)"),
    "status_code": ("161001", "bad", "status.null_pointer is 'bad'; accepted: an aclnn status code"),
    "case_name": ("name: biased", "name: small", "case name 'small'; accepted: a name of its own"),
    "case_dtype": ("N: 17, dtype: F16", "N: 17, dtype: F17",
        "case 'small': dtype code is 'F17'; nearest known: 'F16'"),
    "case_present": ("[bias]}", "[x]}", "case 'biased': 'x' is no optional tensor; "),
    "case_size": ("N: 17", "N: big", "cases.0.N is 'big'; accepted: an int"),
    "no_bprop": (
        "  bprop:\n    x: "
        + FORMULA
        + "\n    bias: non_differentiable\n    output_differentiability: [True, False]\n",
        "",
        "the op has no 'bprop'; accepted: formula lines, or 'bprop: none'",
    ),
    "bprop_is_list": ("  bprop: none", "  bprop: [x]", "bprop is ['x']; accepted: formula lines, or none"),
    "bprop_unknown_input": ("    bias: non_diff", "    bia, bias: non_diff",
        "'bia' is no tensor argument; nearest known: 'bias'"),
    "bprop_twice": ("    bias: non_diff", "    bias, x: non_diff", "'x' has a gradient line already"),
    "bprop_missing_line": ("    bias: non_differentiable\n", "", "tensor argument 'bias' has no line"),
    "bprop_line": (FORMULA, "[1]", "the line is [1]; accepted: a call"),
    "bprop_no_call": (FORMULA, "dout[0] * factor", "'dout[0] * factor' is no call"),
    "bprop_unknown_op": (FORMULA, FORMULA.replace("scale_grad", "scale_grd"),
        "unknown op 'scale_grd'; nearest known: 'scale_grad'"),
    "bprop_unknown_argument": (FORMULA, FORMULA.replace("factor", "fctor"),
        "unknown argument 'fctor'; nearest known: 'factor'"),
    "bprop_out_index": (FORMULA, FORMULA.replace("dout[0]", "dout[2]"),
        "dout[2] does not exist; accepted: 0 to 1"),
    "bprop_not_differentiable_output": (FORMULA, FORMULA.replace("dout[0]", "dout[1]"),
        "dout[1] is used, but output_differentiability says"),
    "bprop_operand": (FORMULA, FORMULA.replace("dout[0]", "dout[0] + 1"), "'dout[0] + 1' is no operand"),
    "bprop_literal_kind": (FORMULA, FORMULA.replace("factor", "2"),
        "int 2 is passed for the float 'factor' of scale_grad"),
    "bprop_literal_bool": (FORMULA, FORMULA.replace("factor", "True"),
        "bool True is passed for the float 'factor' of scale_grad"),
    "bprop_literal_for_tensor": (FORMULA, FORMULA.replace("dout[0]", "0.0"),
        "'0.0' is passed for 'd_y' of scale_grad; accepted: a tensor"),
    "bprop_none": (FORMULA, FORMULA.replace("bias", "None"), "'None' is no operand; accepted: an argument name"),
    "bprop_other_call": (FORMULA, FORMULA.replace("dout[0]", "ones_like(x)"),
        "'ones_like(x)' is no operand; accepted: zeros_like(x)"),
    "bprop_zeros_of_attribute": (FORMULA, FORMULA.replace("dout[0]", "zeros_like(factor)"),
        "zeros_like takes 'factor'; accepted: a tensor argument, out[i] or dout[i]"),
    "bprop_zeros_of_optional": (FORMULA, FORMULA.replace("dout[0]", "zeros_like(bias)"),
        "optional 'bias' is passed for the required 'd_y' of scale_grad"),
    "bprop_count": ("    x: " + FORMULA + "\n    bias: non_differentiable", "    x, bias: " + FORMULA,
        "scale_grad returns 1 tensors for 2 inputs"),
    "bprop_too_many": (FORMULA, FORMULA.replace("factor", "factor, mode"),
        "scale_grad takes 4 arguments, 5 given"),
    "bprop_keyword": (FORMULA, FORMULA.replace("factor", "facto=factor"),
        "scale_grad has no argument 'facto'; nearest known: 'factor'"),
    "bprop_keyword_twice": (FORMULA, FORMULA.replace("factor", "x=x, factor=factor"),
        "argument 'x' of scale_grad is given twice"),
    "bprop_attribute_for_tensor": (FORMULA, "scale_grad(x, factor, bias, factor)",
        "'factor' is passed for 'd_y' of scale_grad; accepted: a tensor"),
    "bprop_tensor_for_attribute": (FORMULA, FORMULA.replace("factor", "x"),
        "'x' is passed for 'factor' of scale_grad; accepted: an attribute"),
    "bprop_attribute_kind": (FORMULA, FORMULA.replace("factor", "mode"),
        "str 'mode' is passed for the float 'factor' of scale_grad"),
    "bprop_optional_for_required": (FORMULA, "scale_grad(bias, dout[0], bias, factor)",
        "optional 'bias' is passed for the required 'x' of scale_grad"),
    "bprop_not_passed": (FORMULA, "scale_grad(x, bias=bias, factor=factor)",
        "'d_y' of scale_grad is not passed"),
    "bprop_shared_not_passed": (FORMULA, FORMULA.replace(", factor", ""),
        "'factor' of scale_grad is not passed, though scale has it too"),
    "bprop_optional_gradient": ("    x: " + FORMULA + "\n    bias: non",
        "    bias: " + FORMULA + "\n    x: non",
        "'bias' is optional, its gradient 'd_x' of scale_grad has no present_if"),
    "output_differentiability": ("[True, False]", "[True]",
        "the value is [True]; accepted: a list of 2 booleans"),
}
# fmt: on


def _load(folder: Path, text: str) -> str:
    (folder / "toy.yaml").write_text(text)
    with pytest.raises(OpInfoError) as error:
        load_registry(folder)
    return str(error.value)


@pytest.mark.parametrize("name", CASES)
def test_one_finding_where_the_file_is_broken(tmp_path: Path, name: str) -> None:
    old, new, expected = CASES[name]
    assert GOOD.count(old) >= 1, "the case does not apply"
    text = GOOD.replace(old, new, 1)
    message = _load(tmp_path, text)
    assert expected in message
    changed = GOOD[: GOOD.index(old)].count("\n") + 1
    lines = {int(line.split("toy.yaml:")[1].split(":")[0]) for line in message.splitlines() if expected in line}
    near = set(range(changed, changed + new.count("\n") + 2))
    enclosing = {i for i, line in enumerate(text.splitlines(), 1) if not line.startswith("    ")}  # op or section
    assert lines & near or lines <= enclosing, (lines, changed)


def test_the_good_file_loads(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(GOOD)
    assert list(load_registry(tmp_path).ops) == ["scale", "scale_grad"]


def test_all_findings_of_all_files_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("lonely: {args: {}}\n")
    message = _load(
        tmp_path, GOOD.replace('golden: "toy.golden:scale"\n', "goldn: x\n", 1).replace("  bprop: none\n", "")
    )
    for expected in (
        "toy.yaml:23: op scale: unknown key 'goldn' in impl; nearest known: 'golden'",
        "toy.yaml:21: op scale: impl.golden is missing",
        "other.yaml:1: op lonely: there is no tensor argument",
        "other.yaml:1: op lonely: the key 'returns' is missing",
        "other.yaml:1: op lonely: the key 'dtype_format' is missing",
        "toy.yaml:33: op scale_grad: the op has no 'bprop'",
    ):
        assert expected in message
    assert f"{len(message.splitlines()) - 1} finding(s)" in message


def test_same_op_in_two_files(tmp_path: Path) -> None:
    (tmp_path / "again.yaml").write_text(GOOD)
    message = _load(tmp_path, GOOD)
    assert "toy.yaml:1: duplicate op name 'scale' (first at " in message and "again.yaml:1)" in message


def test_two_ops_with_one_class_name(tmp_path: Path) -> None:
    message = _load(tmp_path, GOOD.replace("  doc: x *", "  class: {name: ScaleGrad}\n  doc: x *"))
    assert "class_name 'ScaleGrad' is also that of op scale" in message


def test_two_ops_with_one_function_name(tmp_path: Path) -> None:
    message = _load(tmp_path, GOOD.replace("  doc: x *", "  function: {name: scale_grad}\n  doc: x *"))
    assert "function_name 'scale_grad' is also that of op scale" in message


def test_gradient_that_leads_back_to_itself(tmp_path: Path) -> None:
    text = GOOD.replace(
        "  bprop: none", "  bprop:\n    x: scale_grad(x, dout[0], bias, factor)\n    d_y, bias: non_differentiable"
    )
    assert "op scale_grad: its gradient formulas lead back to itself" in _load(tmp_path, text)


def test_file_that_is_no_yaml(tmp_path: Path) -> None:
    found = _load(tmp_path, "scale:\n  x: [1\n  y: 2\n")
    assert "toy.yaml:3: not valid YAML: " in found and "expected ',' or ']'" in found


def test_file_with_control_characters(tmp_path: Path) -> None:
    assert "toy.yaml:1: not valid YAML: unacceptable character" in _load(tmp_path, "scale: \x01\n")


def test_file_with_a_foreign_tag(tmp_path: Path) -> None:
    assert "toy.yaml:2: not valid YAML: could not determine a constructor" in _load(
        tmp_path, "scale:\n  doc: !!python/object:os.system x\n"
    )


def test_file_that_is_a_list(tmp_path: Path) -> None:
    assert "toy.yaml:1: the file holds list; accepted: a mapping from op name to op" in _load(tmp_path, "- scale\n")


def test_folder_without_files(tmp_path: Path) -> None:
    with pytest.raises(OpInfoError, match="folder is .*; accepted: a folder with at least one"):
        load_registry(tmp_path)
