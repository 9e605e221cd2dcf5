# SPDX-License-Identifier: Apache-2.0
"""``init_value`` of GM tensors: tables of values in the Program, its bytes, its text and both engines."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import engine, tik
from ms_custom_ops.errors import EngineError, TikError, TikScopeError
from ms_custom_ops.program import ir, tables
from ms_custom_ops.program.codec import VERSION
from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.program.text import parse
from ms_custom_ops.program.verify import verify
from ms_custom_ops.soc import use_soc

ENGINES = ("native", "reference")
_SCALE = {"float16": 0.1, "bfloat16": 0.1, "float32": 0.1}


def copied(values, dtype="int32", count=None, soc="Ascend910B1", **more):
    """A kernel without inputs whose output is what a GM tensor starts with."""
    count = len(values) if count is None else count

    def kernel():
        t = tik.Tik()
        y = t.Tensor(dtype, (count,), tik.scope_gm, "y")
        c = t.Tensor(dtype, (count,), tik.scope_gm, "c", init_value=values, **more)
        u = t.Tensor(dtype, (count,), tik.scope_ubuf, "u")
        blocks = -(-count * SIZE[dtype] // 32)
        t.data_move(u, c, 0, 1, blocks, 0, 0)
        t.data_move(y, u, 0, 1, blocks, 0, 0)
        t.BuildCCE("copied", [], [y])

    return mco.trace(kernel, soc=soc)


def outputs(program, feed=()):
    """First outputs, equal in every bit on both engines."""
    native, reference = (engine.run(program, list(feed), name)[0] for name in ENGINES)
    assert native.tobytes() == reference.tobytes()
    return native


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
@pytest.mark.parametrize("form", [list, tuple, np.array], ids=["list", "tuple", "array"])
def test_a_tensor_starts_with_its_values(dtype, form):
    values = [(k * 37 - 200 if DTYPES[dtype].kind != "u" else k) * _SCALE.get(dtype, 1) for k in range(17)]
    values = [min(max(v, -128), 127) if dtype == "int8" else v for v in values]
    got = outputs(copied(form(values), dtype))
    assert got.tobytes() == np.array(values).astype(DTYPES[dtype].numpy).tobytes()


def test_rows_of_nested_lists_and_the_ends_of_64_bits():
    assert outputs(copied([[1, 2, 3], [4, 5, 6]], "int64", 6)).tolist() == [1, 2, 3, 4, 5, 6]
    ends = [2**64 - 1, 2**63, 0, 2**53 + 1]
    assert outputs(copied(ends, "uint64")).tolist() == ends
    assert outputs(copied(2**53 + 1, "int64", 4)).tolist() == [2**53 + 1] * 4


def test_every_run_starts_with_the_values_again():
    def kernel():
        t = tik.Tik()
        y = t.Tensor("float32", (8,), tik.scope_gm, "y")
        c = t.Tensor("float32", (8,), tik.scope_gm, "c", init_value=list(range(8)))
        u = t.Tensor("float32", (8,), tik.scope_ubuf, "u")
        t.data_move(u, c, 0, 1, 1, 0, 0)
        t.vec_adds(8, u, u, 1.0, 1, 8, 8)
        t.data_move(c, u, 0, 1, 1, 0, 0)
        t.data_move(y, u, 0, 1, 1, 0, 0)
        t.data_move(u, c, 0, 1, 1, 0, 0)
        t.BuildCCE("again", [], [y])

    program = mco.trace(kernel, soc="Ascend910A")
    assert [outputs(program).tolist() for _ in range(2)] == [[float(k + 1) for k in range(8)]] * 2
    assert mco.check(program, []).findings == []


@pytest.mark.parametrize("value", [3, [1, 2, 3, 4, 5, 6, 7, 8]], ids=["number", "list"])
def test_an_output_of_atomic_adds_starts_with_its_value(value):
    def kernel():
        t = tik.Tik()
        y = t.Tensor("float32", (8,), tik.scope_gm, "y", is_atomic_add=True, init_value=value)
        with t.for_range(0, 2, block_num=2):
            u = t.Tensor("float32", (8,), tik.scope_ubuf, "u")
            t.vec_dup(8, u, 0.5, 1, 8)
            t.set_atomic_add(1)
            t.data_move(y, u, 0, 1, 1, 0, 0)
            t.set_atomic_add(0)
        t.BuildCCE("added", [], [y])

    want = np.broadcast_to(np.array(value, np.float32), 8) + 1
    np.testing.assert_array_equal(outputs(mco.trace(kernel, soc="Ascend910A")), want)


def test_text_and_bytes_hold_the_values():
    program = copied([1.5, -0.0, float("inf"), 65504], "float16", 4)
    assert " init=[1.5,-0.0,inf,65504.0] @" in program.text()
    raw = program.to_bytes()
    assert ir.Program.from_bytes(raw).to_bytes() == raw == parse(program.text()).to_bytes()
    other = copied([1.5, -0.0, float("inf"), 65472], "float16", 4)
    assert other.to_bytes() != raw


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_text_of_any_bytes_reads_back(dtype):
    rng = np.random.default_rng(7)
    for raw in (rng.bytes(64 * SIZE[dtype]), b"\xff" * 8, b"\x01\x7e" * 4):
        assert tables.read(tables.write(raw, dtype), dtype) == raw


MESSAGES = {
    "count": (
        lambda: copied([1, 2, 3], count=4),
        "Tensor c: number of values in init_value is 3; accepted: 4, one for",
    ),
    "more": (lambda: copied([1] * 5, count=4), "number of values in init_value is 5; accepted: 4"),
    "range": (lambda: copied([1, 300], "uint8"), r"init_value\[1\] is 300; accepted: an integer 0..255 \(uint8\)"),
    "fraction": (lambda: copied([1, 2.5]), r"init_value\[1\] is 2.5; accepted: an integer"),
    "nan": (lambda: copied([float("nan")], count=1), r"init_value\[0\] is nan; accepted: an integer"),
    "word": (lambda: copied(["1"]), r"init_value\[0\] is a str; accepted: a number, or a list, tuple or array"),
    "kind": (lambda: copied("12", count=2), "Tensor c: init_value is a str; accepted: a number, or a list"),
    "complex": (lambda: copied(np.array([1j])), r"init_value\[0\] is a complex; accepted: a number"),
    "number": (lambda: copied(-1, "uint32", 8), r"Tensor c: init_value is -1; accepted: an integer 0..4294967295"),
    "size": (lambda: copied([0] * 2**19), r"init_value for a shape is \[524288\]; accepted: static shapes of at most"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_values_that_are_refused(name):
    make, text = MESSAGES[name]
    with pytest.raises(TikError, match=text + r".*\[.*test_initial_values.py:\d+\]"):
        make()


def test_local_tensors_have_no_value():
    with (
        use_soc("Ascend910A"),
        pytest.raises(TikScopeError, match=r"scope with init_value is local.UB; accepted: global"),
    ):
        tik.Tik().Tensor("int32", (8,), tik.scope_ubuf, "u", init_value=[0] * 8)


def test_a_table_of_another_size_breaks_a_rule():
    program = copied([1, 2, 3, 4])
    program.buffers[1].init_value = bytes(12)
    with pytest.raises(
        EngineError, match=r"tensor c has a table of 12 bytes; accepted: as many bytes as it has itself"
    ):
        verify(program)


@pytest.mark.parametrize(
    ("size", "scope", "text"),
    [
        (1 << 40, 0, "has a table of 1099511627776 bytes in gm"),
        (-1, 0, "a table of -1 bytes"),
        (16, 1, "16 bytes in ub"),
    ],
    ids=["longer than the file", "unknown size", "on the chip"],
)
def test_bytes_of_a_table_are_not_trusted(size, scope, text):
    raw = copied([1, 2, 3, 4]).to_bytes()
    start = raw.index(struct.pack("<4i", 1, 2, 3, 4)) - 16 - 36  # behind the entry, one dimension and one address
    name, old_scope, dtype, kind, flags, bytes_ = struct.unpack_from("<IBBBBq", raw, start)
    assert (old_scope, flags, bytes_) == (0, 4, 16)
    payload = bytearray(raw)
    struct.pack_into("<IBBBBq", payload, start, name, scope, dtype, kind, flags, size)
    body = bytes(payload[24:])
    damaged = struct.pack("<4sIQII", b"MCOP", VERSION, len(body), zlib.crc32(body), 0) + body
    for read in (ir.Program.from_bytes, engine.load):
        with pytest.raises(EngineError, match=text):
            read(damaged)
