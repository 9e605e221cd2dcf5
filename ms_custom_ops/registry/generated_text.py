# SPDX-License-Identifier: Apache-2.0
"""Pieces of generated Python: wrapped calls, quoted values, docstrings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from ms_custom_ops.registry.spec import OpSpec

WIDTH = 110


def call_lines(head: str, items: Iterable[str], tail: str, indent: int) -> list[str]:
    """``head`` + items + ``tail`` on one line, or wrapped inside the bracket that ends ``head``."""
    items = list(items)
    pad = " " * indent
    line = pad + head + ", ".join(items) + tail
    if len(line) <= WIDTH:
        return [line]
    hang = pad + "    "
    body = [hang]
    for i, item in enumerate(items):
        piece = item + (", " if i + 1 < len(items) else tail)
        if len(body[-1]) + len(piece.rstrip()) > WIDTH and body[-1].strip():
            body.append(hang)
        body[-1] += piece
    return [pad + head] + [line.rstrip() for line in body]


def quoted(value: object) -> str:
    """A literal of ``value``, a str, int, bool or finite float."""
    if isinstance(value, str) and value.isprintable() and not set(value) & set('\\"'):
        return f'"{value}"'
    return repr(value)


def _escaped(text: str) -> str:
    """``text`` for between three double quotes: evaluates to itself, and hides nothing from a reader."""
    doubled = text.replace("\\", "\\\\")
    safe = "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in doubled)
    return safe.replace('""', '\\"\\"')


def _wrapped(text: str, indent: int, hang: int = 0) -> list[str]:
    pad = " " * indent
    return textwrap.wrap(" ".join(text.split()), WIDTH, initial_indent=pad, subsequent_indent=pad + " " * hang)


def _tensor_text(spec: OpSpec, name: str, shape_text: str, doc: str, optional: bool) -> str:
    dtypes = list(dict.fromkeys(row.codes[name] for row in spec.dtype_rows))
    return f"{shape_text} {' | '.join(dtypes)}" + (", optional" if optional else "") + (f". {doc}" if doc else "")


def docstring(spec: OpSpec, indent: int) -> list[str]:
    """The docstring of an op's function, indented, from the texts of its op_info file."""
    lines: list[str] = []
    for paragraph in (spec.doc or f"The op {spec.name}.").split("\n\n"):
        lines += ([""] if lines else []) + _wrapped(paragraph, indent)
    pad = " " * indent
    lines += ["", pad + "Args:"]
    for arg in spec.args:
        if arg.is_tensor:
            text = _tensor_text(spec, arg.name, arg.shape_text, arg.doc, arg.optional)
        else:
            text = f"{arg.kind}" + (f", default {quoted(arg.default)}" if arg.has_default else "")
            text += f". {arg.doc}" if arg.doc else ""
        lines += _wrapped(f"{arg.name}: {text}", indent + 4, 4)
    lines += ["", pad + "Returns:"]
    for ret in spec.returns:
        text = _tensor_text(spec, ret.name, ret.shape_text, ret.doc, False)
        lines += _wrapped(f"{ret.name}: {text}", indent + 4, 4)
    if spec.symbols:
        lines += ["", pad + "Where:"]
        for name, expr in spec.symbols.items():
            lines += _wrapped(f"{name} = {expr.text}", indent + 4, 4)
    if spec.constraints:
        lines += ["", pad + "Raises:"]
        lines += [f"{pad}    OpArgumentError: a rank, shape or attribute is wrong; these must hold:"]
        for item in spec.constraints:
            lines += _wrapped(f"* {item.expr.text}: {item.msg}", indent + 8, 4)
        lines += [f"{pad}    OpDtypeError: the chip or the op does not have the dtype combination."]
    escaped = _escaped("\n".join(lines).lstrip()).split("\n")
    return [f'{pad}"""{escaped[0]}', *escaped[1:], pad + '"""']
