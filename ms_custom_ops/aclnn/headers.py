# SPDX-License-Identifier: Apache-2.0
"""The C functions of all ops: a header each, and their tables for csrc/acl. Files of a checkout, written by
``ms-custom-ops gen`` and compared by ``gen --check``; the headers are part of the package."""

from __future__ import annotations

import textwrap
from pathlib import Path

from ms_custom_ops.aclnn import interface_names, interface_of
from ms_custom_ops.aclnn.interface import ATTRIBUTE, INPUT, LENGTHS, OUTPUT, Interface, Parameter
from ms_custom_ops.aclnn.sparse_grad_rules import camel
from ms_custom_ops.program.generate import drift_of_texts, write_texts

NOTICE = "generated from op_info/*.yaml by ms-custom-ops gen; do not edit"
HEADERS = "ms_custom_ops/aclnn/c/include/aclnnop"
TABLES = "csrc/acl/ops.cc"
_WIDTH = 120
_C_TYPES = {"int": "int64_t", "float": "double", "bool": "bool", "str": "char*", "ints": "const aclIntArray*"}
_MARKS = {"int": "kInt", "float": "kFloat", "bool": "kBool", "str": "kText", "ints": "kInts"}


def _is_list(interface: Interface, p: Parameter) -> bool:
    """Values that the host knows: a parameter of integers, or lengths where the op does not read them itself."""
    return p.type == "ints" or (p.kind == LENGTHS and interface.lengths_are_tensors)


def _c_type(interface: Interface, p: Parameter) -> str:
    if _is_list(interface, p):
        return _C_TYPES["ints"]
    return _C_TYPES[p.type] if p.kind == ATTRIBUTE else "const aclTensor*"


def _mark(interface: Interface, p: Parameter) -> str:
    if _is_list(interface, p):
        return "kInts"
    if p.kind == ATTRIBUTE:
        return _MARKS[p.type]
    return "kOutput" if p.kind == OUTPUT else "kInput"


def _c_name(interface: Interface, p: Parameter) -> str:
    """queryRopeOptional; outputs end in Out where an input has their name."""
    name = camel(p.name)
    inputs = {q.name for q in interface.parameters if q.kind != OUTPUT}
    if p.kind == OUTPUT:
        return name + "Out" if p.name in inputs else name
    optional = p.optional and (p.kind in (INPUT, LENGTHS) or p.type in ("str", "ints"))
    return name + "Optional" if optional else name


def _first(interface: Interface, prefix: str = "", end: str = ";") -> list[str]:
    own = [f"{_c_type(interface, p)} {_c_name(interface, p)}" for p in interface.parameters]
    parameters = [*own, "uint64_t* workspaceSize", "aclOpExecutor** executor"]
    return _called(f"{prefix}aclnnStatus aclnn{interface.name}GetWorkspaceSize(", parameters, ")" + end)


def _second(interface: Interface, prefix: str = "", end: str = ";") -> list[str]:
    parameters = ["void* workspace", "uint64_t workspaceSize", "aclOpExecutor* executor", "aclrtStream stream"]
    return _called(f"{prefix}aclnnStatus aclnn{interface.name}(", parameters, ")" + end)


def _called(head: str, parameters: list[str], end: str, indent: int = 4) -> list[str]:
    """A list of parameters, as many of them in a line as fit."""
    lines, last = [], head
    for i, parameter in enumerate(parameters):
        text = parameter + (end if i == len(parameters) - 1 else ", ")
        if len(last) + len(text.rstrip()) > _WIDTH:
            lines.append(last.rstrip())
            last = " " * indent
        last += text
    return [*lines, last]


def _wrapped(text: str, indent: int = 4) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _headers() -> dict[str, list[Interface]]:
    """Op that a header is called after -> the interfaces that it declares."""
    found: dict[str, list[Interface]] = {}
    for op in interface_names():
        interface = interface_of(op)
        found.setdefault(interface.header or op, []).append(interface)
    return found


