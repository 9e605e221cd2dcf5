# SPDX-License-Identifier: Apache-2.0
"""Python face of the native engine: feeds, outputs, settings, the table, and control flow of hand-built Programs."""

from __future__ import annotations

import ctypes
import re

import ml_dtypes
import numpy as np
import pytest
from engine_cases import LEVELS, assign, level, need_engine
from programs import Builder, ref

from ms_custom_ops.engine import native as engine
from ms_custom_ops.errors import EngineError, EngineMissingError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES
from ms_custom_ops.program.expr import Expr, binary, cast, const, unary, var

need_engine()


def copies(dtype: str = "float16", count: int = 16) -> ir.Program:
    b = Builder()
    u = b.local("u", "ub", dtype, count)
    b.move(u, b.gm("x", dtype, count, "input"))
    b.move(b.gm("z", dtype, count, "output"), u)
    return b.program


@pytest.mark.parametrize("name", engine.ENGINES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_goes_through_both_engines(dtype, name):
    x = (np.arange(64) % 2).astype(DTYPES[dtype].numpy)
    (z,) = engine.run(copies(dtype, 64), {"x": x}, engine=name)
    assert z.dtype == x.dtype and (z == x).all()


FEEDS = [
    ([], "probe: feed is 0 values; accepted: 1 inputs and 0 input scalars: ['x']"),
    ({}, "probe: feed is a dict lacking ['x']; accepted: one value for each of ['x']"),
    ({"x": np.zeros(16, np.float16), "y": 1}, "probe: feed is a dict holding the unknown ['y']"),
    ([[0.0] * 16], "probe: input x is a list; accepted: a NumPy array"),
    ([np.zeros(16, np.float32)], "probe: dtype of input x is float32; accepted: float16"),
    ([np.zeros(16, ml_dtypes.bfloat16)], "probe: dtype of input x is bfloat16; accepted: float16"),
    ([np.zeros(15, np.float16)], "probe: shape of input x is (15,); accepted: (16)"),
    ([np.zeros(32, np.float16)[::2]], "probe: input x is an array with strides (4,); accepted: a C-contiguous array"),
]


@pytest.mark.parametrize(
    "feed, text", FEEDS, ids=["none", "lacking", "unknown", "list", "dtype", "bfloat16", "length", "strides"]
)
def test_feeds_that_do_not_fit(feed, text):
    with pytest.raises(EngineError, match=re.escape(text)):
        engine.run(copies(), feed)


@pytest.mark.parametrize("name", engine.ENGINES)
def test_a_feed_of_equal_size_and_another_shape_is_taken_with_a_note(name):
    x = np.arange(16, dtype=np.float16)
    text = re.escape("probe: shape of input x is (4, 4); accepted: (16); taken, since it has as many elements")
    with pytest.warns(UserWarning, match=text):
        (y,) = engine.run(copies(), [x.reshape(4, 4)], engine=name)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"engine": "numpy"}, "probe: engine is 'numpy'; accepted: 'native' or 'reference'"),
        ({"mode": "checked"}, "probe: mode is 'checked'; accepted: 'fast'"),
    ],
)
def test_unknown_engine_or_mode(arguments, text):
    with pytest.raises(EngineError, match=re.escape(text)):
        engine.run(copies(), [np.zeros(16, np.float16)], **arguments)


def test_the_library_refuses_other_modes_and_sizes_of_options():
    handle = engine.load(copies().to_bytes())
    library, text = engine._library(), ctypes.create_string_buffer(4096)
    for options, wanted in (
        (engine._Options(ctypes.sizeof(engine._Options), 1, 0, 1), b"mode is 1; accepted: 0"),
        (engine._Options(3, 0, 0, 1), b"options have 3 bytes"),
    ):
        assert library.mco_run(handle.pointer, None, 0, None, 0, ctypes.byref(options), text, 4096) == 1
        assert wanted in text.value
    assert library.mco_run(handle.pointer, None, 0, None, 0, None, text, 4096) == 1
    assert b"0 tensors were given; accepted: 1 inputs and 1 outputs" in text.value


def test_an_output_that_is_not_written_is_nan():
    b = Builder()
    b.gm("z", "float16", 3, "output")
    b.gm("n", "int32", 3, "output", atomic_init=True)
    z, n = engine.run(b.program, [])
    assert np.isnan(z).all() and (n == 0).all()


