# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops test``: run the cases of ops, kernel against golden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ms_custom_ops.cases import CaseFile, PlannedCase
    from ms_custom_ops.cases.report import Outcome
    from ms_custom_ops.registry import OpSpec, Registry
    from ms_custom_ops.scope import Scope

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
STAGES = ("golden", "kernel", "graph", "ascendc", "faults")


@click.command("test")
@click.argument("ops", nargs=-1)
@click.option("--only", "stage", type=click.Choice(STAGES), default="kernel", help="golden: gradient formulas against "
              "central differences, no kernel runs; kernel: kernel against golden (default); graph: the same through "
              "MindSpore in GRAPH mode; ascendc: the Ascend C kernels; faults: every access looked at.")  # fmt: skip
@click.option("--cases", "files", type=_FILE, multiple=True, help="Case file in the form of ATK; see docs/cases.md.")
@click.option("--soc", "socs", multiple=True, help="Chip, or all: one of every family the op has; default: all for "
              "OPS, the configured one for case files.")  # fmt: skip
@click.option("--engine", "engines", type=click.Choice(["native", "reference", "both", "ascendc"]), default="native",
              show_default=True, help="Engine of this package, without MindSpore; ascendc: the native one on "
              "the ops' Ascend C kernels.")  # fmt: skip
@click.option("--mindspore", is_flag=True, help="The same as --only graph.")
@click.option("--check/--no-check", default=True, show_default=True, help="Look at every access of the kernels; what "
              "is found is an error of the case (docs/sanitizer.md).")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of shapes and data.")
@click.option("--limit", type=click.IntRange(min=1), default=None, help="Run the first LIMIT cases of each op or "
              "file only, on each chip.")  # fmt: skip
@click.option("--case", "pattern", default="*", help="Run the cases whose name this pattern matches, such as "
              "'invalid-*'.")  # fmt: skip
@click.option("-n", "processes", type=click.IntRange(min=1), default=1, show_default=True,
              help="Processes that run the cases of OPS side by side; the engine uses every core in each.")  # fmt: skip
@click.option("--scheduler", default=None, metavar="tcp://HOST:PORT", help="A Dask cluster in their place; the "
              "work of a worker that is lost is done again.")  # fmt: skip
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), default=None, help="Write a JSON file.")
@click.option("--quiet", is_flag=True, help="Print failures and the count only.")
@click.pass_context
def command(
    ctx: click.Context, ops: tuple[str, ...], stage: str, files: tuple[Path, ...], socs: tuple[str, ...], engines: str,
    mindspore: bool, check: bool, seed: int, limit: int | None, pattern: str, processes: int, scheduler: str | None,
    report: Path | None, quiet: bool,
) -> None:  # fmt: skip
    """Run the smoke cases of OPS, and the cases of files, against the goldens; without either, of every op.

    Exit code 1 when a value is wrong, a case ends in an error, or an invalid call is accepted.

    \b
    Examples:
      ms-custom-ops test rms_norm
      ms-custom-ops test rms_norm --only golden
      ms-custom-ops test -n 2 --report report.json
      ms-custom-ops test --cases FILE.yaml --case 'invalid-*' --soc all --engine both
    """
    from ms_custom_ops.cases import read_cases
    from ms_custom_ops.cases import report as output
    from ms_custom_ops.registry.yaml_source import nearest

    mindspore = mindspore or stage == "graph"
    engines = "ascendc" if stage == "ascendc" else engines
    if mindspore and engines != "native":
        raise click.UsageError(f"--mindspore with --engine {engines}; accepted: one of the two")
    if scheduler is not None and (files or stage in ("golden", "faults")):
        raise click.UsageError("--scheduler with --cases, --only golden or --only faults; accepted: cases of OPS")
    if report is not None:  # before the cases run
        try:
            report.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.UsageError(
                f"--report {report}: {report.parent} is no folder ({error.strerror}); accepted: a file in a folder"
            ) from None
    scope: Scope = ctx.obj
    registry = scope.registry()
    names = ops or (() if files else scope.names())
    if engines == "ascendc":
        names, socs = _with_ascendc(registry, names, socs, asked=bool(ops))
    if stage in ("golden", "faults"):
        _deep(ctx, names, {"golden": "gradient", "faults": "sanitizer"}[stage], socs, seed)
        return
    sources: list[OpSpec | CaseFile] = [*(registry.get(op) for op in names), *(read_cases(f, registry) for f in files)]
    # Everything is planned before anything runs: an op without case data is refused at once.
    plans = [plan for source in sources for plan in _plans(source, socs, seed, pattern, limit)]
    if not any(plan.cases for plan in plans):
        known = [case.name for source in sources for case in getattr(source, "cases", ())]
        raise click.ClickException(
            f"no case for these chips and --case {pattern}; {nearest(pattern, dict.fromkeys(known))}"
        )
    ways = ("mindspore",) if mindspore else ("native", "reference") if engines == "both" else (engines,)
    if not quiet:
        click.echo(output.line(output.HEADER))
    results: list[Outcome] = []
    for result in _outcomes(plans, ways, check, seed, scope, processes, scheduler):
        results.append(result)
        if not quiet or result.verdict != "pass":
            click.echo(result.text)
    absent = [name for plan in plans for name in plan.absent if fnmatchcase(name.split("/")[1], pattern)]
    click.echo(output.summary(results, len(absent)))
    if report is not None:
        about = {"ops": list(names), "files": [str(f) for f in files], "not_run": absent}
        output.write_json(report, results, seed, about)
    if any(result.verdict != "pass" for result in results):
        ctx.exit(1)


