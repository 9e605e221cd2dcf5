# SPDX-License-Identifier: Apache-2.0
"""Scalars of two operands, and the 32 places of a transpose, against the reference: values, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import DTYPES, LEVELS, SIZE, assert_same_bits, level, need_engine
from programs import Builder, ref

from ms_custom_ops import engine
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import ARITHMETIC, BITWISE, COMPARE, LOGICAL, SELECT, binary, const, var

need_engine()

WHOLE = {"int32": (-7, 0, 2**31 - 1), "int64": (-(2**63), 3, 2**40), "uint64": (0, 2**64 - 1, 5)}
VALUES = {**WHOLE, "float32": (-1.5, 0.0, 3e38)}


def outcome(program: ir.Program, scalars: list, **options) -> object:
    """The stored value's bytes, or the message."""
    try:
        return engine.run(program, scalars, **options)[0].tobytes()
    except EngineError as error:
        return str(error)


def pair_program(op: str, dtype: str, left: object, right: object) -> tuple[ir.Program, list]:
    """z = left op right; a value in a tuple is a register that is given, one outside a constant."""
    b, scalars, operands = Builder(), [], []
    for name, given in (("left", left), ("right", right)):
        if isinstance(given, tuple):
            operands.append(var(b.register(name, dtype, "input"), dtype))
            scalars.append(given[0])
        else:
            operands.append(const(given, dtype))
    made = binary(op, *operands)
    r = b.register("r", made.dtype)
    b.body.append(ir.Assign(r, made, b.loc()))
    z = b.gm("z", dtype, 32 // SIZE[dtype], "output")
    b.body.append(ir.Store(ref(z), var(r, made.dtype).astype(dtype), b.loc()))
    return b.program, scalars


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("op", (*ARITHMETIC, *BITWISE, *COMPARE, *LOGICAL, *SELECT))
def test_two_operands(op, dtype):
    if dtype == "float32" and op in BITWISE:
        pytest.skip("no operator of floats")
    for x in VALUES[dtype]:
        for y in VALUES[dtype]:
            for left, right in (((x,), (y,)), ((x,), y), (x, (y,))):
                program, scalars = pair_program(op, dtype, left, right)
                got, want = outcome(program, scalars), outcome(program, scalars, engine="reference")
                assert got == want, (left, right)


@pytest.mark.parametrize("unset", ["left", "right"])
def test_an_operand_that_was_never_set_is_named(unset):
    b = Builder()
    registers = {name: b.register(name, "int32") for name in ("left", "right")}
    for name, number in registers.items():
        if name != unset:
            b.body.append(ir.Assign(number, const(1, "int32"), b.loc()))
    q = b.register("q", "int32")
    b.body.append(ir.Assign(q, binary("%", *(var(n, "int32") for n in registers.values())), b.loc()))
    with pytest.raises(EngineError, match=rf"scalar {unset} is read before it was set \[kernel.py:\d+\]"):
        engine.run(b.program, [])


def transpose(dtype: str, repeat: int, dst_rep: int, src_rep: int, moved: tuple[int, ...] = (), end: int = 0):
    """A transpose from u to v, of which operands ``moved`` start where a register says; u and v end ``end`` bytes
    behind what one repeat needs."""
    per_block, b = 32 // SIZE[dtype], Builder()
    count = 16 * per_block + end // SIZE[dtype]
    x, y = b.gm("x", dtype, count, "input"), b.gm("y", dtype, count, "output")
    u, v = b.local("u", "ub", dtype, count), b.local("v", "ub", dtype, count)
    b.move(u, x)
    b.move(v, x)
    zero = b.register("zero", "int32")
    b.body.append(ir.Assign(zero, const(0, "int32"), b.loc()))
    places = [(t, i * per_block) for t in (v, u) for i in range(16)]
    tensors = [ref(t, binary("+", var(zero, "int32"), at) if n in moved else at) for n, (t, at) in enumerate(places)]
    b.instr("vnchwconv", tensors, {"dst_high": 0, "src_high": 0}, repeat=repeat, dst_rep=dst_rep, src_rep=src_rep)
    b.move(y, v)
    return b.program, count


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_places_of_a_transpose(dtype, name):
    forms = [(1, 0, 0), (1, 0, 0, (0, 31)), (1, 0, 0, tuple(range(32))), (0, 512, 512), (2, 512, 512, (), 512)]
    forms += [(3, 32, 0, (5,), 64), (2, 0, 512, (), 512)]
    with level(name):
        for form in forms:
            program, count = transpose(dtype, *form)
            x = (np.arange(count) % 251).astype(DTYPES[dtype].numpy)
            (got,) = engine.run(program, [x])
            (want,) = engine.run(program, [x], engine="reference")
            assert_same_bits(got, want, dtype, str(form))


@pytest.mark.parametrize("form", [(2, 512, 0), (2, 0, 512), (2, 512, 0, (15,)), (65535, 0, 2**31 - 32)], ids=str)
def test_a_transpose_that_leaves_its_buffer(form):
    program, count = transpose("float16", *form)
    x = np.zeros(count, np.float16)
    with pytest.raises(EngineError, match="vnchwconv: (dst|src)0 needs bytes") as error:
        engine.run(program, [x])
    with pytest.raises(EngineError) as known:
        engine.run(program, [x], engine="reference")
    assert str(error.value) == str(known.value)
