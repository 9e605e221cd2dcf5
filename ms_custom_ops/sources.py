# SPDX-License-Identifier: Apache-2.0
"""The files that decide what a kernel records, and their hash, which is part of a Program's key.

They are the front end (the rooms of this package that a trace runs through), the op's YAML, and every file that the
op's entry and its tiling import, directly or not, inside functions too: within this package, in a user's folder or in
an installed package of ops. Imports are read from the syntax tree, so the key is known before anything is traced; a
trace that loads a module of which the key knows nothing does not reach the disk. Of other installed packages
(NumPy, say) the version counts.

A process hashes an op's files once. What it runs is what it imported: an edit while the process lives takes effect in
the next one, and nothing that was traced after such an edit is written to disk.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import ms_custom_ops
from ms_custom_ops.errors import OpArgumentError, describe

if TYPE_CHECKING:
    from ms_custom_ops.registry.spec import OpSpec

_LIBRARY = "ms_custom_ops"
_OPS = ("ms_custom_ops.op_impl", "ms_custom_ops.tiling")  # packages inside the library that hold ops
# What a trace runs through; tests compare it with what is loaded.
_FRONT_END = ("tik", "program", "soc", "engine", "debug", "registry")
_FRONT_END_FILES = (
    "_version.py",
    "errors.py",
    "mistakes.py",
    "where.py",
    "config.py",
    "compiler.py",
    "sources.py",
    "tuned.py",
)
_IMPORTERS = (b"import_module", b"__import__")
_HASH_DIGITS = 32
_INSTALLED = {"site-packages", "dist-packages", *(Path(sysconfig.get_path(n)).name for n in ("purelib", "platlib"))}
# Digest of a file that was edited when its module may have been loaded already: equal to none, never on disk.
_UNKNOWN = "edited-after-import"


@dataclass(frozen=True)
class Sources:
    """What a kernel's Programs depend on. ``files`` are (path, SHA-256), ``hash`` covers all of it and is the same
    wherever the files lie; ``stamps`` tell whether a file was touched since. ``modules``: name -> file of what entry
    and tiling import, the front end left out."""

    files: tuple[tuple[Path, str], ...]
    hash: str
    stamps: tuple[tuple[int, ...], ...]
    modules: Mapping[str, Path] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether what this process imports is what was hashed: no file was edited since the process began."""
        return all(digest != _UNKNOWN for _, digest in self.files) and self.stamps == tuple(
            _stamp(path) for path, _ in self.files
        )

    def strangers(self, loaded: Iterable[str]) -> list[str]:
        """Those of the module names ``loaded`` that come from files the hash should cover and does not."""
        known = {os.path.realpath(path) for path, _ in self.files}
        return sorted(name for name in loaded if (file := _own_file(name)) and os.path.realpath(file) not in known)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _own_file(name: str) -> str | None:
    """File of a loaded module that is neither Python's, nor an installed package's, nor this library's own."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if not file or (_is_library(name) and not name.startswith(_OPS)) or _foreign(name.partition(".")[0], file):
        return None
    return file


def _is_library(name: str) -> bool:
    return name.partition(".")[0] == _LIBRARY


def _foreign(top: str, file: str) -> bool:
    return top in sys.stdlib_module_names or (not _is_library(top) and not _INSTALLED.isdisjoint(Path(file).parts))


def _find(name: str) -> ModuleSpec | None:
    """Spec of a module as an import would find it, without importing anything, its parents neither."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if spec is not None and not name.startswith("__main__"):
        return spec
    if isinstance(module, ModuleType) and hasattr(module, "__path__"):
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = list(module.__path__)
        return spec
    parent = name.rpartition(".")[0]
    above = _find(parent) if parent else None
    if parent and (above is None or above.submodule_search_locations is None):
        return None
    path = above.submodule_search_locations if above else None
    for finder in sys.meta_path:
        found = finder.find_spec(name, path)
        if found is not None:
            return found
    return None


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement below ``tree``, expressions left out: they are most of a file and import nothing."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, part, ())
            if isinstance(below, list):  # the body of an if-expression is none
                pending += below


@functools.lru_cache(maxsize=4096)
def _imports(text: bytes, path: str) -> tuple[tuple[tuple[int, str, tuple[str, ...]], ...], bool]:
    """Import statements of a file as (level, module, names), and whether it also imports by computed names."""
    found: list[tuple[int, str, tuple[str, ...]]] = []
    computed = False
    by_name = any(name in text for name in _IMPORTERS)
    tree = ast.parse(text, path)
    for node in ast.walk(tree) if by_name else _statements(tree):
        if isinstance(node, ast.Import):
            found += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called.encode() in _IMPORTERS:
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant) and isinstance(first.value, str) and not first.value.startswith("."):
                    found.append((0, first.value, ()))
                else:
                    computed = True
    return tuple(found), computed


