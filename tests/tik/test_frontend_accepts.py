# SPDX-License-Identifier: Apache-2.0
"""Forms of kernel code that public kernels use where the documents are silent, and the texts beside them."""

from __future__ import annotations

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import compat, tik
from ms_custom_ops.engine import native
from ms_custom_ops.errors import EngineError, SocError, TikCapacityError, TikError, TikSupportError
from ms_custom_ops.soc import use_soc

ENGINES = ("native", "reference")


def build(body, outputs, inputs=(), soc="Ascend910A"):
    """Program of ``body(t, ins, outs)`` over GM tensors (name, dtype, shape)."""
    with use_soc(soc):
        t = tik.Tik()
        ins = [t.Tensor(d, s, tik.scope_gm, n) for n, d, s in inputs]
        outs = [t.Tensor(d, s, tik.scope_gm, n) for n, d, s in outputs]
        body(t, ins, outs)
        t.BuildCCE("k", ins, outs)
    return t.programs[0]


def results(program, feed=()):
    """First output, equal on both engines."""
    got = [native.run(program, list(feed), engine) for engine in ENGINES]
    for a, b in zip(*got, strict=True):
        np.testing.assert_array_equal(a, b)
    return got[0]


def ub(t, dtype, shape, name="ub"):
    return t.Tensor(dtype, shape, tik.scope_ubuf, name)


def test_whole_floats_count_as_integers():
    def body(t, ins, outs):
        u = ub(t, "float16", (32 / 2,))
        t.vec_dup(np.float64(16), u, 1.0, 1.0, 8.0)
        with t.for_range(0, 64 / 16) as i:
            t.data_move(outs[0][i * 16.0], u[0.0:16.0], 0, 1, 1, 0, 0)

    assert (results(build(body, [("y", "float16", (64,))]))[0] == 1).all()


@pytest.mark.parametrize("value", [3.5, float("nan"), float("inf")])
def test_floats_with_a_fraction_are_refused(value):
    with use_soc("Ascend910A"):
        t = tik.Tik()
        with pytest.raises(TikError, match=f"for_range: endt is {value}; accepted: an integer or an integer Scalar"):
            t.for_range(0, value)


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend310P3"])
def test_scalars_are_converted_to_the_dtype_of_the_instruction(soc):
    def body(t, ins, outs):
        f, i = ub(t, "float32", (64,), "f"), ub(t, "int32", (64,), "i")
        three, half = t.Scalar("int32", "three", 3), t.Scalar("float32", "half", 2.75)
        t.vec_dup(64, f, 2.0, 1, 8)
        t.vec_muls(64, f, f, three, 1, 8, 8)
        wide = t.Scalar("int64", "wide", -5)
        t.vec_dup(64, i, wide + three, 1, 8)
        t.vec_dup(8, i, half, 1, 8)
        t.data_move(outs[0], f, 0, 1, 8, 0, 0)
        t.data_move(outs[1], i, 0, 1, 8, 0, 0)

    f, i = results(build(body, [("f", "float32", (64,)), ("i", "int32", (64,))], soc=soc))
    assert (f == 6).all() and (i[:8] == 2).all() and (i[8:] == -2).all()


def test_scalar_conversion_that_the_chip_lacks():
    with use_soc("Ascend310"):
        t = tik.Tik()
        u, s = ub(t, "float16", (128,)), t.Scalar("int32", "s", 3)
        with pytest.raises(
            TikSupportError,
            match="vec_dup: dtype of scalar on Ascend310 is int32; accepted: float16: the scalar unit has no",
        ):
            t.vec_dup(128, u, s, 1, 8)


@pytest.mark.parametrize("extra", [(), (0,), (0, 0), (None,), (1,), (7, 7)])
def test_moves_between_dtypes_of_one_width(extra):
    def body(t, ins, outs):
        u = ub(t, "float32", (8,))
        t.data_move(u, ins[0], 0, 1, 1, 0, 0, *extra)
        t.data_move(outs[0], u, 0, 1, 1, 0, 0, *extra)

    x = np.array([1, -1, 0x7F800001, 0, 5, 6, 7, 8], np.int32)
    (y,) = results(build(body, [("y", "int32", (8,))], [("x", "int32", (8,))]), [x])
    np.testing.assert_array_equal(y, x)


