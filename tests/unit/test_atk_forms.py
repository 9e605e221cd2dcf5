# SPDX-License-Identifier: Apache-2.0
"""Case files, generators, references and unit tests in the form of the operators' home."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ms_custom_ops.cases import CaseFileError, file_cases, read_cases, run_case
from ms_custom_ops.cases.data import make_arrays
from ms_custom_ops.cases.model import Fill
from ms_custom_ops.cases.user_code import UserCodeError
from ms_custom_ops.cli import main

FOLDER = Path(__file__).parents[1] / "data" / "atk"
OPS = sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())
SOC = "Ascend910B1"
YAML = """\
api: pytorch
version: v2.1
name: torch_segsum_decay
api_type: torch_it
triton_name: triton_it.TritonApi
triton_api_type: triton_it
generate: generate_it
dtype_numbers: 3
standard:
  acc:
    single_bm:
      type: high_performance
      fp32_error: 0.02
      fp32_eb: 2e-3
  perf: not_key
inputs:
  - name: da
    type: tensor
    required: true
    dtypes: {values: [ fp32 ]}
    ranges:
      valid: {values: [ [-2, 0] ]}
      invalid: {values: [ [-2, 0] ]}
    shapes: {dim_numbers: {values: [ 3 ]}, dim_values: {values: [ 1, 2, [4, 40] ]}, max_length: 4096}
  - name: chunk_size
    type: attr
    dtypes: {values: [ int64_t ]}
    ranges:
      valid: {values: [ 32 ]}
      invalid: {values: [ 32 ]}
"""
GENERATOR = """\
from atk.case_generator.generator.base_generator import CaseGenerator
from atk.case_generator.generator.generate_types import GENERATOR_REGISTRY


@GENERATOR_REGISTRY.register("generate_it")
class Generator(CaseGenerator):
    def after_case_config(self, case_config):
        case_config.inputs[0].shape = [1, 2, 40]
        return case_config
"""
API = """\
import torch
from atk.tasks.api_execute import register
from atk.tasks.api_execute.base_api import BaseApi


@register("torch_it")
class Api(BaseApi):
    def __call__(self, input_data, with_output=False):
        da, chunk = input_data.kwargs["da"].double(), input_data.kwargs["chunk_size"]
        sums = torch.nn.functional.pad(da, (0, -da.shape[2] % chunk)).unflatten(-1, (-1, chunk)).cumsum(-1)
        input_data.kwargs["da"].zero_()
        return (sums[..., :, None] - sums[..., None, :]).clamp(max=0).exp().tril(-1).float()
