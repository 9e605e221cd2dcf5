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
