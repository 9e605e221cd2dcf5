# SPDX-License-Identifier: Apache-2.0
"""Random argument sets from C, of the package's ops and of a project's own; at night many under AddressSanitizer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from building import compile_program, need_library, run_program
from click.testing import CliRunner

from ms_custom_ops.cli import main
from ms_custom_ops.engine.native import library_path

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "csrc" / "acl"
PROJECT = HERE.parents[1] / "tests" / "data" / "ascendc" / "mixed"
SHORT = 60
SETS = {"fuzz": 10000, "fuzz_custom": 3000}


def own_library(name: str, folder: Path) -> list[str]:
    """The library that fuzz_custom takes."""
    if name == "fuzz":
        return []
    made = CliRunner().invoke(main, ["aclnn", "--project", str(PROJECT), "--out", str(folder / "opp")])
    assert made.exit_code == 0, made.output
    return [str(folder / "opp" / "vendors" / "customize" / "op_api" / "lib" / "libcust_opapi.so")]


@pytest.mark.nightly
@pytest.mark.parametrize("name", SETS)
def test_random_calls_end_in_a_status(name, tmp_path):
    need_library()
    compile_program(HERE / f"{name}.cc", tmp_path / name, "-ldl")
    done = run_program(tmp_path / name, tmp_path / "cache", str(SHORT), "1", *own_library(name, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("name", SETS)
def test_address_sanitizer_has_no_report(name, tmp_path):
    """The acl library is compiled into the program with the sanitizer, the engine is the installed one; a project's
    library calls what is in the program."""
    need_library()
    engine = library_path()
    include = ["-I" + str(HERE.parents[1] / "ms_custom_ops" / "aclnn" / "c" / "include")]
    flags = ["-std=c++17", "-g", "-O1", "-fsanitize=address", "-fno-omit-frame-pointer", "-pthread", "-rdynamic"]
    link = [str(engine), f"-Wl,-rpath,{engine.parent}", "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-z", "lazy"]
    words = ["g++", *flags, *include, str(HERE / f"{name}.cc"), *map(str, sorted(SOURCES.glob("*.cc"))), *link, "-ldl"]
    built = subprocess.run([*words, "-o", str(tmp_path / name)], capture_output=True, text=True)
    if "cannot find -lasan" in built.stderr:
        pytest.skip("no AddressSanitizer")
    assert built.returncode == 0, built.stderr
    done = subprocess.run(
        [str(tmp_path / name), str(SETS[name]), "7", *own_library(name, tmp_path)],
        env={
            "PATH": "/usr/bin:/bin",
            "MS_CUSTOM_OPS_PYTHON": sys.executable,
            "MS_CUSTOM_OPS_CACHE_DIR": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "AddressSanitizer" not in done.stderr, done.stdout + done.stderr[-8000:]
