# SPDX-License-Identifier: Apache-2.0
"""scripts/fuzz.sh for some seconds, where clang with libFuzzer is there; the nightly run is longer."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOUNDS_CHECK = "if (start + lo < 0 || start + hi > view.size) {"


@functools.cache
def missing() -> str:
    """What keeps fuzzing from running here; empty when nothing does."""
    if shutil.which("clang++") is None:
        return "clang++ is missing (Debian: clang)"
    source = "#include <cstddef>\n#include <cstdint>\n"
    source += 'extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }\n'
    with tempfile.TemporaryDirectory() as folder:
        command = ["clang++", "-fsanitize=fuzzer,address,undefined", "-x", "c++", "-", "-o", f"{folder}/target"]
        done = subprocess.run(command, input=source, capture_output=True, text=True)
    return "" if done.returncode == 0 else "clang++ links no libFuzzer (Debian: libclang-rt-*-dev)"


@pytest.fixture
def fuzz() -> None:
    if missing():
        pytest.skip(missing())


def fuzz_for(seconds: int, source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(source / "scripts" / "fuzz.sh"), str(seconds), str(folder)],
        capture_output=True,
        text=True,
        timeout=seconds + 1800,  # two minutes of processor time to compile
        env={**os.environ, "CXX": "clang++", "PYTHON": sys.executable, "OPTIMIZE": "0"},  # half of the time to compile
    )


def test_a_minute_of_fuzzing_finds_nothing(fuzz: None, tmp_path: Path) -> None:
    done = fuzz_for(120, ROOT, tmp_path)  # the seeds take up to half of it, where the machine is slow more
    assert done.returncode == 0, done.stderr[-6000:]
    assert not list((tmp_path / "found").iterdir()) and len(list((tmp_path / "seeds").iterdir())) > 200
    ran = dict((level, int(n)) for n, level in re.findall(r"(\d+) ran at (\w+)", done.stderr))
    absent = dict((level, int(n)) for level, n in re.findall(r"at (\w+) \(not on this machine: (\d+)\)", done.stderr))
    assert set(ran) == {"generic", "avx2", "avx512"} and all(ran[level] + absent.get(level, 0) > 50 for level in ran)
    assert len(list((tmp_path / "corpus").iterdir())) > 50  # changed programs that reach something new


@pytest.mark.nightly
def test_fuzzing_finds_a_missing_bounds_check(fuzz: None, tmp_path: Path) -> None:
    """The test above can fail: without the check of Machine::locate fuzzing ends in a report."""
    copy = tmp_path / "copy"
    for name in ("csrc", "scripts", "tests"):
        shutil.copytree(ROOT / name, copy / name)
    (machine,) = [path for path in (copy / "csrc").glob("*.cc") if BOUNDS_CHECK in path.read_text()]
    machine.write_text(machine.read_text().replace(BOUNDS_CHECK, "if (false) {"))
    done = fuzz_for(300, copy, tmp_path / "run")
    assert done.returncode != 0 and "AddressSanitizer" in done.stderr
    assert list((tmp_path / "run" / "found").iterdir())


def test_fuzzing_without_clang_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(ROOT / "scripts" / "fuzz.sh"), "1", str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "CXX": "no-such-compiler"},
    )
    assert done.returncode == 1
    assert "fuzz.sh: no-such-compiler is missing; accepted: clang++ with libFuzzer (CXX)" in done.stderr
