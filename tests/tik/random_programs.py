# SPDX-License-Identifier: Apache-2.0
"""Random Programs: every instruction of the ISA, loops, conditions, scalars, blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from programs import values
from random_machine import Draw
from random_moves import SYNC, MoveMachine
from random_vector import VECTOR2_OPS, VECTOR_OPS
from random_vector2 import Vector2Machine

from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr, binary, cast, const, var


class ProgramMachine(Vector2Machine, MoveMachine):
    """Random statements."""

    def condition(self) -> Expr:
        """A comparison of two integer scalars."""
        names = ["a", "b", "c"]
        left, right = (self.draw.choice(names) for _ in range(2))
        e = binary(self.draw.choice(("<", "<=", ">", ">=", "==", "!=")), self.read(left), self.read(right))
        return binary("and", e, binary("!=", self.read("a"), 7)) if self.chance(20) else e

    def read(self, name: str) -> Expr:
        register = self.registers[name]
        return var(register, self.b.program.registers[register].dtype)

    def assign(self) -> None:
        """An arithmetic assignment; divisors are odd constants."""
        name = self.draw.choice(("a", "b", "c", "f"))
        op = self.draw.choice(("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "min", "max"))
        left, right = (self.read(self.draw.choice(("a", "b", "c"))), self.read(self.draw.choice(("a", "b", "c"))))
        if op in ("/", "%"):
            right = const(2 * self.draw.integer(-4, 4) + 1, right.dtype)
        value = binary(op, left, right)
        if name == "f":
            value = binary(self.draw.choice(("+", "-", "*", "/")), cast(value, "float32"), const(1.5, "float32"))
        self.b.body.append(ir.Assign(self.registers[name], value, self.b.loc()))

    def element(self) -> None:
        """A scalar load and store of one dtype."""
        name, dtype = self.draw.choice((("a", "int32"), ("f", "float32"), ("c", "int64")))
        tensor = self.ub[dtype]
        if self.chance(50):
            self.b.body.append(
                ir.Load(self.registers[name], self.place(tensor, SIZE[dtype], SIZE[dtype], True), self.b.loc())
            )
        target = self.ub[self.draw.choice(("int32", "float32", "float16", "int64", "uint8"))]
        self.b.body.append(
            ir.Store(self.place(target, SIZE[target.dtype], SIZE[target.dtype], True), self.read(name), self.b.loc())
        )

    def nested(self, depth: int) -> None:
        """A loop or a condition around further statements."""
        outer, self.b.body = self.b.body, []
        if self.chance(50):
            register, trips = self.b.register("i", "int32", "loop"), self.draw.integer(0, 3)
            self.loops.append((register, max(trips, 1)))
            self.statements(self.draw.integer(1, 3), depth + 1)
            if self.chance(30):
                self.b.body.append(
                    ir.If(self.condition(), [ir.Jump(self.draw.choice(("break", "continue")), 0)], [], 0)
                )
                self.statements(1, depth + 1)
            self.loops.pop()
            outer.append(ir.For(register, 0, trips, self.b.body, False, 1, self.b.loc()))
        else:
            cond = self.condition()
            self.statements(self.draw.integer(1, 2), depth + 1)
            then, self.b.body = self.b.body, []
            self.statements(self.draw.integer(0, 2), depth + 1)
            outer.append(ir.If(cond, then, self.b.body, self.b.loc()))
        self.b.body = outer

    def instruction(self, op: str) -> None:
        """One random use of an instruction."""
        makers: dict[str, Callable[[], None]] = {
            "nd2nz": self.nd2nz,
            "load2d": self.load2d,
            "data_move_l0c": self.l0c,
            "fixpipe": self.fixpipe,
        }
        if op in VECTOR_OPS:
            self.vector(op)
        elif op in VECTOR2_OPS:
            self.vector2(op)
        elif op in makers:
            makers[op]()
        elif op in ("mmad", "matmul"):
            self.cube(op)
        elif op in ("vtranspose", "vnchwconv"):
            self.transposed(op)
        elif op in SYNC:
            self.synchronised(op)
        else:
            self.moved(op)

    def statements(self, count: int, depth: int = 0) -> None:
        """``count`` random statements."""
        for _ in range(count):
            kind = self.draw.integer(0, 19)
            if kind < 3 and depth < 2:
                self.nested(depth)
            elif kind < 5:
                self.assign()
            elif kind < 7:
                self.element()
            elif kind < 9 and depth == 0 and self.blocks > 1:
                self.exchange()
            else:
                self.instruction(self.draw.choice(INSTRUCTIONS))


INSTRUCTIONS = (
    *VECTOR_OPS,
    *VECTOR2_OPS,
    "data_move",
    "data_move",
    "data_move_pad",
    "nd2nz",
    "load2d",
    "mmad",
    "mmad",
    "matmul",
    "data_move_l0c",
    "vtranspose",
    "vnchwconv",
    "fixpipe",
    *SYNC,
)


def build(draw: Any, body: Callable[[ProgramMachine], None], exact: bool = True, blocks: int = 0) -> ir.Program:
    """A Program of ``body`` between filling the tensors and writing them back, by ``blocks`` cores."""
    m = ProgramMachine(draw, bool(draw.integer(0, 1)), exact, blocks)
    if blocks:
        outer, m.b.body = m.b.body, []
        register = m.block.value
        outer.append(ir.For(register, 0, blocks, m.b.body, True, 1, m.b.loc()))
        m.loops.append((register, blocks))
    m.start()
    body(m)
    m.finish()
    return m.b.program


def random_program(seed: int, size: int) -> ir.Program:
    """A Program of about ``size`` random statements; the same seed gives the same Program."""
    draw = Draw(seed)
    blocks = draw.choice((0, 0, 2, 3))
    return build(draw, lambda m: m.statements(size), blocks=blocks)


def random_feed(program: ir.Program, seed: int) -> list[np.ndarray]:
    """Input arrays of plain values, specials and raw bits."""
    rng = np.random.default_rng(seed)
    return [values(rng, program.buffers[i].dtype, program.buffers[i].shape[0]) for i in program.inputs]
