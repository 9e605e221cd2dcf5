# SPDX-License-Identifier: Apache-2.0
"""Reductions of many repeats at once give what one repeat after the other does."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import DTYPES, LEVELS, SIZE, assert_same_bits, level, need_engine
from programs import Builder, ref, vector_args

from ms_custom_ops import engine

need_engine()

RESULTS = {"vcadd": 1, "vcgadd": 8, "vcgmax": 8, "vcgmin": 8}
MOST = 21  # repeats


def reduction(op: str, dtype: str, repeat: int, dst_rep: int, src_rep: int, mask: int, meet: bool):
    """Results of ``repeat`` repeats of x, ``dst_rep`` bytes apart, over what y starts with; over x where they meet."""
    b = Builder(scope_bytes={"ub": 1 << 16})
    lanes = 256 // SIZE[dtype]
    count = MOST * lanes
    x = b.gm("x", dtype, count, "input")
    start = b.gm("start", dtype, count, "input")
    src = b.local("src", "ub", dtype, count)
    dst = src if meet else b.local("dst", "ub", dtype, count)
    b.move(src, x)
    if not meet:
        b.move(dst, start)
    args = vector_args(op, mask, repeat, {"dst": SIZE[dtype], "src": SIZE[dtype]}, dst_rep=dst_rep, src_rep=src_rep)
    b.instr(op, {"dst": ref(dst), "src": ref(src)}, **args)
    b.move(b.gm("y", dtype, count, "output"), dst)
    return b.program


def numbers(dtype: str, seed: int) -> np.ndarray:
    """Any bits, NaN and zeros of both signs among them; every other repeat moderate numbers."""
    rng = np.random.default_rng(seed)
    lanes = 256 // SIZE[dtype]
    x = np.frombuffer(rng.bytes(MOST * 256), DTYPES[dtype].numpy).copy().reshape(MOST, lanes)
    x[::2] = rng.standard_normal(x[::2].shape).astype(x.dtype)
    x[1::4, ::3] = -0.0
    x[1::4, 1::3] = 0.0
    return x.reshape(-1)


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("op", RESULTS)
def test_repeats_together(op, dtype, name):
    size, lanes = SIZE[dtype], 256 // SIZE[dtype]
    dense = RESULTS[op] * size
    forms = [(n, dense, 256, lanes, False) for n in (1, 7, 8, 9, 16, MOST)]
    forms += [(MOST, step, 256, lanes, False) for step in (0, dense + 32, 96)]  # one place, gaps
    forms += [(MOST, dense, 0, lanes, False), (MOST, dense, 32, lanes, False)]  # the same lanes again, some of them
    forms += [(MOST, dense, 256, lanes - 3, False), (9, dense, 256, lanes, True), (9, 256, 256, lanes, True)]
    with level(name):
        for i, form in enumerate(forms):
            program = reduction(op, dtype, *form)
            feed = [numbers(dtype, i), np.full(MOST * lanes, 7, DTYPES[dtype].numpy)]
            (got,) = engine.run(program, feed)
            (want,) = engine.run(program, feed, engine="reference")
            assert_same_bits(got, want, dtype, f"{op} {form}")
