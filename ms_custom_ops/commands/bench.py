# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops bench``: times of ops on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import statistics
import time
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ms_custom_ops._version import __version__
from ms_custom_ops.commands.doctor import cpu

if TYPE_CHECKING:
    from ms_custom_ops.cases import PlannedCase
    from ms_custom_ops.scope import Scope


@click.command("bench")
@click.argument("ops", nargs=-1)
@click.option("--case", "pattern", default="*", help="Cases whose name this pattern matches.")
@click.option("--soc", default=None, help="Chip to trace for; default: the configured one.")
@click.option("--repeats", type=click.IntRange(min=1), default=20, show_default=True, help="Calls that are timed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--history", type=click.Path(dir_okay=False, path_type=Path), default=None,
              help="File to which one JSON line per figure is added.")  # fmt: skip
@click.pass_obj
def command(
    scope: Scope, ops: tuple[str, ...], pattern: str, soc: str | None, repeats: int, as_json: bool, history: Path | None
) -> None:
    """Wall times of the cases of OPS (default: all): the kernel on the engine of this package, and, where the op_info
    file names a composition of MindSpore's operators and MindSpore is installed, both inside a graph.

    The figures are those of this machine, never of a chip.

    \b
    Examples:
      ms-custom-ops bench flash_attention --case 'causal*'
      ms-custom-ops bench --json --history benchmarks/history.jsonl
    """
    from tqdm import tqdm

    from ms_custom_ops.cases import smoke_cases
    from ms_custom_ops.errors import SocError
    from ms_custom_ops.registry.yaml_source import nearest
    from ms_custom_ops.soc import current_soc, get_soc

    chip = (current_soc() if soc is None else get_soc(soc)).name
    registry, planned = scope.registry(), []
    for name in ops or scope.names():
        try:
            planned += [c for c in smoke_cases(registry.get(name), chip) if fnmatchcase(c.name, pattern)]
        except SocError:
            if ops:
                raise
    if not planned:
        known = [case.name for name in ops or scope.names() for case in registry.get(name).cases]
        raise click.ClickException(f"no case on {chip} for --case {pattern}; {nearest(pattern, dict.fromkeys(known))}")
    rows: list[dict[str, Any]] = []
    for case in tqdm(planned, unit="case", disable=None, leave=False):
        rows += _figures(case, chip, repeats)
    about = {"machine": cpu(), "python": platform.python_version(),
             "time": datetime.now(timezone.utc).isoformat(timespec="seconds"), "repeats": repeats,
             "load": round(os.getloadavg()[0], 1), "version": __version__}  # fmt: skip
    if as_json:
        click.echo(json.dumps({**about, "figures": rows}, indent=1))
    else:
        click.echo(f"{'op':<28} {'case':<24} {'by':<22} {'median ms':>10} {'min ms':>10}")
        for row in rows:
            click.echo(
                f"{row['op']:<28} {row['case']:<24} {row['by']:<22} {row['median_ms']:>10.3f} {row['min_ms']:>10.3f}"
            )
    if history is not None:
        with history.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps({**about, **row}, sort_keys=True) + "\n" for row in rows)


def _figures(case: PlannedCase, chip: str, repeats: int) -> list[dict[str, Any]]:
    from ms_custom_ops import engine
    from ms_custom_ops.cases.data import make_arrays
    from ms_custom_ops.compiler import compile_call, describe_call
    from ms_custom_ops.lower.run import kernel_array

    arrays = make_arrays(case)
    start = time.perf_counter()
    call = describe_call(case.op, {n: a.shape for n, a in arrays.items()}, dict(case.dtypes), case.attrs, chip)
    compiled = compile_call(call)
    compiling = time.perf_counter() - start
    program = compiled.program
    feed = [kernel_array(arrays[n], program.buffers[i]) for n, i in zip(compiled.inputs, program.inputs, strict=True)]
    once, seconds = engine.runner(program, feed), []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - start)
    rows = [{**_row(case, chip, "engine", seconds[1:]), "compile_ms": round(compiling * 1e3, 3)}]
    if case.op.composition and importlib.util.find_spec("mindspore") is not None:
        rows += _in_graphs(case, chip, repeats, arrays)
    return rows


def _in_graphs(case: PlannedCase, chip: str, repeats: int, arrays: dict) -> list[dict[str, Any]]:
    from ms_custom_ops.errors import OpArgumentError
    from ms_custom_ops.mindspore.functions import function_of
    from ms_custom_ops.mindspore.timed import timed
    from ms_custom_ops.registry import resolve

    rows = []
    for by, function in (
        ("mindspore: op", function_of(case.op)),
        ("mindspore: composition", resolve(case.op.composition)),
    ):
        try:
            rows.append(_row(case, chip, by, timed(function, arrays, case.attrs, chip, repeats)[0]))
        except OpArgumentError as error:
            click.echo(f"{case.op.name}/{case.name}: {by} left out: {error}", err=True)
    return rows


def _row(case: PlannedCase, chip: str, by: str, seconds: list[float]) -> dict[str, Any]:
    times = {"median_ms": round(statistics.median(seconds) * 1e3, 4), "min_ms": round(min(seconds) * 1e3, 4)}
    return {"op": case.op.name, "case": case.name, "soc": chip, "by": by, **times}
