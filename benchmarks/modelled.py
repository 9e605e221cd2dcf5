# SPDX-License-Identifier: Apache-2.0
"""Modelled cycles of the ops' kernels on chips (docs/profiler.md): nothing of this is measured.

    python benchmarks/run.py modelled
    python benchmarks/run.py modelled --case attention

``attention`` sets the kernels of flash_attention beside a plain FlashAttention-2 schedule: the same instructions on
blocks of 128 x 128 (where those do not fit the chip, on the largest that do), each after the one before it. ``bounds``
has kernels that should be bound by memory, ``ops`` every op.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ms_custom_ops.compiler import compile_call, describe_call
from ms_custom_ops.cost import Profile, cost_chip, profile
from ms_custom_ops.errors import BudgetError
from ms_custom_ops.registry import get_op, list_ops

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


def op_rows() -> list[dict[str, Any]]:
    """The first smoke case of every op."""
    rows = []
    for op in list_ops():
        spec = get_op(op)
        for soc in SOCS:
            for case in spec.cases[:1]:
                p = modelled(op, soc, case.name)
                rows.append({"op": op, "soc": soc, "case": case.name, "cycles": round(p.cycles), "bound": p.bound})
    return rows


SETS = {"attention": attention_rows, "ops": op_rows}


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
