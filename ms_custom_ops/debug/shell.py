# SPDX-License-Identifier: Apache-2.0
"""The prompt of the interactive debugger."""

from __future__ import annotations

import cmd
import linecache
import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_custom_ops.debug.walker import ObservedBlock
from ms_custom_ops.debug.written import Written
from ms_custom_ops.errors import DebuggerQuit, EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES
from ms_custom_ops.program.text import line_of

AROUND = 5
SHOWN_ELEMENTS = 1000


@dataclass
class Breakpoint:
    """A source line at which to stop."""

    number: int
    file: str
    line: int
    condition: str = ""
    enabled: bool = True
    hits: int = 0
    once: bool = False

    def text(self) -> str:
        """One line of the list of breakpoints."""
        state = ("enabled" if self.enabled else "disabled") + (", once" if self.once else "")
        tail = f" if {self.condition}" if self.condition else ""
        return f"{self.number}: {self.file}:{self.line} {state}, hit {self.hits}{tail}"


@dataclass
class WatchPoint:
    """An expression whose change stops the run."""

    number: int
    expression: str
    last: str | None = None


class Shell(cmd.Cmd):
    """Stops a run at statements and answers commands; an observer of the walk."""

    prompt = "(tikdb) "

    def __init__(self, program: ir.Program):
        super().__init__()
        self.program = program
        self.breakpoints: list[Breakpoint] = []
        self.watches: list[WatchPoint] = []
        self.written = Written(program)
        self.block: ObservedBlock | None = None
        self.statement: Any = None
        self.ended = False
        self._mode = "step"  # step: any new line; one: any statement; run: breakpoints; block: until _wanted
        self._wanted = -1
        self._passed: set[int] = set()
        self._loc = -1
        self._listed = 0

    # ---- observer ----
    def before(self, block: ObservedBlock, statement: Any) -> None:
        """Stop here if a step ends or a breakpoint stands here."""
        self.block, self.statement = block, statement
        if not self._stops(block, statement):
            self._passed.add(id(statement))
            return
        self._passed, self._loc, self._listed = {id(statement)}, statement.loc, 0
        self.do_where("")
        self.cmdloop()

    def after(self, block: ObservedBlock, statement: Any) -> None:
        """Note what was written, and stop before the next statement where a watched value changed."""
        self.block = block
        self.written.after(block, statement)
        for watch in self.watches:
            now = self._shown(watch.expression)
            if now != watch.last:
                file, line = self.program.locations[statement.loc]
                self._say(f"watch {watch.number}: {watch.expression}: {watch.last} -> {now} at {file}:{line}")
                watch.last, self._mode = now, "one"

    def failed(self, block: ObservedBlock, statement: Any, error: EngineError) -> None:
        """Show the error, and let the user look around before it is raised."""
        self.block, self.statement, self.ended = block, statement, True
        self._say(f"the kernel failed: {error}")
        self._say("print, mi, where, list, block look around; continue or quit leaves")
        self.cmdloop()

    def close(self) -> None:
        """The run is over."""
        self.block = None

    def _stops(self, block: ObservedBlock, s: Any) -> bool:
        if self._mode == "one" or (self._mode == "block" and block.index == self._wanted):
            return True
        file, line = self.program.locations[s.loc]
        # A line of several statements stops once, and again when a loop comes back to it.
        fresh = s.loc != self._loc or id(s) in self._passed
        for point in self.breakpoints:
            if point.enabled and (point.file, point.line) == (file, line) and fresh and self._holds(point):
                point.hits += 1
                self._say(f"breakpoint {point.text()}")
                if point.once:
                    self.breakpoints.remove(point)
                return True
        if self._mode == "run" and fresh:
            self._loc, self._passed = s.loc, set()
        return self._mode == "step" and fresh

    def _holds(self, point: Breakpoint) -> bool:
        if not point.condition:
            return True
        try:
            return bool(self._value(point.condition))
        except Exception as error:
            self._say(f"condition of breakpoint {point.number}: {error}")
            return True

    # ---- commands ----
    def do_break(self, text: str) -> None:
        """break [FILE:]LINE [if EXPR]: stop before that line; without arguments: list the breakpoints."""
        if not text:
            for point in self.breakpoints:
                self._say(point.text())
            if not self.breakpoints:
                self._say("no breakpoints")
            return
        place, _, condition = text.partition(" if ")
        file, _, line = place.strip().rpartition(":")
        if not line.isdigit():
            self._say(f"break: line is {line!r}; accepted: [FILE:]LINE [if EXPR]")
            return
        known = self._file(file)
        if known is None:
            return
        lines = sorted({n for f, n in self.program.locations if f == known})
        later = [n for n in lines if n >= int(line)]
        if not later:
            self._say(f"break: line is {line}; accepted: up to {lines[-1]} in {known}")
            return
        number = max((p.number for p in self.breakpoints), default=0) + 1
        self.breakpoints.append(Breakpoint(number, known, later[0], condition.strip()))
        self._say(self.breakpoints[-1].text())

    def do_tbreak(self, text: str) -> None:
        """tbreak [FILE:]LINE [if EXPR]: as break, for one stop."""
        before = len(self.breakpoints)
        self.do_break(text)
        if len(self.breakpoints) > before:
            self.breakpoints[-1].once = True

    def do_watch(self, text: str) -> None:
        """watch EXPR: stop when its value changes; without arguments: list the watches."""
        if text:
            number = max((w.number for w in self.watches), default=0) + 1
            self.watches.append(WatchPoint(number, text, self._shown(text)))
        for w in self.watches:
            self._say(f"{w.number}: {w.expression} = {w.last}")
        if not self.watches:
            self._say("no watches")

    def do_unwatch(self, text: str) -> None:
        """unwatch [NUMBER]: remove a watch, or all of them."""
        if text and text.strip() not in {str(w.number) for w in self.watches}:
            numbers = ", ".join(str(w.number) for w in self.watches) or "none"
            self._say(f"unwatch: number is {text!r}; accepted: {numbers}")
            return
        self.watches = [w for w in self.watches if text and str(w.number) != text.strip()]

    def do_set(self, text: str) -> None:
        """set NAME = EXPR, set NAME[INDEX] = EXPR: give a scalar or elements of a tensor a value."""
        found = re.fullmatch(r"\s*(\w+)\s*(\[.*?\])?\s*=(?!=)\s*(.+)", text)
        if found is None:
            self._say(f"set: {text!r} is no assignment; accepted: NAME = EXPR, NAME[INDEX] = EXPR")
            return
        try:
            self._assign(found[1], found[2], self._value(found[3]))
        except Exception as error:
            self._say(f"set: {text!r}: {type(error).__name__}: {error}")

    def do_clear(self, text: str) -> None:
        """clear [NUMBER]: remove a breakpoint, or all of them."""
        chosen = self._chosen("clear", text)
        self.breakpoints = [p for p in self.breakpoints if p not in chosen]

    def do_enable(self, text: str) -> None:
        """enable [NUMBER]: let a breakpoint (or all) stop again."""
        for point in self._chosen("enable", text):
            point.enabled = True

    def do_disable(self, text: str) -> None:
        """disable [NUMBER]: keep a breakpoint (or all) without stopping."""
        for point in self._chosen("disable", text):
            point.enabled = False

    def do_continue(self, text: str) -> bool:
        """continue: run to the next breakpoint or to the end."""
        self._mode = "run"
        return True

    def do_next(self, text: str) -> bool:
        """next: run the current line and stop at the next one."""
        self._mode = "step" if not self.ended else "run"
        return True

    def do_step(self, text: str) -> bool:
        """step: run one statement; a line of several stops at each."""
        self._mode = "one" if not self.ended else "run"
        return True

    def do_list(self, text: str) -> None:
        """list [FIRST[, LAST]]: source around the current line, then further on at each call."""
        file, line = self.program.locations[self.statement.loc]
        try:
            numbers = [int(t) for t in text.replace(",", " ").split()]
        except ValueError:
            self._say(f"list: range is {text!r}; accepted: FIRST[, LAST]")
            return
        first = numbers[0] if numbers else self._listed or max(1, line - AROUND)
        last = numbers[1] if len(numbers) > 1 else first + 2 * AROUND
        stops = {p.line for p in self.breakpoints if p.file == file}
        for n in range(first, last + 1):
            source = linecache.getline(file, n)
            if source:
                mark = ("B" if n in stops else " ") + ("->" if n == line else "  ")
                self._say(f"{n:5d} {mark} {source.rstrip()}")
        self._listed = last + 1

    def do_print(self, text: str) -> None:
        """print EXPR: Python over the names of tensors (arrays) and scalars (numbers), and np. Elements that were never
        written show as --."""
        try:
            value = self._value(text)
        except Exception as error:
            self._say(f"print: {text!r}: {type(error).__name__}: {error}; names: {', '.join(sorted(self._names()))}")
            return
        with np.printoptions(threshold=SHOWN_ELEMENTS):
            self._say(str(value))

    def do_mi(self, text: str) -> None:
        """mi: memory: live tensors with buffer, dtype, shape, first byte and bytes."""
        gm = [b for b in self.program.buffers if b.scope == ir.GM]
        for b in [*gm, *self._block.live]:
            shape = "x".join(map(str, b.shape))
            place = "" if b.scope == ir.GM else f" at {b.address}"
            self._say(f"{b.name:<24} {b.scope:<5} {b.dtype}[{shape}]{place}, {b.size_bytes} bytes")

    def do_where(self, text: str) -> None:
        """where: the current line, statement, block and open loops."""
        where = self.program.location(self.statement.loc)
        loops = "".join(
            f", {self.program.registers[s.register].name} = {self._block.registers.values[s.register]}"
            for s in self._block.loops
        )
        self._say(f"{where} block {self._block.index}{loops}: {line_of(self.program, self.statement)}")

    def do_block(self, text: str) -> bool:
        """block [N]: number of the current block, or run on until block N."""
        if not text:
            self._say(f"block {self._block.index}")
            return False
        if not text.strip().isdigit() or int(text) <= self._block.index:
            self._say(f"block: number is {text!r}; accepted: a block after {self._block.index}")
            return False
        self._mode, self._wanted = "block", int(text)
        return True

    def do_quit(self, text: str) -> bool:
        """quit: leave the debugger; the run ends."""
        where = self.program.location(self.statement.loc)
        self._say(f"tikdb: left at {where}")
        raise DebuggerQuit(f"tikdb: the debugger was left at {where}")

    def do_EOF(self, text: str) -> bool:
        """End of input: quit."""
        return self.do_quit(text)

    do_b, do_c, do_n, do_s, do_l, do_p, do_w, do_q, do_tb = (
        do_break, do_continue, do_next, do_step, do_list, do_print, do_where, do_quit, do_tbreak,
    )  # fmt: skip

    def emptyline(self) -> bool:
        """An empty line does nothing."""
        return False

    def default(self, line: str) -> None:
        """An unknown command."""
        names = "break, tbreak, clear, enable, disable, watch, unwatch, continue, next, step, list, print, set, mi, "
        names += "where, block, quit"
        self._say(f"command is {line.split()[0]!r}; accepted: {names}")

    # ---- helpers ----
    @property
    def _block(self) -> ObservedBlock:
        assert self.block is not None
        return self.block

    def _say(self, text: str) -> None:
        self.stdout.write(f"{text}\n")

    def _chosen(self, command: str, text: str) -> list[Breakpoint]:
        if not text:
            return list(self.breakpoints)
        found = [p for p in self.breakpoints if str(p.number) == text.strip()]
        if not found:
            numbers = ", ".join(str(p.number) for p in self.breakpoints) or "none"
            self._say(f"{command}: number is {text!r}; accepted: {numbers}")
        return found

    def _file(self, name: str) -> str | None:
        """A file of the kernel by its name or the end of its path; the current one for ""."""
        if not name:
            return self.program.locations[self.statement.loc][0]
        files = sorted({f for f, _ in self.program.locations if f})
        found = [f for f in files if f == name or f.endswith(os.sep + name)]
        if len(found) != 1:
            self._say(f"break: file is {name!r}; accepted: {', '.join(files)}")
            return None
        return found[0]

    def _value(self, text: str) -> Any:
        return eval(text, {"np": np}, self._names())

    def _shown(self, text: str) -> str | None:
        """A value as text; None while its names do not exist."""
        try:
            return str(self._value(text))
        except Exception:
            return None

    def _assign(self, name: str, index: str | None, value: Any) -> None:
        block = self._block
        registers = [r for r in self.program.registers if r.name == name]
        if registers and index is None:
            live = [r for r in registers if block.registers.values[r.index] is not None] or registers
            number = np.asarray(value).item()
            block.registers.set(live[-1].index, number, "float32" if isinstance(number, float) else "int64")
            return
        gm = [b for b in self.program.buffers if b.scope == ir.GM]
        tensors = [b for b in (*gm, *block.live) if b.name == name]
        if not tensors:
            raise NameError(f"{name}; names: {', '.join(sorted(self._names()))}")
        buffer = tensors[-1]
        array = self._raw(buffer)
        numbers = np.arange(array.size).reshape(array.shape)
        place = np.asarray(eval(f"_{index}", {"np": np, "_": numbers}) if index else numbers).reshape(-1)
        array.reshape(-1)[place] = np.asarray(value).reshape(-1)
        for element in place.tolist():
            self.written.mark(block, buffer, element * array.itemsize, (element + 1) * array.itemsize)

    def _names(self) -> dict[str, Any]:
        """Values by name; of several tensors or scalars of one name, the latest."""
        block = self._block
        names: dict[str, Any] = {}
        for register, value in zip(self.program.registers, block.registers.values, strict=True):
            if value is not None:
                names[register.name] = value
        for buffer in [*(b for b in self.program.buffers if b.scope == ir.GM), *block.live]:
            names[buffer.name] = self._array(buffer)
        return names

    def _raw(self, buffer: ir.Buffer) -> np.ndarray:
        """A tensor's content in its shape (flat when that is known at run time only), as a view."""
        if buffer.scope == ir.GM:
            raw = self._block.gm.bytes[buffer.index]
        else:
            raw = self._block.memory.arenas[buffer.scope][buffer.address : buffer.address + buffer.size_bytes]
        flat = raw.view(DTYPES[buffer.dtype].numpy)
        return flat if any(d < 0 for d in buffer.shape) else flat.reshape(buffer.shape)

    def _array(self, buffer: ir.Buffer) -> np.ndarray:
        """A copy of a tensor's content; masked where it was never written."""
        array, flags = self._raw(buffer).copy(), self.written.elements(self._block, buffer)
        return array if flags.all() else np.ma.array(array, mask=~flags.reshape(array.shape))
