# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/aclnn_cpp: built as their page says, first run with Python, then without."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from building import compile_program, need_library, run_program
from click.testing import CliRunner

from ms_custom_ops.cli import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "aclnn_cpp"
PROGRAMS = ("sparse_flash_attention_grad", "flash_attention_score")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, and the cache that their runs share."""
    need_library()
    made = tmp_path_factory.mktemp("aclnn_cpp")
    if shutil.which("cmake") is None:
        for name in PROGRAMS:
            compile_program(EXAMPLES / f"{name}.cpp", made / name)
        return made
    package = subprocess.run(
        [sys.executable, "-m", "ms_custom_ops", "aclnn", "--cmake"], capture_output=True, text=True, check=True
    )
    configure = ["cmake", "-S", str(EXAMPLES), "-B", str(made), f"-DCMAKE_PREFIX_PATH={package.stdout.strip()}"]
    for command in (configure, ["cmake", "--build", str(made), "-j", "2"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_written_after_the_documentation_runs(folder, name):
    cache = folder / "cache"
    refused = run_program(folder / name, cache, python="off")
    assert refused.returncode == 1
    assert "561003 (find kernel)" in refused.stdout and "ms-custom-ops aclnn --plan" in refused.stdout
    calls, ahead = folder / f"{name}.calls", folder / f"{name}.kernels"
    first = run_program(folder / name, cache, MS_CUSTOM_OPS_ACL_CALLS=str(calls))
    assert first.returncode == 0 and first.stdout.endswith("all good\n"), first.stdout + first.stderr
    arguments = ["compile", "bwd_dtrap_ddt", "--soc", "Ascend910B1", "--calls", str(calls), "--out", str(ahead)]
    made = CliRunner().invoke(main, arguments)
    assert made.exit_code == 0 and "0 calls" not in made.output, made.output
    for kernels in (cache, ahead):
        again = run_program(folder / name, kernels, python="off", PATH="/nowhere")
        assert (again.returncode, again.stdout) == (0, first.stdout), again.stdout + again.stderr


def test_a_line_that_is_no_call_is_refused(tmp_path):
    (tmp_path / "calls").write_text("\nsegsum_decay\n")
    done = CliRunner().invoke(
        main, ["compile", "bwd_dtrap_ddt", "--calls", str(tmp_path / "calls"), "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 1
    accepted = "accepted: a call as the C library writes it (MS_CUSTOM_OPS_ACL_CALLS)"
    assert f"compile: line 2 of {tmp_path / 'calls'} is 'segsum_decay'; {accepted}" in done.output
    assert not (tmp_path / "out").exists()  # before anything is made


def test_calls_are_written_where_they_can_be(folder, tmp_path):
    done = run_program(folder / PROGRAMS[0], folder / "cache", MS_CUSTOM_OPS_ACL_CALLS=str(tmp_path / "no" / "file"))
    assert done.returncode == 1
    assert f"MS_CUSTOM_OPS_ACL_CALLS is {tmp_path / 'no' / 'file'}; accepted: a file that can be written" in done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_synchronise(folder, name):
    done = run_program(folder / name, folder / "cache", MS_CUSTOM_OPS_ACL_DELAY="1")
    assert done.returncode == 0 and done.stdout.endswith("all good\n"), done.stdout + done.stderr


@pytest.mark.nightly
def test_both_cxx_abis_link(folder, tmp_path):
    compile_program(EXAMPLES / f"{PROGRAMS[0]}.cpp", tmp_path / "old", "-D_GLIBCXX_USE_CXX11_ABI=0")
    done = run_program(tmp_path / "old", folder / "cache")
    assert done.returncode == 0, done.stdout + done.stderr
