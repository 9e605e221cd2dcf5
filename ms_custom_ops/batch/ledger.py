# SPDX-License-Identifier: Apache-2.0
"""What the last ``compile`` into a folder depended on, so that the next one finds out by looking at files alone.

A ledger stands beside the Programs: what was asked for, the size and times of every file that had a say, the size of
every file that was made, and what was said in the end. Where all of it is as it was, nothing is to be done. A ledger
that differs, is damaged or missing costs a look: ``compile`` then goes through the registry as without one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ms_custom_ops._version import __version__

LEDGER = "ledger.json"
_FORM = 1
_DISTRIBUTIONS = (".dist-info", ".egg-info", ".egg-link", ".pth")  # what tells of installed packages, and of their ops
_ENVIRONMENT = ("MS_CUSTOM_OPS_", "ASCEND_")
_TICK_NS, _WHOLE_NS = 50_000_000, 2_000_000_000  # how coarse the times of files are, and those of whole seconds


@dataclass
class Inputs:
    """What an outcome depends on: whole folders, and single files that may be absent."""

    trees: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)


def asked(**what: Any) -> str:
    """Digest of what was asked for, and of the process that is asked."""
    environment = sorted((k, v) for k, v in os.environ.items() if k.startswith(_ENVIRONMENT))
    everything = [_FORM, __version__, sys.version, sys.path, environment, sorted(what.items())]
    return hashlib.sha256(json.dumps(everything, default=str).encode()).hexdigest()


def find(folder: Path, question: str) -> dict[str, Any] | None:
    """What was said at the end of the same compilation, when all is as it was then; its Programs count as used."""
    try:
        ledger = json.loads((folder / LEDGER).read_bytes())
        if ledger["asked"] != question:
            return None
        if _digest(ledger["trees"], ledger["files"], None) != ledger["digest"]:
            return None
        said, made = dict(ledger["said"]), dict(ledger["made"])
        if any(os.lstat(folder / name).st_size != size for name, size in made.items()):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    for name in made:
        with contextlib.suppress(OSError):  # a folder that is read-only costs recency alone
            os.utime(folder / name, follow_symlinks=False)
    return said


def write(
    folder: Path, question: str, inputs: Inputs, made: Iterable[str], said: Mapping[str, Any], began_ns: int
) -> None:
    """Keeps what ``find`` is to look at; nothing where an input may have changed since ``began_ns``."""
    path = folder / LEDGER
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        sides = {name: sorted(paths) for name, paths in asdict(inputs).items()}
        digest = _digest(sides["trees"], sides["files"], began_ns)
        if digest is None:
            return
        sizes = {name: os.lstat(folder / name).st_size for name in sorted(made)}
        text = json.dumps({"asked": question, **sides, "digest": digest, "made": sizes, "said": said})
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)


def _digest(trees: Iterable[str], files: Iterable[str], began_ns: int | None) -> str | None:
    """Of the inputs as they are; None where one may be younger than ``began_ns``."""
    whole = hashlib.sha256()
    for name, status in _inputs(trees, files):
        if status is None:
            whole.update(f"{name}\0-\n".encode(errors="surrogateescape"))
            continue
        times = status.st_mtime_ns, status.st_ctime_ns
        if began_ns is not None and any(_is_young(time, began_ns) for time in times):
            return None
        whole.update(f"{name}\0{status.st_size} {times}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


def _is_young(time_ns: int, began_ns: int) -> bool:
    return time_ns > began_ns - (_TICK_NS if time_ns % 1_000_000_000 else _WHOLE_NS)


def _inputs(trees: Iterable[str], files: Iterable[str]) -> Iterator[tuple[str, os.stat_result | None]]:
    for tree in trees:
        yield from _below(tree)
    for path in files:
        try:
            yield path, os.stat(path)
        except OSError:
            yield path, None
    for folder in sys.path:
        with contextlib.suppress(OSError), os.scandir(folder or os.curdir) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.endswith(_DISTRIBUTIONS):
                    yield entry.path, entry.stat()


def _below(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Files below a folder, bytecode and hidden ones left out."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name == "__pycache__" or entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from _below(entry.path)
            else:
                yield entry.path, entry.stat()
