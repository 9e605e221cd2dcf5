# SPDX-License-Identifier: Apache-2.0
"""Statements of one part of a Program as C++."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ms_custom_ops.exporter import calls_cube, calls_other, calls_vector
from ms_custom_ops.exporter.accesses import TILED
from ms_custom_ops.exporter.context import Use
from ms_custom_ops.exporter.cores import Flag, registers_of
from ms_custom_ops.exporter.errors import refuse
from ms_custom_ops.exporter.expressions import CPP, NoCppError, Writer
from ms_custom_ops.exporter.instead import INSTEAD
from ms_custom_ops.exporter.places import Places, byte_of
from ms_custom_ops.exporter.runs import write_series, write_table
from ms_custom_ops.exporter.scopes import Declarations, Names
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import FLOATS, SIZE
from ms_custom_ops.program.expr import Expr, binary
from ms_custom_ops.program.isa import ISA

CALLS = {**calls_vector.CALLS, **calls_cube.CALLS, **calls_other.CALLS}
_TEXT = 46
_FLAG_WIDTH = 160  # of a line of flags: statements with the kernel's line beside them are as long
_FLAGS = re.compile(r"(?:(?:CrossCore)?(?:Set|Wait)Flag(?:<[^>]*>)?\([^()]*\);\s*)+")


class Body:
    """Writes one part: ``lines``, and ``head``, what goes before them."""

    def __init__(self, program: ir.Program, statements: list, core: str, names: Names, helpers: set[str],
                 inputs: dict[int, str], mixed: bool):  # fmt: skip
        self.program, self.core, self.names, self.mixed = program, core, names, mixed
        self.statements = statements
        self.declarations = Declarations(statements, inputs)
        self.registers: dict[int, str] = dict(inputs)
        self.places = Places(program, statements, names)
        self.writer = Writer(lambda r: self.registers[r], helpers)
        self.copies: dict[int, str] = {}  # register of a loop -> the variable that says which copy a round has
        self.turns: list[int] = []
        self.own_flags = 0  # regions with flags of the kernel's own around a statement
        self.lines: list[str] = []
        self.head = self.places.head
        self.depth = 1

    def write(self) -> None:
        """Fills ``lines`` and ``head``."""
        for register in self.declarations.ahead.get(id(self.statements), ()):
            r = self.program.registers[register]
            self.registers[register] = self.names.take(r.name or f"s{register}")
            self.head.append(f"{CPP[r.dtype]} {self.registers[register]}{{}};")
        self.every(self.statements, ahead=False)

    def put(self, text: str, loc: int = 0) -> None:
        """One line, with the line of the kernel beside it."""
        line = "    " * self.depth + text
        self.lines.append(line + self._source(loc, len(line)) if loc else line)

    def _source(self, loc: int, used: int) -> str:
        file, number = self.program.locations[loc]
        if not file:
            return ""
        text = linecache.getline(file, number).strip()
        place = f"{Path(file).name}:{number}"
        text = text if len(text) <= _TEXT else f"{text[: _TEXT - 3]}..."
        return f"  // {place} {text}".replace("\\", "/").rstrip()

    def every(self, body: list, ahead: bool = True) -> None:
        """The statements of one block."""
        if ahead:
            for register in self.declarations.ahead.get(id(body), ()):
                r = self.program.registers[register]
                self.registers[register] = self.names.take(r.name or f"s{register}")
                self.put(f"{CPP[r.dtype]} {self.registers[register]};")
        index = 0
        while index < len(body):
            index = write_table(self, body, index) or write_series(self, body, index) or self._one(body, index)

    def _one(self, body: list, index: int) -> int:
        self.told(body[index], self.statement)
        return index + 1

    def told(self, s: Any, write: Callable[[Any], None]) -> None:
        """Writes a statement; an expression without C++ is refused with its line."""
        try:
            write(s)
        except NoCppError as error:
            given, _, accepted = str(error).partition("; accepted: ")
            raise refuse(self.program, s, "scalar operation", given, accepted) from error

    def statement(self, s: Any) -> None:
        """One statement."""
        if isinstance(s, ir.Instr):
            self.instruction(s)
        elif isinstance(s, Flag):
            self.flag(s)
        elif isinstance(s, ir.Assign | ir.Load):
            self.assignment(s)
        elif isinstance(s, ir.Store):
            self.store(s)
        elif isinstance(s, ir.For):
            self.loop(s)
        elif isinstance(s, ir.If):
            self.branch(s, "")
        elif isinstance(s, ir.NoSync):
            self.put("PipeBarrier<PIPE_ALL>();  // flags of the kernel's own from here", s.loc)
            self.own_flags += 1
            self.every(s.body)
            self.own_flags -= 1
            self.put("PipeBarrier<PIPE_ALL>();")
        elif isinstance(s, ir.Alloc):
            self.alloc(s)
        elif isinstance(s, ir.Jump):
            self.put("return;" if s.kind == "return" else f"{s.kind};", s.loc)

    def block(self, body: list) -> None:
        """Statements in brackets, the opening one written."""
        self.depth += 1
        self.names.open()
        self.every(body)
        self.names.close()
        self.depth -= 1

    def loop(self, s: ir.For) -> None:
        register = self.program.registers[s.register]
        kind = CPP[register.dtype]
        begin, end = self.writer.text(s.begin), self.writer.operand(s.end)
        self.names.open()
        known = self.registers.get(s.register) if s.register in self.declarations.hoisted else None
        if s.block:
            name = self.registers[s.register] = known or self.names.take(register.name or "block")
            first = "GetBlockIdx()" if begin == "0" else f"{self.writer.operand(s.begin)} + GetBlockIdx()"
            if known is None and not _leaves(s.body):
                self.put(f"const {kind} {name} = {first};", s.loc)
                self.every(s.body)
                self.names.close()
                return
            self.put(f"for ({kind + ' ' if known is None else ''}{name} = {first}, once = 1; once; once = 0) {{", s.loc)
        else:
            if _changes(s.end, s.body):
                limit = self.names.take("end")
                self.put(f"const int64_t {limit} = {self.writer.text(s.end)};")
                end = limit
            name = self.registers[s.register] = known or self.names.take(register.name or "i")
            self.put(f"for ({kind + ' ' if known is None else ''}{name} = {begin}; {name} < {end}; ++{name}) {{", s.loc)
        if self._has_copies(s):
            self.depth += 1
            copy = self.copies[s.register] = self.names.take("copy")
            first = f"({name} - {self.writer.operand(s.begin)})" if begin != "0" else name
            self.put(f"const int32_t {copy} = {first} % {s.threads};  // tensors of this loop have {s.threads} copies")
            self.depth -= 1
            self.turns.append(s.register)
        self.block(s.body)
        if self._has_copies(s):
            self.turns.pop()
        self.put("}")
        self.names.close()

    @staticmethod
    def _has_copies(s: ir.For) -> bool:
        return s.threads > 1 and any(isinstance(x, ir.Alloc) and len(x.buffer.addresses) > 1 for x in ir.walk(s.body))

    def branch(self, s: ir.If, word: str) -> None:
        if not word and self._sets_a_number(s):
            only = s.then[0]
            value = self.writer.text(only.value, self.program.registers[only.register].dtype)
            text = f"{self.registers[only.register]} = {value};"
            self.put(f"if ({self.writer.text(s.cond, 'bool')}) {{ {text} }}", s.loc)
            return
        self.put(f"{word}if ({self.writer.text(s.cond, 'bool')}) {{", s.loc)
        self.block(s.then)
        if len(s.orelse) == 1 and isinstance(s.orelse[0], ir.If):
            self.branch(s.orelse[0], "} else ")
            return
        if s.orelse:
            self.put("} else {")
            self.block(s.orelse)
        self.put("}")

    def _sets_a_number(self, s: ir.If) -> bool:
        """Whether a branch does no more than that, so that it has room on one line."""
        only = s.then[0] if len(s.then) == 1 and not s.orelse else None
        if not isinstance(only, ir.Assign) or id(s.then) in self.declarations.ahead:
            return False
        return only.register not in self.declarations.at_assignment.get(id(only), ())

    def assignment(self, s: ir.Assign | ir.Load) -> None:
        register = self.program.registers[s.register]
        if isinstance(s, ir.Assign):
            value = self.writer.text(s.value, register.dtype)
        else:
            value = self._loaded(s, register.dtype)
        kind = ""
        if s.register in self.declarations.at_assignment.get(id(s), ()):
            kind = f"{CPP[register.dtype]} "
            name = self.names.take(register.name or f"s{s.register}")
            self.registers[s.register] = name
        self.put(f"{kind}{self.registers[s.register]} = {value};", s.loc)

    def _loaded(self, s: ir.Load, dtype: str) -> str:
        ref = s.ref
        if ref.buffer.scope == ir.SMASK:
            place = byte_of(ref)
            if place not in self.places.special:
                raise refuse(self.program, s, "tensor", ref.buffer.name, "what vreduce or vmrgsort wrote")
            return f"{CPP[dtype]}({self.places.special[place]})"
        if SIZE[dtype] > SIZE[ref.dtype] and not _on_grid(ref, SIZE[dtype]):
            return self._joined(s, dtype)
        tensor, index = self._element(s, dtype)
        self._refresh(ref, tensor, dtype)
        return f"{tensor}.GetValue({index})"

    def _refresh(self, ref: ir.Ref, tensor: str, dtype: str) -> None:
        """What other cores may have written is read from GM."""
        if ref.buffer.scope == ir.GM and ref.buffer.index not in self.program.inputs:
            self.put(f"DataCacheCleanAndInvalid<{CPP[dtype]}, CacheLine::ENTIRE_DATA_CACHE>({tensor});")

    def _joined(self, s: ir.Load, dtype: str) -> str:
        """A number that lies across elements: the scalar unit reads a number at multiples of its size."""
        ref, size = s.ref, SIZE[s.ref.dtype]
        if dtype in FLOATS:
            raise refuse(self.program, s, "dtype", f"{ref.dtype} read as {dtype}", "dtypes of one width")
        narrow, wide = f"uint{8 * size}", f"uint{8 * SIZE[dtype]}"
        tensor = self._reached(s, narrow)
        self._refresh(ref, tensor, narrow)
        count = SIZE[dtype] // size
        places = [self.writer.text(binary("+", ref.offset, k) if k else ref.offset) for k in range(count)]
        parts = [f"{CPP[wide]}({tensor}.GetValue({place}))" for place in places]
        joined = " | ".join(part if not k else f"({part} << {8 * size * k})" for k, part in enumerate(parts))
        return joined if dtype == wide and SIZE[dtype] > 2 else f"{CPP[dtype]}({joined})"

    def store(self, s: ir.Store) -> None:
        tensor, index = self._element(s, s.ref.dtype)
        self.put(f"{tensor}.SetValue({index}, {self.writer.text(s.value, s.ref.dtype)});", s.loc)
        if s.ref.buffer.scope == ir.GM:
            self.put(f"DataCacheCleanAndInvalid<{CPP[s.ref.dtype]}, CacheLine::ENTIRE_DATA_CACHE>({tensor});")

    def _element(self, s: ir.Load | ir.Store, dtype: str) -> tuple[str, str]:
        """Tensor and index of an element."""
        ref, index, unit, size = s.ref, s.ref.offset, SIZE[s.ref.dtype], SIZE[dtype]
        if unit > size:
            index = binary("*", index, unit // size)
        elif unit < size:
            index = int(byte_of(ref) or 0) // size
        return self._reached(s, dtype), self.writer.text(index)

    def _reached(self, s: ir.Load | ir.Store, dtype: str) -> str:
        """A tensor of which the scalar unit reaches the elements."""
        buffer = s.ref.buffer
        if buffer.scope not in (ir.UB, ir.GM):
            raise refuse(self.program, s, "memory", buffer.scope, "UB or GM: the scalar unit reaches no other")
        return self.places.tensor(buffer, dtype)

    def alloc(self, s: ir.Alloc) -> None:
        if s.buffer.scope != ir.SMASK:
            self.put(self.places.local(s, self.copies[self.turns[-1]] if self.turns else ""), s.loc)

    def instruction(self, s: ir.Instr) -> None:
        call = CALLS.get(s.op)
        if call is None:
            what = "an instruction without a call of Ascend C" if s.op in ISA else "unknown"
            raise refuse(self.program, s, "it", what, INSTEAD.get(s.op, "an instruction of docs/instructions.md"))
        fresh: list[str] = []
        use = Use(self.program, s, self.places, self.writer, lambda n: self.fresh(n, fresh), self.mixed)
        lines = call(use)
        opens = bool(fresh)
        if opens:
            self.put("{", s.loc)
            self.depth += 1
        if s.op in TILED and self.own_flags:  # which are about the product, not about the loads of its tiles
            lines = ["PipeBarrier<PIPE_ALL>();", *lines, "PipeBarrier<PIPE_ALL>();"]
        for line in [*use.before, *lines, *use.after]:
            self.put(line, 0 if opens else s.loc)
        if opens:
            self.depth -= 1
            self.put("}")

    def fresh(self, wanted: str, taken: list[str]) -> str:
        """A name for a line or two, that nothing in force has, nor ``taken``."""
        self.names.open()
        name = self.names.take(wanted)
        self.names.close()
        while name in taken:
            name += "_"
        taken.append(name)
        return name

    def flag(self, s: Flag) -> None:
        """An end of a wait, on the line of the flags before it where there is room."""
        wait = s.wait
        if wait.crosses and s.sets:
            pipe = "MTE2" if wait.before[1] == "S" else wait.before[1]  # a number that was read is there
            text = f"CrossCoreSetFlag<2, PIPE_{pipe}>({s.number});"
        elif wait.crosses:
            text = f"CrossCoreWaitFlag({s.number});"
        else:
            event = f"{wait.before[1]}_{wait.after[1]}"
            text = f"{'Set' if s.sets else 'Wait'}Flag<HardEvent::{event}>({self._event(s)});"
        last = self.lines[-1] if self.lines else ""
        if _FLAGS.fullmatch(last.strip()) and len(last) + len(text) < _FLAG_WIDTH:
            self.lines[-1] = f"{last} {text}"
            return
        self.put(text)

    def _event(self, s: Flag) -> str:
        return f"EVENT_ID{s.number}" if s.turn is None else f"{s.number} + {self.copies[s.turn]}"


def _on_grid(ref: ir.Ref, size: int) -> bool:
    """Whether an element is known to begin at a multiple of ``size`` bytes."""
    place = byte_of(ref)
    return place is not None and place % size == 0


def _leaves(body: list) -> bool:
    """Whether a jump leaves the loop around these statements."""
    for s in body:
        if isinstance(s, ir.Jump) and s.kind != "return":
            return True
        if not isinstance(s, ir.For) and any(map(_leaves, ir.bodies(s))):
            return True
    return False


def _changes(end: Any, body: list) -> bool:
    """Whether a loop changes a register that its end is made of."""
    if not isinstance(end, Expr):
        return False
    used = registers_of(ir.If(end, [], [], 0))
    return any(isinstance(s, ir.Assign | ir.Load) and s.register in used for s in ir.walk(body))
