# SPDX-License-Identifier: Apache-2.0
"""The deep check of an op: what it finds, and that it finds nothing in what is right."""

from __future__ import annotations

import importlib.util
import json

import pytest
from click.testing import CliRunner

from ms_custom_ops.cli import main
from ms_custom_ops.commands.new import KINDS
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.registry import load_package
from ms_custom_ops.testing import opcheck

QUICK = ("files", "gradient", "chips", "engines", "memory", "sanitizer")
K, G, Y = "op_impl/my_op/kernel.py", "op_impl/my_op/golden.py", "op_info/my_op.yaml"


@pytest.mark.parametrize("template", KINDS)
def test_every_template_passes_as_it_is(write_op, template: str) -> None:
    load_package(write_op(template))
    for name in ("my_op", "my_op_grad"):
        report = opcheck(name, checks=QUICK, socs=("Ascend910A", "Ascend910B1"))
        assert report.ok and report.done["chips"] and report.done["engines"], str(report)
    assert report.left_out == {"gradient": ["my_op_grad has no gradient"]}


WRONG = {
    "operand_of_the_formula": (
        "matmul", Y, "op_name_grad(dy=dout[0])", "my_op_grad(dy=zeros_like(out[0]))", "gradient"),
    "golden_of_the_gradient": ("matmul", G, "dy @ b.T, a.T @ dy", "dy @ b.T, a.T @ dy * 1.01", "gradient"),
    "sign_in_the_kernel": ("reduce", K, "-1.0 / width", "1.0 / width", "chips"),
    "writes_into_its_input": (
        "elementwise", K, "self.tik.data_move(self.gm[self.target]", "self.tik.data_move(self.gm[self.source][index * "
        "width], row[0], 0, 1, blocks, 0, 0)\n        self.tik.data_move(self.gm[self.target]", "memory"),
    "reads_what_was_never_written": (
        "reduce", K, "v.dup(row, 0.0, width + -width % LANES)", "v.dup(row, 0.0, 16)", "sanitizer"),
    "dtype_without_a_row": ("elementwise", Y, "Ascend910B: {dtypes: [F16, F32]}",
                            "Ascend910B: {dtypes: [F16, F32, BF16]}", "files"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found_by_its_check(write_op, name: str) -> None:
    template, file, old, new, check = WRONG[name]
    load_package(write_op(template, {file: (old.replace("op_name", "my_op"), new)}))
    report = opcheck("my_op", checks=QUICK, socs=("Ascend910B1",))
    assert check in {finding.check for finding in report.findings}, str(report)
    assert check != "gradient" or {finding.check for finding in report.findings} == {check}
    assert all(finding.op == "my_op" for finding in report.findings)


def test_a_bprop_with_the_wrong_operand_is_found_although_training_runs(write_op) -> None:
    """Shapes agree in the case, kernels are right, every value is finite."""
    text = "a, b: op_name_grad(dy=dout[0])".replace("op_name", "my_op")
    folder = write_op("matmul", {Y: (text, text.replace("dy=dout[0]", "a=out[0], b=b, dy=dout[0]"))})
    path = folder / Y
    path.write_text(path.read_text().replace("M: 208, K: 96, N: 48", "M: 48, K: 48, N: 48"))
    load_package(folder)
    report = opcheck("my_op", "blocks", checks=("gradient",), socs=("Ascend910B1",))
    assert not report.ok
    (finding,) = report.findings
    assert finding.text.startswith("db is ") and "an operand of the formula is wrong" in finding.text
    assert f"{path}:" in finding.text


def test_in_mindspore(write_op) -> None:
    if importlib.util.find_spec("mindspore") is None:
        pytest.skip("MindSpore is not installed")
    load_package(write_op("reduce"))
    report = opcheck("my_op", "rows_f32", checks=("modes",))
    assert report.ok, str(report)
    assert [text.split(" ", 1)[1] for text in report.done["modes"]] == [
        "y", "gradient of x", "gradient of x against the goldens",
    ]  # fmt: skip


def test_wrong_gradient_in_mindspore_is_found(write_op) -> None:
    if importlib.util.find_spec("mindspore") is None:
        pytest.skip("MindSpore is not installed")
    grad = ("return CentreGrad(call", "return Doubled(call")
    folder = write_op("reduce", {K: grad})
    path = folder / K
    doubled = "\n\nclass Doubled(CentreGrad):\n    def minus_mean(self, row):\n        self.vector.muls(row, row, 2.0, "
    doubled += "self.problem.width)\n        return super().minus_mean(row)\n"
    path.write_text(path.read_text() + doubled)
    load_package(folder)
    report = opcheck("my_op", "rows_f32", checks=("modes",))
    assert [f.text.split(":")[0] for f in report.findings] == ["in MindSpore, against the goldens"], str(report)


def test_the_command_prints_one_report(write_op) -> None:
    folder = write_op("elementwise", {G: ("return factor * dy", "return dy")})
    runner = CliRunner()
    result = runner.invoke(main, ["--ops", str(folder), "test", "my_op", "--only", "golden"])
    assert result.exit_code == 1 and "dx is " in result.output and "by central differences" in result.output
    result = runner.invoke(
        main, ["--ops", str(folder), "check", "my_op_grad", "--deep", "--case", "one_block", "--json"]
    )
    assert result.exit_code == 1
    content = json.loads(result.output[: result.output.rindex("}") + 1])
    assert content["ops"] == ["my_op_grad"] and not content["ok"]
    assert {finding["check"] for finding in content["findings"]} >= {"chips"}


def test_names_that_are_none() -> None:
    with pytest.raises(OpArgumentError, match="case is 'nothing'; accepted: "):
        opcheck("flash_attention", "nothing")
    with pytest.raises(OpArgumentError, match=r"checks is \['colour'\]; accepted: files, gradient"):
        opcheck("flash_attention", checks=("colour",))
