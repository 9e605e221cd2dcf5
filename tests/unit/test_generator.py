# SPDX-License-Identifier: Apache-2.0
"""Text of the generated files, drift, and the command line around it."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner

from ms_custom_ops.cli import main
from ms_custom_ops.registry import load_registry
from ms_custom_ops.registry.generate import drift, generate, output_folder, write

PRIMITIVES, FUNCTIONS = "mco_generated_ops_primitives.py", "mco_generated_ops.py"


def _tail(args: str, returns: str, row: str) -> str:
    return (
        f"  args: {args}\n  returns: {returns}\n  dtype_format: [{row}]\n"
        '  impl: {tik: {entry: "t:f"}, golden: "t:f", tiling: "t"}\n'
        "  target: {soc: {Ascend910A: {dtypes: [F16, F32]}}}\n"
    )


ONE = "{x: {dtype: tensor, shape: [N]}}"
Y = "{y: {dtype: tensor, shape: [N], dtype_from: x}}"
GRAD = (
    "g:\n"
    + _tail(
        "{x: {dtype: tensor, shape: [N]}, d_y: {dtype: tensor, shape: [N]}}",
        "{d_x: {dtype: tensor, shape: [N], dtype_from: %s}}",
        "{x: F16, d_y: F16, d_x: %s}",
    )
    + "  bprop: none\n"
)


def _bprop(folder: Path, text: str, name: str = "F") -> str:
    """Source of the gradient of class ``name`` in the file generated from ``text``."""
    (folder / "f.yaml").write_text(text)
    tree = ast.parse(generate(load_registry(folder))[PRIMITIVES])
    cls = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    method = next(node for node in cls.body if isinstance(node, ast.FunctionDef))
    return "\n".join(ast.unparse(node) for node in method.body)


def test_generation_is_deterministic_and_valid_python() -> None:
    from ms_custom_ops.registry.loader import load_folder, packaged_folder

    first, second = generate(load_folder(packaged_folder())), generate(load_folder(packaged_folder()))
    assert first == second and list(first) == [PRIMITIVES, FUNCTIONS]
    for text in first.values():
        ast.parse(text)
        assert "generated from op_info/*.yaml by ms-custom-ops gen; do not edit" in text.splitlines()[1]
        assert all(len(line) <= 120 and line == line.rstrip() for line in text.splitlines())


def test_no_file_of_mindspore_has_the_name_of_a_generated_one() -> None:
    """MindSpore's source rewriting tells modules apart by base names."""
    found = importlib.util.find_spec("mindspore")
    if found is None or found.origin is None:
        pytest.skip("needs MindSpore's files")
    assert not list(Path(found.origin).parent.rglob("mco_generated_*"))


def test_a_description_stands_once() -> None:
    text = " ".join("".join(generate(load_registry()).values()).split())
    for spec in load_registry().ops.values():
        assert text.count(" ".join(spec.doc.split("\n\n")[0].split())) == 1


def test_checked_in_files_agree_with_op_info() -> None:
    assert drift(load_registry(), output_folder()) == ""


def test_signatures_of_the_functions() -> None:
    tree = ast.parse(generate(load_registry())[FUNCTIONS])
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "flash_attention")
    spec = load_registry().get("flash_attention")
    assert [arg.arg for arg in function.args.args] == [arg.name for arg in spec.tensors]
    assert [arg.arg for arg in function.args.kwonlyargs] == [arg.name for arg in spec.attributes]
    defaults = [ast.literal_eval(value) for value in function.args.kw_defaults if value is not None]
    assert defaults == [arg.default for arg in spec.attributes]


def test_one_output_is_no_tuple(tmp_path: Path) -> None:
    text = "f:\n" + _tail(ONE, Y, "{x: F16, y: F16}") + '  bprop: {x: "g(x, dout[0])"}\n' + GRAD % ("x", "F16")
    source = _bprop(tmp_path, text)
    assert "def bprop(x, out, dout):\n    grad_x = g(x, dout)\n    return (grad_x,)" in source


def test_gradient_of_another_dtype_is_cast_to_its_input(tmp_path: Path) -> None:
    text = "f:\n" + _tail(ONE, Y, "{x: F16, y: F16}") + '  bprop: {x: "g(x, dout[0])"}\n' + GRAD % ("float32", "F32")
    assert "return (ops.cast(grad_x, x.dtype),)" in _bprop(tmp_path, text)


def test_op_whose_inputs_have_no_gradient(tmp_path: Path) -> None:
    source = _bprop(tmp_path, "f:\n" + _tail(ONE, Y, "{x: F16, y: F16}") + "  bprop: {x: non_differentiable}\n")
    assert "def bprop(x, out, dout):\n    return (ops.zeros_like(x),)" in source


def test_names_do_not_collide(tmp_path: Path) -> None:
    args = "{g: {dtype: tensor, shape: [N]}, grad_g: {dtype: tensor, shape: [N]}}"
    text = (
        "f:\n"
        + _tail(args, "{y: {dtype: tensor, shape: [N], dtype_from: g}}", "{g: F16, grad_g: F16, y: F16}")
        + '  bprop: {g: "g(g, dout[0])", grad_g: "g(grad_g, out[0])"}\n'
        + GRAD % ("x", "F16")
    )
    source = _bprop(tmp_path, text)
    assert "grad_g_ = g_(g, dout)\n    grad_grad_g = g__(grad_g, out)\n    return (grad_g_, grad_grad_g)" in source


