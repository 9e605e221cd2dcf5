# SPDX-License-Identifier: Apache-2.0
"""Planted faults: each is found with its kind and its lines, and its corrected twin has no finding."""

from __future__ import annotations

from typing import Any

import kit as kit_file
import memory_faults  # noqa: F401
import order_faults  # noqa: F401
import pytest
import value_faults  # noqa: F401
from kit import FAULTS, Fault, Kit

import ms_custom_ops as mco
from ms_custom_ops import where
from ms_custom_ops.engine.findings import ADVICE, Report
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
    assert {f.kind for f in FAULTS} == KINDS and len(FAULTS) >= 60
