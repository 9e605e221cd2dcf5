# SPDX-License-Identifier: Apache-2.0
"""Every message of the reference engine."""

from __future__ import annotations

import numpy as np
import pytest
from programs import Builder, add_program, ref, reference

from ms_custom_ops.engine.reference import run_reference
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import Expr, binary, const, var


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"repeat": 2}, "vadd: src0 needs bytes [0, 512) of u, it has 256 [kernel.py:3]"),
        ({"dst_blk": 64}, "vadd: dst needs bytes [0, 480) of u, it has 256 [kernel.py:3]"),
        ({"src1_blk": 64}, "vadd: src1 needs bytes [0, 480) of v, it has 256 [kernel.py:3]"),
        ({"repeat": -1}, "vadd: repeat is -1; accepted: 0 or more [kernel.py:3]"),
        ({"dst_rep": -32}, "vadd: dst_rep is -32; accepted: 0 or more [kernel.py:3]"),
        ({"mask0": 129}, "vadd: mask is 129; accepted: 0 to 128 lanes [kernel.py:3]"),
        ({"mask0": -1}, "vadd: mask0 is -1; accepted: 0 or more [kernel.py:3]"),
        ({"mask_kind": 7}, "vadd: mask_kind is 7; accepted: 0 to 2 [kernel.py:3]"),
    ],
)
def test_broken_arguments_name_operand_and_line(changes, message):
    with pytest.raises(EngineError) as error:
        reference(add_program(**changes).program, [])
    assert str(error.value) == message


def test_lanes_that_are_off_are_not_accessed():
    reference(add_program(repeat=1, mask0=64, src1_blk=64).program, [])


def test_mask_bit_beyond_the_lanes():
    b = Builder()
    u = b.local("u", "ub", "float32", 64)
    b.instr(
        "vabs", {"dst": ref(u), "src": ref(u)}, {"mask_kind": 1}, mask0=1, mask1=1, repeat=1, dst_blk=32, src_blk=32
    )
    with pytest.raises(
        EngineError, match=r"vabs: mask is 0x10000000000000001; accepted: bits of 64 lanes \[kernel.py:2"
    ):
        reference(b.program, [])


def statement_error(build) -> str:
    b = Builder()
    build(b)
    with pytest.raises(EngineError) as error:
        reference(b.program, [])
    return str(error.value)


def test_uninitialised_scalar_is_named():
    def build(b):
        r, q = b.register("length", "int32"), b.register("q", "int32")
        b.body.append(ir.Assign(q, binary("+", var(r, "int32"), 1), b.loc()))

    assert statement_error(build) == "scalar length is read before it was set [kernel.py:1]"


def test_division_by_zero():
    def build(b):
        r, q = b.register("r", "int32"), b.register("q", "int32")
        b.body += [
            ir.Assign(r, const(0, "int32"), b.loc()),
            ir.Assign(q, Expr("/", "int32", const(1, "int32"), var(r, "int32")), b.loc()),
        ]

    assert statement_error(build) == "scalar: integer division by zero in operator / [kernel.py:2]"


def test_square_root_of_a_negative_integer():
    def build(b):
        b.body.append(ir.Assign(b.register("r", "int32"), Expr("sqrt", "int32", const(-4, "int32")), b.loc()))

    assert statement_error(build) == "scalar: sqrt of -4; accepted: 0 or more [kernel.py:1]"


def test_load_and_store_beyond_the_tensor():
    def load(b):
        u = b.local("u", "ub", "int16", 16)
        b.body.append(ir.Load(b.register("r", "int64"), ref(u, 14), b.loc()))

    assert statement_error(load) == "load: src needs bytes [28, 36) of u, it has 32 [kernel.py:2]"

    def one_byte(b):
        u = b.local("u", "ub", "int8", 32)
        b.body.append(ir.Load(b.register("r", "int8"), ref(u, 32), b.loc()))

    assert statement_error(one_byte) == "load: src needs bytes [32, 33) of u, it has 32 [kernel.py:2]"

    def store(b):
        u = b.local("u", "ub", "int16", 16)
        b.body.append(ir.Store(ref(u, -1), const(1, "int16"), b.loc()))

    assert statement_error(store) == "store: dst needs bytes [-2, 0) of u, it has 32 [kernel.py:2]"


@pytest.mark.parametrize(
    "op, dtypes, attrs, message",
    [
        ("vexp", ("int32", "int32"), {}, "dtype of dst is int32; accepted: float16, bfloat16, float32"),
        ("vabs", ("float16", "float32"), {}, "dtype of src is float32; accepted: float16 as dst"),
        ("vconv", ("int16", "float32"), {"round_mode": 9}, "round_mode is 9; accepted: 0 to 6"),
        (
            "vconv",
            ("float32", "int32"),
            {"has_deq": 1},
            "conversion with deqscale is int32 to float32; accepted: int32 to float16",
        ),
        ("vtranspose", ("int32", "int32"), {}, "element size is 4; accepted: 2 bytes"),
    ],
)
def test_preconditions(op, dtypes, attrs, message):
    def build(b):
        u = b.local("u", "ub", "uint8", 1024)
        b.instr(op, {"dst": ref(u, 0, dtypes[0]), "src": ref(u, 0, dtypes[1])}, attrs)

    assert statement_error(build) == f"{op}: {message} [kernel.py:2]"