def test_quotes_in_documentation(tmp_path: Path) -> None:
    text = 'f:\n  doc: \'say """ and C:\\new\'\n' + _tail(ONE, Y, "{x: F16, y: F16}") + "  bprop: none\n"
    (tmp_path / "f.yaml").write_text(text)
    (function,) = (
        node
        for node in ast.parse(generate(load_registry(tmp_path))[FUNCTIONS]).body
        if isinstance(node, ast.FunctionDef)
    )
    assert (ast.get_docstring(function) or "").startswith('say """ and C:\\new')


def test_gen_writes_check_passes_then_drift_fails(tmp_path: Path) -> None:
    run = CliRunner().invoke
    arguments = ["gen", "--output", str(tmp_path)]
    missing = run(main, [*arguments, "--check"])
    assert missing.exit_code == 1 and "+class FlashAttention(OpPrimitive):" in missing.output
    assert list(tmp_path.iterdir()) == []
    assert run(main, arguments).output.count("wrote ") == 2
    assert run(main, arguments).output == ""
    good = run(main, [*arguments, "--check"])
    assert (good.exit_code, good.output) == (0, "generated files agree with op_info\n")
    file = tmp_path / FUNCTIONS
    file.write_text(file.read_text().replace("keep_prob: float = 1.0", "keep_prob: float = 0.5"))
    bad = run(main, [*arguments, "--check"])
    assert bad.exit_code == 1
    assert "scale_value: float = 1.0, keep_prob: float = 0.5" in bad.output
    assert f"Error: generated files in {tmp_path} differ from op_info; run: ms-custom-ops gen" in bad.output


def test_write_reports_only_a_change(tmp_path: Path) -> None:
    assert write(load_registry(), tmp_path) == [tmp_path / PRIMITIVES, tmp_path / FUNCTIONS]
    assert write(load_registry(), tmp_path) == []
    (tmp_path / FUNCTIONS).write_text("")
    assert write(load_registry(), tmp_path) == [tmp_path / FUNCTIONS]


def test_list_and_info() -> None:
    listing = CliRunner().invoke(main, ["list"])
    assert listing.exit_code == 0
    rows = {line.split()[0]: line.split()[1:] for line in listing.output.splitlines()}
    assert rows["flash_attention"] == [
        "Ascend910A(F16)",
        "Ascend310P(F16)",
        "Ascend910B(F16,BF16)",
        "Ascend910_93(F16,BF16)",
        "gradient:",
        "flash_attention_grad",
    ]
    info = CliRunner().invoke(main, ["info", "flash_attention"])
    assert info.exit_code == 0 and info.output.startswith("# flash_attention\n")


@pytest.mark.parametrize("verb", ["info", "check"])
def test_unknown_op_is_one_line_without_traceback(verb: str) -> None:
    result = CliRunner().invoke(main, [verb, "flash_atention"])
    assert result.exit_code == 1
    assert "op name is 'flash_atention'; accepted: nearest known: 'flash_attention'" in result.output
    assert "Traceback" not in result.output


def test_broken_file_is_reported_and_fails(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("f: {args: {}}\n")
    result = CliRunner().invoke(main, ["--op-info", str(tmp_path), "check"])
    assert result.exit_code == 1 and "f.yaml:1: op f: there is no tensor argument" in result.output


def test_check_prints_findings_and_fails(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("f:\n" + _tail(ONE, Y, "{x: F16, y: F16}") + "  bprop: none\n")
    result = CliRunner().invoke(main, ["--op-info", str(tmp_path), "check", "f"])
    assert result.exit_code == 1
    assert "impl.golden names the module 't', which does not exist" in result.output
    assert "impl.tiling names the module 't', which does not exist" in result.output
    assert "Error: 4 finding(s)" in result.output


def test_check_passes(tmp_path: Path) -> None:
    real, rows = "ms_custom_ops.registry", "{x: F16, y: F16}, {x: F32, y: F32}"
    text = "f:\n" + _tail(ONE, Y, rows).replace('"t:f"', f'"{real}:get_op"').replace('"t"', f'"{real}"')
    (tmp_path / "f.yaml").write_text(text + "  bprop: none\n  cases: [{name: odd, N: 63, dtype: F16}]\n")
    result = CliRunner().invoke(main, ["--op-info", str(tmp_path), "check"])
    assert (result.exit_code, result.output) == (0, "1 op(s) checked, no finding\n")


def test_verbs_of_other_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ms_custom_ops import cli

    (tmp_path / "toy_verb.py").write_text("import click\n@click.command()\ndef command():\n    click.echo('ran')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(cli._Verbs, "_files", staticmethod(lambda: {"toy-verb": "toy_verb"}))
    run = CliRunner().invoke
    assert run(main, ["toy-verb"]).output == "ran\n"
    assert "toy-verb" in run(main, ["--help"]).output
    assert run(main, ["nothing"]).exit_code == 2
