# SPDX-License-Identifier: Apache-2.0
"""Memory by whole blocks: the device allocates ALIGN_UP(n, 32) + 32 bytes for a GM tensor, and a local tensor
occupies whole blocks."""

from __future__ import annotations

import numpy as np
import pytest

from ms_custom_ops import tik
from ms_custom_ops.engine import native
from ms_custom_ops.engine.reference import run_reference
from ms_custom_ops.errors import EngineError, TikOverflowError
from ms_custom_ops.soc import use_soc

ENGINES = ("native", "reference")


def copy_kernel(count: int, burst: int, room: int, *, loop: bool = False, dtype: str = "float32", shift: int = 0):
    """y = x, moved as whole blocks; in a ``loop`` the places are known only at run time."""
    with use_soc("Ascend910A"):
        t = tik.Tik()
        x = t.Tensor(dtype, (count,), tik.scope_gm, "x")
        y = t.Tensor(dtype, (count,), tik.scope_gm, "y")
        per_block = 32 // np.dtype(dtype).itemsize
        if loop:
            ub = t.Tensor(dtype, (per_block,), tik.scope_ubuf, "ub")
            with t.for_range(0, burst) as i:
                t.data_move(ub, x[i * per_block + shift], 0, 1, 1, 0, 0)
                t.data_move(y[i * per_block + shift], ub, 0, 1, 1, 0, 0)
        else:
            ub = t.Tensor(dtype, (room,), tik.scope_ubuf, "ub")
            t.data_move(ub, x[shift], 0, 1, burst, 0, 0)
            t.data_move(y[shift], ub, 0, 1, burst, 0, 0)
        t.BuildCCE("copy", [x], [y])
    return t.programs[0]


def run_into(program, engine: str, inputs: list, outputs: list) -> None:
    """Run on the caller's own output arrays."""
    if engine == "reference":
        run_reference(program, inputs, [], outputs)
    else:
        handle = native.load(program.to_bytes())
        native._run_native(program, handle, inputs, [], outputs, native._options(0, 1, True, None))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("count, burst", [(12, 2), (1, 1), (16, 3), (9, 3)])
def test_moves_reach_behind_gm_and_leave_the_neighbours(count, burst, loop, engine):
    program = copy_kernel(count, burst, burst * 8, loop=loop)
    memory = np.full(64, 7, np.float32)
    x = np.arange(count, dtype=np.float32)
    run_into(program, engine, [x], [memory[8 : 8 + count]])
    np.testing.assert_array_equal(memory[8 : 8 + count], x)
    assert (memory[:8] == 7).all() and (memory[8 + count :] == 7).all()


