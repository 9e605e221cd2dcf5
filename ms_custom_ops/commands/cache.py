# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops cache``: the folder of compiled Programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ms_custom_ops.cache import Entry
    from ms_custom_ops.scope import Scope


@click.group("cache")
def command() -> None:
    """Size, contents, health and limit of the folder of compiled Programs.

    \b
    Examples:
      ms-custom-ops cache size
      ms-custom-ops cache list flash_attention
      ms-custom-ops cache verify && ms-custom-ops cache limit 200
    """


def _folder() -> Path:
    from ms_custom_ops.config import config

    folder = config().cache_dir
    if folder is None:
        raise click.ClickException("the program cache is off (MS_CUSTOM_OPS_CACHE_DIR); accepted: a folder there")
    if folder.exists() and not folder.is_dir():
        raise click.ClickException(
            f"the program cache is the file {folder} (MS_CUSTOM_OPS_CACHE_DIR); accepted: a folder"
        )
    return folder


def _of(scope: Scope, op: str | None) -> list[Entry]:
    """Entries of an op, or all; ClickException for a name that neither the folder nor the registry knows."""
    from ms_custom_ops.cache import entries
    from ms_custom_ops.registry.yaml_source import nearest

    found = entries(_folder())
    if op is None:
        return found
    rows = [entry for entry in found if entry.op == op]
    if not rows and op not in (known := {*(entry.op for entry in found), *scope.registry().ops}):
        raise click.ClickException(f"cache: OP is {op!r}; accepted: {nearest(op, sorted(known))}")
    return rows


@command.command("size")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def size(as_json: bool) -> None:
    """Folder, number of Programs, bytes, limit."""
    from ms_custom_ops.cache import entries
    from ms_custom_ops.config import config

    folder = _folder()
    found = entries(folder)
    total, most = sum(e.size for e in found), config().cache_limit_bytes
    if as_json:
        about = {"folder": str(folder), "programs": len(found), "bytes": total, "limit_bytes": most}
        click.echo(json.dumps(about))
        return
    limit = f"limit {most / 2**20:.0f} MiB" if most else "no limit"
    click.echo(f"{folder}: {len(found)} Programs, {total / 2**20:.1f} MiB, {limit}")


@command.command("list")
@click.argument("op", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_entries(scope: Scope, op: str | None, as_json: bool) -> None:
    """Every Program (of OP): bytes, last use, chip, tensors."""
    rows = _of(scope, op)
    if as_json:
        click.echo(json.dumps([vars(e) for e in rows], indent=1, default=str))
        return
    for entry in rows:
        click.echo(f"{entry.op:<28} {entry.size:>9}  {entry.used:%Y-%m-%d %H:%M}  {entry.soc:<14} {entry.tensors}")


@command.command("verify")
def verify() -> None:
    """Read every Program; exit code 1 when one is damaged (it would be traced again, not used)."""
    from ms_custom_ops.cache import damage, entries

    found = entries(_folder())
    bad = [(entry.path, text) for entry in found if (text := damage(entry))]
    for path, text in bad:
        click.echo(f"{path}: {text}")
    if bad:
        raise click.ClickException(f"{len(bad)} of {len(found)} Programs are damaged; write: ms-custom-ops cache clear")
    click.echo(f"{len(found)} Programs, all good")


@command.command("clear")
@click.argument("op", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def clear(scope: Scope, op: str | None, yes: bool) -> None:
    """Delete every Program (of OP)."""
    rows = _of(scope, op)
    if rows and not yes:
        click.confirm(f"delete {len(rows)} Programs in {_folder()}?", abort=True)
    for entry in rows:
        entry.path.unlink(missing_ok=True)
    click.echo(f"{len(rows)} Programs deleted")


@command.command("limit")
@click.argument("megabytes", type=click.IntRange(min=1))
def limit(megabytes: int) -> None:
    """Delete the least recently used Programs until MEGABYTES are left. MS_CUSTOM_OPS_CACHE_LIMIT_MB keeps it so."""
    from ms_custom_ops.cache import ProgramCache, entries

    folder = _folder()
    before = len(entries(folder))
    ProgramCache(folder, megabytes << 20).trim()
    click.echo(f"{before - len(entries(folder))} Programs deleted; to keep this limit: "
               f"export MS_CUSTOM_OPS_CACHE_LIMIT_MB={megabytes}")  # fmt: skip
