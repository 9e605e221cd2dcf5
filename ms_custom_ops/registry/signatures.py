# SPDX-License-Identifier: Apache-2.0
"""The forms of docs/signatures.md, looked up in the source of an op's files without running them."""

from __future__ import annotations

import ast
from pathlib import Path

from ms_custom_ops.registry.spec import OpSpec

Found = list[str]


def functions_of(file: Path) -> dict[str, ast.FunctionDef]:
    """Functions that a file defines at its top level."""
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def check_entry(spec: OpSpec, file: Path, name: str) -> Found:
    """One parameter, the call; or CANN's: tensors, returns, attributes, kernel_name."""
    function = functions_of(file).get(name)
    if function is None or function.decorator_list or function.args.vararg:
        return []
    given = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    wanted = [a.name for a in spec.tensors] + [r.name for r in spec.returns] + [a.name for a in spec.attributes]
    wanted.append("kernel_name")
    if len(given) == 1 or len(given) == len(wanted):
        return []
    return [
        f"{file}:{function.lineno}: op {spec.name}: the kernel's entry takes ({', '.join(given)}); accepted: "
        f"def {name}(call), or CANN's form with one parameter each for {', '.join(wanted)}"
    ]


def check_golden(spec: OpSpec, file: Path, name: str) -> Found:
    """Every tensor and attribute by name, one result for every return; not asked of a golden that cases.py calls."""
    function = functions_of(file).get(name)
    if (
        function is None
        or function.decorator_list
        or (file.parent / "cases.py").is_file()
        and _calls_golden(file, spec)
    ):
        return []
    found, args = [], function.args
    known = {arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    wanted = [arg.name for arg in spec.args]
    lacking = [] if args.kwarg else [each for each in wanted if each not in known]
    if lacking:
        found.append(f"{file}:{function.lineno}: op {spec.name}: the golden does not take {', '.join(lacking)}; write: "
                     f"def {name}({', '.join(wanted)})")  # fmt: skip
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and _own_return(function, node):
            count = len(node.value.elts) if isinstance(node.value, ast.Tuple) else None
            starred = isinstance(node.value, ast.Tuple) and any(isinstance(e, ast.Starred) for e in node.value.elts)
            if count is not None and not starred and count != len(spec.returns):
                names = ", ".join(ret.name for ret in spec.returns)
                found.append(f"{file}:{node.lineno}: op {spec.name}: the golden returns {count} arrays; accepted: "
                             f"{len(spec.returns)}; write: return {names}")  # fmt: skip
    return found


def _calls_golden(file: Path, spec: OpSpec) -> bool:
    """Whether cases.py says how a golden is called."""
    return "golden" in (file.parent / "cases.py").read_text(encoding="utf-8")


def _own_return(function: ast.FunctionDef, node: ast.Return) -> bool:
    inner = [n for n in ast.walk(function) if isinstance(n, (ast.FunctionDef, ast.Lambda)) and n is not function]
    return not any(node in ast.walk(each) for each in inner)


def check_cases_file(spec: OpSpec, golden: Path) -> Found:
    """A cases.py beside the golden defines CASES, a mapping with an entry for the op where its keys are written out."""
    file = golden.parent / "cases.py"
    if not file.is_file():
        return []
    for node in ast.parse(file.read_text(encoding="utf-8"), str(file)).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "CASES":
            value = node.value  # type: ignore[attr-defined]
            keys = [k.value for k in value.keys if isinstance(k, ast.Constant)] if isinstance(value, ast.Dict) else None
            if keys is not None and len(keys) == len(value.keys) and spec.name not in keys:
                return [f"{file}:{node.lineno}: op {spec.name}: CASES has no entry for it; write: "
                        f'"{spec.name}": CaseData()']  # fmt: skip
            return []
    return [f'{file}:1: op {spec.name}: CASES is not defined; write: CASES = {{"{spec.name}": CaseData()}}']


def check_lowering(spec: OpSpec, file: Path, name: str) -> Found:
    """One parameter, the Lowering."""
    function = functions_of(file).get(name)
    if function is None or len(function.args.args) == 1:
        return []
    given = ", ".join(arg.arg for arg in function.args.args)
    return [f"{file}:{function.lineno}: op {spec.name}: the lowering takes ({given}); write: def {name}(low)"]


def check_plan(spec: OpSpec, file: Path) -> Found:
    """The tiling module defines or imports something: an empty one is no plan."""
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    kinds = (ast.FunctionDef, ast.ClassDef, ast.ImportFrom, ast.Assign)
    if any(isinstance(node, kinds) for node in tree.body):
        return []
    form = "a frozen dataclass with problem, soc, buffers and split, and the function that makes it"
    return [f"{file}:1: op {spec.name}: the tiling module is empty; write: {form}"]
