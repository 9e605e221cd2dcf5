# SPDX-License-Identifier: Apache-2.0
"""Planted faults: each is found with its kind and its lines, and its corrected twin has no finding."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import kit as kit_file
import memory_faults
import numpy as np
import order_faults
import pytest
import value_faults  # noqa: F401
from kit import FAULTS, Fault, Kit

import ms_custom_ops as mco
from ms_custom_ops import where
from ms_custom_ops.engine.findings import ADVICE, Report
from ms_custom_ops.errors import EngineError, TikError
from ms_custom_ops.soc import use_soc
from ms_custom_ops.tik import builder

KINDS = set(ADVICE)


@pytest.fixture(autouse=True)
def lines_of_the_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement stands where the kit is called, not in the kit."""
    inside = (*where.INTERNAL, kit_file.__file__)
    monkeypatch.setattr(where, "INTERNAL", inside)
    monkeypatch.setattr(builder, "INTERNAL", inside)


def checked(fault: Fault, bad: bool) -> Report:
    """The report of a kernel with the fault, or of its twin."""
    kit: list[Kit] = []

    def build() -> Any:
        kit.append(Kit(bad))
        (fault.function if bad or fault.twin is None else fault.twin)(kit[0])
        return kit[0].build()

    if fault.traced and bad:
        return mco.check(build, soc=fault.soc)
    with use_soc(fault.soc):
        instance = build()
    return mco.check(instance, [*kit[0].feed, *kit[0].numbers], values=fault.values)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_planted_fault_is_found_where_it_is(fault: Fault) -> None:
    report = checked(fault, True)
    kinds = [f.kind for f in report.findings]
    found = [f for f in report.of_kind(fault.kind) if "AT" not in fault.lines or f.line == fault.lines["AT"]]
    assert found, f"wanted {fault.kind} at line {fault.lines.get('AT')}:\n{report}"
    first = found[0]
    extra = sorted(kinds)
    extra.remove(fault.kind)
    assert set(extra) <= set(fault.also), f"besides {fault.kind}: {extra}\n{report}"
    if "WITH" in fault.lines:
        assert first.other_line == fault.lines["WITH"], str(report)
    if fault.tensor is not None:
        assert first.tensor == fault.tensor, str(report)
    if fault.count is not None:
        assert first.count == fault.count, str(report)
    text = str(report)
    assert fault.kind in text and (first.line is None or f"{first.file}:{first.line}" in text)
    assert ADVICE[fault.kind] in text


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_corrected_twin_has_no_finding(fault: Fault) -> None:
    report = checked(fault, False)
    assert report.ok, str(report)


def test_every_kind_is_planted() -> None:
    assert {f.kind for f in FAULTS} == KINDS - {"queue_misuse"} and len(FAULTS) >= 60  # Ascend C has queues


