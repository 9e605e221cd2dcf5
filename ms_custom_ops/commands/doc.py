# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops doc``: reference pages of ops."""

from __future__ import annotations

from pathlib import Path

import click

from ms_custom_ops.scope import Scope


@click.command("doc")
@click.argument("ops", nargs=-1)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/ops"), show_default=True,
              help="Folder of the pages.")  # fmt: skip
@click.pass_obj
def command(scope: Scope, ops: tuple[str, ...], out: Path) -> None:
    """Write a Markdown page for each of OPS (default: all) and an index of them, from the op_info files.

    The site of this project makes its pages itself: bash scripts/gen_docs.sh.

    \b
    Example:
      ms-custom-ops doc my_scale --out docs/ops
    """
    from ms_custom_ops.batch.docs import pages

    registry = scope.registry()
    names = [registry.get(name).name for name in ops] or list(scope.names())
    out.mkdir(parents=True, exist_ok=True)
    for name, text in pages(registry).items():
        if name.removesuffix(".md") in names or (name == "index.md" and not ops):
            (out / name).write_text(text, encoding="utf-8")
            click.echo(f"wrote {out / name}")
