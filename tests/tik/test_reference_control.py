# SPDX-License-Identifier: Apache-2.0
"""Statements, scalars and blocks of the reference engine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import Builder, ref, reference

from ms_custom_ops.engine.reference import run_reference
from ms_custom_ops.engine.reference.scalars import BINARY, Registers
from ms_custom_ops.program import ir, limits
from ms_custom_ops.program.dtypes import INT_RANGE
from ms_custom_ops.program.expr import BITWISE, Expr, binary, cast, const, unary, var


def evaluate(e: Expr, dtype: str | None = None, saturate: bool = True) -> float:
    """Value of an expression, through a register and a store into GM."""
    dtype = dtype or e.dtype
    b = Builder(saturate)
    y = b.gm("y", dtype, 1, "output")
    r = b.register("r", dtype)
    b.body += [ir.Assign(r, e, b.loc()), ir.Store(ref(y), var(r, dtype), b.loc())]
    return reference(b.program, [])[0].tolist()[0]


def opaque(value, dtype: str) -> Expr:
    """A constant that is not folded."""
    return Expr("bitcast", dtype, const(value, dtype))


@pytest.mark.parametrize(
    "op, x, y, want",
    [
        ("/", -7, 2, -3),
        ("%", -7, 2, -1),
        ("/", 7, -2, -3),
        ("%", 7, -2, 1),
        ("+", 2**31 - 1, 1, -(2**31)),
        ("*", 2**20, 2**12, 0),
        ("<<", 1, 33, 2),
        (">>", -8, 1, -4),
        ("&", -1, 12, 12),
        ("^", 5, 1, 4),
        ("min", -3, 2, -3),
        ("max", -3, 2, 2),
        ("/", -(2**31), -1, -(2**31)),
    ],
)
def test_int32_arithmetic(op, x, y, want):
    assert evaluate(Expr(op, "int32", opaque(x, "int32"), opaque(y, "int32"))) == want


@pytest.mark.parametrize(
    "op, dtype, x, want",
    [
        ("neg", "int32", -(2**31), -(2**31)),
        ("abs", "int32", -5, 5),
        ("invert", "uint8", 1, 254),
        ("sqrt", "int64", 17, 4),
        ("sqrt", "float32", 2.0, float(np.sqrt(np.float32(2)))),
        ("bitcount1", "uint64", 255, 8),
        ("bitcount0", "uint64", 255, 56),
        ("clz", "uint64", 1, 63),
        ("clz", "uint32", 0, 32),
    ],
)
def test_unary_operators(op, dtype, x, want):
    assert evaluate(Expr(op, dtype, opaque(x, dtype))) == want


@pytest.mark.parametrize(
    "x, source, target, want",
    [
        (2.9, "float32", "int32", 2),
        (-2.9, "float32", "int32", -2),
        (1e20, "float32", "int32", 2**31 - 1),
        (float("nan"), "float32", "int32", 0),
        (300, "int32", "uint8", 44),
        (2**62 + 2**38 + 1, "int64", "float32", float(np.float32(2**62 + 2**39))),
        (1e6, "float32", "float16", float("inf")),
        (2049.0, "float32", "float16", 2048.0),
        (7, "int32", "bool", True),
    ],
)
def test_casts(x, source, target, want):
    assert evaluate(Expr("cast", target, opaque(x, source))) == want


def test_logic_is_lazy():
    crash = binary("==", Expr("/", "int32", opaque(1, "int32"), opaque(0, "int32")), 1)
    false, true = (Expr("!=", "bool", opaque(v, "int32"), const(0, "int32")) for v in (0, 1))
    assert evaluate(Expr("and", "bool", false, crash)) is False
    assert evaluate(Expr("or", "bool", true, crash)) is True
    assert evaluate(unary("not", false)) is True


def test_assignment_converts_to_the_register():
    b = Builder()
    y = b.gm("y", "int32", 2, "output")
    narrow, whole = b.register("narrow", "int8"), b.register("whole", "int32")
    b.body += [
        ir.Assign(narrow, const(300, "int32"), b.loc()),
        ir.Assign(whole, const(-2.75), b.loc()),
        ir.Store(ref(y), var(narrow, "int8"), b.loc()),
        ir.Store(ref(y, 1), var(whole, "int32"), b.loc()),
    ]
    assert reference(b.program, [])[0].tolist() == [44, -2]


def test_load_of_a_bool_is_0_or_1():
    b = Builder()
    x, y = b.gm("x", "uint8", 2, "input"), b.gm("y", "int32", 1, "output")
    r = b.register("r", "bool")
    b.body += [ir.Load(r, ref(x, 1), b.loc()), ir.Store(ref(y), cast(var(r, "bool"), "int32"), b.loc())]
    assert reference(b.program, [np.uint8([0, 4])])[0].tolist() == [1]


def test_atomic_output_is_zeroed_and_others_keep_their_content():
    b = Builder()
    b.gm("y", "int32", 2, "output", atomic_init=True)
    b.gm("z", "int32", 2, "output")
    y, z = np.full(2, 7, np.int32), np.full(2, 7, np.int32)
    run_reference(b.program, [], [], [y, z])
    assert (y.tolist(), z.tolist()) == ([0, 0], [7, 7])


def test_load_reads_bits_of_the_width_of_the_register():
    b = Builder()
    x, y = b.gm("x", "float16", 4, "input"), b.gm("y", "uint32", 1, "output")
    r = b.register("r", "uint32")
    b.body += [ir.Load(r, ref(x, 1), b.loc()), ir.Store(ref(y), var(r, "uint32"), b.loc())]
    image = np.float16([1, 2, 3, 4])
    assert reference(b.program, [image])[0].tobytes() == image[1:3].tobytes()


def counting_loop(build) -> list[int]:
    """Values that a loop over i in [0, 10) adds to y[i]; ``build(body, i, y, b)`` makes its body."""
    b = Builder()
    y = b.gm("y", "int32", 10, "output", atomic_init=True)
    i = b.register("i", "int32", "loop")
    body: list = []
    build(body, var(i, "int32"), y, b)
    b.body.append(ir.For(i, 0, 10, body, False, 1, b.loc()))
    return reference(b.program, [])[0].tolist()


def test_break_and_continue():
    def build(body, i, y, b):
        body += [
            ir.If(binary("==", i, 2), [ir.Jump("continue", 0)], [], 0),
            ir.If(binary(">", i, 4), [ir.Jump("break", 0)], [], 0),
            ir.Store(ref(y, i), const(1, "int32"), 0),
        ]

    assert counting_loop(build) == [1, 1, 0, 1, 1, 0, 0, 0, 0, 0]


def test_else_and_return():
    def build(body, i, y, b):
        body.append(
            ir.If(
                binary("<", i, 3),
                [ir.Store(ref(y, i), const(1, "int32"), 0)],
                [ir.Store(ref(y, i), const(2, "int32"), 0), ir.Jump("return", 0)],
                0,
            )
        )

    assert counting_loop(build) == [1, 1, 1, 2, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("value", [0, limits.BRANCHES - 2, limits.BRANCHES - 1, 5000])
def test_long_elif_chain(value):
    b = Builder()
    y, r = b.gm("y", "int32", 1, "output"), b.register("r", "int32")
    chain = [ir.Store(ref(y), const(-1, "int32"), 0)]
    for n in reversed(range(limits.BRANCHES)):
        chain = [ir.If(binary("==", var(r, "int32"), n), [ir.Store(ref(y), const(n, "int32"), 0)], chain, 0)]
    b.body += [ir.Assign(r, const(value, "int32"), 0), *chain]
    assert reference(b.program, [])[0].tolist() == [value if value < limits.BRANCHES else -1]


def block_program(blocks, body_of, **scope) -> Builder:
    """A multi-core loop whose body ``body_of(b, i)`` fills ``b.body``."""
    b = Builder(**scope)
    i = b.register("block", "int32", "loop")
    outer, b.body = b.body, []
    body_of(b, var(i, "int32"))
    outer.append(ir.For(i, 0, blocks, b.body, True, 1, b.loc()))
    return b


def test_block_barrier_lets_blocks_see_each_other():
    b = Builder()
    y, w = b.gm("y", "int32", 4, "output"), b.gm("w", "int32", 4, "workspace", atomic_init=True)
    i, r = b.register("block", "int32", "loop"), b.register("r", "int32")
    index = var(i, "int32")
    outer, b.body = b.body, []
    b.body.append(ir.Store(ref(w, index), binary("+", index, 10), b.loc()))
    b.instr("block_barrier", [ref(w)])
    b.body += [
        ir.Load(r, ref(w, binary("%", binary("+", index, 1), 4)), b.loc()),
        ir.Store(ref(y, index), var(r, "int32"), b.loc()),
    ]
    outer.append(ir.For(i, 0, 4, b.body, True, 1, b.loc()))
    assert reference(b.program, [])[0].tolist() == [11, 12, 13, 10]


def test_dynamic_block_num_from_an_input_scalar():
    b = Builder()
    y = b.gm("y", "int32", 5, "output")
    n, i = b.register("n", "int64", "input"), b.register("block", "int32", "loop")
    b.body.append(ir.For(i, 0, var(n, "int64"), [ir.Store(ref(y, var(i, "int32")), const(3, "int32"), 0)], True, 1, 0))
    assert reference(b.program, [], [3])[0].tolist() == [3, 3, 3, 0, 0]


def test_local_memory_starts_poisoned_in_every_block():
    b = block_program(2, lambda b, i: None)
    y, u = b.gm("y", "float16", 32, "output"), ir.Buffer(1, "u", "ub", "float16", (16,), 32)
    b.program.buffers.append(u)
    loop = b.program.body[0]
    loop.body += [ir.Alloc(u, 0)]
    b.body = loop.body
    block = var(0, "int32")
    b.instr("data_move", {"dst": ref(y, binary("*", block, 16)), "src": ref(u)}, nburst=1, burst=32)
    b.instr("vector_dup", {"dst": ref(u)}, mask0=16, repeat=1, scalar=1.0, dst_blk=32)
    assert np.isnan(reference(b.program, [])[0]).all()


def test_alloc_in_a_loop_starts_anew():
    b = Builder()
    y = b.gm("y", "float16", 16, "output")
    i = b.register("i", "int32", "loop")
    outer, b.body = b.body, []
    u = b.local("u", "ub", "float16", 16)
    b.move(y, u)
    b.instr("vector_dup", {"dst": ref(u)}, mask0=16, repeat=1, scalar=1.0, dst_blk=32)
    outer.append(ir.For(i, 0, 2, b.body, False, 1, b.loc()))
    assert np.isnan(reference(b.program, [])[0]).all()


def test_output_that_is_an_input_starts_as_its_copy():
    b = Builder()
    x = b.gm("x", "int32", 8, "input")
    b.program.outputs.append(x.index)
    b.body.append(ir.Store(ref(x, 1), const(5, "int32"), 0))
    image = np.arange(8, dtype=np.int32)
    assert reference(b.program, [image])[0].tolist() == [0, 5, 2, 3, 4, 5, 6, 7]
    assert image.tolist() == list(range(8))


def test_workspace_starts_with_its_value():
    b = Builder()
    y, w = b.gm("y", "float16", 16, "output"), b.gm("w", "float16", 16, "workspace", init_value=1.5)
    u = b.local("u", "ub", "float16", 16)
    b.move(u, w)
    b.move(y, u)
    assert reference(b.program, [])[0].tolist() == [1.5] * 16


def test_cast_of_a_scalar_to_bfloat16_is_one_rounding():
    assert cast(const(1.0), "bfloat16").value == 1.0
    assert evaluate(Expr("cast", "float32", Expr("cast", "bfloat16", opaque(2**24 + 2**16 + 1, "int32")))) == (
        2**24 + 2**17
    )


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_folding_while_tracing_equals_the_run(data):
    dtype = data.draw(st.sampled_from(["int8", "uint16", "int32", "uint32", "int64", "uint64", "float32"]))
    op = data.draw(st.sampled_from([o for o in BINARY if dtype != "float32" or o not in BITWISE]))
    if dtype == "float32":
        numbers = st.floats(-1e6, 1e6, width=32)
    else:
        numbers = st.integers(*INT_RANGE[dtype])
    x, y = data.draw(numbers), data.draw(numbers)
    if op in ("/", "%") and y == 0:
        y = 1
    folded = binary(op, const(x, dtype), const(y, dtype))
    registers = Registers([], [])
    run = registers.evaluate(Expr(op, folded.dtype, opaque(x, dtype), opaque(y, dtype)), "here")
    assert run == folded.value
