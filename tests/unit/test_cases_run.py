# SPDX-License-Identifier: Apache-2.0
"""Running cases: verdicts, the command, its report and exit code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ms_custom_ops.cases import compare, file_cases, read_cases, run, run_case
from ms_custom_ops.cases.model import Standard
from ms_custom_ops.cli import main
from ms_custom_ops.registry import get_op, list_ops, load_registry
from ms_custom_ops.soc import get_soc

SEGSUM = Path(__file__).parents[1] / "data" / "atk_bwd_segsum_dadt.yaml"


pytestmark = pytest.mark.usefixtures("program_folder")


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["test", *arguments])
    return result.exit_code, result.output


def case_named(name: str, path: Path = SEGSUM, soc: str = "Ascend910B1"):
    return next(case for case in file_cases(read_cases(path), soc) if case.name == name)


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B1"])
def test_the_own_file_passes(soc, tmp_path):
    report = tmp_path / "new" / "report.json"
    code, output = command("--cases", str(SEGSUM), "--soc", soc, "--quiet", "--report", str(report))
    assert code == 0, output
    assert output.splitlines() == [output.strip()] and "0 failed, 0 error(s)" in output
    content = json.loads(report.read_text(encoding="utf-8"))
    assert content["failed"] == content["errors"] == 0 and content["seed"] == 0 and content["files"] == [str(SEGSUM)]
    assert content["passed"] == len(content["cases"]) > 200
    good = [c for c in content["cases"] if not c["invalid"]]
    assert all(0 <= c["outputs"][0]["rms"] < 1e-6 for c in good if c["dtypes"]["ddt_out"] == "float32")
    assert all(c["message"].startswith("Op") for c in content["cases"] if c["invalid"])


@pytest.mark.parametrize("pattern", ["B1-H1-N1-C8-F32-*", "B1-H2-N3-C24-BF16-*", "B1-H3-N2-C3-F16-r1"])
def test_both_engines(pattern):
    code, output = command("--cases", str(SEGSUM), "--engine", "both", "--case", pattern, "--soc", "Ascend910B1")
    assert code == 0, output
    assert "reference" in output and "native" in output


@pytest.mark.parametrize(
    "pattern", ["B1-H1-N1-C8-F32-r?", "B2-H1-N1-C48-BF16-r1", "B1-H2-N2-C16-F16-F32-r2", "invalid-chunk_size-*"]
)
def test_through_mindspore(pattern, tmp_path, monkeypatch):
    pytest.importorskip("mindspore")
    monkeypatch.chdir(tmp_path)
    code, output = command("--cases", str(SEGSUM), "--mindspore", "--case", pattern, "--soc", "Ascend910B1")
    assert code == 0 and "mindspore" in output, output


def test_primitive_through_mindspore(tmp_path, monkeypatch):
    pytest.importorskip("mindspore")
    monkeypatch.chdir(tmp_path)
    code, output = command("flash_attention", "--mindspore", "--case", "[rg]*", "--soc", "Ascend910A")
    assert code == 0 and "2 case(s): 2 passed" in output, output


@pytest.mark.parametrize("op", list_ops())
def test_every_op_of_the_registry_has_case_data_that_runs(op):
    family = list(get_op(op).target.soc)[-1]
    code, output = command(op, "--soc", family, "--limit", "1")
    assert code == 0 and get_soc(family).name in output and "1 case(s): 1 passed" in output, output


def test_without_names_every_case_of_every_op_runs_on_every_family(tmp_path):
    report = tmp_path / "report.json"
    code, output = command("--quiet", "--report", str(report))
    assert code == 0, output
    content = json.loads(report.read_text(encoding="utf-8"))
    run_, not_run = set(), set()
    for op in load_registry().ops.values():
        for family, codes in op.target.soc.items():
            for case in op.cases:
                where = run_ if case.dtype in codes else not_run
                where.add(f"{op.name}/{case.name}/{get_soc(family).name}")
    found = [f"{c['op']}/{c['name']}/{c['soc']}" for c in content["cases"]]
    assert sorted(found) == sorted(run_)
    assert set(content["not_run"]) == not_run and f"; {len(not_run)} not run: of a dtype that the chip lacks" in output
    assert {name.split("/")[0] for name in run_} == set(content["ops"]) == set(list_ops())


def test_wrong_values_fail_with_exit_code_1(monkeypatch, tmp_path):
    engine = run._engine

    def slightly_off(*arguments):
        return {name: array * np.float32(1.001) for name, array in engine(*arguments).items()}

    monkeypatch.setattr(run, "_engine", slightly_off)
    report = tmp_path / "report.json"
    arguments = ("--cases", str(SEGSUM), "--case", "B1-H1-N1-C16-F32-r*", "--report", str(report))
    code, output = command(*arguments, "--soc", "Ascend910B1")
    assert code == 1 and "3 case(s): 0 passed" in output
    assert "    ddt: rms error ratio 0.00" in output and "is not below 0.0001" in output
    assert json.loads(report.read_text(encoding="utf-8"))["failed"] == 3


def test_a_kernel_that_ignores_what_it_adds_to_fails(monkeypatch):
    engine = run._engine
    monkeypatch.setattr(
        run, "_engine", lambda case, arrays, *rest: {"ddt": engine(case, arrays, *rest)["ddt"] - arrays["ddt_out"]}
    )
    assert run_case(case_named("B1-H1-N1-C16-F32-r0"), "Ascend910B1").verdict == "pass"  # starts from zeros
    assert run_case(case_named("B1-H1-N1-C16-F32-r1"), "Ascend910B1").verdict == "fail"


def test_wrong_dtype_of_an_output_fails(monkeypatch):
    engine = run._engine
    monkeypatch.setattr(run, "_engine", lambda *rest: {"ddt": engine(*rest)["ddt"].astype(np.float64)})
    result = run_case(case_named("B1-H1-N1-C16-F32-r0"), "Ascend910B1")
    assert result.verdict == "fail" and result.message == "ddt: dtype is float64, should be float32"


def test_an_invalid_call_that_is_accepted_fails(tmp_path):
    text = SEGSUM.read_text(encoding="utf-8").replace("invalid: {values: [0, -1, C + 1, 257, 8.0, true]}",
                                                      "invalid: {values: [C]}")  # fmt: skip
    path = tmp_path / "cases.yaml"
    path.write_text(text, encoding="utf-8")
    result = run_case(case_named("invalid-chunk_size-C", path), "Ascend910B1")
    assert result.verdict == "fail" and result.message == "accepted, but is invalid (chunk_size: C)"


def test_a_refusal_with_another_text_fails(tmp_path):
    path = tmp_path / "cases.yaml"
    text = SEGSUM.read_text(encoding="utf-8").replace("_msg: chunk_size", "_msg: blue moon")
    path.write_text(text, encoding="utf-8")
    result = run_case(case_named("invalid-chunk_size-0", path), "Ascend910B1")
    assert result.verdict == "fail"
    assert result.message.startswith("refused without 'blue moon' in the text: OpArgumentError: bwd_segsum_dadt: ")


def test_an_error_in_a_good_call_is_an_error(tmp_path):
    path = tmp_path / "cases.yaml"
    text = SEGSUM.read_text(encoding="utf-8").replace("valid: {values: [C]}", "valid: {values: [C + 1]}")
    text = text.replace("dtype_numbers: 15", "dtype_numbers: 0")
    path.write_text(text, encoding="utf-8")
    code, output = command("--cases", str(path), "--case", "B1-H1-N1-C16-F32-r0")
    assert code == 1 and "1 error(s)" in output and "OpArgumentError: bwd_segsum_dadt: " in output


def test_an_unexpected_exception_is_an_error_with_its_type(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(run, "_engine", broken)
    for name in ("B1-H1-N1-C16-F32-r0", "invalid-chunk_size-0"):
        result = run_case(case_named(name), "Ascend910B1")
        assert result.verdict == "error" and result.message.startswith("broken: ZeroDivisionError: by zero [")


def test_notes_are_printed(tmp_path):
    path = tmp_path / "cases.yaml"
    path.write_text("version: v2\n" + SEGSUM.read_text(encoding="utf-8"), encoding="utf-8")
    _, output = command("--cases", str(path), "--limit", "1")
    assert f"{path}: without effect here: version\n" in output


SHORT = np.array([1.0, -2.0, 0.5, 4.0], np.float32)


def judged(standard: str, numbers: dict, actual: np.ndarray, golden: np.ndarray, dtype: str = "float32") -> str:
    """Text of the failure, "" when it passes."""
    try:
        compare.judge(get_op("bwd_segsum_dadt"), (Standard(standard, numbers),), "y", actual, golden, dtype, dtype)
    except AssertionError as error:
        return str(error)
    return ""


def test_single_bm_limits_error_and_bias():
    numbers = {"float32": {"error": 0.01, "eb": 0.001}}
    assert judged("single_bm", numbers, SHORT, SHORT) == ""
    spread = SHORT + np.array([0.004, -0.004, 0.004, -0.004], np.float32)
    assert judged("single_bm", numbers, spread, SHORT) == ""
    assert "single_bm error 0.02 exceeds 0.01" in judged("single_bm", numbers, SHORT + [0.02, 0, 0, 0], SHORT)
    assert "error balance 0.00213" in judged("single_bm", numbers, SHORT + np.float32(0.004), SHORT)


def test_single_bm_does_not_count_the_rounding_of_the_output():
    golden = np.full(4, 1 + 2.0**-11 + 2.0**-20)
    assert judged("single_bm", {"float16": {"error": 0.01, "eb": 1e-6}}, golden.astype(np.float16), golden,
                  "float16") == ""  # fmt: skip


def test_rms_limit():
    assert judged("rms", {"float32": {"rms": 1e-3}}, SHORT * 1.0005, SHORT) == ""
    assert "rms error ratio 0.00199997" in judged("rms", {"float32": {"rms": 1e-3}}, SHORT * 1.002, SHORT)


def test_standard_without_numbers_for_a_dtype():
    text = judged("rms", {"float16": {"rms": 1e-3}}, SHORT, SHORT)
    assert text == "y: standard.acc.rms has no numbers for float32"


def test_without_a_standard_the_op_decides():
    op = get_op("bwd_segsum_dadt")
    compare.judge(op, (), "y", SHORT, SHORT, "float32", "float32")
    with pytest.raises(AssertionError, match=r"rms error ratio 0.000200033 exceeds 1e-05"):
        compare.judge(op, (), "y", SHORT * np.float32(1.0002), SHORT, "float32", "float32")


def test_integers_must_be_equal():
    whole = np.array([1, 2, 3], np.int32)
    with pytest.raises(AssertionError, match="values must be equal"):
        compare.judge(get_op("bwd_segsum_dadt"), (), "y", whole + 1, whole, "int32", "float16")
