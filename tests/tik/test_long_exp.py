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

LANES, BLOCK = 64, 32
PAIR = {"src_blk": BLOCK, "dst_blk": BLOCK, "src_rep": 256}


def both_ways(lanes: int, repeats: int, rounds: int = 1) -> ir.Program:
    """x -> exp(x) in one run, and in repeats with a gap, which go block by block; ``rounds`` pieces one by one."""
    count = LANES * repeats
    b = Builder(scope_bytes={"ub": 1 << 18})
    x = b.gm("x", "float32", rounds * count, "input")
    u, v, w = (
        b.local(name, "ub", "float32", size) for name, size in (("u", count), ("v", count), ("w", count * 9 // 8))
    )
    y, z = (b.gm(name, "float32", rounds * count, "output") for name in "yz")
    i = b.register("i", "int32", "loop")
    loop = ir.For(i, 0, rounds, [], False, 1, b.loc())
    b.body.append(loop)
    b.body = loop.body
    at = binary("*", var(i, "int32"), count)
    size = count * 4
    b.instr("data_move", [ref(u), ref(x, at)], nburst=1, burst=size)
    b.instr("data_move", [ref(v), ref(u)], nburst=1, burst=size)
    b.instr("data_move", [ref(w), ref(u)], nburst=repeats, burst=256, dst_gap=BLOCK)
    b.instr("vexp", [ref(v), ref(u)], mask0=lanes, repeat=repeats, dst_rep=256, **PAIR)
    b.instr("vexp", [ref(w), ref(u)], mask0=lanes, repeat=repeats, dst_rep=256 + BLOCK, **PAIR)
    b.instr("data_move", [ref(y, at), ref(v)], nburst=1, burst=size)
    b.instr("data_move", [ref(z, at), ref(w)], nburst=repeats, burst=256, src_gap=BLOCK)
    return b.program


def assert_equal(program: ir.Program, x: np.ndarray) -> None:
    long, short = engine.run(program, [x])
    different = np.flatnonzero(long.view(np.uint32) != short.view(np.uint32))
    assert different.size == 0, f"exp({x[different[0]]!r}) is {long[different[0]]!r} and {short[different[0]]!r}"


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
        assert_equal(both_ways(lanes, repeats), x)


@pytest.mark.parametrize("lanes", [33, 64])
def test_in_place(lanes):
    b = Builder()
    u, v = b.local("u", "ub", "float32", 2 * LANES), b.local("v", "ub", "float32", 2 * LANES)
    x = b.gm("x", "float32", 2 * LANES, "input")
    for tensor in (u, v):
        b.move(tensor, x)
    repeat = 2 if lanes == LANES else 1
    for dst in (v, u):
        b.instr("vexp", [ref(dst), ref(u)], mask0=lanes, repeat=repeat, dst_rep=256, **PAIR)
    for name, tensor in (("y", u), ("z", v)):
        b.move(b.gm(name, "float32", 2 * LANES, "output"), tensor)
    assert_equal(b.program, np.linspace(-100, 80, 2 * LANES, dtype=np.float32))


@pytest.mark.nightly
@pytest.mark.parametrize("name", LEVELS[1:])
def test_every_float32(name):
    repeats, rounds = 128, 512
    program, count = both_ways(LANES, repeats, rounds), LANES * repeats * rounds
    with level(name):
        for first in range(0, 1 << 32, count):
            assert_equal(program, np.arange(first, first + count, dtype=np.uint32).view(np.float32))
