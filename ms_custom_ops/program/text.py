# SPDX-License-Identifier: Apache-2.0
"""The readable form of a Program: ``write`` and, back from it, ``parse``. docs/program.md describes the lines.

``parse(write(p))`` has the bytes of ``p``: text and bytes are two spellings of one thing, so that a pass is tested by
a text before it and a text after it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import Any

from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir, limits
from ms_custom_ops.program.cores import core_of
from ms_custom_ops.program.expr_text import number
from ms_custom_ops.program.expr_text import write as expression
from ms_custom_ops.program.isa import ISA
from ms_custom_ops.program.tables import write as write_table

_NAME = re.compile(r"[A-Za-z_]\w*")
_LABEL = re.compile(r"[^\w.<>-]")
LISTS = ("inputs", "outputs", "workspaces", "input_scalars")


def labels(names: list[str]) -> list[str]:
    """What each of the names is called in the text: itself, ``name#number`` where it is not the only one of that
    name, or its number."""
    count: dict[str, int] = {}
    for name in names:
        count[name] = count.get(name, 0) + 1
    return [
        str(k) if not _NAME.fullmatch(name) else name if count[name] == 1 else f"{name}#{k}"
        for k, name in enumerate(names)
    ]


def file_labels(files: Iterable[str]) -> dict[str, str]:
    """Short name of each source file: the last part of its path, with a number where that is taken."""
    result: dict[str, str] = {}
    taken: set[str] = set()
    for file in files:
        short = label = _LABEL.sub("_", os.path.basename(file)) or "_"
        while label in taken:
            label = f"{short}#{len(taken)}"
        taken.add(label)
        result[file] = label
    return result


def write(program: ir.Program) -> str:
    """The text of a Program. EngineError when its statements nest too deep."""
    return _Writer(program).run()


def line_of(program: ir.Program, statement: ir.Statement) -> str:
    """The line of one statement, without its place; of one with a body, its first line."""
    return _Writer(program).plain(statement)


class _Writer:
    def __init__(self, program: ir.Program):
        self.program = program
        self.scalars = labels([r.name for r in program.registers])
        self.tensors = labels([b.name for b in program.buffers])
        self.lines: list[str] = []
        used = {s.loc for s in ir.walk(program.body)} | {b.loc for b in program.buffers}
        self.files = file_labels(dict.fromkeys(program.locations[k][0] for k in sorted(used) if k))

    def run(self) -> str:
        p = self.program
        self.lines.append(
            f"program {json.dumps(p.name)} soc={json.dumps(p.soc)} saturate={int(p.saturate)} "
            f"split_cores={int(p.split_cores)}"
        )
        self.lines += [f"meta {json.dumps(k)} {json.dumps(v)}" for k, v in sorted(p.meta.items())]
        scopes = sorted(p.scope_bytes.items(), key=lambda kv: ir.SCOPES.index(kv[0]))
        self.lines += [f"scope {name} {size}" for name, size in scopes]
        self.lines += [f"file {label} {json.dumps(file)}" for file, label in self.files.items()]
        for r, label in zip(p.registers, self.scalars, strict=True):
            self.lines.append(f"scalar %{label} : {r.dtype} {r.kind}{_raw(r.name, label)}")
        self.lines += [self.tensor(b) for b in p.buffers]
        for what in LISTS:
            names = self.scalars if what == "input_scalars" else self.tensors
            numbers = getattr(p, what)
            if numbers:
                self.lines.append(f"{what} " + " ".join(f"%{names[k]}" for k in numbers))
        self.lines.append("body")
        self.body(p.body, 1)
        return "\n".join(self.lines) + "\n"

    def tensor(self, b: ir.Buffer) -> str:
        label = self.tensors[b.index]
        dims = ", ".join(str(d) if isinstance(d, int) and d != -1 else "?" for d in b.shape)
        line = f"tensor %{label} : {b.dtype}[{dims}] {b.scope} {b.kind} bytes={b.size_bytes}"
        if len(b.addresses) > 1:
            line += " copies(" + ", ".join(f"{label}.{k} at {a}" for k, a in enumerate(b.addresses)) + ")"
        elif b.scope != ir.GM or b.address:
            line += f" at {b.address}"
        if b.atomic_init:
            line += " atomic_init"
        if b.init_value is not None:
            table = isinstance(b.init_value, bytes)
            line += f" init={write_table(b.init_value, b.dtype) if table else number(float(b.init_value), 'float32')}"
        return line + _raw(b.name, label) + self.place(b.loc)

    def place(self, loc: int) -> str:
        file, line = self.program.locations[loc]
        return f" @{self.files[file]}:{line}" if file else ""

    def expr(self, e: Any) -> str:
        return expression(e, lambda n: f"%{self.scalars[n]}")

    def ref(self, r: ir.Ref) -> str:
        dtype = "" if r.dtype == r.buffer.dtype else f":{r.dtype}"
        return f"%{self.tensors[r.buffer.index]}{dtype}[{self.expr(r.offset)}]"

    def body(self, statements: list, depth: int) -> None:
        if depth > limits.NESTING + 1:
            raise EngineError(f"program text: statements nest deeper than {limits.NESTING}")
        indent = "  " * depth
        for s in statements:
            if isinstance(s, ir.If):
                self.chain(s, indent, depth)
                continue
            self.lines.append(f"{indent}{self.plain(s)}{self.place(s.loc)}")
            for inner in ir.bodies(s):
                self.body(inner, depth + 1)

    def chain(self, s: ir.If, indent: str, depth: int) -> None:
        word = ""
        while True:
            self.lines.append(f"{indent}{word}{self.plain(s)}{self.place(s.loc)}")
            self.body(s.then, depth + 1)
            if len(s.orelse) != 1 or not isinstance(s.orelse[0], ir.If):
                break
            s, word = s.orelse[0], "el"
        if s.orelse:
            self.lines.append(f"{indent}else")
            self.body(s.orelse, depth + 1)

    def plain(self, s: ir.Statement) -> str:
        """The line of a statement; of one with a body, its first line."""
        if isinstance(s, ir.Instr):
            return self.instr(s)
        if isinstance(s, ir.For):
            block, threads = " block" if s.block else "", f" threads={s.threads}" if s.threads != 1 else ""
            return f"for %{self.scalars[s.register]} in {self.expr(s.begin)} .. {self.expr(s.end)}{block}{threads}"
        if isinstance(s, ir.If):
            return f"if {self.expr(s.cond)}"
        if isinstance(s, ir.NoSync):
            return "nosync"
        if isinstance(s, ir.Assign):
            return f"%{self.scalars[s.register]} = {self.expr(s.value)}"
        if isinstance(s, ir.Load):
            return f"%{self.scalars[s.register]} = load {self.ref(s.ref)}"
        if isinstance(s, ir.Store):
            return f"store {self.ref(s.ref)} = {self.expr(s.value)}"
        if isinstance(s, (ir.Alloc, ir.Free)):
            return f"{'alloc' if isinstance(s, ir.Alloc) else 'free'} %{self.tensors[s.buffer.index]}"
        assert isinstance(s, ir.Jump)
        return s.kind

    def instr(self, s: ir.Instr) -> str:
        core = core_of(self.program, s)
        spec = ISA.get(s.op)
        args = [self.expr(a) for a in s.args]
        attrs = [str(a) for a in s.attrs]
        if spec is not None and len(args) == len(spec.args):
            args = [f"{name}={value}" for name, value in zip(spec.args, args, strict=True)]
        if spec is not None and len(attrs) == len(spec.attrs):
            attrs = [f"{name}={value}" for name, value in zip(spec.attrs, attrs, strict=True)]
        return (
            (f"{core} " if core else "")
            + " ".join([s.op, ", ".join(self.ref(t) for t in s.tensors)]).rstrip()
            + (f" ({', '.join(args)})" if args else "")
            + (f" {{{', '.join(attrs)}}}" if attrs else "")
        )


def _raw(name: str, label: str) -> str:
    """The name itself where the label does not give it."""
    return "" if name in (label, label.partition("#")[0]) else f" {json.dumps(name)}"


def parse(text: str) -> ir.Program:
    """The Program of a text. EngineError names the line that is none, and what was expected there."""
    from ms_custom_ops.program.text_parse import Parser

    return Parser(text).run()
