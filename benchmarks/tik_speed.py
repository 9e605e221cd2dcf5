# SPDX-License-Identifier: Apache-2.0
"""Speed of the language itself: tracing 100,000 instructions, and 1,000,000 dynamic 16-lane instructions natively.

python benchmarks/tik_speed.py
"""

from __future__ import annotations

import resource
import statistics
import sys
import time

import numpy as np
from timing import machine_line

import ms_custom_ops as mco
from ms_custom_ops import engine, tik
from ms_custom_ops.program.dtypes import DTYPES

TRACED = 100_000
EXECUTED = 1_000_000
LANES = 16
ROUNDS = 5


def straight_line(count: int) -> tik.Tik:
    """A kernel of ``count`` vector instructions, one after another."""
    t = tik.Tik()
    x = t.Tensor("float16", (LANES,), tik.scope_gm, "x")
    y = t.Tensor("float16", (LANES,), tik.scope_gm, "y")
    ub = t.Tensor("float16", (LANES * 8,), tik.scope_ubuf, "ub")
    t.data_move(ub, x, 0, 1, 1, 0, 0)
    for _ in range(count):
        t.vec_add(LANES, ub, ub, ub, 1, 8, 8, 8)
    t.data_move(y, ub, 0, 1, 1, 0, 0)
    t.BuildCCE("straight_line", [x], [y])
    return t


def loop(count: int) -> tik.Tik:
    """A kernel whose loop executes ``count`` vector instructions."""
    t = tik.Tik()
    x = t.Tensor("float32", (LANES,), tik.scope_gm, "x")
    y = t.Tensor("float32", (LANES,), tik.scope_gm, "y")
    ub = t.Tensor("float32", (LANES * 2,), tik.scope_ubuf, "ub")
    t.data_move(ub, x, 0, 1, 2, 0, 0)
    with t.for_range(0, count):
        t.vec_adds(LANES, ub, ub, 1.0, 1, 8, 8)
    t.data_move(y, ub, 0, 1, 2, 0, 0)
    t.BuildCCE("loop", [x], [y])
    return t


def main() -> int:
    """Print the figures; 1 when the loop did not compute what it should."""
    print(machine_line())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    program = mco.trace(straight_line, TRACED, soc="Ascend910A")
    seconds = time.perf_counter() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"tracing {TRACED} instructions: {seconds:.2f} s, {grown / 1024:.0f} MB more memory")
    start = time.perf_counter()
    size = len(program.to_bytes())
    print(f"encoding them: {time.perf_counter() - start:.2f} s, {size / 1e6:.1f} MB")

    program = mco.trace(loop, EXECUTED, soc="Ascend910A")
    feed = [np.zeros(LANES, DTYPES["float32"].numpy)]
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        (out,) = engine.run(program, feed)
        times.append(time.perf_counter() - start)
    print(
        f"executing {EXECUTED} instructions on {LANES} lanes: median {statistics.median(times):.3f} s, "
        f"minimum {min(times):.3f} s"
    )
    return 0 if (out == EXECUTED).all() else 1


if __name__ == "__main__":
    sys.exit(main())
