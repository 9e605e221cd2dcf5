# SPDX-License-Identifier: Apache-2.0
"""Results as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ms_custom_ops.cases.model import Result

HEADER = ("name", "soc", "by", "dtype", "shapes", "rms", "max error", "verdict")
_WIDTHS = (46, 13, 9, 18, 44, 9, 9, 7)


def line(cells: Sequence[str]) -> str:
    """One row, columns padded."""
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def row(result: Result) -> str:
    """A result as a row; a message follows on a line of its own unless the case passed."""
    case = result.case
    dtypes = "/".join(dict.fromkeys(str(case.dtypes[n]) for n in case.present))
    shapes = " ".join(dict.fromkeys("x".join(map(str, case.shapes[n] or ())) or "scalar" for n in case.present))
    rms = f"{max(o.rms for o in result.outputs):.2e}" if result.outputs else "-"
    worst = f"{max(o.worst for o in result.outputs):.2e}" if result.outputs else "-"
    verdict = "refused" if case.invalid and result.verdict == "pass" else result.verdict
    text = line((case.name, result.soc, result.way, dtypes, shapes, rms, worst, verdict))
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


def summary(results: Sequence[Result], absent: int = 0) -> str:
    """Counts. ``absent``: cases of the ops that were not run, as a chip lacks their dtype."""
    count = {v: sum(r.verdict == v for r in results) for v in ("pass", "fail", "error")}
    refused = sum(bool(r.case.invalid) and r.verdict == "pass" for r in results)
    return (
        f"{len(results)} case(s): {count['pass']} passed ({refused} refused as they must be), {count['fail']} failed, "
        f"{count['error']} error(s)" + (f"; {absent} not run: of a dtype that the chip lacks" if absent else "")
    )


def write_json(path: Path, results: Sequence[Result], seed: int, about: dict[str, Any]) -> None:
    """Writes every result with what is needed to make it again."""
    content = {
        **about, "seed": seed, "passed": sum(r.verdict == "pass" for r in results),
        "failed": sum(r.verdict == "fail" for r in results), "errors": sum(r.verdict == "error" for r in results),
        "cases": [r.as_json() for r in results],
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, allow_nan=True) + "\n", encoding="utf-8")
