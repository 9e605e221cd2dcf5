# SPDX-License-Identifier: Apache-2.0
"""Writes the primitive and the function of every op as plain Python files, which MindSpore's graph compiler can read.

One primitive class per op. Absent optional tensors are filled with one small placeholder (``ABSENT``) and the
primitive is built with a flag per optional tensor, so that every op has exactly one bprop signature
whatever is given; docs/op_info.md has the measurement behind this.

Every name in the file was checked to be an identifier when the op_info files were loaded; every other text of them
passes through ``quoted`` or ``docstring`` of generated_text.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ms_custom_ops.config import config
from ms_custom_ops.errors import OpInfoError, describe
from ms_custom_ops.registry.discovery import OpPackage, packages
from ms_custom_ops.registry.generated_text import call_lines, docstring, quoted
from ms_custom_ops.registry.loader import Registry, gradient_order
from ms_custom_ops.registry.spec import ArgSpec, BpropRule, OpSpec

NOTICE = "generated from op_info/*.yaml by ms-custom-ops gen; do not edit"
OWN_MODULE = "ms_custom_ops.mco_generated_ops"
Ops = Mapping[str, OpSpec]


def _attr_parameter(arg: ArgSpec) -> str:
    return f"{arg.name}: {arg.kind}" + (f" = {quoted(arg.default)}" if arg.has_default else "")


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
        return "ABSENT" if arg.is_tensor else quoted(arg.default)
    if operand.kind == "literal":
        return quoted(operand.value)
    text = operand.name
    if operand.kind in ("out", "dout"):  # a single output is no tuple
        text = operand.kind + (f"[{operand.index}]" if len(spec.returns) > 1 else "")
    return f"ops.zeros_like({text})" if operand.zeros else text


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


def _gradient(spec: OpSpec, ops: Ops) -> list[str]:
    """The method that builds the bprop of one primitive."""
    assert spec.bprop is not None
    tensors = [arg.name for arg in spec.tensors]
    taken = {arg.name for arg in spec.args}
    build: list[str] = []
    body: list[str] = []
    gradient: dict[str, str] = {}
    for rule in spec.bprop.rules:
        target = ops[rule.op]
        prim = _fresh(rule.op, taken)
        arguments = [_presence(spec, rule, target)] + [_operand(spec, rule, arg) for arg in target.attributes]
        build += call_lines(f"{prim} = {target.class_name}(", arguments, ")", 8)
        names = [_fresh(f"grad_{name}", taken) for name in rule.inputs]
        operands = [_operand(spec, rule, arg) for arg in target.tensors]
        body += call_lines(f"{', '.join(names)} = {prim}(", operands, ")", 12)
        for wanted, ret, name in zip(rule.inputs, target.returns, names, strict=False):
            cast = _needs_cast(spec, target, wanted, ret.name)
            gradient[wanted] = f"ops.cast({name}, {wanted}.dtype)" if cast else name
    results = [gradient.get(name, f"ops.zeros_like({name})") for name in tensors]
    if len(results) == 1:
        results[0] += ","
    parameters = ["self", "present", *(arg.name for arg in spec.attributes)]
    return [
        *call_lines("def gradient(", parameters, "):", 4),
        *build,
        *([""] if build else []),
        *call_lines("def bprop(", tensors + ["out", "dout"], "):", 8),
        *body,
        *call_lines("return (", results, ")", 12),
        "",
        "        return bprop",
    ]


def _no_gradient(spec: OpSpec) -> list[str]:
    """The method of an op without: a bprop that says so where its result is used."""
    return [
        *call_lines("def gradient(", ["self", "present", *(arg.name for arg in spec.attributes)], "):", 4),
        *call_lines("def bprop(", [*(arg.name for arg in spec.tensors), "out", "dout"], "):", 8),
        f"            return no_gradient({quoted(spec.name)})",
        "",
        "        return bprop",
    ]


def _primitive(spec: OpSpec, ops: Ops) -> list[str]:
    lines = [f"class {spec.class_name}(OpPrimitive):", f"    OP = {quoted(spec.name)}"]
    return lines + ["", *(_no_gradient(spec) if spec.bprop is None else _gradient(spec, ops))]


def _function(spec: OpSpec) -> list[str]:
    parameters = [f"{arg.name}: Tensor" + (" | None = None" if arg.optional else "") for arg in spec.tensors]
    if spec.attributes:
        parameters += ["*"] + [_attr_parameter(arg) for arg in spec.attributes]
    result = "Tensor" if len(spec.returns) == 1 else "tuple[Tensor, ...]"
    lines = call_lines(f"def {spec.function_name}(", parameters, f") -> {result}:", 0) + docstring(spec, 4)
    optional = [arg.name for arg in spec.optional_tensors]
    flags = [f"{name} is not None" for name in optional]
    if len(flags) == 1:
        flags[0] += ","
    lines += call_lines("present = (", flags, ")", 4)
    lines += [f"    {name} = ABSENT if {name} is None else {name}" for name in optional]
    attributes = ["present", *(arg.name for arg in spec.attributes)]
    lines += call_lines(f"primitive = prim_cache({spec.class_name})(", attributes, ")", 4)
    return lines + call_lines("return primitive(", [arg.name for arg in spec.tensors], ")", 4)


def _module(doc: list[str], imports: list[str], pieces: list[list[str]]) -> str:
    lines = ["# SPDX-License-Identifier: Apache-2.0", *doc, '"""', "from __future__ import annotations", "", *imports]
    for piece in pieces:
        lines += ["", "", *piece]
    text = "\n".join(lines) + "\n"
    ast.parse(text)  # a text that is no Python is a fault of this file, not of whoever imports the result
    return text


