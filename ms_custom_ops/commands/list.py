# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops list``: every op there is."""

from __future__ import annotations

import json

import click

from ms_custom_ops.registry import package_of
from ms_custom_ops.registry.loader import OWN_PACKAGE
from ms_custom_ops.scope import Scope


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list instead of a table.")
@click.pass_obj
def command(scope: Scope, as_json: bool) -> None:
    """Names, chips and gradient of every op.

    \b
    Examples:
      ms-custom-ops list
      ms-custom-ops list --json | python -m json.tool
    """
    registry = scope.registry()
    rows = []
    for spec in registry.ops.values():
        gradients = list(dict.fromkeys(rule.op for rule in spec.bprop.rules)) if spec.bprop else []
        folder = "" if spec.package == OWN_PACKAGE or scope.op_info else str(package_of(spec).root)
        rows.append({"name": spec.name, "chips": {soc: list(codes) for soc, codes in spec.target.soc.items()},
                     "gradient": gradients, "folder": folder, "broken": ""})  # fmt: skip
    rows += [{"name": name, "chips": {}, "gradient": [], "folder": "", "broken": text}
             for name, text in registry.broken.items()]  # fmt: skip
    rows.sort(key=lambda row: str(row["name"]))
    click.echo(json.dumps(rows, indent=1) if as_json else _table(rows))


def _table(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        chips = " ".join(f"{soc}({','.join(codes)})" for soc, codes in row["chips"].items())
        gradient = f"gradient: {', '.join(row['gradient']) or 'none'}"
        place = f"  in {row['folder']}" if row["folder"] else ""
        broken = " | ".join(row["broken"].splitlines())
        lines.append((row["name"], "broken" if broken else chips, broken or gradient + place))
    widths = [max(len(line[i]) for line in lines) for i in range(2)]
    return "\n".join(f"{name:<{widths[0]}}  {chips:<{widths[1]}}  {rest}" for name, chips, rest in lines)
