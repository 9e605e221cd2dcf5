# SPDX-License-Identifier: Apache-2.0
"""Names of C++ and where each is declared."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ms_custom_ops.exporter.cores import registers_of
from ms_custom_ops.exporter.words import TAKEN
from ms_custom_ops.program import ir


def identifier(name: str) -> str:
    """The nearest C++ name."""
    found = re.sub(r"\W", "_", name)
    found = re.sub(r"__+", "_", found).strip("_")
    if not found or found[0].isdigit():
        found = f"v{found}"
    return f"{found}_" if found in TAKEN else found


class Names:
    """Names in force, by nested block. A name is never hidden by one inside."""

    def __init__(self) -> None:
        self._blocks: list[set[str]] = [set()]

    def open(self) -> None:
        """A block begins."""
        self._blocks.append(set())

    def close(self) -> None:
        """It ends, and with it its names."""
        self._blocks.pop()

    def take(self, wanted: str) -> str:
        """A name that nothing in force has: ``wanted``, or with a number behind it."""
        base = name = identifier(wanted)
        number = 2
        while any(name in block for block in self._blocks):
            name = f"{base}{number}" if not base[-1].isdigit() else f"{base}_{number}"
            number += 1
        self._blocks[-1].add(name)
        return name

    def take_top(self, wanted: str) -> str:
        """A name for the whole function, of which a use may come before its declaration is known."""
        base = name = identifier(wanted)
        number = 2
        while any(name in block for block in self._blocks):
            name = f"{base}{number}"
            number += 1
        self._blocks[0].add(name)
        return name


class Declarations:
    """Where registers are declared: by their first assignment, in the innermost list of statements that holds every
    use; ahead of a list where its first use is no assignment."""

    def __init__(self, body: list, tops: Iterable[int]):
        self.at_assignment: dict[int, set[int]] = {}  # id of a statement -> registers it declares
        self.ahead: dict[int, list[int]] = {}  # id of a list -> registers declared before its first statement
        self.hoisted: set[int] = set()  # registers declared ahead
        self._uses: dict[int, list[list[tuple[int, int]]]] = {}  # register -> paths of (id of a list, index)
        self._lists: dict[int, list] = {}
        self._visit(body, [])
        for register in sorted(set(self._uses) - set(tops)):
            self._place(register, body)

    def _visit(self, body: list, path: list[tuple[int, int]]) -> None:
        self._lists[id(body)] = body
        for index, s in enumerate(body):
            here = [*path, (id(body), index)]
            for register in registers_of(s):
                self._uses.setdefault(register, []).append(here)
            if isinstance(s, ir.Assign | ir.Load):
                self._uses.setdefault(s.register, []).append(here)
            if isinstance(s, ir.For):
                self._uses.setdefault(s.register, []).append([*here, (id(s.body), -1)])
            for inner in ir.bodies(s):
                self._visit(inner, here)

    def _place(self, register: int, top: list) -> None:
        paths = self._uses[register]
        depth = 0
        while all(len(p) > depth for p in paths) and len({p[depth][0] for p in paths}) == 1:
            depth += 1
            if len({p[depth - 1][1] for p in paths}) != 1:
                break
        home = self._lists[paths[0][depth - 1][0]]
        first = min(p[depth - 1][1] for p in paths)
        if first == -1:
            return  # a loop's own variable
        s = home[first]
        reads = register in registers_of(s) if not isinstance(s, ir.For | ir.If | ir.NoSync) else True
        if isinstance(s, ir.Assign | ir.Load) and s.register == register and not reads:
            self.at_assignment.setdefault(id(s), set()).add(register)
            return
        self.hoisted.add(register)
        self.ahead.setdefault(id(home if self._always_set(home, first, register) else top), []).append(register)

    @staticmethod
    def _always_set(home: list, first: int, register: int) -> bool:
        """Whether a value from an earlier round of the loop around ``home`` cannot be read: it is a branch of which
        each way sets the register first."""
        s = home[first]
        if not isinstance(s, ir.If) or register in registers_of(s):
            return False
        return all(part and any(_sets_first(part, register)) for part in (s.then, s.orelse))


def _sets_first(body: list, register: int) -> list[bool]:
    for s in body:
        if isinstance(s, ir.Assign | ir.Load) and s.register == register and register not in registers_of(s):
            return [True]
        if register in registers_of(s) or ir.bodies(s):
            return [False]
    return [False]
