# SPDX-License-Identifier: Apache-2.0
"""Measures the ops of this package against others, in one process, in turn.

    python benchmarks/run.py attention
    python benchmarks/run.py attention --case 1x8x1024x64 --json attention.json

A subject is a module beside this file with IMPLS, CASES, RMS_LIMIT, prepare(), available(),
contenders(case, impls) and expected(case); adding one means adding its file and its name here. With a function
gflop(case, passes) (10^9 operations of one call) the table has GFLOP/s as well. The subject costmodel measures nothing
here: it compares the cost model with published measurements of chips; modelled lists modelled cycles of the ops;
overhead, engine and scaling have tables of their own.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import click
from timing import OURS, Timing, check_outputs, interleave, machine_line

SUBJECTS = ("attention", "costmodel", "engine", "modelled", "overhead", "scaling", "segsum", "sparse_attention", "ssd")


def ratio(timing: Timing, timings: list[Timing]) -> str:
    """Median over ms_custom_ops' median of the same case and pass; '-' where that was not measured."""
    ours = [t for t in timings if (t.case, t.passes, t.impl) == (timing.case, timing.passes, OURS)]
    return f"{timing.median_ms / ours[0].median_ms:.2f}x" if ours else "-"


def print_table(timings: list[Timing], rates: dict[Timing, float]) -> None:
    case, impl = (2 + max(len(x) for x in column) for column in ([t.case for t in timings], [t.impl for t in timings]))
    click.echo(
        f"{'case':<{case}}{'pass':<9}{'impl':<{impl}}{'dtype':<9}{'median ms':>11}{'min ms':>11}"
        f"{'vs ' + OURS:>18}" + (f"{'GFLOP/s':>10}" if rates else "")
    )
    for t in sorted(timings, key=lambda t: (t.case, t.passes)):
        click.echo(
            f"{t.case:<{case}}{t.passes:<9}{t.impl:<{impl}}{t.dtype:<9}{t.median_ms:>11.2f}{t.min_ms:>11.2f}"
            f"{ratio(t, timings):>18}" + (f"{rates[t]:>10.1f}" if rates else "")
        )


def gflop_rates(module: ModuleType, timings: list[Timing]) -> dict[Timing, float]:
    """GFLOP/s by median time; empty for a subject that does not count its operations."""
    if not hasattr(module, "gflop"):
        return {}
    cases = {case.name: case for case in module.CASES}
    return {t: module.gflop(cases[t.case], t.passes) / t.median_ms * 1e3 for t in timings}


def choose(asked: tuple[str, ...], known: tuple[str, ...], option: str) -> tuple[str, ...]:
    """The names asked for, or all; an unknown one is refused with what there is."""
    for name in asked:
        if name not in known:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}", param_hint=option)
    return tuple(name for name in known if name in asked) if asked else known


@click.command(context_settings={"show_default": True})
@click.argument("subject", type=click.Choice(SUBJECTS))
@click.option("--case", "cases", multiple=True, help="Only this case (repeatable).  [default: all]")
@click.option("--impl", "impls", multiple=True, help="Only this implementation (repeatable).  [default: all]")
@click.option("--rounds", type=click.IntRange(1), default=15, help="Measurements per implementation.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Also write the figures to this file."
)
def main(subject: str, cases: tuple[str, ...], impls: tuple[str, ...], rounds: int, json_file: Path | None) -> None:
    """Measures SUBJECT: median and minimum wall time of every implementation, forward and with backward."""
    module = importlib.import_module(subject)
    if subject in ("costmodel", "engine", "modelled", "overhead", "scaling"):
        return module.report(json_file, cases)
    module.prepare()
    if left_out := [impl for impl in module.IMPLS if impl not in module.available()]:
        click.echo(f"not installed, left out: {', '.join(left_out)}")
    chosen_impls = choose(impls, module.available(), "--impl")
    names = choose(cases, tuple(case.name for case in module.CASES), "--case")
    click.echo(f"measured on: {machine_line()}")
    timings: list[Timing] = []
    for case in (case for case in module.CASES if case.name in names):
        contenders = module.contenders(case, chosen_impls)
        expected = module.expected(case)
        for contender in contenders:
            check_outputs(case.name, contender, expected[contender.passes], module.RMS_LIMIT)
        timings += interleave(case.name, contenders, rounds)
    rates = gflop_rates(module, timings)
    print_table(timings, rates)
    if json_file is not None:
        records = [t.record() | ({"gflop_per_s": round(rates[t], 2)} if rates else {}) for t in timings]
        json_file.write_text(json.dumps(records, indent=1) + "\n")
        click.echo(f"wrote {json_file}")


if __name__ == "__main__":
    main()
