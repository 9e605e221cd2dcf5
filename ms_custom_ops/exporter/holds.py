# SPDX-License-Identifier: Apache-2.0
"""Numbers that a kernel holds without a name, written where they are used.

A register without a name that is assigned once, and used behind that, in the same list of statements or inside of it,
is its value there: what the value is made of is assigned before it, once, or counts the rounds of a loop around it. A
value that is used more than once has at most one operator.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.exporter.cores import reads_of, registers_of
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import FLOATS
from ms_custom_ops.program.expr import Expr

Path = tuple[tuple[int, int], ...]
"""Of a statement: the lists around it, outermost first, and its place in each."""


class _Uses:
    """Where registers are assigned and used, in the order of the source."""

    def __init__(self, body: list):
        self.assigned: dict[int, list[tuple[int, Path, Any]]] = {}
        self.used: dict[int, list[tuple[int, Path]]] = {}
        self.loops: set[int] = set()
        self._count = 0
        self._visit(body, ())

    def _visit(self, body: list, path: Path) -> None:
        for index, s in enumerate(body):
            here = (*path, (id(body), index))
            self._count += 1
            for register in reads_of(s):
                self.used.setdefault(register, []).append((self._count, here))
            if isinstance(s, ir.Assign | ir.Load):
                self.assigned.setdefault(s.register, []).append((self._count, here, s))
            if isinstance(s, ir.For):
                self.loops.add(s.register)
            for inner in ir.bodies(s):
                self._visit(inner, here)


def written_out(program: ir.Program) -> list:
    """The statements of a Program with such values in place of their registers."""
    uses = _Uses(program.body)
    known: dict[int, Expr] = {}
    for register in sorted(uses.assigned, key=lambda r: uses.assigned[r][0][0]):
        value = _value(program, uses, register)
        if value is not None:
            known[register] = _replaced(value, known)
    return _changed(program.body, known) if known else program.body


def _value(program: ir.Program, uses: _Uses, register: int) -> Expr | None:
    about, places = program.registers[register], uses.assigned[register]
    used = uses.used.get(register, [])
    unnamed = not about.name or about.name.isdigit()
    if not unnamed or about.kind != "scalar" or about.dtype in FLOATS or len(places) != 1 or not used:
        return None
    at, path, s = places[0]
    if not isinstance(s, ir.Assign) or not all(use > at and _inside(where, path) for use, where in used):
        return None
    if len(used) > 1 and _operators(s.value) > 1:
        return None
    for source in registers_of(s):
        before = uses.assigned.get(source, [])
        once = len(before) == 1 and before[0][0] < at and source not in uses.loops
        if not (once or (source in uses.loops and not before) or program.registers[source].kind == "input"):
            return None
    value = s.value if isinstance(s.value, Expr) else Expr("const", about.dtype, value=s.value)
    return value if value.dtype == about.dtype else Expr("cast", about.dtype, value)


def _inside(where: Path, path: Path) -> bool:
    """Whether a place is in the list of statements of another one, or inside of it."""
    depth = len(path) - 1
    return len(where) > depth and where[:depth] == path[:depth] and where[depth][0] == path[depth][0]


def _operators(value: Any) -> int:
    if not isinstance(value, Expr):
        return 0
    return (value.op not in ("const", "var", "cast")) + _operators(value.a) + _operators(value.b)


def _replaced(value: Any, known: dict[int, Expr]) -> Any:
    if not isinstance(value, Expr):
        return value
    if value.op == "var":
        return known.get(value.value, value)
    if value.a is None and value.b is None:
        return value
    return Expr(value.op, value.dtype, _replaced(value.a, known), _replaced(value.b, known), value.value)


def _ref(ref: ir.Ref, known: dict[int, Expr]) -> ir.Ref:
    return ir.Ref(ref.buffer, ref.dtype, _replaced(ref.offset, known))


def _changed(body: list, known: dict[int, Expr]) -> list:
    found: list = []
    for s in body:
        if isinstance(s, ir.Assign) and s.register in known:
            continue
        if isinstance(s, ir.Instr):
            s = ir.Instr(s.op, tuple(_ref(t, known) for t in s.tensors), tuple(_replaced(a, known) for a in s.args),
                         s.attrs, s.loc)  # fmt: skip
        elif isinstance(s, ir.For):
            begin, end = _replaced(s.begin, known), _replaced(s.end, known)
            s = ir.For(s.register, begin, end, _changed(s.body, known), s.block, s.threads, s.loc)
        elif isinstance(s, ir.If):
            s = ir.If(_replaced(s.cond, known), _changed(s.then, known), _changed(s.orelse, known), s.loc)
        elif isinstance(s, ir.NoSync):
            s = ir.NoSync(_changed(s.body, known), s.loc)
        elif isinstance(s, ir.Assign):
            s = ir.Assign(s.register, _replaced(s.value, known), s.loc)
        elif isinstance(s, ir.Load):
            s = ir.Load(s.register, _ref(s.ref, known), s.loc)
        elif isinstance(s, ir.Store):
            s = ir.Store(_ref(s.ref, known), _replaced(s.value, known), s.loc)
        found.append(s)
    return found
