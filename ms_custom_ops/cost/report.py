# SPDX-License-Identifier: Apache-2.0
"""A profile as text and as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ms_custom_ops.cost.result import Profile


def _bytes(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError


def summary(p: Profile, lines: int) -> str:
    """Cycles, pipes, paths, roofs, stalls and lines."""
    head = (
        f"{p.name} on {p.soc}: {p.cycles:,.0f} cycles, {p.us:,.1f} us at {p.chip.clock_mhz:g} MHz (modelled), "
        f"{p.blocks} blocks on {p.cores} cores, bound by {p.bound}"
    )
    out = [head, f"  {p.note}", ""]
    out.append(f"  {'pipe':12}{'busy':>8}{'instructions':>14}  longest waits, cycles of all blocks")
    for pipe in p.pipes:
        waits = sorted(pipe.stalls.items(), key=lambda s: -s[1])[:3]
        text = ", ".join(f"{reason} {cycles:,.0f}" for reason, cycles in waits)
        out.append(f"  {pipe.name:12}{pipe.utilisation:>8.1%}{pipe.instructions:>14,}  {text}")
    out += ["", f"  {'path':14}{'bytes':>12}{'bytes per cycle':>17}"]
    for path in p.paths:
        rate = f"{path.bytes / path.cycles:.1f}" if path.cycles else "-"
        out.append(f"  {path.source + ' to ' + path.target:14}{_bytes(path.bytes):>12}{rate:>17}")
    out += ["", f"  GM behind L2 {_bytes(p.gm_bytes)} of {_bytes(p.l2_bytes)} moved"]
    out += [f"  roof {r.name}: {r.cycles:,.0f} cycles, {r.cycles / p.cycles:.1%} of the time" for r in p.roofs]
    if p.unpaired_flags:
        out.append(f"  {p.unpaired_flags} waits for a flag that was not set; taken as set")
    out += ["", f"  {'line':44}{'busy':>12}{'waiting':>12}{'instructions':>14}"]
    for line in p.lines[:lines]:
        place = line.place if len(line.place) < 44 else "..." + line.place[-40:]
        out.append(
            f"  {place:44}{line.busy:>12,.0f}{line.wait:>12,.0f}{line.instructions:>14,}  {', '.join(line.names)}"
        )
    return "\n".join(out)


def as_dict(p: Profile) -> dict[str, Any]:
    """Plain data: what the JSON summary holds."""
    return {
        "kind": "modelled",
        "note": p.note,
        "kernel": p.name,
        "soc": p.soc,
        "clock_mhz": p.chip.clock_mhz,
        "cycles": round(p.cycles, 1),
        "us": round(p.us, 3),
        "blocks": p.blocks,
        "cores": p.cores,
        "bound": p.bound,
        "core_cycles": [round(c, 1) for c in p.core_cycles],
        "pipes": {
            x.name: {
                "busy_cycles": round(x.busy, 1),
                "utilisation": round(x.utilisation, 5),
                "instructions": x.instructions,
                "stall_cycles": {r: round(c, 1) for r, c in x.stalls.items()},
            }
            for x in p.pipes
        },
        "paths": [{"from": x.source, "to": x.target, "bytes": x.bytes, "cycles": round(x.cycles, 1)} for x in p.paths],
        "roofs": {r.name: round(r.cycles, 1) for r in p.roofs},
        "products": p.macs,
        "gm_bytes": p.gm_bytes,
        "l2_bytes": p.l2_bytes,
        "unpaired_flags": p.unpaired_flags,
        "occupancy": {s: {"bytes": used, "size": size} for s, (used, size) in p.occupancy.items()},
        "lines": [
            {
                "file": x.file,
                "line": x.line,
                "instructions": x.instructions,
                "busy_cycles": round(x.busy, 1),
                "wait_cycles": round(x.wait, 1),
                "bytes": x.bytes,
                "names": list(x.names),
            }
            for x in p.lines
        ],
        "parameters": {n: {"value": v, "from": p.chip.sources[n]} for n, v in sorted(p.chip.values.items())},
    }
