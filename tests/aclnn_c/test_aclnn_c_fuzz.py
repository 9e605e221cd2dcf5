# SPDX-License-Identifier: Apache-2.0
"""Random argument sets from C; at night 10,000 of them under AddressSanitizer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from building import compile_program, need_library, run_program

from ms_custom_ops.engine.native import library_path

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "csrc" / "acl"
SETS, SHORT = 10000, 60


@pytest.mark.nightly
def test_random_calls_end_in_a_status(tmp_path):
    need_library()
    compile_program(HERE / "fuzz.cc", tmp_path / "fuzz")
    done = run_program(tmp_path / "fuzz", tmp_path / "cache", str(SHORT), "1")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
def test_address_sanitizer_has_no_report(tmp_path):
    """The acl library is compiled into the program with the sanitizer, the engine is the installed one."""
    need_library()
    engine = library_path()
    include = ["-I" + str(HERE.parents[1] / "ms_custom_ops" / "aclnn" / "c" / "include")]
    flags = ["-std=c++17", "-g", "-O1", "-fsanitize=address", "-fno-omit-frame-pointer", "-pthread"]
    link = [str(engine), f"-Wl,-rpath,{engine.parent}", "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-z", "lazy"]
    words = ["g++", *flags, *include, str(HERE / "fuzz.cc"), *map(str, sorted(SOURCES.glob("*.cc"))), *link, "-ldl"]
    built = subprocess.run([*words, "-o", str(tmp_path / "fuzz")], capture_output=True, text=True)
    if "cannot find -lasan" in built.stderr:
        pytest.skip("no AddressSanitizer")
    assert built.returncode == 0, built.stderr
    done = subprocess.run(
        [str(tmp_path / "fuzz"), str(SETS), "7"],
        env={
            "PATH": "/usr/bin:/bin",
            "MS_CUSTOM_OPS_PYTHON": sys.executable,
            "MS_CUSTOM_OPS_CACHE_DIR": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "AddressSanitizer" not in done.stderr, done.stdout + done.stderr[-8000:]
