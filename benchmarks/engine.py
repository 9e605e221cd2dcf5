# SPDX-License-Identifier: Apache-2.0
"""Where the native engine's time goes: by instruction and class, what is moved, and beside it what this machine can do.

    python benchmarks/run.py engine
    python benchmarks/run.py engine --case flash_attention-1x8x1024x64 --json engine.json

``ms`` is the least processor time of the fast mode on one thread, and wall time where two share the work; shares are
of the time that the measured mode finds step by step (:func:`ms_custom_ops.engine.measure`), of each step the least
of several runs. Bytes are those that the instructions touch, whatever cache holds them. The peak is what one thread
reaches here, in the same run, in NumPy's float32 product and copy; ``limits`` what it reaches in multiply-adds of
registers, and the engine in products and exp by themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import limits
import numpy as np
from timing import machine_line

from ms_custom_ops import engine, tik
from ms_custom_ops.commands._subject import Wanted, call_of, chosen_case, usual_feed
from ms_custom_ops.compiler import compile_call
from ms_custom_ops.engine import StepMeasure, native
from ms_custom_ops.program import ir
from ms_custom_ops.registry import get_op
from ms_custom_ops.tik.trace import trace

ROUNDS, MEASURES = 15, 5
SHOWN = 8  # instructions and routes of a case in the table; the JSON has all
PRODUCTS = ("mmad", "matmul", "conv2d")
VECTOR_PIPE, MOVING_PIPES = 1, (3, 4, 5, 6)  # PIPE_V; PIPE_MTE1, MTE2, MTE3, FIX
CLASSES = ("products", "exp", "vector", "moves", "scalar")
SHORT = 100_000  # rounds of ten short instructions


@dataclass(frozen=True)
class Case:
    """A smoke case of an op with other sizes and attributes, as of ``ms-custom-ops profile``."""

    name: str
    op: str
    case: str
    sizes: str
    attrs: tuple[str, ...] = ()


def _attention(batch: int, heads: int, tokens: int, depth: int, causal: bool = False) -> list[Case]:
    sizes = f"B={batch},N1={heads},N2={heads},S1={tokens},S2={tokens},D={depth}"
    name = f"{batch}x{heads}x{tokens}x{depth}" + ("-causal" if causal else "")
    attrs = (f"sparse_mode={3 if causal else 0}",)
    return [
        Case(f"{op}-{name}", op, "causal_small", sizes, attrs) for op in ("flash_attention", "flash_attention_grad")
    ]


def _scan(name: str, sizes: str, chunk: int) -> list[Case]:
    ops = (("ssd_chunk_scan", "one_chunk"), ("ssd_chunk_scan_grad", "grouped"))
    return [Case(f"{op}-{name}", op, case, sizes, (f"chunk_size={chunk}",)) for op, case in ops]


def _selected(name: str, sizes: str) -> list[Case]:
    ops = ("sparse_flash_attention", "sparse_flash_attention_grad")
    return [Case(f"{op}-{name}", op, "causal_small", sizes, ("rope_dim=64",)) for op in ops]


CASES = (
    *_attention(1, 8, 1024, 64),
    *_attention(1, 8, 1024, 64, causal=True),
    *_attention(8, 4, 256, 64, causal=True),
    *_attention(1, 8, 511, 80),
    *_selected("64x2048-N16-K512", "B=1,BK=1,S1=64,S2=2048,N1=16,N2=1,D=512,DV=512,K=512"),
    *_scan("1x1024-H8-P64-N64-C64", "B=1,S=1024,H=8,P=64,G=1,N=64,NS=1", 64),
    *_scan("8x256-H4-P32-N16-C32", "B=8,S=256,H=4,P=32,G=1,N=16,NS=8", 32),
)


def class_of(step: StepMeasure) -> str:
    if step.name in PRODUCTS:
        return "products"
    if step.pipe == VECTOR_PIPE:
        return "exp" if step.name == "vexp" else "vector"
    return "moves" if step.pipe in MOVING_PIPES else "scalar"


def least_seconds(
    run: Callable[[], object], rounds: int = ROUNDS, clock: Callable[[], float] = time.thread_time
) -> float:
    """The least time of a call, of this thread's processor unless ``clock`` says else; one goes before those that
    count."""
    run()
    found = []
    for _ in range(rounds):
        start = clock()
        run()
        found.append(clock() - start)
    return min(found)


def least_measures(program: ir.Program, feed: native.Feed) -> list[StepMeasure]:
    """Measures of the steps, of each the least time of several runs: other work of the machine is no part of it."""
    runs = [engine.measure(program, feed) for _ in range(MEASURES)]
    return [replace(same[0], seconds=min(s.seconds for s in same)) for same in zip(*runs, strict=True)]


def sums(steps: Iterable[StepMeasure], key: Callable[[StepMeasure], str]) -> dict[str, float]:
    """Seconds by a property of the steps, the largest first."""
    found: defaultdict[str, float] = defaultdict(float)
    for step in steps:
        found[key(step)] += step.seconds
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def traffic(steps: Iterable[StepMeasure]) -> dict[str, dict[str, float]]:
    """Megabytes that moves write, and seconds of them, by "source->target"."""
    found: dict[str, dict[str, float]] = {}
    for step in steps:
        if class_of(step) == "moves" and step.executed:
            route = found.setdefault(f"{'+'.join(step.sources)}->{'+'.join(step.targets)}", {"MB": 0.0, "s": 0.0})
            route["MB"] += step.written / 1e6
            route["s"] += step.seconds
    return dict(sorted(found.items(), key=lambda item: -item[1]["s"]))


def row_of(case: Case, peak: dict[str, float], known: dict[str, Any]) -> dict[str, Any]:
    op = get_op(case.op)
    chosen = chosen_case(op, Wanted(case.case, None, (case.sizes,), case.attrs))
    call = call_of(op, chosen, None)
    program = compile_call(call).program
    feed = usual_feed(op, chosen, call, program)
    one = least_seconds(native.runner(program, feed, threads=1))
    two = least_seconds(native.runner(program, feed, threads=2), clock=time.perf_counter)
    steps = least_measures(program, feed)
    whole = sum(s.seconds for s in steps)
    operations = sum(s.operations for s in steps)
    by_class = sums(steps, class_of)
    rate = operations / by_class["products"] / 1e9 if operations else 0.0
    row = {
        "case": case.name,
        "ms": one * 1e3,
        "ms on two threads": two * 1e3,
        "instructions": sum(s.executed for s in steps if s.pipe >= 0),
        "measured ms": whole * 1e3,
        "classes": {name: by_class.get(name, 0.0) / whole for name in CLASSES},
        "by instruction": {name: seconds / whole for name, seconds in sums(steps, lambda s: s.name).items()},
        "GFLOP": operations / 1e9,
        "GFLOP/s of products": rate,
        "GFLOP/s": operations / one / 1e9,
        "share of the peak": operations / one / 1e9 / peak["GFLOP/s"],
        "touched MB": sum(s.read + s.written for s in steps) / 1e6,
        "moves": traffic(steps),
        "exps": limits.exps_of(steps),
    }
    return row | {"least ms": limits.least_ms(row, known)}


def _product_rate() -> None:
    """Prints GFLOP/s and GB/s of this process, which was started with one thread."""
    a, b, c = (np.ones((1024, 1024), np.float32) for _ in range(3))
    seconds = least_seconds(lambda: np.matmul(a, b, out=c))
    found = {"GFLOP/s": 2 * 1024**3 / seconds / 1e9}
    for name, size in (("GB/s copied in cache", 96 << 10), ("GB/s copied in memory", 96 << 20)):
        source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)
        times = max(1, (8 << 20) // size)

        def copies(source=source, target=target, times=times) -> None:
            for _ in range(times):
                target[:] = source

        found[name] = size * times / least_seconds(copies) / 1e9
    print(json.dumps(found))


def measured_peak() -> dict[str, float]:
    """What one thread of this machine does: float32 products of 1024 x 1024 and copies of bytes, by NumPy."""
    one = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", "import engine; engine._product_rate()"],
        cwd=Path(__file__).parent,
        env=os.environ | one,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def _short_instructions() -> None:
    t = tik.Tik()
    out = t.Tensor("float32", (16,), tik.scope_gm, "out")
    ub = t.Tensor("float32", (64,), tik.scope_ubuf, "ub")
    t.vec_dup(64, ub, 0.0, 1, 8)
    with t.for_range(0, SHORT):
        for _ in range(10):
            t.vec_add(16, ub, ub, ub, 1, 8, 8, 8)
    t.data_move(out, ub, 0, 1, 2, 0, 0)
    t.BuildCCE("short", [], [out])


def dispatch_ns() -> float:
    """Nanoseconds of an addition of 16 float32 lanes in UB, all of whose arguments are constants."""
    program = trace(_short_instructions, soc="Ascend910B1")
    return least_seconds(native.runner(program, [], threads=1), 5) / (10 * SHORT) * 1e9


def print_row(row: dict[str, Any]) -> None:
    shares = ", ".join(f"{name} {share:.1%}" for name, share in row["classes"].items())
    click.echo(
        f"\n{row['case']}: {row['ms']:.2f} ms, two threads {row['ms on two threads']:.2f} "
        f"({row['ms'] / row['ms on two threads']:.2f}x); {row['instructions']} instructions\n  {shares}\n"
        f"  {row['GFLOP']:.2f} GFLOP: {row['GFLOP/s of products']:.1f} GFLOP/s in products, {row['GFLOP/s']:.1f} over "
        f"all ({row['share of the peak']:.1%} of the peak); touched {row['touched MB']:.0f} MB"
    )
    largest = list(row["by instruction"].items())[:SHOWN]
    click.echo("  " + ", ".join(f"{name} {share:.1%}" for name, share in largest))
    for route, moved in list(row["moves"].items())[:SHOWN]:
        click.echo(f"  {route}: {moved['MB']:.1f} MB at {moved['MB'] / 1e3 / max(moved['s'], 1e-9):.1f} GB/s")


def report(json_file: Path | None, only: tuple[str, ...]) -> None:
    """Prints the peak of the machine, the cost of a short instruction, and every case."""
    known = [case.name for case in CASES]
    for name in only:
        if name not in known:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}", param_hint="--case")
    machine = machine_line()
    click.echo(f"measured on: {machine}, SIMD level {engine.isa()}")
    peak = measured_peak()
    short = dispatch_ns()
    known = limits.measure(least_seconds)
    click.echo(", ".join(f"{value:.1f} {name}" for name, value in peak.items()))
    click.echo(f"an instruction of 16 lanes: {short:.1f} ns")
    click.echo(json.dumps(known))
    rows = []
    for case in CASES:
        if not only or case.name in only:
            rows.append(row_of(case, peak, known))
            print_row(rows[-1])
    if json_file is not None:
        found = {
            "machine": machine,
            "level": engine.isa(),
            "cores": len(os.sched_getaffinity(0)),
            "peak": peak,
            "short instruction ns": short,
            "limits": known,
            "cases": rows,
        }
        json_file.write_text(json.dumps(found, indent=1) + "\n")
        click.echo(f"wrote {json_file}")
