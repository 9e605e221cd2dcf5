# SPDX-License-Identifier: Apache-2.0
"""Results as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_custom_ops.cases.model import Result

HEADER = ("op", "name", "soc", "by", "dtype", "shapes", "rms", "max error", "matched", "worst at", "verdict")
_WIDTHS = (20, 28, 13, 9, 12, 32, 9, 9, 7, 16, 7)


def line(cells: Sequence[str]) -> str:
    """One row, columns padded."""
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def row(result: Result) -> str:
    """A result as a row; a message follows on a line of its own unless the case passed."""
    case = result.case
    dtypes = "/".join(dict.fromkeys(str(case.dtypes[n]) for n in case.present))
    shapes = " ".join(dict.fromkeys("x".join(map(str, case.shapes[n] or ())) or "scalar" for n in case.present))
    rms = worst = matched = at = "-"
    if result.outputs:
        rms = f"{max(o.rms for o in result.outputs):.2e}"
        matched = f"{min(o.matched for o in result.outputs):.3f}"
        bad = max(result.outputs, key=lambda o: o.worst)
        worst = f"{bad.worst:.2e}"
        at = f"{bad.name}[{','.join(map(str, bad.at))}]" if bad.worst else "-"
    verdict = "refused" if case.invalid and result.verdict == "pass" else result.verdict
    text = line((case.op.name, case.name, result.soc, result.way, dtypes, shapes, rms, worst, matched, at, verdict))
    if result.from_reference:
        text += f"\n    {_distances(result)}"
    return text if result.verdict == "pass" else f"{text}\n    {result.message}"


def _distances(result: Result) -> str:
    """The three distances between kernel, golden and the file's reference: rms ratio, largest difference."""
    three = (
        ("kernel-golden", result.outputs), ("kernel-reference", result.from_reference),
        ("reference-golden", result.reference_from_golden),
    )  # fmt: skip
    return "  ".join(
        f"{name} {max(o.rms for o in outputs):.2e} {max(o.worst for o in outputs):.2e}"
        for name, outputs in three
        if outputs
    )


@dataclass(frozen=True)
class Outcome:
    """A result as it is printed and written; unlike it, it can go from one process to another."""

    text: str
    verdict: str
    invalid: str
    content: dict[str, Any]


def outcome(result: Result) -> Outcome:
    """What is printed and written of a result."""
    return Outcome(row(result), result.verdict, result.case.invalid, result.as_json())


def summary(results: Sequence[Outcome], absent: int = 0) -> str:
    """Counts. ``absent``: cases of the ops that were not run, as a chip lacks their dtype."""
    count = {v: sum(r.verdict == v for r in results) for v in ("pass", "fail", "error")}
    refused = sum(bool(r.invalid) and r.verdict == "pass" for r in results)
    return (
        f"{len(results)} case(s): {count['pass']} passed ({refused} refused as they must be), {count['fail']} failed, "
        f"{count['error']} error(s)" + (f"; {absent} not run: of a dtype that the chip lacks" if absent else "")
    )


def write_json(path: Path, results: Sequence[Outcome], seed: int, about: dict[str, Any]) -> None:
    """Writes every result with what is needed to make it again."""
    content = {
        **about, "seed": seed, "passed": sum(r.verdict == "pass" for r in results),
        "failed": sum(r.verdict == "fail" for r in results), "errors": sum(r.verdict == "error" for r in results),
        "cases": [r.content for r in results],
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, allow_nan=True) + "\n", encoding="utf-8")
