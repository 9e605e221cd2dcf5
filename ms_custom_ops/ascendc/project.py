# SPDX-License-Identifier: Apache-2.0
"""Whole Ascend C projects: op_host and op_kernel, in the layout of msopgen or of MindSpore's ms_custom_ops."""

from __future__ import annotations

import functools
import os
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ms_custom_ops.ascendc.host import HostLibrary
from ms_custom_ops.ascendc.host_build import build_host
from ms_custom_ops.ascendc.op import AscendcOp
from ms_custom_ops.ascendc.rewrite import global_functions, without_comments
from ms_custom_ops.errors import AscendcBuildError, AscendcError, describe
from ms_custom_ops.soc import current_soc, get_soc
from ms_custom_ops.soc.table import Soc

_SOURCES = (".cpp", ".cc", ".cxx")
_NOT_OURS = re.compile(r"\.|build|out$|tests?$|__")  # folders that hold no sources of the ops
_OP_ADD = re.compile(r"\bOP_ADD\s*\(\s*(\w+)")
_OF_HOST = re.compile(r"\b(?:OP_ADD|IMPL_OP\w*|gert|optiling)\b")
_OPTIONS = re.compile(r"\badd_ops_compile_options\s*\(\s*(?:OP_NAME\s+)?(\w+)\b([^()]*)\)")
_BLOCK = re.compile(r"^[ \t]*if\s*\(.*?^[ \t]*endif\s*\(", re.S | re.M)  # what the build decides
_COMMON = ("include", "inc", "utils/inc", "common", "common/inc", "common/include")
_MOST_ABOVE = 8  # folders of a checkout above the project
_MOST_FOLDERS = 20000


def load_project(
    folder: str | os.PathLike,
    soc: str | None = None,
    include_dirs: Iterable[str | os.PathLike] = (),
    defines: Iterable[str] = (),
    optimize: bool = True,
) -> Project:
    """The ops of the project in ``folder``.

    ``folder`` holds ``op_host`` and ``op_kernel``, itself or in folders of its own (one for each op). Of an ``op_host``
    the sources directly in it are compiled, with this project's headers for the vendor's names. ``soc``: a chip of
    :func:`ms_custom_ops.soc.list_socs`, None the current one; ``include_dirs`` and ``defines`` ("NAME=VALUE") are for
    both sides; ``optimize`` is that of :func:`build`.

    Where there is one ``op_host`` it is compiled now; of several, each when one of its ops is first asked for. Raises
    AscendcBuildError: no ``op_host``, or the line the compiler refuses; where other sources compile, that is a warning,
    and an error when one of the ops of that source is asked for.
    """
    root = Path(folder).absolute()
    chip = get_soc(soc) if soc is not None else current_soc()
    hosts = _hosts(root)
    if not hosts:
        accepted = "a folder with op_host/*.cpp in it or below, or with sources that have OP_ADD"
        raise AscendcBuildError(describe("ascendc.load_project", "folder", str(root), accepted))
    folders = [Path(path).absolute() for path in include_dirs]
    project = Project(root, chip, [_Group(root, host, folders, tuple(defines), chip, optimize) for host in hosts])
    if len(hosts) == 1:
        project.all()
    return project


def _hosts(root: Path) -> list[Path]:
    """The op_host folders at or below ``root``, those with sources; where there are none, those whose sources have
    OP_ADD, beside the kernels."""
    found, flat = [], []
    for count, (at, names, files) in enumerate(os.walk(root)):
        if count > _MOST_FOLDERS:
            accepted = f"at most {_MOST_FOLDERS} folders"
            raise AscendcBuildError(describe("ascendc.load_project", "folder", f"{root} with more folders", accepted))
        path = Path(at)
        if path.name == "op_host":
            if any(file.endswith(_SOURCES) for file in files):
                found.append(path)
            names.clear()
        names[:] = sorted(name for name in names if not _NOT_OURS.match(name))
        if not found and any(_OP_ADD.search(_bare(path / file)) for file in files if file.endswith(_SOURCES)):
            flat.append(path)
    return found or flat


def _bare(path: Path) -> str:
    return without_comments(path.read_text(errors="replace"))


