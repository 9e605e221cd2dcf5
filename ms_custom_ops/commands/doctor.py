# SPDX-License-Identifier: Apache-2.0
"""``ms-custom-ops doctor``: what this machine and this environment have, and what does not go together."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

import ms_custom_ops

Line = tuple[str, str, str]
"""(state, subject, text); the state is good, note or bad."""


def _python() -> Iterator[Line]:
    good = (3, 10) <= sys.version_info[:2] < (3, 13)
    yield ("good" if good else "bad", "Python", f"{platform.python_version()} at {sys.executable}"
           + ("" if good else "; accepted: 3.10 to 3.12"))  # fmt: skip
    yield "good", "machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, {cpu()}"


def cpu() -> str:
    file = Path("/proc/cpuinfo")
    if not file.is_file():
        return "CPU features not known"
    lines = dict(line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
    found = {key.strip(): value for key, value in lines.items()}
    flags = (found.get("flags") or found.get("Features") or "").split()
    named = [
        flag for flag in ("avx2", "f16c", "fma", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve") if flag in flags
    ]
    return f"{found.get('model name', 'unknown CPU').strip()} with {' '.join(named) or 'no vector extension of note'}"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _libraries() -> Iterator[Line]:
    numpy, mindspore = _version("numpy"), _version("mindspore")
    major = int((numpy or "0").split(".")[0])
    if mindspore is None:
        yield "note", "MindSpore", "not installed: kernels run, mco.ops and mco.nn do not; write: pip install mindspore"
    else:
        yield "good", "MindSpore", mindspore
    clash = major >= 2 and mindspore is not None
    yield ("bad" if clash else "good", "NumPy", f"{numpy}"
           + ("; MindSpore's wheel wants NumPy below 2; write: pip install 'numpy<2'" if clash else ""))  # fmt: skip


def _engine() -> Iterator[Line]:
    from ms_custom_ops import engine
    from ms_custom_ops.errors import EngineMissingError

    try:
        path = engine.library_path()
        yield "good", "engine", f"{path}, {engine.get_num_threads()} threads, SIMD {engine.isa()}"
    except EngineMissingError as error:
        yield "bad", "engine", str(error)
    compiler = shutil.which("g++")
    if compiler is None:
        yield "note", "C++ compiler", "g++ not found: needed only to build the engine from sources"
    else:
        text = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout.splitlines()
        yield "good", "C++ compiler", f"{text[0] if text else compiler}"


def _cache() -> Iterator[Line]:
    from ms_custom_ops.cache import entries
    from ms_custom_ops.config import config

    folder = config().cache_dir
    if folder is None:
        yield "note", "cache", "off: every process traces anew"
        return
    place = folder if folder.exists() else next(p for p in folder.parents if p.exists())
    if not os.access(place, os.W_OK):
        yield "bad", "cache", f"{folder} cannot be written; write: export MS_CUSTOM_OPS_CACHE_DIR=FOLDER"
        return
    found = entries(folder)
    limit = config().cache_limit_bytes
    yield (
        "good",
        "cache",
        (
            f"{folder}, {len(found)} Programs, {sum(e.size for e in found) / 2**20:.1f} MiB of {limit / 2**20:.0f} MiB"
            if limit
            else f"{folder}, {len(found)} Programs, no limit"
        ),
    )


def _chips() -> Iterator[Line]:
    from ms_custom_ops.soc import current_soc, list_socs

    yield "good", "chips", f"{len(list_socs())} known, {current_soc().name} in force"


def _cann() -> Iterator[Line]:
    from ms_custom_ops.config import config

    folder = config().cann
    tool = shutil.which("atc") or shutil.which("opc")
    if folder is None and tool is None:
        yield (
            "note",
            "CANN",
            "not found (ASCEND_HOME_PATH, atc): kernels run on the engine of this package, not on a chip",
        )
    else:
        yield "good", "CANN", f"{folder or tool}"


def _clashes() -> Iterator[Line]:
    ours = Path(ms_custom_ops.__file__).resolve().parent
    names = importlib.metadata.packages_distributions().get("ms_custom_ops", ())
    others = [name.lower().replace("_", "-") for name in names]
    folders = [p for entry in dict.fromkeys(sys.path) if (p := Path(entry or ".") / "ms_custom_ops").is_dir()
               and (p / "__init__.py").is_file() and p.resolve() != ours]  # fmt: skip
    twice = len(set(others)) > 1
    if twice or folders:
        where = ", ".join(map(str, folders)) or ", ".join(sorted(set(others)))
        text = (
            f"another package ms_custom_ops is here ({where}), such as MindSpore's own for Ascend; imported is {ours}."
        )
        yield "bad", "clash", f"{text} To have both: one virtual environment for each"
    else:
        yield "good", "package", f"ms_custom_ops {ms_custom_ops.__version__} at {ours}, the only one of this name"


def _ops() -> Iterator[Line]:
    from ms_custom_ops.registry import packages

    for package in packages():
        broken = package.registry.broken
        text = f"{len(package.registry.ops)} ops in {package.root}"
        yield ("bad" if broken else "good", "ops", text + (f"; broken: {', '.join(broken)}" if broken else ""))


CHECKS: tuple[Callable[[], Iterator[Line]], ...] = (
    _python, _libraries, _engine, _cache, _chips, _cann, _clashes, _ops,
)  # fmt: skip


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """What this environment has: Python, MindSpore, engine, compiler, caches, chips, CANN, packages that clash.

    Exit code 1 when something does not go together.

    \b
    Example:
      ms-custom-ops doctor
    """
    lines = [line for check in CHECKS for line in check()]
    if as_json:
        click.echo(json.dumps([dict(zip(("state", "subject", "text"), line, strict=True)) for line in lines], indent=1))
    else:
        for state, subject, text in lines:
            click.echo(f"{state:<5} {subject:<13} {text}")
    if any(state == "bad" for state, _, _ in lines):
        ctx.exit(1)
