# SPDX-License-Identifier: Apache-2.0
"""Modelled cycles of the ops' kernels on chips (docs/profiler.md): nothing of this is measured.

    python benchmarks/run.py modelled
    python benchmarks/run.py modelled --case attention

``attention`` sets the kernels of flash_attention beside a plain FlashAttention-2 schedule: the same instructions on
blocks of 128 x 128 (where those do not fit the chip, on the largest that do), each after the one before it. ``ops`` has
the other ops at sizes as they are used, with the roof of the chip that is nearest; ``ascendc`` sets Ascend C kernels
beside the TIK kernels of the same ops.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ms_custom_ops.commands._launches import profile_op
from ms_custom_ops.commands._subject import Wanted, find_subject
from ms_custom_ops.compiler import compile_call, describe_call
from ms_custom_ops.cost import Profile, cost_chip, profile
from ms_custom_ops.cost.binding import LANES
from ms_custom_ops.errors import BudgetError
from ms_custom_ops.registry import get_op
from ms_custom_ops.scope import Scope

SOCS = ("Ascend910A", "Ascend910B1")
HEADS = {1024: 8, 4096: 2, 16384: 1}


def modelled(
    op: str, soc: str, case: str | None = None, sizes: Mapping[str, int] | None = None,
    attrs: Mapping[str, Any] | None = None, serial: bool = False, execute: str = "integers",
) -> Profile:  # fmt: skip
    """Profile of a smoke case of an op with other sizes. ``serial``: no instruction beside another."""
    spec = get_op(op)
    chosen = next(c for c in spec.cases if case in (None, c.name))
    chosen = replace(chosen, symbols={**chosen.symbols, **(sizes or {})}, attrs={**chosen.attrs, **(attrs or {})})
    shapes, dtypes, values = spec.case_call(chosen)
    program = compile_call(describe_call(spec, shapes, dtypes, values, soc)).program
    chip = cost_chip(soc).with_values(serial=float(serial))
    return profile(program, chip=chip, execute=execute, traced_blocks=0)


def attention_rows() -> list[dict[str, Any]]:
    """flash_attention and its gradient against the plain schedule."""
    rows = []
    for soc in SOCS:
        for op in ("flash_attention", "flash_attention_grad"):
            for length, heads in HEADS.items():
                for depth in (64, 128):
                    sizes = {"B": 1, "N1": heads, "N2": heads, "S1": length, "S2": length, "D": depth}
                    p = modelled(op, soc, "causal_small", sizes, {"sparse_mode": 0})
                    try:
                        way = {"sparse_mode": 0, "tiling_stgy_name": "sparse"}
                        plain, tile = modelled(op, soc, "causal_small", sizes, way, True), "128x128"
                    except BudgetError:
                        plain = modelled(op, soc, "causal_small", sizes, {"sparse_mode": 0}, True)
                        tile = "largest"
                    rows.append(
                        {"op": op, "soc": soc, "S": length, "D": depth, "heads": heads, "cycles": round(p.cycles),
                         "us": round(p.us, 1), "plain": round(plain.cycles), "plain tile": tile,
                         "plain/now": round(plain.cycles / p.cycles, 2), "cube": round(p.pipe("M").utilisation, 3),
                         "vector": round(p.pipe("V").utilisation, 3)}
                    )  # fmt: skip
    return rows


SCAN = "B=1,S=1024,H=8,P=64,G=1,N=64,NS=1"
SELECTED = "B=1,BK=1,S1=64,S2=2048,N1=16,N2=1,D=512,DV=512,K=512"
OPS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    *(("bwd_segsum_dadt", "one_chunk", f"B=1,H=4,N={2048 // c},C={c}", (f"chunk_size={c}",)) for c in (16, 64, 128)),
    *(("bwd_dadt_fused", "one_chunk", f"B=1,H=4,N={2048 // c},C={c}", (f"chunk_size={c}",)) for c in (64, 128)),
    ("bwd_dadt_cumsum", "one_chunk", "B=1,H=4,S=2048", ("chunk_size=128",)),
    ("bwd_dtrap_ddt", "small", "B=1,H=4,S=2048", ()),
    *(("segsum_decay", "one_chunk", "B=1,H=4,S=2048", (f"chunk_size={c}",)) for c in (64, 128)),
    ("dacs_segsum", "one_chunk", "B=1,H=4,S=2048", ("chunk_size=128",)),
    ("ssd_chunk_scan", "one_chunk", SCAN, ("chunk_size=64",)),
    ("ssd_chunk_scan_grad", "grouped", SCAN, ("chunk_size=64",)),
    ("mamba3_chunk_scan", "rank_four", SCAN, ("chunk_size=64",)),
    ("mamba3_chunk_scan_grad", "rank_four", SCAN, ("chunk_size=64",)),
    ("lightning_indexer", "causal_small", "B=1,BK=1,S1=64,S2=2048,N1=64,D=128", ("sparse_count=512",)),
    ("sparse_flash_attention", "causal_small", SELECTED, ("rope_dim=64",)),
    ("sparse_flash_attention_grad", "causal_small", SELECTED, ("rope_dim=64",)),
    ("sparse_lightning_indexer_grad_kl_loss", "causal_small",
     "B=1,BK=1,S1=64,S2=2048,N1=16,N2=1,D=512,NI=64,DI=128,K=512", ()),
)  # fmt: skip
"""Op, case, sizes and attributes, as of ``ms-custom-ops profile``."""


_TILE_MOVES = "op_impl/segsum/matrix.py"
"""The file whose moves bring tiles; others bring what is added to results."""


def ends(p: Profile) -> str:
    """When the core that ends last has its tiles, when its vector unit ends and when its results are out, in cycles
    after the launch."""
    last = p.slices[p.slices["block"] == p.slices[p.slices["end"].argmax()]["block"]]
    found: dict[str, float] = {}
    for s in last:
        lane = LANES[s["lane"]]
        if lane != "MTE2" or p.step_names[s["step"]][1].endswith(_TILE_MOVES):
            found[lane] = max(found.get(lane, 0.0), float(s["end"]))
    names = (("MTE2", "tiles there"), ("V", "vector unit done"), ("MTE3", "results out"))
    return ", ".join(f"{what} at {found[lane] - launch(p):,.0f}" for lane, what in names)


def launch(p: Profile) -> float:
    """Cycles of the launch, which are in those of a kernel."""
    return p.chip.values["launch_us"] * p.chip.clock_mhz


def op_rows() -> list[dict[str, Any]]:
    """Every op but flash_attention at sizes as they are used, on its usual data. ``over roof``: cycles without the
    launch in those of the nearest roof."""
    rows = []
    for op, case, shape, attrs in OPS:
        for soc in SOCS:
            subject = find_subject(Scope(), op, Wanted(case, soc, (shape,), attrs))
            p = profile(subject.program, subject.feed, chip=cost_chip(soc), traced_blocks=0)
            busiest = max(p.pipes, key=lambda x: x.utilisation)
            waits = "; ".join(f"{pipe} {why} {c / p.cores:,.0f}" for pipe, why, c in p.stalls()[:2])
            if op == "bwd_segsum_dadt":  # every core is at the roof until its last tile is there
                waits = ends(profile(subject.program, subject.feed, chip=cost_chip(soc), traced_blocks=p.cores))
            rows.append(
                {"op": op, "soc": soc, "sizes": " ".join((shape, *attrs)), "cycles": round(p.cycles), "cores": p.cores,
                 "busiest": busiest.name, "busy": round(busiest.utilisation, 2), "roof": p.roof.name,
                 "roof cycles": round(p.roof.cycles), "over roof": round((p.cycles - launch(p)) / p.roof.cycles, 2),
                 "waits": waits}
            )  # fmt: skip
    return rows


ATTENTION = "B=1,N1=8,N2=8,S1={n},S2={n},D=64"
PAIRS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("flash_attention", "causal_small", ATTENTION.format(n=1024), ("sparse_mode=0",)),
    ("flash_attention", "causal_small", ATTENTION.format(n=1024), ("sparse_mode=3",)),
    ("flash_attention_grad", "causal_small", ATTENTION.format(n=1024), ("sparse_mode=0",)),
    *(("bwd_segsum_dadt", "one_chunk", f"B=1,H=4,N={2048 // c},C={c}", (f"chunk_size={c}",)) for c in (16, 64, 128)),
    ("rms_norm", "rows", "M=2048,N=4096", ()),
    ("rms_norm_grad", "rows", "M=2048,N=4096", ()),
)
"""Ops with both kernels, as :data:`OPS`; rms_norm is that of examples/user_ops."""


def pair_rows() -> list[dict[str, Any]]:
    """The Ascend C kernel of an op beside its TIK kernel."""
    scope, soc = Scope(folders=(Path(__file__).parents[1] / "examples" / "user_ops",)), "Ascend910B1"
    scope.registry()
    rows = []
    for op, case, shape, attrs in PAIRS:
        wanted = Wanted(case, soc, (shape,), attrs)
        subject = find_subject(scope, op, wanted)
        tik = profile(subject.program, subject.feed, chip=cost_chip(soc), traced_blocks=0)
        ascendc = profile_op(scope, op, wanted, None, 0)
        busiest = [max(p.pipes, key=lambda x: x.utilisation) for p in (tik, ascendc)]
        rows.append(
            {"op": op, "sizes": " ".join((shape, *attrs)), "tik": round(tik.cycles), "ascendc": round(ascendc.cycles),
             "ascendc/tik": round(ascendc.cycles / tik.cycles, 2), "cores": f"{tik.cores}, {ascendc.cores}",
             "busiest": ", ".join(f"{x.name} {x.utilisation:.0%}" for x in busiest),
             "waits": "; ".join(f"{pipe} {why} {c:,.0f}" for pipe, why, c in ascendc.stalls()[:2])}
        )  # fmt: skip
    return rows


SETS = {"attention": attention_rows, "ops": op_rows, "ascendc": pair_rows}


def report(json_file: Path | None, only: tuple[str, ...]) -> None:
    """Prints the tables."""
    click.echo("all figures are modelled by ms_custom_ops.cost, none was measured")
    found: dict[str, list[dict[str, Any]]] = {}
    for name, make in SETS.items():
        if only and name not in only:
            continue
        found[name] = make()
        header = list(found[name][0])
        click.echo(f"\n{name}\n" + "  ".join(f"{h:>12}" for h in header))
        for row in found[name]:
            click.echo("  ".join(f"{row[h]!s:>12}" for h in header))
    if json_file is not None:
        json_file.write_text(json.dumps(found, indent=1) + "\n")