class _Group:
    """The ops of one op_host folder."""

    def __init__(self, root: Path, host: Path, folders: Sequence[Path], defines: tuple[str, ...], chip: Soc,
                 optimize: bool = True):  # fmt: skip
        self.root, self.folder, self.defines, self.chip = root, host, defines, chip
        self.optimize = optimize
        sources = sorted(path for path in host.iterdir() if path.suffix in _SOURCES)
        if host.name != "op_host":  # kernels and programs are there too
            texts = {path: _bare(path) for path in sources}
            sources = [path for path, text in texts.items() if _OF_HOST.search(text) and not global_functions(text)]
        self.sources = sources
        self.folders = [*folders, *self._around(host)]
        self._lock = threading.Lock()

    def _around(self, host: Path) -> list[Path]:
        """Folders that includes of the group may start at: those above it, to two above the root, or to the top of the
        checkout it is in."""
        above_root = [self.root, *self.root.parents][:_MOST_ABOVE]
        stop = next((path for path in above_root if (path / ".git").exists()), self.root.parent.parent)
        if self.root.parent.parent in stop.parents:  # a checkout of the project alone
            stop = self.root.parent.parent
        above = [path for path in host.parents if path == stop or stop in path.parents]
        usual = [path / name for path in above for name in _COMMON]
        # The build for the chip puts the kernels of all ops into one folder: they include each other's headers.
        kernels = [path for top in (self.root, self.root.parent) for path in sorted(top.glob("*/op_kernel"))]
        return [host.parent / "op_kernel", *above, *usual, *kernels]

    @functools.cached_property
    def _by_source(self) -> dict[Path, list[str]]:
        return {path: _OP_ADD.findall(_bare(path)) for path in self.sources}

    @property
    def names(self) -> list[str]:
        """Ops that the sources define, as far as their text says so."""
        return [name for names in self._by_source.values() for name in names]

    @functools.cached_property
    def _built(self) -> tuple[dict[str, AscendcOp], dict[str, AscendcBuildError]]:
        """The ops, and the errors of those whose source the compiler refuses; a source without ops is needed by all."""
        with self._lock:
            folders = [path for path in self.folders if path.is_dir()]
            path, failed = build_host(
                self.sources, folders, self.defines, lambda source: not self._by_source.get(source)
            )
            library = HostLibrary(path)
            ops = {
                name: AscendcOp(
                    library, op, self.chip, self._kernel(op.entry), folders, self._defines(name), self.optimize
                )  # fmt: skip
                for name, op in library.ops.items()
            }
            for source, error in failed.items():
                ops_there = ", ".join(self._by_source[source])
                text = f"{ops_there} cannot be used: {str(error).splitlines()[0]}"
                warnings.warn(text, RuntimeWarning, stacklevel=4)
            return ops, {name: error for source, error in failed.items() for name in self._by_source[source]}

    @property
    def ops(self) -> dict[str, AscendcOp]:
        """The ops that can be used, compiled."""
        return self._built[0]

    def get(self, name: str) -> AscendcOp | None:
        """The op, or None where this folder has none of that name; AscendcBuildError where its source is at fault."""
        if name not in self.names:
            return None
        ops, broken = self._built
        if name in broken:
            raise broken[name]
        return ops.get(name)

    def _defines(self, op: str) -> tuple[str, ...]:
        """Those that were given, and those that the build files of the folders compile the kernel of an op with."""
        found = []
        for folder in (self.folder, self.folder.parent / "op_kernel"):
            path = folder / "CMakeLists.txt"
            text = re.sub(r"#[^\n]*", "", path.read_text(errors="replace")) if path.is_file() else ""
            for name, options in _OPTIONS.findall(_BLOCK.sub("", text)):
                if name in (op, "ALL"):
                    found += re.findall(r"(?<!\S)-D([A-Za-z_]\w*(?:=[^\s$\"']*)?)(?!\S)", options)
        given = {text.partition("=")[0] for text in self.defines}
        return (*self.defines, *(text for text in found if text.partition("=")[0] not in given))

    def _kernel(self, entry: str) -> Path | None:
        """The source of a kernel: beside op_host, else anywhere in the project; by its name, else by its function."""
        beside = self.folder.parent / "op_kernel" if self.folder.name == "op_host" else self.folder
        places = [*beside.rglob(f"{entry}.cpp"), *self.root.rglob(f"op_kernel/**/{entry}.cpp")]
        places = [path for path in places if path not in self.sources]
        if not places:
            inside = sorted(path for path in beside.rglob("*.cpp") if path not in self.sources)
            places = [path for path in inside if entry in global_functions(_bare(path))]
        return min(places, key=lambda path: (beside not in path.parents, len(path.parts), path), default=None)


class Project(Mapping[str, AscendcOp]):
    """Ops by the name of their OpDef. ``folder`` and ``soc`` are those it was loaded with."""

    def __init__(self, folder: Path, soc: Soc, groups: Sequence[_Group]):
        self.folder, self.soc, self._groups = folder, soc.name, groups

    def all(self) -> dict[str, AscendcOp]:
        """Every op, compiled."""
        ops: dict[str, AscendcOp] = {}
        for group in self._groups:
            for name, op in group.ops.items():
                if name in ops:
                    places = f"twice, in {ops[name].definition.file} and {op.definition.file}"
                    raise AscendcError(describe("ascendc.load_project", f"op {name}", places, "one definition"))
                ops[name] = op
        return ops

    def __getitem__(self, name: str) -> AscendcOp:
        """The op; AscendcError with the names there are for another one."""
        for group in self._groups:
            if (op := group.get(name)) is not None:
                return op
        ops = self.all()
        if name not in ops:
            raise AscendcError(describe(str(self.folder), "op", repr(name), ", ".join(sorted(ops)) or "no op is there"))
        return ops[name]

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def __iter__(self) -> Iterator[str]:
        listed = {name: None for group in self._groups for name in group.names}
        return iter(listed or self.all())

    def __len__(self) -> int:
        return len(set(self))

    def __repr__(self) -> str:
        return f"Project({str(self.folder)!r}, soc={self.soc!r}: {', '.join(self)})"
