# SPDX-License-Identifier: Apache-2.0
"""Text and bytes of a Program are two spellings of one thing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import Builder
from random_programs import random_program

from ms_custom_ops import tik
from ms_custom_ops.compiler import compile_op
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import Expr, binary, bitcast, cast, const, unary, var
from ms_custom_ops.program.text import parse
from ms_custom_ops.registry import get_op, list_ops
from ms_custom_ops.registry.call_values import soc_key
from ms_custom_ops.tik.trace import trace

SCALARS = ("int32", "int64", "uint64", "float32", "float16", "uint8")


def same(program: ir.Program) -> None:
    text, raw = program.text(), program.to_bytes()
    again = parse(text)
    assert again.text() == text
    assert again.to_bytes() == raw
    assert ir.Program.from_bytes(raw).text() == text
    assert ir.Program.from_bytes(raw).to_bytes() == raw


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B1"])
@pytest.mark.parametrize("op", list_ops())
def test_programs_of_the_ops_come_back_with_equal_bytes(op: str, soc: str) -> None:
    spec = get_op(op)
    cases = [case for case in spec.cases if case.dtype in spec.target.soc[soc_key(spec, soc)]]
    assert cases
    for case in cases[:3]:
        same(compile_op(op, *spec.case_call(case), soc).program)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_programs_come_back_with_equal_bytes(first: int) -> None:
    for seed in range(first, first + 50):
        same(random_program(seed, 4 + seed % 23))


@st.composite
def expressions(draw: st.DrawFn, depth: int = 0) -> Expr:
    kind = draw(st.integers(0, 5 if depth < 4 else 1))
    dtype = draw(st.sampled_from(SCALARS))
    if kind == 0:
        return var(SCALARS.index(dtype), dtype)
    if kind == 1:
        if dtype.startswith("float"):
            return const(draw(st.floats(width=16)), dtype)
        return const(draw(st.integers(-(2**63), 2**64 - 1)), dtype)
    a = draw(expressions(depth + 1))
    if kind == 2:
        return unary(draw(st.sampled_from(("neg", "not", "abs"))), a)
    if kind == 3:
        return bitcast(a, "int32") if a.dtype == "float32" else cast(a, dtype)
    ops = ("+", "-", "*", "<", "==", "and", "or", "min", "max")
    op = draw(st.sampled_from(ops))
    b = draw(expressions(depth + 1))
    if op in ("and", "or"):
        a, b = cast(a, "bool"), cast(b, "bool")
    return binary(op, a, b)


@settings(max_examples=200, deadline=None)
@given(st.lists(expressions(), min_size=1, max_size=4))
def test_random_expressions_come_back_with_equal_bytes(values: list[Expr]) -> None:
    b = Builder()
    for dtype in SCALARS:
        b.register("x" if dtype.startswith("int") else dtype, dtype)
    for value in values:
        b.body.append(ir.Assign(SCALARS.index(value.dtype) if value.dtype in SCALARS else 0, value, b.loc()))
    same(b.program)


def test_a_float_that_digits_do_not_give_back() -> None:
    import struct

    b = Builder()
    payload = struct.unpack("<d", struct.pack("<Q", 0x7FF8000012345678))[0]
    b.body.append(ir.Assign(b.register("f", "float32"), Expr("const", "float32", value=payload), b.loc()))
    assert "%f = bits<0x7ff8000012345678>:float32 @kernel.py:1" in b.program.text()
    same(b.program)


def threads() -> None:
    t = tik.Tik()
    x = t.Tensor("float32", (64,), tik.scope_gm, "x")
    y = t.Tensor("float32", (64,), tik.scope_gm, "y")
    with t.for_range(0, 4, thread_num=2) as j:
        outer = t.Tensor("float32", (64,), tik.scope_ubuf, "outer")
        with t.for_range(0, 3, thread_num=2):
            inner = t.Tensor("float32", (8,), tik.scope_ubuf, "inner")
            t.data_move(inner, x[j * 8], 0, 1, 1, 0, 0)
            t.data_move(y, inner, 0, 1, 1, 0, 0)
        with t.new_stmt_scope(disable_sync=True):
            event = t.Scalar("int32")
            event.set_as(j)
            t.data_move(outer, x, 0, 1, 8, 0, 0)
            t.set_flag("PIPE_MTE2", "PIPE_MTE3", event)
            t.wait_flag("PIPE_MTE2", "PIPE_MTE3", event)
            t.pipe_barrier("PIPE_ALL")
            t.data_move(y, outer, 0, 1, 8, 0, 0)
    t.BuildCCE("threads", [x], [y])


def test_what_a_kernel_said_is_in_the_text() -> None:
    program = trace(threads, soc="Ascend910B1")
    text = program.text()
    same(program)
    here = r" @test_program_text\.py:\d+\n"
    for line in (
        r"scalar %event : int32 scalar\n",
        rf"tensor %outer : float32\[64\] ub local bytes=256 copies\(outer\.0 at 0, outer\.1 at 256\){here}",
        r"bytes=32 copies\(inner\.0 at 512, inner\.1 at 544\)",
        rf"  for %j in 0 \.\. 4 threads=2{here}    alloc %outer{here}",
        rf"    for %\d+ in 0 \.\. 3 threads=2{here}      alloc %inner{here}",
        rf"      free %inner{here}    nosync{here}",
        rf"      set_flag \(event=%event\) {{pipe=4, trigger=5}}{here}",
        rf"      pipe_barrier {{pipe=7}}{here}",
        rf"      vector data_move %y\[0\], %outer\[0\] \(.*\){here}    free %outer{here}$",
    ):
        assert re.search(line, text), line


def test_a_scope_ends_the_life_of_its_tensors() -> None:
    def kernel() -> None:
        t = tik.Tik()
        x = t.Tensor("float32", (64,), tik.scope_gm, "x")
        with t.new_stmt_scope():
            first = t.Tensor("float32", (64,), tik.scope_ubuf, "first")
            second = t.Tensor("float32", (64,), tik.scope_ubuf, "second")
            t.data_move(first, x, 0, 1, 8, 0, 0)
            t.data_move(second, first, 0, 1, 8, 0, 0)
        third = t.Tensor("float32", (64,), tik.scope_ubuf, "third")
        t.data_move(x, third, 0, 1, 8, 0, 0)
        t.BuildCCE("lives", [x], [x])

    lines = [line.split(" @")[0].strip() for line in trace(kernel, soc="Ascend910A").text().splitlines()]
    lives = [line for line in lines if line.startswith(("alloc", "free"))]
    assert lives == ["alloc %first", "alloc %second", "free %second", "free %first", "alloc %third"]


HEAD = 'program "k" soc="s" saturate=1 split_cores=0\n'
BODY = HEAD + "scope ub 64\nscalar %n : int32 scalar\ntensor %u : float16[8] ub local bytes=16 at 0\nbody\n"


@pytest.mark.parametrize(
    "text, message",
    [
        (HEAD, "no line 'body'"),
        (HEAD + "tensors\nbody\n", "line 2: not a line before the body: 'tensors'"),
        (HEAD + "scope l3 4\nbody\n", "line 2: scope is l3; accepted: gm, ub"),
        (HEAD + "scalar %n : int7 scalar\nbody\n", "line 2: dtype is int7; accepted: float16"),
        (BODY.replace("body", "scalar %n : int8 scalar\nbody"), "line 5: %n is declared twice"),
        (BODY + "  alloc %v\n", "line 6: unknown name 'v'"),
        (BODY + "  alloc %u @a.py:3\n", "line 6: unknown name 'a.py'"),
        (BODY + "  else\n", "line 6: else after no if"),
        (BODY + "  alloc %u\n      free %u\n", "line 7: indentation that follows no statement with a body"),
        (BODY + "  %n = (%n + \n", "line 6: the end of '(%n +'"),
        (BODY + "  %n = (%n 4)\n", "line 6: operator '4'"),
        (BODY + "  %n = cast<int7>(%n)\n", "line 6: dtype int7"),
        (BODY + "  vabs %u[0], %u[0] (mask=1)\n", "line 6: names are mask; accepted: mask0, mask1, repeat"),
        (BODY + "  cube vabs %u[0], %u[0]\n", "line 6: core is cube; accepted: none"),
        (BODY + "  nonsense !\n", "line 6: not a statement"),
    ],
)
def test_a_text_that_is_none_names_its_line(text: str, message: str) -> None:
    with pytest.raises(EngineError, match=re.escape(f"program text: {message}")):
        parse(text)


def test_branches_keep_their_form() -> None:
    text = BODY + (
        "  alloc %u\n  if (%n < 1)\n    return\n  elif (%n == 2)\n    for %n in 0 .. %n\n      break\n"
        "  else\n    %n = load %u:int16[(%n * 2)]\n    store %u[%n] = 2.5:float16\n  free %u\n"
    )
    assert parse(text).text() == text