"""


def write(folder: Path, yaml: str = YAML, generator: str = GENERATOR, api: str = "") -> Path:
    """A case file with its Python files; without ``api`` it names no reference."""
    (folder / "case.yaml").write_text(yaml if api else yaml.replace("api_type: torch_it\n", ""), encoding="utf-8")
    if generator:
        (folder / "generate_it.py").write_text(generator, encoding="utf-8")
    if api:
        (folder / "api_it.py").write_text(api, encoding="utf-8")
    return folder / "case.yaml"


def cases(path: Path, soc: str = SOC, seed: int = 0):
    return file_cases(read_cases(path), soc, seed)


@pytest.mark.parametrize("op", OPS)
def test_files_of_the_family_run(op):
    pytest.importorskip("torch")
    path = FOLDER / op / f"{op}.yaml"
    count = read_cases(path).count
    result = CliRunner().invoke(main, ["test", "--cases", str(path), "--soc", SOC])
    assert result.exit_code == 0, result.output
    assert f"{count} case(s): {count} passed (0 refused" in result.output
    for name in ("kernel-golden", "kernel-reference", "reference-golden"):
        assert result.output.count(f"{name} ") == count


def test_there_is_a_file_for_every_op_of_the_family():
    assert OPS == ["bwd_dadt_cumsum", "bwd_dadt_fused", "bwd_dtrap_ddt", "bwd_segsum_dadt", "dacs_segsum",
                   "segsum_decay"]  # fmt: skip


def test_unit_tests_run_as_they_are():
    pytest.importorskip("torch")
    files = [str(FOLDER / op / f"test_{op}.py") for op in OPS]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "ms_custom_ops.compat.pytest_plugin",
    ]
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "22 passed" in done.stdout


def test_chip_without_bfloat16_gets_the_other_dtypes():
    found = cases(FOLDER / "bwd_segsum_dadt" / "bwd_segsum_dadt.yaml", "Ascend910A")
    assert len(found) == 9 and {case.dtypes["dSSdA"] for case in found} == {"float32"}


def test_every_dtype_is_there_and_the_generator_rules(tmp_path):
    found = cases(FOLDER / "bwd_dadt_fused" / "bwd_dadt_fused.yaml")
    assert {case.dtypes["dSSdA"] for case in found} == {"float32", "float16", "bfloat16"}
    assert all(case.dtypes["SSdA"] == case.dtypes["dSSdA"] for case in found)
    assert all(case.shapes["dSSdA"][-1] == case.attrs["chunk_size"] for case in found)


def test_a_generator_keeps_its_table_between_cases():
    found = cases(FOLDER / "bwd_segsum_dadt" / "bwd_segsum_dadt.yaml")
    table = {(1, 1, 1, 8, 8), (1, 2, 2, 16, 16), (2, 4, 4, 32, 32), (1, 8, 1, 32, 32)}
    assert {case.shapes["dSSdA"] for case in found[:4]} == table
    assert {case.fills["dSSdA"] for case in found} == {Fill("uniform", -1.0, 1.0)}


def test_the_same_seed_gives_the_same_cases():
    def described(seed):
        found = cases(FOLDER / "bwd_segsum_dadt" / "bwd_segsum_dadt.yaml", seed=seed)
        return [(case.name, case.shapes, case.seed) for case in found]

    state = random.getstate()
    first, second, other = described(0), described(0), described(1)
    assert first == second != other and random.getstate() == state


@pytest.mark.parametrize("op", ["segsum_decay", "bwd_dtrap_ddt"])
def test_through_mindspore(op, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("mindspore")
    monkeypatch.chdir(tmp_path)
    arguments = ["test", "--mindspore", "--cases", str(FOLDER / op / f"{op}.yaml"), "--soc", SOC, "--limit", "1"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0 and "kernel-reference" in result.output, result.output


def test_tables_of_a_generator_s_module_start_again_for_every_chip(tmp_path):
    text = GENERATOR.replace("@GEN", "SHAPES = [[1, 2, 3], [1, 2, 4], [1, 2, 5]]\n\n\n@GEN")
    file = read_cases(write(tmp_path, generator=text.replace("[1, 2, 40]", "SHAPES.pop()")))
    for soc in (SOC, "Ascend910A"):
        assert [case.shapes["da"][2] for case in file_cases(file, soc)] == [5, 4, 3]


def test_names_in_other_case_are_the_op_s(tmp_path):
    pytest.importorskip("torch")
    text = API.replace('kwargs["da"]', 'kwargs["dA"]')
    (case, *_) = cases(write(tmp_path, yaml=YAML.replace("name: da", "name: dA"), api=text))
    assert run_case(case, SOC).verdict == "pass"


def test_positional_inputs_follow_the_arguments():
    file = read_cases(FOLDER / "dacs_segsum" / "dacs_segsum.yaml")
    assert [i.name for i in file.inputs] == ["da", "chunk_size"]
    assert [i.name for i in file.design.inputs] == ["", ""]
    assert {case.attrs["chunk_size"] for case in cases(Path(file.path))} <= {4, 8, 16, 32}


def test_attributes_that_only_the_code_knows_are_named():
    file = read_cases(FOLDER / "bwd_dtrap_ddt" / "bwd_dtrap_ddt.yaml")
    assert "inputs.4 ('chunk_size', no argument of bwd_dtrap_ddt: for generator and reference)" in file.notes


def test_without_code_beside_sizes_are_drawn_by_the_rules(tmp_path):
    file = read_cases(write(tmp_path, generator="", api="").rename(tmp_path / "alone.yaml"))
    found = file_cases(file, SOC)
    assert len(found) == 3 and all(int(np.prod(case.shapes["da"])) <= 4096 for case in found)
    assert "generate 'generate_it' (no Python file beside; sizes are drawn by the op's rules)" in file.notes
    assert [run_case(case, SOC).verdict for case in found] == ["pass"] * 3


def test_reference_without_code_beside_is_named(tmp_path):
    path = tmp_path / "case.yaml"
    path.write_text(YAML, encoding="utf-8")
    file = read_cases(path)
    assert "api_type 'torch_it' (no Python file beside; no reference)" in file.notes and "api_type" not in file.notes


def test_reference_without_torch_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("ms_custom_ops.cases.design._torch", lambda: False)
    file = read_cases(write(tmp_path, api=API))
    assert file.design.reference is None
    assert "api_type 'torch_it' (torch is not installed; the reference is not run)" in file.notes


def test_three_distances_and_data_that_a_reference_changes(tmp_path):
    pytest.importorskip("torch")
    (case, *_) = cases(write(tmp_path, api=API))
    result = run_case(case, SOC)
    assert result.verdict == "pass", result.message
    three = (result.outputs, result.from_reference, result.reference_from_golden)
    assert all(len(x) == 1 and 0 < x[0].rms < 1e-6 for x in three)
    assert float(np.abs(make_arrays(case)["da"]).max()) > 1
    assert result.as_json()["from_reference"][0]["name"] == "decay"


def test_a_wrong_reference_fails_the_case(tmp_path):
    pytest.importorskip("torch")
    result = run_case(cases(write(tmp_path, api=API.replace(".float()\n", ".float() * 1.5\n")))[0], SOC)
    assert result.verdict == "fail" and "decay from the reference: single_bm error" in result.message
    assert result.outputs[0].rms < 1e-6 and result.from_reference[0].rms == pytest.approx(1 / 3, rel=1e-3)
    assert result.reference_from_golden[0].rms == pytest.approx(0.5, rel=1e-3)


def test_reference_in_the_report(tmp_path):
    pytest.importorskip("torch")
    report = tmp_path / "report.json"
    arguments = ["test", "--cases", str(write(tmp_path, api=API)), "--limit", "1", "--report", str(report)]
    result = CliRunner().invoke(main, [*arguments, "--soc", SOC])
    assert result.exit_code == 0, result.output
    assert json.loads(report.read_text())["cases"][0]["reference_from_golden"][0]["rms"] < 1e-6


def test_reference_registered_under_the_default_name(tmp_path):
    pytest.importorskip("torch")
    path = write(tmp_path, api=API.replace("torch_it", "function"))
    path.write_text(YAML.replace("api_type: torch_it", "api_type: function"), encoding="utf-8")
    assert read_cases(path).design.reference.__name__ == "Api"


def test_name_that_is_computed_is_found_too(tmp_path):
    path = write(tmp_path, generator=GENERATOR.replace('("generate_it")', '("generate" + "_it")'))
    assert read_cases(path).design.generator.__name__ == "Generator"


def test_files_beside_import_each_other(tmp_path):
    (tmp_path / "atk_forms_sizes.py").write_text("STEPS = 72\n")
    text = "from atk_forms_sizes import STEPS\n" + GENERATOR.replace("40]", "STEPS]")
    assert cases(write(tmp_path, generator=text))[0].shapes["da"] == (1, 2, 72)


@pytest.mark.parametrize("name", ["test_it.py", "conftest.py", "other.py"])
def test_files_that_register_nothing_or_other_names_do_not_run(tmp_path, name):
    register = "from atk.tasks.api_execute import register\n@register('another')\nclass A: pass\n"
    (tmp_path / name).write_text("raise RuntimeError\n" + register)
    text = GENERATOR.replace('("generate_it")', '("generate" + "_it")')
    assert len(cases(write(tmp_path, generator=text))) == 3


@pytest.mark.parametrize(
    ("old", "new", "notes"),
    [
        ("acc:\n    single_bm:\n      type: high_performance\n      fp32_error: 0.02\n      fp32_eb: 2e-3",
         "acc: single_bm",
         "standard.acc.single_bm (no numbers; the accuracy of the op holds)"),
        ("single_bm:\n      type: high_performance\n      fp32_error: 0.02\n      fp32_eb: 2e-3", "dual_bm: {}",
         "standard.acc.dual_bm (no numbers; the accuracy of the op holds)"),
        ("invalid: {values: [ [-2, 0] ]}", "invalid: {values: [ [nan], -inf ]}",
         "inputs.0.ranges.invalid [['nan'], '-inf']"),
        ("dtype_numbers: 3", "dtype_numbers: 3\nextra_numbers: all\nbackward: false\noutputs: 1", "extra_numbers"),
        ("    required: true", "    required: true\n    boundary: {has_empty: false}", "inputs.0.boundary"),
    ],
    ids=["single_bm", "other_standard", "special_values", "top_keys", "boundary"],
)  # fmt: skip
def test_what_means_nothing_here_is_named(tmp_path, old, new, notes):
    assert old in YAML
    file = read_cases(write(tmp_path, yaml=YAML.replace(old, new, 1)))
    assert notes in file.notes
    assert [run_case(case, SOC).verdict for case in file_cases(file, SOC)] == ["pass"] * 3


def test_a_version_alone_makes_repeated_invalid_values_none(tmp_path):
    text = "name: segsum_decay\nversion: v2.1\ndtype_numbers: 1\ninputs:\n  - {name: da}\n  - {name: chunk_size, " \
           "type: attr, ranges: {valid: {values: [16]}, invalid: {values: [16]}}}\n"  # fmt: skip
    (tmp_path / "cases.yaml").write_text(text, encoding="utf-8")
    assert [case.invalid for case in cases(tmp_path / "cases.yaml")] == [""]


def test_flat_and_nested_numbers_say_the_same(tmp_path):
    flat = read_cases(write(tmp_path)).standards
    nested = "single_bm: {high_performance: {fp32: {error: 0.02, eb: 0.002}}}"
    text = YAML.replace("single_bm:\n      type: high_performance\n      fp32_error: 0.02\n      fp32_eb: 2e-3", nested)
    assert read_cases(write(tmp_path, yaml=text)).standards == flat
    assert flat[0].numbers == {"float32": {"error": 0.02, "eb": 0.002}}


def test_invalid_values_that_are_not_valid_must_be_refused(tmp_path):
    text = YAML.replace("invalid: {values: [ 32 ]}", "invalid: {values: [ 32, 0, 257 ]}")
    results = [run_case(case, SOC) for case in cases(write(tmp_path, yaml=text)) if case.invalid]
    assert [r.case.name for r in results] == ["invalid-chunk_size-0", "invalid-chunk_size-257"]
    assert all(r.verdict == "pass" and "chunk_size" in r.message for r in results)


@pytest.mark.parametrize("prefix", ["", "torch_", "torch."])
def test_name_with_the_prefix_of_its_framework(tmp_path, prefix):
    file = read_cases(write(tmp_path, yaml=YAML.replace("torch_segsum_decay", f"{prefix}segsum_decay")))
    assert file.op.name == "segsum_decay" and file.design.api_name == f"{prefix}segsum_decay"


def test_a_case_that_breaks_the_rules_runs_and_says_so(tmp_path):
    (case, *_) = cases(write(tmp_path, generator=GENERATOR.replace("[1, 2, 40]", "[2, 40]")))
    result = run_case(case, SOC)
    assert result.verdict == "error" and "segsum_decay: rank of da" in result.message


# id: (generator text, its replacement, the error's text, the line it ends with)
# fmt: off
BAD_GENERATORS = {
    "import": ("from atk.case_generator.generator.base_generator", "from atk.nothing",
        "cases: import of generate_it.py failed: ModuleNotFoundError: No module named 'atk.nothing'", 1),
    "syntax": ("class Generator(", "class Generator((", "cases: reading generate_it.py failed: SyntaxError: ", 6),
    "init": ("    def after", "    def __init__(self, config):\n        raise KeyError('k')\n\n    def after",
        "cases: generator Generator.__init__ failed: KeyError: 'k'", 8),
    "after_case_config": ("[0].shape", "[7].shape",
        "cases: generator Generator.after_case_config of case 0 failed: IndexError: list index out of range", 8),
    "after_input_config": ("    def after",
        "    def after_input_config(self, index, x):\n        raise OSError('o')\n\n    def after",
        "cases: generator Generator.after_input_config of input 0 failed: OSError: o", 8),
    "exit": ("        case_config.", "        raise SystemExit(3)\n        case_config.",
        "cases: generator Generator.after_case_config of case 0 failed: SystemExit: 3", 8),
    "returns_nothing": ("        return case_config\n", "",
        "cases: generator Generator: after_case_config is a NoneType; accepted: the CaseConfig with its 2 inputs", 7),
    "shape": ("[1, 2, 40]", "[1, 2.5]",
        "cases: generator Generator: inputs[0].shape is [1, 2.5]; accepted: a list of ints of 0 or more", 7),
    "dtype": (".shape = [1, 2, 40]", ".dtype = 'fp31'",
        "cases: generator Generator: inputs[0].dtype is 'fp31'; accepted: fp16, bf16, fp32", 7),
    "range": (".shape = [1, 2, 40]", ".range_values = 'wide'",
        "cases: generator Generator: inputs[0].range_values is 'wide'; accepted: [low, high], a number or None", 7),
    "dtypes": (".shape = [1, 2, 40]", ".dtype = 'int32'",
        "cases: generator Generator: 100 cases of dtypes that the op does not have, the last one with ", 7),
}
# fmt: on


@pytest.mark.parametrize("name", BAD_GENERATORS)
def test_failure_of_a_generator_is_one_error_with_its_line(name, tmp_path):
    old, new, text, line = BAD_GENERATORS[name]
    assert old in GENERATOR
    path = write(tmp_path, generator=GENERATOR.replace(old, new, 1))
    with pytest.raises(UserCodeError) as caught:
        cases(path)
    assert str(caught.value).startswith(text), str(caught.value)
    assert str(caught.value).endswith(f"[{tmp_path}/generate_it.py:{line}]") or name == "syntax", str(caught.value)
    result = CliRunner().invoke(main, ["test", "--cases", str(path)])
    assert result.exit_code == 1 and result.output.count("Error: cases: ") == 1 and "Traceback" not in result.output


BAD_REFERENCES = {
    "raises": ("        input_data.kwargs[", "        raise ValueError('v')\n        input_data.kwargs[", "error",
        "cases: reference Api of generated0-B1-H2-S40-float32 failed: ValueError: v [{}/api_it.py:11]"),
    "argument": ('kwargs["da"].d', 'kwargs["dA"].d', "error",
        "cases: reference Api of generated0-B1-H2-S40-float32 failed: KeyError: 'dA' [{}/api_it.py:9]"),
    "returns_text": ("        return (", "        return 'x', (", "error",
        "cases: reference Api of generated0-B1-H2-S40-float32: reference: output 0 is str; accepted: a torch.Tensor "
        "or a tuple of them [{}/api_it.py:8]"),
    "returns_two": ("        return (", "        return sums, (", "fail",
        "reference: 2 output(s); accepted: 1, decay"),
    "shape": (".float()\n", ".float()[0]\n", "fail",
        "reference: decay is of shape (2, 2, 32, 32); accepted: (1, 2, 2, 32, 32)"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_REFERENCES)
def test_failure_of_a_reference_is_the_result_of_its_case(name, tmp_path):
    pytest.importorskip("torch")
    old, new, verdict, text = BAD_REFERENCES[name]
    assert old in API
    result = run_case(cases(write(tmp_path, api=API.replace(old, new, 1)))[0], SOC)
    assert (result.verdict, result.message) == (verdict, text.format(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("generate: generate_it", "generate: generate_that", 7,
         "generate is 'generate_that', which no Python file in "),
        ("api_type: torch_it", "api_type: torch_that", 4, "api_type is 'torch_that', which no Python file in "),
        ("type: high_performance", "type: high", 12,
         "standard.acc.single_bm.type is 'high'; accepted: type of high_performance, high_precision, and fp32_error"),
        ("fp32_eb: 2e-3", "fp32_eb: small", 14, "standard.acc.single_bm.fp32_eb is 'small'; accepted: a number"),
        ("    type: attr\n", "    type: attrs\n", 26, "type of 'chunk_size' is 'attrs'; accepted: attr"),
        ("name: torch_segsum_decay", "name: torch_segsum_dec", 3, "name is 'torch_segsum_dec'; accepted: an op, "),
        ("int64_t", "fp32", 27, "dtype of the attribute 'chunk_size' is 'fp32'; accepted: int"),
    ],
    ids=["generate", "api_type", "mode", "number", "attrs", "op", "dtype"],
)  # fmt: skip
def test_finding_with_file_and_line(tmp_path, old, new, line, text):
    if "api_type" in old:
        pytest.importorskip("torch")
    assert old in YAML
    path = write(tmp_path, yaml=YAML.replace(old, new, 1), api=API)
    with pytest.raises(CaseFileError) as caught:
        read_cases(path)
    found = [item for item in str(caught.value).splitlines() if text in item]
    assert found and "case.yaml:" in found[0], str(caught.value)
    assert f"case.yaml:{line}: " in found[0], found[0]


def test_classes_of_no_base_are_named(tmp_path):
    path = write(tmp_path, generator=GENERATOR.replace("Generator(CaseGenerator)", "Generator"))
    with pytest.raises(UserCodeError) as caught:
        read_cases(path)
    assert str(caught.value) == (f"cases: 'generate_it' of {tmp_path}/generate_it.py is the class Generator; accepted: "
                                 "a class derived from CaseGenerator")  # fmt: skip


def test_a_real_atk_is_named(tmp_path, monkeypatch):
    from types import ModuleType

    real = ModuleType("atk")
    real.__file__ = "/opt/atk/__init__.py"
    path = write(tmp_path)
    read_cases(path)
    monkeypatch.setitem(sys.modules, "atk", real)
    with pytest.raises(
        UserCodeError, match="cases: atk is a real one at /opt/atk/__init__.py; accepted: an environment"
    ):
        read_cases(path)


def test_the_folder_can_be_copied_elsewhere(tmp_path):
    shutil.copytree(FOLDER / "segsum_decay", tmp_path / "copy")
    found = cases(tmp_path / "copy" / "segsum_decay.yaml")
    assert len(found) == 4 and {case.attrs["chunk_size"] for case in found} <= {16, 32}
