# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops test``: run the cases of ops, kernel against golden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ms_custom_ops.cases import CaseFile, PlannedCase, Result
    from ms_custom_ops.registry import OpSpec, Registry

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("test")
@click.argument("ops", nargs=-1)
@click.option("--cases", "files", type=_FILE, multiple=True, help="Case file in the form of ATK; see docs/cases.md.")
@click.option("--soc", "socs", multiple=True, help="Chip, or all: one of every family the op has; default: the "
              "configured one.")  # fmt: skip
@click.option("--engine", "engines", type=click.Choice(["native", "reference", "both"]), default="native",
              show_default=True, help="Engine of this package, without MindSpore.")  # fmt: skip
@click.option("--mindspore", is_flag=True, help="Call the op from MindSpore in GRAPH mode instead.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of shapes and data.")
@click.option("--limit", type=click.IntRange(min=1), default=None, help="Run the first LIMIT cases of each op or "
              "file only.")  # fmt: skip
@click.option("--only", default="*", help="Run the cases whose name this pattern matches, such as 'invalid-*'.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), default=None, help="Write a JSON file.")
@click.option("--quiet", is_flag=True, help="Print failures and the count only.")
@click.pass_context
def command(
    ctx: click.Context, ops: tuple[str, ...], files: tuple[Path, ...], socs: tuple[str, ...], engines: str,
    mindspore: bool, seed: int, limit: int | None, only: str, report: Path | None, quiet: bool,
) -> None:  # fmt: skip
    """Run the smoke cases of OPS, and the cases of files, against the goldens.

    Exit code 1 when a value is wrong, a case ends in an error, or an invalid call is accepted.
    """
    from ms_custom_ops.cases import read_cases
    from ms_custom_ops.cases import report as output
    from ms_custom_ops.registry import load_registry

    if not ops and not files:
        raise click.UsageError("neither OPS nor --cases given; accepted: at least one op or file")
    if mindspore and engines != "native":
        raise click.UsageError(f"--mindspore with --engine {engines}; accepted: one of the two")
    registry: Registry = load_registry(ctx.obj)
    sources: list[OpSpec | CaseFile] = [*(registry.get(op) for op in ops), *(read_cases(f, registry) for f in files)]
    ways = ("mindspore",) if mindspore else ("native", "reference") if engines == "both" else (engines,)
    if not quiet:
        click.echo(output.line(output.HEADER))
    results: list[Result] = []
    for result in _results(sources, socs, ways, seed, limit, only):
        results.append(result)
        if not quiet or result.verdict != "pass":
            click.echo(output.row(result))
    click.echo(output.summary(results))
    if report is not None:
        output.write_json(report, results, seed, {"ops": list(ops), "files": [str(f) for f in files]})
    if not results:
        raise click.ClickException(f"no case for these chips and --only {only}")
    if any(result.verdict != "pass" for result in results):
        ctx.exit(1)


def _results(
    sources: Iterable[OpSpec | CaseFile], socs: tuple[str, ...], ways: tuple[str, ...], seed: int,
    limit: int | None, only: str,
) -> Iterator[Result]:  # fmt: skip
    from ms_custom_ops.cases import CaseFile, file_cases, run_case, smoke_cases

    for source in sources:
        op = source.op if isinstance(source, CaseFile) else source
        if isinstance(source, CaseFile) and source.notes:
            click.echo(f"{source.path}: without effect here: {', '.join(source.notes)}", err=True)
        for soc in _chips(op, socs):
            cases: list[PlannedCase]
            cases = file_cases(source, soc, seed) if isinstance(source, CaseFile) else smoke_cases(source, soc, seed)
            for case in [case for case in cases if fnmatchcase(case.name, only)][:limit]:
                for way in ways:
                    yield run_case(case, soc, way)


def _chips(op: OpSpec, socs: tuple[str, ...]) -> list[str]:
    """Full names of the chips asked for."""
    from ms_custom_ops.soc import current_soc, get_soc

    if not socs:
        return [current_soc().name]
    names = [get_soc(name).name for given in socs for name in (op.target.soc if given == "all" else (given,))]
    return list(dict.fromkeys(names))
