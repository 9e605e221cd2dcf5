# SPDX-License-Identifier: Apache-2.0
"""Files of a checkout that are made from tables: names, rows and limits of the engine, the page of the instructions.

``ms-custom-ops gen`` writes them, ``gen --check`` compares. An installed package has no C++ source and no docs.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ms_custom_ops.program import limits
from ms_custom_ops.program.ir import SCOPES
from ms_custom_ops.program.isa import FAMILIES, ISA, KINDS, PIPES, ArgSpec, OperandSpec, Row
from ms_custom_ops.soc import get_soc, list_socs

WIDTH = 120
NOTICE = "generated from ms_custom_ops/program/isa by ms-custom-ops gen; do not edit"
NAMES_FILE, ROWS_FILE, PAGE_FILE = "csrc/isa_names.inc", "csrc/isa_rows.inc", "docs/instructions.md"
LIMITS_FILE = "csrc/limits.inc"
OPS_FILE = "ms_custom_ops/ascendc/include/mco/ops.inc"
PIPES_FILE = "csrc/pipe_rules.inc"
CHIPS_FILE = "ms_custom_ops/ascendc/include_host/mco_host/chips.inc"


def layouts() -> dict[str, Row]:
    """Namespaces of the C++ names: a row for each name of a layout, and for each instruction that shares none.

    ValueError where rows of one layout do not agree: equal operands and arguments, equal first attributes.
    """
    found: dict[str, Row] = {}
    for row in ISA.values():
        name = row.layout or row.name
        other = found.setdefault(name, row)
        short, long = sorted((row.attributes, other.attributes), key=len)
        if (row.tensors, row.args) != (other.tensors, other.args) or long[: len(short)] != short:
            raise ValueError(f"layout {name}: {row.name} and {other.name} differ in operands, arguments or attributes")
        if len(row.attrs) > len(other.attrs):
            found[name] = row
    return found


def _enum(kind: str, names: Iterable[str]) -> list[str]:
    text = f"enum {kind} : int {{ {', '.join(names)} }};"
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def names_text() -> str:
    """Numbers of operands, arguments and attributes, and the largest value of each attribute, by layout."""
    lines = ["// SPDX-License-Identifier: Apache-2.0", f"// {NOTICE}", ""]
    for name, row in layouts().items():
        lines.append(f"namespace {name} {{")
        for kind, names in (("Operand", row.tensors), ("Arg", row.args), ("Attr", row.attrs)):
            lines += _enum(kind, names) if names else []
        lines += [f"constexpr int64_t {a.name}_high = {a.high};" for a in row.attributes]
        lines += [f"}}  // namespace {name}", ""]
    return "\n".join(lines[:-1]) + "\n"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _operands(row: Row) -> Iterator[str]:
    for operand in row.operands:
        attr, where = operand.read_if or ("", False)
        number = row.attrs.index(attr) if attr else -1
        marks = f"{_bool('r' in operand.mark)}, {_bool('w' in operand.mark)}"
        yield f'{{"{operand.name}", {marks}, {number}, {_bool(where)}, {operand.start}}}'


def _arguments(row: Row) -> Iterator[str]:
    for arg in row.arguments:
        low, high = (0, "INT64_MAX") if arg.high is None else (arg.low, arg.high)
        first, last = arg.run or (0, "INT64_MAX")
        yield f'{{"{arg.name}", ArgKind::{arg.kind.capitalize()}, {low}, {high}, {first}, {last}}}'


def _attributes(row: Row) -> Iterator[str]:
    for attr in row.attributes:
        listed = sum(1 << value for value in attr.values)
        yield f'{{"{attr.name}", {attr.low}, {attr.high}, {listed:#x}, "{attr.accepted}"}}'


def rows_text() -> str:
    """Rows of the table as initialisers: parts of all rows one after the other, then how many each row has."""
    lines = ["// SPDX-License-Identifier: Apache-2.0", f"// {NOTICE}"]
    tables = (("OperandRow", _operands), ("ArgRow", _arguments), ("AttrRow", _attributes))
    for kind, parts in tables:
        lines += ["", f"constexpr {kind} k{kind}s[] = {{"]
        for row in ISA.values():
            items = list(parts(row))
            if items:
                wrapped = textwrap.wrap(", ".join(items), WIDTH - 5, break_long_words=False)
                lines += [f"    // {row.name}", *(f"    {line}" for line in wrapped)]
                lines[-1] += ","
        lines.append("};")
    lines += ["", "constexpr InstrRow kInstrRows[] = {"]
    lines += [
        f'    {{"{row.name}", {len(row.operands)}, {len(row.arguments)}, {len(row.attributes)}, '
        f"{PIPES['PIPE_' + row.pipe] if isinstance(row.pipe, str) else 'kByRoute'}, {_access_name(row)}}},"
        for row in ISA.values()
    ]
    return "\n".join([*lines, "};", "", *_routes()]) + "\n"


def _access_name(row: Row) -> str:
    return f"access::{row.access.__module__.rsplit('.', 1)[1]}::{row.access.__name__}"


def _routes() -> list[str]:
    """Pipe by kind of core, scope of dst and scope of src."""
    fused, split = next(row.pipe for row in ISA.values() if not isinstance(row.pipe, str))
    lines = [f"constexpr int8_t kRoutes[2][{len(SCOPES)}][{len(SCOPES)}] = {{"]
    for routes in (fused, split):
        rows = [[PIPES[f"PIPE_{routes[dst, src]}"] if (dst, src) in routes else -1 for src in SCOPES] for dst in SCOPES]
        lines += ["    {", *(f"        {{{', '.join(map(str, row))}}}," for row in rows), "    },"]
    return [*lines, "};"]


def ops_text() -> str:
    """Numbers of the rows for the headers of Ascend C."""
    lines = ["// SPDX-License-Identifier: Apache-2.0", f"// {NOTICE}", "#pragma once", "", "#include <cstdint>", ""]
    names = textwrap.wrap(f"enum class Op : uint16_t {{ {', '.join(ISA)} }};", WIDTH, subsequent_indent="  ")
    return "\n".join([*lines, "namespace mco_asc {", *names, "}  // namespace mco_asc"]) + "\n"


def _operand_text(operand: OperandSpec) -> str:
    text = f"`{operand.name}` {operand.mark}"
    if operand.read_if is not None:
        name, wanted = operand.read_if
        text += f" (read if `{name}` is {'not 0' if wanted else '0'})"
    return text + (" (at places known only while running)" if operand.anywhere else "")


def _argument_text(arg: ArgSpec) -> str:
    text = f"`{arg.name}` {arg.kind}" + (f" {arg.low} to {arg.high}" if arg.high is not None else "")
    return text + (f" (while running {arg.run[0]} to {arg.run[1]})" if arg.run else "")


def _pipe_text(row: Row) -> str:
    if isinstance(row.pipe, str):
        return row.pipe
    return "by route"


def _routes_table() -> list[str]:
    """Pipes of moves by route, fused and split cores side by side."""
    fused, split = next(row.pipe for row in ISA.values() if not isinstance(row.pipe, str))
    lines = ["| from | to | fused core | split core |", "|---|---|---|---|"]
    for dst, src in {**fused, **split}:
        lines.append(f"| {src} | {dst} | {fused.get((dst, src), '')} | {split.get((dst, src), '')} |")
    return lines


def _entry(row: Row) -> list[str]:
    lines = [f"### {row.name}", "", row.doc[:1].upper() + row.doc[1:] + ".", ""]
    lines += [f"Pipe {_pipe_text(row)}{', lane by lane' if row.lanewise else ''}.", ""]
    if row.operands:
        lines.append(f"* operands: {', '.join(map(_operand_text, row.operands))}")
    if row.arguments:
        lines.append(f"* arguments: {', '.join(map(_argument_text, row.arguments))}")
    if row.attributes:
        lines.append(f"* attributes: {', '.join(f'`{a.name}` {a.accepted}' for a in row.attributes)}")
    wrapped = [textwrap.wrap(line, WIDTH, subsequent_indent="  " if line[:1] == "*" else "") or [""] for line in lines]
    return [part for parts in (wrapped if lines[-1] else wrapped[:-1]) for part in parts]


def page_text() -> str:
    """docs/instructions.md."""
    import ms_custom_ops.program.isa as isa

    rules = (isa.__doc__ or "").replace("``", "`").split("\n\n")
    lines = ["# Instructions of a Program", "", f"<!-- {NOTICE} -->", ""]
    lines += ["What every instruction takes, touches and computes; the table is `ms_custom_ops/program/isa`."]
    lines += ["Marks of operands: r read, w written, rw both.", "", *rules[2].splitlines(), ""]
    lines += ["## Kinds of arguments", "", "| kind | is |", "|---|---|"]
    lines += [f"| {kind} | {text} |" for kind, text in KINDS.items()]
    lines += ["", "## Pipes of moves by route", "", *_routes_table()]
    for title, rows in FAMILIES.items():
        lines += ["", f"## {title}"]
        for row in rows:
            lines += ["", *_entry(row)]
    return "\n".join(lines) + "\n"


def chips_text() -> str:
    """Rows of the chip table as initialisers of mco_host::Chip (chip.h)."""
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Generated from ms_custom_ops/soc/table.py by ms-custom-ops gen; do not edit.",
    ]
    for chip in map(get_soc, list_socs()):
        sizes = (chip.ub_bytes, chip.l1_bytes, chip.l0a_bytes, chip.l0b_bytes, chip.l0c_bytes, chip.bt_bytes)
        numbers = (chip.cube_core_count, chip.vector_core_count, _bool(chip.split_core), *sizes, chip.l2_bytes)
        lines.append(f'{{"{chip.name}", "{chip.family}", {", ".join(map(str, numbers))}}},')
    return "\n".join(lines) + "\n"


def pipe_rules_text() -> str:
    """What chips say of the order of their pipes, as initialisers of a row of run.cc."""
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Generated from ms_custom_ops/soc/table.py by ms-custom-ops gen; do not edit.",
    ]
    for chip in map(get_soc, list_socs()):
        lines.append(f'{{"{chip.name}", {chip.pipe_events}, {_bool(chip.barrier_within_pipe)}}},')
    return "\n".join(lines) + "\n"


def generate() -> dict[str, str]:
    """Text of every generated file by its path in a checkout."""
    return {
        NAMES_FILE: names_text(),
        ROWS_FILE: rows_text(),
        PAGE_FILE: page_text(),
        LIMITS_FILE: limits.cpp_text(),
        OPS_FILE: ops_text(),
        CHIPS_FILE: chips_text(),
        PIPES_FILE: pipe_rules_text(),
    }


def checkout() -> Path | None:
    """The checkout this package lies in, None for an installed one."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "csrc").is_dir() and (root / "docs").is_dir() else None


def write_texts(root: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files by their paths in a checkout; those whose text changed."""
    changed = []
    for name, text in texts.items():
        path = root / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def drift_of_texts(root: Path, texts: Mapping[str, str]) -> str:
    """Unified diff from the files of a checkout to what would be generated; empty when they agree."""
    parts: list[str] = []
    for name, text in texts.items():
        path = root / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        parts += difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, f"{name} (generated)")
    return "".join(parts)


def write(root: Path) -> list[Path]:
    """Write the files of the instruction table; those whose text changed."""
    return write_texts(root, generate())


def drift(root: Path) -> str:
    """:func:`drift_of_texts` of the files of the instruction table."""
    return drift_of_texts(root, generate())
