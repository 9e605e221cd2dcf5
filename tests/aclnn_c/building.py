# SPDX-License-Identifier: Apache-2.0
"""Compiling and running C++ programs against the acl library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ms_custom_ops.commands.aclnn import root

LIBRARY = root() / "lib64" / "libascendcl.so"


def need_library() -> None:
    """Skips where no program can be built."""
    if not LIBRARY.is_file():
        pytest.skip(f"{LIBRARY} was not built")
    if shutil.which("g++") is None:
        pytest.skip("no g++")


def compile_program(source: Path, program: Path, *flags: str) -> None:
    """Builds one file with the flags that ``ms-custom-ops aclnn`` prints."""
    own = subprocess.run(
        [sys.executable, "-m", "ms_custom_ops", "aclnn", "--cflags", "--libs"],
        capture_output=True,
        text=True,
        check=True,
    )
    words = ["g++", "-std=c++17", "-Wall", "-Wextra", *flags, str(source), *own.stdout.split(), "-pthread"]
    done = subprocess.run([*words, "-o", str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr  # no warning of the headers


def run_program(
    program: Path, folder: Path, *arguments: str, python: str = sys.executable, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program with a program cache of its own."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MS_CUSTOM_OPS_")}
    environ |= {"MS_CUSTOM_OPS_CACHE_DIR": str(folder), "MS_CUSTOM_OPS_PYTHON": python, **variables}
    return subprocess.run([str(program), *arguments], env=environ, capture_output=True, text=True, timeout=300)
