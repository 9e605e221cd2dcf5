# SPDX-License-Identifier: Apache-2.0
"""Planted faults of cube cores, and of cube and vector cores that work together."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops.engine.findings import Report

if not any(map(shutil.which, ("g++", "c++", "clang++"))):
    pytest.skip("no C++ compiler", allow_module_level=True)

SOURCE = Path(__file__).parent / "planted_mixed.cpp"
COLUMNS = Path(__file__).parent / "planted_columns.cpp"
FAULTS = {
    "row_of_l1_that_nobody_wrote": ("uninitialized_read", "A1 buffer", "AIC core 0"),
    "l1_read_too_early": ("race_pipes", "A1 buffer", "AIC core 0"),
    "l0b_multiplied_too_early": ("race_pipes", "B2 buffer", "AIC core 0"),
    "l0c_moved_out_too_early": ("race_pipes", "CO1 buffer", "AIC core 0"),
    "vectors_that_do_not_wait": ("race_cores", "workspace", "AIV core 0"),
    "flag_of_another_pipe_of_the_cube": ("race_cores", "workspace", "AIV core 0"),
}
NAMES = list(FAULTS)


@pytest.fixture(scope="module")
def mixed():
    return mco.ascendc.build(SOURCE, entry="mixed", soc="Ascend910B1")


def checked(kernel, name: str, bad: bool) -> tuple[Report, np.ndarray]:
    x = (np.arange(256).reshape(16, 16) / 256).astype(np.float16)
    y = np.zeros((16, 16), np.float32)
    report = mco.check(kernel, [1, x, y, NAMES.index(name), int(bad)], outputs=[y], workspace=1024)
    if not bad:
        assert np.allclose(y, x.astype(np.float64) @ x, rtol=1e-5)
    return report, y


def line(mark: str, number: int) -> int | None:
    """The line marked with it."""
    lines = SOURCE.read_text().splitlines()
    return next((n for n, text in enumerate(lines, 1) if re.search(rf"//.*\b{mark} {number}\b", text)), None)


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_fault_is_found_where_it_is(mixed, name: str) -> None:
    kind, tensor, core = FAULTS[name]
    report, _ = checked(mixed, name, True)
    number = NAMES.index(name)
    found = [f for f in report.of_kind(kind) if f.line == line("AT", number)]
    assert found, str(report)
    assert any(tensor in f.tensor and f.core_name == core for f in found), str(report)
    if (other := line("WITH", number)) is not None:
        assert other in [f.other_line for f in found], str(report)


@pytest.mark.parametrize("name", NAMES[:1])
def test_the_corrected_kernel_has_no_finding(mixed, name: str) -> None:
    report, _ = checked(mixed, name, False)
    assert report.ok, str(report)


@pytest.fixture(scope="module")
def columns():
    return mco.ascendc.build(COLUMNS, entry="columns", soc="Ascend910B1")


@pytest.mark.parametrize("rows", [0, 1], ids=["NZ", "row by row"])
@pytest.mark.parametrize("panel", [0, 1, 3])
def test_keys_that_were_not_loaded_lack_their_own_columns_alone(columns, rows: int, panel: int) -> None:
    x, keys = (np.arange(256).reshape(16, 16) / 256).astype(np.float16), np.eye(16, dtype=np.float16)
    y = np.zeros((16, 16), np.float32)
    report = mco.check(columns, [1, x, keys, y, rows, panel], outputs=[y], workspace=4096)
    if panel == 0:
        assert report.ok and np.array_equal(y, x.astype(np.float32)), str(report)
        return
    (found,) = report.of_kind("uninitialized_read")
    number = next(n for n, text in enumerate(COLUMNS.read_text().splitlines(), 1) if text.endswith("// AT"))
    assert found.line == number and "[0, 1024) of output argument 2" in found.text, str(report)
