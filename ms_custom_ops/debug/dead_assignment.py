# SPDX-License-Identifier: Apache-2.0
"""Assignments of a kernel's source that give the name of a Scalar to something else, where set_as was meant.

``s = s + u[i]`` inside a ``for_range`` computes an expression once, while the kernel is traced; the Scalar keeps its
value in every round. The source says so: a name bound to a Scalar, bound again in a TIK scope inside the one that made
it.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache

from ms_custom_ops.engine.findings import Finding
from ms_custom_ops.program import ir

SCOPES = {"for_range", "if_scope", "elif_scope", "else_scope"}
SCALARS = {"Scalar"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Body = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


def dead_assignments(program: ir.Program) -> list[Finding]:
    """Findings of the functions and scripts that recorded a statement of ``program``."""
    found: list[Finding] = []
    lines: dict[str, set[int]] = {}
    for file, line in program.locations:
        if file:
            lines.setdefault(file, set()).add(line)
    for file, used in lines.items():
        for function in _with_scalars("".join(linecache.getlines(file))):
            script = isinstance(function, ast.Module)  # a kernel outside of functions
            if script or used & set(range(function.lineno, (function.end_lineno or 0) + 1)):
                found += _Function(file, function, used).findings()
    return found


@lru_cache(maxsize=64)
def _with_scalars(source: str) -> tuple[_Body, ...]:
    """The module and the functions that make a Scalar; others have nothing to bind again."""
    if not any(f"{name}(" in source for name in SCALARS):
        return ()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()  # no Python, or changed since
    bodies = (tree, *(f for f in ast.walk(tree) if isinstance(f, _FUNCTIONS)))
    return tuple(b for b in bodies if any(_calls(n, SCALARS) for n in ast.walk(b) if isinstance(n, ast.Call)))


def _name(node: ast.expr) -> str | None:
    """A name or an attribute of names, as text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _name(node.value)
        return f"{inner}.{node.attr}" if inner else None
    return None


def _calls(node: ast.expr, names: set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) in names


class _Function:
    def __init__(self, file: str, function: _Body, used: set[int]):
        self.file, self.function, self.used = file, function, used
        self.made: dict[str, tuple[tuple[int, ...], int]] = {}  # scopes around, and the line
        self.rebound: list[tuple[str, ast.stmt, ast.expr, tuple[int, ...], int]] = []
        self._walk(function.body, (), 0)

    def _walk(self, body: list[ast.stmt], scopes: tuple[int, ...], ends: int) -> None:
        for s in body:
            if isinstance(s, (*_FUNCTIONS, ast.ClassDef)):
                continue
            if isinstance(s, ast.Assign) and len(s.targets) == 1:
                self._bind(_name(s.targets[0]), s, s.value, scopes, ends)
            elif isinstance(s, ast.AnnAssign) and s.value is not None:
                self._bind(_name(s.target), s, s.value, scopes, ends)
            elif isinstance(s, ast.AugAssign):
                name = _name(s.target)
                if name in self.made and scopes != self.made[name][0]:
                    self.rebound.append((name, s, s.target, scopes, ends))
            inside, end = scopes, ends
            if isinstance(s, ast.With) and any(_calls(item.context_expr, SCOPES) for item in s.items):
                inside, end = (*scopes, s.lineno), ends or (s.end_lineno or 0)
            for field in ("body", "orelse", "finalbody"):
                inner = getattr(s, field, [])
                # A branch of Python that recorded nothing was not taken.
                if inner and not (isinstance(s, ast.If) and not self._recorded(inner)):
                    self._walk(inner, inside, end)
            for handler in getattr(s, "handlers", []):
                self._walk(handler.body, inside, end)

    def _recorded(self, body: list[ast.stmt]) -> bool:
        return any(line in self.used for line in range(body[0].lineno, (body[-1].end_lineno or 0) + 1))

    def _bind(self, name: str | None, s: ast.stmt, value: ast.expr, scopes: tuple[int, ...], ends: int) -> None:
        if name is None:
            return
        if _calls(value, SCALARS):
            self.made[name] = (scopes, s.lineno)
        elif name in self.made:
            if len(scopes) > len(self.made[name][0]):
                self.rebound.append((name, s, value, scopes, ends))
            else:
                del self.made[name]

    def _reads(self, root: ast.AST) -> Iterator[tuple[str, int]]:
        for node in ast.walk(root):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                text = _name(node)
                if text:
                    yield text, node.lineno

    def findings(self) -> Iterator[Finding]:
        reads = list(self._reads(self.function)) if self.rebound else []
        for name, s, value, _, ends in self.rebound:
            itself = isinstance(s, ast.AugAssign) or any(text == name for text, _ in self._reads(value))
            later = any(text == name and line > ends for text, line in reads)
            if not itself and not (later and isinstance(value, (ast.BinOp, ast.Subscript, ast.UnaryOp, ast.Name))):
                continue
            yield Finding(
                "dead_assignment",
                f"{name} is a Scalar, and this gives its name to an expression: the Scalar keeps its value, in every "
                f"round; write {name}.set_as(...)",
                self.file,
                s.lineno,
                self.file,
                self.made[name][1] if name in self.made else None,
            )
