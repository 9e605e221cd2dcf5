# SPDX-License-Identifier: Apache-2.0
"""Builds as users do them: by the flags of the command line, by the CMake package; with g++ and with clang."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from asc_cases import need_ascendc
from click.testing import CliRunner

from ms_custom_ops.cli import main

need_ascendc()

SOURCES = Path(__file__).with_name("real_build")
SAYS = {"icpu": "2 30\n", "acl": "3 45\n"}


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")


def run(*command: object) -> str:
    told = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


def asked(option: str) -> list[str]:
    return CliRunner().invoke(main, ["ascendc", option]).output.split()


@pytest.mark.parametrize("compiler", [pytest.param("g++", marks=pytest.mark.nightly), "clang++"])
def test_flags(tmp_path, compiler):
    need(compiler)
    run(compiler, *asked("--cflags"), "-c", SOURCES / "scale.cpp", "-o", tmp_path / "scale.o")
    for name, says in SAYS.items():
        run(compiler, *asked("--cflags"), SOURCES / f"{name}.cpp", tmp_path / "scale.o", *asked("--libs"),
            "-o", tmp_path / name)  # fmt: skip
        assert run(tmp_path / name) == says


@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=pytest.mark.nightly)])
def test_cmake_package(tmp_path, compiler):
    need("cmake", compiler)
    prefix = asked("--cmake")[0]
    run("cmake", "-S", SOURCES, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}")
    run("cmake", "--build", tmp_path, "-j", "2")
    for name, says in SAYS.items():
        assert run(tmp_path / name) == says


@pytest.mark.parametrize("soc", ["Ascend910B1", "ascend310p3"])
@pytest.mark.parametrize(("mode", "says"), [("npu", "9 135 75 1\n"), ("cpu", "3 45\n")])
def test_a_build_file_that_looks_for_the_vendor_s_package(tmp_path, mode, says, soc):
    need("cmake", "g++")
    soc = soc if mode == "npu" else "Ascend" + soc[6:].upper()  # a target's name, there
    package = [f"-DASCEND_CANN_PACKAGE_PATH={asked('--root')[0]}", f"-DRUN_MODE={mode}", f"-DSOC_VERSION={soc}"]
    run("cmake", "-S", SOURCES / "package", "-B", tmp_path, *package)
    run("cmake", "--build", tmp_path, "-j", "2")
    assert run(tmp_path / "main") == says
    if mode == "npu":
        symbols = run("nm", "-D", tmp_path / "lib" / "libkernels_npu.so")
        assert " T aclrtlaunch_triple" in symbols and "aclrtlaunch_times_int" not in symbols


def test_a_chip_that_is_not_there_is_named(tmp_path):
    need("cmake", "g++")
    package = [f"-DASCEND_CANN_PACKAGE_PATH={asked('--root')[0]}", "-DSOC_VERSION=Ascend310B4"]
    command = ["cmake", "-S", str(SOURCES / "package"), "-B", str(tmp_path), *package]
    told = subprocess.run(command, capture_output=True, text=True)
    words = " ".join(told.stderr.split())
    assert told.returncode and "SOC_VERSION is Ascend310B4; accepted: Ascend310P1, Ascend310P3" in words
