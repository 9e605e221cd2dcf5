# SPDX-License-Identifier: Apache-2.0
"""Mistakes of people who write an op: each ends in one line that says op, file:line and what to write."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from ms_custom_ops.cli import main

K, G, T, Y = "op_impl/my_op/kernel.py", "op_impl/my_op/golden.py", "tiling/my_op.py", "op_info/my_op.yaml"

FEW = ("--limit", "1", "--soc", "Ascend910B1")


#: name -> (template, file, what stands there, what the author wrote, verb, the message). ``{line}`` is a number.
MISTAKES: dict[str, tuple[str, str, str, str, list[str], str]] = {
    "golden_gives_too_few": (
        "matmul", G, "return dy @ b.T, a.T @ dy", "return dy @ b.T", ["test", "my_op_grad"],
        r"my_op_grad: what the golden returned is 1 output\(s\); accepted: 2, .*: return da, db \[.*golden.py:10\]"),
    "golden_gives_nothing": (
        "elementwise", G, "return factor * x", "factor * x", ["test", "my_op"],
        r"what the golden returned is nothing; accepted: 1, .*write: return y \[.*golden.py:\d+\]"),
    "golden_takes_too_few": (
        "elementwise", G, "def my_op(x, factor=2.0)", "def my_op(x)", ["test", "my_op"],
        r"what the golden takes is \(x\), .*'factor'; accepted: .*write: def my_op\(x, factor\) \[.*golden.py:\d+\]"),
    "golden_of_another_shape": (
        "elementwise", G, "return factor * x", "return (factor * x)[0]", ["test", "my_op"],
        r"y: the kernel gives shape \(1, 16\), the golden \(16,\); accepted: \(M, N\) from both \[.*golden.py:\d+\]"),
    "buffer_that_the_plan_lacks": (
        "elementwise", K, 'self.buffers["row"]', 'self.buffers["rows"]', ["test", "my_op"],
        r"buffer is 'rows'; accepted: one of the plan: row; write: BufferSpec\('rows', .*\[.*kernel.py:\d+\]"),
    "buffer_of_a_phase": (
        "elementwise", T, 'problem.dtype, problem.width)', 'problem.dtype, problem.width, "late")', ["test", "my_op"],
        r"buffer is 'row'; accepted: .*write: with self.buffers.phase\('late'\): around it \[.*kernel.py:\d+\]"),
    "tensor_that_the_call_lacks": (
        "elementwise", K, 'source, target = "x", "y"', 'source, target = "x", "z"', ["test", "my_op"],
        r"my_op: tensor in GM is 'z'; accepted: one of the call or a workspace: x, y \[.*kernel.py:\d+\]"),
    "plan_without_split": (
        "elementwise", T, "return Plan(problem, soc, buffers, CoreSplit(problem.rows, vector_cores(soc)))",
        "return problem", ["test", "my_op"],
        r"plan of the kernel Scale is a Problem without problem, soc, buffers, split; accepted: .*\[.*kernel.py:\d+\]"),
    "dataclass_forgotten": (
        "elementwise", T, "@dataclass(frozen=True)\nclass Problem", "class Problem", ["test", "my_op"],
        r"TypeError: Problem\(\) takes no arguments; write: @dataclass\(frozen=True\) above class Problem"),
    "init_without_super": (
        "elementwise", K, '    source, target = "x", "y"\n',
        '    source, target = "x", "y"\n\n    def __init__(self, call, plan):\n        self.plan = plan\n',
        ["test", "my_op"],
        r"no attribute 'plan'|no attribute '\w+'; write: super\(\).__init__\(call, plan\) first"),
    "kernel_without_a_task": (
        "elementwise", K, "def task(self, index)", "def tasks(self, index)", ["test", "my_op"],
        r"class Scale is without a task; accepted: def task\(self, index\), .*\[.*kernel.py:\d+\]"),
    "entry_does_not_build": (
        "elementwise", K, 'return Scale(call, _plan(call, "x")).build()', 'return Scale(call, _plan(call, "x"))',
        ["test", "my_op"], r"my_op built no kernel \(its Tik instance was not finished\)"),
    "argument_too_few_in_a_call": (
        "elementwise", K, "self.vector.muls(row, row, self.call.attrs", "self.vector.muls(row, self.call.attrs",
        ["test", "my_op"], r"missing 1 required positional argument: 'count'; write: 'count' in this call"),
    "wrong_import": (
        "elementwise", K, "from ...tiling.my_op import", "from tilings.my_op import", ["test", "my_op"],
        r"No module named 'tilings'; write: .*inside a folder of ops imports are relative.*kernel.py:\d+\]"),
    "syntax": (
        "elementwise", K, "def task(self, index):", "def task(self, index)", ["test", "my_op"],
        r"kernel.py:\d+: SyntaxError: .*def task\(self, index\); write: valid Python"),
    "attribute_misspelt": (
        "elementwise", K, 'self.call.attrs["factor"]', 'self.call.attrs["faktor"]', ["test", "my_op"],
        r"attribute that the kernel asks for is 'faktor'; accepted: .*nearest: factor.*kernel.py:\d+\]"),
    "entry_of_three": (
        "elementwise", K, "def my_op(call):", "def my_op(call, plan, soc):", ["check"],
        r"kernel.py:\d+: op my_op: the kernel's entry takes \(call, plan, soc\); accepted: def my_op\(call\)"),
    "golden_signature": (
        "elementwise", G, "def my_op(x, factor=2.0):", "def my_op(y):", ["check"],
        r"golden.py:\d+: op my_op: the golden does not take x, factor; write: def my_op\(x, factor\)"),
    "golden_returns": (
        "matmul", G, "return dy @ b.T, a.T @ dy", "return dy @ b.T, a.T @ dy, 0", ["check"],
        r"golden.py:12: op my_op_grad: the golden returns 3 arrays; accepted: 2; write: return da, db"),
    "cases_lack_an_op": (
        "elementwise", "op_impl/my_op/cases.py", ', "my_op_grad": CaseData()', "", ["check"],
        r"cases.py:\d+: op my_op_grad: CASES has no entry for it; write: \"my_op_grad\": CaseData\(\)"),
    "no_python": (
        "elementwise", K, "def my_op(call):", "def my_op(call)", ["check"],
        r"kernel.py:\d+: op my_op: impl.tik.entry names this file, which is no Python: expected ':'"),
    "dtype_without_a_row": (
        "elementwise", Y, "Ascend910B: {dtypes: [F16, F32]}", "Ascend910B: {dtypes: [F16, F32, BF16]}", ["check"],
        r"my_op.yaml:2: op my_op: target.soc.Ascend910B lists BF16, but no row of dtype_format has x in BF16"),
    "golden_missing": (
        "elementwise", Y, 'golden: "op_impl.my_op.golden:my_op"', 'golden: "op_impl.my_op.golden:my_up"', ["check"],
        r"my_op.yaml:2: op my_op: impl.golden names 'my_up', which .*golden.py does not define"),
    "method_misspelt": (
        "elementwise", K, "self.vector.muls(", "self.vector.mulz(", ["test", "my_op"],
        r"'VectorUnit' object has no attribute 'mulz'; write: .*muls.* \[.*kernel.py:\d+\]"),
    "instruction_misspelt": (
        "elementwise", K, "self.tik.data_move(row[0]", "self.tik.data_mov(row[0]", ["test", "my_op"],
        r"Tik has no method 'data_mov'; write: data_move.* \[.*kernel.py:\d+\]"),
    "entry_does_not_build_says_how": (
        "elementwise", K, 'return Scale(call, _plan(call, "x")).build()', 'Scale(call, _plan(call, "x"))',
        ["test", "my_op"],
        r"accepted: a function that calls tik_instance.BuildCCE\(...\), or build\(\) of its kernel's"),
    "process_ended": (
        "elementwise", K, "        width, row =", "        raise SystemExit(3)\n        width, row =",
        ["test", "my_op"],
        r"task: the process is asked to end \(SystemExit 3\); write: raise ValueError\(...\) \[.*kernel.py:\d+\]"),
    "process_ended_in_a_profile": (
        "elementwise", K, "        width, row =", "        raise SystemExit(3)\n        width, row =",
        ["profile", "my_op"],
        r"Error: task: the process is asked to end \(SystemExit 3\); write: raise ValueError"),
    "scope_of_a_buffer": (
        "elementwise", T, 'BufferSpec("row", "ub"', 'BufferSpec("row", "ubuf"', ["test", "my_op"],
        r"BufferSpec row: scope is 'ubuf'; accepted: ub, l1, l0a, l0b, l0c, bt \[.*tiling/my_op.py:\d+\]"),
    "dtype_of_a_buffer": (
        "elementwise", T, '"ub", problem.dtype', '"ub", "float"', ["test", "my_op"],
        r"BufferSpec row: dtype is 'float'; accepted: float16, bfloat16, float32, int32 \[.*tiling/my_op.py:\d+\]"),
    "entry_misspelt": (
        "elementwise", Y, 'kernel:my_op"', 'kernel:my_up"', ["test", "my_op"],
        r"impl in the op_info file: entry is .*kernel:my_up; accepted: a function of .*my_op/kernel.py"),
    "golden_module_misspelt": (
        "elementwise", Y, 'golden: "op_impl.my_op.golden:my_op"', 'golden: "op_impl.my_op.golded:my_op"',
        ["test", "my_op"],
        r"op_info: module is '.*op_impl.my_op.golded'; accepted: one that there is a file of"),
    "cases_of_another_type": (
        "elementwise", "op_impl/my_op/cases.py", '"my_op": CaseData()', '"my_op": 3', ["test", "my_op"],
        r"CASES\['my_op'\] in .*cases.py is 3; accepted: a CaseData\(...\)"),
    "case_without_a_dtype": (
        "elementwise", Y, "M: 37, N: 208, dtype: F16", "M: 37, N: 208", ["check"],
        r"my_op.yaml:28: op my_op: case 'rows' has no dtype; accepted: dtype: one of F16, BF16"),
    "case_without_a_size": (
        "elementwise", Y, "M: 37, N: 208, dtype: F16", "M: 37, dtype: F16", ["check"],
        r"case 'rows' is accepted on no chip: Ascend910A, .*: my_op: shape of x in case rows is not computable: 'N'"),
    "tab_in_yaml": (
        "elementwise", Y, "  doc: y", "\tdoc: y", ["check"],
        r"my_op.yaml:3: not valid YAML: .*; write: spaces in place of the tab"),
}  # fmt: skip


def test_an_empty_file_holds_nothing(write_op) -> None:
    folder = write_op("elementwise")
    (folder / Y).write_text("")
    result = CliRunner().invoke(main, ["--ops", str(folder), "check"])
    assert result.exit_code == 1 and "my_op.yaml:1: the file holds nothing; accepted: a mapping" in result.output


@pytest.mark.parametrize("name", MISTAKES)
def test_one_helpful_line(write_op, name: str) -> None:
    template, file, old, new, verb, message = MISTAKES[name]
    folder = write_op(template, {file: (old, new)})
    result = CliRunner().invoke(main, ["--ops", str(folder), *verb, *(FEW if verb[0] == "test" else ())])
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output and result.exception is None or isinstance(result.exception, SystemExit)
    lines = [line for line in result.output.splitlines() if re.search(message, line)]
    assert lines, result.output


TEN = {
    "    x: {dtype: tensor, shape: [M, N]": "    x: {dtype: tensor, shapes: [M, N]",  # unknown key
    "dtype_from: x, doc: the product": "dtype_from: z, doc: the product",
    'expr: "M >= 1 and 16 <= N': 'expr: "M >> 1 and 16 <= N',
    "    - {x: F16, y: F16}": "    - {x: F16, y: F99}",
    "x: my_op_grad(dout[0], factor)": "x: my_op_grad(dout[0], faktor)",
    'golden: "op_impl.my_op.golden:my_op"': 'golden: "op_impl.my_op.golden"',
    "Ascend310P: {dtypes: [F16, F32]}": "Ascend310Q: {dtypes: [F16, F32]}",
    "{name: one_block, M: 1, N: 16, dtype: F16}": "{name: one_block, M: one, N: 16, dtype: F16}",
    "factor: -0.5}": "faktor: -0.5}",
    "factor: {dtype: float, default: 2.0, prim_init: True, doc: what": "factor: {dtype: float, default: two, "
    "prim_init: True, doc: what",
}


def test_check_reports_ten_mistakes_of_one_file_each_with_its_line(write_op) -> None:
    folder = write_op()
    path = folder / Y
    text = path.read_text()
    for old, new in TEN.items():
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text)
    lines = {new: text[: text.index(new)].count("\n") + 1 for new in TEN.values()}
    result = CliRunner().invoke(main, ["--ops", str(folder), "check"])
    assert result.exit_code == 1
    found = {int(number) for number in re.findall(rf"{re.escape(str(path))}:(\d+): ", result.output)}
    chips = text[: text.index("target:")].count("\n")
    missing = {new: line for new, line in lines.items() if line not in found and "310Q" not in new}
    assert not missing, (missing, result.output)
    assert "Ascend310Q" in result.output and chips
