# SPDX-License-Identifier: Apache-2.0
"""A profile as one HTML page without scripts: figures, timeline, occupancy, roofline, lines."""

from __future__ import annotations

import html
import linecache
import math

import numpy as np

from ms_custom_ops.cost.binding import LANES, STALLS
from ms_custom_ops.cost.result import Profile
from ms_custom_ops.cost.trace import unit_of

_COLOUR = {
    "SCALAR": "#8a8f98",
    "VECTOR": "#2f7ed8",
    "CUBE": "#c0392b",
    "MTE1": "#e08e0b",
    "MTE2": "#2e9e5b",
    "MTE3": "#7d56c2",
    "FIXP": "#b03a8c",
}
_STYLE = """body{font:14px/1.45 system-ui,sans-serif;margin:24px auto;max-width:1180px;color:#1d2430;padding:0 16px}
h1{font-size:21px;margin:0 0 4px}h2{font-size:16px;margin:28px 0 6px;border-bottom:1px solid #d8dde5;padding-bottom:3px}
table{border-collapse:collapse;width:100%}td,th{padding:3px 8px;text-align:right;border-bottom:1px solid #eceff3}
td:first-child,th:first-child,td.l,th.l{text-align:left}th{color:#5a6372;font-weight:600}code{font-size:12.5px}
.note{background:#fff6e0;border:1px solid #ecd9a0;padding:7px 10px;border-radius:4px;font-size:13px}
.cards{display:flex;gap:12px;flex-wrap:wrap;margin:12px 0}
.card{border:1px solid #d8dde5;border-radius:6px;padding:8px 14px}
.card b{display:block;font-size:19px}.bar{display:inline-block;height:11px;vertical-align:-1px;border-radius:2px}
.track{background:#eef1f5;width:220px;display:inline-block;border-radius:2px;text-align:left}
svg{display:block;background:#fbfcfd;border:1px solid #e2e6ec;border-radius:4px}svg text{font:12px system-ui,sans-serif}
.cols{display:flex;gap:28px;flex-wrap:wrap}.cols>div{flex:1;min-width:min(430px,100%)}
summary{cursor:pointer;color:#5a6372}.wide{overflow-x:auto}
@media(max-width:760px){body{margin:12px auto;padding:0 10px}.track{width:90px}td,th{white-space:nowrap}}"""
_LEFT, _WIDTH, _ROW = 118, 1130, 24


def _esc(text: object) -> str:
    return html.escape(str(text))


Row = tuple[int, int]
"""Lane of a timeline, and which of several vector cores."""


def _lane_label(p: Profile, row: Row) -> tuple[str, str]:
    unit, track = unit_of(LANES[row[0]], p.chip.soc.split_core, row[1])
    core = {"cubecore0": "cube ", "veccore0": "vector ", "": ""}.get(unit, f"vector {row[1]} ")
    return f"{core}{track}", _COLOUR[track]


def _of_row(slices: np.ndarray, row: Row) -> np.ndarray:
    return slices[(slices["lane"] == row[0]) & (slices["sub"] == row[1])]


def _axis(first: float, last: float, height: int, clock: float) -> list[str]:
    span, out = last - first, []
    for i in range(6):
        at = first + span * i / 5
        x = _LEFT + (_WIDTH - _LEFT - 46) * i / 5
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}" stroke="#e6eaf0"/>')
        out.append(
            f'<text x="{x:.1f}" y="{height + 15}" text-anchor="middle" fill="#5a6372">{at / clock:,.2f} us</text>'
        )
    return out