def test_moves_between_dtypes_of_other_widths():
    def body(t, ins, outs):
        u = ub(t, "uint16", (32,))
        t.data_move(u, ins[0][4], 0, 1, 1, 0, 0)
        t.data_move(outs[0][8], u, 0, 1, 1, 0, 0)

    x = np.arange(8, dtype=np.int64)
    (y,) = results(build(body, [("y", "int32", (16,))], [("x", "int64", (8,))]), [x])
    assert y[8:].tolist() == [4, 0, 5, 0, 6, 0, 7, 0]


def test_block_mode_of_tensor_mov_away_from_l0c():
    def body(t, ins, outs):
        u = ub(t, "float16", (4, 16))
        t.tensor_mov(u, ins[0], "v", 4, 1, 0, 0)
        t.tensor_mov(outs[0], u, "", 1, 4, 0, 0)

    x = np.arange(64).astype(np.float16).reshape(4, 16)
    (y,) = results(build(body, [("y", "float16", (4, 16))], [("x", "float16", (4, 16))]), [x])
    np.testing.assert_array_equal(y, x)
    with use_soc("Ascend910A"):
        t = tik.Tik()
        c = t.Tensor("float32", (1, 16, 16), tik.scope_cc, "c")
        with pytest.raises(TikError, match="tensor_mov: block_mode for l0c->ub is ''; accepted: 'm', 'v', 'sc', 'dp'"):
            t.tensor_mov(ub(t, "float32", (16, 16)), c, "", 1, 1, 0, 0)


def test_pipe_barrier_where_synchronisation_is_automatic():
    def body(t, ins, outs):
        u = ub(t, "float16", (16,))
        t.vec_dup(16, u, 1.0, 1, 8)
        t.pipe_barrier("PIPE_MTE3")
        t.data_move(outs[0], u, 0, 1, 1, 0, 0)

    assert (results(build(body, [("y", "float16", (16,))]))[0] == 1).all()
    with use_soc("Ascend910A"):
        with pytest.raises(TikError, match="pipe_barrier: pipe is PIPE_X; accepted: PIPE_S, PIPE_V"):
            tik.Tik().pipe_barrier("PIPE_X")


@pytest.mark.parametrize("branch", [False, True])
def test_multi_core_loop_in_another_loop_or_branch(branch):
    def body(t, ins, outs):
        def blocks(row):
            with t.for_range(0, 3, block_num=3) as core:
                u = ub(t, "float32", (8,))
                t.data_move(u, ins[0][row, core, 0], 0, 1, 1, 0, 0)
                t.data_move(outs[0][row, core, 0], u, 0, 1, 1, 0, 0)

        if branch:
            s = t.Scalar("int32", "s", 1)
            with t.if_scope(s == 1):
                blocks(0)
            with t.else_scope():
                t.tik_return()
        else:
            with t.for_range(0, 4) as row:
                blocks(row)

    program = build(body, [("y", "float32", (4, 3, 8))], [("x", "float32", (4, 3, 8))])
    assert program.block_num == 3 and type(program).from_bytes(program.to_bytes()).block_num == 3
    x = np.arange(96, dtype=np.float32).reshape(4, 3, 8)
    (y,) = results(program, [x])
    np.testing.assert_array_equal(y[: 1 if branch else 4], x[: 1 if branch else 4])


def test_a_multi_core_loop_that_is_statically_off_is_none():
    def body(t, ins, outs):
        u = ub(t, "float32", (8,))
        with t.if_scope(False):
            with t.for_range(0, 2, block_num=2):
                t.vec_dup(8, u, 5.0, 1, 8)
        with t.for_range(0, 4, block_num=4) as core:
            t.vec_dup(8, u, 1.0, 1, 8)
            t.data_move(outs[0][core * 8], u, 0, 1, 1, 0, 0)

    program = build(body, [("y", "float32", (32,))])
    assert program.block_num == 4 and (results(program)[0] == 1).all()


@pytest.mark.parametrize("dynamic", [False, True])
def test_mask_bits_above_64_lanes_do_not_count(dynamic):
    def body(t, ins, outs):
        u = ub(t, "int32", (64,))
        high, low = (1 << 40) + 1, 0b1011
        if dynamic:
            words = [t.Scalar("uint64", n) for n in ("h", "l")]
            for word, value in zip(words, (high, low), strict=True):
                word.set_as(value)
            high, low = words
        t.vec_dup(64, u, 0, 1, 8)
        t.vec_dup([high, low], u, 7, 1, 8)
        t.data_move(outs[0], u, 0, 1, 8, 0, 0)

    (y,) = results(build(body, [("y", "int32", (64,))]))
    assert y[:5].tolist() == [7, 7, 0, 7, 0] and not y[5:].any()


