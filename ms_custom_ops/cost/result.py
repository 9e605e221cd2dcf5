# SPDX-License-Identifier: Apache-2.0
"""What the cost model found: cycles, pipes, paths, lines, stalls, and the position under the roofs of the chip."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_custom_ops.cost.binding import LANES, SCOPES, STALLS, UNIT, Raw
from ms_custom_ops.cost.chip import VECTOR_BYTES_PER_CYCLE, CostChip
from ms_custom_ops.program import ir

BOUND = 0.8
"""A pipe that is busy for a larger part of the time is what bounds a kernel; below, it is bound by latency."""


@dataclass(frozen=True)
class Pipe:
    """Of all blocks: busy cycles, the part of the cores' time, instructions, cycles stalled by reason; ``units``: how
    many pipes of this name the blocks that run at once have."""

    name: str
    busy: float
    utilisation: float
    instructions: int
    stalls: dict[str, float]
    units: int = 1


@dataclass(frozen=True)
class Path:
    """Bytes moved from one memory to another by all blocks, and the cycles that pipes were occupied by it."""

    source: str
    target: str
    bytes: int
    cycles: float


@dataclass(frozen=True)
class Line:
    """A line of the kernel: instructions executed, cycles busy and waiting, bytes moved, names of the instructions."""

    file: str
    line: int
    instructions: int
    busy: float
    wait: float
    bytes: int
    names: tuple[str, ...]

    @property
    def place(self) -> str:
        """file:line."""
        return f"{self.file}:{self.line}" if self.file else "?"


@dataclass(frozen=True)
class Roof:
    """A limit of the chip: how long the kernel's work takes there at the least, in cycles of the kernel."""

    name: str
    cycles: float


@dataclass(frozen=True)
class Shape:
    """Cores of a block of an Ascend C launch, and the bytes that each memory holds."""

    cubes: int
    vectors: int
    used: dict[str, int]


