# SPDX-License-Identifier: Apache-2.0
"""Tensors and scalars of random Programs.

Each dtype has a tensor of its own in UB, so that operands overlap at will but bits of one float format are
never read as another dtype: NaN payloads are not part of the contract between the engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from programs import Builder, ref

from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import FLOATS, SIZE
from ms_custom_ops.program.expr import binary, const, var
from ms_custom_ops.program.isa.row import start_align

UB_BYTES = 4096
PIPE_BYTES = 8192
UB_DTYPES = ("float16", "bfloat16", "float32", "int16", "uint16", "int32", "uint32", "int8", "uint8", "int64")
SCALARS = (0.0, 1.0, -0.5, 3.25, 1e-4, -700.0, 65504.0)
WORDS = ("int16", "uint16")
FLOATING = ("float16", "bfloat16", "float32")
BLOCK = 32


class Draw:
    """Random choices; a hypothesis-backed twin with the same methods shrinks them."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return int(self.rng.integers(low, high, endpoint=True))

    def choice(self, options: Sequence) -> Any:
        """One of ``options``."""
        return options[self.integer(0, len(options) - 1)]


class Machine:
    """A Program under random construction: a tensor of every dtype in every buffer."""

    def __init__(self, draw: Any, saturate: bool, exact: bool, blocks: int):
        self.draw, self.exact, self.blocks = draw, exact, max(blocks, 1)
        self.b = Builder(saturate, name="random")
        self.block = var(self.b.register("block", "int32", "loop"), "int32") if blocks else const(0, "int32")
        # Every block writes a part of its own, so that the order of blocks does not matter.
        self.pipe = {
            d: self.b.gm(f"pipe_{d}", d, self.blocks * PIPE_BYTES // SIZE[d], "output", atomic_init=True)
            for d in ("float16", "float32")
        }
        self.shared = self.b.gm("shared", "float32", self.blocks * UB_BYTES // 4, "workspace")
        self.barrier = self.b.gm("barrier", "int64", self.blocks * 4, "workspace", atomic_init=True)
        self.inputs = {d: self.b.gm(f"in_{d}", d, UB_BYTES // SIZE[d], "input") for d in UB_DTYPES}
        self.ub: dict[str, ir.Buffer] = {}
        self.l1: dict[str, ir.Buffer] = {}
        self.l0: dict[tuple[str, str], ir.Buffer] = {}
        self.loops: list[tuple[int, int]] = []
        self.registers: dict[str, int] = {}

    def chance(self, percent: int) -> bool:
        return self.draw.integer(0, 99) < percent

    def start(self) -> None:
        """Fill every local tensor."""
        b = self.b
        for dtype in UB_DTYPES:
            self.ub[dtype] = b.local(f"ub_{dtype}", "ub", dtype, UB_BYTES // SIZE[dtype])
            b.move(self.ub[dtype], self.inputs[dtype])
        for dtype in ("float16", "bfloat16", "float32", "int8", "uint8"):
            self.l1[dtype] = b.local(f"l1_{dtype}", "l1", dtype, UB_BYTES // SIZE[dtype])
            b.move(self.l1[dtype], self.inputs[dtype])
            for scope in ("l0a", "l0b"):
                self.l0[scope, dtype] = b.local(f"{scope}_{dtype}", scope, dtype, UB_BYTES // SIZE[dtype])
                b.move(self.l0[scope, dtype], self.inputs[dtype])
        for dtype in ("float32", "float16", "int32", "uint32"):
            self.l0["l0c", dtype] = b.local(f"l0c_{dtype}", "l0c", dtype, UB_BYTES // SIZE[dtype])
            b.instr(
                "data_move_l0c",
                {"dst": ref(self.l0["l0c", dtype]), "src": ref(self.ub[dtype])},
                nburst=1,
                burst=UB_BYTES // SIZE[dtype] // 256,
            )
        for name, dtype, value in (("a", "int32", 3), ("b", "int32", 5), ("c", "int64", 2), ("f", "float32", 0.75)):
            self.registers[name] = b.register(name, dtype)
            b.body.append(ir.Assign(self.registers[name], const(value, dtype), b.loc()))

    def finish(self) -> None:
        """Write every tensor that can be read back to its output, block after block."""
        b, blocks = self.b, self.blocks
        outputs = {d: b.gm(f"out_{d}", d, blocks * UB_BYTES // SIZE[d], "output") for d in UB_DTYPES}
        cubes = {
            d: b.gm(f"cube_{d}", d, blocks * UB_BYTES // SIZE[d], "output") for d in ("float32", "float16", "int32")
        }
        l1 = {d: b.gm(f"l1_out_{d}", d, blocks * UB_BYTES // SIZE[d], "output") for d in ("float16", "float32")}
        total = b.gm("total", "float32", UB_BYTES // 4, "output", atomic_init=True)
        for outs, locals_ in ((outputs, self.ub), (l1, self.l1)):
            for dtype, out in outs.items():
                at = binary("*", self.block, UB_BYTES // SIZE[dtype])
                b.instr("data_move", {"dst": ref(out, at), "src": ref(locals_[dtype])}, nburst=1, burst=UB_BYTES)
        b.instr("set_atomic_add", [], {"mode": 1})
        b.instr("data_move", {"dst": ref(total), "src": ref(self.ub["float32"])}, nburst=1, burst=UB_BYTES)
        b.instr("set_atomic_add", [], {"mode": 0})
        for dtype, out in cubes.items():
            b.instr(
                "data_move_l0c",
                {"dst": ref(self.ub[dtype]), "src": ref(self.l0["l0c", dtype])},
                nburst=1,
                burst=UB_BYTES // SIZE[dtype] // 256,
            )
            at = binary("*", self.block, UB_BYTES // SIZE[dtype])
            b.instr("data_move", {"dst": ref(out, at), "src": ref(self.ub[dtype])}, nburst=1, burst=UB_BYTES)

    def place(self, buffer: ir.Buffer, span: int, align: int = BLOCK, scalar: bool = False) -> ir.Ref:
        """An operand of ``span`` bytes somewhere in a tensor, its offset perhaps moving with a loop, then on the grid
        of its memory (but for a ``scalar``)."""
        size = SIZE[buffer.dtype]
        moves = bool(self.loops) and self.chance(50)
        if moves and not scalar:
            align = max(align, start_align(buffer.scope, size))
        slots = (buffer.size_bytes - span) // align
        assert slots >= 0, f"{span} bytes do not fit in {buffer.name}"
        slot, unit = self.draw.integer(0, slots), align // size
        if moves:
            register, trips = self.draw.choice(self.loops)
            step = self.draw.integer(0, (slots - slot) // max(trips - 1, 1))
            moving = binary("*", var(register, "int32"), step * unit)
            return ref(buffer, binary("+", moving, slot * unit))
        return ref(buffer, slot * unit)

    def scalar(self, dtype: str) -> Any:
        """A scalar argument for data of ``dtype``."""
        if self.chance(30):
            name = "f" if dtype in FLOATS else "a"
            return var(self.registers[name], self.b.program.registers[self.registers[name]].dtype)
        if dtype in FLOATS:
            return const(self.draw.choice(SCALARS), "float32")
        return self.draw.integer(-40, 40)