def test_an_output_that_is_an_input_starts_as_a_copy_of_it():
    b = Builder()
    x = b.gm("x", "int32", 8, "input")
    b.program.outputs.append(x.index)
    b.body.append(ir.Store(ref(x, 2), const(7, "int32"), b.loc()))
    fed = np.arange(8, dtype=np.int32)
    (z,) = engine.run(b.program, [fed])
    assert z.tolist() == [0, 1, 7, 3, 4, 5, 6, 7] and fed[2] == 2


@pytest.mark.parametrize("dtype, value", [("int32", -5), ("uint64", (1 << 64) - 1), ("float32", 1.5), ("bool", 1)])
def test_input_scalars(dtype, value):
    b = Builder()
    n = b.register("n", dtype, "input")
    z = b.gm("z", dtype, 1, "output")
    b.body.append(ir.Store(ref(z), var(n, dtype), b.loc()))
    for feed in ([value], {"n": value}):
        assert engine.run(b.program, feed)[0][0] == value


@pytest.mark.parametrize(
    "dtype, value, text",
    [
        (
            "int32",
            1 << 31,
            "probe: input scalar n is 2147483648; accepted: an integer -2147483648 to 2147483647 (int32)",
        ),
        ("int32", 1.5, "probe: input scalar n is 1.5; accepted: an integer"),
        ("float32", "x", "probe: input scalar n is 'x'; accepted: a number (float32)"),
    ],
)
def test_input_scalars_that_do_not_fit(dtype, value, text):
    b = Builder()
    b.register("n", dtype, "input")
    with pytest.raises(EngineError, match=re.escape(text)):
        engine.run(b.program, [value])


def stored(dtype: str, value: Expr, b: Builder | None = None) -> int | float:
    """The value that an expression has when it is stored as ``dtype``."""
    b = b or Builder()
    b.body.append(ir.Store(ref(b.gm("z", dtype, 1, "output")), value, b.loc()))
    return engine.run(b.program, [])[0][0]


def register(b: Builder, dtype: str, value: int | float) -> Expr:
    """A scalar that is known only at run time."""
    index = b.register("s", dtype)
    assign(b, index, const(value, dtype))
    return var(index, dtype)


INTEGERS = [
    ("/", -7, 2, -3),
    ("%", -7, 2, -1),
    ("/", 7, -2, -3),
    (">>", -7, 1, -4),
    ("<<", 1, 33, 2),
    ("-", 3, 5, -2),
    ("*", 1 << 20, 1 << 20, 0),
    ("+", (1 << 31) - 1, 1, -(1 << 31)),
    ("&", 12, 10, 8),
    ("|", 12, 10, 14),
    ("^", 12, 10, 6),
    ("min", -3, 2, -3),
    ("max", -3, 2, 2),
    ("/", -(1 << 31), -1, -(1 << 31)),
    ("%", -(1 << 31), -1, 0),
    ("<", -3, 2, 1),
    ("==", 4, 4, 1),
    (">=", -3, 2, 0),
]


@pytest.mark.parametrize("op, x, y, want", INTEGERS, ids=lambda v: str(v))
def test_int32_expressions(op, x, y, want):
    b = Builder()
    assert stored("int32", cast(binary(op, register(b, "int32", x), register(b, "int32", y)), "int32"), b) == want


UNSIGNED = [
    ("/", (1 << 64) - 1, 2, (1 << 63) - 1),
    (">>", 1 << 63, 63, 1),
    ("-", 0, 1, (1 << 64) - 1),
    ("max", 1 << 63, 1, 1 << 63),
    ("%", (1 << 64) - 1, 10, 5),
]


@pytest.mark.parametrize("op, x, y, want", UNSIGNED, ids=lambda v: str(v))
def test_uint64_expressions(op, x, y, want):
    b = Builder()
    assert stored("uint64", binary(op, register(b, "uint64", x), register(b, "uint64", y)), b) == want


@pytest.mark.parametrize(
    "op, dtype, x, want",
    [
        ("sqrt", "int64", (1 << 62) + 1, 1 << 31),
        ("sqrt", "uint64", (1 << 64) - 1, (1 << 32) - 1),
        ("bitcount1", "uint64", 255, 8),
        ("bitcount0", "uint64", 255, 56),
        ("clz", "uint64", 255, 56),
        ("clz", "uint64", 0, 64),
        ("neg", "int32", -(1 << 31), -(1 << 31)),
        ("abs", "int64", -5, 5),
        ("invert", "uint16", 1, 0xFFFE),
        ("sqrt", "float32", 2.0, np.float32(np.sqrt(2.0))),
    ],
)
def test_unary_expressions(op, dtype, x, want):
    b = Builder()
    assert stored(dtype, unary(op, register(b, dtype, x)), b) == want


