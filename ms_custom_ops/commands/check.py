# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops check``: what can be found wrong with an op without a chip."""

from __future__ import annotations

import json

import click

from ms_custom_ops.registry import check_registry
from ms_custom_ops.scope import Scope


@click.command("check")
@click.argument("ops", nargs=-1)
@click.option("--deep", is_flag=True, help="Run what can be run: goldens against central differences, kernels on every "
              "chip and both engines, both modes of MindSpore.")  # fmt: skip
@click.option("--case", default=None, help="With --deep: this case only.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON list.")
@click.pass_obj
def command(scope: Scope, ops: tuple[str, ...], deep: bool, case: str | None, as_json: bool) -> None:
    """Check the op_info files of OPS (default: all), their kernels' existence, their cases and gradients.

    All findings are printed, each with its file and line; exit code 1 when there is one.

    \b
    Examples:
      ms-custom-ops check
      ms-custom-ops check rms_norm --json
      ms-custom-ops check rms_norm --deep
    """
    names = ops or scope.names()
    if deep:
        _deep(names, case, as_json)
        return
    found = check_registry(scope.registry(), names)
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        for finding in found:
            click.echo(finding)
    if found:
        raise click.ClickException(f"{len(found)} finding(s)")
    if not as_json:
        click.echo(f"{len(names)} op(s) checked, no finding")


def _deep(names: tuple[str, ...], case: str | None, as_json: bool) -> None:
    from tqdm import tqdm

    from ms_custom_ops.opcheck import Report, opcheck

    report = Report()
    for name in tqdm(names, unit="op", disable=None, leave=False):
        report.extend(opcheck(name, case))
    click.echo(json.dumps(report.as_json(), indent=1) if as_json else str(report))
    if not report.ok:
        raise click.ClickException(f"{len(report.findings)} finding(s)")
