# SPDX-License-Identifier: Apache-2.0
"""Moves that are made together with a product (csrc/straight.h): the bits of the reference engine, and moves that must
be made as they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from engine_cases import LEVELS, level, need_engine
from programs import Builder, ref, reference, same_bits, values

from ms_custom_ops import engine
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import const, var

need_engine()

F = 256  # elements of a fractal


class Product:
    """left (m, k) and right (k, n) from L1, fractal by fractal, times each other, and out to GM."""

    def __init__(self, m: int = 32, k: int = 48, n: int = 64, dtype: str = "float16", seed: int = 0):
        self.b, self.feed = Builder(), []
        self.m, self.k, self.n, self.dtype = m, k, n, dtype
        self.m1, self.k1, self.n1 = (-(-x // 16) for x in (m, k, n))
        self.rng = np.random.default_rng(seed)
        self.sources = [self.filled(f"source{i}", "l1", count) for i, count in enumerate((self.m1, self.n1))]
        self.sides = [
            self.b.local(name, name, dtype, count * self.k1 * F) for name, count in (("l0a", self.m1), ("l0b", self.n1))
        ]
        self.acc = self.b.local("acc", "l0c", "float32", self.m1 * self.n1 * F)
        self.out = self.b.gm("out", "float32", self.acc.size_bytes // 4 + 64, "output")

    def filled(self, name: str, scope: str, fractals: int) -> ir.Buffer:
        count = fractals * self.k1 * F
        gm, local = self.b.gm(f"{name}_gm", self.dtype, count, "input"), self.b.local(name, scope, self.dtype, count)
        self.feed.append(values(self.rng, self.dtype, count))
        self.b.move(local, gm)
        return local

    def load(self, side: int, turn: bool = False, count: int | None = None, at: int = 0, **args: Any) -> None:
        """``count`` fractals from fractal ``at`` on, to the same numbers in L0."""
        whole = (self.n1 if side else self.m1) * self.k1
        args = {"index": at, "repeat": whole - at if count is None else count, "src_stride": 1} | args
        operands = [ref(self.sides[side], at * F), ref(self.sources[side])]
        self.b.instr("load2d", operands, {"transpose": int(turn)}, **args)

    def multiply(self, adds: bool = False) -> None:
        operands = [ref(self.acc), ref(self.sides[0]), ref(self.sides[1])]
        self.b.instr("mmad", operands, {"accumulate": int(adds)}, m=self.m, k=self.k, n=self.n)

    def leave(self, at: Any = 0, gap: int = 0) -> None:
        length = self.m1 * F * 4
        self.b.instr("fixpipe", [ref(self.out, at), ref(self.acc)], cburst_num=self.n1, burst_len=length, dst_gap=gap)

    @contextmanager
    def rounds(self, count: int) -> Iterator[None]:
        """What is appended stands in a loop."""
        inside: list = []
        register = self.b.register(f"i{len(self.b.program.registers)}", "int32")
        begin, end = const(0, "int32"), const(count, "int32")
        self.b.body.append(ir.For(register, begin, end, inside, False, 1, self.b.loc()))
        outer, self.b.body = self.b.body, inside
        yield
        self.b.body = outer

    @contextmanager
    def when(self, value: int) -> Iterator[Callable]:
        """What is appended stands under a condition that is known only while running; what comes behind a call of what
        this gives stands under the opposite one."""
        then, orelse = [], []
        register = self.b.register(f"when{len(self.b.program.registers)}", "int32")
        self.b.body.append(ir.Assign(register, const(value, "int32"), self.b.loc()))
        self.b.body.append(ir.If(var(register, "int32"), then, orelse, self.b.loc()))
        outer, self.b.body = self.b.body, then

        def otherwise() -> None:
            self.b.body = orelse

        yield otherwise
        self.b.body = outer

    def copied(self, buffer: ir.Buffer) -> None:
        count = buffer.size_bytes // (4 if buffer.dtype == "float32" else 2)
        self.b.move(self.b.gm(f"{buffer.name}_out", buffer.dtype, count, "output"), buffer)

    def straight(self) -> list[str]:
        """Names of the moves that are made with a product, after both engines gave the same bits."""
        want, got = (engine.run(self.b.program, self.feed, engine=name) for name in ("reference", "native"))
        for index, buffer in enumerate(self.b.program.outputs):
            assert same_bits(got[index], want[index], self.b.program.buffers[buffer].dtype).all()
        return [s.name for s in engine.measure(self.b.program, self.feed) if s.straight]


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("turns", [(False, False), (True, False), (False, True), (True, True)], ids=str)
def test_loads_and_leaving_are_part_of_the_product(name, dtype, turns):
    with level(name):
        p = Product(m=47, k=200, n=63, dtype=dtype)
        for side in (0, 1):
            p.load(side, turns[side], count=3)
            p.load(side, not turns[side], at=3, src_stride=1, index=2)
        p.multiply()
        p.leave(gap=0)
        assert p.straight() == ["load2d"] * 4 + ["fixpipe"]


def test_a_gap_and_a_place_that_is_known_only_while_running():
    p = Product()
    at = p.b.register("at", "int32")
    p.b.body.append(ir.Assign(at, const(16, "int32"), p.b.loc()))
    p.load(0), p.load(1)
    p.multiply()
    p.leave(at=var(at, "int32"), gap=32)
    assert p.straight() == ["load2d", "load2d", "fixpipe"]


def changed_source(p: Product) -> None:
    p.load(0), p.load(1)
    p.b.move(p.sources[0], p.sources[1], 512)
    p.multiply()
    p.leave()


def changed_fractal(p: Product) -> None:
    p.load(0), p.load(1)
    p.b.instr("fill", [ref(p.sides[0], F)], repeat=1, pad_value=1.0)
    p.multiply()
    p.leave()


def left_read(p: Product) -> None:
    p.load(0), p.load(1)
    p.multiply()
    p.leave()
    p.copied(p.sides[0])


def left_used_again(p: Product) -> None:
    """The second product stands behind the end of a loop, where nothing is known to be loaded."""
    p.load(0), p.load(1)
    p.multiply()
    p.leave()
    with p.rounds(2):
        p.load(1)
        p.multiply()
        p.leave()


def not_all_loaded(p: Product) -> None:
    p.load(0), p.load(1)
    p.multiply()
    with p.rounds(1):
        p.load(0, count=2), p.load(1)
        p.multiply()
        p.leave()


def result_read(p: Product) -> None:
    p.load(0), p.load(1)
    p.multiply()
    p.leave()
    p.b.instr("data_move_l0c", [ref(p.b.local("ub", "ub", "float32", F)), ref(p.acc)], nburst=1, burst=1)
    p.copied(p.b.program.buffers[-1])


def result_added_to(p: Product) -> None:
    p.load(0), p.load(1)
    p.multiply()
    p.leave()
    p.multiply(adds=True)
    p.leave()


def part_left(p: Product) -> None:
    p.load(0), p.load(1)
    p.multiply()
    p.b.instr("fixpipe", [ref(p.out), ref(p.acc)], cburst_num=p.n1 - 1, burst_len=p.m1 * F * 4)


BOTH = ["load2d", "load2d"]
HAZARDS: list[tuple[Callable, list[str]]] = [
    (changed_source, ["load2d", "fixpipe"]),
    (changed_fractal, ["load2d", "fixpipe"]),
    (left_read, ["load2d", "fixpipe"]),
    (left_used_again, ["load2d", "fixpipe", "load2d", "fixpipe"]),
    (not_all_loaded, ["load2d", "load2d", "fixpipe"]),
    (result_read, BOTH),
    (result_added_to, BOTH),
    (part_left, BOTH),
]


@pytest.mark.parametrize("build, straight", HAZARDS, ids=[build.__name__ for build, _ in HAZARDS])
def test_moves_that_others_see_are_made(build, straight):
    p = Product()
    build(p)
    assert p.straight() == straight


def either_product(p: Product, value: int) -> list[str]:
    """As of a sum that begins in its first round."""
    p.load(0), p.load(1)
    with p.when(value) as otherwise:
        p.multiply()
        otherwise()
        p.multiply(adds=True)
    p.leave()
    return ["load2d"] * 2


def nested(p: Product, value: int) -> list[str]:
    p.load(0), p.load(1)
    with p.when(1):
        with p.when(value) as otherwise:
            p.multiply()
            otherwise()
            with p.when(1):
                p.multiply()
        p.multiply()
        p.leave()
    return ["load2d"] * 2 + ["fixpipe"]


def loaded_behind_a_condition(p: Product, value: int) -> list[str]:
    """A load under a condition of its own does not end what is known of another one."""
    p.load(0)
    with p.when(value):
        p.filled("other", "l1", 1)
    p.load(1)
    p.multiply()
    p.leave()
    return ["load2d"] * 2 + ["fixpipe"]


def changed_on_one_way(p: Product, value: int) -> list[str]:
    p.load(0), p.load(1)
    with p.when(value):
        p.b.move(p.sources[0], p.sources[1], 512)
    p.multiply()
    p.leave()
    return ["load2d", "fixpipe"]


def changed_on_the_other_way(p: Product, value: int) -> list[str]:
    p.load(0), p.load(1)
    with p.when(value) as otherwise:
        p.multiply()
        otherwise()
        p.b.move(p.sources[1], p.sources[0], 512)
    p.multiply()
    p.leave()
    return ["load2d", "fixpipe"]


def loaded_on_one_way(p: Product, value: int) -> list[str]:
    p.load(0), p.load(1)
    with p.when(value):
        p.load(0, True)
    p.multiply()
    p.leave()
    return ["load2d", "fixpipe"]


def loaded_on_both_ways(p: Product, value: int) -> list[str]:
    """Two instructions for one place: which of them it was is not known."""
    p.load(1)
    with p.when(value) as otherwise:
        p.load(0)
        otherwise()
        p.load(0, True)
    p.multiply()
    p.leave()
    return ["load2d", "fixpipe"]


def loaded_before_a_loop(p: Product, value: int) -> list[str]:
    p.load(0), p.load(1)
    with p.rounds(2):
        p.multiply()
    p.leave()
    return []


def left_of_a_loop(p: Product, value: int) -> list[str]:
    """The loop may end before its load."""
    with p.rounds(2):
        p.load(0), p.load(1)
        with p.when(value):
            p.b.body.append(ir.Jump("break", p.b.loc()))
        p.b.move(p.sources[0], p.sources[1], 512)
    p.multiply()
    p.leave()
    return ["fixpipe"]


WAYS = [
    either_product,
    nested,
    loaded_behind_a_condition,
    changed_on_one_way,
    changed_on_the_other_way,
    loaded_on_one_way,
    loaded_on_both_ways,
    loaded_before_a_loop,
    left_of_a_loop,
]


@pytest.mark.parametrize("value", [0, 1], ids=["no", "yes"])
@pytest.mark.parametrize("build", WAYS, ids=[build.__name__ for build in WAYS])
def test_loads_before_conditions(build, value):
    p = Product()
    p.b.instr("fill", [ref(p.acc)], repeat=2 * p.m1 * p.n1, pad_value=0.0)
    want = build(p, value)
    assert p.straight() == want


def test_an_atomic_result_is_added():
    p = Product()
    p.load(0), p.load(1)
    p.multiply()
    p.leave()
    p.b.instr("set_atomic_add", [], {"mode": 1})
    p.multiply()
    p.leave()
    assert p.straight() == ["load2d", "load2d", "fixpipe", "fixpipe"]


def test_a_place_that_does_not_exist_is_refused_as_by_the_move():
    p = Product()
    p.load(0), p.load(1)
    p.multiply()
    p.leave(at=128)
    texts = []
    for run in (reference, engine.run):
        with pytest.raises(EngineError) as failed:
            run(p.b.program, p.feed)
        texts.append(str(failed.value))
    assert texts[0] == texts[1] and texts[0].startswith("fixpipe: dst needs bytes")
