# SPDX-License-Identifier: Apache-2.0
"""Reading of the text that :mod:`ms_custom_ops.program.text` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.cores import CUBE, VECTOR, core_of
from ms_custom_ops.program.dtypes import DTYPES
from ms_custom_ops.program.expr import Expr, const, var
from ms_custom_ops.program.expr_text import parse as expression
from ms_custom_ops.program.isa import ISA
from ms_custom_ops.program.tables import read as read_table
from ms_custom_ops.program.text import LISTS

_STRING = r'"(?:[^"\\]|\\.)*"'
_PLACE = re.compile(r" @(\S+):(\d+)$")
_PROGRAM = re.compile(rf"program ({_STRING}) soc=({_STRING}) saturate=([01]) split_cores=([01])")
_META = re.compile(rf"meta ({_STRING}) ({_STRING})")
_SCOPE = re.compile(r"scope (\w+) (-?\d+)")
_FILE = re.compile(rf"file (\S+) ({_STRING})")
_SCALAR = re.compile(rf"scalar %([\w#]+) : (\w+) (scalar|loop|input)(?: ({_STRING}))?")
_TENSOR = re.compile(
    rf"tensor %([\w#]+) : (\w+)\[([-\d?, ]*)\] (\w+) (\w+) bytes=(-?\d+)(?: copies\(([^)]*)\)| at (-?\d+))?"
    rf"( atomic_init)?(?: init=(\S+))?(?: ({_STRING}))?"
)
_LIST = re.compile(rf"({'|'.join(LISTS)})((?: %[\w#]+)+)")
_FOR = re.compile(r"for (%[\w#]+) in (.+) \.\. (.+?)( block)?(?: threads=(\d+))?")
_REF = re.compile(r"%([\w#]+)(?::(\w+))?\[([^\]]*)\]")
_ASSIGN = re.compile(r"(%[\w#]+) = (load )?(.+)")
_STORE = re.compile(r"store (\S+?\[[^\]]*\]) = (.+)")
_LIFE = re.compile(r"(alloc|free) %([\w#]+)")
_INSTR = re.compile(rf"(?:({CUBE}|{VECTOR}) )?(\w+)((?: %[^(){{}}]*?\[[^\]]*\],?)*)(?: \((.*)\))?(?: \{{(.*)\}})?")
_JUMPS = ("break", "continue", "return")


class Parser:
    """Reads one text, line by line."""

    def __init__(self, text: str):
        self.lines = text.splitlines()
        self.program = ir.Program("", "", {})
        self.files: dict[str, str] = {}
        self.places: dict[tuple[str, int], int] = {("", 0): 0}
        self.scalars: dict[str, int] = {}
        self.tensors: dict[str, ir.Buffer] = {}
        # Open statement lists by depth, and the If that an elif or else at that depth belongs to.
        self.open: list[list] = []
        self.last: list[ir.If | None] = []

    def run(self) -> ir.Program:
        """The Program of the text."""
        in_body = False
        for number, line in enumerate(self.lines, 1):
            if not line.strip():
                continue
            try:
                if in_body:
                    self.statement(line)
                elif line == "body":
                    in_body = True
                    self.open, self.last = [self.program.body], [None]
                else:
                    self.header(line)
            except (ValueError, KeyError, IndexError) as error:
                raise EngineError(f"program text: line {number}: {_reason(error)}: {line.strip()!r}") from None
        if not in_body:
            raise EngineError("program text: no line 'body'")
        return self.program

    def header(self, line: str) -> None:
        p = self.program
        line, loc = self.place(line)
        if found := _PROGRAM.fullmatch(line):
            p.name, p.soc = json.loads(found[1]), json.loads(found[2])
            p.saturate, p.split_cores = found[3] == "1", found[4] == "1"
        elif found := _META.fullmatch(line):
            p.meta[json.loads(found[1])] = json.loads(found[2])
        elif found := _SCOPE.fullmatch(line):
            _one_of("scope", found[1], ir.SCOPES)
            p.scope_bytes[found[1]] = int(found[2])
        elif found := _FILE.fullmatch(line):
            self.files[found[1]] = json.loads(found[2])
        elif found := _SCALAR.fullmatch(line):
            index = len(p.registers)
            _one_of("dtype", found[2], DTYPES)
            p.registers.append(ir.Register(index, _name(found[1], found[4]), found[2], found[3]))
            self.new(self.scalars, found[1], index)
        elif found := _TENSOR.fullmatch(line):
            self.tensor(found, loc)
        elif found := _LIST.fullmatch(line):
            names = [name[1:] for name in found[2].split()]
            scalars = found[1] == "input_scalars"
            getattr(p, found[1]).extend(self.scalars[n] if scalars else self.tensors[n].index for n in names)
        else:
            raise ValueError("not a line before the body")

    def new(self, table: dict[str, Any], label: str, value: Any) -> None:
        if label in table:
            raise ValueError(f"%{label} is declared twice")
        table[label] = value

    def tensor(self, found: re.Match[str], loc: int) -> None:
        label, dtype, dims, scope, kind, size, copies, address, atomic, init, raw = found.groups()
        _one_of("dtype", dtype, DTYPES)
        _one_of("scope", scope, ir.SCOPES)
        _one_of("kind", kind, ir.KINDS)
        shape = tuple(-1 if d.strip() == "?" else int(d) for d in dims.split(",")) if dims.strip() else ()
        addresses = tuple(int(a) for a in re.findall(r" at (-?\d+)", copies)) if copies else (int(address or 0),)
        value: Any = None
        if init is not None:
            value = read_table(init, dtype) if init.startswith("[") else expression(init, self.scalar)
        buffer = ir.Buffer(
            len(self.program.buffers),
            _name(label, raw),
            scope,
            dtype,
            shape,
            int(size),
            addresses[0],
            kind,
            atomic is not None,
            value.value if isinstance(value, Expr) else value,
            loc,
            addresses,
        )
        self.program.buffers.append(buffer)
        self.new(self.tensors, label, buffer)

    def place(self, line: str) -> tuple[str, int]:
        """The line without its place, and the number of that."""
        found = _PLACE.search(line)
        if found is None:
            return line, 0
        place = self.files[found[1]], int(found[2])
        number = self.places.get(place)
        if number is None:
            number = self.places[place] = len(self.program.locations)
            self.program.locations.append(place)
        return line[: found.start()], number

    def scalar(self, name: str) -> Expr:
        index = self.scalars[name[1:]]
        return var(index, self.program.registers[index].dtype)

    def expr(self, text: str) -> Any:
        return expression(text, self.scalar)

    def node(self, text: str) -> Expr:
        value = self.expr(text)
        return value if isinstance(value, Expr) else const(value)

    def ref(self, found: re.Match[str]) -> ir.Ref:
        buffer = self.tensors[found[1]]
        if found[2]:
            _one_of("dtype", found[2], DTYPES)
        return ir.Ref(buffer, found[2] or buffer.dtype, self.expr(found[3]))

    def statement(self, line: str) -> None:
        content = line.lstrip(" ")
        spaces = len(line) - len(content)
        depth = spaces // 2 - 1
        if spaces % 2 or not 0 <= depth < len(self.open):
            raise ValueError("indentation that follows no statement with a body")
        del self.open[depth + 1 :], self.last[depth + 1 :]
        content, loc = self.place(content.rstrip())
        body, chain = self.open[depth], self.last[depth]
        word, _, rest = content.partition(" ")
        if word in ("elif", "else"):
            if chain is None:
                raise ValueError(f"{word} after no if")
            inner, self.last[depth] = chain.orelse, None
            if word == "elif":
                following = ir.If(self.node(rest), [], [], loc)
                chain.orelse.append(following)
                inner, self.last[depth] = following.then, following
        elif word == "if":
            first = ir.If(self.node(rest), [], [], loc)
            body.append(first)
            inner, self.last[depth] = first.then, first
        else:
            s = self.plain(content, loc)
            body.append(s)
            self.last[depth] = None
            if not isinstance(s, (ir.For, ir.NoSync)):
                return
            inner = s.body
        self.open.append(inner)
        self.last.append(None)

    def plain(self, line: str, loc: int) -> Any:
        if line in _JUMPS:
            return ir.Jump(line, loc)
        if line == "nosync":
            return ir.NoSync([], loc)
        if found := _FOR.fullmatch(line):
            begin, end = self.expr(found[2]), self.expr(found[3])
            register = self.scalars[found[1][1:]]
            return ir.For(register, begin, end, [], found[4] is not None, int(found[5] or 1), loc)
        if found := _ASSIGN.fullmatch(line):
            register = self.scalars[found[1][1:]]
            if found[2]:
                return ir.Load(register, self.ref(_whole(_REF, found[3])), loc)
            return ir.Assign(register, self.node(found[3]), loc)
        if found := _STORE.fullmatch(line):
            return ir.Store(self.ref(_whole(_REF, found[1])), self.node(found[2]), loc)
        if found := _LIFE.fullmatch(line):
            return (ir.Alloc if found[1] == "alloc" else ir.Free)(self.tensors[found[2]], loc)
        return self.instr(_whole(_INSTR, line), loc)

    def instr(self, found: re.Match[str], loc: int) -> ir.Instr:
        core, op, tensors, args, attrs = found.groups()
        spec = ISA.get(op)
        refs = tuple(self.ref(m) for m in _REF.finditer(tensors))
        values = _values(args, spec.args if spec else (), self.expr)
        s = ir.Instr(op, refs, values, _values(attrs, spec.attrs if spec else (), int), loc)
        given, derived = core or "", core_of(self.program, s)
        if given != derived:
            raise ValueError(f"core is {given or 'none'}; accepted: {derived or 'none'}")
        return s


def _values(text: str | None, names: tuple[str, ...], read: Callable[[str], Any]) -> tuple:
    """Values of ``name=value, ...``, in the order of the instruction; without names as they come."""
    items = _split(text) if text else []
    named = [item.partition("=") for item in items if re.match(r"\w+=(?!=)", item)]
    if not named:
        return tuple(read(item) for item in items)
    found = {name: value for name, _, value in named}
    if len(found) != len(items) or set(found) != set(names):
        raise ValueError(f"names are {', '.join(found)}; accepted: {', '.join(names)}")
    return tuple(read(found[name]) for name in names)


def _split(text: str) -> list[str]:
    """Parts between the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for k, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            parts.append(text[start:k].strip())
            start = k + 1
    return [*parts, text[start:].strip()]


def _whole(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError("not a statement")
    return found


def _one_of(what: str, given: str, accepted: Any) -> None:
    if given not in accepted:
        raise ValueError(f"{what} is {given}; accepted: {', '.join(accepted)}")


def _name(label: str, raw: str | None) -> str:
    return json.loads(raw) if raw is not None else label.partition("#")[0]


def _reason(error: Exception) -> str:
    return f"unknown name {error}" if isinstance(error, KeyError) else str(error)
