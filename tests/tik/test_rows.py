# SPDX-License-Identifier: Apache-2.0
"""Moves of single rows in loops, which wait (csrc/rows.h): the bits of the reference engine, whatever lies where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from engine_cases import LEVELS, level, need_engine, threads
from programs import Builder, ref, same_bits, values

from ms_custom_ops import engine
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import const, var
from ms_custom_ops.program.isa import ATOMIC_MODES

need_engine()

ROWS, WIDE = 40, 96  # of the table that rows come from; elements of a row
TILE = 64 * WIDE
SUM_ROWS, SUM_WIDE = 12, 40
NONE, ADDS = (next(m for m, name in ATOMIC_MODES.items() if name == wanted) for wanted in (None, "float32"))


class Gathers:
    """A float16 table in GM, indices in UB, tiles in L1, float32 rows in UB that are added to GM."""

    def __init__(self, seed: int = 0, blocks: int = 1):
        self.b, self.rng, self.blocks = Builder(), np.random.default_rng(seed), blocks
        self.outer = self.b.body
        if blocks > 1:
            self.block, self.b.body = self.b.register("block", "int32"), []
        self.table = self.b.gm("table", "float16", ROWS * WIDE, "input")
        given = self.b.gm("given", "int32", 64, "input")
        plain = self.b.gm("plain", "float32", 64 * SUM_WIDE, "input")
        self.sums = self.b.gm("sums", "float32", SUM_ROWS * SUM_WIDE, "output", atomic_init=True)
        self.tiles = [self.b.local(f"tile{i}", "l1", "float16", TILE) for i in range(3)]
        self.ids = self.b.local("ids", "ub", "int32", 64)
        self.rows = self.b.local("rows", "ub", "float32", 64 * SUM_WIDE)
        self.outs = [self.b.gm(f"out{i}", "float16", TILE * blocks, "output") for i in range(3)]
        self.b.move(self.ids, given)
        self.b.move(self.rows, plain)
        for tile in self.tiles:  # nothing is undefined
            self.b.move(tile, self.table, ROWS * WIDE * 2)
            self.b.instr(
                "data_move", [ref(tile, ROWS * WIDE), ref(self.table)], nburst=1, burst=(TILE - ROWS * WIDE) * 2
            )
        self.found, self.total = self.b.register("found", "int32"), self.b.register("total", "int32")
        self.b.body.append(ir.Assign(self.total, const(0, "int32"), self.b.loc()))
        self.feed = [
            values(self.rng, "float16", ROWS * WIDE),
            self.rng.integers(0, SUM_ROWS, 64).astype(np.int32),
            values(self.rng, "float32", 64 * SUM_WIDE),
        ]

    @contextmanager
    def each(self, count: int) -> Iterator[tuple[Any, Any]]:
        """What is appended stands in a loop: its number, and the index it names."""
        inside: list = []
        i, row = (self.b.register(f"{name}{len(self.b.program.registers)}", "int32") for name in ("i", "row"))
        loop = ir.For(i, const(0, "int32"), const(count, "int32"), inside, False, 1, self.b.loc())
        self.b.body.append(loop)
        outer, self.b.body = self.b.body, inside
        inside.append(ir.Load(row, ref(self.ids, var(i, "int32")), self.b.loc()))
        yield var(i, "int32"), var(row, "int32")
        self.b.body = outer

    def fractals(self, tile: int, at: Any, row: Any, blocks: int, step: int, first: int = 0) -> None:
        """``blocks`` blocks of a row of the table to a tile, ``step`` blocks apart."""
        operands = [ref(self.tiles[tile], at), ref(self.table, row * WIDE + first)]
        args = {"nd_num": 1, "nd_n": 1, "nd_d": blocks * 16, "src_n_stride": WIDE, "dst_c0_stride": step}
        self.b.instr("nd2nz", operands, **args, dst_n_stride=1, dst_nd_stride=1)

    def bursts(self, tile: int, at: Any, row: Any, blocks: int, step: int, first: int = 0) -> None:
        operands = [ref(self.tiles[tile], at), ref(self.table, row * WIDE + first)]
        self.b.instr("data_move", operands, nburst=blocks, burst=32, dst_gap=32 * (step - 1))

    def add(self, row: Any, at: Any, count: int = SUM_WIDE) -> None:
        """``count`` elements of a row of UB to one of the sums."""
        operands = [ref(self.sums, row * SUM_WIDE), ref(self.rows, at * SUM_WIDE)]
        self.b.instr("data_move", operands, nburst=1, burst=4 * count)

    def adding(self, mode: int) -> None:
        self.b.instr("set_atomic_add", [], {"mode": mode})

    def program(self) -> ir.Program:
        for out, tile in zip(self.outs, self.tiles, strict=True):
            at = var(self.block, "int32") * TILE if self.blocks > 1 else 0
            self.b.instr("data_move", [ref(out, at), ref(tile)], nburst=1, burst=2 * TILE)
        if self.blocks == 1:
            self.b.body.append(ir.Store(ref(self.rows, 0, "int32"), var(self.total, "int32"), self.b.loc()))
            self.b.move(self.b.gm("rows_out", "float32", 64 * SUM_WIDE, "output"), self.rows)
        if self.blocks > 1:
            begin, end = const(0, "int32"), const(self.blocks, "int32")
            self.outer.append(ir.For(self.block, begin, end, self.b.body, True, 1, self.b.loc()))
            self.b.body = self.outer
        return self.b.program

    def same_again(self) -> None:
        """The same bits as before."""
        for got, want in zip(engine.run(self.b.program, self.feed), self.found_before, strict=True):
            assert got.tobytes() == want.tobytes()

    def check(self) -> None:
        program = self.program()
        want, got = (engine.run(program, self.feed, engine=name) for name in ("reference", "native"))
        self.found_before = got
        for index, buffer in enumerate(program.outputs):
            assert same_bits(got[index], want[index], program.buffers[buffer].dtype).all()

    def random_move(self, i: Any, row: Any) -> None:
        r = self.rng
        move = self.fractals if r.random() < 0.5 else self.bursts
        blocks, step = int(r.integers(1, 7)), int(r.choice([1, 2, 3, 16, 17, 20, 64]))
        stride = int(r.choice([0, 16, 16, 16, 16, 32, 48]))  # from row to row
        room = TILE - ((blocks - 1) * step + 1) * 16 - 40 * stride
        at = int(r.integers(0, max(room, 0) // 16 + 1)) * 16
        if room < 0:
            blocks, at = 1, 0
        place = i * stride + at if r.random() < 0.8 else (39 - i) * stride + at
        move(int(r.integers(0, 3)), place, row, blocks, step, int(r.integers(0, (WIDE - blocks * 16) // 16 + 1)) * 16)

    def random_loop(self) -> None:
        r = self.rng
        adds = bool(r.random() < 0.4)
        if adds and r.random() < 0.9:
            self.adding(ADDS)
        with self.each(int(r.integers(1, 41))) as (i, row):
            for _ in range(int(r.integers(1, 6))):
                if adds and r.random() < 0.8:
                    self.add(row, i, int(r.choice([8, 16, SUM_WIDE])))
                else:
                    self.random_move(i, row)
            if r.random() < 0.2:
                self.read(i)
            if r.random() < 0.1:
                self.b.body.append(ir.Store(ref(self.rows, i), const(0.5), self.b.loc()))
            if r.random() < 0.2:
                leave = [ir.Jump("break", self.b.loc())]
                self.b.body.append(ir.If(row == 3, leave, [], self.b.loc()))
        if adds:
            self.adding(NONE)

    def read(self, i: Any) -> None:
        """A scalar of the sums, and of all of them the sum of their bits."""
        self.b.body.append(ir.Load(self.found, ref(self.sums, i * 2, "int32"), self.b.loc()))
        total = var(self.total, "int32") + var(self.found, "int32")
        self.b.body.append(ir.Assign(self.total, total, self.b.loc()))


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("seed", range(30))
def test_random_loops(name, seed):
    with level(name):
        g = Gathers(seed)
        for _ in range(8):
            g.random_loop()
        g.check()


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("count", [1, 7, 8, 15, 16, 17, 40])
def test_rows_side_by_side(name, count):
    """Two tiles in turn, as of keys and values, of which one has room for two rows between its blocks alone."""
    with level(name):
        g = Gathers()
        with g.each(count) as (i, row):
            g.fractals(0, i * 16, row, 6, 64)
            g.bursts(1, i * 32, row, 3, 2, first=48)
        g.check()


def test_more_tiles_than_groups():
    g = Gathers()
    with g.each(40) as (i, row):
        for n in range(6):
            g.fractals(n % 3, i * 16, row, 2, 40 + n)
    g.check()


def test_rows_that_overwrite_each_other():
    g = Gathers()
    with g.each(40) as (i, row):
        g.fractals(0, 0, row, 6, 2)
        g.fractals(1, i * 16, row, 6, 8)
        g.bursts(1, i * 16 + 32, row, 6, 9)
    g.check()


def test_a_row_that_was_added_to_is_gathered():
    """The sums, as float16, are what comes into the tile."""
    g = Gathers()
    g.adding(ADDS)
    with g.each(40) as (i, row):
        g.add(row, i)
        operands = [ref(g.tiles[0], i * 16), ref(g.sums, row * 2 * SUM_WIDE, "float16")]
        g.b.instr("data_move", operands, nburst=4, burst=32, dst_gap=32 * 63)
        g.read(i)
    g.adding(NONE)
    g.check()


@pytest.mark.parametrize("count", [1, 7, 8, 9, 40])
def test_sums_are_made_in_order(count):
    g = Gathers()
    g.adding(ADDS)
    with g.each(count) as (i, row):
        g.add(row, i)
        g.add(row, i, 8)
    with g.each(count) as (i, row):
        g.add(11 - row, 63 - i)
    g.adding(NONE)
    g.check()


def test_blocks_on_threads():
    for seed in range(4):
        g = Gathers(seed, blocks=7)
        g.adding(ADDS)
        with g.each(40) as (i, row):
            g.add(row, i)
        g.adding(NONE)
        with g.each(40) as (i, row):
            g.random_move(i, row)
            g.random_move(i, row)
        for count in (1, 2, 4):
            with threads(count):
                g.check() if count == 1 else g.same_again()


def test_a_row_behind_the_end_of_gm_names_its_line():
    g = Gathers()
    with g.each(40) as (i, row):
        g.fractals(0, i * 16, row + i * 2, 6, 40)
    g.feed[1][:] = 0
    with pytest.raises(EngineError, match=r"nd2nz: src needs bytes \[7680, 7872\) of table, it has 7680 \[kernel.py:"):
        engine.run(g.program(), g.feed)


def test_a_row_behind_the_end_of_its_tile_names_its_line():
    g = Gathers()
    with g.each(40) as (i, row):
        g.bursts(1, i * 16, row, 6, 75)
    with pytest.raises(EngineError, match=r"data_move: dst needs bytes \[288, 12320\) of tile1, it has 12288"):
        engine.run(g.program(), g.feed)


def test_adds_behind_the_end_of_gm_name_their_line():
    g = Gathers()
    g.adding(ADDS)
    with g.each(40) as (i, row):
        g.add(i, row)
    with pytest.raises(EngineError, match=r"data_move: dst needs bytes \[1920, 2080\) of sums, it has 1920"):
        engine.run(g.program(), g.feed)


def test_a_last_row_may_end_behind_its_tensor():
    """As any move of whole blocks: what is read there is zero, what is added there is dropped."""
    g = Gathers()
    short = g.b.gm("short", "float16", 24, "input")
    g.feed.append(np.ones(24, np.float16))
    with g.each(4) as (i, _):
        g.fractals(0, i * 16, i, 2, 40)
        g.b.instr("data_move", [ref(g.tiles[1], i * 16), ref(short, 0)], nburst=2, burst=32, dst_gap=320)
    g.check()


def test_adds_of_another_dtype_are_refused():
    g = Gathers()
    g.adding({name: mode for mode, name in ATOMIC_MODES.items()}["float16"])
    with g.each(4) as (i, row):
        g.add(row, i)
    with pytest.raises(EngineError, match="data_move: dtype of dst is float32; accepted: float16 of set_atomic_add"):
        engine.run(g.program(), g.feed)