class _Closure:
    """Walks imports from a few modules; ``files`` is label -> path, ``versions`` package -> version."""

    def __init__(self, roots: Iterable[str]):
        self._tops = {root.partition(".")[0] for root in roots}
        self._seen: set[str] = set()
        self.files: dict[str, Path] = {}
        self.versions: dict[str, str] = {}
        self.read: dict[Path, tuple[tuple[int, ...], bytes]] = {}  # stamp taken before the text

    def add(self, name: str) -> bool:
        """Follows the module ``name`` and the packages above it; False when there is none."""
        top, _, rest = name.partition(".")
        if top in sys.stdlib_module_names or top in self.versions:
            return True
        parent = name.rpartition(".")[0]
        if name in self._seen:
            return True
        if parent and not self.add(parent):
            return False
        spec = _find(name)
        if spec is None:
            return False
        if top not in self._tops and _foreign(top, spec.origin or ""):
            self.versions[top] = _version(top, spec)
            return True
        self._seen.add(name)
        if spec.has_location and spec.origin:
            self._file(name, spec, Path(spec.origin))
        return True

    def _file(self, name: str, spec: ModuleSpec, path: Path) -> None:
        self.files[name] = path
        # The front end is hashed as a whole; the package's own __init__ names every part of the library.
        if path.suffix != ".py" or name == _LIBRARY or _in_front_end(name):
            return
        self.read[path] = _, text = _taken(path)
        try:
            statements, computed = _imports(text, str(path))
        except (SyntaxError, ValueError):
            return  # the import will say it, with Python's own text
        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        for level, module, names in statements:
            base = module
            if level:
                above = package.split(".")
                base = ".".join([*above[: len(above) - level + 1], *([module] if module else [])])
            if base and self.add(base):
                for each in names:
                    self.add(f"{base}.{each}")
        if computed:
            self._everything_beside(name, path)

    def _everything_beside(self, name: str, path: Path) -> None:
        """A file that imports computed names may import any file of its packages."""
        folders = [path.parent]
        for top in _OPS if _is_library(name) else (name.partition(".")[0],):
            spec = _find(top)
            folders += map(Path, (spec.submodule_search_locations if spec else None) or ())
        lone = "." not in name and len(folders) == 1
        for folder in folders:
            for each in sorted(folder.glob("*.py") if lone else folder.rglob("*.py")):
                self.files.setdefault(f"{folder.name}/{each.relative_to(folder).as_posix()}", each)


def _in_front_end(name: str) -> bool:
    return _is_library(name) and (name + "..").split(".")[1] in _FRONT_END


@functools.cache
def _distributions() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


def _version(top: str, spec: ModuleSpec) -> str:
    """Version of the installed package of module ``top``; what its file looks like where it has none."""
    try:
        return importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:
        pass
    names = sorted(set(_distributions().get(top, ())))
    if names:
        return " ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    return " ".join(map(str, _stamp(Path(spec.origin or "")))) or "unknown"


def read(path: Path) -> bytes:
    """Bytes of a source."""
    return path.read_bytes()


@functools.cache
def _front_end() -> dict[str, tuple[Path, tuple[int, ...], bytes]]:
    """The front end as label -> (path, stamp, text)."""
    package = Path(__file__).resolve().parent
    paths = [path for room in _FRONT_END for path in (package / room).rglob("*.py")]
    paths += [package / name for name in _FRONT_END_FILES]
    return {path.relative_to(package).as_posix(): (path, *_taken(path)) for path in paths}


def _taken(path: Path) -> tuple[tuple[int, ...], bytes]:
    """Stamp and text; an edit between the two shows as one after both."""
    return _stamp(path), read(path)


def _loaded_files() -> set[str]:
    return {os.path.realpath(file) for m in list(sys.modules.values()) if (file := getattr(m, "__file__", None))}


def _edited(stamps: Mapping[Path, tuple[int, ...]]) -> set[Path]:
    """Files that are younger than this process's import of the library and whose module is loaded: the text that was
    loaded is then gone."""
    young = {path for path, stamp in stamps.items() if stamp and max(stamp[2:]) > ms_custom_ops.IMPORTED_NS}
    loaded = _loaded_files() if young else set()
    return {path for path in young if os.path.realpath(path) in loaded}


_known: dict[int, tuple[OpSpec, Sources]] = {}


def sources_of(spec: OpSpec) -> Sources:
    """The sources of ``spec``, hashed at the first call in a process.

    Raises:
        OpArgumentError: the module of the entry or of the tiling cannot be found.
    """
    known = _known.get(id(spec))
    if known is None:
        known = _known[id(spec)] = spec, _collect(spec)
    return known[1]


def _collect(spec: OpSpec) -> Sources:
    roots = [spec.impl.entry.partition(":")[0], spec.impl.tiling]
    closure = _Closure(roots)
    for root in roots:
        if not closure.add(root) or root not in closure.files:
            raise OpArgumentError(
                describe(spec.name, "impl in the op_info file", root, "a module that can be imported")
            )
    yaml = Path(spec.location.rpartition(":")[0])
    labelled = {**_front_end(), f"op_info/{yaml.name}": (yaml, *_taken(yaml))}
    for label, path in closure.files.items():
        labelled[label] = path, *(closure.read.get(path) or _taken(path))
    stamps = {path: stamp for path, stamp, _ in labelled.values()}
    edited = _edited(stamps)
    digests: dict[Path, str] = {}
    lines = [f"{version} {package}" for package, version in sorted(closure.versions.items())]
    lines.append(repr(spec.raw))  # a gradient op has parts of its forward op's entry, which may stand in another file
    for label, (path, _, text) in sorted(labelled.items()):
        digests[path] = _UNKNOWN if path in edited else hashlib.sha256(text).hexdigest()
        lines.append(f"{digests[path]} {label}")
    if edited:
        lines.append(os.urandom(16).hex())
    whole = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_HASH_DIGITS]
    return Sources(tuple(digests.items()), whole, tuple(stamps[path] for path in digests), dict(closure.files))
