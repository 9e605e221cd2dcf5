# SPDX-License-Identifier: Apache-2.0
"""exp of long runs of float32, which is computed in another order than that of single blocks: the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import LEVELS, level, need_engine
from programs import Builder, ref

from ms_custom_ops.engine import native as engine
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import binary, var

need_engine()

LANES, BLOCK, SHORT = 64, 32, 24
PLAIN = {"src_blk": BLOCK, "dst_blk": BLOCK, "src_rep": 256, "dst_rep": 256}
GAPS = {"src_blk": BLOCK, "dst_blk": 2 * BLOCK, "src_rep": 256, "dst_rep": 512}
FEW = {"src_blk": BLOCK, "dst_blk": BLOCK, "src_rep": 96, "dst_rep": 96}


def three_ways(lanes: int, repeats: int, rounds: int = 1) -> ir.Program:
    """x -> exp(x) in one run, with a gap behind each block, and in repeats of three blocks, which are too short for
    another way than one register after the other; ``rounds`` pieces one by one."""
    count = LANES * repeats
    b = Builder(scope_bytes={"ub": 1 << 18})
    x = b.gm("x", "float32", rounds * count, "input")
    sizes = {"u": count, "v": count, "w": 2 * count, "t": count}
    u, v, w, t = (b.local(name, "ub", "float32", size) for name, size in sizes.items())
    outputs = [b.gm(name, "float32", rounds * count, "output") for name in ("run", "gaps", "short")]
    i = b.register("i", "int32", "loop")
    loop = ir.For(i, 0, rounds, [], False, 1, b.loc())
    b.body.append(loop)
    b.body = loop.body
    at, size = binary("*", var(i, "int32"), count), count * 4
    b.instr("data_move", [ref(u), ref(x, at)], nburst=1, burst=size)
    for tensor in (v, t):
        b.instr("data_move", [ref(tensor), ref(u)], nburst=1, burst=size)
    b.instr("data_move", [ref(w), ref(u)], nburst=count // 8, burst=BLOCK, dst_gap=BLOCK)
    b.instr("vexp", [ref(v), ref(u)], mask0=lanes, repeat=repeats, **PLAIN)
    b.instr("vexp", [ref(w), ref(u)], mask0=lanes, repeat=repeats, **GAPS)
    whole = lanes + LANES * (repeats - 1)  # only full repeats follow each other
    for first in range(0, whole, 255 * SHORT):
        left = min(whole - first, 255 * SHORT)
        if left >= SHORT:
            b.instr("vexp", [ref(t, first), ref(u, first)], mask0=SHORT, repeat=left // SHORT, **FEW)
        for one in range(left // SHORT * SHORT, left, 8):
            lane = first + one
            b.instr("vexp", [ref(t, lane), ref(u, lane)], mask0=min(8, whole - lane), repeat=1, **PLAIN)
    for out, tensor in zip(outputs, (v, None, t), strict=True):
        if tensor is not None:
            b.instr("data_move", [ref(out, at), ref(tensor)], nburst=1, burst=size)
    b.instr("data_move", [ref(outputs[1], at), ref(w)], nburst=count // 8, burst=BLOCK, src_gap=BLOCK)
    return b.program


def assert_equal(program: ir.Program, x: np.ndarray) -> None:
    *others, short = (y.view(np.uint32) for y in engine.run(program, [x]))
    for other in others:
        different = np.flatnonzero(other != short)
        assert different.size == 0, f"{different.size} of {x.size} differ, first exp({x[different[0]]!r})"


SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    -np.nan,
    1e-45,
    -1e-45,
    88.72,
    88.73,
    100,
    1e38,
    -87.3,
    -103.9,
    -104,
    -1e30,
]


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("lanes, repeats", [(1, 1), (15, 1), (17, 1), (33, 1), (63, 1), (64, 1), (64, 3), (64, 200)])
def test_runs_of_any_length(lanes, repeats, name):
    rng = np.random.default_rng(lanes * repeats)
    bits = rng.integers(0, 1 << 32, LANES * repeats, dtype=np.uint32).view(np.float32)
    x = np.where(rng.random(bits.size) < 0.2, bits, rng.uniform(-110, 92, bits.size).astype(np.float32))
    x[: len(SPECIAL)] = rng.permutation(np.array(SPECIAL, np.float32))
    with level(name):
        assert_equal(three_ways(lanes, repeats), x)


@pytest.mark.parametrize("lanes", [33, 64])
def test_in_place(lanes):
    b = Builder()
    u, v = b.local("u", "ub", "float32", 2 * LANES), b.local("v", "ub", "float32", 2 * LANES)
    x = b.gm("x", "float32", 2 * LANES, "input")
    for tensor in (u, v):
        b.move(tensor, x)
    repeat = 2 if lanes == LANES else 1
    for dst in (v, u):
        b.instr("vexp", [ref(dst), ref(u)], mask0=lanes, repeat=repeat, **PLAIN)
    for name, tensor in (("y", u), ("z", v)):
        b.move(b.gm(name, "float32", 2 * LANES, "output"), tensor)
    assert_equal(b.program, np.linspace(-100, 80, 2 * LANES, dtype=np.float32))


@pytest.mark.parametrize("name", LEVELS[1:])
@pytest.mark.parametrize("step", [32, 64, 512])
def test_repeats_that_read_what_the_one_before_has_written(step, name):
    b = Builder()
    u = b.local("u", "ub", "float32", 1024)
    b.move(u, b.gm("x", "float32", 1024, "input"))
    strides = {"src_blk": 64, "dst_blk": 64, "src_rep": step, "dst_rep": step}
    b.instr("vexp", [ref(u), ref(u)], mask0=LANES, repeat=3, **strides)
    b.move(b.gm("y", "float32", 1024, "output"), u)
    x = np.linspace(-3, -1, 1024, dtype=np.float32)
    with level("generic"):
        (want,) = engine.run(b.program, [x])
    with level(name):
        (got,) = engine.run(b.program, [x])
    assert (got.view(np.uint32) == want.view(np.uint32)).all()


@pytest.mark.nightly
@pytest.mark.parametrize("name", LEVELS[1:])
def test_every_float32(name):
    repeats, rounds = 96, 512  # whole repeats of three blocks
    program, count = three_ways(LANES, repeats, rounds), LANES * repeats * rounds
    with level(name):
        for first in range(0, 1 << 32, count):
            bits = np.arange(first, first + count, dtype=np.uint64) & 0xFFFFFFFF
            assert_equal(program, bits.astype(np.uint32).view(np.float32))