@pytest.mark.parametrize(
    "source, value, dtype, want",
    [
        ("float32", 1e9, "int16", 32767),
        ("float32", -1.9, "int32", -1),
        ("float32", np.nan, "int32", 0),
        ("float32", -1.0, "uint8", 0),
        ("int64", (1 << 53) + (1 << 29) + 1, "float32", float((1 << 53) + (1 << 30))),
        ("int32", 300, "int8", 44),
        ("float32", 2049.0, "float16", 2048.0),
        ("float32", 70000.0, "float16", np.inf),
    ],
)
def test_conversions_at_run_time(source, value, dtype, want):
    b = Builder()
    assert stored(dtype, cast(register(b, source, value), dtype), b) == want


@pytest.mark.parametrize("op", ["/", "%"])
def test_division_by_zero_is_an_error_with_its_place(op):
    b = Builder()
    with pytest.raises(EngineError, match=rf"integer division by zero in operator {op} \[kernel.py:3\]"):
        stored("int32", binary(op, register(b, "int32", 1), register(b, "int32", 0)), b)


def test_a_condition_does_not_evaluate_what_it_does_not_need():
    b = Builder()
    x, zero = register(b, "int32", 1), register(b, "int32", 0)
    unsafe = binary("==", binary("/", x, zero), 1)
    assert stored("int32", cast(binary("and", binary("!=", zero, 0), unsafe), "int32"), b) == 0


def test_loops_jumps_and_conditions():
    b = Builder()
    z, n = b.gm("z", "int32", 1, "output"), b.register("n", "int32")
    i, j = b.register("i", "int32", "loop"), b.register("j", "int32", "loop")
    assign(b, n, const(0, "int32"))
    at = [var(r, "int32") for r in (n, i, j)]
    inner = [
        ir.If(binary("==", at[2], at[1]), [ir.Jump("continue", 0)], [], 0),
        ir.If(binary(">", at[2], 5), [ir.Jump("break", 0)], [], 0),
        ir.Assign(n, binary("+", at[0], binary("*", at[1], at[2])), 0),
    ]
    b.body.append(ir.For(i, 1, 9, [ir.For(j, at[1], 9, inner, False, 1, 0)], False, 1, 0))
    b.body.append(ir.Store(ref(z), at[0], b.loc()))
    b.body.append(ir.Jump("return", b.loc()))
    b.body.append(ir.Store(ref(z), const(-1, "int32"), b.loc()))
    assert engine.run(b.program, [])[0][0] == sum(p * q for p in range(1, 9) for q in range(p + 1, 6))


def test_reading_a_scalar_that_was_never_set():
    b = Builder()
    n = b.register("n", "int32")
    with pytest.raises(EngineError, match=r"scalar n is read before it was set \[kernel.py:1\]"):
        stored("int32", binary("+", var(n, "int32"), 1), b)


def test_threads_setting():
    before = engine.get_num_threads()
    engine.set_num_threads(3)
    assert engine.get_num_threads() == 3
    engine.set_num_threads(before)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(EngineError, match="set_num_threads: count is .*; accepted: an integer of 1 or more"):
            engine.set_num_threads(bad)


@pytest.mark.parametrize("name", LEVELS)
def test_isa_setting(name):
    with level(name):
        assert engine.isa() == name
    with pytest.raises(EngineError, match="set_isa: isa is mmx; accepted on this machine: auto, generic"):
        engine.set_isa("mmx")


def test_the_table_keeps_the_first_program_of_a_key():
    library = engine._library()
    before = library.mco_table_size()
    engine.put_in_table("engine-test", copies(count=16).to_bytes())
    engine.put_in_table("engine-test", copies(count=32).to_bytes())
    assert library.mco_table_size() == before + 1
    found = library.mco_table_find(b"engine-test")
    again = library.mco_table_find(b"engine-test")
    assert found == again and library.mco_table_find(b"no such key") is None
    for pointer in (found, again):
        library.mco_free(pointer)
    with pytest.raises(EngineError, match="no MCOP header"):
        engine.put_in_table("engine-test-2", b"nothing")


def test_a_missing_extension_names_the_compiler(monkeypatch):
    monkeypatch.setattr(engine, "_MODULE", "ms_custom_ops._no_engine")
    with pytest.raises(EngineMissingError, match=re.escape("C++17 compiler (g++)")):
        engine.library_path()
