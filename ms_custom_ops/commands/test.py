# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops test``: run the cases of ops, kernel against golden."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ms_custom_ops.cases import CaseFile, PlannedCase, Result
    from ms_custom_ops.registry import OpSpec
    from ms_custom_ops.scope import Scope

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("test")
@click.argument("ops", nargs=-1)
@click.option("--cases", "files", type=_FILE, multiple=True, help="Case file in the form of ATK; see docs/cases.md.")
@click.option("--soc", "socs", multiple=True, help="Chip, or all: one of every family the op has; default: all for "
              "OPS, the configured one for case files.")  # fmt: skip
@click.option("--engine", "engines", type=click.Choice(["native", "reference", "both"]), default="native",
              show_default=True, help="Engine of this package, without MindSpore.")  # fmt: skip
@click.option("--mindspore", is_flag=True, help="Call the op from MindSpore in GRAPH mode instead.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of shapes and data.")
@click.option("--limit", type=click.IntRange(min=1), default=None, help="Run the first LIMIT cases of each op or "
              "file only, on each chip.")  # fmt: skip
@click.option("--only", default="*", help="Run the cases whose name this pattern matches, such as 'invalid-*'.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), default=None, help="Write a JSON file.")
@click.option("--quiet", is_flag=True, help="Print failures and the count only.")
@click.pass_context
def command(
    ctx: click.Context, ops: tuple[str, ...], files: tuple[Path, ...], socs: tuple[str, ...], engines: str,
    mindspore: bool, seed: int, limit: int | None, only: str, report: Path | None, quiet: bool,
) -> None:  # fmt: skip
    """Run the smoke cases of OPS, and the cases of files, against the goldens; without either, of every op.

    Exit code 1 when a value is wrong, a case ends in an error, or an invalid call is accepted.
    """
    from ms_custom_ops.cases import read_cases, run_case
    from ms_custom_ops.cases import report as output

    if mindspore and engines != "native":
        raise click.UsageError(f"--mindspore with --engine {engines}; accepted: one of the two")
    scope: Scope = ctx.obj
    registry = scope.registry()
    names = ops or (() if files else scope.names())
    sources: list[OpSpec | CaseFile] = [*(registry.get(op) for op in names), *(read_cases(f, registry) for f in files)]
    # Everything is planned before anything runs: an op without case data is refused at once.
    plans = [plan for source in sources for plan in _plans(source, socs, seed)]
    chosen = [plan.cases_like(only) for plan in plans]
    if not any(chosen):
        raise click.ClickException(f"no case for these chips and --only {only}")
    ways = ("mindspore",) if mindspore else ("native", "reference") if engines == "both" else (engines,)
    if not quiet:
        click.echo(output.line(output.HEADER))
    results: list[Result] = []
    for plan, cases in zip(plans, chosen, strict=True):
        for case, way in ((case, way) for case in cases[:limit] for way in ways):
            result = run_case(case, plan.soc, way)
            results.append(result)
            if not quiet or result.verdict != "pass":
                click.echo(output.row(result))
    absent = [name for plan in plans for name in plan.absent if fnmatchcase(name.split("/")[1], only)]
    click.echo(output.summary(results, len(absent)))
    if report is not None:
        about = {"ops": list(names), "files": [str(f) for f in files], "not_run": absent}
        output.write_json(report, results, seed, about)
    if any(result.verdict != "pass" for result in results):
        ctx.exit(1)


@dataclass(frozen=True)
class _Plan:
    """The cases of one op or file on one chip. ``absent``: "op/case/chip" of the op's cases whose dtype the chip
    does not have."""

    soc: str
    cases: list[PlannedCase]
    absent: list[str]

    def cases_like(self, pattern: str) -> list[PlannedCase]:
        """Those whose name ``pattern`` matches."""
        return [case for case in self.cases if fnmatchcase(case.name, pattern)]


def _plans(source: OpSpec | CaseFile, socs: tuple[str, ...], seed: int) -> list[_Plan]:
    """One plan per chip; ClickException for an op that has no case on any of them."""
    from ms_custom_ops.cases import CaseFile, file_cases, smoke_cases

    if isinstance(source, CaseFile):
        if source.notes:
            click.echo(f"{source.path}: without effect here: {', '.join(source.notes)}", err=True)
        return [_Plan(soc, file_cases(source, soc, seed), []) for soc in _chips(source.op, socs)]
    plans = []
    for soc in _chips(source, socs or ("all",)):
        cases = smoke_cases(source, soc, seed)
        there = [case.name for case in cases]
        absent = [f"{source.name}/{case.name}/{soc}" for case in source.cases if case.name not in there]
        plans.append(_Plan(soc, cases, absent))
    if not any(plan.cases for plan in plans):
        chips = ", ".join(plan.soc for plan in plans)
        raise click.ClickException(
            f"{source.name}: no case for {chips}; accepted: at least one under cases in {source.location}"
        )
    return plans


def _chips(op: OpSpec, socs: tuple[str, ...]) -> list[str]:
    """Full names of the chips asked for."""
    from ms_custom_ops.soc import current_soc, get_soc

    if not socs:
        return [current_soc().name]
    names = [get_soc(name).name for given in socs for name in (op.target.soc if given == "all" else (given,))]
    return list(dict.fromkeys(names))
