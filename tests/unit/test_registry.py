# SPDX-License-Identifier: Apache-2.0
"""OpSpecs as loaded: symbols, inference, cases, gradients, export, and what `check` finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ms_custom_ops.registry import ABSENT_DTYPE, ABSENT_SHAPE, check_registry, get_op, list_ops, load_registry, resolve
from ms_custom_ops.registry.export import custom_reg_op, doc_table, strip_to_op_def, tbe_reg_op

SHAPE_CASES = {  # id: (B, N1, N2, S1, S2, D), wanted (S1P, S2P, BP)
    "one_token": ((1, 1, 1, 1, 1, 16), (16, 16, 8)),
    "15_17": ((3, 6, 2, 15, 17, 48), (16, 32, 8)),
    "63_200": ((9, 4, 4, 63, 200, 128), (64, 208, 16)),
    "257_1000": ((8, 2, 1, 257, 1000, 256), (272, 1008, 8)),
}


def _call(sizes: tuple[int, ...], dtype: str = "float16") -> tuple[dict, dict]:
    B, N1, N2, S1, S2, D = sizes
    shapes = {"query": (B, N1, S1, D), "key": (B, N2, S2, D), "value": (B, N2, S2, D)}
    return shapes, dict.fromkeys(shapes, dtype)


@pytest.mark.parametrize("name", SHAPE_CASES)
def test_symbols_and_returns(name: str) -> None:
    sizes, (S1P, S2P, BP) = SHAPE_CASES[name]
    B, N1, N2, S1, S2, D = sizes
    shapes, dtypes = _call(sizes)
    spec = get_op("flash_attention")
    assert spec.check_call(shapes, dtypes, {}, "Ascend910A") == dict(
        B=B, N1=N1, N2=N2, S1=S1, S2=S2, D=D, S1P=S1P, S2P=S2P, BP=BP
    )
    assert spec.infer(shapes, dtypes, {}, "Ascend910A") == [
        ((B, N1, S1, D), "float16"),
        ((B, N1, S1P), "float32"),
        ((B, N1, S1P), "float32"),
    ]


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend910B4"])
def test_bfloat16_where_the_chip_has_it(soc: str) -> None:
    shapes, dtypes = _call((1, 2, 2, 17, 17, 64), "bfloat16")
    assert get_op("flash_attention").infer(shapes, dtypes, {}, soc)[0] == ((1, 2, 17, 64), "bfloat16")


@pytest.mark.parametrize("mask", [(1, 1), (2, 1), (1, 4), (2, 4)], ids=str)
def test_mask_alternatives(mask: tuple[int, int]) -> None:
    shapes, dtypes = _call((2, 4, 2, 15, 63, 32))
    shapes["attn_mask"], dtypes["attn_mask"] = (*mask, 15, 64), "float16"
    assert get_op("flash_attention").check_call(shapes, dtypes, {}, "Ascend310P3")["S2P"] == 64


def test_lists_and_numpy_numbers_are_accepted() -> None:
    np = pytest.importorskip("numpy")
    shapes, dtypes = _call((1, 1, 1, 16, 16, 16))
    shapes = {name: [np.int64(size) for size in shape] for name, shape in shapes.items()}
    attrs = {"scale_value": np.float32(0.5), "seed": np.int32(3), "high_precision": np.bool_(True)}
    assert get_op("flash_attention").infer(shapes, dtypes, attrs, "Ascend910A")[0][0] == (1, 1, 16, 16)


def test_named_inputs_puts_none_where_an_optional_input_is_absent() -> None:
    spec = get_op("flash_attention")
    named = spec.named_inputs(list("abcdefghij"), (True, False, False, True, False, False, False))
    assert list(named.values()) == ["a", "b", "c", "d", None, None, "g", None, None, None]
    assert [arg.name for arg in spec.optional_tensors] == [
        "attn_mask",
        "real_shift",
        "drop_mask",
        "actual_seq_qlen",
        "actual_seq_kvlen",
        "seed_words",
        "row_bounds",
    ]


def test_gradient_formula_is_resolved() -> None:
    spec = get_op("flash_attention")
    assert spec.bprop is not None and spec.bprop.output_differentiability == (True, True, True)
    (rule,) = spec.bprop.rules
    assert rule.inputs == ("query", "key", "value", "real_shift") and rule.op == "flash_attention_grad"
    assert (rule.args["attention_out"].kind, rule.args["d_attention_out"].kind) == ("out", "dout")
    assert {name for name, operand in rule.args.items() if operand.kind == "attr"} == {a.name for a in spec.attributes}
    assert get_op("flash_attention_grad").bprop is None


def test_specs_are_frozen() -> None:
    spec = get_op("flash_attention")
    with pytest.raises(AttributeError):
        spec.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        spec.target.soc["Ascend310"] = ("F16",)  # type: ignore[index]


def test_default_tolerances_and_their_overrides() -> None:
    tolerance = get_op("flash_attention").tolerance("float16")
    assert tolerance is not None
    assert (tolerance.rtol, tolerance.atol, tolerance.worst, tolerance.matched, tolerance.rms) == (
        2**-9,
        2**-9,
        0.1,
        0.99,
        0.002,
    )
    assert get_op("flash_attention").tolerance("int32") is None


@pytest.mark.parametrize("op", list_ops())
def test_every_case_is_accepted_on_a_chip(op: str) -> None:
    spec = get_op(op)
    assert spec.cases
    for case in spec.cases:
        shapes, dtypes, attrs = spec.case_call(case)
        assert spec.infer(shapes, dtypes, attrs, "Ascend910B1")
        assert {name for name, shape in shapes.items() if shape is None} == {
            arg.name for arg in spec.optional_tensors
        } - set(case.present)


OPTIONAL_RETURN = """
f:
  args:
    x: {dtype: tensor, shape: [N]}
    b: {dtype: tensor, default: None, shape: [N]}
  returns:
    d_x: {dtype: tensor, shape: [N], dtype_from: x}
    d_b: {dtype: tensor, shape: [N], dtype_from: b, present_if: b}
  dtype_format: [{x: F16, b: F32, d_x: F16, d_b: F32}]
  bprop: none
  impl:
    tik: {entry: "ms_custom_ops.registry.expr:nothing"}
    golden: "no_such_package.golden:f"
    tiling: "ms_custom_ops.registry.nothing"
  target: {soc: {Ascend910A: {dtypes: [F16]}, Ascend910C: {dtypes: [F16]}}}
  cases:
    - {name: odd, N: 15, dtype: F16, present: [b]}
    - {name: lost, dtype: F16}
