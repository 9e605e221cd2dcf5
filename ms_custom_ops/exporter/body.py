# SPDX-License-Identifier: Apache-2.0
"""Statements of one part of a Program as C++."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ms_custom_ops.exporter import calls_other, calls_vector
from ms_custom_ops.exporter.context import Use
from ms_custom_ops.exporter.cores import Flag, registers_of
from ms_custom_ops.exporter.errors import refuse
from ms_custom_ops.exporter.expressions import CPP, NoCppError, Writer
from ms_custom_ops.exporter.instead import INSTEAD
from ms_custom_ops.exporter.scopes import Declarations, Names
from ms_custom_ops.exporter.series import COUNTER, series, stores
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr
from ms_custom_ops.program.isa import ISA

CALLS = {**calls_vector.CALLS, **calls_other.CALLS}
ROOM = {ir.UB: "ubBuf", ir.L1: "l1Buf", ir.L0A: "l0aBuf", ir.L0B: "l0bBuf", ir.L0C: "l0cBuf"}
"""Name of the TBuf that holds all tensors of a memory."""
_WIDTH, _TEXT = 120, 46
_FLAG_WIDTH = 160  # of a line of flags: statements with the kernel's line beside them are as long
_FLAGS = re.compile(r"(?:(?:CrossCore)?(?:Set|Wait)Flag(?:<[^>]*>)?\([^()]*\);\s*)+")
_KEPT, _MERGED = 0, 8  # bytes of the special register: what vreduce kept, what vmrgsort took of each list


class Body:
    """Writes one part. ``globals_``: C++ names of tensors in GM by (buffer, dtype), filled on the way."""

    def __init__(self, program: ir.Program, statements: list, core: str, names: Names, helpers: set[str],
                 inputs: dict[int, str], mixed: bool):  # fmt: skip
        self.program, self.core, self.names, self.mixed = program, core, names, mixed
        self.statements = statements
        self.declarations = Declarations(statements, inputs)
        self.registers: dict[int, str] = dict(inputs)
        self.locals: dict[int, str] = {}
        self.globals: dict[tuple[int, str], str] = {}
        self.special: dict[int, str] = {}  # byte of the special register -> variable
        self.writer = Writer(lambda r: self.registers[r], helpers)
        self.copies: dict[int, str] = {}  # register of a loop -> the variable that says which copy a round has
        self.turns: list[int] = []
        self.lines: list[str] = []
        self.head: list[str] = []
        self.depth = 1
        self._watch_special()

    def _watch_special(self) -> None:
        """Variables of the special register, which the Program reads as memory."""
        read = [s.ref for s in ir.walk(self.statements) if isinstance(s, ir.Load) and s.ref.buffer.scope == ir.SMASK]
        places = {_byte_of(ref) for ref in read}
        if any(isinstance(s, ir.Instr) and s.op == "vreduce" for s in ir.walk(self.statements)):
            self.special[_KEPT] = self.names.take("kept")
            self.head.append(f"uint64_t {self.special[_KEPT]} = 0;")
        if any(p is not None and p >= _MERGED for p in places):
            for i in range(4):
                self.special[_MERGED + 2 * i] = self.names.take(f"merged{i}")
                self.head.append(f"uint16_t {self.special[_MERGED + 2 * i]} = 0;")

    def kept(self) -> str:
        """The variable that GatherMask writes."""
        return self.special[_KEPT]

    def merged(self) -> list[str]:
        """Those that MrgSort's counts go to; none where nothing reads them."""
        return [name for place, name in self.special.items() if place >= _MERGED]

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
            index = self._table(body, index) or self._rolled(body, index) or self._one(body, index)

    def _one(self, body: list, index: int) -> int:
        self._told(body[index], self.statement)
        return index + 1

    def _told(self, s: Any, write: Callable[[Any], None]) -> None:
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
            self.every(s.body)
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
            place = _byte_of(ref)
            if place not in self.special:
                raise refuse(self.program, s, "tensor", ref.buffer.name, "what vreduce or vmrgsort wrote")
            return f"{CPP[dtype]}({self.special[place]})"
        tensor, index = self._element(s, dtype)
        if ref.buffer.scope == ir.GM and ref.buffer.index not in self.program.inputs:
            self.put(f"DataCacheCleanAndInvalid<{CPP[dtype]}, CacheLine::ENTIRE_DATA_CACHE>({tensor});")
        return f"{tensor}.GetValue({index})"

    def store(self, s: ir.Store) -> None:
        tensor, index = self._element(s, s.ref.dtype)
        self.put(f"{tensor}.SetValue({index}, {self.writer.text(s.value, s.ref.dtype)});", s.loc)
        if s.ref.buffer.scope == ir.GM:
            self.put(f"DataCacheCleanAndInvalid<{CPP[s.ref.dtype]}, CacheLine::ENTIRE_DATA_CACHE>({tensor});")

    def _element(self, s: ir.Load | ir.Store, dtype: str) -> tuple[str, str]:
        """Tensor and index of an element."""
        ref = s.ref
        if ref.buffer.scope not in (ir.UB, ir.GM):
            raise refuse(self.program, s, "memory", ref.buffer.scope, "UB or GM: the scalar unit reaches no other")
        index: Any = ref.offset
        unit, size = SIZE[ref.dtype], SIZE[dtype]
        if unit != size:
            known = index if isinstance(index, int) else index.eval_value()
            if known is None or known * unit % size:
                raise refuse(self.program, s, "dtype", f"{ref.dtype} read as {dtype}", "dtypes of one width")
            index = int(known) * unit // size
        return self.tensor(ref.buffer, dtype), self.writer.text(index)

    def alloc(self, s: ir.Alloc) -> None:
        b = s.buffer
        if b.scope == ir.SMASK:
            return
        room = ROOM.get(b.scope)
        if room is None:
            raise refuse(self.program, s, "memory", b.scope, ", ".join(ROOM))
        name = self.locals[b.index] = self.names.take(b.name or f"t{b.index}")
        size = b.size_bytes // SIZE[b.dtype]
        kind = CPP[b.dtype]
        place = str(b.address)
        if len(b.addresses) > 1 and self.turns:
            place += f" + {self.copies[self.turns[-1]]} * {b.addresses[1] - b.addresses[0]}"
        self.put(f"LocalTensor<{kind}> {name} = {room}.GetWithOffset<{kind}>({size}, {place});", s.loc)

    def tensor(self, buffer: ir.Buffer, dtype: str) -> str:
        """C++ of a tensor, read as ``dtype``."""
        if buffer.scope == ir.GM:
            return self.globals.setdefault((buffer.index, dtype), "") or self._global(buffer, dtype)
        name = self.locals[buffer.index]
        return name if dtype == buffer.dtype else f"{name}.ReinterpretCast<{CPP[dtype]}>()"

    def _global(self, buffer: ir.Buffer, dtype: str) -> str:
        base = buffer.name or f"gm{buffer.index}"
        wanted = f"{base}Gm" if dtype == buffer.dtype else f"{base}Gm_{dtype}"
        name = self.globals[buffer.index, dtype] = self.names.take_top(wanted)
        return name

    def instruction(self, s: ir.Instr) -> None:
        call = CALLS.get(s.op)
        if call is None:
            what = "an instruction without a call of Ascend C" if s.op in ISA else "unknown"
            raise refuse(self.program, s, "it", what, INSTEAD.get(s.op, "an instruction of docs/instructions.md"))
        fresh: list[str] = []
        use = Use(self.program, s, self.tensor, self.writer, lambda n: self._fresh(n, fresh), self)
        lines = call(use)
        opens = bool(fresh)
        if opens:
            self.put("{", s.loc)
            self.depth += 1
        for line in [*use.before, *lines, *use.after]:
            self.put(line, 0 if opens else s.loc)
        if opens:
            self.depth -= 1
            self.put("}")

    def _fresh(self, wanted: str, taken: list[str]) -> str:
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

    def _table(self, body: list, index: int) -> int:
        """Constants stored one behind the other, as a table and a loop; 0 where there are none. Two such runs may take
        turns."""
        run = stores(body, index)
        if run is None:
            return 0
        count, starts = run
        first = [body[index + k] for k in range(len(starts))]
        for k, (s, start) in enumerate(zip(first, starts, strict=True)):
            values = [body[index + i * len(starts) + k].value for i in range(count)]
            kind, name = CPP[s.ref.dtype], self._fresh("values", [])
            texts = [self._entry(v, s.ref.dtype) for v in values]
            self.put("{", s.loc)
            self.depth += 1
            self._wrapped(f"constexpr {kind} {name}[{count}] = {{", texts, "};")
            at = "i" if not start else f"{start} + i"
            self.put(f"for (uint32_t i = 0; i < {count}; ++i) {{")
            self.put(f"    {self.tensor(s.ref.buffer, s.ref.dtype)}.SetValue({at}, {name}[i]);")
            self.put("}")
            self.depth -= 1
            self.put("}")
        return index + count * len(starts)

    def _entry(self, value: Any, dtype: str) -> str:
        """An entry of a table; whole numbers as they are."""
        known = value if isinstance(value, int) else value.eval_value()
        whole = dtype == "float32" and known == int(known) and abs(known) < 1 << 24 and str(float(known))[0:2] != "-0"
        return str(int(known)) if whole else self.writer.text(value, dtype)

    def _rolled(self, body: list, index: int) -> int:
        """Instructions that differ by equal steps, as a loop; 0 where there are none."""
        run = series(body, index)
        if run is None:
            return 0
        count, statements = run
        self.names.open()
        name = self.registers[COUNTER] = self.names.take("r")
        self.put(f"for (uint32_t {name} = 0; {name} < {count}; ++{name}) {{")
        self.depth += 1
        for s in statements:
            self._told(s, self.instruction)
        self.depth -= 1
        self.put("}")
        self.names.close()
        return index + count * len(statements)

    def _wrapped(self, head: str, items: Iterable[str], tail: str) -> None:
        line = head
        for k, item in enumerate(items):
            part = item if not k else f", {item}"
            if len(line) + len(part) + 4 * self.depth > _WIDTH - 4:
                self.put(f"{line},")
                line, part = "    ", item
            line += part
        self.put(line + tail)


def _byte_of(ref: ir.Ref) -> int | None:
    known = ref.offset if isinstance(ref.offset, int) else ref.offset.eval_value()
    return None if known is None else int(known) * SIZE[ref.dtype]


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