def _with_ascendc(
    registry: Registry, names: Sequence[str], socs: tuple[str, ...], asked: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ops with an Ascend C kernel, and chips that it is for; ClickException for an op that was ``asked`` for and has
    none."""
    impls = {name: registry.get(name).impl.ascendc for name in names}
    for name, impl in impls.items():
        if impl is None and asked:
            raise click.ClickException(f"{name}: there is no Ascend C kernel; accepted: ops with impl: ascendc")
    there = {name: impl for name, impl in impls.items() if impl is not None}
    families = dict.fromkeys(family for impl in there.values() for family in impl.families)
    return tuple(there), socs if socs and "all" not in socs else tuple(f"Ascend{family}" for family in families)


def _deep(ctx: click.Context, names: tuple[str, ...], check: str, socs: tuple[str, ...], seed: int) -> None:
    """One check of opcheck for every op."""
    from ms_custom_ops.opcheck import Report, opcheck

    report = Report()
    for name in names:
        report.extend(opcheck(name, checks=(check,), socs=socs, seed=seed))
    click.echo(str(report))
    if not report.ok:
        ctx.exit(1)


@dataclass(frozen=True)
class _Plan:
    """The cases of one op or file on one chip. ``absent``: "op/case/chip" of the op's cases whose dtype the chip
    does not have. ``op``: its name, "" for a file."""

    op: str
    soc: str
    cases: list[PlannedCase]
    absent: list[str]


def _outcomes(
    plans: list[_Plan], ways: tuple[str, ...], check: bool, seed: int, scope: Scope, processes: int,
    scheduler: str | None,
) -> Iterator[Outcome]:  # fmt: skip
    """Results in the order of the plans."""
    from ms_custom_ops.cases import run_case
    from ms_custom_ops.cases.report import outcome
    from ms_custom_ops.spread import spread

    if scheduler is not None or (processes > 1 and all(plan.op for plan in plans)):
        folders = tuple(str(folder) for folder in scope.folders)
        parts = [(plan.op, plan.soc, [c.name for c in plan.cases], ways, check, seed) for plan in plans]
        for part in spread("test", _run_part, parts, workers=processes, scheduler=scheduler, folders=folders):
            yield from part
        return
    for plan in plans:
        for case in plan.cases:
            for way in ways:
                yield outcome(run_case(case, plan.soc, way, check))


def _run_part(op: str, soc: str, names: list[str], ways: tuple[str, ...], check: bool, seed: int) -> list[Outcome]:
    """The cases of one op on one chip, in a process of its own."""
    from ms_custom_ops.cases import run_case, smoke_cases
    from ms_custom_ops.cases.report import outcome
    from ms_custom_ops.registry import get_op

    cases = [case for case in smoke_cases(get_op(op), soc, seed) if case.name in names]
    return [outcome(run_case(case, soc, way, check)) for case in cases for way in ways]


def _plans(source: OpSpec | CaseFile, socs: tuple[str, ...], seed: int, pattern: str, limit: int | None) -> list[_Plan]:
    """One plan per chip; ClickException for an op that has no case on any of them."""
    from ms_custom_ops.cases import CaseFile, file_cases, smoke_cases

    def chosen(cases: list[PlannedCase]) -> list[PlannedCase]:
        return [case for case in cases if fnmatchcase(case.name, pattern)][:limit]

    if isinstance(source, CaseFile):
        if source.notes:
            click.echo(f"{source.path}: without effect here: {', '.join(source.notes)}", err=True)
        return [_Plan("", soc, chosen(file_cases(source, soc, seed)), []) for soc in _chips(source.op, socs)]
    plans, there = [], False
    for soc in _chips(source, socs or ("all",)):
        cases = smoke_cases(source, soc, seed)
        there = there or bool(cases)
        names = [case.name for case in cases]
        absent = [f"{source.name}/{case.name}/{soc}" for case in source.cases if case.name not in names]
        plans.append(_Plan(source.name, soc, chosen(cases), absent))
    if not there:
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
