# SPDX-License-Identifier: Apache-2.0
"""Drops assignments of scalars that nothing reads.

Only those that cannot fail: their value has constants, input scalars and variables of loops around them as operands,
and no operator that refuses a value (division, remainder, square root).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import Expr

_MAY_FAIL = frozenset(("/", "%", "sqrt"))


def run(program: ir.Program) -> ir.Program:
    """The Program without them; itself when there are none."""
    assigned = {s.register for s in ir.walk(program.body) if s.__class__ is ir.Assign}
    dead = assigned - _read(program) if assigned else assigned
    if not dead:
        return program
    changed, body = _without(program.body, dead, set(program.input_scalars))
    return dataclasses.replace(program, body=body) if changed else program


def _read(program: ir.Program) -> set[int]:
    """Registers that some expression reads."""
    found: set[int] = set()
    seen: set[int] = set()  # ids of nodes that the Program holds
    for s in ir.walk(program.body):
        stack = [e for e in _expressions(s) if isinstance(e, Expr)]
        while stack:
            e = stack.pop()
            if id(e) in seen:
                continue
            seen.add(id(e))
            if e.op == "var":
                found.add(e.value)
            stack += [x for x in (e.a, e.b) if x is not None]
    return found


def _expressions(s: Any) -> list:
    kind = s.__class__
    if kind is ir.Instr:
        return [*s.args, *(t.offset for t in s.tensors)]
    if kind is ir.For:
        return [s.begin, s.end]
    if kind is ir.If:
        return [s.cond]
    if kind is ir.Assign:
        return [s.value]
    if kind is ir.Load:
        return [s.ref.offset]
    return [s.ref.offset, s.value] if kind is ir.Store else []


def _without(body: list, dead: set[int], known: set[int]) -> tuple[bool, list]:
    """Whether a statement went, and the statements that stay. ``known`` are registers that have a value here."""
    changed, kept = False, []
    for s in body:
        if s.__class__ is ir.Assign and s.register in dead and _cannot_fail(s.value, known):
            changed = True
            continue
        if s.__class__ is ir.For:
            inner, statements = _without(s.body, dead, known | {s.register})
            if inner:
                s = ir.For(s.register, s.begin, s.end, statements, s.block, s.threads, s.loc)
        elif s.__class__ is ir.NoSync:
            inner, statements = _without(s.body, dead, known)
            if inner:
                s = ir.NoSync(statements, s.loc)
        elif s.__class__ is ir.If:
            inner, s = _chain(s, dead, known)
        else:
            inner = False
        changed = changed or inner
        kept.append(s)
    return changed, kept


def _chain(s: ir.If, dead: set[int], known: set[int]) -> tuple[bool, ir.If]:
    """An if with its elifs, which may be hundreds: without recursion along them."""
    links, at = [s], s
    while len(at.orelse) == 1 and isinstance(at.orelse[0], ir.If):
        at = at.orelse[0]
        links.append(at)
    changed, last = _without(at.orelse, dead, known)
    for link in reversed(links):
        inner, then = _without(link.then, dead, known)
        changed = changed or inner
        last = [ir.If(link.cond, then, last, link.loc)]
    return (True, last[0]) if changed else (False, s)


def _cannot_fail(root: Any, known: set[int]) -> bool:
    stack = [root] if isinstance(root, Expr) else []
    while stack:
        e = stack.pop()
        if e.op in _MAY_FAIL or e.op == "var" and e.value not in known:
            return False
        stack += [x for x in (e.a, e.b) if x is not None]
    return True
