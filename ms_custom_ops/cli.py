# SPDX-License-Identifier: Apache-2.0
"""The command ``ms-custom-ops <verb>``. Verbs beyond the registry live in
``ms_custom_ops/commands/<verb>.py``, one click command named ``command`` per file."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from ms_custom_ops.errors import MsCustomOpsError
from ms_custom_ops.registry import check_registry, package_of
from ms_custom_ops.registry.loader import OWN_PACKAGE
from ms_custom_ops.scope import Scope, current_folders

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


class _Verbs(click.Group):
    """A group that finds further verbs in ms_custom_ops.commands and prints our errors without a
    traceback."""

    @staticmethod
    def _files() -> dict[str, str]:
        spec = find_spec("ms_custom_ops.commands")
        folders = list(spec.submodule_search_locations or ()) if spec else []
        return {
            module.name: f"ms_custom_ops.commands.{module.name}"
            for module in pkgutil.iter_modules(folders)
            if not module.name.startswith("_")
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._files()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in self._files():
            return own
        return importlib.import_module(self._files()[cmd_name]).command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MsCustomOpsError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Verbs)
@click.option("--op-info", type=FOLDER, default=None, help="Folder of op_info files, and nothing else.")
@click.option("--ops", "folders", type=FOLDER, multiple=True,
              help="Folder of a user's ops to add; default: the current one if it has op_info files.")  # fmt: skip
@click.pass_context
def main(ctx: click.Context, op_info: Path | None, folders: tuple[Path, ...]) -> None:
    """Ops of ms_custom_ops: list, describe, generate, check.

    With a folder of a user's own ops, given or current, check, gen and test are about these ops unless told otherwise.
    """
    ctx.obj = Scope(op_info, folders or current_folders())


@main.command("list")
@click.pass_obj
def list_verb(scope: Scope) -> None:
    """Names, chips and gradient of every op."""
    registry = scope.registry()
    rows = []
    for spec in registry.ops.values():
        gradient = ", ".join(dict.fromkeys(rule.op for rule in spec.bprop.rules)) if spec.bprop else "none"
        chips = " ".join(f"{soc}({','.join(codes)})" for soc, codes in spec.target.soc.items())
        own = spec.package == OWN_PACKAGE
        rows.append((spec.name, chips, f"gradient: {gradient}" + ("" if own else f"  in {package_of(spec).root}")))
    rows += [(name, "broken", " | ".join(text.splitlines())) for name, text in registry.broken.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for name, chips, gradient in sorted(rows):
        click.echo(f"{name:<{widths[0]}}  {chips:<{widths[1]}}  {gradient}")


@main.command()
@click.argument("op")
@click.pass_obj
def info(scope: Scope, op: str) -> None:
    """Arguments, constraints, dtypes and chips of OP as Markdown."""
    from ms_custom_ops.registry.export import doc_table

    click.echo(doc_table(scope.registry().get(op)))


@main.command()
@click.option("--check", is_flag=True, help="Write nothing; exit 1 and print the diff when a file differs.")
@click.option("--output", type=FOLDER, default=None, help="Folder of the generated files; default: beside the ops.")
@click.pass_obj
def gen(scope: Scope, check: bool, output: Path | None) -> None:
    """Write the primitives and functions of the ops from the op_info files."""
    from ms_custom_ops.program import generate as instructions
    from ms_custom_ops.registry import generate

    places = [generate.place_of(package) for package in scope.packages()] if scope.op_info is None else []
    own = any(package.is_own for package in scope.packages()) and scope.op_info is None and output is None
    root = instructions.checkout() if own else None
    if output is not None or scope.op_info is not None:
        places = [(scope.registry(), output or generate.output_folder(), None, generate.OWN_MODULE)]
    if not check:
        for place in places:
            try:
                written = generate.write(*place)
            except OSError as error:
                raise click.ClickException(f"{place[1]} cannot be written: {error}") from error
            for path in written:
                click.echo(f"wrote {path}")
        for path in instructions.write(root) if root else []:
            click.echo(f"wrote {path}")
    else:
        diffs = {place[1]: generate.drift(*place) for place in places}
        rows = instructions.drift(root) if root else ""
        stale = [f"generated files in {folder} differ from op_info" for folder, diff in diffs.items() if diff]
        stale += ["csrc/*.inc or docs/instructions.md differ from ms_custom_ops/program"] if rows else []
        if stale:
            click.echo("".join(diffs.values()) + rows, nl=False)
            raise click.ClickException(f"{'; '.join(stale)}; run: ms-custom-ops gen")
        click.echo("generated files agree with op_info")
        if own:
            agree = "agree" if root else "are not here to compare (an installed package)"
            click.echo(f"the files made from the instruction table {agree}")
    broken = [name for registry, *_ in places for name in registry.broken]
    if broken:
        raise click.ClickException(f"left out, being broken: {', '.join(broken)}; see ms-custom-ops check")


@main.command("check")
@click.argument("ops", nargs=-1)
@click.pass_obj
def check_verb(scope: Scope, ops: tuple[str, ...]) -> None:
    """Check the op_info files of OPS (default: all), their kernels' existence, their cases and gradients."""
    names = ops or scope.names()
    found = check_registry(scope.registry(), names)
    for finding in found:
        click.echo(finding)
    if found:
        raise click.ClickException(f"{len(found)} finding(s)")
    click.echo(f"{len(names)} op(s) checked, no finding")
