# SPDX-License-Identifier: Apache-2.0
"""Planted faults of Ascend C kernels: each is found with its kind and its lines, and its twin has no finding."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops.engine.findings import ADVICE_ASCENDC, Report
from ms_custom_ops.errors import AscendcError, TikError

if not any(map(shutil.which, ("g++", "c++", "clang++"))):
    pytest.skip("no C++ compiler", allow_module_level=True)

HERE = Path(__file__).parent
VECTOR = HERE / "planted_vector.cpp"
N = 64


@dataclass(frozen=True)
class Fault:
    """A function of the source. ``also``: kinds that may be found besides."""

    name: str
    kind: str
    tensor: str | None = None
    blocks: int = 1
    also: tuple[str, ...] = ()
    values: bool = False


FAULTS = [
    Fault("unwritten_buffer", "uninitialized_read", "VECCALC buffer"),
    Fault("unwritten_tail", "uninitialized_read", "VECCALC buffer"),
    Fault("block_of_a_queue_again", "uninitialized_read", "VECIN queue"),
    Fault("unwritten_scalar", "uninitialized_scalar", "VECCALC buffer"),
    Fault("unwritten_in_a_library_function", "uninitialized_read", "VECCALC buffer"),
    Fault("unwritten_in_a_sum", "uninitialized_read", "VECCALC buffer"),
    Fault("unwritten_in_maxima", "uninitialized_read", "VECCALC buffer"),
    Fault("unwritten_columns", "uninitialized_read", "VECCALC buffer"),
    Fault("unwritten_workspace", "uninitialized_read", "workspace"),
    Fault("padding_that_is_not_given", "uninitialized_read", "VECCALC buffer"),
    Fault("output_in_part", "unwritten_output", "argument 1"),
    Fault("beyond_a_block", "out_of_bounds", "VECIN queue"),
    Fault("beyond_by_repeats", "out_of_bounds", "VECCALC buffer"),
    Fault("scalar_beyond", "out_of_bounds"),
    Fault("gm_beyond", "out_of_bounds", "argument 0"),
    Fault("library_function_beyond", "out_of_bounds"),
    Fault("blocks_behind_gm", "gm_tail", "argument 0"),
    Fault("start_off_the_grid", "misaligned"),
    Fault("overlapping_operands", "overlap"),
    Fault("a_length_of_half_an_element", "param_range"),
    Fault("more_than_ub", "capacity"),
    Fault("not_a_number", "nan_produced", "VECCALC buffer", values=True),
    Fault("read_after_write", "race_pipes", "VECCALC buffer"),
    Fault("write_after_read", "race_pipes", "VECCALC buffer"),
    Fault("result_moved_too_early", "race_pipes", "VECCALC buffer"),
    Fault("barrier_of_the_wrong_pipe", "race_pipes", "VECCALC buffer"),
    Fault("flag_of_the_wrong_pipes", "race_pipes", "VECCALC buffer"),
    Fault("written_after_enque", "race_pipes", "VECOUT queue"),
    Fault("library_function_too_early", "race_pipes", "VECCALC buffer"),
    Fault("gm_read_back_too_early", "race_pipes", "workspace"),
    Fault("set_without_wait", "flag_unpaired"),
    Fault("wait_without_set", "flag_unpaired"),
    Fault("set_twice", "flag_unpaired"),
    Fault("wait_before_set", "flag_deadlock"),
    Fault("an_event_too_many", "event_id_range"),
    Fault("used_after_free", "use_after_scope", "VECIN queue"),
    Fault("used_after_reset", "use_after_scope"),
    Fault("empty_queue", "queue_misuse"),
    Fault("freed_twice", "queue_misuse"),
    Fault("tensor_of_another_queue", "queue_misuse"),
    Fault("two_write_one_row", "race_cores", "workspace", blocks=2),
    Fault("row_of_the_other", "race_cores", "workspace", blocks=2),
    Fault("row_written_again", "race_cores", "workspace", blocks=2),
    Fault("flag_of_a_pipe_that_has_done_nothing", "race_cores", "workspace", blocks=2),
    Fault("sums_without_atomics", "race_cores", "workspace", blocks=2),
    Fault("scalars_of_two_cores", "race_cores", "workspace", blocks=2),
    Fault("a_core_that_does_not_come", "flag_deadlock", blocks=2),
]
SOURCE = VECTOR.read_text()
NUMBERS = re.findall(r"F\((\w+)\)", SOURCE[SOURCE.index("#define FAULTS") :])


def lines_of(name: str) -> dict[str, int]:
    """The marked lines of a function."""
    found: dict[str, int] = {}
    inside = False
    for number, line in enumerate(SOURCE.splitlines(), 1):
        if line.startswith("__aicore__"):
            inside = f" {name}(" in line
        if inside and (mark := re.search(r"// (AT|WITH)$", line)):
            found[mark[1]] = number
    return found


@pytest.fixture(scope="module")
def planted():
    return mco.ascendc.build(VECTOR, entry="planted", soc="Ascend910B1")


def checked(kernel, fault: Fault, bad: bool) -> Report:
    x = np.linspace(0.5, 2.0, 2 * N, dtype=np.float32)
    y = np.zeros(fault.blocks * N, np.float32)
    feed = [fault.blocks, x, y, NUMBERS.index(fault.name), int(bad)]
    return mco.check(kernel, feed, outputs=[y], workspace=4096, values=fault.values)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_planted_fault_is_found_where_it_is(planted, fault: Fault) -> None:
    report = checked(planted, fault, True)
    lines = lines_of(fault.name)
    found = [f for f in report.of_kind(fault.kind) if f.line == lines.get("AT")]
    assert found, f"wanted {fault.kind} at line {lines.get('AT')}:\n{report}"
    assert {f.kind for f in report.findings} <= {fault.kind, *fault.also}, str(report)
    first = found[0]
    assert first.file == (str(VECTOR) if "AT" in lines else None)
    if "WITH" in lines:
        assert first.other_line == lines["WITH"], str(report)
    if fault.tensor is not None:
        assert fault.tensor in first.tensor, str(report)
    assert first.core_name in [f"AIV core {n}" for n in range(fault.blocks)]
    assert ADVICE_ASCENDC.get(fault.kind, "") in str(report)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_corrected_twin_has_no_finding(planted, fault: Fault) -> None:
    report = checked(planted, fault, False)
    assert report.ok, str(report)


def test_every_fault_of_the_source_is_tried() -> None:
    assert sorted(NUMBERS) == sorted(f.name for f in FAULTS)


def test_findings_are_the_error_of_a_call_under_set_check(planted) -> None:
    fault = next(f for f in FAULTS if f.name == "read_after_write")
    x, y = np.ones(2 * N, np.float32), np.zeros(N, np.float32)
    planted(1, x, y, NUMBERS.index(fault.name), 1, workspace=4096)
    before = mco.set_check(True)
    try:
        with pytest.raises(
            AscendcError, match=r"planted: the checked run has 1 findings\n  \[race_pipes\] Adds \(PIPE_V"
        ):
            planted(1, x, y, NUMBERS.index(fault.name), 1, workspace=4096)
        planted(1, x, y, NUMBERS.index(fault.name), 0, workspace=4096)
    finally:
        mco.set_check(before)


def test_launch_arguments_are_of_ascend_c() -> None:
    with pytest.raises(
        TikError, match="check: argument is outputs; accepted: soc, values, threads, time_limit for TIK"
    ):
        mco.check(lambda: None, [], outputs=[])


def test_what_check_refuses(planted) -> None:
    x, y = np.ones(2 * N, np.float32), np.zeros(N, np.float32)
    with pytest.raises(
        AscendcError, match="planted: outputs is 1 arrays; accepted: arrays that are arguments of the kern"
    ):
        planted.check(1, x, y, 0, 0, workspace=4096, outputs=[y.copy()])