def header(op: str) -> str:
    """``aclnn_<op>.h``."""
    guard = f"MCO_ACLNNOP_ACLNN_{op.upper()}_H_"
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {NOTICE}",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        '#include "aclnn/aclnn_base.h"',
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
    ]
    for interface in _headers()[op]:
        lines += ["", *_declarations(interface)]
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "", f"#endif  // {guard}"]) + "\n"


def _declarations(interface: Interface) -> list[str]:
    lines = [f"// Checks a call of {interface.name}, gives the bytes of its workspace and its executor."]
    for p in interface.parameters:
        null = " (or null)" if p.optional and _mark(interface, p) not in ("kInt", "kFloat", "kBool") else ""
        doc = p.doc or "see docs/aclnn.md"
        lines += _wrapped(f"//   {_c_name(interface, p)}{null}{', written' if p.kind == OUTPUT else ''}: {doc}", 0)
    # textwrap knows no comments
    lines = [line if line.startswith("//") else f"//     {line}" for line in lines]
    lines += _first(interface, "ACL_FUNC_VISIBILITY ")
    return [*lines, "// Runs an executor on the stream.", *_second(interface, "ACL_FUNC_VISIBILITY ")]


def _table(op: str, interface: Interface) -> list[str]:
    rows = [
        f'    {{"{p.name}", Type::{_mark(interface, p)}, {"true" if p.optional else "false"}}},'
        for p in interface.parameters
    ]
    count = len(rows)
    return [
        f"constexpr Param k{interface.name}Params[] = {{",
        *rows,
        "};",
        f'constexpr Op k{interface.name} = {{"{interface.name}", "{op}", k{interface.name}Params, {count}}};',
        "",
    ]


def _functions(interface: Interface) -> list[str]:
    given = [f"of({_c_name(interface, p)})" for p in interface.parameters]
    return [
        *_first(interface, end=" {"),
        *_called("  const Argument arguments[] = {", given, "};", 6),
        f"  return first_phase(k{interface.name}, arguments, workspaceSize, executor);",
        "}",
        *_second(interface, end=" {"),
        f"  return second_phase(k{interface.name}, workspace, workspaceSize, executor, stream);",
        "}",
        "",
    ]


def tables() -> str:
    """The source of all functions."""
    found = {op: interface_of(op) for op in interface_names()}
    lines = ["// SPDX-License-Identifier: Apache-2.0", f"// {NOTICE}", "// clang-format off", '#include "ops.h"', ""]
    lines += [f'#include "aclnnop/aclnn_{op}.h"' for op in _headers()]
    lines += ["", "namespace mco_acl {", "namespace {", ""]
    for op, interface in found.items():
        lines += _table(op, interface)
    lines += ["}  // namespace", "}  // namespace mco_acl", "", "using namespace mco_acl;", "", 'extern "C" {', ""]
    for interface in found.values():
        lines += _functions(interface)
    return "\n".join([*lines, '}  // extern "C"']) + "\n"


def generate() -> dict[str, str]:
    """Path in the checkout -> text."""
    return {TABLES: tables(), **{f"{HEADERS}/aclnn_{op}.h": header(op) for op in _headers()}}


def write(root: Path) -> list[Path]:
    """Writes the files; those whose text changed. A header of no op goes."""
    changed = write_texts(root, generate())
    for path in strangers(root):
        path.unlink()
        changed.append(path)
    return changed


def strangers(root: Path) -> list[Path]:
    """Headers of no op."""
    texts = generate()
    return [path for path in sorted((root / HEADERS).glob("*.h")) if f"{HEADERS}/{path.name}" not in texts]


def drift(root: Path) -> str:
    """Unified diff from the files to what would be generated; empty when they agree."""
    return drift_of_texts(root, generate()) + "".join(f"{path} is the header of no op\n" for path in strangers(root))
