# SPDX-License-Identifier: Apache-2.0
"""Every request for memory or a thread fails once: a run ends with its results or a text, and never the process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from engine_cases import need_engine
from random_programs import random_program
from test_engine_threads import adds_to_one_row, exchange

from ms_custom_ops import engine

need_engine()

DRIVER = Path(__file__).parents[2] / "csrc" / "tests" / "failing.cc"


@pytest.mark.skipif(shutil.which("g++") is None or not sys.platform.startswith("linux"), reason="g++ on Linux")
@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="the driver makes malloc fail, and AddressSanitizer itself aborts when its own requests do",
)
def test_no_request_that_fails_ends_the_process(tmp_path):
    programs = {"barrier": exchange(9), "adds": adds_to_one_row("float32", 64, True), "random": random_program(3, 14)}
    files = []
    for name, program in programs.items():
        files.append(tmp_path / f"{name}.bin")
        files[-1].write_bytes(program.to_bytes())
    driver = tmp_path / "failing"
    command = ["g++", "-std=c++17", "-O1", "-rdynamic", str(DRIVER), "-o", str(driver), "-ldl", "-pthread"]
    subprocess.run(command, check=True, capture_output=True)
    ran = subprocess.run([str(driver), str(engine.library_path()), *map(str, files)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == 4 * len(files)  # 1 and 4 threads; one failure, and all from there
    assert all(int(line.rpartition(": ")[2].split()[0]) > 50 for line in lines), ran.stdout
