# SPDX-License-Identifier: Apache-2.0
"""Stores of constants that are made together (csrc/stores.h): the bits of the reference engine, and each by itself
where something looks on, where a jump lands between them and where they meet."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from engine_cases import need_engine
from programs import Builder, ref, reference, same_bits

from ms_custom_ops import engine
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import const, var

need_engine()

COUNT = 64


class Table:
    """Tables in UB, zeroed, stored to and moved out."""

    def __init__(self, *dtypes: str, count: int = COUNT):
        self.b, self.feed, self.count = Builder(), [], count
        self.tables = [self.b.local(f"table{i}", "ub", dtype, count) for i, dtype in enumerate(dtypes)]
        for table in self.tables:
            self.b.move(table, self.b.gm(f"{table.name}_in", table.dtype, count, "input"))
            self.feed.append(np.zeros(count, table.dtype))

    def store(self, table: int, at: Any, value: Any, dtype: str = "float32") -> None:
        value = const(value, dtype) if isinstance(value, int | float) else value
        self.b.body.append(ir.Store(ref(self.tables[table], at), value, self.b.loc()))

    def finish(self) -> ir.Program:
        for table in self.tables:
            self.b.move(self.b.gm(f"{table.name}_out", table.dtype, self.count, "output"), table)
        return self.b.program

    def check(self) -> None:
        program = self.finish()
        expected = reference(program, self.feed)
        for found, right, table in zip(engine.run(program, self.feed), expected, self.tables, strict=True):
            assert same_bits(found, right, table.dtype).all(), table.name


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint16", "int32", "int64"])
def test_interleaved_tables_hold_what_was_stored(dtype):
    t = Table(dtype, "float32")
    for lane in range(COUNT - 1, -1, -1):
        t.store(0, lane, lane * 1.75 - 50)
        t.store(1, lane, 1 - lane, "int32")
    t.check()


def test_values_are_rounded_and_wrapped_as_one_by_one():
    t = Table("float16", "int8")
    for lane, value in enumerate((math.inf, -math.inf, math.nan, 65520.0, 1e-8, -0.0, 2049.0)):
        t.store(0, lane, value)
        t.store(1, lane, value)
    for lane, value in enumerate((300, -129, 128), 10):
        t.store(1, lane, value, "int32")
    t.check()


def test_the_later_of_two_stores_to_a_place_stays():
    t = Table("int32")
    for value in range(5):
        t.store(0, 3, value, "int32")
        t.store(0, 4, -value, "int32")
    t.check()


def test_stores_that_meet_in_part_land_in_their_order():
    t = Table("int32")
    shorter = ref(t.tables[0], 7, "int16")
    t.store(0, 2, 5, "int32")
    t.store(0, 3, -1, "int32")
    t.b.body.append(ir.Store(shorter, const(77, "int32"), t.b.loc()))
    t.store(0, 4, 6, "int32")
    t.store(0, 3, 1 << 20, "int32")
    t.check()


@pytest.mark.parametrize("taken", [0, 1])
def test_a_jump_that_lands_between_them(taken):
    t = Table("int32")
    register = t.b.register("taken", "int32")
    t.b.body.append(ir.Assign(register, const(taken, "int32"), t.b.loc()))
    inside: list = []
    t.b.body.append(ir.If(var(register, "int32"), inside, [], t.b.loc()))
    outer, t.b.body = t.b.body, inside
    t.store(0, 0, 11, "int32")
    t.store(0, 1, 12, "int32")
    t.b.body = outer
    t.store(0, 2, 13, "int32")
    t.store(0, 3, 14, "int32")
    t.check()


def test_more_than_one_run_holds():
    t = Table("int16", count=3000)
    for number in range(3000):
        t.store(0, number, number, "int32")
    t.check()


def test_a_place_known_only_while_running_parts_them():
    t = Table("int32")
    register = t.b.register("at", "int32")
    t.b.body.append(ir.Assign(register, const(5, "int32"), t.b.loc()))
    t.store(0, 4, 1, "int32")
    t.store(0, 5, 2, "int32")
    t.store(0, var(register, "int32"), 3, "int32")
    t.store(0, 5, 4, "int32")
    t.store(0, 6, var(register, "int32"))
    t.store(0, 7, 9, "int32")
    t.check()


def test_a_store_behind_its_tensor_is_refused_at_its_line():
    t = Table("float32")
    t.store(0, 0, 1.0)
    t.store(0, 1, 1.0)
    t.store(0, COUNT, 1.0)
    line = len(t.b.program.locations) - 1
    with pytest.raises(EngineError, match=rf"store: dst needs bytes \[256, 260\) of table0.*kernel.py:{line}\]"):
        engine.run(t.finish(), t.feed)


def test_each_is_counted():
    t = Table("float32")
    for lane in range(10):
        t.store(0, lane, 1.0)
    counts = engine.count(t.finish(), t.feed)
    assert sum(n for (step, _), n in counts.items() if step == "store") == 10
