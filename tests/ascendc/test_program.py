# SPDX-License-Identifier: Apache-2.0
"""Programs that launch kernels of their own, the command line, and sources that are changed before they compile."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc
from click.testing import CliRunner

from ms_custom_ops import ascendc
from ms_custom_ops.ascendc import rewrite
from ms_custom_ops.ascendc.program import build_program
from ms_custom_ops.cli import main
from ms_custom_ops.errors import AscendcBuildError

need_ascendc()

HERE = Path(__file__).parent
ADD = HERE / "add_custom.cpp"


def test_a_program_launches_in_three_ways_and_ends_at_a_fault(tmp_path):
    source = HERE / "program.cpp"
    program = build_program([source], tmp_path / "program")
    told = subprocess.run([program], capture_output=True, text=True)
    assert told.stdout == "2.5 16.5 17 31\n3 17\nno <<<launch>>> here\n" and told.returncode == 0, told.stderr
    told = subprocess.run([program, "beyond"], capture_output=True, text=True)
    assert told.returncode == 1
    assert told.stderr.startswith("AIV core 3: DataCopy: src is memory that no ") and f"{source}:15]" in told.stderr


def test_the_command_runs_a_kernel(tmp_path):
    values = ["arange:512:float16", "ones:512:float16", "zeros:2x256:float16", "512"]
    result = CliRunner().invoke(main, ["ascendc", "run", str(ADD), "--blocks", "2", "--save", str(tmp_path), *values])
    assert result.exit_code == 0, result.output
    assert "argument 2 float16[2, 256]:" in result.output
    assert np.array_equal(np.load(tmp_path / "2.npy").ravel(), np.arange(1, 513, dtype=np.float16))
    result = CliRunner().invoke(main, ["ascendc", "run", str(ADD), "what"])
    assert result.exit_code == 1
    assert "add_custom: value 0 is 'what'; accepted: a number, a file .npy, or zeros|ones" in result.output


def test_flags_of_a_users_own_build():
    result = CliRunner().invoke(main, ["ascendc", "--cflags", "--libs", "--cmake"])
    assert f"-I{ascendc.include_folder()}" in result.output and "_engine" in result.output
    assert (Path(result.output.split()[-1]) / "ms_custom_ops-config.cmake").is_file()


def test_launches_become_calls_and_lines_stay():
    text = 'f(); // a<<<b>>>\nns::k<half, 2><<<n, nullptr,\n  s>>>(x, y);\nputs("<<<");\n'
    pasted = "#define GO(T) copy_##T##_2<<<n, 0, s>>>(x) \\\n  NAME(T, 1)<<<n, 0, s>>>(x);\n"
    assert rewrite.plain_launches(pasted) == (
        "#define GO(T) MCO_ASC_LAUNCH((copy_##T##_2), n, 0, s)(x) \\\n  MCO_ASC_LAUNCH((NAME(T, 1)), n, 0, s)(x);\n"
    )
    assert rewrite.plain_launches(text) == (
        'f(); // a<<<b>>>\nMCO_ASC_LAUNCH((ns::k<half, 2>), n, nullptr,\n  s)(x, y);\nputs("<<<");\n'
    )


def test_the_host_side_of_a_framework_is_left_out():
    text = (
        "#include <torch/extension.h>\nstruct A { int x; };\n"
        "namespace n {\nat::Tensor f(at::Tensor t) { return t; }\n}\n"
        "__global__ void k(int* p) { *p = 1; }\nTORCH_LIBRARY(n, m) { m.def(\"f\"); }\n"
    )  # fmt: skip
    kept = rewrite.kernel_part(text)
    assert kept.split() == "struct A { int x; }; __global__ void k(int* p) { *p = 1; }".split()
    assert kept.count("\n") == text.count("\n")


def test_the_page_of_names_is_that_of_the_headers():
    script = Path(__file__).resolve().parents[2] / "scripts" / "ascendc_coverage.py"
    assert subprocess.run([sys.executable, script, "--check"]).returncode == 0


def test_a_name_that_is_not_there_says_why(tmp_path):
    source = tmp_path / "k.cpp"
    source.write_text(
        '#include "kernel_operator.h"\nextern "C" __global__ __aicore__ void k(GM_ADDR x) {\n'
        "  AscendC::LocalTensor<half> t;\n  AscendC::Interleave(t, t, t, t, 8);\n}\n"
    )
    with pytest.raises(AscendcBuildError) as caught:
        ascendc.build(source)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"{source}:4: AscendC::Interleave is not there: it exists on Ascend950 alone; accepted: ")


@pytest.mark.parametrize("compiler", [pytest.param(None, id="default"), "clang++"])
def test_headers_of_another_chip_are_refused_at_the_line_that_includes_them(tmp_path, monkeypatch, compiler):
    if compiler:
        if not shutil.which(compiler):
            pytest.skip(f"no {compiler}")
        monkeypatch.setenv("MS_CUSTOM_OPS_CXX", compiler)
    source = tmp_path / "k.cpp"
    source.write_text(
        '#include "kernel_operator.h"\n#include "simt_api/asc_simt.h"\n'
        'extern "C" __global__ __aicore__ void k(GM_ADDR x) {}\n'
    )
    with pytest.raises(AscendcBuildError) as caught:
        ascendc.build(source)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"{source}:2: AscendC: simt_api/ and c_api/ are not there: they exist on Ascend950 alone; ")


def test_every_form_of_printing(tmp_path, capfd):
    source = tmp_path / "k.cpp"
    source.write_text(
        '#include "kernel_operator.h"\nextern "C" __global__ __aicore__ void k(GM_ADDR x) {\n'
        '  const half h = 1.5;\n  AscendC::PRINTF("a%d ", 1);\n  PRINTF("b%.1f ", h);\n'
        '  AscendC::printf("c%.2f ", 0.25f);\n'
        '  printf("d%s ", "x");\n  using namespace AscendC;\n  PRINTF("e ");\n  printf("%d ", 5);\n'
        '  printf("g ");\n  AscendC::printf("f%lu\\n", 7ul);\n}\n'
    )
    ascendc.build(source)(1, np.zeros(8, np.float32))
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == "a1 b1.5 c0.25 dx e 5 g f7\n"