def test_a_mask_without_a_lane_among_64_is_refused():
    with use_soc("Ascend910A"):
        t = tik.Tik()
        with pytest.raises(
            TikError,
            match=r"mask is \[3, 0\]; accepted: a mask with a selected lane \(64 lanes per repeat: mask_l alone",
        ):
            t.vec_dup([3, 0], ub(t, "int32", (64,)), 0, 1, 8)


@pytest.mark.parametrize("mode", ["lt", "gt", "ge", "eq", "ne", "le"])
@pytest.mark.parametrize("mask", [16, [1, 0b1001], "scalar"])
def test_comparison_of_some_lanes_keeps_the_bits_of_the_others(mode, mask):
    def body(t, ins, outs):
        u, bits = ub(t, "float16", (2, 128), "u"), ub(t, "uint64", (4,), "bits")
        t.data_move(u, ins[0], 0, 1, 16, 0, 0)
        t.data_move(bits, ins[1], 0, 1, 1, 0, 0)
        t.mov_tensor_to_cmpmask(bits)
        lanes = mask
        if mask == "scalar":
            lanes = t.Scalar("int32", "lanes", 16)
        register = getattr(t, f"vcmp_{mode}")(lanes, u[0, 0], u[1, 0], 1, 1)
        t.mov_cmpmask_to_tensor(bits, register)
        t.data_move(outs[0], bits, 0, 1, 1, 0, 0)

    x = np.random.default_rng(1).integers(-1, 2, (2, 128)).astype(np.float16)
    old = np.array([0x0123456789ABCDEF, 0xFEDCBA9876543210, 0, 0], np.uint64)
    (got,) = results(
        build(body, [("y", "uint64", (4,))], [("x", "float16", (2, 128)), ("b", "uint64", (4,))]), [x, old]
    )
    relation = {"lt": np.less, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}
    bits = {**relation, "le": np.less_equal}[mode](x[0], x[1])
    on = np.arange(128) < 16 if not isinstance(mask, list) else np.isin(np.arange(128), [0, 3, 64])
    before = np.unpackbits(old[:2].view(np.uint8), bitorder="little").astype(bool)
    np.testing.assert_array_equal(np.unpackbits(got[:2].view(np.uint8), bitorder="little"), np.where(on, bits, before))


def test_comparison_of_some_lanes_reads_only_them():
    def body(t, ins, outs):
        u, y = ub(t, "float16", (16,), "u"), ub(t, "float16", (16,), "y")
        t.data_move(u, ins[0], 0, 1, 1, 0, 0)
        t.vec_dup(16, y, 0.0, 1, 8)
        m = t.vcmp_gt(16, u, y, 1, 1)
        t.vsel(16, 0, y, m, u, y, 1, 1, 1, 1)
        t.data_move(outs[0], y, 0, 1, 1, 0, 0)

    x = np.arange(-8, 8).astype(np.float16)
    (y,) = results(build(body, [("y", "float16", (16,))], [("x", "float16", (16,))]), [x])
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_local_tensors_of_a_size_known_only_at_run_time():
    def body(t, ins, outs):
        n = t.Scalar("int32", "n")
        size = ub(t, "int32", (8,), "size")
        t.data_move(size, ins[1], 0, 1, 1, 0, 0)
        n.set_as(size[0])
        a, b, c = ub(t, "float32", (n * 8,), "a"), ub(t, "float32", (n, 8), "b"), ub(t, "float32", (64,), "c")
        t.vec_dup(64, c, 1.0, 1, 8)
        t.data_move(a, ins[0], 0, 1, n, 0, 0)
        t.data_move(b, ins[0], 0, 1, n, 0, 0)
        t.vec_add(64, a, a, b, 1, 8, 8, 8)
        t.vec_add(64, a, a, c, 1, 8, 8, 8)
        t.data_move(outs[0], a, 0, 1, n, 0, 0)

    program = build(body, [("y", "float32", (64,))], [("x", "float32", (64,)), ("n", "int32", (8,))])
    x = np.arange(64, dtype=np.float32)
    (y,) = results(program, [x, np.full(8, 8, np.int32)])
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_a_local_tensor_of_unknown_size_ends_where_its_memory_ends():
    def body(t, ins, outs):
        n = t.Scalar("int32", "n", 8192)
        ub(t, "float32", (32768,), "half")
        a = ub(t, "float32", (n * 8,), "a")
        t.data_move(a, ins[0], 0, 1, n, 0, 0)
        t.data_move(outs[0], a, 0, 1, 1, 0, 0)

    program = build(body, [("y", "float32", (8,))], [("x", "float32", (65536,))])
    for engine in ENGINES:
        with pytest.raises(EngineError, match=r"dst needs bytes \[0, 262144\) of a, it has 131072"):
            native.run(program, [np.zeros(65536, np.float32)], engine)


