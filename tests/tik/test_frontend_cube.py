# SPDX-License-Identifier: Apache-2.0
"""Traced kernels of img2col, convolution and products on the reference engine against independent NumPy formulas."""

from __future__ import annotations

import numpy as np
import pytest
from cube_kernels import RNG, blocks, half, identity, local, move, run, unfolded

from ms_custom_ops import tik
from ms_custom_ops.program.dtypes import DTYPES


@pytest.mark.parametrize("target", [tik.scope_ubuf, tik.scope_ca], ids=["ub", "l0a"])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad", "dilation"),
    [((7, 7), 3, 1, 1, 1), ((9, 5), 2, 2, 0, 1), ((6, 8), 3, 1, 2, 2), ((15, 17), 1, 1, 0, 1)],
    ids=["same", "stride", "dilated", "pointwise"],
)
def test_load3dv1_along_the_pixels(size, kernel, stride, pad, dilation, target):
    """Every tap of every channel block of a map: fractals of 16 pixels."""
    x = half(32, *size)
    want = unfolded(x, (kernel, kernel), stride, pad, dilation, fill=0.5)
    fractals = -(-want.shape[0] // 16)

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        l1 = local(t, tik.scope_cbuf, "l1", ins[0])
        move(t, l1, ins[0])
        with t.for_range(0, 2) as c1, t.for_range(0, kernel) as fh, t.for_range(0, kernel) as fw:
            if target == tik.scope_ubuf:
                fractal = t.Tensor("float16", (fractals, 16, 16), target, "fractal")
                t.load3dv1(
                    fractal,
                    l1,
                    [pad] * 4,
                    *size,
                    c1,
                    fw,
                    fh,
                    -pad,
                    -pad,
                    stride,
                    stride,
                    kernel,
                    kernel,
                    dilation,
                    dilation,
                    1,
                    1,
                    fractals,
                    0,
                    0.5,
                )
                t.data_move(
                    outs[0][((c1 * kernel + fh) * kernel + fw) * fractals * 256], fractal, 0, 1, fractals * 16, 0, 0
                )
        if target != tik.scope_ubuf:
            l0a = t.Tensor("float16", (fractals, 16, 16), target, "l0a")
            t.load3dv1(
                l0a,
                l1,
                (pad,) * 4,
                *size,
                0,
                0,
                0,
                -pad,
                -pad,
                stride,
                stride,
                kernel,
                kernel,
                dilation,
                dilation,
                1,
                1,
                fractals,
                0,
                0.5,
            )
            identity(t, outs[0], l0a, fractals)

    (got,) = run(body, [blocks(x)], [((2, kernel, kernel, fractals * 16, 16), "float16")])
    taps = got.transpose(3, 0, 4, 1, 2).reshape(-1, 32, kernel, kernel)[: want.shape[0]]
    if target == tik.scope_ubuf:
        np.testing.assert_array_equal(taps, want)
    else:
        np.testing.assert_array_equal(taps[:, :16, 0, 0], want[:, :16, 0, 0])


def test_load3dv1_along_the_filter():
    """repeat_mode 0 walks width, height, channel blocks."""
    x = half(32, 5, 4)

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        l1 = local(t, tik.scope_cbuf, "l1", ins[0])
        move(t, l1, ins[0])
        ub = t.Tensor("float16", (18, 16, 16), tik.scope_ubuf, "ub")
        t.load3dv1(ub, l1, [1, 1, 1, 1], 5, 4, 0, 0, 0, -1, -1, 1, 1, 3, 3, 1, 1, 1, 0, 18)
        move(t, outs[0], ub)

    (got,) = run(body, [blocks(x)], [((2, 3, 3, 16, 16), "float16")])
    want = unfolded(x, (3, 3), 1, 1)[:16].reshape(16, 2, 16, 3, 3).transpose(1, 3, 4, 0, 2)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910B1"])
def test_load3dv2_product(soc):
    """Image to column into L0A, mmad with a weight, against the convolution."""
    x, w = half(16, 6, 5), half(16, 16, 3, 3)
    pixels, depth = 30, 144

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        l1, lw = local(t, tik.scope_cbuf, "l1", ins[0]), local(t, tik.scope_cbuf, "lw", ins[1])
        move(t, l1, ins[0])
        move(t, lw, ins[1])
        a = t.Tensor("float16", (32 * depth,), tik.scope_ca, "a")
        b = t.Tensor("float16", (depth * 16,), tik.scope_cb, "b")
        c = t.Tensor("float32", (2, 16, 16), tik.scope_cc, "c")
        t.load3dv2(a, l1, [1, 1, 1, 1], 6, 5, 16, depth, 32, 0, 0, 1, 1, 3, 3, 1, 1)
        t.load2dv2(b, lw, 0, depth // 16, 0, 1, 0)
        t.mmad(c, a, b, 32, depth, 16, 0)
        if soc == "Ascend910B1":
            t.fixpipe(outs[0], c, 1, 64, 0, 0)
        else:
            ub = t.Tensor("float32", (2, 16, 16), tik.scope_ubuf, "ub")
            t.data_move(ub, c, 0, 1, 2, 0, 0)
            move(t, outs[0], ub)

    # B as nZ: [K1 = (kh, kw)][n][k0].
    weight = np.ascontiguousarray(w.transpose(2, 3, 0, 1))
    (got,) = run(body, [blocks(x), weight], [((32, 16), "float32")], soc)
    a = unfolded(x, (3, 3), 1, 1).astype(np.float64).reshape(pixels, -1)
    np.testing.assert_allclose(got[:pixels], a @ w.astype(np.float64).reshape(16, -1).T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("to_l0b", [True, False], ids=["l0b", "transposed l0a"])
def test_load3dv2_turns_a_matrix(to_l0b):
    """A 1x1 map of K rows is a matrix: into L0B as B[k, n], into L0A as its transpose."""
    k, n = 48, 32
    matrix, other = half(k, n), half(n if to_l0b else k, k if to_l0b else n)

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        l1, l2 = local(t, tik.scope_cbuf, "l1", ins[0]), local(t, tik.scope_cbuf, "l2", ins[1])
        move(t, l1, ins[0])
        move(t, l2, ins[1])
        a = t.Tensor("float16", (k * n,), tik.scope_ca, "a")
        b = t.Tensor("float16", (k * n,), tik.scope_cb, "b")
        rows = n
        c = t.Tensor("float32", (n, n), tik.scope_cc, "c")
        if to_l0b:  # other [n, k] @ matrix [k, n]
            t.load3dv2(b, l1, [0] * 4, 1, k, n, n, k, 0, 0, 1, 1, 1, 1, 1, 1)
            t.load3dv2(a, l2, [0] * 4, 1, n, k, k, n, 0, 0, 1, 1, 1, 1, 1, 1)
        else:  # transpose of matrix [n, k] @ other [k, n]
            t.load3dv2(a, l1, [0] * 4, 1, k, n, n, k, 0, 0, 1, 1, 1, 1, 1, 1, en_transpose=True)
            t.load3dv2(b, l2, [0] * 4, 1, k, n, n, k, 0, 0, 1, 1, 1, 1, 1, 1)
        t.mmad(c, a, b, rows, k, n, 0)
        t.fixpipe(outs[0], c, n // 16, n * 2, 0, 0)

    def nz(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(x.reshape(x.shape[0], -1, 16).transpose(1, 0, 2))

    (got,) = run(body, [nz(matrix), nz(other)], [((n // 16, n, 16), "float32")], "Ascend910B1")
    left, right = (other, matrix) if to_l0b else (matrix.T, other)
    want = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(got.transpose(1, 0, 2).reshape(n, n), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_col2img_is_the_adjoint_of_img2col(dtype):
    """<unfold(x), y> = <x, fold(y)> for whole numbers, where every order of adding gives the same sum."""
    height, width, kernel, stride, pad = 7, 6, 3, 2, 1
    x = RNG.integers(-4, 5, (16, height, width)).astype(dtype)
    columns = unfolded(x, (kernel, kernel), stride, pad)
    y = RNG.integers(-3, 4, columns.shape).astype(dtype)
    fractals = -(-columns.shape[0] // 16)
    padded = np.zeros((fractals * 16, *columns.shape[1:]), dtype)
    padded[: columns.shape[0]] = y

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        image = t.Tensor(dtype, (height * width * 16,), tik.scope_ubuf, "image")
        per = 256 // DTYPES[dtype].size_bytes
        with t.for_range(0, height * width * 16 // 32) as i:
            t.vec_dup(32, image[i * 32], 0.0, 1, 8)
        assert per
        with t.for_range(0, kernel) as fh, t.for_range(0, kernel) as fw:
            rows = t.Tensor(dtype, (fractals * 256,), tik.scope_ubuf, "rows")
            t.data_move(
                rows, ins[0][(fh * kernel + fw) * fractals * 256], 0, 1, fractals * 256 // (32 // (256 // per)), 0, 0
            )
            t.col2img(
                image,
                rows,
                [pad] * 4,
                height,
                width,
                fw,
                fh,
                -pad,
                -pad,
                stride,
                stride,
                kernel,
                kernel,
                1,
                1,
                fractals,
            )
        move(t, outs[0], image)

    (got,) = run(body, [padded.transpose(2, 3, 0, 1)], [((height * width * 16,), dtype)])
    folded = got.reshape(height, width, 16).transpose(2, 0, 1).astype(np.float64)
    assert (columns.astype(np.float64) * y).sum() == (x.astype(np.float64) * folded).sum()
    assert np.abs(folded).sum() > 0


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize(
    ("soc", "dtype", "result"),
    [("Ascend910A", "float16", "float32"), ("Ascend310", "int8", "int32"), ("Ascend910B1", "float32", "float32")],
)
def test_conv2d(soc, dtype, result, bias):
    c0 = 32 // DTYPES[dtype].size_bytes
    x = RNG.integers(-5, 6, (2 * c0, 7, 9)).astype(dtype)
    w = RNG.integers(-5, 6, (32, 2 * c0, 3, 2)).astype(dtype)
    row = RNG.integers(-9, 10, 32).astype(result)
    columns = unfolded(np.pad(x, ((0, 0), (1, 1), (1, 1))), (3, 2), 2, 0).astype(np.float64)
    pixels, rows = columns.shape[0], -(-columns.shape[0] // 16) * 16
    inputs = [blocks(x, c0), np.ascontiguousarray(w.reshape(32, 2, c0, 3, 2).transpose(1, 3, 4, 0, 2)), row]

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        fm, weight = local(t, tik.scope_cbuf, "fm", ins[0]), local(t, tik.scope_cbuf, "weight", ins[1])
        start = local(t, tik.scope_cbuf if soc == "Ascend910B1" else tik.scope_ubuf, "start", ins[2])
        for a, b in zip((fm, weight, start), ins, strict=True):
            move(t, a, b)
        dst = t.Tensor(result, (2, rows, 16), tik.scope_cbuf_out, "dst")
        t.conv2d(
            dst,
            fm,
            weight,
            [2, 7, 9, c0],
            [2, 3, 2, 32, c0],
            [2, 2],
            [1, 1, 1, 1],
            [1, 1],
            bias=start if bias else None,
        )
        t.fixpipe(outs[0], dst, 2, rows * 2, 0, 0)

    (got,) = run(body, inputs, [((2, rows, 16), result)], soc)
    want = columns.reshape(pixels, -1) @ w.astype(np.float64).reshape(32, -1).T + (row if bias else 0)
    np.testing.assert_array_equal(got.transpose(1, 0, 2).reshape(rows, 32)[:pixels], want)


@pytest.mark.parametrize(("soc", "later"), [("Ascend910A", False), ("Ascend910B1", False), ("Ascend910B1", True)])
def test_product_with_bias(soc, later):
    a, b, row = (
        RNG.integers(-5, 6, s).astype(d)
        for s, d in (((1, 32, 16), "float16"), ((1, 48, 16), "float16"), ((48,), "float32"))
    )

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        on_b = soc == "Ascend910B1"
        la, lb = local(t, tik.scope_cbuf, "la", ins[0]), local(t, tik.scope_cbuf, "lb", ins[1])
        bias = local(t, tik.scope_cbuf if on_b else tik.scope_ubuf, "bias", ins[2])
        for dst, src in zip((la, lb, bias), ins, strict=True):
            move(t, dst, src)
        c = t.Tensor("float32", (3, 32, 16), tik.scope_cbuf_out, "c")
        if on_b:
            l0a, l0b = local(t, tik.scope_ca, "l0a", ins[0]), local(t, tik.scope_cb, "l0b", ins[1])
            t.load2dv2(l0a, la, 0, 2, 0, 1, 0)
            t.load2dv2(l0b, lb, 0, 3, 0, 1, 0)
            m, n = (t.Scalar("int32", name, value) if later else value for name, value in (("m", 31), ("n", 48)))
            t.mmad(c, l0a, l0b, m, 16, n, 0, bias_tensor=bias)
        else:
            t.matmul(c, la, lb, 32, 16, 48, bias=bias)
        t.fixpipe(outs[0], c, 3, 64, 0, 0)

    (got,) = run(body, [a, b, row], [((3, 32, 16), "float32")], soc)
    want = a[0].astype(np.float64) @ b[0].astype(np.float64).T + row
    rows = 31 if soc == "Ascend910B1" else 32
    np.testing.assert_array_equal(got.transpose(1, 0, 2).reshape(32, 48)[:rows], want[:rows])
