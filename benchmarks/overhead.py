# SPDX-License-Identifier: Apache-2.0
"""What a call of a small op costs: in a graph of 100, alone in GRAPH_MODE and PYNATIVE_MODE, in the engine by itself.

    python benchmarks/run.py overhead
    python benchmarks/run.py overhead --case one-block --json overhead.json

A case is flash_attention of a small tensor, whose output is the query of the next one. ``add`` is MindSpore's own
addition in the same place: what its graphs cost without this package. Microseconds, the least and the median of the
rounds.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from timing import machine_line, measure

import ms_custom_ops as mco
from ms_custom_ops.engine import native

OPS = 100
ROUNDS = 15


@dataclass(frozen=True)
class Case:
    """Self attention of (batch, heads, tokens, head_dim) in float16; None: MindSpore's addition."""

    name: str
    shape: tuple[int, int, int, int]
    ours: bool = True


CASES = (
    Case("add", (1, 1, 16, 16), ours=False),
    Case("one-block", (1, 1, 16, 16)),
    Case("four-blocks", (1, 4, 16, 16)),
)


class Chain(nn.Cell):
    """The op so many times, each on the result of the one before."""

    def __init__(self, case: Case, count: int) -> None:
        super().__init__()
        self.ours, self.count = case.ours, count

    def construct(self, x):
        y = x
        for _ in range(self.count):
            y = mco.ops.flash_attention(y, x, x)[0] if self.ours else y + x
        return y


def microseconds(run: Callable[[], object]) -> tuple[float, float]:
    """Least and median of the rounds."""
    run()
    found = [measure(run) * 1e3 for _ in range(ROUNDS)]
    return min(found), statistics.median(found)


def in_mode(mode: int, case: Case, count: int) -> tuple[float, float]:
    ms.set_context(mode=mode)
    net, x = Chain(case, count), Tensor(np.full(case.shape, 0.5, np.float16))
    found = net(x).asnumpy()
    if not np.isfinite(found).all():
        raise RuntimeError(f"{case.name}: a result of {count} ops is not finite; nothing is timed")
    return microseconds(lambda: net(x).asnumpy())


def in_engine(case: Case) -> tuple[float, float] | None:
    if not case.ours:
        return None
    program = mco.compile_op("flash_attention", [case.shape] * 3, ["float16"] * 3).program
    return microseconds(native.runner(program, [np.full(case.shape, 0.5, np.float16)] * 3))


def row_of(case: Case) -> dict[str, Any]:
    one, many = in_mode(ms.GRAPH_MODE, case, 1), in_mode(ms.GRAPH_MODE, case, OPS)
    slope = [(b - a) / (OPS - 1) for a, b in zip(one, many, strict=True)]
    figures = {
        "graph of 1": one,
        f"graph of {OPS}": many,
        "per op": slope,
        "pynative": in_mode(ms.PYNATIVE_MODE, case, 1),
        "engine": in_engine(case),
    }
    return {"case": case.name} | {name: x and [round(v, 2) for v in x] for name, x in figures.items()}


def report(json_file: Path | None, only: tuple[str, ...]) -> None:
    """Prints a line for every case."""
    ms.set_device("CPU")
    known = [case.name for case in CASES]
    for name in only:
        if name not in known:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}", param_hint="--case")
    click.echo(f"measured on: {machine_line()}\nmicroseconds, least / median")
    rows = [row_of(case) for case in CASES if not only or case.name in only]
    for row in rows:
        figures = "  ".join(f"{k} {v[0]:.1f} / {v[1]:.1f}" for k, v in row.items() if k != "case" and v)
        click.echo(f"{row['case']:<13}{figures}")
    if json_file is not None:
        json_file.write_text(json.dumps(rows, indent=1) + "\n")
        click.echo(f"wrote {json_file}")
