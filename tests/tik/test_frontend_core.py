# SPDX-License-Identifier: Apache-2.0
"""Structure of traced programs: control flow, scopes, memory, views, kernel arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ms_custom_ops import tik
from ms_custom_ops.program import ir
from ms_custom_ops.soc import use_soc
from ms_custom_ops.tik.trace import trace


@pytest.fixture
def t() -> Iterator[tik.Tik]:
    with use_soc("Ascend910A"):
        yield tik.Tik()


def finish(t: tik.Tik, inputs: Any = (), outputs: Any = ()) -> ir.Program:
    t.BuildCCE("probe", list(inputs), list(outputs))
    return t.programs[0]


def ops(body: list) -> list[str]:
    return [s.op if isinstance(s, ir.Instr) else type(s).__name__.lower() for s in body]


def ub(t: tik.Tik, *shape: int, dtype: str = "float16", name: str = "u") -> tik.Tensor:
    return t.Tensor(dtype, shape, tik.scope_ubuf, name)


@pytest.mark.parametrize("taken", [True, False, np.True_, 1, 0], ids=["true", "false", "numpy", "one", "zero"])
def test_static_condition_leaves_one_branch(t: tik.Tik, taken: Any) -> None:
    u = ub(t, 128)
    with t.if_scope(taken):
        t.vec_exp(128, u, u, 1, 8, 8)
    with t.else_scope():
        t.vec_ln(128, u, u, 1, 8, 8)
    assert ops(finish(t).body) == ["alloc", "vexp" if taken else "vln"]


def test_dead_branch_is_not_checked(t: tik.Tik) -> None:
    u = ub(t, 128)
    tail = 0
    with t.if_scope(tail > 0):
        big = ub(t, 10**9)
        t.data_move(u[tail - 1 :], big, 0, 1, tail, 0, 0)
        t.vec_exp(tail, u, u, 1, 8, 8)
    assert ops(finish(t).body) == ["alloc"]


def test_static_true_elif_ends_a_dynamic_chain(t: tik.Tik) -> None:
    u = ub(t, 128)
    s = t.Scalar("int32", "s", 1)
    with t.if_scope(s > 0):
        t.vec_exp(128, u, u, 1, 8, 8)
    with t.elif_scope(True):
        t.vec_ln(128, u, u, 1, 8, 8)
    with t.else_scope():
        t.vec_abs(128, u, u, 1, 8, 8)
    branch = finish(t).body[-1]
    assert (ops(branch.then), ops(branch.orelse)) == (["vexp"], ["vln"])


def test_condition_of_elif_may_load_an_element(t: tik.Tik) -> None:
    u = ub(t, 64, dtype="float32")
    with t.if_scope(u[0] > 1.0):
        t.tik_return()
    with t.elif_scope(u[1] > 2.0):
        t.tik_return()
    branch = finish(t).body[-1]
    assert ops(branch.orelse) == ["load", "if"]


def test_zero_trip_loop_is_dropped(t: tik.Tik) -> None:
    u = ub(t, 128)
    with t.for_range(3, 3):
        t.vec_exp(128, u, u, 1, 8, 8)
    assert ops(finish(t).body) == ["alloc"]


def test_dynamic_loop_bounds(t: tik.Tik) -> None:
    n = t.Scalar("int32", "n", 4)
    with t.for_range(n - 2, n) as i:
        assert i.dtype == "int32"
    loop = finish(t).body[-1]
    assert isinstance(loop, ir.For) and str(loop.begin) == "(%0 - 2)" and str(loop.end) == "%0"


@pytest.mark.parametrize("blocks", [2, 32, 65535])
def test_block_num(t: tik.Tik, blocks: int) -> None:
    with t.for_range(0, blocks, block_num=blocks):
        t.tik_return()
    assert finish(t).block_num == blocks


def test_dynamic_block_num(t: tik.Tik) -> None:
    n = t.InputScalar("int32", "n")
    with t.for_range(0, n, block_num=n):
        t.tik_return()
    t.BuildCCE("probe", [], [], flowtable=[n])
    assert t.programs[0].block_num is None


def test_scope_end_frees_addresses(t: tik.Tik) -> None:
    first = ub(t, 10)
    with t.new_stmt_scope():
        inner = ub(t, 100)
    second = ub(t, 16)
    assert [x.storage.buffer.address for x in (first, inner, second)] == [0, 32, 32]


def test_addresses_follow_the_alignment_of_the_buffer(t: tik.Tik) -> None:
    for scope, step in ((tik.scope_ubuf, 32), (tik.scope_cbuf, 32), (tik.scope_ca, 512), (tik.scope_cc, 1024)):
        t.Tensor("float16", (1,), scope, "a")
        assert t.Tensor("float16", (1,), scope, "b").storage.buffer.address == step


def test_threads_multiply_the_memory_in_use(t: tik.Tik) -> None:
    before = t.get_available_buffer_size(tik.scope_ubuf)
    with t.for_range(0, 4, thread_num=2):
        ub(t, 128)
        assert t.get_available_buffer_size(tik.scope_ubuf) == before - 2 * 256
    assert t.get_left_buffer_size(tik.scope_ubuf) == before


def test_whole_buffer_can_be_used(t: tik.Tik) -> None:
    ub(t, 262144, dtype="uint8")
    assert t.get_available_buffer_size(tik.scope_ubuf) == 0


@pytest.mark.parametrize(
    ("index", "shape", "offset"),
    [
        ((17,), (1,), 17),
        ((1, 2, 3), (1, 1, 1), 33),
        ((-1, 0, 0), (1, 1, 1), 40),
        ((slice(1, 2), slice(None), slice(2, 5)), (1, 4, 3), 22),
        ((slice(5, None),), (55,), 5),
        ((slice(0, 2), slice(0, 4, 2), slice(None)), (2, 2, 5), 0),
    ],
    ids=["flattened", "element", "last", "slice", "flat-slice", "step"],
)
def test_views(t: tik.Tik, index: tuple, shape: tuple, offset: int) -> None:
    view = ub(t, 3, 4, 5)[index if len(index) > 1 else index[0]]
    assert (view.shape, view.offset) == (shape, offset)


def test_widening_and_narrowing_casts(t: tik.Tik) -> None:
    u = ub(t, 4, 64)
    wide = u[1, 0].reinterpret_cast_to("int16")
    assert (wide.dtype, wide.offset) == ("int16", 64)
    single = u.reinterpret_cast_to("float32")
    assert (single.shape, single[3].offset) == ((4, 32), 3)
    narrow = u.reinterpret_cast_to("uint8")
    assert (narrow.shape, narrow[7].offset, narrow.size) == ((4, 64, 2), 7, 512)


def test_reshape_of_a_contiguous_slice(t: tik.Tik) -> None:
    view = ub(t, 4, 64)[1:3, :].reshape((8, 16))
    assert (view[1, 2].offset, view.flatten().shape) == (64 + 18, (128,))


def test_scalar_loads_bits_and_converts_numbers(t: tik.Tik) -> None:
    u = ub(t, 16)
    s = t.Scalar("uint16", "s")
    s.set_as(u[3])
    s.set_as(t.Scalar("float32", "f", 2.75))
    load, _, assign = finish(t).body[1:]
    assert isinstance(load, ir.Load) and load.ref.offset == 3
    assert str(assign.value) == "cast<uint16>(%1)"


def test_element_assignment_converts_to_the_dtype_of_the_tensor(t: tik.Tik) -> None:
    u = t.Tensor("int32", (4, 8), tik.scope_ubuf, "u")
    u[1, 2] = 5
    u[3].set_as(u[0])
    body = finish(t).body
    assert str(body[1].value) == "5" and body[1].ref.offset == 10
    assert ops(body[2:]) == ["load", "store"] and body[2].ref.dtype == "int32" and body[3].ref.dtype == "uint32"


def test_comparison_with_the_scalar_on_the_left(t: tik.Tik) -> None:
    u = t.Tensor("int32", (8,), tik.scope_ubuf, "u")
    s = t.Scalar("int32", "s", 1)
    with t.if_scope(s < u[2]):
        t.tik_return()
    assert ops(finish(t).body) == ["alloc", "assign", "load", "if"]


def test_scalar_array_with_a_dynamic_index(t: tik.Tik) -> None:
    array = t.ScalarArray("int32", 3, "a", [1, 2, 3])
    s = t.Scalar("int32", "s")
    with t.for_range(0, 3) as i:
        s.set_as(array[i] + 1)
        array[i].set_as(s)
    assert ops(finish(t).body[-1].body) == ["if", "if", "if", "assign", "assign", "if", "if", "if"]


def test_kernel_arguments(t: tik.Tik) -> None:
    x, y = (t.Tensor("float16", (16,), tik.scope_gm, n) for n in "xy")
    space = t.Tensor("int64", (8,), tik.scope_gm, "space", is_workspace=True, is_atomic_add=True)
    n = t.InputScalar("int32", "n")
    program = finish(t, [y, x, n], [y])
    names = [b.name for b in program.buffers]
    assert [names[i] for i in program.inputs] == ["y", "x"]
    assert [names[i] for i in program.outputs] == ["y"]
    assert [names[i] for i in program.workspaces] == ["space"] and space.storage.buffer.atomic_init
    assert program.input_scalars == [0] and program.meta["kernel"] == "probe"


def test_build_accepts_a_bare_tensor_and_compiler_options(t: tik.Tik) -> None:
    x = t.Tensor("float16", (16,), tik.scope_gm, "x")
    assert t.BuildCCE("probe", x, x, output_files_path="out", enable_l2=True, config={"dump_cce_code": 1}) is t


def test_dynamic_shapes(t: tik.Tik) -> None:
    n = t.InputScalar("int32", "n")
    x = t.Tensor("float16", (n, 16), tik.scope_gm, "x")
    u = t.Tensor("float16", (n, 16), tik.scope_ubuf, "u", max_mem_size=1024)
    t.data_move(u, x[n - 1, 0], 0, 1, 1, 0, 0)
    program = finish(t, [x, n])
    assert [(b.shape, b.size_bytes) for b in program.buffers] == [((-1, 16), -1), ((-1, 16), 1024)]


@pytest.mark.parametrize(
    ("stride_unit", "strides"),
    [
        (0, (64, 256, 32, 512)),
        (1, (64, 7 * 64 + 32 + 256, 32, 256 + 512)),
        (2, (32 + 4, 16, 32 + 2, 32)),
        (3, (36, 7 * 36 + 32 + 16, 34, 7 * 34 + 32 + 32)),
    ],
)
def test_stride_units(t: tik.Tik, stride_unit: int, strides: tuple) -> None:
    u, v = ub(t, 4096), ub(t, 4096)
    t.vexp(64, u, v, 2, 2, 1, 8, 16, stride_unit)
    assert finish(t).body[-1].args == (64, 0, 2, *strides)


def test_mask_words_are_high_then_low(t: tik.Tik) -> None:
    u = ub(t, 128)
    t.vec_exp([5, 9], u, u, 1, 8, 8)
    instr = finish(t).body[-1]
    assert instr.args[:2] == (9, 5) and instr.attrs == (1,)


def test_counter_mode() -> None:
    with use_soc("Ascend310P3"):
        t = tik.Tik()
        u = ub(t, 1000)
        t.vec_adds(1000, u, u, 1, 1, 8, 8, mask_mode="counter")
        assert t._b.body[-1].attrs == (2,)


def test_run_time_parameters_become_expressions(t: tik.Tik) -> None:
    u = ub(t, 1024)
    n = t.Scalar("int32", "n", 2)
    t.vec_exp(n, u[n * 16], u, n, n, 8)
    t.data_move(u, u[512], 0, n, 1, n - 1, 0)
    vexp, move = finish(t).body[-2:]
    assert [str(a) for a in vexp.args] == ["%0", "0", "%0", "32", "(%0 * 32)", "32", "256"]
    assert [str(a) for a in move.args] == ["%0", "32", "((%0 - 1) * 32)", "0"]


def test_accumulating_form_is_not_an_overlap(t: tik.Tik) -> None:
    acc, x = ub(t, 128), ub(t, 1024)
    t.vec_add(128, acc, x, acc, 8, 0, 8, 0)
    assert finish(t).body[-1].op == "vadd"


def test_locations_name_the_line_of_the_call(t: tik.Tik) -> None:
    u = t.Tensor("float16", (128,), tik.scope_ubuf, "u")
    here = inspect.currentframe().f_lineno
    for _ in range(2):
        t.vec_exp(128, u, u, 1, 8, 8)
    t.vec_ln(128, u, u, 1, 8, 8)
    program = finish(t)
    assert [program.location(s.loc) for s in program.body] == [f"{__file__}:{here + k}" for k in (-1, 2, 2, 3)]


def test_saturation_follows_the_chip_or_the_kernel() -> None:
    def kernel(**options: Any) -> None:
        tik.Tik(**options).BuildCCE("k", [], [])

    assert trace(kernel, soc="Ascend910A").saturate
    assert not trace(kernel, soc="Ascend910B1").saturate
    assert trace(kernel, soc="Ascend910B1", saturate=True).saturate


@pytest.mark.parametrize(
    "options",
    [dict(disable_debug=False), dict(err_msg_level=1), dict(profiling=tik.Dprofile("v100", "cloud"))],
    ids=["debug", "level", "profile"],
)
def test_constructor_options(options: dict, t: tik.Tik) -> None:
    assert tik.Tik(**options).d_profiling.get_unified_buffer_size() == 262144


def test_every_documented_template_is_a_method(t: tik.Tik) -> None:
    from ms_custom_ops.tik.compare import COMPARE_METHODS
    from ms_custom_ops.tik.elementwise import TEMPLATES

    methods: list[Callable] = [getattr(t, name) for name in (*TEMPLATES, *COMPARE_METHODS)]
    assert len(methods) == len(TEMPLATES) + 24 and all(m.__doc__ for m in methods)


SCOPED = ("for_range", "for_range_", "multi_for_range", "if_scope", "elif_scope", "else_scope", "new_stmt_scope")
NOT_RECORDED = (
    "Tensor",
    "Scalar",
    "ScalarArray",
    "InputScalar",
    "BuildCCE",
    "get_available_buffer_size",
    "get_left_buffer_size",
    "TensorAddrList",
    "tikdb",
)


def test_no_method_records_or_checks_in_a_dead_branch(t: tik.Tik) -> None:
    names = [n for n in dir(tik.Tik) if not n.startswith("_") and n not in (*SCOPED, *NOT_RECORDED)]
    assert len(names) > 100
    with t.if_scope(False):
        for name in names:
            method = getattr(t, name)
            wanted = [
                p
                for p in inspect.signature(method).parameters.values()
                if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
            ]
            method(*[None] * len(wanted))
        t.Scalar("int32", "s").set_as(1)
        ub(t, 16)[0].set_as(2)
    assert not finish(t).body


def test_synchronisation_is_recorded(t: tik.Tik) -> None:
    with t.new_stmt_scope(disable_sync=True):
        t.set_flag("PIPE_MTE2", "PIPE_V", 1)
        t.wait_flag("PIPE_MTE2", "PIPE_V", 1)
        t.pipe_barrier("PIPE_ALL")
    (region,) = finish(t).body
    assert isinstance(region, ir.NoSync)
    assert [(s.op, s.args, s.attrs) for s in region.body] == [
        ("set_flag", (1,), (4, 1)),
        ("wait_flag", (1,), (4, 1)),
        ("pipe_barrier", (), (7,)),
    ]


def test_block_barrier(t: tik.Tik) -> None:
    space = t.Tensor("int64", (16,), tik.scope_gm, "space", is_workspace=True, is_atomic_add=True)
    with t.for_range(0, 4, block_num=4):
        t.block_barrier(space)
    assert ops(finish(t).body[0].body) == ["block_barrier"]


def test_accumulate_of_mmad_may_be_a_scalar(t: tik.Tik) -> None:
    a, b, c = (
        t.Tensor(d, (256,), s, "x")
        for d, s in (("float16", tik.scope_ca), ("float16", tik.scope_cb), ("float32", tik.scope_cc))
    )
    with t.for_range(0, 2) as k:
        t.mmad(c, a, b, 16, 16, 16, k)
    (branch,) = finish(t).body[-1].body
    assert (branch.then[0].attrs, branch.orelse[0].attrs) == ((1,), (0,))


@pytest.mark.parametrize("mode", [1, "float32", 0, "off"])
def test_atomic_modes(t: tik.Tik, mode: Any) -> None:
    t.set_atomic_add(mode)
    assert finish(t).body[0].attrs == (1 if mode in (1, "float32") else 0,)


@pytest.mark.parametrize(("number", "relu"), [(0, 0), (5, 1)])
def test_conv_relu_mode_numbers(t: tik.Tik, number: int, relu: int) -> None:
    c, u = t.Tensor("float32", (256,), tik.scope_cc, "c"), ub(t, 256, dtype="float32")
    t.data_move(u, c, 0, 1, 1, 0, 0, number)
    assert finish(t).body[-1].attrs == (0, relu)


def test_910_93_has_the_instructions_of_910b() -> None:
    with use_soc("Ascend910_9391"):
        t = tik.Tik()
        x = t.Tensor("bfloat16", (16,), tik.scope_gm, "x")
        t.data_move_pad(t.Tensor("bfloat16", (16,), tik.scope_ubuf, "u"), x, 1, 30, 0, 0)
        assert finish(t, [x]).body[-1].op == "data_move_pad"


def test_mixed_widths_of_axpy_and_mla(t: tik.Tik) -> None:
    f, u = ub(t, 128, dtype="float32"), ub(t, 128)
    t.vec_axpy(64, f, u, 2.0, 2, 8, 4)
    t.vmla(64, f, u, u, 2, 1, 1, 1, 8, 4, 4)
    axpy, mla = finish(t).body[-2:]
    assert axpy.args[3].dtype == "float16" and axpy.args[4:] == (32, 256, 32, 128)
    assert mla.args[3:] == (32, 256, 32, 128, 32, 128)


def test_block_stride_zero(t: tik.Tik) -> None:
    u, v = ub(t, 128), ub(t, 16)
    t.vector_dup(128, u, 1.0, 1, 0, 8)
    t.vmuls(128, u, v, 1.0, 1, 0, 0, 8, 0)
    dup, muls = finish(t).body[-2:]
    assert dup.args[-2:] == (32, 256)  # a destination stride of 0 means contiguous
    assert muls.args[-4:] == (32, 256, 0, 0)  # a source stride of 0 reads one block again and again


def test_profile_sizes() -> None:
    profile = tik.Dprofile("v200", "aic")
    sizes = profile.buffer_size_query()
    assert profile.get_aicore_num() == 10 and profile.get_product_name() == "aic"
    assert (
        profile.get_l1_buffer_size(),
        profile.get_l0a_buffer_size(),
        profile.get_l0b_buffer_size(),
        profile.get_l0c_buffer_size(),
    ) == (2**20, 65536, 65536, 262144)
    assert sizes[tik.scope_ubuf] == profile.buffer_size_query(tik.scope_ubuf) == 262144


def test_helpers_of_tensors(t: tik.Tik) -> None:
    u = ub(t, 4, 16)
    assert u[1, 2].is_single_point() and not u[1:2, :].is_single_point()
    assert u[1:2, :].is_tensor_slice() and not u.is_tensor_slice()
    assert u.is_same_tensor(u[3]) and u.scope == tik.scope_ubuf
    assert (u == None) is False and (u != None) is True  # noqa: E711
    assert "u, float16" in repr(u) and u in {u: 1}
    assert tik.is_tik_var(u) and tik.is_tik_var(t.Scalar()) and not tik.is_tik_var(3)
