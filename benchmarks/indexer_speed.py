# SPDX-License-Identifier: Apache-2.0
"""Engine time of lightning_indexer per query row on one thread.

    python benchmarks/indexer_speed.py [soc ...]

Two calls that differ in their number of rows, medians of several, so that the fixed cost of a call drops out.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from timing import machine_line

import ms_custom_ops as mco

# The cases of the tests are those that are timed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "ops"))
from indexer_cases import IndexCase, index_tensors, trace_indexer

SOCS = ("Ascend910A", "Ascend310P3", "Ascend910B1")
SIZES = ((512, 512), (2048, 512), (8192, 512), (2048, 2048), (8192, 2048))
ROWS = (32, 96)
CALLS = 9


def row_time(soc: str, s2: int, count: int) -> float:
    """Seconds per row: N1 4, D 16, every key visible."""
    runs, times = [], [[] for _ in ROWS]
    for rows in ROWS:
        case = IndexCase(s1=rows, s2=s2, n1=4, d=16, count=count, mode=0)
        program, tensors = trace_indexer(case, index_tensors(case), soc)
        runs.append((program, [x for x in tensors if x is not None]))
    for _ in range(CALLS):
        for taken, (program, inputs) in zip(times, runs, strict=True):
            start = time.perf_counter()
            mco.run(program, inputs, threads=1)
            taken.append(time.perf_counter() - start)
    few, many = map(statistics.median, times)
    return (many - few) / (ROWS[1] - ROWS[0])


if __name__ == "__main__":
    print(f"measured on: {machine_line()}")
    for name in sys.argv[1:] or SOCS:
        for s2, count in SIZES:
            print(f"{name} S2 {s2} K {count}: {row_time(name, s2, count) * 1e3:.3f} ms per row", flush=True)
