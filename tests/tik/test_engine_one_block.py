# SPDX-License-Identifier: Apache-2.0
"""Two-source instructions of which a source has one block for all blocks of a repeat."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import DTYPES, LEVELS, SIZE, assert_same_bits, level, need_engine
from programs import Builder, ref, vector_args

from ms_custom_ops import engine

need_engine()

OPS = ("vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vaddrelu", "vsubrelu", "vmla", "vmadd", "vmaddrelu")
REPEATS = 5
COUNT = 4096


def program_of(op: str, dtype: str, mask: int, strides: dict[str, int], places: dict[str, int]):
    """y = what ``op`` makes of x, at ``places`` (elements) of which its operands lie."""
    b = Builder(scope_bytes={"ub": 1 << 16})
    data = b.local("data", "ub", dtype, COUNT)
    b.move(data, b.gm("x", dtype, COUNT, "input"))
    sizes = dict.fromkeys(("dst", "src0", "src1"), SIZE[dtype])
    args = vector_args(op, mask, REPEATS, sizes, **strides)
    b.instr(op, {name: ref(data, at) for name, at in places.items()}, **args)
    b.move(b.gm("y", dtype, COUNT, "output"), data)
    return b.program


def forms(lanes: int) -> list[tuple]:
    """Mask, strides in bytes and places in elements."""
    apart = {"dst": 0, "src0": 768, "src1": 1536}
    once = [{"src0_blk": 0, "src0_rep": 32}, {"src1_blk": 0, "src1_rep": 32}, {"src1_blk": 0, "src1_rep": 0}]
    found = [(mask, strides, apart) for strides in once for mask in (lanes, lanes // 2, lanes // 8, lanes - 3, 1)]
    found += [(lanes, once[1], {**apart, "src0": 0}), (lanes, once[0], {**apart, "src1": 0})]  # in place
    found += [(lanes, once[1], {**apart, "dst": 8, "src0": 0}), (lanes, once[1], {**apart, "src1": 64})]  # they meet
    wide = {"dst_rep": 320, "src0_rep": 512}
    found += [(lanes, {**once[1], **wide}, apart), (lanes, {**once[1], "dst_blk": 64, "dst_rep": 512}, apart)]
    between = {"dst_rep": 320, "src1_blk": 0, "src1_rep": 320}  # the blocks lie in the gaps of dst
    found += [(lanes, between, {**apart, "src1": lanes})]
    both = {"src0_blk": 0, "src0_rep": 32, "src1_blk": 0, "src1_rep": 32}
    found += [(mask, both, apart) for mask in (lanes, lanes // 2, lanes // 8, lanes - 3)]
    found += [(lanes, {**both, "src0_rep": 0, **more}, apart) for more in ({}, {"dst_rep": 320}, {"dst_rep": 512})]
    found += [(lanes, {**both, "dst_rep": 320, "src0_rep": 320, "src1_rep": 0}, {**apart, "src0": lanes})]  # in gaps
    found += [(lanes, both, {**apart, "src1": 64}), (lanes, both, {**apart, "src0": 0})]  # they meet
    return found


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("op", OPS)
def test_one_block_for_all(op, dtype, name):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(COUNT).astype(DTYPES[dtype].numpy)
    x[rng.integers(0, COUNT, 40)] = np.tile([np.inf, -np.inf, np.nan, -0.0], 10)
    with level(name):
        for form in forms(256 // SIZE[dtype]):
            program = program_of(op, dtype, *form)
            (got,) = engine.run(program, [x])
            (want,) = engine.run(program, [x], engine="reference")
            assert_same_bits(got, want, dtype, f"{op} {form}")