def _overview(p: Profile, slices: np.ndarray, lanes: list[Row]) -> str:
    """How busy each pipe is over the traced part, in columns of equal time."""
    first, last = float(slices["start"].min()), float(slices["end"].max())
    columns, span = 250, max(last - first, 1.0)
    edges = np.linspace(first, last, columns + 1)
    wide = (_WIDTH - _LEFT - 46) / columns
    height = len(lanes) * _ROW
    out = [f'<svg width="{_WIDTH}" height="{height + 22}">', *_axis(first, last, height, p.chip.clock_mhz)]
    for row, lane in enumerate(lanes):
        label, colour = _lane_label(p, lane)
        of = _of_row(slices, lane)
        # Busy time up to an edge, by interpolation between the ends of the slices, which do not overlap.
        points = np.stack([of["start"], of["end"]], 1).reshape(-1)
        done = np.cumsum(of["end"] - of["start"])
        values = np.stack([np.concatenate([[0], done[:-1]]), done], 1).reshape(-1)
        share = np.diff(np.interp(edges, points, values, left=0.0)) / (span / columns)
        y = row * _ROW
        out.append(f'<text x="6" y="{y + 16}">{_esc(label)}</text>')
        for c in np.flatnonzero(share > 0.005):
            tall = (_ROW - 5) * min(float(share[c]), 1.0)
            out.append(
                f'<rect x="{_LEFT + c * wide:.1f}" y="{y + _ROW - 2 - tall:.1f}" width="{wide:.2f}" '
                f'height="{tall:.1f}" fill="{colour}"/>'
            )
    return "".join([*out, "</svg>"])


def _window(slices: np.ndarray) -> tuple[float, float]:
    """A stretch from the middle of the traced part that shows about 160 instructions of the pipes."""
    pipes = slices[(slices["lane"] != 0) & (slices["lane"] != len(LANES) - 1)]
    of = pipes if len(pipes) else slices
    middle = len(of) // 2
    part = of[max(0, middle - 80) : middle + 80]
    return float(part["start"].min()), float(part["end"].max())


def _detail(p: Profile, slices: np.ndarray, lanes: list[Row]) -> str:
    first, last = _window(slices)
    scale = (_WIDTH - _LEFT - 46) / max(last - first, 1.0)
    height = len(lanes) * _ROW
    out = [f'<svg width="{_WIDTH}" height="{height + 22}">', *_axis(first, last, height, p.chip.clock_mhz)]
    shown = slices[(slices["end"] > first) & (slices["start"] < last)]
    for row, lane in enumerate(lanes):
        label, colour = _lane_label(p, lane)
        y = row * _ROW
        out.append(f'<text x="6" y="{y + 16}">{_esc(label)}</text>')
        for s in _of_row(shown, lane)[:600]:
            name, file, line = p.step_names[s["step"]]
            x = _LEFT + (max(float(s["start"]), first) - first) * scale
            wide = max((min(float(s["end"]), last) - max(float(s["start"]), first)) * scale, 0.4)
            why = f", waited {s['wait']:.0f}: {STALLS[s['reason']]}" if s["reason"] >= 0 and s["wait"] > 0 else ""
            title = f"{name} {file}:{line}, {s['end'] - s['start']:.0f} cycles{why}"
            out.append(
                f'<rect x="{x:.1f}" y="{y + 3}" width="{wide:.2f}" height="{_ROW - 6}" fill="{colour}" '
                f'stroke="#fff" stroke-width="0.4"><title>{_esc(title)}</title></rect>'
            )
            if wide > 7 * len(name) + 4:
                out.append(f'<text x="{x + 3:.1f}" y="{y + 16}" fill="#fff">{_esc(name)}</text>')
    return "".join([*out, "</svg>"])


def _timeline(p: Profile) -> str:
    if not len(p.slices):
        return "<p>No slices were kept.</p>"
    block = int(p.slices["block"][0])
    slices = p.slices[p.slices["block"] == block]
    lanes: list[Row] = sorted({(int(s["lane"]), int(s["sub"])) for s in slices[["lane", "sub"]]})
    lanes.sort(key=lambda n: _lane_label(p, n)[0])
    whole = float(slices["end"].max()) >= p.core_cycles[min(block, p.cores - 1)] * 0.999
    part = "the whole run" if whole else "the first part of the run"
    return (
        f"<h2>Timeline of block {block}: {part}, height = part of the time that a pipe is busy</h2>"
        f"{_wide(_overview(p, slices, lanes))}<h2>A stretch of it (point at a bar for its line and its wait)</h2>"
        f"{_wide(_detail(p, slices, lanes))}"
    )


