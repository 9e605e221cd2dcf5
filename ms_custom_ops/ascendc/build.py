# SPDX-License-Identifier: Apache-2.0
"""From Ascend C sources to a kernel that can be called."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from ms_custom_ops.ascendc import compile as compiler
from ms_custom_ops.ascendc import rewrite, tiling, variants
from ms_custom_ops.ascendc.chips import chip_flags
from ms_custom_ops.ascendc.kernel import Kernel, load
from ms_custom_ops.errors import AscendcBuildError, describe
from ms_custom_ops.soc import current_soc, get_soc
from ms_custom_ops.soc.table import Soc

_HEADERS = {".h", ".hpp", ".hh", ".inc", ".cuh"}
_DEFINE = re.compile(r"[A-Za-z_]\w*(\([^)]*\))?(=.*)?", re.S)
_KEY = re.compile(r"\s*(0[xX][0-9a-fA-F]+|[1-9]\d*|0)[uUlL]*\s*")
_DEFAULT_STRUCT = re.compile(r"\bREGISTER_TILING_DEFAULT\s*\(\s*([\w:]+)\s*\)")
_GET_TILING = re.compile(r"\bGET_TILING_DATA\s*\(")

Source = str | os.PathLike


def build(
    sources: Source | Sequence[Source],
    entry: str | None = None,
    soc: str | None = None,
    include_dirs: Source | Iterable[Source] = (),
    defines: str | Iterable[str] = (),
    optimize: bool = True,
) -> Kernel:
    """Kernel ``entry`` of Ascend C ``sources``.

    ``sources``: one path or several, of which one defines ``entry`` and the others are compiled with it; headers among
    them are included first, and a header of the host with BEGIN_TILING_DATA_DEF gives the kernel its structs.
    ``entry``: name of the ``__global__`` function, with its namespace and template arguments if it has any; None takes
    the only one of the sources. ``soc``: a chip of :func:`ms_custom_ops.soc.list_socs`, None the current one.
    ``defines``: "NAME" or "NAME=VALUE" each. ``optimize`` False builds long generated sources in a tenth of the time;
    the scalar code of the result is slower. The result of an earlier build of the same text is taken from the cache
    folder. Raises AscendcBuildError: first the user's line at fault, then what the compiler said.
    """
    started = time.perf_counter()
    chip = get_soc(soc) if soc is not None else current_soc()
    files, headers = _files(sources)
    folders = [_folder(folder) for folder in ([include_dirs] if isinstance(include_dirs, str | os.PathLike)
                                              else include_dirs)]  # fmt: skip
    macros = [_define(text) for text in ([defines] if isinstance(defines, str) else defines)]
    texts = {path: path.read_text(errors="replace") for path in files}
    name, home = _find_entry(entry, texts, macros)
    folders += [path.parent for path in files if path.parent not in folders]
    unit = compiler.Unit(
        entry=name,
        source=home,
        others=tuple(path for path in files if path != home),
        prologue=tiling.prologue(headers),
        folders=tuple(folders),
        flags=(
            *chip_flags(chip),
            *_host_flags(chip, texts.values()),
            *_cores_flag(name, texts[home]),
            *(f"-D{text}" for text in (*macros, *_struct_of_key(texts[home], macros))),
            *(("-DMCO_ASC_ONE_ENTRY",) if _one_entry(files, texts.values()) else ()),
            *(() if optimize else ("-O0",)),
        ),
        twice=any(rewrite.splits_by_core(text) for text in texts.values()),
    )
    libraries, cached = compiler.compiled(unit)
    return load(name, libraries, chip, cached=cached, seconds=time.perf_counter() - started)


def _cores_flag(entry: str, text: str) -> list[str]:
    """The cores that the entry is declared for; without, they follow from what it calls."""
    name = re.sub(r"<.*>$", "", entry, flags=re.S).split("::")[-1].strip()
    try:
        cores = rewrite.declared_cores(rewrite.without_comments(text), name)
    except ValueError as mix:
        accepted = "__mix__(1, 0), __mix__(0, 1), __mix__(1, 1) or __mix__(1, 2): cube cores, vector cores"
        raise AscendcBuildError(describe("ascendc.build", f"declaration of {name}", mix, accepted)) from None
    return [f"-DMCO_ASC_CORES={cores}"] if cores else []


def _struct_of_key(text: str, defines: Sequence[str]) -> list[str]:
    """The define for the structure that GET_TILING_DATA reads, where a source registers structures by tiling key.

    The type of a variable is the compiler's to know, so a build is for one key; a project builds one for each.
    """
    bare = rewrite.without_comments(text)
    by_key = variants.registered_by_key(bare)
    given = dict(define.partition("=")[::2] for define in defines)
    if not by_key or "MCO_ASC_STRUCT_OF_KEY" in given:
        return []
    key = _KEY.fullmatch(given.get("TILING_KEY_VAR", ""))
    if key is not None:
        struct = variants.struct_of("ascendc.build", by_key, int(key[1], 0))
        return [f"MCO_ASC_STRUCT_OF_KEY={struct}"] if struct is not None else []
    if {name for _, name in by_key} != set(_DEFAULT_STRUCT.findall(bare)) and _GET_TILING.search(bare):
        named = f"{', '.join(name for _, name in by_key)} by key, in a build for no key"
        accepted = 'defines="TILING_KEY_VAR=1", a build for the one key that calls take with tiling_key='
        raise AscendcBuildError(describe("ascendc.build", "REGISTER_TILING_FOR_TILINGKEY", named, accepted))
    return []


def _one_entry(files: Sequence[Path], texts: Iterable[str]) -> bool:
    """Whether the other kernels of a source may be left out: no other source calls them, and none is inline already."""
    return len(files) == 1 and not any(rewrite.has_inline_entry(text) for text in texts)


def _host_flags(chip: Soc, texts: Iterable[str]) -> list[str]:
    """The chip of programs that ask for it; others do not depend on the name."""
    asks = any("PlatformAscendCManager" in text for text in texts)
    return [f'-DMCO_HOST_SOC="{chip.name}"'] if asks else []


def _files(sources: Source | Sequence[Source]) -> tuple[list[Path], list[Path]]:
    """Sources to compile, and headers that come first."""
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    paths = [Path(path).absolute() for path in given]
    for path in paths:
        if not path.is_file():
            raise AscendcBuildError(describe("ascendc.build", "source", str(path), "a file that exists"))
    files = [path for path in paths if path.suffix not in _HEADERS]
    if not files:
        raise AscendcBuildError(
            describe("ascendc.build", "sources", [str(p) for p in given], "at least one .cpp, .cce or .asc file")
        )
    return files, [path for path in paths if path.suffix in _HEADERS]


def _folder(folder: Source) -> Path:
    path = Path(folder).absolute()
    if not path.is_dir():
        raise AscendcBuildError(describe("ascendc.build", "include folder", str(path), "a folder that exists"))
    return path


def _define(text: str) -> str:
    if not isinstance(text, str) or not _DEFINE.fullmatch(text):
        raise AscendcBuildError(describe("ascendc.build", "define", repr(text), '"NAME" or "NAME=VALUE"'))
    return text


def _find_entry(entry: str | None, texts: dict[Path, str], defines: Sequence[str] = ()) -> tuple[str, Path]:
    """The entry and the file that defines it."""
    bare = {path: rewrite.without_comments(text) for path, text in texts.items()}
    functions = {path: rewrite.global_functions(text) for path, text in bare.items()}
    macros = {name for text in bare.values() for name in rewrite.function_macros(text)}
    found = {path: [name for name in listed if name not in macros] for path, listed in functions.items()}
    stamped = {path for path, listed in functions.items() if macros & set(listed)}
    names = [name for listed in found.values() for name in listed]
    if entry is None:
        if not names:
            given, accepted = f"none in {', '.join(map(str, texts))}", "a __global__ __aicore__ function, or its name"
            raise AscendcBuildError(describe("ascendc.build", "entry", given, accepted))
        if len(set(names)) != 1:
            raise AscendcBuildError(describe("ascendc.build", "entry", None, f"one of {sorted(set(names))}"))
        entry = names[0]
    last = re.sub(r"<.*>$", "", entry, flags=re.S).split("::")[-1].strip()
    for path, listed in found.items():
        if last in listed:
            return entry, path
    for path, listed in found.items():
        if any(f"{name}={last}" in defines for name in listed):  # GDN_KERNEL=gdn and void GDN_KERNEL(...)
            return entry, path
    if not re.fullmatch(r"[A-Za-z_]\w*", last):
        raise AscendcBuildError(describe("ascendc.build", "entry", repr(entry), "the name of a function"))
    word = re.compile(rf"\b{last}\b|__global__[^;{{]*##")  # in a header, or stamped out by a macro
    holding = [path for path, text in bare.items() if word.search(text) or path in stamped]
    if holding or (len(texts) == 1 and not names):
        return entry, (holding or list(texts))[0]
    accepted = f"one of {sorted(set(names))}" if names else "a __global__ function of the sources"
    raise AscendcBuildError(describe("ascendc.build", "entry", repr(entry), accepted))
