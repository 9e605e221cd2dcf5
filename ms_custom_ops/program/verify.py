# SPDX-License-Identifier: Apache-2.0
"""Rules of a Program's structure, checked between tracing and bytes, and its limits.

:func:`verify` names the first statement that breaks a rule with its ``file:line``. It says nothing about values: what
an instruction accepts is known to the engines. :func:`check_limits` is the part that every reader of a Program needs.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir, limits
from ms_custom_ops.program.dtypes import DTYPES, FLOATS
from ms_custom_ops.program.expr import Expr
from ms_custom_ops.program.isa import ISA


def verify(program: ir.Program) -> ir.Program:
    """The Program itself; EngineError when it breaks a rule of structure or a limit.

    Local tensors are used between their alloc and their free, in the statements around the alloc; operands, arguments
    and attributes are those of the instruction; offsets and bounds are integers; registers have one dtype; there
    is one multi-core loop; break and continue are inside a loop; regions do not nest; copies of a
    tensor lie in its scope and do not overlap.
    """
    _counts(program)
    _places(program)
    _Walk(program, True).run()
    return program


def check_limits(program: ir.Program) -> None:
    """EngineError when the Program is beyond a limit of :mod:`ms_custom_ops.program.limits`."""
    _counts(program)
    _Walk(program, False).run()


def _counts(program: ir.Program) -> None:
    arguments = len(program.inputs) + len(program.outputs) + len(program.workspaces) + len(program.input_scalars)
    for what, count, most in (
        ("tensors", len(program.buffers), limits.TENSORS),
        ("scalars", len(program.registers), limits.SCALARS),
        ("arguments", arguments, limits.ARGUMENTS),
    ):
        if count > most:
            raise EngineError(f"{program.name}: {count} {what}; accepted: at most {most}")
    for b in program.buffers:
        for what, count, most in (
            ("dimensions", len(b.shape), limits.RANK),
            ("copies", len(b.addresses), limits.THREADS),
        ):
            if count > most:
                raise EngineError(
                    f"{program.name}: tensor {b.name} has {count} {what}; accepted: at most {most} "
                    f"[{program.location(b.loc)}]"
                )


def check_blocks(program: ir.Program, count: int, loc: int) -> None:
    """EngineError when the multi-core loop has more blocks than a run accepts."""
    if count > limits.BLOCKS:
        raise EngineError(
            f"for: the multi-core loop has {count} blocks; accepted: 0 to {limits.BLOCKS} [{program.location(loc)}]"
        )


def _places(program: ir.Program) -> None:
    for index, b in enumerate(program.buffers):
        where = f"[{program.location(b.loc)}]"
        if b.index != index:
            raise EngineError(f"{program.name}: tensor {b.name} has number {b.index}; accepted: {index} {where}")
        if isinstance(b.init_value, bytes) and (b.scope != ir.GM or len(b.init_value) != b.size_bytes):
            raise EngineError(
                f"{program.name}: tensor {b.name} has a table of {len(b.init_value)} bytes; accepted: as many bytes as "
                f"it has itself ({b.size_bytes}), in gm {where}"
            )
        if b.scope == ir.GM:
            continue
        have = program.scope_bytes.get(b.scope, 0)
        places = sorted(b.addresses)
        for k, start in enumerate(places):
            end = places[k + 1] if k + 1 < len(places) else have
            if start < 0 or start + b.size_bytes > end:
                what = f"copy {k} of tensor" if len(places) > 1 else "tensor"
                raise EngineError(
                    f"{program.name}: {what} {b.name} needs bytes [{start}, {start + b.size_bytes}) of {b.scope}; "
                    f"accepted: up to {end} {where}"
                )


class _Walk:
    """One walk over the statements; ``structure`` adds the rules to the limits."""

    def __init__(self, program: ir.Program, structure: bool):
        self.program, self.structure = program, structure
        self.live = {b for b in program.buffers if b.scope == ir.GM}
        self.sizes: dict[int, tuple[int, int]] = {}
        self.shapes: set[tuple[str, int, int, int]] = set()
        self.block_loop: Any = None
        self.seen: set[int] = set()  # ids of arguments that calls share: the Program holds them
        self.loops = 0
        self.region = False

    def run(self) -> None:
        """Check the whole body."""
        self.body(self.program.body, 0, None)

    def fail(self, s: Any, text: str) -> NoReturn:
        where = f" [{self.program.location(s.loc)}]" if s is not None else ""
        raise EngineError(f"{self.program.name}: {text}{where}")

    def body(self, statements: list, depth: int, owner: Any) -> None:
        if depth > limits.NESTING:
            self.fail(owner, f"statements nest deeper than {limits.NESTING}")
        mine: list[ir.Buffer] = []
        live, seen = self.live, self.seen
        for s in statements:
            kind = s.__class__
            if kind is ir.Instr:
                if self.structure:
                    for t in s.tensors:
                        if t.buffer not in live:
                            self.dead(s, t.buffer)
                        if t.offset.__class__ is not int:
                            self.offset(s, t)
                    if (s.op, len(s.tensors), len(s.args), len(s.attrs)) not in self.shapes:
                        self.instruction(s)
                else:
                    for t in s.tensors:
                        if t.offset.__class__ is not int:
                            self.expr(s, t.offset)
                if id(s.args) not in seen:
                    seen.add(id(s.args))
                    for a in s.args:
                        if a.__class__ is not int:
                            self.expr(s, a)
            elif kind is ir.Alloc:
                if self.structure and s.buffer in live:
                    self.fail(s, f"alloc of tensor {s.buffer.name}, which is alive")
                live.add(s.buffer)
                mine.append(s.buffer)
            elif kind is ir.Free:
                if s.buffer in mine:
                    mine.remove(s.buffer)
                    live.discard(s.buffer)
                elif self.structure:
                    self.fail(s, f"free of tensor {s.buffer.name}, which was not allocated in these statements")
            else:
                self.other(s, depth)
        live.difference_update(mine)

    def dead(self, s: Any, buffer: ir.Buffer) -> None:
        self.fail(s, f"tensor {buffer.name} is used outside its life; accepted: between its alloc and its free")

    def instruction(self, s: ir.Instr) -> None:
        spec = ISA.get(s.op)
        if spec is None:
            self.fail(s, f"{s.op} is not an instruction")
        shape = len(s.tensors), len(s.args), len(s.attrs)
        wanted = len(spec.tensors), len(spec.args), len(spec.attrs)
        if shape != wanted:
            self.fail(s, f"{s.op}: operands, arguments, attributes are {shape}; accepted: {wanted}")
        self.shapes.add((s.op, *shape))

    def ref(self, s: Any, t: ir.Ref) -> None:
        if t.buffer not in self.live and self.structure:
            self.dead(s, t.buffer)
        if t.dtype not in DTYPES:
            self.fail(s, f"tensor {t.buffer.name}: dtype is {t.dtype}; accepted: {', '.join(DTYPES)}")
        if t.offset.__class__ is not int:
            self.offset(s, t)

    def offset(self, s: Any, t: ir.Ref) -> None:
        self.expr(s, t.offset)
        if isinstance(t.offset, Expr) and t.offset.dtype in FLOATS:
            self.fail(s, f"tensor {t.buffer.name}: an offset is {t.offset.dtype}; accepted: integers")

    def other(self, s: Any, depth: int) -> None:
        kind = s.__class__
        if kind is ir.For:
            self.loop(s, depth)
        elif kind is ir.If:
            self.chain(s, depth)
        elif kind is ir.NoSync:
            if self.structure and self.region:
                self.fail(s, "nosync: regions do not nest")
            self.region, outer = True, self.region
            self.body(s.body, depth + 1, s)
            self.region = outer
        elif kind is ir.Assign:
            self.register(s)
            self.expr(s, s.value)
        elif kind is ir.Load:
            self.register(s)
            self.ref(s, s.ref)
        elif kind is ir.Store:
            self.ref(s, s.ref)
            self.expr(s, s.value)
        elif kind is ir.Jump:
            if self.structure and s.kind != "return" and not self.loops:
                self.fail(s, f"{s.kind}: outside of a loop")
        else:
            self.fail(s, f"unknown statement {kind.__name__}")

    def register(self, s: Any) -> None:
        if not 0 <= s.register < len(self.program.registers):
            self.fail(s, f"scalar number {s.register}; the table has {len(self.program.registers)}")

    def loop(self, s: ir.For, depth: int) -> None:
        self.register(s)
        for bound in (s.begin, s.end):
            self.expr(s, bound)
            if isinstance(bound, Expr) and bound.dtype in FLOATS:
                self.fail(s, "for: a bound is a float; accepted: integers")
        if not 1 <= s.threads <= limits.THREADS:
            self.fail(s, f"for: threads is {s.threads}; accepted: 1 to {limits.THREADS}")
        if s.block and self.structure:
            if self.block_loop is not None:
                self.fail(s, "for: a second multi-core loop; accepted: one")
            self.block_loop = s
        self.loops += 1
        self.body(s.body, depth + 1, s)
        self.loops -= 1

    def chain(self, s: ir.If, depth: int) -> None:
        branches = 1
        while True:
            self.expr(s, s.cond)
            self.body(s.then, depth + 1, s)
            if len(s.orelse) != 1 or s.orelse[0].__class__ is not ir.If:
                break
            s = s.orelse[0]
            branches += 1
            if branches > limits.BRANCHES:
                self.fail(s, f"an if has more than {limits.BRANCHES} branches")
        self.body(s.orelse, depth + 1, s)

    def expr(self, s: Any, root: Any) -> None:
        """Size and depth of an expression, each node once."""
        if not isinstance(root, Expr) or root.op == "const":
            return
        known = self.sizes.get(id(root))
        if known is None:
            known = self.measure(s, root)
        if known[0] > limits.EXPRESSION_OPERATORS:
            self.fail(s, f"an expression has more than {limits.EXPRESSION_OPERATORS} operators")
        if known[1] > limits.EXPRESSION_DEPTH:
            self.fail(s, f"an expression is nested deeper than {limits.EXPRESSION_DEPTH}")

    def measure(self, s: Any, root: Expr) -> tuple[int, int]:
        sizes, stack = self.sizes, [root]
        while stack:
            e = stack[-1]
            missing = [x for x in (e.a, e.b) if x is not None and id(x) not in sizes]
            if missing:
                stack += missing
                continue
            stack.pop()
            if id(e) in sizes:
                continue
            inner = [sizes[id(x)] for x in (e.a, e.b) if x is not None]
            if e.op == "var" and self.structure:
                self.variable(s, e)
            sizes[id(e)] = 1 + sum(n for n, _ in inner), 1 + max((d for _, d in inner), default=0)
        return sizes[id(root)]

    def variable(self, s: Any, e: Expr) -> None:
        registers = self.program.registers
        if not 0 <= e.value < len(registers):
            self.fail(s, f"scalar number {e.value}; the table has {len(registers)}")
        if registers[e.value].dtype != e.dtype:
            self.fail(s, f"scalar {registers[e.value].name} is read as {e.dtype}; accepted: {registers[e.value].dtype}")