def _bar(share: float, colour: str) -> str:
    width = max(0.0, min(share, 1.0))
    return f'<span class="track"><span class="bar" style="width:{width:.1%};background:{colour}"></span></span>'


def _wide(content: str) -> str:
    """What a narrow window scrolls by itself, so that the page stays as wide as the window."""
    return f"<div class=wide>{content}</div>"


def _table(rows: str) -> str:
    return _wide(f"<table>{rows}</table>")


def _pipes(p: Profile) -> str:
    rows = []
    for pipe in p.pipes:
        label, colour = _lane_label(p, (LANES.index(pipe.name), 0))
        waits = sorted(pipe.stalls.items(), key=lambda s: -s[1])[:3]
        whole = p.cycles * pipe.units
        text = ", ".join(f"{why} {c / whole:.1%}" for why, c in waits)
        rows.append(
            f"<tr><td>{_esc(label)}</td><td class=l>{_bar(pipe.utilisation, colour)}</td>"
            f"<td>{pipe.utilisation:.1%}</td><td>{pipe.instructions:,}</td><td class=l>{_esc(text)}</td></tr>"
        )
    head = "<tr><th>pipe</th><th class=l>busy, part of the cores' time</th><th></th><th>instructions</th>"
    return "<h2>Pipes</h2>" + _table(f"{head}<th class=l>longest stalls</th></tr>{''.join(rows)}")


def _memories(p: Profile) -> str:
    rows = [
        f"<tr><td>{scope.upper()}</td><td class=l>{_bar(used / size if size else 0, '#5b8db8')}</td>"
        f"<td>{used:,} of {size:,} bytes</td></tr>"
        for scope, (used, size) in p.occupancy.items()
    ]
    paths = []
    for path in p.paths:
        rate = f"{path.bytes / path.cycles:.1f}" if path.cycles else "-"
        way = f"{path.source.upper()} &rarr; {path.target.upper()}"
        paths.append(f"<tr><td>{way}</td><td>{path.bytes:,}</td><td>{rate}</td></tr>")
    return (
        f"<div><h2>Occupancy of on-chip memory</h2>{_table(''.join(rows))}<h2>Paths</h2>"
        + _table(f"<tr><th>path</th><th>bytes</th><th>bytes per cycle</th></tr>{''.join(paths)}")
        + "</div>"
    )