"""


@pytest.fixture
def optional_return(tmp_path: Path) -> Path:
    (tmp_path / "f.yaml").write_text(OPTIONAL_RETURN)
    return tmp_path


def test_a_return_follows_its_optional_argument(optional_return: Path) -> None:
    spec = load_registry(optional_return).get("f")
    given = spec.infer({"x": (15,), "b": (15,)}, {"x": "float16", "b": "float32"}, {}, "Ascend910A")
    absent = spec.infer({"x": (15,), "b": None}, {"x": "float16", "b": None}, {}, "Ascend910A")
    assert given == [((15,), "float16"), ((15,), "float32")]
    assert absent == [((15,), "float16"), (ABSENT_SHAPE, ABSENT_DTYPE)]


CHECK_MESSAGES = {
    "chip": "target.soc names 'Ascend910C', no chip or family of the chip table; nearest known: 'Ascend910",
    "function": "impl.tik.entry names 'nothing', which ",
    "module": "impl.golden names the module 'no_such_package.golden', which does not exist",
    "tiling": "impl.tiling names the module 'ms_custom_ops.registry.nothing', which does not exist",
    "case": "case 'lost' is accepted on no chip: Ascend910A, Ascend910C: f: shape of x in case lost is not computable",
}


@pytest.mark.parametrize("name", CHECK_MESSAGES)
def test_check_finds(optional_return: Path, name: str) -> None:
    found = check_registry(load_registry(optional_return))
    assert sum(CHECK_MESSAGES[name] in finding for finding in found) == 1, found
    assert all("f.yaml:2: " in finding for finding in found)


def test_check_finds_a_gradient_of_the_wrong_shape(tmp_path: Path) -> None:
    text = """
