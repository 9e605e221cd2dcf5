# SPDX-License-Identifier: Apache-2.0
"""Validation of the cost model: published measurements against the model, which runs TIK kernels of the same shapes.

    python benchmarks/run.py costmodel

Measured figures are those that vendors and papers publish for real chips; modelled ones come out of ``mco.profile`` on
the kernels of costmodel_kernels.py. No figure of a row goes into the model of that row but where ``note`` says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import costmodel_kernels as kernels

from ms_custom_ops.cost import Profile, cost_chip, profile

A2, A3, B1, B4 = "Ascend910B2", "Ascend910_9391", "Ascend910B1", "Ascend910B4"
MI = 1 << 20


@dataclass(frozen=True)
class Row:
    """One published figure. ``limit``: the error that is claimed for its kind, None where none is."""

    kind: str
    name: str
    soc: str
    unit: str
    measured: float
    build: Callable[[Any], None] | kernels.Queued
    read: Callable[[Profile], float]
    limit: float | None
    note: str = ""


LIMITS = {"vector": 0.05, "bank conflict": 0.05, "product": 0.05, "double buffer": 0.10, "GM": 0.20}


def _after_launch(p: Profile) -> float:
    return p.cycles - p.chip.values["launch_us"] * p.chip.clock_mhz


def _per_add(p: Profile) -> float:
    return _after_launch(p) / 1000


def _us(p: Profile) -> float:
    return p.us


def _busy_us(pipe: str) -> Callable[[Profile], float]:
    return lambda p: p.chip.seconds(p.pipe(pipe).busy / p.cores) * 1e6


def _row(kind: str, name: str, soc: str, unit: str, measured: float, build: Any, read: Any, note: str = "") -> Row:
    return Row(kind, name, soc, unit, measured, build, read, LIMITS.get(kind), note)


def _bank_rows() -> list[Row]:
    # Places in blocks of 32 bytes: 16 groups, so 8 blocks further is the other half; 2048 blocks are one bank of each.
    table = [
        ("vector", "no conflict", 2390, kernels.adds(0, 520, 1040)),
        ("bank conflict", "both sources in one bank", 4167, kernels.adds(0, 512, 2048)),
        ("bank conflict", "both sources in one group", 4167, kernels.adds(0, 2048, 4096)),
        ("vector", "no conflict, other banks", 2389, kernels.adds(0, 2056, 4096)),
        ("bank conflict", "dst in the bank of a source, off by 4 blocks", 3751, kernels.adds(0, 2056, 516)),
        ("bank conflict", "dst in the bank of a source, in line", 2390, kernels.adds(0, 2056, 512)),
        ("bank conflict", "sources meet in every second repeat", 3584, kernels.adds(0, 520, 4096, rep=16)),
        ("bank conflict", "one source read once (repeat stride 0)", 2389, kernels.adds(0, 2056, 4096, rep=0)),
    ]
    # A tick is 20 ns, 36 cycles at 1800 MHz.
    note = "places chosen to show what the published row is named after"
    return [
        _row(kind, f"vadd float32, 64 repeats: {name}", A2, "cycles", ticks * 36 / 1000, build, _per_add, note)
        for kind, name, ticks, build in table
    ]


def _vector_rows() -> list[Row]:
    n = 8192 * 8192
    busy = _busy_us("V")
    return [
        _row("bank conflict", "add 8192^2 float16, 48 cores, vector time", A2, "us", 23765 / 1800,
             kernels.streamed(n, 16384, 48), busy),
        _row("vector", "the same without conflict, vector time", A2, "us", 12865 / 1800,
             kernels.streamed(n, 16384, 48, shift=8), busy),
        _row("bank conflict", "rows to fractals 8192^2, 8 writes in one group, vector time", A2, "us", 47.79,
             kernels.to_fractals(8192, 8192, 48, 128), busy),
        _row("vector", "rows to fractals 8192^2, padded, vector time", A2, "us", 7.13,
             kernels.to_fractals(8192, 8192, 48, 129), busy),
    ]  # fmt: skip


def _buffer_rows() -> list[Row]:
    n = 80 * MI
    return [
        _row("double buffer", "80M add x8, 8 cores, one buffer", B4, "us", 1378.1,
             kernels.streamed(n, 20480, 8, times=8), _us),
        _row("double buffer", "80M add x8, 8 cores, one buffer, vector time", B4, "us", 844.0,
             kernels.streamed(n, 20480, 8, times=8), _busy_us("V")),
        _row("double buffer", "80M add x8, 8 cores, two buffers", B4, "us", 959.6,
             kernels.streamed(n, 10240, 8, times=8, threads=2), _us),
    ]  # fmt: skip


def _gm_rows() -> list[Row]:
    n, side, square = 80 * MI, 12288, 12288 * 12288
    return [
        _row("GM", "80M add, 1 core, 4 KB tiles", B4, "us", 14975, kernels.Queued(n, 2048, 1), _us,
             "in Ascend C; what a call of a queue costs is taken from this row"),
        _row("GM", "80M add, 8 cores, 4 KB tiles", B4, "us", 2045, kernels.Queued(n, 2048, 8), _us, "in Ascend C"),
        _row("GM", "80M add, 8 cores, 40 KB tiles", B4, "us", 892, kernels.Queued(n, 20480, 8), _us, "in Ascend C"),
        _row("GM", "add 8192^2, 48 cores, one buffer", A2, "us", 306.6, kernels.streamed(8192 * 8192, 16384, 48), _us,
             "the published kernel's tile is not known"),
        _row("GM", "GM to UB 12288^2, 128 B tiles", A2, "us", 548.2, kernels.reads(square, 64, 48), _us),
        _row("GM", "GM to UB 12288^2, 8 KB tiles", A2, "us", 220.8, kernels.reads(square, 4096, 48), _us),
        _row("GM", "GM to UB 12288^2, 128 KB tiles", A2, "us", 202.7, kernels.reads(square, 65536, 48), _us,
             "the efficiency of GM is taken from this row"),
        _row("GM", "GM to L1 as fractals, 8 KB tiles", A2, "us", 283.5, kernels.reads_nz(side, side, 64), _us),
        _row("GM", "GM to L1 as fractals, 32 KB tiles", A2, "us", 214.5, kernels.reads_nz(side, side, 128), _us,
             "what a short row costs is taken from this row and the one above"),
        _row("GM", "GM to L1 as fractals, rows of 12287", A2, "us", 422.5, kernels.reads_nz(side, side - 1, 128), _us,
             "the factor of unaligned rows is taken from this row"),
        _row("GM", "302 MB read 4 times as a whole", A2, "us", 816, kernels.reads(square, 65536, 48, rounds=4), _us),
        _row("GM", "302 MB read 4 times in 4 slices", A2, "us", 355,
             kernels.reads(square, 65536, 48, rounds=4, slices=4), _us),
    ]  # fmt: skip


def _product_rows() -> list[Row]:
    def cube(side: int, out: str = "float16") -> Any:
        return kernels.gemm(side, side, side, 24, out)

    return [
        _row("product", "8192^3, cube time", B1, "us", 3082, cube(8192), _busy_us("M")),
        _row("product", "8192^3, MTE2 time", B1, "us", 3487, cube(8192), _busy_us("MTE2 (cube)")),
        _row("product", "8192^3", B1, "us", 4081.6, cube(8192), _us),
        _row("product", "1536^3 to float32", A3, "us", 38.8, cube(1536, "float32"), _us),
        _row("product", "3072^3 to float32", A3, "us", 206.7, cube(3072, "float32"), _us),
        _row("product", "6144^3 to float32", A3, "us", 1506, cube(6144, "float32"), _us),
        _row("product", "7680^3 to float32", A3, "us", 3168, cube(7680, "float32"), _us),
    ]


def rows() -> list[Row]:
    """All rows that the model can express."""
    return [*_bank_rows(), *_vector_rows(), *_buffer_rows(), *_gm_rows(), *_product_rows()]


LEFT_OUT = {
    "add 8192^2 element by element (1.24 s)": "the loop of scalar accesses to GM is bound by the data cache",
    "several cores at one address (539 and 329 us)": "the model knows no serialised lines",
    "950 rows, MxFP4": "TIK knows no such chip",
    "FlashAttention of other libraries (rows 14 to 17, 26)": "kernels of other libraries; "
    "their schedules are not public in the detail that a Program needs",
    "multi-core scan, SGEMM on 910A (rows 18, 19)": "a figure of an abstract, without the schedule",
    "QuantGroupMatmul, catlass shapes, 8-card product (rows 23, 25, 27)": "the split of the work is not known",
    "matmul tuning steps (rows 10, 13, 24)": "the best step is the 8192^3 row",
}


MISSED = {
    "8192^3": "its operands, 268 MB, exceed L2, and the model lets cores fetch a panel at the same time, where "
    "those of a chip drift apart and fetch it again; cube time and MTE2 time, of which it is made, are met, and no "
    "published figure says how far the cores drift",
    "7680^3 to float32": "the same: its operands are 236 MB; those of 6144^3, which is met, are 151 MB and fit L2",
    "1536^3 to float32": "a third of so short a run is launch and first fill of the pipes, of which only the launch "
    "of a 10 KB addition on one core is published; what 24 cores with a cube cost to launch is not",
}
"""Rows beyond what is claimed, and why. A constant for each would meet them, and say nothing about another kernel."""


def _record(row: Row, modelled: float) -> dict[str, Any]:
    """Prints a row; the same as plain data."""
    error = modelled / row.measured - 1
    mark = "" if row.limit is None or abs(error) <= row.limit else f"  misses {row.limit:.0%}"
    click.echo(
        f"{row.kind:14}{row.name:64}{row.soc:16}{row.measured:>9.1f} {row.unit[:2]}{modelled:>9.1f} {row.unit[:2]}"
        f"{error:>8.1%}{mark}"
    )
    return {
        "kind": row.kind, "row": row.name, "soc": row.soc, "unit": row.unit, "measured": round(row.measured, 2),
        "modelled": round(modelled, 2), "error": round(error, 4), "claimed": row.limit, "note": row.note,
    }  # fmt: skip


def report(json_file: Path | None, only: tuple[str, ...]) -> None:
    """Prints the table, and what was left out."""
    click.echo("all figures under 'modelled' are computed by ms_custom_ops.cost, none was measured by this project")
    head = f"{'kind':14}{'row':64}{'chip':16}{'measured':>12}{'modelled':>12}{'error':>8}"
    click.echo(head)
    found, programs, records = {}, {}, []
    for row in rows():
        if only and row.kind not in only:
            continue
        if isinstance(row.build, kernels.Queued):
            modelled = row.build.profile(cost_chip(row.soc))[1]
            records.append(_record(row, modelled))
            continue
        key = (row.name.split(", vector time")[0].split(", cube time")[0].split(", MTE2 time")[0], row.soc)
        if key not in found:
            programs[key] = kernels.traced(row.build, row.soc)
            found[key] = profile(programs[key], chip=cost_chip(row.soc), traced_blocks=0)
        modelled = row.read(found[key])
        records.append(_record(row, modelled))
    missed = [r["row"] for r in records if r["claimed"] is not None and abs(r["error"]) > r["claimed"]]
    for name in missed:
        click.echo(f"missed: {name}: {MISSED.get(name, 'not explained yet')}")
    for name, why in LEFT_OUT.items():
        click.echo(f"left out: {name}: {why}")
    if json_file is not None:
        json_file.write_text(json.dumps(records, indent=1) + "\n")
