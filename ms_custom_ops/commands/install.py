# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops install``: put a vendor package where CANN looks for it."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("install")
@click.argument("package", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--path", type=click.Path(file_okay=False, path_type=Path), default=None,
              help="Folder that gets vendors/; default: opp of the CANN found (ASCEND_HOME_PATH).")  # fmt: skip
def command(package: Path, path: Path | None) -> None:
    """Copy the vendors of PACKAGE (--out of compile --target tbe) below a folder, and name them in its config.ini.

    \b
    Examples:
      ms-custom-ops compile my_scale --target tbe --out build
      ms-custom-ops install build --path ~/opp
    """
    from ms_custom_ops.batch.vendor import install
    from ms_custom_ops.config import config

    cann = config().cann
    if path is None and cann is None:
        raise click.ClickException("no CANN on this machine (ASCEND_HOME_PATH); accepted: --path FOLDER")
    for vendor in install(package, path or Path(str(cann)) / "opp"):
        click.echo(f"installed {vendor}")
        click.echo(f"to use it: export ASCEND_CUSTOM_OPP_PATH={vendor}:$ASCEND_CUSTOM_OPP_PATH")