f:
  args: {x: {dtype: tensor, shape: [N]}}
  returns: {y: {dtype: tensor, shape: [N], dtype_from: x}}
  dtype_format: [{x: F16, y: F16}]
  bprop: {x: "g(x, dout[0])"}
  impl: &impl
    tik: {entry: "ms_custom_ops.registry:get_op"}
    golden: "ms_custom_ops.registry:get_op"
    tiling: "ms_custom_ops.registry"
  target: &target {soc: {Ascend910A: {dtypes: [F16]}}}
  cases: [{name: odd, N: 17, dtype: F16}]
g:
  args: {x: {dtype: tensor, shape: [N]}, d_y: {dtype: tensor, shape: [N]}}
  returns: {d_x: {dtype: tensor, shape: [N + 1], dtype_from: x}}
  dtype_format: [{x: F16, d_y: F16, d_x: F16}]
  bprop: none
  impl: *impl
  target: *target
"""
    (tmp_path / "f.yaml").write_text(text)
    (finding,) = check_registry(load_registry(tmp_path))
    assert "op f: case odd on Ascend910A: d_x of g is (18,), x is (17,)" in finding


def test_check_reads_kernels_without_running_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "unread_kernels"
    package.mkdir()
    for file in ("__init__.py", "fwd.py"):
        (package / file).write_text("def f():\n    pass\nraise RuntimeError('executed')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from ms_custom_ops.registry.check import defines, find_module

    file = find_module("unread_kernels.fwd")
    assert file == package / "fwd.py" and defines(file, "f") and not defines(file, "g")
    assert find_module("unread_kernels.bwd") is None and "unread_kernels" not in sys.modules


def test_resolve() -> None:
    from ms_custom_ops.errors import OpInfoError

    assert resolve("ms_custom_ops.registry.discovery:get_op") is get_op
    with pytest.raises(
        OpInfoError, match="function is 'ms_custom_ops.registry.discovery:nothing'; accepted: a function of"
    ):
        resolve("ms_custom_ops.registry.discovery:nothing")


def test_importing_the_registry_imports_no_mindspore_and_no_kernel() -> None:
    script = (
        "import sys, ms_custom_ops.registry as r; r.get_op('flash_attention')\n"
        "print([m for m in sys.modules if m.startswith(('mindspore', 'ms_custom_ops.op_impl'))])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_op_info_from_the_checkout_is_refused(tmp_path: Path) -> None:
    from ms_custom_ops.registry.loader import packaged_folder

    (tmp_path / "op_info").mkdir()
    (tmp_path / "op_info" / "__init__.py").write_text((packaged_folder() / "__init__.py").read_text())
    result = subprocess.run([sys.executable, "-c", "import op_info"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1 and "import ms_custom_ops.op_info" in result.stderr


MINDSPORE_KEYS = {"args", "args_signature", "returns", "class", "function", "dispatch"}


@pytest.mark.parametrize("op", list_ops())
def test_strip_leaves_what_mindspore_accepts_and_loses_nothing_of_it(op: str) -> None:
    spec = get_op(op)
    text = strip_to_op_def(spec)
    assert text.startswith(f"#operator {op}\n")
    ((name, stripped),) = yaml.safe_load(text).items()
    assert name == op and set(stripped) <= MINDSPORE_KEYS
    for arg in spec.args:
        kept = stripped["args"][arg.name]
        assert set(kept) <= {"dtype", "default", "prim_init", "type_cast", "arg_handler"} and kept["dtype"] == arg.kind
        assert kept.get("default") == spec.raw["args"][arg.name].get("default")
    assert list(stripped["args"]) == [arg.name for arg in spec.args]
    assert all(set(ret) <= {"dtype", "inplace", "type_cast"} for ret in stripped["returns"].values())


def test_stripped_file_passes_mindspores_own_schema(tmp_path: Path) -> None:
    """In a child process: the generator in MindSpore's wheel imports its own parts by top-level names."""
    mindspore = pytest.importorskip("mindspore")
    generator = Path(mindspore.__file__).parent / "ops_generate"
    if not (generator / "common" / "op_proto.py").exists():
        pytest.skip("this MindSpore ships no op_def generator")
    for op in list_ops():
        (tmp_path / f"{op}.yaml").write_text(strip_to_op_def(get_op(op)))
    (tmp_path / "ours.yaml").write_text(yaml.safe_dump({"flash_attention": dict(get_op("flash_attention").raw)}))
    script = """
import sys, yaml
from common.op_proto import OpProto
for file in sys.argv[1:]:
    ((name, data),) = yaml.safe_load(open(file)).items()
    try:
        print(name, [arg.arg_name for arg in OpProto.load_from_yaml(name, data).op_args][-1])
    except TypeError as error:
        print("refused", "wrong keys" in str(error))
"""
    files = [str(tmp_path / f"{name}.yaml") for name in [*list_ops(), "ours"]]
    result = subprocess.run(
        [sys.executable, "-c", script, *files],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(generator), "PATH": ""},
    )
    last_arguments = [f"{op} {list(get_op(op).args)[-1].name}" for op in list_ops()]
    assert "flash_attention high_precision" in last_arguments
    assert result.stdout.splitlines() == [*last_arguments, "refused True"], result.stderr


