# SPDX-License-Identifier: Apache-2.0
"""Writes the files of a profile, and sets two profiles side by side."""

from __future__ import annotations

import json
from pathlib import Path

from ms_custom_ops.cost.page import page
from ms_custom_ops.cost.result import Profile
from ms_custom_ops.cost.tables import tables
from ms_custom_ops.cost.trace import insight, perfetto


def write(p: Profile, folder: Path) -> list[Path]:
    """All files of a profile. MindStudio Insight takes one JSON file per folder, so that its file has one alone."""
    files = {
        "insight/trace.json": insight(p),
        "perfetto.json": perfetto(p),
        "summary.json": json.dumps(p.as_dict(), indent=1) + "\n",
        "summary.html": page(p),
        **tables(p),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def compare(a: Profile, b: Profile) -> str:
    """Two profiles side by side, as text."""
    rows = [("cycles", f"{a.cycles:,.0f}", f"{b.cycles:,.0f}", _ratio(a.cycles, b.cycles))]
    rows.append(("us", f"{a.us:,.2f}", f"{b.us:,.2f}", _ratio(a.us, b.us)))
    rows.append(("blocks on cores", f"{a.blocks} on {a.cores}", f"{b.blocks} on {b.cores}", ""))
    rows.append(("bound by", a.bound, b.bound, ""))
    rows.append(("bytes behind L2", f"{a.gm_bytes:,}", f"{b.gm_bytes:,}", _ratio(a.gm_bytes, b.gm_bytes)))
    names = dict.fromkeys([*(x.name for x in a.pipes), *(x.name for x in b.pipes)])
    for name in names:
        left, right = a.pipe(name), b.pipe(name)
        rows.append((f"{name} busy", f"{left.utilisation:.1%}", f"{right.utilisation:.1%}", ""))
        rows.append((f"{name} cycles", f"{left.busy:,.0f}", f"{right.busy:,.0f}", _ratio(left.busy, right.busy)))
    head = ("modelled", f"{a.name} {a.soc}", f"{b.name} {b.soc}", "second/first")
    wide = [max(len(r[i]) for r in [head, *rows]) for i in range(4)]
    return "\n".join("  ".join(f"{c:>{w}}" if i else f"{c:<{w}}" for i, (c, w) in enumerate(zip(r, wide, strict=True)))
                     for r in [head, *rows])  # fmt: skip


def _ratio(a: float, b: float) -> str:
    return f"{b / a:.3f}" if a else "-"
