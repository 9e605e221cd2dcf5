# SPDX-License-Identifier: Apache-2.0
"""Writes the primitives and functions of every op as plain Python files, which MindSpore's graph compiler
can read.

One primitive class per op. Absent optional tensors are filled with one small placeholder (``ABSENT``) and the
primitive is built with a flag per optional tensor, so that every op has exactly one bprop signature
whatever is given; docs/op_info.md has the measurement behind this.
"""

from __future__ import annotations

import difflib
import json
import textwrap
from collections.abc import Iterable
from pathlib import Path

from ms_custom_ops.registry.loader import Registry, gradient_order
from ms_custom_ops.registry.spec import ABSENT_DTYPE, ABSENT_SHAPE, ArgSpec, BpropRule, OpSpec

WIDTH = 110
NOTICE = "generated from op_info/*.yaml by ms-custom-ops gen; do not edit"
PRIM_FILE, DEF_FILE = "gen_ops_prim.py", "gen_ops_def.py"


def _call(head: str, items: Iterable[str], tail: str, indent: int) -> list[str]:
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


def _literal(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _doc(text: str, indent: int) -> list[str]:
    pad = " " * indent
    lines: list[str] = []
    for paragraph in text.replace("\\", "\\\\").replace('"""', "'''").split("\n\n"):
        if lines:
            lines.append("")
        lines += [pad + line for line in textwrap.wrap(" ".join(paragraph.split()), WIDTH - indent)]
    return lines


def _entry(name: str, text: str, indent: int) -> list[str]:
    wrapped = textwrap.wrap(f"{name}: {text}".replace("\\", "\\\\"), WIDTH - indent - 4)
    return [" " * indent + wrapped[0]] + [" " * (indent + 4) + line for line in wrapped[1:]]


def _tensor_text(spec: OpSpec, name: str, shape_text: str, doc: str, optional: bool) -> str:
    dtypes = list(dict.fromkeys(row.codes[name] for row in spec.dtype_rows))
    return f"{shape_text} {' | '.join(dtypes)}" + (", optional" if optional else "") + (f". {doc}" if doc else "")


def _docstring(spec: OpSpec, indent: int) -> list[str]:
    pad = " " * indent
    summary, _, rest = spec.doc.partition("\n\n")
    first = _doc(summary or f"The op {spec.name}.", indent)
    first[0] = pad + '"""' + first[0].strip()
    lines = first + ([""] + _doc(rest, indent) if rest.strip() else []) + ["", pad + "Args:"]
    for arg in spec.args:
        text = (
            _tensor_text(spec, arg.name, arg.shape_text, arg.doc, arg.optional)
            if arg.is_tensor
            else f"{arg.kind}"
            + (f", default {_literal(arg.default)}" if arg.has_default else "")
            + (f". {arg.doc}" if arg.doc else "")
        )
        lines += _entry(arg.name, text, indent + 4)
    lines += ["", pad + "Returns:"]
    for ret in spec.returns:
        lines += _entry(ret.name, _tensor_text(spec, ret.name, ret.shape_text, ret.doc, False), indent + 4)
    if spec.symbols:
        lines += ["", pad + "Where:"] + [f"{pad}    {name} = {expr.text}" for name, expr in spec.symbols.items()]
    if spec.constraints:
        lines += ["", pad + "Raises:"]
        lines += [f"{pad}    OpArgumentError: a rank, shape or attribute is wrong; these must hold:"]
        for item in spec.constraints:
            lines += _entry(f"* {item.expr.text}", item.msg, indent + 8)
        lines += [f"{pad}    OpDtypeError: the chip or the op does not have the dtype combination."]
    return lines + [pad + '"""']


def _attr_parameter(arg: ArgSpec) -> str:
    return f"{arg.name}: {arg.kind}" + (f" = {_literal(arg.default)}" if arg.has_default else "")


def _presence(spec: OpSpec, rule: BpropRule, target: OpSpec) -> str:
    """The presence flags of a gradient op, from those of its forward op."""
    order = [arg.name for arg in spec.optional_tensors]
    flags = []
    for arg in target.optional_tensors:
        operand = rule.args.get(arg.name)
        if operand is None:
            flags.append("False")
        elif operand.kind == "input" and operand.name in order:
            flags.append(f"present[{order.index(operand.name)}]")
        else:
            flags.append("True")
    if flags == [f"present[{i}]" for i in range(len(order))]:
        return "present"
    return "(" + ", ".join(flags) + ("," if len(flags) == 1 else "") + ")"


def _operand(spec: OpSpec, rule: BpropRule, arg: ArgSpec) -> str:
    operand = rule.args.get(arg.name)
    if operand is None:
        return "ABSENT" if arg.is_tensor else _literal(arg.default)
    if operand.kind in ("out", "dout"):  # a single output is no tuple
        return operand.kind + (f"[{operand.index}]" if len(spec.returns) > 1 else "")
    return operand.name


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _needs_cast(spec: OpSpec, target: OpSpec, wanted: str, grad: str) -> bool:
    """Whether some dtype row gives the gradient another dtype than its input has."""
    pairs = {row.codes[grad] for row in target.dtype_rows}, {row.codes[wanted] for row in spec.dtype_rows}
    source = next(ret.dtype_from for ret in target.returns if ret.name == grad)
    return source not in {arg.name for arg in target.tensors} or pairs[0] != pairs[1]


def _bprop_lines(spec: OpSpec, registry: Registry) -> list[str]:
    assert spec.bprop is not None
    tensors = [arg.name for arg in spec.tensors]
    taken = {arg.name for arg in spec.args}
    build: list[str] = []
    body: list[str] = []
    gradient: dict[str, str] = {}
    for rule in spec.bprop.rules:
        target = registry.ops[rule.op]
        prim = _fresh(rule.op, taken)
        arguments = [_presence(spec, rule, target)] + [_operand(spec, rule, arg) for arg in target.attributes]
        build += _call(f"{prim} = {target.class_name}(", arguments, ")", 8)
        names = [_fresh(f"grad_{name}", taken) for name in rule.inputs]
        body += _call(f"{', '.join(names)} = {prim}(", [_operand(spec, rule, arg) for arg in target.tensors], ")", 12)
        for wanted, ret, name in zip(rule.inputs, target.returns, names, strict=False):
            cast = _needs_cast(spec, target, wanted, ret.name)
            gradient[wanted] = f"ops.cast({name}, {wanted}.dtype)" if cast else name
    results = [gradient.get(name, f"ops.zeros_like({name})") for name in tensors]
    if len(results) == 1:
        results[0] += ","
    lines = build + [""] + _call("def bprop(", tensors + ["out", "dout"], "):", 8) + body
    return lines + _call("return (", results, ")", 12) + [""]


def _prim_class(spec: OpSpec, registry: Registry) -> list[str]:
    attrs = [arg.name for arg in spec.attributes]
    required = [arg for arg in spec.attributes if not arg.has_default]
    parameters = ["self", "present: tuple[bool, ...]"] + [_attr_parameter(arg) for arg in spec.attributes]
    if not required and not spec.optional_tensors:
        parameters[1] += " = ()"
    lines = [f"class {spec.class_name}(TikCustom):"] + _docstring(spec, 4) + [""]
    lines += _call("def __init__(", parameters, "):", 4)
    if spec.bprop is not None and spec.bprop.rules:
        lines += _bprop_lines(spec, registry)
    elif spec.bprop is not None:
        lines += _bprop_lines(spec, registry)[1:]
    lines += _call("attrs = {", [f'"{name}": {name}' for name in attrs], "}", 8)
    call = f'super().__init__("{spec.name}", attrs, present' + (", bprop" if spec.bprop is not None else "") + ")"
    return lines + [f"        {call}"]


def prim_text(registry: Registry) -> str:
    """Source of gen_ops_prim.py: a Custom subclass per op, gradient ops first."""
    order = gradient_order(registry.ops)
    uses_ops = any(spec.bprop for spec in registry.ops.values())
    shape = "(" + ", ".join(map(str, ABSENT_SHAPE)) + (",)" if len(ABSENT_SHAPE) == 1 else ")")
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f'"""Primitives of the ops: {NOTICE}.',
        "",
        "``present`` has one flag per optional tensor, in order; an absent one is passed as ABSENT.",
        "The functions of gen_ops_def.py do that for their callers.",
        '"""',
        "from __future__ import annotations",
        "",
        "import numpy as np",
        "from mindspore import Tensor" + (", ops" if uses_ops else ""),
        "",
        "from ms_custom_ops.mindspore.custom import TikCustom",
        "",
        "# What an absent optional tensor is at the primitive: integers, which mixed precision leaves alone.",
        f"ABSENT = Tensor(np.zeros({shape}, np.{ABSENT_DTYPE}))",
    ]
    for name in order:
        lines += ["", ""] + _prim_class(registry.ops[name], registry)
    return "\n".join(lines) + "\n"


