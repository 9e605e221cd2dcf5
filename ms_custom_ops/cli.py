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
from ms_custom_ops.registry import Registry, check_registry, load_registry

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


def _registry(ctx: click.Context) -> Registry:
    return load_registry(ctx.obj)


@click.group(cls=_Verbs)
@click.option("--op-info", type=FOLDER, default=None, help="Folder of op_info files; default: the installed ones.")
@click.pass_context
def main(ctx: click.Context, op_info: Path | None) -> None:
    """Ops of ms_custom_ops: list, describe, generate, check."""
    ctx.obj = op_info


@main.command("list")
@click.pass_context
def list_verb(ctx: click.Context) -> None:
    """Names, chips and gradient of every op."""
    rows = []
    for spec in _registry(ctx).ops.values():
        gradient = ", ".join(dict.fromkeys(rule.op for rule in spec.bprop.rules)) if spec.bprop else "none"
        chips = " ".join(f"{soc}({','.join(codes)})" for soc, codes in spec.target.soc.items())
        rows.append((spec.name, chips, f"gradient: {gradient}"))
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for name, chips, gradient in rows:
        click.echo(f"{name:<{widths[0]}}  {chips:<{widths[1]}}  {gradient}")


@main.command()
@click.argument("op")
@click.pass_context
def info(ctx: click.Context, op: str) -> None:
    """Arguments, constraints, dtypes and chips of OP as Markdown."""
    from ms_custom_ops.registry.export import doc_table

    click.echo(doc_table(_registry(ctx).get(op)))


@main.command()
@click.option("--check", is_flag=True, help="Write nothing; exit 1 and print the diff when the files differ.")
@click.option("--output", type=FOLDER, default=None, help="Folder of the generated file; default: the package.")
@click.pass_context
def gen(ctx: click.Context, check: bool, output: Path | None) -> None:
    """Write the primitives and functions of the ops, mco_generated_ops.py, from the op_info files."""
    from ms_custom_ops.program import generate as instructions
    from ms_custom_ops.registry import generate

    folder = output or generate.output_folder()
    root = instructions.checkout() if output is None else None
    if not check:
        written = [generate.write(_registry(ctx), folder), *(instructions.write(root) if root else [])]
        for path in written:
            if path is not None:
                click.echo(f"wrote {path}")
        return
    diff = generate.drift(_registry(ctx), folder)
    stale = [f"{folder / generate.GENERATED_FILE} differs from op_info"] if diff else []
    rows = instructions.drift(root) if root else ""
    stale += ["csrc/isa_*.inc or docs/instructions.md differ from ms_custom_ops/program/isa"] if rows else []
    if stale:
        click.echo(diff + rows, nl=False)
        raise click.ClickException(f"{'; '.join(stale)}; run: ms-custom-ops gen")
    click.echo("the generated file agrees with op_info")
    if output is None:
        agree = "agree" if root else "are not here to compare (an installed package)"
        click.echo(f"the files made from the instruction table {agree}")


@main.command("check")
@click.argument("ops", nargs=-1)
@click.pass_context
def check_verb(ctx: click.Context, ops: tuple[str, ...]) -> None:
    """Check the op_info files of OPS (default: all), their kernels' existence, their cases and gradients."""
    registry = _registry(ctx)
    found = check_registry(registry, ops)
    for finding in found:
        click.echo(finding)
    if found:
        raise click.ClickException(f"{len(found)} finding(s)")
    click.echo(f"{len(ops or registry.ops)} op(s) checked, no finding")
