# SPDX-License-Identifier: Apache-2.0
"""A folder that scripts take for the vendor's toolkit: they build, install and run as they are."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from asc_cases import need_ascendc
from click.testing import CliRunner, Result

from ms_custom_ops.cli import main
from ms_custom_ops.commands.aclnn import root

need_ascendc()
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(__file__).with_name("real_build") / "package"
EXAMPLE = ROOT / "examples" / "aclnn_custom"
pytestmark = pytest.mark.skipif(
    shutil.which("cmake") is None or not (root() / "lib64" / "libascendcl.so").is_file(), reason="needs cmake and acl"
)
CALLS_ACLNN = """
cmake_minimum_required(VERSION 3.5.1)
project(acl_execute_add)
add_compile_options(-std=c++11)
set(INC_PATH $ENV{DDK_PATH})
set(CUST_PKG_PATH "${INC_PATH}/opp/vendors/customize/op_api")
set(LIB_PATH $ENV{NPU_HOST_LIB})
include_directories(${INC_PATH}/runtime/include ${INC_PATH}/atc/include ${CUST_PKG_PATH}/include)
link_directories(${LIB_PATH} ${INC_PATH}/HOST-linux/devlib ${CUST_PKG_PATH}/lib)
add_executable(execute_add_op MAIN)
target_link_libraries(execute_add_op ascendcl cust_opapi acl_op_compiler nnopbase stdc++)
install(TARGETS execute_add_op DESTINATION out)
"""


def made(*words: object) -> Result:
    return CliRunner().invoke(main, ["ascendc", "toolkit", *map(str, words)])


def script(folder: Path, *command: object) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ASCEND", "LD_LIBRARY"))}
    environ["ASCEND_INSTALL_PATH"] = str(folder)
    told = subprocess.run([str(word) for word in command], env=environ, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("toolkit") / "latest"
    result = made(folder, "--project", EXAMPLE / "AddCustom")
    assert result.exit_code == 0 and f"{folder}: source {folder / 'set_env.sh'}" in result.output
    return folder


@pytest.mark.parametrize(("mode", "says"), [("npu", "9 135 75 1\n"), ("cpu", "3 45\n")])
def test_a_script_that_launches_kernels(toolkit: Path, tmp_path: Path, mode: str, says: str) -> None:
    assert script(toolkit, "bash", PACKAGE / "run.sh", mode, "Ascend910B1", tmp_path / "build") == says


def test_a_script_that_calls_aclnn(toolkit: Path, tmp_path: Path) -> None:
    text = CALLS_ACLNN.replace("HOST", platform.machine()).replace("MAIN", str(EXAMPLE / "main.cpp"))
    (tmp_path / "CMakeLists.txt").write_text(text)
    commands = (
        f"source {toolkit}/set_env.sh && cmake -S {tmp_path} -B {tmp_path}/b -DCMAKE_SKIP_RPATH=TRUE > /dev/null && "
        f"cmake --build {tmp_path}/b > /dev/null && {tmp_path}/b/execute_add_op"
    )
    assert script(toolkit, "bash", "-c", commands) == "0 of 4995 numbers are wrong\n"


def test_a_toolkit_is_made_again_and_nothing_else_is_touched(toolkit: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    assert made(folder).exit_code == 0
    (folder / "opp" / "mine").mkdir(parents=True)
    (folder / "lib64").unlink()
    assert made(folder).exit_code == 0
    assert (folder / "lib64" / "libascendcl.so").is_file() and (folder / "opp" / "mine").is_dir()
    (tmp_path / "other" / "runtime").mkdir(parents=True)
    result = made(tmp_path / "other")
    assert result.exit_code == 1
    assert f"folder is {tmp_path / 'other'} with other files; accepted: a new or an empty folder" in result.output
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["runtime"]


LANGUAGE = Path(__file__).with_name("real_build") / "language"


@pytest.mark.parametrize(("arch", "soc"), [("2201", "Ascend910B1"), ("2002", "Ascend310P3")])
def test_sources_of_the_language_asc(toolkit: Path, tmp_path: Path, arch: str, soc: str) -> None:
    commands = (
        f"source {toolkit}/set_env.sh && cmake -S {LANGUAGE} -B {tmp_path}/b -DARCH={arch} > /dev/null && "
        f"cmake --build {tmp_path}/b > /dev/null && {tmp_path}/b/demo"
    )
    assert script(toolkit, "bash", "-c", commands) == f"22 24 26 14, {soc}, 1\n"


def test_an_architecture_that_is_not_there(toolkit: Path, tmp_path: Path) -> None:
    commands = (
        f"source {toolkit}/set_env.sh && cmake -S {LANGUAGE} -B {tmp_path} -DARCH=3510 && cmake --build {tmp_path}"
    )
    told = subprocess.run(["bash", "-c", commands], capture_output=True, text=True)
    assert told.returncode and "asc: --npu-arch is dav-3510; accepted: dav-2201, dav-2002" in told.stdout + told.stderr