@pytest.mark.parametrize("loop", [False, True])
def test_what_is_read_behind_gm_is_zero_in_both_engines(loop):
    with use_soc("Ascend910A"):
        t = tik.Tik()
        x = t.Tensor("int32", (11,), tik.scope_gm, "x")
        y = t.Tensor("int32", (24,), tik.scope_gm, "y")
        ub = t.Tensor("int32", (24,), tik.scope_ubuf, "ub")
        if loop:
            with t.for_range(0, 3) as i:
                t.data_move(ub[i * 8], x[i * 8], 0, 1, 1, 0, 0)
        else:
            t.data_move(ub, x, 0, 3, 1, 0, 0)
        t.data_move(y, ub, 0, 1, 3, 0, 0)
        t.BuildCCE("tail", [x], [y])
    x = np.arange(1, 12, dtype=np.int32)
    for engine in ENGINES:
        (got,) = native.run(t.programs[0], [x], engine)
        np.testing.assert_array_equal(got, [*x, *[0] * 13], err_msg=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_atomic_add_drops_what_lies_behind_gm(engine):
    with use_soc("Ascend910A"):
        t = tik.Tik()
        y = t.Tensor("float32", (5,), tik.scope_gm, "y", is_atomic_add=True)
        with t.for_range(0, 3, block_num=3):
            ub = t.Tensor("float32", (8,), tik.scope_ubuf, "ub")
            t.vec_dup(8, ub, 2.0, 1, 8)
            t.set_atomic_add(1)
            t.data_move(y, ub, 0, 1, 1, 0, 0)
            t.set_atomic_add(0)
        t.BuildCCE("adds", [], [y])
    memory = np.full(16, 7, np.float32)
    run_into(t.programs[0], engine, [], [memory[3:8]])
    np.testing.assert_array_equal(memory, [7] * 3 + [6] * 5 + [7] * 8)


def test_a_move_beyond_the_allocation_is_refused():
    with pytest.raises(TikOverflowError, match=r"data_move: src \(x\) overflow: elements needed 32, elements there 12"):
        copy_kernel(12, 4, 32)
    for engine in ENGINES:
        with pytest.raises(EngineError, match=r"data_move: src needs bytes \[96, 128\) of x, it has 48"):
            native.run(copy_kernel(12, 4, 32, loop=True), [np.zeros(12, np.float32)], engine)
        # 33 bytes behind an end that lies at a block: one more than there is.
        with pytest.raises(EngineError, match=r"needs bytes \[34, 66\) of x, it has 32"):
            native.run(copy_kernel(16, 2, 32, loop=True, dtype="float16", shift=1), [np.zeros(16, np.float16)], engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_local_tensor_occupies_whole_blocks(engine):
    with use_soc("Ascend910A"):
        t = tik.Tik()
        x = t.Tensor("float16", (144,), tik.scope_gm, "x")
        y = t.Tensor("float16", (144,), tik.scope_gm, "y")
        ub = t.Tensor("float16", (136,), tik.scope_ubuf, "ub")
        t.data_move(ub, x, 0, 1, 9, 0, 0)
        t.vec_adds(16, ub[128:], ub[128:], 1.0, 1, 8, 8)
        t.data_move(y, ub, 0, 1, 9, 0, 0)
        t.BuildCCE("blocks", [x], [y])
    x = np.arange(144, dtype=np.float16)
    (got,) = native.run(t.programs[0], [x], engine)
    x[128:] += 1
    np.testing.assert_array_equal(got, x)


def test_a_local_tensor_ends_with_its_last_block():
    with use_soc("Ascend910A"):
        t = tik.Tik()
        x = t.Tensor("float16", (160,), tik.scope_gm, "x")
        ub = t.Tensor("float16", (136,), tik.scope_ubuf, "ub")
        with pytest.raises(TikOverflowError, match=r"dst \(ub\) overflow: elements needed 160, elements there 136"):
            t.data_move(ub, x, 0, 1, 10, 0, 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows", [20, 32, 5])
@pytest.mark.parametrize("half", [False, True])
def test_fixpipe_of_rows_that_fill_no_fractal(rows, half, engine):
    """src is [N1, M, 16] with M a multiple of 16, dst [N1, m, 16]."""
    whole, deep, columns = -(-rows // 16) * 16, 32, 48
    with use_soc("Ascend910A"):
        t = tik.Tik()
        a = t.Tensor("float16", (deep // 16, whole, 16), tik.scope_gm, "a")
        b = t.Tensor("float16", (deep // 16, columns, 16), tik.scope_gm, "b")
        c = t.Tensor("float16" if half else "float32", (columns // 16, rows, 16), tik.scope_gm, "c")
        a1 = t.Tensor("float16", a.shape, tik.scope_cbuf, "a1")
        b1 = t.Tensor("float16", b.shape, tik.scope_cbuf, "b1")
        t.data_move(a1, a, 0, 1, deep * whole // 16, 0, 0)
        t.data_move(b1, b, 0, 1, deep * columns // 16, 0, 0)
        c0 = t.Tensor("float32", (columns // 16, whole, 16), tik.scope_cbuf_out, "c0")
        t.matmul(c0, a1, b1, rows, deep, columns)
        params = {"quantize_params": {"mode": "fp322fp16", "mode_param": None}} if half else None
        t.fixpipe(c, c0, columns // 16, rows * 2, 0, 0, extend_params=params)
        t.BuildCCE("product", [a, b], [c])
    rng = np.random.default_rng(0)
    left = np.zeros((whole, deep), np.float16)
    left[:rows] = rng.integers(-4, 5, (rows, deep))
    right = rng.integers(-4, 5, (deep, columns)).astype(np.float16)
    feed = [
        np.ascontiguousarray(left.reshape(whole, deep // 16, 16).transpose(1, 0, 2)),
        np.ascontiguousarray(right.reshape(deep // 16, 16, columns).transpose(0, 2, 1)),
    ]
    (got,) = native.run(t.programs[0], feed, engine)
    want = left[:rows].astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_array_equal(got.transpose(1, 0, 2).reshape(rows, columns), want)