def _roofline(p: Profile) -> str:
    """Operations per second over operations per byte behind L2, both logarithmic."""
    clock, cores = p.chip.clock_mhz * 1e6, p.cores if p.macs else p.cores * p.vectors
    operations = 2 * p.macs if p.macs else next((r.cycles for r in p.roofs if r.name == "vector"), 0) * cores * 64
    peak = (8192 if p.macs else 64) * cores * clock
    gm, l2 = p.chip.gm_bytes_per_cycle * clock, p.chip.l2_bytes_per_cycle * clock
    if not operations or not p.gm_bytes:
        return "<div><h2>Roofline</h2><p>No arithmetic, or nothing from GM.</p></div>"
    x, y = operations / p.gm_bytes, operations / (p.us / 1e6)
    left, right = min(x, peak / l2) / 8, max(x, peak / gm) * 8
    top, bottom = peak * 2, min(y, gm * left) / 2
    size, tall, pad = 470, 260, 44

    def at(a: float, b: float) -> tuple[float, float]:
        u = (math.log(a) - math.log(left)) / (math.log(right) - math.log(left))
        v = (math.log(b) - math.log(bottom)) / (math.log(top) - math.log(bottom))
        return pad + u * (size - pad - 10), tall - v * (tall - 10)

    out = [f'<svg width="{size}" height="{tall + 40}">']
    for name, rate, colour in (("GM", gm, "#2e9e5b"), ("L2", l2, "#2f7ed8")):
        knee = peak / rate
        points = [at(left, max(rate * left, bottom)), at(min(knee, right), min(peak, rate * right)), at(right, peak)]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        a, b = points[0]
        # Beside the foot of the line, which rises away from the text.
        out.append(f'<text x="{a + 20:.0f}" y="{b + 4:.0f}" fill="{colour}">{name} {rate / 1e12:.2f} TB/s</text>')
    a, b = at(x, y)
    out.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="6" fill="#c0392b"/>')
    anchor, dx = ("end", -10) if a > size / 2 else ("start", 10)
    out.append(
        f'<text x="{a + dx:.0f}" y="{b + 18:.0f}" text-anchor="{anchor}">{y / 1e12:.2f} Tops/s, {y / peak:.1%}</text>'
    )
    a, b = at(right, peak)
    unit = "cube" if p.macs else "vector"
    out.append(f'<text x="{a - 4:.0f}" y="{b - 6:.0f}" text-anchor="end">{unit} peak {peak / 1e12:.1f} Tops/s</text>')
    out.append(f'<text x="{size / 2:.0f}" y="{tall + 30}" text-anchor="middle" fill="#5a6372">')
    out.append(f"operations per byte behind L2 (here {x:.1f}), logarithmic</text></svg>")
    return f"<div><h2>Roofline</h2>{_wide(''.join(out))}</div>"


def _lines(p: Profile) -> str:
    rows, whole = [], p.cycles * p.cores
    for line in p.lines[:20]:
        source = linecache.getline(line.file, line.line).strip() if line.file else ""
        rows.append(
            f"<tr><td><code>{_esc(line.place)}</code></td><td class=l><code>{_esc(source[:70])}</code></td>"
            f"<td>{line.busy / whole:.1%}</td><td>{line.wait / whole:.1%}</td><td>{line.instructions:,}</td>"
            f"<td class=l>{_esc(', '.join(line.names))}</td></tr>"
        )
    head = (
        "<tr><th>line</th><th class=l>source</th><th>busy</th><th>waiting</th><th>executed</th><th class=l></th></tr>"
    )
    return f"<h2>Lines of the kernel</h2>{_table(head + ''.join(rows))}"


def _parameters(p: Profile) -> str:
    rows = "".join(
        f"<tr><td>{_esc(n)}</td><td>{v:g}</td><td class=l>{_esc(p.chip.sources[n])}</td></tr>"
        for n, v in sorted(p.chip.values.items())
    )
    table = f"<details><summary>all {len(p.chip.values)}</summary>{_table(rows)}</details>"
    return f"<h2>Numbers of the model</h2>{table}"


def page(p: Profile) -> str:
    """The page."""
    cards = [
        ("modelled", f"{p.us:,.1f} us"),
        ("cycles", f"{p.cycles:,.0f}"),
        ("blocks on cores", f"{p.blocks} on {p.cores}"),
        ("bound by", p.bound),
        (f"nearest roof: {p.roof.name}", f"{p.roof.cycles / p.cycles:.1%}"),
    ]
    cells = "".join(f'<div class="card">{_esc(name)}<b>{_esc(value)}</b></div>' for name, value in cards)
    return (
        '<!doctype html><meta charset=utf-8><meta name=viewport content="width=device-width,initial-scale=1">'
        f"<title>{_esc(p.name)} on {_esc(p.soc)}</title><style>{_STYLE}</style>"
        f"<h1>{_esc(p.name)} on {_esc(p.soc)}, {p.chip.clock_mhz:g} MHz</h1><div class=cards>{cells}</div>"
        f"<p class=note>{_esc(p.note[0].upper() + p.note[1:])}.</p>{_pipes(p)}{_timeline(p)}"
        f"<div class=cols>{_memories(p)}{_roofline(p)}</div>{_lines(p)}{_parameters(p)}"
    )
