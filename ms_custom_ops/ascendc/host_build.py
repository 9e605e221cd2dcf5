# SPDX-License-Identifier: Apache-2.0
"""Compiles the op_host of a project. Objects are kept by the content of what made them, the runtime's too."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ms_custom_ops.ascendc import compile as compiler
from ms_custom_ops.ascendc import diagnostics
from ms_custom_ops.ascendc.compile import host_include_folder
from ms_custom_ops.errors import AscendcBuildError

FLAGS = ("-std=c++17", "-O1", "-g1", "-fPIC", "-pthread", "-fno-strict-aliasing", "-w", "-Wno-narrowing")
_RUNTIME = "host.cc"  # once for a cache; what it does is done once for a form of a call, so it is built fast
_RUNTIME_FLAGS = ("-O0",)
_VARIANTS = 4


@functools.cache
def _identity() -> str:
    """Of compiler and headers: a change of one of them makes every object stale."""
    path = os.path.realpath(compiler.compiler())
    stat = os.stat(path)
    found = hashlib.sha256(f"{path} {stat.st_size} {stat.st_mtime_ns}".encode())
    for file in sorted(host_include_folder().rglob("*")):
        if file.is_file():
            found.update(str(file.relative_to(host_include_folder())).encode() + file.read_bytes())
    return found.hexdigest()


@functools.cache
def _flags() -> tuple[str, ...]:
    """Flags of every object. Of GNU's compiler one more: what an inline function keeps is each library's own."""
    told = subprocess.run([compiler.compiler(), "--version"], capture_output=True, text=True, errors="replace").stdout
    return FLAGS if "clang" in told else (*FLAGS, "-fno-gnu-unique")


def build_host(
    sources: Sequence[Path], folders: Sequence[Path], defines: Sequence[str] = (), needed: Callable[[Path], bool] = bool
) -> tuple[Path, dict[Path, AscendcBuildError]]:
    """The library of ``sources``, and the errors of those that the compiler refuses and the others do not need.

    AscendcBuildError where a source that is ``needed`` does not compile, or none does: first the user's line at fault,
    then what the compiler said.
    """
    runtime = host_include_folder() / "mco_host" / _RUNTIME
    failed: dict[Path, AscendcBuildError] = {}

    def compiled(source: Path) -> Path | None:
        if source == runtime:
            return _object(source, (), (), _RUNTIME_FLAGS)
        try:
            return _object(source, folders, defines)
        except AscendcBuildError as error:
            if needed(source):
                raise
            failed[source] = error
            return None

    with ThreadPoolExecutor(2) as pool:
        objects = [made for made in pool.map(compiled, [runtime, *sources]) if made is not None]
    if failed and len(failed) == len(sources):
        raise failed[sources[0]]
    name = hashlib.sha256(" ".join(str(path) for path in objects).encode()).hexdigest()[:32]
    library = compiler.store() / f"host_{name}" / "op_host.so"
    if library.is_file():
        return library, failed
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        made = Path(scratch) / "op_host.so"
        link = ["-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined", *map(str, objects), "-pthread", "-ldl"]
        _run([compiler.compiler(), *link, "-o", str(made)], sources, folders)
        os.replace(made, library)
    return library, failed


def _object(source: Path, folders: Sequence[Path], defines: Sequence[str], more: Sequence[str] = ()) -> Path:
    """The object of one source, out of the cache where nothing that it includes has changed."""
    own = (str(source), [str(folder) for folder in folders], list(defines), list(more))
    folder = compiler.store() / f"host_{hashlib.sha256(repr((own, _flags(), _identity())).encode()).hexdigest()[:32]}"
    for record in _records(folder):
        made = folder / record["object"]
        if made.is_file() and all(_digest(path) == digest for path, digest in record["files"].items()):
            return made
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "host.o"
        includes = [f"-I{path}" for path in (source.parent, *folders, host_include_folder())]
        command = [compiler.compiler(), *_flags(), *more, *(f"-D{text}" for text in defines), *includes]
        _run([*command, "-MMD", "-c", str(source), "-o", str(made)], [source], folders)
        files = {str(p): _digest(str(p)) for p in compiler.dependencies(made.with_suffix(".d"))}
        kept = folder / f"{hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()[:16]}.o"
        os.replace(made, kept)
    records = [{"object": kept.name, "files": files}, *(r for r in _records(folder) if r["object"] != kept.name)]
    temporary = folder / f"builds.{os.getpid()}.json"
    temporary.write_text(json.dumps(records[:_VARIANTS]))
    os.replace(temporary, folder / "builds.json")
    return kept


def _records(folder: Path) -> list[dict]:
    try:
        return json.loads((folder / "builds.json").read_text())
    except (OSError, ValueError):
        return []


@functools.lru_cache(maxsize=4096)
def _digest_of(path: str, size: int, changed: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _digest(path: str) -> str:
    try:
        stat = os.stat(path)
        return _digest_of(path, stat.st_size, stat.st_mtime_ns)
    except OSError:
        return ""


def _run(command: list[str], sources: Sequence[Path], folders: Sequence[Path]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if result.returncode:
        raise AscendcBuildError(diagnostics.readable(result.stderr, [*sources, *folders], host_include_folder()))