@pytest.mark.parametrize(
    "op, attrs, message",
    [
        ("set_atomic_add", {"mode": 9}, "set_atomic_add: mode is 9; accepted: 0 to 6"),
        ("pipe_barrier", {"pipe": 11}, "pipe_barrier: pipe is 11; accepted: 0 to 7"),
        ("set_flag", {"pipe": 1, "trigger": 12}, "set_flag: trigger is 12; accepted: 0 to 7"),
    ],
)
def test_unknown_modes(op, attrs, message):
    assert statement_error(lambda b: b.instr(op, [], attrs)).startswith(message)


def test_atomic_dtype_must_match():
    def build(b):
        y, u = b.gm("y", "int32", 8, "output"), b.local("u", "ub", "int32", 8)
        b.instr("set_atomic_add", [], {"mode": 1})
        b.move(y, u)

    assert statement_error(build) == (
        "data_move: dtype of dst is int32; accepted: float32 of set_atomic_add [kernel.py:3]"
    )


def test_block_that_misses_the_barrier():
    def build(b):
        w = b.gm("w", "int64", 8, "workspace", atomic_init=True)
        i = b.register("block", "int32", "loop")
        outer, b.body = b.body, []
        b.instr("block_barrier", [ref(w)])
        outer.append(ir.For(i, 0, 3, [ir.If(binary("!=", var(i, "int32"), 1), b.body, [], 0)], True, 1, b.loc()))

    assert statement_error(build) == (
        "block_barrier: blocks [1] of probe ended while block 0 waits; accepted: every block arrives [kernel.py:1]"
    )


def test_tensor_outside_its_scope():
    def build(b):
        b.program.scope_bytes["ub"] = 64
        b.local("u", "ub", "int16", 64)

    assert statement_error(build) == "probe: u lies in bytes [0, 128) of ub, it has 64 [?]"


@pytest.mark.parametrize(
    "inputs, outputs, message",
    [
        ([], [np.zeros(8, np.int32)], "probe: inputs are 0 arrays; accepted: 1"),
        ([np.zeros(8, np.int32)], [], "probe: outputs are 0 arrays; accepted: 1"),
        ([np.zeros(8, np.int16)], [np.zeros(8, np.int32)], "probe: input x has dtype int16; accepted: int32"),
        ([np.zeros(7, np.int32)], [np.zeros(8, np.int32)], "probe: input x has 28 bytes; accepted: 32"),
        (
            [np.zeros(8, np.int32)],
            [np.zeros(16, np.int32)[::2]],
            "probe: output y is not a writeable C-contiguous array; accepted: one that is",
        ),
    ],
)
def test_wrong_feed(inputs, outputs, message):
    b = Builder()
    b.gm("x", "int32", 8, "input"), b.gm("y", "int32", 8, "output")
    with pytest.raises(EngineError) as error:
        run_reference(b.program, inputs, [], outputs)
    assert str(error.value) == message


def test_wrong_number_of_scalars_and_unsized_workspace():
    b = Builder()
    with pytest.raises(EngineError, match="probe: input scalars are 1 values; accepted: 0"):
        run_reference(b.program, [], [1], [])
    b.gm("w", "int32", 8, "workspace").size_bytes = -1
    with pytest.raises(
        EngineError, match="probe: workspace w has an unknown size; accepted: a GM tensor of known size"
    ):
        run_reference(b.program, [], [], [])


def test_vector_operand_in_global_memory():
    def build(b):
        b.instr("vabs", {"dst": ref(b.gm("y", "int16", 128, "output")), "src": ref(b.local("u", "ub", "int16", 128))})

    assert statement_error(build) == (
        "vabs: scope of dst is gm; accepted: ub, l1, l0a, l0b, l0c, bt, smask [kernel.py:2]"
    )


def test_move_from_gm_to_gm():
    def build(b):
        x, y = b.gm("x", "int16", 16, "workspace"), b.gm("y", "int16", 16, "output")
        b.move(y, x)

    assert statement_error(build) == (
        "data_move: scope of src is gm; accepted: ub, l1, l0a, l0b, l0c, bt, smask [kernel.py:1]"
    )


def test_barrier_workspace_must_be_global():
    assert statement_error(lambda b: b.instr("block_barrier", [ref(b.local("u", "ub", "int64", 4))])) == (
        "block_barrier: scope of workspace is ub; accepted: gm [kernel.py:2]"
    )


def test_fraction_as_a_count_or_a_shift():
    with pytest.raises(EngineError, match=r"vadd: dtype of repeat is a float; accepted: an integer \[kernel.py:3\]"):
        reference(add_program(repeat=1.5).program, [])

    def build(b):
        u = b.local("u", "ub", "int16", 128)
        b.instr("vshl", {"dst": ref(u), "src": ref(u)}, scalar=1.0)

    assert statement_error(build) == "vshl: dtype of scalar is a float; accepted: an integer [kernel.py:2]"


def test_negative_shift():
    def build(b):
        u = b.local("u", "ub", "int16", 128)
        b.instr("vshr", {"dst": ref(u), "src": ref(u)}, scalar=-1)

    assert statement_error(build) == "vshr: scalar is -1; accepted: 0 or more [kernel.py:2]"


def test_global_tensor_that_nobody_feeds():
    def build(b):
        u, y = b.local("u", "ub", "int16", 16), b.gm("y", "int16", 16, "output")
        b.program.outputs.clear()
        b.move(y, u)

    assert statement_error(build) == "data_move: dst needs bytes [0, 32) of y, it has 0 [kernel.py:2]"
