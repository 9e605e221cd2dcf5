# SPDX-License-Identifier: Apache-2.0
"""``ms_custom_ops.budget``: who occupies the on-chip memories of a kernel, at the worst moment and over its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ms_custom_ops.program import ir


@dataclass(frozen=True)
class Tenant:
    """A tensor in an on-chip memory, with every copy for loops with thread_num. ``first`` and ``last`` are the
    numbers of the statements, in the order of the kernel's text, between which it lives."""

    name: str
    scope: str
    dtype: str
    shape: tuple
    bytes: int
    address: int
    where: str
    first: int
    last: int


@dataclass
class Peak:
    """The worst moment of one memory: its tensors, the largest first, and the line that made the last of them."""

    scope: str
    capacity: int
    total: int = 0
    where: str = ""
    tenants: list[Tenant] = field(default_factory=list)

    def __str__(self) -> str:
        share = f"{100 * self.total / self.capacity:.0f} %" if self.capacity else "-"
        lines = [f"{self.scope}: {self.total} of {self.capacity} bytes ({share}) at {self.where}"]
        for t in self.tenants:
            shape = "x".join(map(str, t.shape))
            lines.append(f"  {t.bytes:>8} {t.name} {t.dtype}[{shape}] {t.where}")
        return "\n".join(lines)


@dataclass
class Budget:
    """Occupancy of a kernel: ``peaks`` by memory, every tensor in ``tenants``, ``statements`` of its text."""

    name: str
    soc: str
    peaks: dict[str, Peak]
    tenants: list[Tenant]
    statements: int

    def __str__(self) -> str:
        parts = [f"{self.name} on {self.soc}"] + [str(p) for p in self.peaks.values() if p.total]
        return "\n".join(parts)

    def picture(self, path: str | Path) -> None:
        """Draw which tensor holds which bytes over the statements of the kernel; needs matplotlib."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("budget.picture: matplotlib is missing; pip install ms_custom_ops[report]") from error
        used = [p for p in self.peaks.values() if p.total]
        figure = Figure(figsize=(11, 1.0 + 2.4 * max(len(used), 1)), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(f"{self.name} on {self.soc}: bytes by tensor over the text of the kernel")
        for axes, peak in zip(figure.subplots(max(len(used), 1), 1, squeeze=False)[:, 0], used, strict=False):
            for number, t in enumerate(t for t in self.tenants if t.scope == peak.scope):
                width = max(t.last - t.first, 1)
                axes.broken_barh([(t.first, width)], (t.address, t.bytes), facecolor=f"C{number % 10}", edgecolor="k",
                                 linewidth=0.4)  # fmt: skip
                if width > self.statements / 40 and t.bytes > peak.capacity / 30:
                    axes.text(
                        t.first + width / 2, t.address + t.bytes / 2, t.name, ha="center", va="center", fontsize=7
                    )
            axes.set(ylabel=f"{peak.scope}, bytes", xlim=(0, self.statements), ylim=(0, peak.capacity))
        figure.axes[-1].set_xlabel("statement")
        figure.savefig(path)


def budget(target: Any, soc: str | None = None) -> Budget:
    """Who occupies UB, L1, L0A, L0B, L0C and BT of a kernel: a Program, a built Tik instance, or a function that
    builds one (traced for ``soc``). Raises TikError where no kernel was built; what does not fit while tracing is
    TikCapacityError, whose first lines say what would."""
    from ms_custom_ops.debug.target import program_of

    program = program_of(target, soc, "budget")
    walk = _Walk(program)
    walk.body(program.body)
    walk.close(0)
    return Budget(program.name, program.soc, walk.peaks, walk.tenants, walk.number)


class _Walk:
    """Statements in the order of the text, with the tensors that live."""

    def __init__(self, program: ir.Program):
        self.program = program
        self.number = 0
        self.live: list[tuple[ir.Buffer, int]] = []
        self.tenants: list[Tenant] = []
        self.peaks = {s: Peak(s, size) for s, size in program.scope_bytes.items() if s not in (ir.GM, ir.SMASK)}

    def body(self, statements: list) -> None:
        held = len(self.live)
        for s in statements:
            self.number += 1
            if s.__class__ is ir.Alloc:
                self._alloc(s)
            elif s.__class__ is ir.Free:
                self._free(s.buffer)
            for inner in ir.bodies(s):
                self.body(inner)
        self.close(held)

    def close(self, held: int) -> None:
        """The scope of those made since ``held`` were alive is over."""
        for buffer, _ in self.live[held:]:
            self._free(buffer)

    def _tenant(self, buffer: ir.Buffer, first: int) -> Tenant:
        where = self.program.location(buffer.loc)
        last = max(buffer.addresses) - min(buffer.addresses) + -(-buffer.size_bytes // 32) * 32
        return Tenant(buffer.name, buffer.scope, buffer.dtype, tuple(buffer.shape), last, min(buffer.addresses), where,
                      first, self.number)  # fmt: skip

    def _alloc(self, s: ir.Alloc) -> None:
        if s.buffer.scope not in self.peaks:
            return
        self.live.append((s.buffer, self.number))
        now = [self._tenant(b, first) for b, first in self.live if b.scope == s.buffer.scope]
        peak = self.peaks[s.buffer.scope]
        total = sum(t.bytes for t in now)
        if total > peak.total:
            peak.total, peak.where = total, self.program.location(s.loc)
            peak.tenants = sorted(now, key=lambda t: -t.bytes)

    def _free(self, buffer: ir.Buffer) -> None:
        for place, (held, first) in enumerate(self.live):
            if held is buffer:
                self.tenants.append(self._tenant(buffer, first))
                del self.live[place]
                return
