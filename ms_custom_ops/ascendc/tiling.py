# SPDX-License-Identifier: Apache-2.0
"""The structs of tiling data: what the macros of a host header mean for the kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ms_custom_ops.ascendc.rewrite import without_comments
from ms_custom_ops.errors import AscendcBuildError, describe

_BEGIN = re.compile(r"\bBEGIN_TILING_DATA_DEF\s*\(\s*(\w+)\s*\)(.*?)\bEND_TILING_DATA_DEF\b", re.S)
_FIELD = re.compile(r"\bTILING_DATA_FIELD_DEF(_ARR|_STRUCT)?\s*\(([^()]*)\)")
_CONSTANT = re.compile(
    r"\b(?:constexpr|const)\s+(?:static\s+)?[\w:]+\s+(\w+)\s*(?:=\s*([^;{}]+)|\{([^;{}]+)\})\s*;"
    r"|^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]+)$",
    re.M,
)
_REGISTER = re.compile(r"\bREGISTER_TILING_DATA_CLASS\s*\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
_NESTED = 4  # constants that are made of others
DEFAULT = "TILING_STRUCT_OF_A_HOST_HEADER_GIVEN_TO_BUILD"  # the name shows up in an error of GET_TILING_DATA


def has_structs(text: str) -> bool:
    """Whether a header defines tiling data by the macros of the host."""
    return _BEGIN.search(without_comments(text)) is not None


def prologue(headers: Sequence[Path]) -> str:
    """C++ text that comes before the sources: plain structs for headers with tiling data, includes of the others."""
    lines: list[str] = []
    names: list[str] = []
    fields_of: set[str] = set()
    registered: list[tuple[str, str]] = []
    for header in headers:
        text = without_comments(header.read_text(errors="replace"))
        if not _BEGIN.search(text):
            lines.append(f'#include "{header}"')
            continue
        constants = _constants(text)
        for struct in _BEGIN.finditer(text):
            names.append(struct.group(1))
            lines += _struct(struct, text, header, fields_of, constants)
        registered += [(op, name.split("::")[-1]) for op, name in _REGISTER.findall(text)]
    if names:
        lines.append("namespace optiling { " + " ".join(f"using ::{name};" for name in names) + " }")
    whole = [name for op, name in registered if name not in fields_of and name in names] or names[-1:]
    if whole:
        lines.append(f"using {DEFAULT} = {whole[0]};")
    return "".join(f"{line}\n" for line in lines)


def _constants(text: str) -> dict[str, str]:
    """Numbers that a header names, by which its arrays may be as long: the kernel has names of its own."""
    found = {m[1] or m[4]: (m[2] or m[3] or m[5]).strip() for m in _CONSTANT.finditer(text)}
    return {name: value for name, value in found.items() if name not in re.findall(r"\w+", value)}


def _length(text: str, constants: dict[str, str]) -> str:
    """The length of an array, with what its names stand for."""
    for _ in range(_NESTED):
        text = re.sub(
            r"[A-Za-z_]\w*", lambda name: f"({constants[name[0]]})" if name[0] in constants else name[0], text
        )
    return text


def _struct(found: re.Match[str], text: str, header: Path, fields_of: set[str], constants: dict[str, str]) -> list[str]:
    first = text.count("\n", 0, found.start()) + 1
    lines = [f'#line {first} "{header}"', f"struct alignas(8) {found.group(1)} {{"]
    for field in _FIELD.finditer(found.group(2)):
        kind, parts = field.group(1), [part.strip() for part in field.group(2).split(",")]
        if len(parts) != (3 if kind == "_ARR" else 2):
            line = text.count("\n", 0, found.start(2) + field.start()) + 1
            accepted = "(type, length, name)" if kind == "_ARR" else "(type, name)"
            raise AscendcBuildError(f"{header}:{line}: " + describe("ascendc.build", "field", field.group(0), accepted))
        at = text.count("\n", 0, found.start(2) + field.start()) + 1
        lines.append(f'#line {at} "{header}"')
        if kind == "_STRUCT":
            fields_of.add(parts[0].split("::")[-1])
        lines.append(
            f"{parts[0]} {parts[2]}[{_length(parts[1], constants)}];" if kind == "_ARR" else f"{parts[0]} {parts[1]};"
        )
    return [*lines, "};"]
