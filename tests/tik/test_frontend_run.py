# SPDX-License-Identifier: Apache-2.0
"""Traced kernels on the reference engine against NumPy: what a call composes or canonicalises means what TIK says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import tik
from ms_custom_ops.engine.reference import run_reference
from ms_custom_ops.tik.trace import trace

RNG = np.random.default_rng(3)


def run(
    kernel: Callable[[], None], inputs: list[np.ndarray], *shapes: tuple, soc: str = "Ascend910A", scalars: tuple = ()
) -> list[np.ndarray]:
    """Outputs of a kernel, each ``(count, dtype)``."""
    program = trace(kernel, soc=soc)
    outputs = [np.zeros(count, dtype) for count, dtype in shapes]
    run_reference(program, inputs, list(scalars), outputs)
    return outputs


def half(count: int) -> np.ndarray:
    return RNG.standard_normal(count).astype(np.float16)


def unary_kernel(
    count: int, dtype: str, out_count: int, body: Callable[[tik.Tik, Any, Any], None], out_dtype: str | None = None
) -> Callable[[], None]:
    """x (GM) -> UB, ``body(t, dst, src)``, UB -> y (GM); counts in whole blocks."""

    def kernel() -> None:
        t = tik.Tik()
        wide = out_dtype or dtype
        size, out_size = np.dtype(dtype).itemsize, np.dtype(wide).itemsize
        x = t.Tensor(dtype, (count,), tik.scope_gm, "x")
        y = t.Tensor(wide, (out_count,), tik.scope_gm, "y")
        src = t.Tensor(dtype, (count,), tik.scope_ubuf, "src")
        dst = t.Tensor(wide, (out_count,), tik.scope_ubuf, "dst")
        t.data_move(src, x, 0, 1, count * size // 32, 0, 0)
        with t.new_stmt_scope():
            body(t, dst, src)
        t.data_move(y, dst, 0, 1, out_count * out_size // 32, 0, 0)
        t.BuildCCE("probe", [x], [y])

    return kernel


@pytest.mark.parametrize("repeat", [1, 2, 63, 64, 200])
def test_reduce_add(repeat: int) -> None:
    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        work = t.Tensor("float32", (-(-repeat // 8) * 8,), tik.scope_ubuf, "work")
        t.vec_reduce_add(63, dst, src, work, repeat, 8)

    x = RNG.integers(-9, 9, repeat * 64).astype(np.float32)  # whole numbers: every order gives the same sum
    (out,) = run(unary_kernel(repeat * 64, "float32", 8, body), [x], (8, np.float32))
    assert out[0] == x.reshape(repeat, 64)[:, :63].sum()


@pytest.mark.parametrize("repeat", [1, 63, 255, 256, 700])
def test_reduce_add_of_repeats_known_while_running(repeat: int) -> None:
    t = tik.Tik()
    x = t.Tensor("float32", (repeat * 64,), tik.scope_gm, "x")
    y = t.Tensor("float32", (8,), tik.scope_gm, "y")
    count = t.InputScalar("int32", "count")
    u, work, dst = (t.Tensor("float32", (n,), tik.scope_ubuf, name) for n, name in
                    ((repeat * 64, "u"), (-(-repeat // 8) * 8, "work"), (8, "dst")))  # fmt: skip
    t.data_move(u, x, 0, 1, repeat * 8, 0, 0)
    t.vec_dup(8, dst, 0.0, 1, 1)
    t.vec_reduce_add(63, dst, u, work, count, 8)
    t.data_move(y, dst, 0, 1, 1, 0, 0)
    t.BuildCCE("later", [x, count], [y])
    values = RNG.integers(-9, 9, repeat * 64).astype(np.float32)
    want = values.reshape(repeat, 64)[:, :63].sum()
    for engine in ("native", "reference"):
        assert mco.run(t.programs[0], [values, repeat], engine=engine)[0][0] == want


@pytest.mark.parametrize("with_index", [False, True], ids=["value", "index"])
@pytest.mark.parametrize("repeat", [1, 2, 15, 63, 64, 65, 200])
@pytest.mark.parametrize("largest", [True, False], ids=["max", "min"])
def test_reduce_extreme(repeat: int, with_index: bool, largest: bool) -> None:
    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        work = t.Tensor("float16", (1024,), tik.scope_ubuf, "work")
        call = t.vec_reduce_max if largest else t.vec_reduce_min
        call(128, dst, src, work, repeat, 8, with_index)

    x = half(repeat * 128)
    (out,) = run(unary_kernel(repeat * 128, "float16", 16, body), [x], (16, np.float16))
    assert out[0] == (x.max() if largest else x.min())
    if with_index:
        assert out.view(np.uint16)[1] == (x.argmax() if largest else x.argmin())


MODES = {
    "round": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "to-zero": np.trunc,
    "away-zero": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}


@pytest.mark.parametrize("mode", list(MODES))
def test_scalar_conv_float_to_int(mode: str) -> None:
    x = np.array(
        [0.2, -0.2, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1e10, -1e10, 8388607.5, 8388608.0, -8388607.5, 3, 0, 2147483520.0],
        np.float32,
    )

    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        f, i = t.Scalar("float32", "f"), t.Scalar("int32", "i")
        with t.for_range(0, 16) as k:
            f.set_as(src[k])
            t.scalar_conv(mode, i, f)
            dst[k].set_as(i)

    (out,) = run(unary_kernel(16, "float32", 16, body, "int32"), [x], (16, np.int32))
    expected = np.clip(MODES[mode](x.astype(np.float64)), -(2**31), 2**31 - 1).astype(np.int64)
    np.testing.assert_array_equal(out, expected)


def test_scalar_conv_to_odd() -> None:
    x = np.array([1.0, 1.00001, -1.00001, 1.0009, 2049.0, 0, 1e-6, -3.1415], np.float32)

    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        f, h = t.Scalar("float32", "f"), t.Scalar("float16", "h")
        with t.for_range(0, 8) as k:
            f.set_as(src[k])
            t.scalar_conv("odd", h, f)
            dst[k].set_as(h)

    (out,) = run(unary_kernel(8, "float32", 16, body, "float16"), [x], (16, np.float16))
    for value, got in zip(x, out[:8], strict=True):
        exact = float(np.float16(value)) == float(value)
        cut = (
            np.float16(value)
            if abs(float(np.float16(value))) <= abs(float(value))
            else np.nextafter(np.float16(value), np.float16(0))
        )
        bits = int(np.array(cut).view(np.uint16)) | (0 if exact else 1)
        assert int(np.array(got).view(np.uint16)) == bits, value


def test_scalar_instructions() -> None:
    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        a, b, out = (t.Scalar("int64", n) for n in ("a", "b", "out"))
        a.set_as(src[0])
        b.set_as(src[1])
        for k, call in enumerate((t.scalar_max, t.scalar_min)):
            call(out, a, b)
            dst[k].set_as(out)
        t.scalar_abs(out, a)
        dst[2].set_as(out)
        t.scalar_sqrt(out, b)
        dst[3].set_as(out)

    (out,) = run(unary_kernel(4, "int64", 4, body), [np.array([-7, 50, 0, 0])], (4, np.int64))
    np.testing.assert_array_equal(out, [50, -7, 7, 7])


def test_scalar_array() -> None:
    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        array = t.ScalarArray("int32", 8, "array", 0)
        with t.for_range(0, 8) as i:
            array[7 - i].set_as(src[i])
        with t.for_range(0, 8) as i:
            dst[i].set_as(array[i])

    x = np.arange(8, dtype=np.int32) * 3
    (out,) = run(unary_kernel(8, "int32", 8, body), [x], (8, np.int32))
    np.testing.assert_array_equal(out, x[::-1])


@pytest.mark.parametrize("count", [1, 15, 17, 63, 128])
def test_compare_and_select(count: int) -> None:
    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        bits = t.Tensor("uint8", (32,), tik.scope_ubuf, "bits")
        zero = t.Tensor("float16", (128,), tik.scope_ubuf, "zero")
        t.vec_dup(128, zero, 0.0, 1, 8)
        t.vec_dup(128, dst, 9.0, 1, 8)
        t.vec_cmpv_gt(bits, src, zero, 1, 8, 8)
        t.vec_sel(count, 0, dst, bits, src, zero, 1)

    x = half(128)
    (out,) = run(unary_kernel(128, "float16", 128, body), [x], (128, np.float16))
    expected = np.where(x > 0, x, np.float16(0))
    expected[count:] = 9
    np.testing.assert_array_equal(out, expected)


def test_transpose_of_a_tile() -> None:
    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        t.vec_trans_scatter(False, False, [dst[i * 16] for i in range(16)], [src[i * 16] for i in range(16)], 1, 0, 0)

    x = half(256)
    (out,) = run(unary_kernel(256, "float16", 256, body), [x], (256, np.float16))
    np.testing.assert_array_equal(out.reshape(16, 16), x.reshape(16, 16).T)
    (two,) = run(
        unary_kernel(512, "float16", 512, lambda t, d, s: t.vec_trans(d, s, 2, 1, 1)), [half(512)], (512, np.float16)
    )
    assert two.any()


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend310P3"])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 15, 17), (17, 63, 15), (32, 16, 48)])
def test_matmul(m: int, k: int, n: int, soc: str) -> None:
    rows, depth, columns = (-(-v // 16) * 16 for v in (m, k, n))

    def kernel() -> None:
        t = tik.Tik()
        a = t.Tensor("float16", (depth // 16, rows, 16), tik.scope_gm, "a")
        b = t.Tensor("float16", (depth // 16, columns, 16), tik.scope_gm, "b")
        y = t.Tensor("float16", (columns // 16, rows, 16), tik.scope_gm, "y")
        l1a = t.Tensor("float16", a.shape, tik.scope_cbuf, "l1a")
        l1b = t.Tensor("float16", b.shape, tik.scope_cbuf, "l1b")
        l0c = t.Tensor("float32", y.shape, tik.scope_cbuf_out, "l0c")
        ub = t.Tensor("float16", y.shape, tik.scope_ubuf, "ub")
        t.data_move(l1a, a, 0, 1, depth * rows // 16, 0, 0)
        t.data_move(l1b, b, 0, 1, depth * columns // 16, 0, 0)
        t.matmul(l0c, l1a, l1b, m, k, n)
        t.data_move(ub, l0c, 0, columns // 16, rows // 16, 0, 0)
        t.data_move(y, ub, 0, 1, rows * columns // 16, 0, 0)
        t.BuildCCE("matmul", [a, b], [y])

    a, b = half(rows * depth).reshape(rows, depth), half(depth * columns).reshape(depth, columns)
    a[:, k:], b[k:] = 0, 0
    (out,) = run(
        kernel,
        [
            np.ascontiguousarray(a.reshape(rows, -1, 16).transpose(1, 0, 2)),
            np.ascontiguousarray(b.T.reshape(columns, -1, 16).transpose(1, 0, 2)),
        ],
        (rows * columns, np.float16),
        soc=soc,
    )
    got = out.reshape(-1, rows, 16).transpose(1, 0, 2).reshape(rows, columns)[:m, :n]
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(got, expected[:m, :n], rtol=2e-3, atol=2e-3)


def test_row_of_a_gemv() -> None:
    def kernel() -> None:
        t = tik.Tik()
        a = t.Tensor("float16", (32,), tik.scope_gm, "a")
        b = t.Tensor("float16", (2, 2, 16, 16), tik.scope_gm, "b")
        y = t.Tensor("float32", (32,), tik.scope_gm, "y")
        l0a = t.Tensor("float16", (256,), tik.scope_ca, "l0a")
        l0b = t.Tensor("float16", (2, 2, 16, 16), tik.scope_cb, "l0b")
        l0c = t.Tensor("float32", (2, 16, 16), tik.scope_cc, "l0c")
        l1 = t.Tensor("float16", (256,), tik.scope_cbuf, "l1")
        ub = t.Tensor("float32", (32,), tik.scope_ubuf, "ub")
        t.data_move(l1, a, 0, 1, 2, 0, 0)
        t.load2dv1(l0a, l1, 0, 1, 1, 0)
        t.load2dv1(l0b, b, 0, 4, 1, 0)
        t.mmad(l0c, l0a, l0b, 1, 32, 32, 0)
        t.tensor_mov(ub, l0c, "v", 1, 2, 0, 0)
        t.data_move(y, ub, 0, 1, 4, 0, 0)
        t.BuildCCE("gemv", [a, b], [y])

    a, b = half(32), half(32 * 32).reshape(32, 32)
    nz = b.reshape(2, 16, 2, 16).transpose(0, 2, 3, 1)  # fractals (k1, n1), n slow and k fast inside
    (out,) = run(kernel, [a, np.ascontiguousarray(nz)], (32, np.float32))
    np.testing.assert_allclose(out, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [1, 15, 17, 63, 200])
def test_move_pad_of_any_length(count: int) -> None:
    room = -(-count // 16) * 16

    def kernel() -> None:
        t = tik.Tik()
        x = t.Tensor("float16", (count,), tik.scope_gm, "x")
        y = t.Tensor("float16", (count,), tik.scope_gm, "y")
        ub = t.Tensor("float16", (room,), tik.scope_ubuf, "ub")
        t.data_move_pad(ub, x, 1, count * 2, 0, 0)
        t.data_move_pad(y, ub, 1, count * 2, 0, 0)
        t.BuildCCE("pad", [x], [y])

    x = half(count)
    (out,) = run(kernel, [x], (count, np.float16), soc="Ascend910B1")
    np.testing.assert_array_equal(out, x)


def test_break_continue_and_input_scalar() -> None:
    def kernel() -> None:
        t = tik.Tik()
        n = t.InputScalar("int32", "n")
        y = t.Tensor("int32", (8,), tik.scope_gm, "y")
        ub = t.Tensor("int32", (8,), tik.scope_ubuf, "ub")
        t.vec_dup(8, ub, 0, 1, 8)
        with t.for_range(0, 8) as i:
            with t.if_scope(i % 2 == 1):
                t.tik_continue()
            with t.if_scope(i >= n):
                t.tik_break()
            ub[i] = i * 10 // 3
        t.data_move(y, ub, 0, 1, 1, 0, 0)
        t.BuildCCE("probe", [], [y], flowtable=[n])

    (out,) = run(kernel, [], (8, np.int32), scalars=(5,))
    np.testing.assert_array_equal(out, [0, 0, 6, 0, 13, 0, 0, 0])


@pytest.mark.parametrize("way", ["vcmp", "tensor"])
def test_select_by_compare_mask(way: str) -> None:
    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        zero = t.Tensor("float16", (128,), tik.scope_ubuf, "zero")
        bits = t.Tensor("uint16", (16,), tik.scope_ubuf, "bits")
        t.vec_dup(128, zero, 0.0, 1, 8)
        if way == "vcmp":
            mask = t.vcmp_lt(128, src, zero, 1, 1)
            t.mov_cmpmask_to_tensor(bits, mask)
        else:
            t.vcmpv_lt(bits, src, zero, 1, 1, 1, 8, 8)
            mask = t.mov_tensor_to_cmpmask(bits)
        t.vec_dup(16, bits, 0, 1, 8)
        t.vsel(128, 0, dst, mask, src, zero, 2, 1, 1, 1, 8, 8, 0)

    x = half(256)
    x[128:] = np.abs(x[128:]) + 1
    (out,) = run(unary_kernel(256, "float16", 256, body), [x], (256, np.float16))
    lower = np.tile(x[:128] < 0, 2)  # mode 0 uses the same bits for every repeat
    np.testing.assert_array_equal(out, np.where(lower, x, np.float16(0)))


@pytest.mark.parametrize("op", ["vcgadd", "vcgmax", "vcgmin", "vcpadd", "vcadd", "vcmin"])
def test_reductions_per_repeat(op: str) -> None:
    results = {"vcgadd": 8, "vcgmax": 8, "vcgmin": 8, "vcpadd": 64, "vcadd": 1, "vcmin": 2}[op]

    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        getattr(t, op)(128, dst, src, 3, 1, 1, 8)

    x = RNG.integers(-9, 9, 3 * 128).astype(np.float16)
    (out,) = run(unary_kernel(384, "float16", 256, body), [x], (256, np.float16))
    rows = x.reshape(3, 128)
    groups = rows.reshape(3, 8, 16)
    expected = {
        "vcgadd": groups.sum(2),
        "vcgmax": groups.max(2),
        "vcgmin": groups.min(2),
        "vcadd": rows.sum(1),
        "vcpadd": rows.reshape(3, 64, 2).sum(2),
        "vcmin": rows.min(1),
    }[op].reshape(3, -1)
    got = out[: 3 * results].reshape(3, results)
    np.testing.assert_array_equal(got[:, : expected.shape[1]], expected)
    if op == "vcmin":
        np.testing.assert_array_equal(got.view(np.uint16)[:, 1], rows.argmin(1))


def test_bit_counts() -> None:
    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        a, out = t.Scalar("uint64", "a"), t.Scalar("uint64", "out")
        a.set_as(src[0])
        for k, call in enumerate((t.scalar_countbit0, t.scalar_countbit1, t.scalar_countleading0)):
            call(out, a)
            dst[k].set_as(out)

    (out,) = run(unary_kernel(4, "uint64", 4, body), [np.array([0xFF0, 0, 0, 0], np.uint64)], (4, np.uint64))
    np.testing.assert_array_equal(out[:3], [56, 8, 52])


def test_fixpipe_converts_on_the_way() -> None:
    def kernel() -> None:
        t = tik.Tik()
        a = t.Tensor("float16", (256,), tik.scope_gm, "a")
        y = t.Tensor("float16", (256,), tik.scope_gm, "y")
        l1 = t.Tensor("float16", (256,), tik.scope_cbuf, "l1")
        l0a = t.Tensor("float16", (256,), tik.scope_ca, "l0a")
        l0b = t.Tensor("float16", (256,), tik.scope_cb, "l0b")
        l0c = t.Tensor("float32", (256,), tik.scope_cc, "l0c")
        t.data_move(l1, a, 0, 1, 16, 0, 0)
        t.load2dv2(l0a, l1, 0, 1, 0, 1, 0)
        t.load2dv2(l0b, l1, 0, 1, 0, 1, 0)
        t.mmad(l0c, l0a, l0b, 16, 16, 16, 0)
        t.fixpipe(y, l0c, 1, 32, 0, 0, {"quantize_params": {"mode": "fp322fp16"}, "relu": True})
        t.BuildCCE("fixpipe", [a], [y])

    a = half(256).reshape(16, 16)
    (out,) = run(kernel, [a.reshape(-1)], (256, np.float16), soc="Ascend910B1")
    product = a.astype(np.float32) @ a.astype(np.float32).T
    np.testing.assert_allclose(out.reshape(16, 16), np.maximum(product, 0), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend310"])
@pytest.mark.parametrize("shape", [(1, 1), (17, 2), (63, 3), (64, 2)], ids=lambda s: f"mask{s[0]}x{s[1]}")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("op", ["rec", "rsqrt"])
def test_high_precision(op: str, dtype: str, shape: tuple[int, int], soc: str) -> None:
    mask, repeat = shape[0] * (2 if dtype == "float16" else 1), shape[1]
    row = 128 if dtype == "float16" else 64
    parts = {"rec": 2, "rsqrt": 4}[op] + (2 if dtype == "float16" else 0)

    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        work = t.Tensor("float32", (parts * row * 3,), tik.scope_ubuf, "work")
        getattr(t, f"vec_{op}_high_preci")(mask, dst, src, work, repeat, 8, 8)

    x = (RNG.random(row * 3) * 30 + 0.05).astype(dtype)
    (out,) = run(unary_kernel(row * 3, dtype, row * 3, body), [x], (row * 3, np.dtype(dtype)), soc=soc)
    rows = x.reshape(3, row)[:repeat, :mask].astype(np.float64)
    expected = 1 / rows if op == "rec" else 1 / np.sqrt(rows)
    np.testing.assert_allclose(out.reshape(3, row)[:repeat, :mask], expected, rtol=1e-3 if dtype == "float16" else 3e-7)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_high_precision_of_one_row_for_all_repeats(dtype: str) -> None:
    row = 128 if dtype == "float16" else 64

    def body(t: tik.Tik, dst: Any, src: Any) -> None:
        work = t.Tensor("float32", (4 * row,), tik.scope_ubuf, "work")
        t.vec_rec_high_preci(row, dst, src, work, 3, 8, 0)

    x = (RNG.random(row) + 1).astype(dtype)
    (out,) = run(unary_kernel(row, dtype, row * 3, body), [x], (row * 3, np.dtype(dtype)))
    np.testing.assert_allclose(out.reshape(3, row), np.tile(1 / x.astype(np.float64), (3, 1)), rtol=1e-3)
