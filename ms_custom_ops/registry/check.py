# SPDX-License-Identifier: Apache-2.0
"""Checks of a loaded registry that look outside the YAML files: kernels exist, cases are callable,
gradients fit."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ms_custom_ops.errors import MsCustomOpsError, OpInfoError, describe
from ms_custom_ops.registry import signatures
from ms_custom_ops.registry.loader import Registry
from ms_custom_ops.registry.spec import OpSpec
from ms_custom_ops.registry.yaml_source import nearest
from ms_custom_ops.soc import FAMILIES, list_socs


def resolve(dotted: str) -> Callable[..., Any]:
    """The function named "package.module:function"; imports its module now, not before.

    Raises:
        OpInfoError: there is no such module, or it has no such function. ImportError: the module does not import.
    """
    module_name, _, function = dotted.partition(":")
    if find_module(module_name) is None:
        raise OpInfoError(describe("op_info", "module", f"'{module_name}'", "one that there is a file of"))
    module = importlib.import_module(module_name)
    if not hasattr(module, function):
        raise OpInfoError(describe("op_info", "function", f"'{dotted}'", f"a function of {module.__file__}"))
    return getattr(module, function)


def find_module(dotted: str) -> Path | None:
    """The file of a module, found without executing it or its parents; None when there is none."""
    path: Any = None
    spec = None
    parts = dotted.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
        spec = next((found for find in finders if find and (found := find(name, path))), None)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return Path(spec.origin) if spec is not None and spec.origin else None


def defines(file: Path, name: str) -> bool:
    """Whether the source file defines, imports or assigns ``name`` at its top level."""
    for node in ast.parse(file.read_text(encoding="utf-8"), str(file)).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return True
        if isinstance(node, (ast.Import, ast.ImportFrom)) and any((a.asname or a.name) == name for a in node.names):
            return True
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return True
    return False


def _check_impl(spec: OpSpec) -> list[str]:
    found = []
    for key, dotted in (
        ("impl.tik.entry", spec.impl.entry),
        ("impl.golden", spec.impl.golden),
        ("impl.tiling", spec.impl.tiling),
        ("public.lower", spec.public.lower if spec.public else ""),
        ("composition", spec.composition),
    ):
        if not dotted:
            continue
        module, _, function = dotted.partition(":")
        file = find_module(module)
        if file is not None:
            try:
                ast.parse(file.read_text(encoding="utf-8"), str(file))
            except SyntaxError as error:
                found.append(
                    f"{file}:{error.lineno}: op {spec.name}: {key} names this file, which is no Python: {error.msg}"
                )
                continue
        if file is None:
            found.append(f"{spec.location}: op {spec.name}: {key} names the module '{module}', which does not exist")
        elif function and not defines(file, function):
            found.append(f"{spec.location}: op {spec.name}: {key} names '{function}', which {file} does not define")
        else:
            found += _check_form(spec, key, file, function)
    return found


def _check_form(spec: OpSpec, key: str, file: Path, function: str) -> list[str]:
    """docs/signatures.md."""
    if key == "impl.tik.entry":
        return signatures.check_entry(spec, file, function)
    if key == "impl.golden":
        return signatures.check_golden(spec, file, function) + signatures.check_cases_file(spec, file)
    if key == "public.lower":
        return signatures.check_lowering(spec, file, function)
    return signatures.check_plan(spec, file) if key == "impl.tiling" else []


def _check_chips(spec: OpSpec) -> list[str]:
    known = [*list_socs(), *(f"Ascend{family}" for family in FAMILIES)]
    return [
        f"{spec.location}: op {spec.name}: target.soc names '{key}', no chip or family of the chip table; "
        f"{nearest(key, known)}"
        for key in spec.target.soc
        if key not in known
    ]


def _check_dtypes(spec: OpSpec) -> list[str]:
    """Every dtype of a chip has a row of dtype_format, and every row a chip that has its dtypes."""
    rows = [{row.codes[name] for name in spec.dtype_group if name in row.codes} for row in spec.dtype_rows]
    group = ", ".join(spec.dtype_group)
    found = [
        f"{spec.location}: op {spec.name}: target.soc.{soc} lists {code}, but no row of dtype_format has {group} in "
        f"{code}; write: a row with {code}, or take {code} away from {soc}"
        for soc, codes in spec.target.soc.items()
        for code in codes
        if not any(code in row for row in rows)
    ]
    for codes in rows:
        if not any(codes <= set(chip) for chip in spec.target.soc.values()):
            found.append(f"{spec.location}: op {spec.name}: the row of dtype_format with {group} in "
                         f"{', '.join(sorted(codes))} holds on no chip of target.soc; write: the dtype at a chip, or "
                         "take the row away")  # fmt: skip
    return found


def _check_cases(spec: OpSpec, registry: Registry) -> list[str]:
    """Every case must be accepted on at least one chip, and every gradient must have its input's shape."""
    found = []
    for case in spec.cases:
        reasons: dict[str, list[str]] = {}
        for soc in spec.target.soc:
            try:
                shapes, dtypes, attrs = spec.case_call(case)
                outputs = spec.infer(shapes, dtypes, attrs, soc)
                found += _check_gradient(
                    spec, registry, (shapes, dtypes, attrs), outputs, f"case {case.name} on {soc}", soc
                )
                break
            except MsCustomOpsError as error:
                reasons.setdefault(str(error), []).append(soc)
        else:
            texts = [f"{', '.join(socs)}: {text}" for text, socs in reasons.items()]
            found.append(f"{spec.location}: case '{case.name}' is accepted on no chip: " + "; ".join(texts))
    return found


def _check_gradient(spec: OpSpec, registry: Registry, call: Any, outputs: Any, where: str, soc: str) -> list[str]:
    shapes, dtypes, attrs = call
    found = []
    for rule in spec.bprop.rules if spec.bprop else ():
        target = registry.ops[rule.op]
        given: dict[str, tuple[Any, Any]] = {}
        grad_attrs = {}
        for name, operand in rule.args.items():
            if operand.kind == "literal":
                grad_attrs[name] = operand.value
            elif operand.kind == "attr":
                default = next(arg.default for arg in spec.attributes if arg.name == operand.name)
                grad_attrs[name] = attrs.get(operand.name, default)
            elif operand.kind == "input":
                given[name] = (shapes[operand.name], dtypes[operand.name])
            else:
                given[name] = outputs[operand.index]
        grads = target.infer({k: v[0] for k, v in given.items()}, {k: v[1] for k, v in given.items()}, grad_attrs, soc)
        for wanted, ret, (shape, _) in zip(rule.inputs, target.returns, grads, strict=False):
            if shapes[wanted] is not None and shape != shapes[wanted]:
                found.append(
                    f"{spec.location}: op {spec.name}: {where}: {ret.name} of {rule.op} is {shape}, "
                    f"{wanted} is {shapes[wanted]}"
                )
    return found


def check_registry(registry: Registry, names: Sequence[str] = ()) -> list[str]:
    """Findings for the named ops (default: all): unknown chips, missing modules or functions, cases that no
    chip accepts, gradients of the wrong shape. Kernel and golden files are read, not executed."""
    found = []
    for name in names or [*registry.ops, *registry.broken]:
        if name in registry.broken:
            found += registry.broken[name].splitlines()
            if name in registry.partial:
                spec = registry.partial[name]
                found += _check_chips(spec) + _check_dtypes(spec) + _check_impl(spec)
            continue
        spec = registry.get(name)
        found += _check_chips(spec) + _check_dtypes(spec) + _check_impl(spec) + _check_cases(spec, registry)
    return found
