# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops info OP``: what an op takes and gives."""

from __future__ import annotations

import json

import click

from ms_custom_ops.scope import Scope


@click.command("info")
@click.argument("op")
@click.option("--json", "as_json", is_flag=True, help="Print the op_info entry as JSON, inherited parts filled in.")
@click.pass_obj
def command(scope: Scope, op: str, as_json: bool) -> None:
    """The function that people call for OP, then its primitive, as Markdown: arguments, defaults, dtypes, rules, chips.

    \b
    Examples:
      ms-custom-ops info flash_attention
      ms-custom-ops info flash_attention --json
    """
    from ms_custom_ops.registry.export import doc_table

    spec = scope.registry().get(op)
    click.echo(json.dumps(spec.raw, indent=1, default=str) if as_json else doc_table(spec))
