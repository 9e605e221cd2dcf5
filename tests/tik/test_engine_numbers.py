# SPDX-License-Identifier: Apache-2.0
"""Numbers of the native engine: 16-bit functions for every input, float32 functions, and the SIMD levels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from engine_cases import LEVELS, assert_same_bits, every_16_bit, level, need_engine, vector_program
from programs import Builder, outputs_of, ref, vector_args
from random_programs import random_feed, random_program

from ms_custom_ops.engine import native as engine
from ms_custom_ops.program.expr import const
from ms_custom_ops.program.isa import MASK_BITS

need_engine()

FUNCTIONS = {
    "vexp": np.exp,
    "vln": np.log,
    "vrec": lambda x: 1 / x,
    "vsqrt": np.sqrt,
    "vrsqrt": lambda x: 1 / np.sqrt(x),
}
BFLOAT16 = ml_dtypes.bfloat16


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    """float64 rounded once to nearest even in a 16-bit dtype."""
    if dtype == "float16":
        return x.astype(np.float16)
    # ml_dtypes rounds float64 twice; to odd in float32 first makes the second rounding right.
    near = x.astype(np.float32)
    bits = near.view(np.uint32) - (np.abs(near.astype(np.float64)) > np.abs(x))
    inexact = (near.astype(np.float64) != x) & ~np.isnan(x)
    return np.where(inexact, bits | 1, near.view(np.uint32)).astype(np.uint32).view(np.float32).astype(BFLOAT16)


def run_over(op: str, dtype: str, x: np.ndarray) -> np.ndarray:
    program = vector_program(op, dtype, x.size)
    program.saturate = False
    return engine.run(program, [x])[0]


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_every_16_bit_input_is_correctly_rounded(op, dtype, name):
    x = every_16_bit(dtype)
    with np.errstate(all="ignore"):
        want = rounded(FUNCTIONS[op](x.astype(np.float64)), dtype)
    with level(name):
        assert_same_bits(run_over(op, dtype, x), want, dtype, f"{op} {dtype}")


def float32_inputs(count: int) -> np.ndarray:
    """Values of every exponent, and many in the range where exp is neither 0 nor infinite."""
    rng = np.random.default_rng(5)
    raw = rng.integers(0, 1 << 32, count // 2, dtype=np.uint32).view(np.float32)
    near = [rng.uniform(low, high, count // 4).astype(np.float32) for low, high in ((-105, 90), (0.5, 2))]
    return np.concatenate([raw, *near])


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_float32_functions_are_within_one_ulp_and_almost_always_exact(op, name):
    x = float32_inputs(1 << 17)
    with np.errstate(all="ignore"):
        want = FUNCTIONS[op](x.astype(np.float64)).astype(np.float32)
    with level(name):
        got = run_over(op, "float32", x)
    finite = np.isfinite(want)
    assert (np.isnan(got) == np.isnan(want)).all()
    assert (got[~finite & ~np.isnan(want)] == want[~finite & ~np.isnan(want)]).all()
    steps = np.abs(got[finite].view(np.int32).astype(np.int64) - want[finite].view(np.int32))
    assert steps.max() <= 1
    assert np.count_nonzero(steps) <= 2, f"{np.count_nonzero(steps)} of {steps.size} results are not the nearest"


SIMD_SEEDS = range(7000, 7060)


@pytest.mark.parametrize("name", LEVELS[1:])
def test_levels_agree_bit_for_bit(name):
    for seed in SIMD_SEEDS:
        program = random_program(seed, 6 + seed % 17)
        feed = random_feed(program, seed)
        with level("generic"):
            want = engine.run(program, feed)
        with level(name):
            got = engine.run(program, feed)
        for index, g, w in zip(program.outputs, got, want, strict=True):
            buffer = program.buffers[index]
            assert_same_bits(g, w, buffer.dtype, f"random_program({seed}, {6 + seed % 17}) {buffer.name}")


SHAPES = [(1, 1, 1), (1, 63, 17), (15, 17, 16), (17, 15, 33), (63, 200, 15), (64, 64, 64), (200, 63, 17)]


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("m, k, n", SHAPES, ids=lambda v: str(v))
def test_matmul_against_float32_products_in_ascending_k(m, k, n, name):
    from programs import Builder, ref

    b = Builder(scope_bytes={"l1": 1 << 19, "l0c": 1 << 18, "ub": 1 << 18})
    rows, columns, blocks = (-(-v // 16) for v in (m, n, k))
    size_a, size_b, size_c = blocks * rows * 256, blocks * columns * 256, rows * columns * 256
    a, w = (b.local(t, "l1", "float16", s) for t, s in (("a", size_a), ("w", size_b)))
    c, u = b.local("c", "l0c", "float32", size_c), b.local("u", "ub", "float32", size_c)
    b.move(a, b.gm("a_gm", "float16", size_a, "input"))
    b.move(w, b.gm("w_gm", "float16", size_b, "input"))
    b.instr("matmul", [ref(c), ref(a), ref(w)], {"m": m, "k": k, "n": n, "init": 1})
    b.instr("data_move_l0c", [ref(u), ref(c)], nburst=1, burst=rows * columns)
    b.move(b.gm("z", "float32", size_c, "output"), u)
    rng = np.random.default_rng(m * k + n)
    left, right = (rng.standard_normal((blocks, s * 16, 16)).astype(np.float16) for s in (rows, columns))
    flat = [x.transpose(1, 0, 2).reshape(x.shape[1], -1)[:, :k].astype(np.float32) for x in (left, right)]
    want = np.zeros((rows * 16, columns * 16), np.float32)
    for i in range(k):
        want += flat[0][:, i : i + 1] * flat[1][:, i]
    with level(name):
        got = engine.run(b.program, [left.reshape(-1), right.reshape(-1)])[0]
    got = got.reshape(columns, rows * 16, 16).transpose(1, 0, 2).reshape(want.shape)
    assert_same_bits(got, want, "float32", f"matmul {m}x{k}x{n}")
    assert outputs_of(b.program)[0].size == size_c


@pytest.mark.parametrize("name", LEVELS)
def test_a_mask_by_bits_leaves_lanes_beyond_its_128_bits_alone(name):
    """An 8-bit repeat has 256 lanes, a mask 128 bits: the upper lanes are off."""
    b = Builder(scope_bytes={"ub": 1 << 12})
    u = b.local("u", "ub", "uint8", 256)
    b.move(u, b.gm("x", "uint8", 256, "input"))
    word = (1 << 64) - 1
    b.instr(
        "vector_dup",
        {"dst": ref(u)},
        {"mask_kind": MASK_BITS},
        **vector_args("vector_dup", (word, word), 1, {"dst": 1}, scalar=const(7)),
    )
    b.move(b.gm("y", "uint8", 256, "output"), u)
    with level(name):
        (got,) = engine.run(b.program, [np.zeros(256, np.uint8)])
    assert got.tolist() == [7] * 128 + [0] * 128