def generate(registry: Registry, base: Ops | None = None, module: str = OWN_MODULE) -> dict[str, str]:
    """File name -> source: a primitive per op in ``<module>_primitives``, gradient ops first, a function per op in
    ``module`` (dotted). The same registry always gives the same text.

    They are two files because MindSpore's source rewriting (amp O1) copies the imports of a function's file, and no
    class that stands there. ``base``: ops of this project that gradients may call besides those of ``registry``.
    """
    ops = {**(base or {}), **registry.ops}
    order = gradient_order(registry.ops)
    called = {rule.op for spec in registry.ops.values() if spec.bprop for rule in spec.bprop.rules}
    foreign = sorted(ops[name].class_name for name in called - registry.ops.keys())
    own = sorted(spec.class_name for spec in registry.ops.values())
    primitives = [
        "from mindspore import ops",
        "",
        "from ms_custom_ops.mindspore.custom import ABSENT, OpPrimitive, no_gradient",
    ]
    if foreign:
        primitives += call_lines(f"from {OWN_MODULE}_primitives import (", foreign, ")", 0)
    functions = ["from mindspore import Tensor", "", "from ms_custom_ops.mindspore.custom import ABSENT, prim_cache"]
    functions += call_lines(f"from {module}_primitives import (", own, ")", 0)
    name = module.rpartition(".")[2]
    return {
        f"{name}_primitives.py": _module(
            [
                f'"""Primitives of the ops: {NOTICE}.',
                "",
                "``present`` has one flag per optional tensor, in order; an absent one is passed as ABSENT.",
            ],
            primitives,
            [_primitive(ops[op], ops) for op in order],
        ),
        f"{name}.py": _module(
            [
                f'"""Functions of the ops: {NOTICE}.',
                "",
                "They call the primitives with names and defaults, in construct as in plain Python. Padding, mask",
                "forms and empty batches are the business of ms_custom_ops.ops, which calls these.",
            ],
            functions,
            [_function(registry.ops[op]) for op in order],
        ),
    }


def output_folder() -> Path:
    """Where the generated files live: the ms_custom_ops package."""
    return Path(__file__).resolve().parent.parent


def write(registry: Registry, folder: Path, base: Ops | None = None, module: str = OWN_MODULE) -> list[Path]:
    """Writes the generated files; those whose text changed. OSError as of a write."""
    texts = {folder / name: text for name, text in generate(registry, base, module).items()}
    return [_replace(path, text) for path, text in texts.items() if not _holds(path, text)]


def drift(registry: Registry, folder: Path, base: Ops | None = None, module: str = OWN_MODULE) -> str:
    """Unified diff from the files in ``folder`` to what would be generated; empty when they agree."""
    parts: list[str] = []
    for name, text in generate(registry, base, module).items():
        path = folder / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        parts += difflib.unified_diff(old.splitlines(True), text.splitlines(True), str(path), f"{name} (generated)")
    return "".join(parts)


def place_of(package: OpPackage) -> tuple[Registry, Path, Ops | None, str]:
    """Arguments of :func:`write` and :func:`drift` for a package: the files stand beside its op_info folder."""
    if package.is_own:
        return package.registry, output_folder(), None, OWN_MODULE
    return package.registry, package.root, packages()[0].registry.ops, f"{package.name}.{package.generated}"


def current_files(package: OpPackage) -> list[Path]:
    """Generated files of a user's package that agree with its op_info files, written when there are none: beside the
    op_info folder, and below the cache folder where that place takes no file.

    Raises:
        OpInfoError: neither place takes them.
    """
    registry, folder, base, module = place_of(package)
    texts = generate(registry, base, module)
    places = [folder]
    if config().cache_dir is not None:
        own = f"{package.generated}-{hashlib.sha256(os.fsencode(package.root)).hexdigest()[:16]}"
        places.append(config().cache_dir / "generated" / own)  # type: ignore[operator]
    reasons = []
    for place in places:
        paths = [place / name for name in texts]
        try:
            if not all(_holds(path, text) for path, text in zip(paths, texts.values(), strict=True)):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                write(registry, place, base, module)
            return paths
        except OSError as error:
            reasons.append(str(error))
    given = "; ".join(reasons)
    accepted = "a folder of ops, or a cache folder (MS_CUSTOM_OPS_CACHE_DIR), that can be written"
    raise OpInfoError(describe(str(package.root), f"place of {', '.join(texts)}", given, accepted))


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _replace(path: Path, text: str) -> Path:
    """Writes the whole file or none of it, whoever else writes it too."""
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=path.name, suffix=".tmp", delete=False) as file:
        try:
            file.write(text.encode())
            file.close()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    return path