@dataclass(frozen=True)
class Profile:
    """One Program, or one launch of an Ascend C kernel, on one chip. Every figure is modelled. ``vectors``: vector
    cores of a block; ``left_out``: what the model does not see of it."""

    name: str
    chip: CostChip
    cycles: float
    blocks: int
    cores: int
    core_cycles: tuple[float, ...]
    pipes: tuple[Pipe, ...]
    paths: tuple[Path, ...]
    lines: tuple[Line, ...]
    roofs: tuple[Roof, ...]
    macs: int
    gm_bytes: int
    l2_bytes: int
    unpaired_flags: int
    occupancy: dict[str, tuple[int, int]]
    slices: np.ndarray
    step_names: list[tuple[str, str, int]]
    vectors: int = 1
    left_out: str = ""

    @property
    def soc(self) -> str:
        """Name of the chip."""
        return self.chip.soc.name

    @property
    def us(self) -> float:
        """Microseconds at the chip's clock."""
        return self.chip.seconds(self.cycles) * 1e6

    @property
    def bound(self) -> str:
        """The pipe that bounds the kernel, or ``latency``."""
        best = max(self.pipes, key=lambda p: p.utilisation, default=None)
        return best.name if best is not None and best.utilisation >= BOUND else "latency"

    @property
    def roof(self) -> Roof:
        """The roof that is nearest."""
        return max(self.roofs, key=lambda r: r.cycles)

    def pipe(self, name: str) -> Pipe:
        """A pipe by its name; one that did nothing is idle."""
        return next((p for p in self.pipes if p.name == name), Pipe(name, 0.0, 0.0, 0, {}))

    def stalls(self) -> list[tuple[str, str, float]]:
        """(pipe, reason, cycles) of all blocks, the longest first."""
        found = [(p.name, reason, cycles) for p in self.pipes for reason, cycles in p.stalls.items()]
        return sorted(found, key=lambda s: -s[2])

    @property
    def note(self) -> str:
        """What the figures are worth."""
        return (
            f"modelled, not measured and not cycle accurate; error on {self.soc}: {self.chip.error}. "
            f"Numbers of the model: {self.chip.provenance()} (ms_custom_ops/cost/chips.json)"
            + (f". Not in it: {self.left_out}" if self.left_out else "")
        )

    def text(self, lines: int = 10) -> str:
        """The summary that ``ms-custom-ops profile`` prints."""
        from ms_custom_ops.cost.report import summary

        return summary(self, lines)

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON holds it."""
        from ms_custom_ops.cost.report import as_dict

        return as_dict(self)

    def __str__(self) -> str:
        return self.text()


def _core_cycles(ends: np.ndarray, cores: int, start: float) -> tuple[float, ...]:
    """Blocks beyond the cores take turns; what a launch costs is paid once."""
    used = min(len(ends), cores) or 1
    times = np.full(used, start)
    for core in range(used):
        times[core] += float(np.sum(np.maximum(ends[core::used] - start, 0)))
    return tuple(times.tolist())


_OF_CUBE = ("M", "MTE1", "FIX", "MTE2 (cube)", "MTE3 (cube)", "S (cube)")


def _pipes(raw: Raw, cycles: float, cores: int, vectors: int) -> tuple[Pipe, ...]:
    found = []
    for number, name in enumerate(LANES):
        count = int(raw.count[:, number].sum())
        if not count:
            continue
        busy, stall = float(raw.busy[:, number].sum()), raw.stall[:, number].sum(axis=0)
        stalls = {reason: float(s) for reason, s in zip(STALLS, stall, strict=True) if s > 0}
        units = cores * (1 if name in _OF_CUBE else vectors)
        found.append(Pipe(name, busy, busy / (cycles * units) if cycles else 0.0, count, stalls, units))
    return tuple(found)


def _paths(raw: Raw) -> tuple[Path, ...]:
    moved, moving = raw.bytes.sum(axis=0), raw.moving.sum(axis=0)
    found = [
        Path(SCOPES[src], SCOPES[dst], int(moved[dst, src]), float(moving[dst, src])) for dst, src in np.argwhere(moved)
    ]
    return tuple(sorted(found, key=lambda p: -p.bytes))


def _lines(raw: Raw) -> tuple[Line, ...]:
    sums: dict[tuple[str, int], np.ndarray] = defaultdict(lambda: np.zeros(4, np.int64))
    names: dict[tuple[str, int], list[str]] = defaultdict(list)
    for (name, file, line), figures in zip(raw.names, raw.steps, strict=True):
        if not name or not figures[0]:
            continue
        sums[file, line] += figures
        if name not in names[file, line]:
            names[file, line].append(name)
    found = [
        Line(file, line, int(s[0]), float(s[1]) / UNIT, float(s[2]) / UNIT, int(s[3]), tuple(names[file, line]))
        for (file, line), s in sums.items()
    ]
    return tuple(sorted(found, key=lambda x: -(x.busy + x.wait)))


def _roofs(chip: CostChip, cores: int, cube: float, vector: float, gm: int, l2: int) -> tuple[Roof, ...]:
    found = [
        Roof("GM", gm / chip.gm_bytes_per_cycle),
        Roof("L2", l2 / chip.l2_bytes_per_cycle),
        Roof("cube", cube / cores),
        Roof("vector", vector / cores),
    ]
    return tuple(r for r in found if r.cycles > 0) or (Roof("GM", 0.0),)


def occupancy(program: ir.Program) -> dict[str, tuple[int, int]]:
    """Bytes of each on-chip memory that some buffer lies in, and its size."""
    top: dict[str, int] = {}
    for b in program.buffers:
        if b.scope != ir.GM and b.size_bytes > 0:
            top[b.scope] = max(top.get(b.scope, 0), *(a + b.size_bytes for a in b.addresses))
    return {s: (used, program.scope_bytes.get(s, 0)) for s, used in top.items()}


def assemble(
    name: str,
    chip: CostChip,
    raw: Raw,
    cores: int,
    occupancy: dict[str, tuple[int, int]],
    shape: Shape | None = None,
    left_out: str = "",
) -> Profile:
    """The figures of a run; ``cores``: blocks that run at once."""
    start = chip.values["launch_us"] * chip.clock_mhz
    each = shape.cubes + shape.vectors if shape else 1
    ends = raw.end.reshape(-1, each).max(axis=1)
    by_core = _core_cycles(ends, cores, start)
    cycles, used, vectors = max(by_core), len(by_core), max(shape.vectors, 1) if shape else 1
    numbers = {n: int(v.sum()) for n, v in raw.numbers.items()}
    gm = numbers["gm_read"] + numbers["gm_written"]
    vector, cube = numbers["vector_bytes"] / VECTOR_BYTES_PER_CYCLE / vectors, numbers["cube"] / UNIT
    return Profile(
        name,
        chip,
        cycles,
        len(ends),
        used,
        by_core,
        _pipes(raw, cycles, used, vectors),
        _paths(raw),
        _lines(raw),
        _roofs(chip, used, cube, vector, gm, numbers["l2_bytes"]),
        numbers["macs"],
        gm,
        numbers["l2_bytes"],
        numbers["unpaired"],
        occupancy,
        raw.slices,
        raw.names,
        vectors,
        left_out,
    )
