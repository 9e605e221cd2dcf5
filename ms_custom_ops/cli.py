# SPDX-License-Identifier: Apache-2.0
"""The command ``ms-custom-ops <verb>``. A verb is a file ``ms_custom_ops/commands/<verb>.py`` with one click command
named ``command``; a new file needs no edit here. docs/cli.md lists the exit codes."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from ms_custom_ops._version import __version__
from ms_custom_ops.scope import Scope, current_folders

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def _of_a_file(error: Exception) -> str | None:
    """One line about a user's file or folder that cannot be used; None for other errors and for our own files."""
    name = getattr(error, "filename", None)
    if not isinstance(error, OSError) or not isinstance(name, (str, Path)):
        return None
    if Path(name).absolute().is_relative_to(Path(__file__).resolve().parent):
        return None
    return f"{name}: {error.strerror}; accepted: a place that can be read, or written where the verb writes"


class _Verbs(click.Group):
    """A group that finds its verbs in ms_custom_ops.commands and prints users' mistakes without a traceback."""

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
        return sorted(self._files())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self._files().get(cmd_name)
        return None if found is None else importlib.import_module(found).command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self._files():
            close = difflib.get_close_matches(name, self._files(), n=1)
            hint = f"; nearest: {close[0]}" if close else ""
            ctx.fail(f"no verb {name!r}; accepted: {', '.join(self.list_commands(ctx))}{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (Exception, SystemExit) as error:  # TikError among them, which is a SystemExit too
            from ms_custom_ops.mistakes import explain

            text = explain(error) or _of_a_file(error)
            if text is None:
                raise
            raise click.ClickException(text) from error


@click.group(
    cls=_Verbs,
    epilog="Exit codes: 0 all good; 1 something was found wrong, or a mistake in what was given; 2 "
    "the command line itself is wrong; 3 a step was left out that this machine cannot do (no CANN).\n\n"
    'Completion: eval "$(_MS_CUSTOM_OPS_COMPLETE=bash_source ms-custom-ops)" (zsh_source, fish_source).',
)
@click.version_option(__version__, prog_name="ms-custom-ops")
@click.option("--op-info", type=FOLDER, default=None, help="Folder of op_info files, and nothing else.")
@click.option("--ops", "folders", type=FOLDER, multiple=True,
              help="Folder of a user's ops to add; default: the current one if it has op_info files.")  # fmt: skip
@click.pass_context
def main(ctx: click.Context, op_info: Path | None, folders: tuple[Path, ...]) -> None:
    """Ops of ms_custom_ops: make, check, test, compile, measure, describe.

    With a folder of a user's own ops, given or current, check, gen, test and others are about these ops unless told
    otherwise.

    \b
    Examples:
      ms-custom-ops new my_scale && ms-custom-ops test my_scale
      ms-custom-ops info flash_attention
      ms-custom-ops compile -j 2
    """
    ctx.obj = Scope(op_info, folders or current_folders())
