# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops gen``: the generated files."""

from __future__ import annotations

from pathlib import Path

import click

from ms_custom_ops.scope import Scope

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("gen")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 and print the diff when a file differs.")
@click.option("--output", type=FOLDER, default=None, help="Folder of the generated files; default: beside the ops.")
@click.pass_obj
def command(scope: Scope, check: bool, output: Path | None) -> None:
    """Write the primitives and functions of the ops, and their C headers, from the op_info files.

    \b
    Examples:
      ms-custom-ops gen
      ms-custom-ops gen --check
    """
    from ms_custom_ops.aclnn import headers
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
        for path in [*instructions.write(root), *headers.write(root)] if root else []:
            click.echo(f"wrote {path}")
    else:
        diffs = {place[1]: generate.drift(*place) for place in places}
        rows = instructions.drift(root) if root else ""
        functions = headers.drift(root) if root else ""
        stale = [f"generated files in {folder} differ from op_info" for folder, diff in diffs.items() if diff]
        stale += ["csrc/*.inc or docs/instructions.md differ from ms_custom_ops/program"] if rows else []
        stale += [f"{headers.HEADERS}/*.h or {headers.TABLES} differ from op_info"] if functions else []
        if stale:
            click.echo("".join(diffs.values()) + rows + functions, nl=False)
            raise click.ClickException(f"{'; '.join(stale)}; run: ms-custom-ops gen")
        click.echo("generated files agree with op_info")
        if own:
            agree = "agree" if root else "are not here to compare (an installed package)"
            click.echo(f"the files made from the instruction table {agree}")
    broken = [name for registry, *_ in places for name in registry.broken]
    if broken:
        raise click.ClickException(f"left out, being broken: {', '.join(broken)}; see ms-custom-ops check")
