# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops compile``: trace every declared case ahead of time."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ms_custom_ops.scope import Scope

if TYPE_CHECKING:
    from ms_custom_ops.batch.compile import Item


@click.command("compile")
@click.argument("ops", nargs=-1)
@click.option("--soc", "socs", multiple=True, help="Chip; default: one of every family that an op has.")
@click.option("-j", "jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
@click.option(
    "--scheduler", default=None, metavar="tcp://HOST:PORT", help="Dask scheduler whose workers trace instead."
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=None,
              help="Folder of the Programs; default: the program cache.")  # fmt: skip
@click.option("--target", type=click.Choice(["engine", "tbe"]), default="engine", show_default=True,
              help="tbe also writes a vendor package of TIK kernels, into --out.")  # fmt: skip
@click.option("--vendor", default="ms_custom_ops", show_default=True, help="Name of the vendor package.")
@click.option("--calls", "calls", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=None,
              help="File of calls of the C library to make kernels of too (MS_CUSTOM_OPS_ACL_CALLS).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the manifest.")
@click.pass_context
def command(
    ctx: click.Context, ops: tuple[str, ...], socs: tuple[str, ...], jobs: int, scheduler: str | None,
    out: Path | None, target: str, vendor: str, calls: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Trace every case of OPS (default: all) on every chip into the program cache, and write manifest.json there.

    What is there already is not traced again, and where nothing has changed files are only looked at. The manifest
    names every Program with its SHA-256. Calls from C with the sizes of the cases, and those of --calls, then run
    without Python (docs/aclnn_c.md).

    \b
    Examples:
      ms-custom-ops compile -j 2
      ms-custom-ops compile flash_attention --soc Ascend910B1 --out build
      ms-custom-ops compile --scheduler tcp://localhost:8786
      ms-custom-ops compile segsum_decay --calls calls.txt --out kernels
      ms-custom-ops compile my_scale --target tbe --out build && ms-custom-ops install build --path vendors
    """
    from ms_custom_ops.batch import ledger
    from ms_custom_ops.config import config

    scope: Scope = ctx.obj
    folder = out or config().cache_dir
    if folder is None:
        raise click.ClickException("the program cache is off (MS_CUSTOM_OPS_CACHE_DIR); accepted: --out FOLDER")
    if target == "tbe" and out is None:
        raise click.UsageError("--target tbe without --out; accepted: --out FOLDER")
    start = time.perf_counter()
    listed = None if calls is None else hashlib.sha256(calls.read_bytes()).hexdigest()
    question = ledger.asked(op_info=scope.op_info, folders=scope.folders, here=Path.cwd(), ops=ops, socs=socs,
                            calls=listed, cache=config().cache_dir)  # fmt: skip
    said = ledger.find(folder, question) if target == "engine" else None
    if said is None:
        said = _compiled(ctx, _Asked(ops, socs, jobs, scheduler, target, vendor, calls), folder, question)
    else:
        said |= {"traced": 0, "new": 0}
    if as_json:
        click.echo((folder / "manifest.json").read_text(encoding="utf-8"), nl=False)
    click.echo(f"{said['programs']} Programs of {said['ops']} op(s), {said['traced']} traced, "
               f"{said['calls']} calls from C, {said['new']} new, "
               f"{time.perf_counter() - start:.1f} s: {folder / 'manifest.json'}", err=as_json)  # fmt: skip
    for reason, cases in said["without"].items():
        click.echo(f"without a call from C: {', '.join(cases)}: {reason}", err=True)
    if said["failed"]:
        raise click.ClickException(f"{said['failed']} case(s) could not be compiled")
    if target == "tbe":
        registry = scope.registry()
        _write_tbe(ctx, [registry.get(name) for name in ops or scope.names()], folder, vendor)


@dataclass(frozen=True)
class _Asked:
    """Arguments of the command."""

    ops: tuple[str, ...]
    socs: tuple[str, ...]
    jobs: int
    scheduler: str | None
    target: str
    vendor: str
    calls: Path | None


def _compiled(ctx: click.Context, asked: _Asked, folder: Path, question: str) -> dict[str, Any]:
    """Compiles what is asked for and is not there; what there is to say of it."""
    from tqdm import tqdm

    from ms_custom_ops.batch import ledger
    from ms_custom_ops.batch.compile import compile_items, inputs_of, items_of, write_manifest
    from ms_custom_ops.batch.plans import make_plans, read_calls
    from ms_custom_ops.batch.vendor import check_vendor
    from ms_custom_ops.cache import FOLDER_MODE, ProgramCache

    began, scope = time.time_ns(), ctx.obj
    registry = scope.registry()
    if asked.target == "tbe":
        check_vendor(asked.vendor)
    listed = list(read_calls(asked.calls)) if asked.calls is not None else []
    names = list(asked.ops or scope.names())
    items = items_of(registry, names, asked.socs)
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)  # a place that does not take it, before any work
    folders = tuple(str(f) for f in scope.folders)
    cache = ProgramCache(folder)
    with tqdm(total=len(items), unit="case", disable=None, leave=False) as bar:
        outcome = compile_items(items, cache, asked.jobs, asked.scheduler, folders, bar.update)
    there = [item for item in items if item in outcome.entries]
    plans = make_plans(there, listed, cache, asked.jobs, asked.scheduler, folders)
    path = write_manifest(outcome, folder)
    for name, text in (*outcome.failed.items(), *plans.failed.items()):
        click.echo(f"{name}: {text}", err=True)
    failed = len(outcome.failed) + len(plans.failed)
    said = {"programs": len(outcome.entries), "ops": len(names), "traced": outcome.traced, "calls": plans.made,
            "new": plans.new, "without": by_reason(plans.without), "failed": failed}  # fmt: skip
    if not failed:
        made = {path.name, *(entry["file"] for entry in outcome.entries.values()), *plans.names}
        inputs = inputs_of([registry.get(name) for name in names], scope.op_info)
        ledger.write(folder, question, inputs, made, said, began)
    return said


def by_reason(without: Mapping[Item, str]) -> dict[str, list[str]]:
    """Reason -> the cases that have it, of all chips."""
    found: dict[str, list[str]] = {}
    for item, reason in without.items():
        cases, case = found.setdefault(reason, []), f"{item.op}/{item.case}"
        if case not in cases:
            cases.append(case)
    return found


def _write_tbe(ctx: click.Context, specs: list, folder: Path, vendor: str) -> None:
    from ms_custom_ops.batch.vendor import write_package
    from ms_custom_ops.config import config

    for path in write_package(specs, folder, vendor):
        click.echo(f"wrote {path}")
    if config().cann is None:
        click.echo(
            "not run: binaries of the kernels (kernel_meta/*.o, *.json), which CANN's compiler makes on the host "
            "with CANN when the package is used there; no CANN on this machine (ASCEND_HOME_PATH)",
            err=True,
        )
        ctx.exit(3)
