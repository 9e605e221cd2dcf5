# SPDX-License-Identifier: Apache-2.0
"""A profile as the CSV files that the vendor's profiler writes."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from typing import Any

from ms_custom_ops.cost.result import Profile
from ms_custom_ops.cost.trace import events, unit_of


def _csv(header: list[str], rows: list[list[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def _unit(p: Profile, lane: str) -> str:
    unit, _ = unit_of(lane, p.chip.soc.split_core)
    return {"cubecore0": "aic", "veccore0": "aiv", "": "aicore"}[unit]


def _short(lane: str) -> str:
    return {"S": "scalar", "V": "vec", "M": "cube", "FIX": "fixpipe"}.get(lane.split()[0], lane.split()[0].lower())


def op_basic_info(p: Profile) -> str:
    """One line: name, chip, blocks, duration, clock."""
    header = ["Op Name", "Soc", "Task Duration(us)", "Block Dim", "Current Freq", "Rated Freq", "Note"]
    clock = f"{p.chip.clock_mhz:g}"
    return _csv(header, [[p.name, p.soc, f"{p.us:.3f}", p.blocks, clock, clock, p.note]])


def pipe_utilization(p: Profile) -> str:
    """Time and part of the time of every pipe, mean of the cores."""
    header, row = ["block_id", "time(us)"], ["mean", f"{p.us:.3f}"]
    for pipe in p.pipes:
        name = f"{_unit(p, pipe.name)}_{_short(pipe.name)}"
        header += [f"{name}_time(us)", f"{name}_ratio"]
        row += [f"{p.chip.seconds(pipe.busy / pipe.units) * 1e6:.3f}", f"{pipe.utilisation:.5f}"]
    return _csv(header, [row])


def memory(p: Profile) -> str:
    """Bytes of every path, and how fast they moved while they did."""
    rows = []
    for path in p.paths:
        rate = path.bytes / p.chip.seconds(path.cycles) / 1e9 if path.cycles else 0.0
        rows.append([f"{path.source.upper()}_to_{path.target.upper()}", f"{path.bytes / 1024:.2f}", f"{rate:.2f}"])
    return _csv(["path", "datas(KB)", "bw_per_core(GB/s)"], rows)


def conflict_ratio(p: Profile) -> str:
    """Cycles stalled by reason, as a part of the cores' time."""
    rows = [
        [_unit(p, lane), _short(lane), why, f"{c:.1f}", f"{c / (p.cycles * p.pipe(lane).units):.5f}"]
        for lane, why, c in p.stalls()
    ]
    return _csv(["unit", "pipe", "reason", "cycles", "ratio"], rows)


def core_tables(p: Profile, block: int) -> tuple[str, str]:
    """Of a traced block: by line of the kernel, and by instruction."""
    by_line: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    by_step: dict[tuple, list[float]] = defaultdict(lambda: [0, 0.0])
    for e in events(p):
        if e.block != block:
            continue
        cycles = (e.end - e.start) * p.chip.clock_mhz
        for sums in (by_line[e.place], by_step[e.name, e.step, e.track, e.place]):
            sums[0] += 1
            sums[1] += cycles
    lines = [[place, n, f"{c:.0f}", f"{c / p.chip.clock_mhz:.3f}"] for place, (n, c) in by_line.items()]
    steps = [
        [name, f"0x{step * 4:x}", track, n, f"{c:.0f}", f"{c / p.chip.clock_mhz:.3f}", place]
        for (name, step, track, place), (n, c) in by_step.items()
    ]
    return (
        _csv(["code", "call_count", "cycles", "running_time(us)"], sorted(lines, key=lambda r: -float(r[2]))),
        _csv(["instr", "addr", "pipe", "call_count", "cycles", "running_time(us)", "detail"],
             sorted(steps, key=lambda r: -float(r[4]))),
    )  # fmt: skip


def tables(p: Profile) -> dict[str, str]:
    """File name to content."""
    found = {
        "OpBasicInfo.csv": op_basic_info(p),
        "PipeUtilization.csv": pipe_utilization(p),
        "Memory.csv": memory(p),
        "ResourceConflictRatio.csv": conflict_ratio(p),
    }
    for block in sorted({int(b) for b in p.slices["block"]}):
        code, instr = core_tables(p, block)
        found[f"core{block}_code_exe.csv"], found[f"core{block}_instr_exe.csv"] = code, instr
    return found
