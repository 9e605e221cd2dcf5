# SPDX-License-Identifier: Apache-2.0
"""The statement walker: blocks one after another, each on its own registers and arenas.

A block is a generator that yields at a ``block_barrier``, so that all blocks reach it before one goes on.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from ms_custom_ops.engine.reference.call import DEFINITIONS, BlockState, Call
from ms_custom_ops.engine.reference.memory import BlockMemory, GlobalMemory
from ms_custom_ops.engine.reference.scalars import Number, Registers, convert, from_bits, to_bits
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr, int_dtype_of
from ms_custom_ops.program.isa import ISA
from ms_custom_ops.program.isa.row import start_align
from ms_custom_ops.program.verify import check_blocks, check_limits

BARRIER = "block_barrier"
Walk = Generator[None, None, "str | None"]


def run_reference(
    program: ir.Program, inputs: list[np.ndarray], scalars: list[int | float], outputs: list[np.ndarray]
) -> None:
    """Run ``program`` on the definitions of its instructions.

    ``inputs`` and ``outputs`` are arrays in the order of ``program.inputs`` and ``program.outputs`` with the
    dtype (or a dtype of its width) and the bytes of their buffers; ``scalars`` are the values of
    ``program.input_scalars``. Outputs are written in place: C-contiguous and writeable. An output that is
    also an input starts as a copy of it, one with ``atomic_init`` as zeros, any other with what it holds.
    Raises EngineError for a Program beyond a limit, or that reads or writes beyond a tensor, reads a scalar that was
    never set or breaks the precondition of an instruction.
    """
    check_limits(program)
    gm = GlobalMemory(program, inputs, outputs)
    if len(scalars) != len(program.input_scalars):
        raise EngineError(
            f"{program.name}: input scalars are {len(scalars)} values; accepted: {len(program.input_scalars)}"
        )
    with np.errstate(all="ignore"):
        blocks = [Block(program, gm, scalars, index) for index in _block_range(program, scalars)]
        _run_blocks(program, blocks)


def _new_registers(program: ir.Program, scalars: list[int | float]) -> Registers:
    registers = Registers([r.name for r in program.registers], [r.dtype for r in program.registers])
    for index, value in zip(program.input_scalars, scalars, strict=True):
        value = value.item() if isinstance(value, np.generic) else value
        registers.set(index, value, "float32" if isinstance(value, float) else int_dtype_of(value))
    return registers


def _block_range(program: ir.Program, scalars: list[int | float]) -> range:
    """Block numbers of the multi-core loop; a dynamic count is a function of the input scalars."""
    s = ir.block_loop(program.body)
    if s is None:
        return range(1)
    registers = _new_registers(program, scalars)
    where = program.location(s.loc)
    blocks = range(int(registers.evaluate(s.begin, where)), int(registers.evaluate(s.end, where)))
    check_blocks(program, len(blocks), s.loc)
    return blocks


def _run_blocks(program: ir.Program, blocks: list[Block]) -> None:
    waiting = [(b, b.run()) for b in blocks]
    while waiting:
        arrived = []
        for block, walk in waiting:
            try:
                next(walk)
                arrived.append((block, walk))
            except StopIteration:
                pass
        if arrived and len(arrived) != len(waiting):
            ended = sorted({b.index for b, _ in waiting} - {b.index for b, _ in arrived})
            raise EngineError(
                f"{BARRIER}: blocks {ended} of {program.name} ended while block {arrived[0][0].index} "
                f"waits; accepted: every block arrives [{arrived[0][0].barrier_at}]"
            )
        waiting = arrived


class Block:
    """One block of the multi-core loop: it walks the whole body, with its own number in that loop."""

    def __init__(self, program: ir.Program, gm: GlobalMemory, scalars: list[int | float], index: int):
        self.program, self.gm, self.scalars, self.index = program, gm, scalars, index
        self.where = [program.location(i) for i in range(len(program.locations))]
        self.barrier_at = ""
        self.memory: BlockMemory
        self.registers: Registers
        self.state = BlockState(program.saturate)

    def run(self) -> Walk:
        """Walk the body; the arenas exist only while the block runs."""
        self.memory = BlockMemory(self.program, self.gm)
        self.registers = _new_registers(self.program, self.scalars)
        yield from self.body(self.program.body)
        del self.memory
        return None

    def body(self, statements: list) -> Walk:
        """Run statements in order; the result is the jump that ended them early, or None."""
        for s in statements:
            kind = type(s)
            if kind is ir.Instr:
                self.instr(s)
                if s.op == BARRIER:
                    self.barrier_at = self.where[s.loc]
                    yield
            elif kind is ir.For:
                if (yield from self.loop(s)) == "return":
                    return "return"
            elif kind is ir.If:
                jump = yield from self.body(self.taken(s))
                if jump is not None:
                    return jump
            elif kind is ir.NoSync:
                jump = yield from self.body(s.body)
                if jump is not None:
                    return jump
            elif kind is ir.Jump:
                return s.kind
            else:
                self.simple(s)
        return None

    def taken(self, s: ir.If) -> list:
        """The branch that runs. An elif chain nests in ``orelse`` and may be long, so it is walked in a loop."""
        while not self.value(s.cond, s):
            if len(s.orelse) != 1 or not isinstance(s.orelse[0], ir.If):
                return s.orelse
            s = s.orelse[0]
        return s.then

    def loop(self, s: ir.For) -> Walk:
        """A loop; the multi-core loop runs only this block's index. The bounds are read once."""
        begin, end = int(self.value(s.begin, s)), int(self.value(s.end, s))
        steps = range(self.index, self.index + 1) if s.block else range(begin, end)
        for i in steps:
            self.registers.set(s.register, i, "int64")
            jump = yield from self.body(s.body)
            if jump == "return":
                return "return"
            if jump == "break":
                break
        return None

    def simple(self, s: Any) -> None:
        """Statements without a body: Assign, Load, Store, Alloc, Free."""
        where = self.where[s.loc]
        if isinstance(s, ir.Assign):
            self.registers.set(s.register, self.value(s.value, s), _dtype(s.value))
        elif isinstance(s, ir.Load):
            dtype = self.registers.dtypes[s.register]
            operand = self.memory.operand("load", "src", s.ref, self.offset(s.ref, s), where)
            self.registers.values[s.register] = from_bits(operand.view(0, SIZE[dtype]).tobytes(), dtype)
        elif isinstance(s, ir.Store):
            operand = self.memory.operand("store", "dst", s.ref, self.offset(s.ref, s), where)
            raw = to_bits(convert(self.value(s.value, s), _dtype(s.value), s.ref.dtype), s.ref.dtype)
            operand.view(0, len(raw))[:] = np.frombuffer(raw, np.uint8)
        elif isinstance(s, ir.Alloc):
            self.memory.alloc(s.buffer)
        elif isinstance(s, ir.Free):
            pass  # what came after it is refused before a run; the bytes stay until another tensor takes them
        else:
            raise EngineError(f"{self.program.name}: unknown statement {type(s).__name__} [{where}]")

    def value(self, e: Expr | Number, s: Any) -> Number:
        """Value of an expression of statement ``s``."""
        return self.registers.evaluate(e, self.where[s.loc])

    def offset(self, ref: ir.Ref, s: Any) -> int:
        """Element offset of an operand of statement ``s``."""
        return int(self.value(ref.offset, s))

    def _moved_beside(self, spec: Any, s: ir.Instr, ref: ir.Ref) -> str:
        """Scope of the other operand of a move, "" of an instruction that is none."""
        if isinstance(spec.pipe, str):
            return ""
        return next(other.buffer.scope for other in s.tensors if other is not ref)

    def instr(self, s: ir.Instr) -> None:
        """Bind operands and arguments by the names of the ISA and run the definition."""
        where = self.where[s.loc]
        spec = ISA.get(s.op)
        if spec is None:
            raise EngineError(f"{s.op}: not an instruction of the ISA [{where}]")
        shape = (len(s.tensors), len(s.args), len(s.attrs))
        if shape != (len(spec.tensors), len(spec.args), len(spec.attrs)):
            raise EngineError(
                f"{s.op}: operands, arguments, attributes are {shape}; accepted: "
                f"{len(spec.tensors)}, {len(spec.args)}, {len(spec.attrs)} [{where}]"
            )
        operands = {}
        for operand, ref in zip(spec.operands, s.tensors, strict=True):
            found = self.memory.operand(s.op, operand.name, ref, self.offset(ref, s), where)
            if not found.is_gm and is_running(ref.offset) and _dtype(ref.offset) != "uint64":
                found.grid = start_align(found.scope, found.size, operand.start, self._moved_beside(spec, s, ref))
            operands[operand.name] = found
        args = dict(zip(spec.args, [self.value(a, s) for a in s.args], strict=True))
        for argument, given in zip(spec.arguments, s.args, strict=True):
            number = args[argument.name]
            if argument.run and is_running(given) and number >= 0 and not argument.run[0] <= number <= argument.run[1]:
                accepted = f"{argument.run[0]} to {argument.run[1]}"
                raise EngineError(f"{s.op}: {argument.name} is {number}; accepted: {accepted} [{where}]")
        kinds = dict(zip(spec.args, map(_dtype, s.args), strict=True))
        attrs = dict(zip(spec.attrs, s.attrs, strict=True))
        call = Call(
            s.op,
            operands,
            args,
            attrs,
            self.program.saturate if self.state.saturate is None else self.state.saturate,
            where,
            self.state,
            lambda name, dtype: convert(args[name], kinds[name], dtype),
        )
        DEFINITIONS[s.op](call)


def is_running(e: Any) -> bool:
    """Whether a value depends on a register: it is known only while running."""
    stack = [e]
    while stack:
        node = stack.pop()
        if not isinstance(node, Expr):
            continue
        if node.op == "var":
            return True
        stack += [node.a, node.b]
    return False


def _dtype(e: Any) -> str:
    """dtype of an expression or of a Python number."""
    if isinstance(e, Expr):
        return e.dtype
    return "float32" if isinstance(e, float) else int_dtype_of(int(e))