def test_double_buffers_in_one_another_double_once():
    def body(t, ins, outs):
        with t.for_range(0, 2, thread_num=2) as i:
            with t.for_range(0, 2, thread_num=2) as j:
                u = ub(t, "float32", (32000,))
                t.vec_dup(8, u, 1.0, 1, 8)
                t.data_move(outs[0][(i * 2 + j) * 8], u, 0, 1, 1, 0, 0)

    assert (results(build(body, [("y", "float32", (32,))]))[0] == 1).all()


def test_capacity_text_gives_one_buffer_and_the_factor():
    with use_soc("Ascend910A"):
        t = tik.Tik()
        with t.for_range(0, 4, thread_num=4):
            with pytest.raises(TikCapacityError, match=r"bytes asked is 400000 \(100000 x 4 for thread_num\)"):
                ub(t, "float32", (25000,))


def test_a_branch_that_no_turn_takes_is_not_checked():
    def body(t, ins, outs):
        u = ub(t, "float16", (16,))
        with t.for_range(0, 4, block_num=4) as core:
            with t.for_range(2, 5) as i:
                for never in (core < 0, core * 2 + i > 10, i == 1, tik.any(core > 3, i < 2), i // 5 != 0, i % 2 > 1):
                    with t.if_scope(never):
                        t.data_move(u, ins[0], 0, 1, 500, 0, 0)
                for always in (core <= 3, i - core >= -1, tik.all(i != 7, 9 - i > 4), tik.negate(i < 2)):
                    with t.if_scope(always):
                        t.vec_dup(16, u, 1.0, 1, 8)
                    with t.else_scope():
                        t.data_move(u, ins[0], 0, 1, 500, 0, 0)
            t.data_move(outs[0][core * 16], u, 0, 1, 1, 0, 0)

    program = build(body, [("y", "float16", (64,))], [("x", "float16", (16,))])
    assert "if" not in program.text().split("{", 1)[-1].replace("shift", "")
    assert (results(program, [np.zeros(16, np.float16)])[0] == 1).all()


@pytest.mark.parametrize("begin", [0, "scalar"])
def test_a_branch_that_some_turn_takes_is_checked(begin):
    with use_soc("Ascend910A"):
        t = tik.Tik()
        x, u = t.Tensor("float16", (16,), tik.scope_gm, "x"), ub(t, "float16", (16,))
        first = t.Scalar("int32", "first", 0) if begin == "scalar" else begin
        with t.for_range(first, 4) as i:
            with t.if_scope(i < 1):
                with pytest.raises(TikError, match="overflow"):
                    t.data_move(u, x, 0, 1, 500, 0, 0)


def test_lengths_of_slices_and_list_indices():
    with use_soc("Ascend910A"):
        t = tik.Tik()
        x = t.Tensor("float16", (64, 32), tik.scope_gm, "x")
        n = t.Scalar("int32", "n", 3)
        with t.for_range(0, 4) as i:
            assert x[i * 16 : (i + 1) * 16, 0:16].shape == (16, 16)
            assert x[2 * i + n : n + i + i + 8, :].shape == (8, 32)
            assert not isinstance(x[i : n + 8, :].shape[0], int)
            assert x[[i, 3]].offset is not None and x[[2, 3]].offset == 67
        assert x.buffer_size == 4096 and x[3:5, :].buffer_size == 128


@pytest.mark.parametrize("row", [0, 1, 3])
def test_one_index_of_a_slice_of_rows_from_the_tensors_start(row):
    """As helpers of public kernels write it: part[part.offset + k]; behind both readings it stays an error."""

    def body(t, ins, outs):
        rows = ub(t, "float16", (4, 32))
        part = rows[row, :]
        t.vec_dup(32, rows, 0.0, 4, 2)
        t.vec_dup(16, part[part.offset], 1.0, 1, 8)
        t.vec_dup(16, part[part.offset + 16], 2.0, 1, 8)
        with pytest.raises(TikError, match=r"index in dimension 0 is 160; accepted: 0\.\.31"):
            part[160]
        t.data_move(outs[0], rows, 0, 1, 8, 0, 0)

    y = results(build(body, [("y", "float16", (4, 32))]))[0]
    assert (y[row] == np.repeat([1, 2], 16)).all() and not np.delete(y, row, 0).any()


def test_fields_of_proposals_by_a_loop_variable():
    def body(t, ins, outs):
        boxes, column = ub(t, "float16", (16, 8), "boxes"), ub(t, "float16", (16,), "column")
        t.data_move(boxes, ins[0], 0, 1, 8, 0, 0)
        with t.for_range(0, 4) as i:
            t.vextract(column, boxes, 1, i)
            t.data_move(outs[0][i * 16], column, 0, 1, 1, 0, 0)

    x = np.arange(128).astype(np.float16).reshape(16, 8)
    (y,) = results(build(body, [("y", "float16", (4, 16))], [("x", "float16", (16, 8))]), [x])
    np.testing.assert_array_equal(y, x[:, :4].T)


def test_a_profile_of_one_word_says_no_chip():
    with use_soc("Ascend310P3"):
        assert tik.Dprofile("cloud").get_unified_buffer_size() == 262144
        assert tik.Tik(tik.Dprofile("mini"))._b.soc.name == "Ascend310P3"
        with pytest.raises(TikError, match=r"Dprofile: architecture is \('v100', 'x'\); accepted: \('v100', 'mini'\)"):
            tik.Dprofile("v100", "x")


def test_elements_of_tensors_in_scalar_arithmetic():
    with use_soc("Ascend910A"):
        t = tik.Tik()
        u = ub(t, "int32", (8,), "u")
        for use in (lambda: u[0] + 1, lambda: 2 * u[0], lambda: u[0] // 2, lambda: -u[0]):
            with pytest.raises(
                TikError, match=r"tensor u in scalar arithmetic; accepted: a Scalar that its element was loaded into"
            ):
                use()


def test_truth_values_of_tensors():
    with use_soc("Ascend910A"):
        t = tik.Tik()
        u = ub(t, "int32", (8,), "u")
        assert u and u[0:4]
        with pytest.raises(TikError, match="an element of tensor u has no Python truth value: compare it in"):
            bool(u[0])


@pytest.mark.parametrize("extra", [(), (0,)])
def test_trailing_zeros_of_a_move_out_of_l0c_ask_for_nothing(extra):
    def body(t, ins, outs):
        u, c, h = (
            ub(t, "float32", (256,), "u"),
            t.Tensor("float32", (256,), tik.scope_cc, "c"),
            ub(t, "float16", (256,)),
        )
        t.data_move(u, ins[0], 0, 1, 32, 0, 0)
        t.data_move(c, u, 0, 1, 1, 0, 0, *extra)
        t.data_move(h, c, 0, 1, 1, 0, 0, *extra)
        t.data_move(outs[0], h, 0, 1, 16, 0, 0)

    x = np.arange(256, dtype=np.float32)
    (y,) = results(build(body, [("y", "float16", (256,))], [("x", "float32", (256,))]), [x])
    np.testing.assert_array_equal(y, x.astype(np.float16))


def test_a_kernel_name_that_is_required_and_not_given():
    def scale(dtype, kernel_name):
        t = tik.Tik()
        y = t.Tensor(dtype, (16,), tik.scope_gm, "y")
        u = ub(t, dtype, (16,))
        t.vec_dup(16, u, 2.0, 1, 8)
        t.data_move(y, u, 0, 1, 1, 0, 0)
        t.BuildCCE(kernel_name, [], [y])

    assert mco.trace(scale, "float16", soc="Ascend910A").name == "scale"
    assert mco.trace(scale, "float16", "other", soc="Ascend910A").name == "other"
    with pytest.raises(TypeError, match="dtype"):
        mco.trace(scale, soc="Ascend910A")


def test_the_chip_asked_inside_a_kernel_has_no_effect_under_soc():
    compat.install()
    try:
        from tbe.common.platform import set_current_compile_soc_info

        def kernel(kernel_name="k"):
            assert set_current_compile_soc_info("BS9SX1AA", "VectorCore") == "success"
            t = tik.Tik()
            y = t.Tensor("float16", (16,), tik.scope_gm, "y")
            t.data_move(y, ub(t, "float16", (16,)), 0, 1, 1, 0, 0)
            t.BuildCCE(kernel_name, [], [y])

        assert mco.trace(kernel, soc="Ascend910A").soc == "Ascend910A"
        set_current_compile_soc_info("BS9SX1AA")
        with pytest.raises(SocError, match="soc is 'BS9SX1AA', a chip that a kernel has named"):
            tik.Tik()
    finally:
        compat.uninstall()