def test_registration_dicts_equal_those_of_mindspores_builders() -> None:
    pytest.importorskip("mindspore")
    from mindspore.ops import CustomRegOp, DataType

    spec = get_op("flash_attention_grad")
    builder = CustomRegOp(spec.class_name)
    for i, arg in enumerate(spec.tensors):
        builder.input(i, arg.name, "optional" if arg.optional else "required")
    for i, ret in enumerate(spec.returns):
        builder.output(i, ret.name, "required")
    for arg in spec.attributes:
        builder.attr(
            arg.name,
            "optional",
            arg.kind,
            default_value=str(arg.default).lower() if arg.kind == "bool" else str(arg.default),
        )
    types = {
        "F16": DataType.F16_Default,
        "BF16": DataType.BF16_Default,
        "F32": DataType.F32_Default,
        "I32": DataType.I32_Default,
    }
    order = [arg.name for arg in spec.tensors] + [ret.name for ret in spec.returns]
    for row in spec.dtype_rows:
        builder.dtype_format(*[types[row.codes[name]] for name in order])
    want = builder.target("Ascend").get_op_info()
    got = custom_reg_op(spec)
    assert {key: got[key] for key in ("op_name", "inputs", "outputs", "attr", "target")} == {
        key: want[key] for key in ("op_name", "inputs", "outputs", "attr", "target")
    }
    assert [list(map(tuple, row)) for row in got["dtype_format"]] == [
        list(map(tuple, row)) for row in want["dtype_format"]
    ]
    assert tbe_reg_op(spec)["kernel_name"] == "flash_attention_grad"


def test_doc_table_names_everything() -> None:
    spec = get_op("flash_attention")
    text = doc_table(spec)
    for word in [
        *(arg.name for arg in spec.args),
        *(ret.name for ret in spec.returns),
        *spec.target.soc,
        *(item.expr.text for item in spec.constraints),
        "flash_attention_grad(",
    ]:
        assert word in text
    rows = [line for line in text.splitlines() if line.startswith("| attn_mask")]
    assert rows == [
        "| attn_mask | broadcasts to (B, N1, S1, S2) | bool uint8 float16 | `None` |",
        "| attn_mask | (1\\|B, 1\\|N1, S1, S2P) | F16 | `None` | 1 = masked, 0 = kept |",
    ]