def _function(spec: OpSpec) -> list[str]:
    parameters = [f"{arg.name}: Tensor" + (" | None = None" if arg.optional else "") for arg in spec.tensors]
    if spec.attributes:
        parameters += ["*"] + [_attr_parameter(arg) for arg in spec.attributes]
    result = "Tensor" if len(spec.returns) == 1 else "tuple[Tensor, ...]"
    lines = _call(f"def {spec.function_name}(", parameters, f") -> {result}:", 0) + _docstring(spec, 4)
    optional = [arg.name for arg in spec.optional_tensors]
    flags = [f"{name} is not None" for name in optional]
    if len(flags) == 1:
        flags[0] += ","
    lines += _call("present = (", flags, ")", 4)
    lines += [f"    {name} = ABSENT if {name} is None else {name}" for name in optional]
    lines += _call(
        f"primitive = prim_cache({spec.class_name})(", ["present"] + [a.name for a in spec.attributes], ")", 4
    )
    return lines + _call("return primitive(", [arg.name for arg in spec.tensors], ")", 4)


def def_text(registry: Registry) -> str:
    """Source of gen_ops_def.py: a function per op, usable inside construct."""
    specs = list(registry.ops.values())
    names = sorted(spec.class_name for spec in specs)
    if any(spec.optional_tensors for spec in specs):
        names = ["ABSENT"] + names
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f'"""Functions of the ops: {NOTICE}.',
        "",
        "They call the primitives with names and defaults, in construct as in plain Python. Padding, mask",
        "forms and empty batches are the business of ms_custom_ops.ops, which calls these.",
        '"""',
        "from __future__ import annotations",
        "",
        "from mindspore import Tensor",
        "",
    ]
    lines += (
        _call("from ms_custom_ops.gen_ops_prim import (", names, ")", 0)
        if len(", ".join(names)) > 60
        else [f"from ms_custom_ops.gen_ops_prim import {', '.join(names)}"]
    )
    lines += ["from ms_custom_ops.mindspore.custom import prim_cache"]
    for spec in specs:
        lines += ["", ""] + _function(spec)
    return "\n".join(lines) + "\n"


def generate(registry: Registry) -> dict[str, str]:
    """File name -> source of everything that is generated. The same registry always gives the same text."""
    return {PRIM_FILE: prim_text(registry), DEF_FILE: def_text(registry)}


def output_folder() -> Path:
    """Where the generated files live: the ms_custom_ops package."""
    return Path(__file__).resolve().parent.parent


def write(registry: Registry, folder: Path) -> list[Path]:
    """Writes the generated files; returns those whose text changed."""
    changed = []
    for name, text in generate(registry).items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def drift(registry: Registry, folder: Path) -> str:
    """Unified diff from the files in ``folder`` to what would be generated; empty when they agree."""
    parts: list[str] = []
    for name, text in generate(registry).items():
        path = folder / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        parts += difflib.unified_diff(old.splitlines(True), text.splitlines(True), str(path), f"{name} (generated)")
    return "".join(parts)
