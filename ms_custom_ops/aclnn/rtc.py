# SPDX-License-Identifier: Apache-2.0
"""Compilation at run time for C (csrc/acl/rtc.cc).

A request is fields, each its length, a new line and its bytes: chip, name, source, number of headers, name and text of
each, number of names of templates, these, options. An answer is a status and a log, and the binary.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ms_custom_ops.ascendc import chips
from ms_custom_ops.ascendc import compile as compiler
from ms_custom_ops.ascendc.binary import build_kernels, packed, plain_kernels
from ms_custom_ops.errors import AscendcBuildError, SocError
from ms_custom_ops.soc import get_soc

MARK = b"rtc\n"
INVALID_OPTION = 176002
COMPILATION = 176003
FAILURE = 576000
_ARCH = re.compile(r"--npu-arch=(.*)", re.S)
_CHIPS = {"dav-2201": "Ascend910B1", "dav-2002": "Ascend310P3"}
_SPEED = {"-O0": False, "-O1": True, "-O2": True, "-O3": True}
_DEFINE = re.compile(r"-D([A-Za-z_]\w*(?:=.*)?)", re.S)
_SILENT = re.compile(r"--?std=c\+\+17|-g|-w|-W[\w-]*")
_ACCEPTED = f"--npu-arch={' or '.join(_CHIPS)}, -DNAME[=VALUE], -IFOLDER, -O0 to -O3, -std=c++17, -g, -w, -W..."


class _OptionError(Exception):
    """An option that is not taken."""


def answered(raw: bytes) -> tuple[bytes, bytes]:
    """Status and log, and the binary, of a request without its mark."""
    fields = _fields(raw)
    soc, name, source = (next(fields) for _ in range(3))
    headers = [(os.fsdecode(next(fields)), next(fields)) for _ in range(int(next(fields)))]
    entries = [next(fields).decode(errors="replace") for _ in range(int(next(fields)))]
    options = [option.decode(errors="replace") for option in fields]
    folder = _place(name, source, headers)
    try:
        file = _written(folder, name, source, headers)
        return b"0\n", _compiled(file, entries, options, soc.decode(errors="replace"))
    except _OptionError as error:
        status, log = INVALID_OPTION, str(error)
    except AscendcBuildError as error:
        status, log = COMPILATION, str(error).replace(f"{folder}/", "")
    except (SocError, OSError) as error:
        status, log = FAILURE, str(error)
    return f"{status}\n{log}".encode(errors="replace"), b""


def _fields(raw: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(raw):
        end = raw.index(b"\n", at)
        size = int(raw[at:end])
        yield raw[end + 1 : end + 1 + size]
        at = end + 1 + size


def _compiled(file: Path, entries: Sequence[str], options: Sequence[str], soc: str) -> bytes:
    """Kernels that are no templates, and the templates that were named."""
    chip, macros, folders, optimize = _options(options, soc)
    names = list(dict.fromkeys([*(plain_kernels(file) if not entries else _others(file, entries)), *entries]))
    includes = [file.parent / "headers", *folders]
    return packed(build_kernels([file], names, chip, includes, macros, optimize))


def _others(file: Path, entries: Sequence[str]) -> list[str]:
    try:
        found = plain_kernels(file)
    except AscendcBuildError:  # templates alone, which were named
        return []
    return [name for name in found if name not in entries]


def _place(name: bytes, source: bytes, headers: Sequence[tuple[str, bytes]]) -> Path:
    """The folder of a source and its headers: the same for the same texts, so that their kernels are found again."""
    return compiler.store() / "rtc" / hashlib.sha256(repr((name, source, headers)).encode()).hexdigest()[:32]


def _written(folder: Path, name: bytes, source: bytes, headers: Sequence[tuple[str, bytes]]) -> Path:
    plain = re.sub(r"[^\w.-]", "_", name.decode(errors="replace"))[:100]
    file = folder / (plain if Path(plain).suffix in (".cpp", ".cc", ".cxx", ".cce", ".asc") else f"{plain}.cpp")
    (folder / "headers").mkdir(parents=True, exist_ok=True)
    for path, text in [(file, source), *((folder / "headers" / name, text) for name, text in headers)]:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_bytes(text)
        os.replace(temporary, path)
    return file


def _options(options: Sequence[str], soc: str) -> tuple[str, list[str], list[str], bool]:
    """Chip, definitions, folders, and whether the compiler optimises."""
    chip, optimize = soc, True
    macros: list[str] = []
    folders: list[str] = []
    for option in options:
        if arch := _ARCH.fullmatch(option):
            chip = _chip(arch[1], soc)
        elif define := _DEFINE.fullmatch(option):
            macros.append(define[1])
        elif option.startswith("-I") and Path(option[2:]).is_dir():
            folders.append(option[2:])
        elif option in _SPEED:
            optimize = _SPEED[option]
        elif not _SILENT.fullmatch(option):
            raise _OptionError(f"option is {option!r}; accepted: {_ACCEPTED}")
    return chip, macros, folders, optimize


def _chip(arch: str, soc: str) -> str:
    """The configured chip where it is of the architecture, else a chip of it."""
    if arch not in _CHIPS:
        raise _OptionError(f"option is '--npu-arch={arch}'; accepted: --npu-arch={' or '.join(_CHIPS)}")
    try:
        fits = f"dav-{chips.arch(get_soc(soc))}" == arch
    except SocError:
        fits = False
    return soc if fits else _CHIPS[arch]
