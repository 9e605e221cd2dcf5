# SPDX-License-Identifier: Apache-2.0
"""Instructions over whole tiles that are executed in pieces (csrc/pieces.h): the bits of the reference engine, whatever
reads and overwrites what."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import LEVELS, level, need_engine, threads
from programs import Builder, ref, same_bits, vector_args

from ms_custom_ops import engine
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import const, var

need_engine()

TILE = 8192  # float32 elements, 32 KiB
BINARY, UNARY, SCALAR = ("vadd", "vsub", "vmul", "vmax", "vmin"), ("vexp", "vrelu", "vabs"), ("vadds", "vmuls")
READ_DST = ("vmla", "vmadd", "vmaddrelu", "vaxpy")


class Tiles:
    """Two float32 tiles and one of float16 in UB, and GM that moves read and write at places of their own."""

    def __init__(self, seed: int = 0, blocks: int = 1):
        self.b = Builder(scope_bytes={"ub": 196608})
        self.rng = np.random.default_rng(seed)
        self.outer = self.b.body
        if blocks > 1:
            self.block, self.b.body = self.b.register("block", "int32"), []
        self.wide = self.b.local("wide", "ub", "float32", 3 * TILE)
        self.half = self.b.local("half", "ub", "float16", 2 * TILE)
        self.gm_in = self.b.gm("given", "float32", 2 * TILE, "input")
        self.gm = self.b.gm("exchange", "float32", blocks * 2 * TILE, "workspace")
        self.outs = [self.b.gm(f"out{i}", x.dtype, blocks * x.shape[0], "output") for i, x in enumerate(self.parts)]
        self.feed = [self.rng.standard_normal(2 * TILE).astype(np.float32)]
        self.blocks = blocks
        for at in (0, TILE):  # nothing is undefined
            self.dup(at, 0.5 + at / TILE)
            self.move_out(self.gm, at, at, TILE)
        self.dup(2 * TILE, -0.25)
        for at in (0, TILE):
            self.convert(self.half, at, at, TILE)

    @property
    def parts(self) -> tuple[ir.Buffer, ir.Buffer]:
        return self.wide, self.half

    def place(self, buffer: ir.Buffer, at: int):
        """An element of the part of a GM tensor that the block owns."""
        if self.blocks == 1 or buffer is self.gm_in:
            return ref(buffer, at)
        return ref(buffer, var(self.block, "int32") * (buffer.shape[0] // self.blocks) + at)

    def lanes(self, op: str, places: list[int], count: int, buffer: ir.Buffer | None = None, **args) -> None:
        """Elements ``places`` on of the float32 tiles, or of ``buffer``."""
        buffer = buffer or self.wide
        lanes, size = (64, 4) if buffer.dtype == "float32" else (128, 2)
        names = ("dst", "src") if op in (*UNARY, *SCALAR, "vaxpy") else ("dst", "src0", "src1")[: len(places)]
        given = vector_args(op, lanes, count // lanes, dict.fromkeys(names, size), **args)
        self.b.instr(op, [ref(buffer, at) for at in places], {"mask_kind": 0}, **given)

    def read_dst(self, op: str, at: int, first: int, second: int, count: int) -> None:
        places, args = ([at, first], {"scalar": 0.75}) if op == "vaxpy" else ([at, first, second], {})
        self.lanes(op, places, count, **args)

    def dup(self, at: int, value: float) -> None:
        self.lanes("vector_dup", [at], TILE, scalar=value)

    def convert(self, to: ir.Buffer, to_at: int, from_at: int, count: int) -> None:
        source = self.wide if to is self.half else self.half
        sizes = {"dst": 2 if to is self.half else 4, "src": 4 if to is self.half else 2}
        args = vector_args("vconv", 64, count // 64, sizes, deqscale=0.0)
        self.b.instr("vconv", [ref(to, to_at), ref(source, from_at)], {"mask_kind": 0}, **args)

    def move_in(self, gm: ir.Buffer, at: int, gm_at: int, count: int) -> None:
        self.b.instr("data_move", [ref(self.wide, at), self.place(gm, gm_at)], nburst=1, burst=4 * count)

    def move_out(self, gm: ir.Buffer, gm_at: int, at: int, count: int) -> None:
        self.b.instr("data_move", [self.place(gm, gm_at), ref(self.wide, at)], nburst=1, burst=4 * count)

    def scattered(self, at: int, source: int) -> None:
        """16 values, each 16 times, 512 elements apart: an instruction that is not cut."""
        args = vector_args("vadds", 64, 8, {"dst": 4, "src": 4}, scalar=0.0, dst_rep=2048, src_rep=0)
        self.b.instr("vadds", [ref(self.wide, at), ref(self.wide, source)], {"mask_kind": 0}, **args)

    def when(self, value: int, body) -> None:
        """``body()`` under a condition that is known only while running."""
        register, outer = self.b.register(f"when{len(self.b.program.registers)}", "int32"), self.b.body
        outer.append(ir.Assign(register, const(value, "int32"), self.b.loc()))
        self.b.body = []
        body()
        outer.append(ir.If(var(register, "int32"), self.b.body, [], self.b.loc()))
        self.b.body = outer

    def check(self) -> None:
        for out, buffer in zip(self.outs, self.parts, strict=True):
            args = {"nburst": 1, "burst": buffer.size_bytes}
            self.b.instr("data_move", [self.place(out, 0), ref(buffer)], **args)
        if self.blocks > 1:
            begin, end = const(0, "int32"), const(self.blocks, "int32")
            self.outer.append(ir.For(self.block, begin, end, self.b.body, True, 1, self.b.loc()))
            self.b.body = self.outer
        want, got = (engine.run(self.b.program, self.feed, engine=name) for name in ("reference", "native"))
        for index, buffer in enumerate(self.b.program.outputs):
            assert same_bits(got[index], want[index], self.b.program.buffers[buffer].dtype).all()

    def random_step(self) -> None:
        r = self.rng
        count = int(r.integers(1, 65)) * 128  # up to a tile
        place = lambda: int(r.integers(0, (3 * TILE - count) // 64 + 1)) * 64  # noqa: E731
        near = lambda: int(r.choice([0, 512, 1024, TILE, TILE + 512, 2 * TILE]))  # noqa: E731
        at, first, second = (min(near(), 3 * TILE - count) if r.random() < 0.7 else place() for _ in range(3))
        kind = r.integers(0, 10)
        if kind < 3:
            self.lanes(str(r.choice(BINARY)), [at, at if r.random() < 0.5 else first, second], count)
        elif kind == 3:
            self.lanes(str(r.choice(UNARY)), [at, first], count)
        elif kind == 4:
            self.lanes(str(r.choice(SCALAR)), [at, at], count, scalar=float(r.choice([-0.5, 0.75])))
        elif kind == 5:
            into_half = bool(r.random() < 0.6)
            half_at = int(r.integers(0, (2 * TILE - count) // 64 + 1)) * 64
            self.convert(*((self.half, half_at, at) if into_half else (self.wide, at, half_at)), count)
        elif kind == 6:
            gm = self.gm if r.random() < 0.7 else self.gm_in
            self.move_in(gm, at, int(r.choice([0, 64, 2 * TILE - count])), count)
        elif kind == 7:
            self.move_out(self.gm, int(r.choice([0, 64, 2 * TILE - count])), at, count)
        elif kind == 8:
            self.read_dst(str(r.choice(READ_DST)), at, first, second, count)
        else:
            self.scattered(min(at, 2 * TILE), first)


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("seed", range(12))
def test_random_steps(name, seed):
    with level(name):
        t = Tiles(seed)
        for _ in range(30):
            if t.rng.random() < 0.15:
                t.when(int(t.rng.integers(0, 2)), t.random_step)
            else:
                t.random_step()
        t.check()


def test_a_copy_is_read_where_it_comes_from():
    t = Tiles()
    t.move_in(t.gm_in, 0, 64, TILE)
    t.lanes("vmuls", [0, 0], TILE, scalar=0.5)
    t.lanes("vadd", [TILE, TILE, 0], TILE)
    t.check()


@pytest.mark.parametrize("op", READ_DST)
def test_a_copy_that_is_a_destination_as_well(op):
    t = Tiles()
    t.move_in(t.gm_in, 0, 64, TILE)
    t.read_dst(op, 0, TILE, 2 * TILE, TILE)
    t.lanes("vadds", [0, 0], TILE, scalar=1.0)
    t.check()


def test_what_a_copy_comes_from_is_overwritten_later():
    t = Tiles()
    t.move_in(t.gm, 0, 0, TILE)
    t.move_out(t.gm, 0, TILE, TILE)
    t.lanes("vmuls", [0, 0], TILE, scalar=0.5)
    t.move_in(t.gm, 2 * TILE, 0, TILE)
    t.check()


def test_a_copy_of_which_a_part_stays():
    t = Tiles()
    t.move_in(t.gm_in, 0, 0, TILE)
    t.lanes("vmuls", [0, 0], TILE - 64, scalar=0.5)
    t.check()


def test_a_copy_that_is_read_across_its_end():
    t = Tiles()
    t.move_in(t.gm_in, 0, 0, TILE)
    t.lanes("vadd", [0, 512, 2 * TILE], TILE)
    t.check()


def test_a_source_that_is_overwritten_behind_it():
    """Pieces of what writes must not come before those of what reads."""
    t = Tiles()
    t.lanes("vexp", [0, TILE], TILE)
    t.lanes("vadds", [TILE, 2 * TILE], TILE, scalar=1.0)
    t.lanes("vmul", [TILE, TILE, 0], TILE)
    t.check()


def test_rounds_of_a_loop_see_what_the_one_before_left():
    t = Tiles()
    register, outer = t.b.register("i", "int32"), t.b.body
    t.b.body = []
    t.move_in(t.gm, 0, 0, TILE)
    t.lanes("vadds", [0, 0], TILE, scalar=0.125)
    t.lanes("vadd", [TILE, TILE, 0], TILE)
    t.move_out(t.gm, 0, TILE, TILE)
    outer.append(ir.For(register, const(0, "int32"), const(3, "int32"), t.b.body, False, 1, t.b.loc()))
    t.b.body = outer
    t.check()


def test_blocks_on_threads():
    with threads(2):
        t = Tiles(blocks=6)
        for _ in range(20):
            t.random_step()
        t.check()


def test_a_scalar_that_is_loaded_from_what_waits():
    t = Tiles()
    t.lanes("vmuls", [0, 0], TILE, scalar=3.0)
    register = t.b.register("found", "float32")
    t.b.body.append(ir.Load(register, ref(t.wide, 100), t.b.loc()))
    t.b.body.append(ir.Store(ref(t.wide, 0), var(register, "float32"), t.b.loc()))
    t.lanes("vmuls", [TILE, 0], TILE, scalar=2.0)
    t.check()


def test_a_move_behind_the_end_of_gm_names_its_line():
    t = Tiles()
    t.lanes("vmuls", [0, 0], TILE, scalar=3.0)
    at = t.b.register("at", "int32")
    t.b.body.append(ir.Assign(at, const(2 * TILE, "int32"), t.b.loc()))
    s = t.b.instr("data_move", [ref(t.wide), ref(t.gm_in, var(at, "int32"))], nburst=1, burst=4 * TILE)
    with pytest.raises(EngineError, match=rf"data_move: src needs bytes .* \[kernel.py:{s.loc}\]"):
        engine.run(t.b.program, t.feed)


def test_the_first_failure_is_that_of_what_waits():
    """A shift by a negative number waits with what stands before it; the scalar behind it was never set."""
    t = Tiles()
    t.lanes("vmuls", [0, 0], TILE, scalar=3.0)
    words = t.b.local("words", "ub", "int32", 64)
    args = vector_args("vshl", 64, 1, {"dst": 4, "src": 4}, scalar=-1)
    t.b.instr("vshl", [ref(words), ref(words)], {"mask_kind": 0}, **args)
    unset, other = (t.b.register(name, "int32") for name in ("unset", "other"))
    t.b.body.append(ir.Assign(other, var(unset, "int32") + 1, t.b.loc()))
    with pytest.raises(EngineError, match="vshl: scalar is -1"):
        engine.run(t.b.program, t.feed)
