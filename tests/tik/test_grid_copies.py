# SPDX-License-Identifier: Apache-2.0
"""Blocks and rows of fractals that are copied as a grid (csrc/simd/block_ops.h): at every SIMD level the bits that
NumPy lays, and nothing beside them."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import LEVELS, level, need_engine
from programs import Builder, ref

from ms_custom_ops import engine

need_engine()
SIDE = 16  # of a fractal; elements of float16 of a block


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("step", [1, 2], ids=["dense", "every_other_block"])
@pytest.mark.parametrize(
    "matrices, rows, blocks", [(1, 2, 1), (1, 3, 5), (2, 7, 2), (3, 16, 1), (2, 17, 4), (1, 63, 3)]
)
def test_rows_to_nz(name: str, step: int, matrices: int, rows: int, blocks: int) -> None:
    pitch, column = blocks * SIDE + 16, rows * step + 1  # elements of a row in GM, blocks from one column to the next
    whole = blocks * column * SIDE
    x = np.random.default_rng(rows).standard_normal((matrices, rows, pitch)).astype(np.float16)
    b = Builder()
    source = b.gm("x", "float16", x.size, "input")
    out = b.gm("y", "float16", matrices * whole, "output")
    held = b.local("held", "l1", "float16", matrices * whole)
    zeros = b.local("zeros", "ub", "float16", SIDE)
    b.instr("vector_dup", [ref(zeros)], {"mask_kind": 0}, scalar=0.0, mask0=SIDE, repeat=1, dst_blk=32)
    for at in range(0, matrices * whole, SIDE):
        b.instr("data_move", [ref(held, at), ref(zeros)], nburst=1, burst=32)
    b.instr(
        "nd2nz", [ref(held), ref(source)],
        nd_num=matrices, nd_n=rows, nd_d=blocks * SIDE, src_nd_stride=rows * pitch, src_n_stride=pitch,
        dst_c0_stride=column, dst_n_stride=step, dst_nd_stride=whole,
    )  # fmt: skip
    b.instr("data_move", [ref(out), ref(held)], nburst=1, burst=matrices * whole * 2)
    want = np.zeros((matrices, blocks, column, SIDE), np.float16)
    want[:, :, : rows * step : step] = x[:, :, : blocks * SIDE].reshape(matrices, rows, blocks, SIDE).swapaxes(1, 2)
    with level(name):
        (got,) = engine.run(b.program, [x.ravel()])
    assert (got.view(np.uint16) == want.ravel().view(np.uint16)).all()


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("rows, columns, gap", [(1, 16, 0), (15, 33, 8), (17, 64, 0), (16, 128, 24), (31, 5, 3)])
def test_rows_out_of_l0c(name: str, rows: int, columns: int, gap: int) -> None:
    panels, pitch = -(-columns // SIDE), columns + gap
    fractals = np.random.default_rng(columns).standard_normal((panels, rows, SIDE)).astype(np.float32)
    b = Builder()
    source = b.gm("x", "float32", fractals.size, "input")
    out = b.gm("y", "float32", rows * pitch, "output")
    held = b.local("held", "ub", "float32", fractals.size)
    b.instr("data_move", [ref(held), ref(source)], nburst=1, burst=fractals.size * 4)
    scale = b.local("scale", "ub", "uint64", 64)
    b.instr(
        "l0c_matrix", [ref(out), ref(held), ref(scale)], {"width": 0, "quant": 0, "relu": 0, "vector": 0},
        matrices=1, rows=rows, columns=columns, src_stride=rows * SIDE * 4, src_next=0, dst_stride=pitch * 4,
        dst_next=0, deqscale=0,
    )  # fmt: skip
    want = np.zeros((rows, pitch), np.float32)
    want[:, :columns] = fractals.swapaxes(0, 1).reshape(rows, -1)[:, :columns]
    with level(name):
        (got,) = engine.run(b.program, [fractals.ravel()])
    assert np.array_equal(got.reshape(rows, pitch)[:, :columns], want[:, :columns])
