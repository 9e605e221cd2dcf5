# SPDX-License-Identifier: Apache-2.0
"""Addresses of a TensorAddrList: moves to and from them, tensors placed at them, and how arrays are fed."""

from __future__ import annotations

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import engine, tik
from ms_custom_ops.errors import EngineError, TikError, TikScopeError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import Expr
from ms_custom_ops.program.text import parse
from ms_custom_ops.soc import use_soc

ENGINES = ("native", "reference")
CHIPS = ("Ascend910A", "Ascend310P3", "Ascend910B1")


def gathered(tables: int = 4, rows: int = 3, length: int = 16):
    """Twice what the arrays of `places` hold, row by row, to the arrays of `results`."""

    def kernel():
        t = tik.Tik()
        places = t.TensorAddrList(tables, tik.scope_gm, "places")
        results = t.TensorAddrList(tables, tik.scope_gm, "results")
        count = t.InputScalar("int32", "count")
        src, dst = (t.TensorAddrList(tables, tik.scope_ubuf, n) for n in ("src", "dst"))
        for local, table in ((src, places), (dst, results)):
            t.data_move(local, table, 0, 1, tables * 8 // 32, 0, 0)
        u = t.Tensor("float32", (length,), tik.scope_ubuf, "u")
        with t.for_range(0, count) as i, t.for_range(0, rows) as row:
            t.data_move(u, src[i].value + row * length, 0, 1, length // 8, 0, 0)
            t.vec_add(length, u, u, u, 1, 8, 8, 8)
            t.data_move(dst[i].value + row * length, u, 0, 1, length // 8, 0, 0)
        t.BuildCCE("gathered", [places, count], [results])

    return kernel


@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize("name", ENGINES)
def test_moves_at_addresses(soc, name):
    program = mco.trace(gathered(), soc=soc)
    x = [np.random.default_rng(n).standard_normal((3, 16)).astype(np.float32) for n in range(3)]
    y = [np.zeros((3, 16), np.float32) for _ in range(3)]
    before = [a.copy() for a in x]
    engine.run(program, {"places": x, "results": y, "count": 3}, name)
    for a, b, c in zip(x, y, before, strict=True):
        np.testing.assert_array_equal(b, 2 * a)
        np.testing.assert_array_equal(a, c)
    assert mco.check(program, {"places": x, "results": y, "count": 3}).findings == []


def test_an_address_is_a_number_elsewhere():
    def kernel():
        t = tik.Tik()
        table = t.TensorAddrList(4, tik.scope_gm, "table")
        y = t.Tensor("uint64", (4,), tik.scope_gm, "y")
        local = t.TensorAddrList(4, tik.scope_ubuf, "local")
        u = t.Tensor("uint64", (4,), tik.scope_ubuf, "u")
        t.data_move(local, table, 0, 1, 1, 0, 0)
        kept = t.Scalar("uint64", "kept", local[2].value)
        for k, value in enumerate((kept, local[2].value + 3, local[2].value * 2, local[2].value)):
            u[k].set_as(value)
        t.data_move(y, u, 0, 1, 1, 0, 0)
        t.BuildCCE("numbers", [table], [y])

    program = mco.trace(kernel, soc="Ascend910A")
    nodes = [s.value for s in program.body if isinstance(s, (ir.Store, ir.Assign))]
    assert len(nodes) == 5 and {type(n) for n in nodes} == {Expr}
    for name in ENGINES:
        (y,) = engine.run(program, [np.array([7, 8, 9, 10], np.uint64)], name)
        assert y.tolist() == [9, 12, 18, 9]


def test_an_array_may_stand_twice_and_be_written_in_place():
    program = mco.trace(gathered(rows=1), soc="Ascend910A")
    x = np.arange(16, dtype=np.float32)
    engine.run(program, {"places": [x, x], "results": [x, None], "count": 1})
    np.testing.assert_array_equal(x, 2 * np.arange(16))


@pytest.mark.parametrize("soc", CHIPS)
def test_a_tensor_is_placed_at_an_address(soc):
    def kernel():
        t = tik.Tik()
        table = t.TensorAddrList(4, tik.scope_gm, "table")
        y = t.Tensor("float16", (2, 16), tik.scope_gm, "y")
        part = t.Tensor("float16", (4, 16), tik.scope_gm, "part")
        local = t.TensorAddrList(4, tik.scope_ubuf, "local")
        u = t.Tensor("float16", (16,), tik.scope_ubuf, "u")
        t.data_move(local, table, 0, 1, 1, 0, 0)
        with t.for_range(0, 2) as i:
            part.set_address_value(local[i].value + 16)
            t.data_move(u, part[2, 0], 0, 1, 1, 0, 0)
            t.data_move(y[i, 0], u, 0, 1, 1, 0, 0)
        t.BuildCCE("placed", [table], [y])

    program = mco.trace(kernel, soc=soc)
    assert [b.name for b in program.buffers if b.scope == ir.GM] == ["table", "y", "memory"]
    assert (
        parse(program.text()).to_bytes() == program.to_bytes() == ir.Program.from_bytes(program.to_bytes()).to_bytes()
    )
    x = [np.random.default_rng(n).standard_normal((4, 16)).astype(np.float16) for n in range(2)]
    for name in ENGINES:
        (y,) = engine.run(program, {"table": x}, name)
        np.testing.assert_array_equal(y, [a[3] for a in x])


def test_elements_are_those_of_the_other_side():
    """Adds at an address, in the dtype of the tensor on chip."""

    def kernel():
        t = tik.Tik()
        table = t.TensorAddrList(4, tik.scope_gm, "table")
        with t.for_range(0, 2, block_num=2) as i:
            local = t.TensorAddrList(4, tik.scope_ubuf, "local")
            u = t.Tensor("float32", (8,), tik.scope_ubuf, "u")
            t.data_move(local, table, 0, 1, 1, 0, 0)
            t.vec_dup(8, u, 1.5, 1, 8)
            t.set_atomic_add(1)
            t.data_move(local[0].value + 16 - i * 8, u, 0, 1, 1, 0, 0)
            t.set_atomic_add(0)
        t.BuildCCE("sums", [table], [])

    program = mco.trace(kernel, soc="Ascend910A")
    for name in ENGINES:
        x = np.arange(24, dtype=np.float32)
        engine.run(program, {"table": [x]}, name)
        np.testing.assert_array_equal(x, np.arange(24) + 1.5 * (np.arange(24) >= 8))


def test_the_debugger_and_the_profiler_take_arrays():
    def kernel():
        t = tik.Tik(disable_debug=False)
        table = t.TensorAddrList(4, tik.scope_gm, "table")
        y = t.Tensor("int32", (8,), tik.scope_gm, "y")
        local = t.TensorAddrList(4, tik.scope_ubuf, "local")
        u = t.Tensor("int32", (8,), tik.scope_ubuf, "u")
        t.data_move(local, table, 0, 1, 1, 0, 0)
        t.data_move(u, local[1].value, 0, 1, 1, 0, 0)
        t.data_move(y, u, 0, 1, 1, 0, 0)
        t.data_move(local[0].value, u, 0, 1, 1, 0, 0)
        t.BuildCCE("debugged", [table], [y])
        return t

    with use_soc("Ascend910A"):
        t = kernel()
    x, z = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    (y,) = t.tikdb.start_debug({"table": [z, x]}, False)
    assert y.tolist() == z.tolist() == list(range(8))
    assert mco.profile(t.programs[0], {"table": [z, x]}).cycles > 0


def test_what_lies_at_no_array_is_an_error():
    program = mco.trace(gathered(rows=1), soc="Ascend910A")
    x = np.zeros(16, np.float32)
    for name in ENGINES:
        with pytest.raises(EngineError, match=r"data_move: src needs bytes \[\d+, \d+\) of memory, it has \d+"):
            engine.run(program, {"places": np.full(4, 1 << 40, np.uint64), "results": [x], "count": 1}, name)


def overrun(length: int = 16):
    def kernel():
        t = tik.Tik()
        table = t.TensorAddrList(4, tik.scope_gm, "table")
        local = t.TensorAddrList(4, tik.scope_ubuf, "local")
        u = t.Tensor("float32", (length,), tik.scope_ubuf, "u")
        t.data_move(local, table, 0, 1, 1, 0, 0)
        t.vec_dup(8, u, 1.0, length // 8, 1)
        t.data_move(local[0].value, u, 0, 1, length // 8, 0, 0)
        t.BuildCCE("overrun", [table], [])

    return mco.trace(kernel, soc="Ascend910A")


def test_a_block_behind_an_array_is_dropped_and_more_is_an_error():
    x = np.zeros(6, np.float32)
    engine.run(overrun(16), {"table": [x, np.zeros(8, np.float32)]})
    assert (x == 1).all()
    with pytest.raises(
        EngineError, match=r"overrun: 32 bytes outside of the arrays that addresses were given of are wr"
    ):
        engine.run(overrun(24), {"table": [np.zeros(6, np.float32)]})


FEEDS = {
    "more": (lambda x: [x] * 5, "input table is a list of 5 arrays; accepted: at most 4"),
    "element": (lambda x: [3], "element 0 of table is int; accepted: a C-contiguous NumPy array, or None"),
    "strided": (lambda x: [x[::2]], "element 0 of table is an array that is empty or strided"),
    "overlap": (lambda x: [x[:16], x[8:]], "arrays of a table of addresses overlap each other or another input"),
    "read-only": (
        lambda x: [np.broadcast_to(x, x.shape)],
        "a read-only array at address 512 is written; accepted: read",
    ),
}


@pytest.mark.parametrize("name", FEEDS)
def test_feeds_that_are_refused(name):
    make, text = FEEDS[name]
    with pytest.raises(EngineError, match=text):
        engine.run(overrun(), {"table": make(np.zeros(32, np.float32))})


def test_a_program_that_names_another_memory_is_refused():
    program = overrun()
    program.meta[ir.MEMORY_META] = "0"
    with pytest.raises(EngineError, match="meta memory is '0'; accepted: the number of the last input"):
        engine.run(program, {"table": []})


def test_messages():
    with use_soc("Ascend310P3"):
        t = tik.Tik()
        local = t.TensorAddrList(4, name="places", scope=tik.scope_ubuf)
        u, gm = t.Tensor("int32", (8,), tik.scope_ubuf, "u"), t.Tensor("int32", (8,), tik.scope_gm, "gm")
        space = t.Tensor("int32", (8,), tik.scope_gm, "space", is_workspace=True)
        with pytest.raises(
            TikError, match="data_move: dst is an address of TensorAddrList places; accepted: a Tensor "
        ):
            t.data_move(local[1].value, local[0].value, 0, 1, 1, 0, 0)
        with pytest.raises(TikError, match="vec_add: src0 is an address of TensorAddrList places; accepted: a Tensor "):
            t.vec_add(8, u, local[0].value, u, 1, 8, 8, 8)
        with pytest.raises(TikError, match=r"address of places: number of elements behind \+ is 1.5; accepted: an int"):
            local[0].value + 1.5
        with pytest.raises(TikError, match="tensor gm.set_address_value: value is float; accepted: the value of an el"):
            gm.set_address_value(1.5)
        with pytest.raises(
            TikScopeError, match="tensor u.set_address_value: the tensor is ub; accepted: a GM tensor wi"
        ):
            u.set_address_value(local[0].value)
        with pytest.raises(TikScopeError, match="tensor space.set_address_value: the tensor is a workspace; accepted"):
            space.set_address_value(local[0].value)
        t.data_move(u, gm, 0, 1, 1, 0, 0)
        with pytest.raises(TikScopeError, match="tensor gm.set_address_value: the tensor is used before; accepted"):
            gm.set_address_value(local[0].value)
        other = t.Tensor("int32", (8,), tik.scope_gm, "other")
        other.set_address_value(local[0].value)
        with pytest.raises(TikError, match="inputs and outputs is other, placed at an address; accepted: tensors with"):
            t.BuildCCE("k", [gm], [other])