def written_twice_at_once(k: Kit) -> None:
    """Two blocks write the same long runs, the second moved back, at the same time."""
    rows, row = 64, 2048
    x, y = k.gm(row), k.out(rows * row)
    with k.t.for_range(0, 2, block_num=2) as i:
        u = k.ub(row)
        k.t.vec_dup(128, u, 1.0, row // 128, 8)
        with k.t.for_range(0, rows) as r:
            k.move(y[r * row + i * 16], u, row - 16)
        with k.t.if_scope(i == 0):
            k.move(u, x, row)


def test_blocks_that_write_the_same_values_at_once_do_not_race() -> None:
    with use_soc("Ascend910B1"):
        kit = Kit(False)
        written_twice_at_once(kit)
        instance = kit.build()
    for _ in range(150):
        report = mco.check(instance, kit.feed)
        assert report.ok, str(report)


def late(k: Kit) -> None:
    """Reads what a transfer writes without waiting for it."""
    x, y = k.gm(64), k.out(64)
    u, r = k.ub(64), k.ub(64)
    with k.t.new_stmt_scope(disable_sync=True):
        k.move(u, x, 64)
        if not k.bad:
            k.t.set_flag("PIPE_MTE2", "PIPE_V", 0)
            k.t.wait_flag("PIPE_MTE2", "PIPE_V", 0)
        k.t.vec_muls(64, r, u, 2.0, 1, 8, 8)
        k.t.pipe_barrier("PIPE_ALL")
        k.move(y, r, 64)


def test_a_transfer_lands_at_its_wait() -> None:
    for bad in (True, False):
        with use_soc("Ascend910A"):
            kit = Kit(bad)
            late(kit)
            report = mco.check(kit.build(), kit.feed)
        doubled = kit.feed[0] * 2
        assert report.ok is not bad and (report.outputs[0] == doubled).all() == (not bad)


SCRIPT = """\
from ms_custom_ops import tik

t = tik.Tik()
x, y = (t.Tensor("int32", (16,), tik.scope_gm, name) for name in "xy")
u = t.Tensor("int32", (16,), tik.scope_ubuf, "u")
s = t.Scalar("int32", "s", 0)
t.data_move(u, x, 0, 1, 2, 0, 0)
with t.for_range(0, 8) as i:
    {}
u[0].set_as(s)
t.data_move(y, u, 0, 1, 2, 0, 0)
t.BuildCCE("script", [x], [y])
"""


@pytest.mark.parametrize(("line", "kinds"), [("s = s + u[i]", ["dead_assignment"]), ("s.set_as(s + u[i])", [])],
                         ids=["rebound", "set"])  # fmt: skip
def test_an_assignment_of_a_script_that_does_nothing(tmp_path: Path, line: str, kinds: list[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(line))
    with use_soc("Ascend910A"):
        instance = runpy.run_path(str(script))["t"]
    report = mco.check(instance, [np.ones(16, np.int32)])
    assert [f.kind for f in report.findings] == kinds, str(report)
    assert not kinds or (report.findings[0].line, report.findings[0].other_line) == (9, 6)


def test_findings_are_the_error_of_a_run_where_that_is_asked_for() -> None:
    with use_soc("Ascend910A"):
        kit = Kit(True)
        memory_faults.operand_never_written(kit)
        program = kit.build().programs[0]
    before = mco.set_check(True)
    try:
        assert mco.get_check()
        with pytest.raises(
            EngineError, match=r"planted: the checked run has 1 findings\n  \[uninitialized_read\] .*never"
        ):
            mco.run(program, kit.feed)
    finally:
        mco.set_check(before)
    assert mco.run(program, kit.feed)[0].shape == (64,)


@pytest.mark.parametrize(("fault", "soc", "kind"), [
    (order_faults.four_events_on_an_910a, "Ascend910A", "event_id_range"),
    (order_faults.computed_while_the_pipe_is_at_it, "Ascend910B1", "race_pipes"),
], ids=["events", "within_pipe"])  # fmt: skip
@pytest.mark.parametrize("bad", [True, False], ids=["planted", "corrected"])
def test_runs_that_name_no_mode_follow_the_rules_of_their_chip(fault: Any, soc: str, kind: str, bad: bool) -> None:
    """Ops that MindSpore runs say nothing of the chip: the engine takes its rules from the Program."""
    with use_soc(soc):
        kit = Kit(bad)
        fault(kit)
        program = kit.build().programs[0]
    before = mco.set_check(True)
    try:
        if bad:
            with pytest.raises(EngineError, match=rf"\[{kind}\]"):
                mco.run(program, kit.feed)
        else:
            mco.run(program, kit.feed)
    finally:
        mco.set_check(before)


def test_a_callable_that_is_no_kernel_is_refused() -> None:
    with pytest.raises(TikError, match="check: target is int; accepted: a Program, a Tik instance or a function"):
        mco.check(3)
    with pytest.raises(TikError, match="check: no kernel was built; accepted: a call after tik_instance.BuildCCE"):
        mco.check(Kit(False).t)


def test_a_start_that_no_tensor_reaches_is_out_of_bounds_and_nothing_more() -> None:
    """The largest offsets, on and off the grid: sums of addresses must not overflow (found by fuzzing)."""
    with use_soc("Ascend910B1"):
        kit = Kit(False)
        x, y, at = kit.gm(16), kit.out(16), kit.number(2**62 + 3, "int64")
        u, v = kit.load(x), kit.ub(32)
        kit.t.vec_adds(16, v[at], u, 1.0, 1, 8, 8)
        kit.move(y, u, 16)
        instance = kit.build()
    report = mco.check(instance, [*kit.feed, *kit.numbers])
    assert [f.kind for f in report.findings if f.kind == "out_of_bounds"] == ["out_of_bounds"], str(report)
