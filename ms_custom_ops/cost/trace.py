# SPDX-License-Identifier: Apache-2.0
"""Timelines of a profile as Chrome trace events: one form for MindStudio Insight, one for Perfetto."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ms_custom_ops.cost.binding import LANES, STALLS
from ms_custom_ops.cost.result import Profile

TRACKS = {"S": "SCALAR", "MTE1": "MTE1", "M": "CUBE", "FIX": "FIXP", "MTE2": "MTE2", "V": "VECTOR", "MTE3": "MTE3"}
"""Names of the tracks that the vendor's profiler gives to the pipes."""
_ORDER = {"SCALAR": 1, "MTE1": 3, "CUBE": 4, "FIXP": 5, "MTE2": 6, "VECTOR": 7, "MTE3": 8}
_COLOUR = {
    "SCALAR": "thread_state_unknown",
    "MTE1": "thread_state_runnable",
    "CUBE": "good",
    "FIXP": "startup",
    "MTE2": "rail_response",
    "VECTOR": "thread_state_running",
    "MTE3": "thread_state_iowait",
}
_CUBE_CORE = ("M", "MTE1", "FIX")
PICO = 6  # decimals of a microsecond


@dataclass(frozen=True)
class Event:
    """A slice of a pipe: core and unit, track, times in microseconds."""

    block: int
    unit: str
    track: str
    name: str
    start: float
    end: float
    place: str
    step: int
    bytes: int
    wait: float
    reason: str


def unit_of(lane: str, split: bool, sub: int = 0) -> tuple[str, str]:
    """(core of a split core or "", track) of a lane; ``sub``: which of the vector cores."""
    pipe, _, cube = lane.partition(" ")
    track = TRACKS[pipe]
    if not split:
        return "", track
    return ("cubecore0" if cube or pipe in _CUBE_CORE else f"veccore{sub}"), track


def events(p: Profile) -> Iterator[Event]:
    """Slices of the traced blocks, by block and start. No two of one track overlap."""
    split, clock = p.chip.soc.split_core, p.chip.clock_mhz
    for s in p.slices:
        unit, track = unit_of(LANES[s["lane"]], split, int(s["sub"]))
        name, file, line = p.step_names[s["step"]]
        start, end = round(float(s["start"]) / clock, PICO), round(float(s["end"]) / clock, PICO)
        reason = STALLS[s["reason"]] if s["reason"] >= 0 and s["wait"] > 0 else ""
        yield Event(
            int(s["block"]), unit, track, name, start, end, f"{file}:{line}" if file else "?", int(s["step"]),
            int(s["bytes"]), float(s["wait"]), reason,
        )  # fmt: skip


def _detail(e: Event) -> str:
    return f"waited {e.wait:.0f} cycles: {e.reason}" if e.reason else ""


def _tracks(found: list[Event]) -> list[tuple[int, str, str]]:
    return sorted({(e.block, e.unit, e.track) for e in found})


def _process(block: int, unit: str) -> str:
    return f"core{block}.{unit}" if unit else f"core{block}"


def insight(p: Profile) -> str:
    """For MindStudio Insight: strings as pid and tid, and ``profilingType`` before the first list."""
    found = list(events(p))
    records: list[dict[str, Any]] = []
    for block, unit, track in _tracks(found):
        pid = _process(block, unit)
        place = 4 * block + (1 if unit == "cubecore0" else 2 + int(unit[-1:] if unit else 0))
        records.append(
            {"name": "process_sort_index", "ph": "M", "pid": pid, "tid": "NA", "args": {"sort_index": place}}
        )
        index = {"sort_index": _ORDER[track]}
        records.append({"name": "thread_sort_index", "ph": "M", "pid": pid, "tid": track, "args": index})
    for e in found:
        args = {"pc_addr": f"0x{e.step * 4:x}", "code": e.place, "detail": _detail(e), "process_bytes": e.bytes}
        records.append(
            {"name": e.name, "cname": _COLOUR[e.track], "ph": "X", "ts": e.start, "dur": round(e.end - e.start, PICO),
             "pid": _process(e.block, e.unit), "tid": e.track, "args": args}
        )  # fmt: skip
    head = {"profilingType": "op", "schemaVersion": 2, "displayTimeUnit": "ns", "note": p.note, "traceEvents": records}
    return json.dumps(head, separators=(",", ":"))


def perfetto(p: Profile) -> str:
    """For Perfetto and chrome://tracing: numbers as pid and tid, with their names."""
    found = list(events(p))
    tracks = _tracks(found)
    records: list[dict[str, Any]] = []
    processes = {key: i + 1 for i, key in enumerate(sorted({(b, u) for b, u, _ in tracks}))}
    threads = {(b, u, t): 10 * processes[b, u] + _ORDER[t] for b, u, t in tracks}
    for (block, unit), pid in processes.items():
        records.append(_name("process_name", pid, 0, f"{_process(block, unit)} (modelled)"))
    for (block, unit, track), tid in threads.items():
        pid, index = processes[block, unit], {"sort_index": _ORDER[track]}
        records.append(_name("thread_name", pid, tid, track))
        records.append({"name": "thread_sort_index", "ph": "M", "pid": pid, "tid": tid, "args": index})
    for e in found:
        args: dict[str, Any] = {"line": e.place, "bytes": e.bytes}
        if e.reason:
            args |= {"waited_cycles": round(e.wait, 1), "reason": e.reason}
        records.append(
            {"name": e.name, "cat": e.track, "ph": "X", "ts": e.start, "dur": round(e.end - e.start, PICO),
             "pid": processes[e.block, e.unit], "tid": threads[e.block, e.unit, e.track], "args": args}
        )  # fmt: skip
    return json.dumps({"displayTimeUnit": "ns", "otherData": {"note": p.note}, "traceEvents": records},
                      separators=(",", ":"))  # fmt: skip


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
