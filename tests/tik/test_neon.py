# SPDX-License-Identifier: Apache-2.0
"""The level neon gives the bits of the generic level: both in one program for aarch64, run by qemu."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
# Debian: g++-aarch64-linux-gnu and qemu-user.
MISSING = [name for name in (COMPILER, EMULATOR) if shutil.which(name) is None]


@pytest.mark.nightly
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_neon_gives_the_bits_of_the_generic_level(tmp_path):
    sources = [*sorted(CSRC.glob("simd_[!d]*.cc")), CSRC / "tests" / "levels.cc"]
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-static"]
    program = tmp_path / "levels"
    subprocess.run([COMPILER, *flags, *sources, "-o", program], check=True, timeout=900)
    done = subprocess.run([EMULATOR, program, "generic", "neon"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    compared, different = (int(word) for word in done.stdout.split() if word.isdigit())
    assert compared > 5000 and different == 0
