# SPDX-License-Identifier: Apache-2.0
"""Traced kernels of the cube family on the reference engine against NumPy formulas written independently of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ms_custom_ops import tik
from ms_custom_ops.tik.dtypes import DTYPES
from ms_custom_ops.tik.reference import run_reference
from ms_custom_ops.tik.trace import trace

RNG = np.random.default_rng(17)


def run(
    body: Callable[[tik.Tik, list, list], None],
    inputs: list[np.ndarray],
    outputs: list[tuple[tuple, str]],
    soc: str = "Ascend910A",
) -> list[np.ndarray]:
    """Outputs of a kernel: ``body(tik_instance, input tensors, output tensors)``, all in GM."""

    def kernel() -> None:
        t = tik.Tik()
        ins = [t.Tensor(str(a.dtype), a.shape, tik.scope_gm, f"x{i}") for i, a in enumerate(inputs)]
        outs = [t.Tensor(dtype, shape, tik.scope_gm, f"y{i}") for i, (shape, dtype) in enumerate(outputs)]
        body(t, ins, outs)
        t.BuildCCE("probe", ins, outs)

    results = [np.zeros(shape, DTYPES[dtype].numpy) for shape, dtype in outputs]
    run_reference(trace(kernel, soc=soc), [np.ascontiguousarray(a) for a in inputs], [], results)
    return results


def move(t: tik.Tik, dst: Any, src: Any) -> None:
    """All of src, in whole 32-byte blocks."""
    t.data_move(dst, src, 0, 1, int(np.prod(src.shape)) * DTYPES[src.dtype].size_bytes // 32, 0, 0)


def local(t: tik.Tik, scope: str, name: str, like: Any, dtype: str | None = None) -> Any:
    return t.Tensor(dtype or like.dtype, like.shape, scope, name)


def half(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float16)


def unfolded(x: np.ndarray, kernel: tuple[int, int], stride: int, pad: int, dilation: int = 1, fill: float = 0):
    """[pixels, C, kh, kw] of a (C, H, W) map, by slicing the padded map."""
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    kh, kw = kernel
    rows = (padded.shape[1] - (kh - 1) * dilation - 1) // stride + 1
    cols = (padded.shape[2] - (kw - 1) * dilation - 1) // stride + 1
    out = np.empty((rows * cols, x.shape[0], kh, kw), x.dtype)
    for p in range(rows * cols):
        y0, x0 = p // cols * stride, p % cols * stride
        out[p] = padded[:, y0 : y0 + kh * dilation : dilation, x0 : x0 + kw * dilation : dilation]
    return out


def blocks(x: np.ndarray, c0: int = 16) -> np.ndarray:
    """(C, H, W) as [C1, H, W, C0]."""
    c, h, w = x.shape
    return np.ascontiguousarray(x.reshape(c // c0, c0, h, w).transpose(0, 2, 3, 1))


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
                t.load3dv1(fractal, l1, [pad] * 4, *size, c1, fw, fh, -pad, -pad, stride, stride, kernel, kernel,
                           dilation, dilation, 1, 1, fractals, 0, 0.5)
                t.data_move(outs[0][((c1 * kernel + fh) * kernel + fw) * fractals * 256], fractal, 0, 1,
                            fractals * 16, 0, 0)
        if target != tik.scope_ubuf:
            l0a = t.Tensor("float16", (fractals, 16, 16), target, "l0a")
            t.load3dv1(l0a, l1, (pad,) * 4, *size, 0, 0, 0, -pad, -pad, stride, stride, kernel, kernel, dilation,
                       dilation, 1, 1, fractals, 0, 0.5)
            identity(t, outs[0], l0a, fractals)

    got, = run(body, [blocks(x)], [((2, kernel, kernel, fractals * 16, 16), "float16")])
    taps = got.transpose(3, 0, 4, 1, 2).reshape(-1, 32, kernel, kernel)[: want.shape[0]]
    if target == tik.scope_ubuf:
        np.testing.assert_array_equal(taps, want)
    else:
        np.testing.assert_array_equal(taps[:, :16, 0, 0], want[:, :16, 0, 0])


def identity(t: tik.Tik, dst: Any, l0a: Any, rows: int) -> None:
    """L0A fractals to GM as they are: a product with the unit matrix."""
    ones = t.Tensor("float16", (256,), tik.scope_ubuf, "ones")
    t.vec_dup(128, ones, 0.0, 2, 8)
    with t.for_range(0, 16) as i:
        ones[i * 17].set_as(1.0)
    unit_l1 = t.Tensor("float16", (256,), tik.scope_cbuf, "unit_l1")
    unit = t.Tensor("float16", (256,), tik.scope_cb, "unit")
    t.data_move(unit_l1, ones, 0, 1, 16, 0, 0)
    t.load2dv1(unit, unit_l1, 0, 1, 0, 0)
    l0c = t.Tensor("float32", (rows, 16, 16), tik.scope_cc, "l0c")
    ub = t.Tensor("float16", (rows, 16, 16), tik.scope_ubuf, "ub")
    t.mmad(l0c, l0a, unit, rows * 16, 16, 16, 0)
    t.tensor_mov(ub, l0c, "m", 1, rows, 0, 0)
    t.data_move(dst, ub, 0, 1, rows * 16, 0, 0)


def test_load3dv1_along_the_filter():
    """repeat_mode 0 walks width, height, channel blocks."""
    x = half(32, 5, 4)

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        l1 = local(t, tik.scope_cbuf, "l1", ins[0])
        move(t, l1, ins[0])
        ub = t.Tensor("float16", (18, 16, 16), tik.scope_ubuf, "ub")
        t.load3dv1(ub, l1, [1, 1, 1, 1], 5, 4, 0, 0, 0, -1, -1, 1, 1, 3, 3, 1, 1, 1, 0, 18)
        move(t, outs[0], ub)

    got, = run(body, [blocks(x)], [((2, 3, 3, 16, 16), "float16")])
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
    got, = run(body, [blocks(x), weight], [((32, 16), "float32")], soc)
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

    got, = run(body, [nz(matrix), nz(other)], [((n // 16, n, 16), "float32")], "Ascend910B1")
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
            t.data_move(rows, ins[0][(fh * kernel + fw) * fractals * 256], 0, 1, fractals * 256 // (32 // (256 // per)),
                        0, 0)
            t.col2img(image, rows, [pad] * 4, height, width, fw, fh, -pad, -pad, stride, stride, kernel, kernel, 1, 1,
                      fractals)
        move(t, outs[0], image)

    got, = run(body, [padded.transpose(2, 3, 0, 1)], [((height * width * 16,), dtype)])
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
        t.conv2d(dst, fm, weight, [2, 7, 9, c0], [2, 3, 2, 32, c0], [2, 2], [1, 1, 1, 1], [1, 1],
                 bias=start if bias else None)
        t.fixpipe(outs[0], dst, 2, rows * 2, 0, 0)

    got, = run(body, inputs, [((2, rows, 16), result)], soc)
    want = columns.reshape(pixels, -1) @ w.astype(np.float64).reshape(32, -1).T + (row if bias else 0)
    np.testing.assert_array_equal(got.transpose(1, 0, 2).reshape(rows, 32)[:pixels], want)


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B1"])
def test_product_with_bias(soc):
    a, b, row = (RNG.integers(-5, 6, s).astype(d) for s, d in (((1, 32, 16), "float16"), ((1, 48, 16), "float16"),
                                                             ((48,), "float32")))

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
            t.mmad(c, l0a, l0b, 32, 16, 48, 0, bias_tensor=bias)
        else:
            t.matmul(c, la, lb, 32, 16, 48, bias=bias)
        t.fixpipe(outs[0], c, 3, 64, 0, 0)

    got, = run(body, [a, b, row], [((3, 32, 16), "float32")], soc)
    want = a[0].astype(np.float64) @ b[0].astype(np.float64).T + row
    np.testing.assert_array_equal(got.transpose(1, 0, 2).reshape(32, 48), want)


def through_l0c(
    x: np.ndarray, result: str, shape: tuple, call: Callable, more: list[np.ndarray] = (), soc: str = "Ascend310P3"
) -> np.ndarray:
    """x [fractals, 16, 16] to L0C, then ``call(t, ub, l0c, tensors in UB)`` into a zeroed UB."""

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        staged, ub = local(t, tik.scope_ubuf, "staged", ins[0]), local(t, tik.scope_ubuf, "ub", outs[0])
        l0c = local(t, tik.scope_cc, "l0c", ins[0])
        zero = ub.reinterpret_cast_to("uint16")
        with t.for_range(0, int(np.prod(shape)) * DTYPES[result].size_bytes // 32) as i:
            t.vec_dup(16, zero[i * 16], 0, 1, 8)
        move(t, staged, ins[0])
        t.data_move(l0c, staged, 0, 1, x.shape[0], 0, 0)
        extra = [local(t, tik.scope_ubuf, f"extra{i}", e) for i, e in enumerate(ins[1:])]
        for dst, src in zip(extra, ins[1:], strict=True):
            move(t, dst, src)
        call(t, ub, l0c, extra)
        move(t, outs[0], ub)

    return run(body, [x, *more], [(shape, result)], soc)[0]


INTS = np.arange(-300, 212, dtype=np.int32).reshape(2, 16, 16) * 97


def packed(scale: float, offset: int = 0, shift: int | None = None) -> int:
    """A 64-bit scale word."""
    bits = int(np.float32(scale).view(np.uint32)) | (offset & 511) << 37 | 1 << 46
    return bits if shift is None else bits | (shift - 1) << 32 | 1 << 36


def test_relu_modes():
    x = half(2, 16, 16).astype(np.float32)
    for relu, number in ((False, 1), (True, 2)):
        got = through_l0c(x, "float16", (2, 16, 16), lambda t, u, c, e, n=number: t.data_move(u, c, 0, 1, 2, 0, 0, n))
        want = x.astype(np.float16)
        np.testing.assert_array_equal(got, np.maximum(want, 0) if relu else want)
    got = through_l0c(INTS, "int32", (2, 16, 16), lambda t, u, c, e: t.tensor_mov(u, c, "m", 1, 2, 0, 0, relu=True))
    np.testing.assert_array_equal(got, np.maximum(INTS, 0))


@pytest.mark.parametrize("target", ["int8", "uint8"])
@pytest.mark.parametrize("vector", [False, True], ids=["scalar", "vector"])
def test_requantization_to_bytes(target, vector):
    scales = [0.0078125 * (1 + k) for k in range(16)] if vector else [0.0078125] * 16
    words = np.array([packed(s, 3) for s in scales], np.uint64)
    deq = (lambda e: e[0]) if vector else (lambda e: packed(0.0078125, 3))
    got = through_l0c(
        INTS, target, (2, 16, 16),
        lambda t, u, c, e: t.tensor_mov(u, c, "m", 1, 2, 0, 0, deqscale=deq(e), sid_store_mode=2), [words],
    )
    info = np.iinfo(target)
    want = np.clip(np.rint(INTS * np.array(scales, np.float64)) + 3, info.min, info.max)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mode", [0, 1])
def test_bytes_go_to_halves_of_blocks(mode):
    got = through_l0c(
        INTS, "int8", (2, 16, 2, 16),
        lambda t, u, c, e: t.tensor_mov(u, c, "m", 1, 2, 0, 0, deqscale=packed(2.0**-9), sid_store_mode=mode),
    )
    np.testing.assert_array_equal(got[:, :, mode], np.clip(np.rint(INTS * 2.0**-9), -128, 127))
    assert not got[:, :, 1 - mode].any()


def test_shifts_to_int16():
    got = through_l0c(
        INTS, "int16", (2, 16, 16), lambda t, u, c, e: t.tensor_mov(u, c, "m", 1, 2, 0, 0, deqscale=packed(0, 0, 4))
    )
    np.testing.assert_array_equal(got, INTS >> 4)


@pytest.mark.parametrize("kind", ["half vector", "word", "word vector"])
def test_dequantization_to_half(kind):
    scale = np.array([2.0**-k for k in range(16)])
    if kind == "word":
        scale[:] = 0.125
    words = np.array([packed(s) for s in scale], np.uint64) if "word" in kind else scale.astype(np.float16)
    got = through_l0c(
        INTS, "float16", (2, 16, 16),
        lambda t, u, c, e: t.tensor_mov(u, c, "m", 1, 2, 0, 0, deqscale=e[0] if "vector" in kind else packed(0.125)),
        [words],
    )
    np.testing.assert_array_equal(got, (INTS * scale).astype(np.float16))


@pytest.mark.parametrize("unit", ["v", "sc", "dp"])
def test_block_modes(unit):
    x = np.arange(512, dtype=np.float32).reshape(2, 16, 16)
    want = {"v": x[:, 0], "sc": x[:, :, :4], "dp": np.stack([x[:, :, :8], x[:, :, 8:]], 1)}[unit]
    count = {"v": 2, "sc": 2, "dp": 4}[unit]
    got = through_l0c(x, "float32", want.shape, lambda t, u, c, e: t.tensor_mov(u, c, unit, 1, count, 0, 0))
    np.testing.assert_array_equal(got, want)


def test_broadcasts_into_l0c():
    rows = half(2, 16)

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        ub = local(t, tik.scope_ubuf, "ub", ins[0])
        move(t, ub, ins[0])
        a = t.Tensor("float16", (2, 16, 16), tik.scope_cc, "a")
        b = t.Tensor("float32", (3, 16, 16), tik.scope_cc, "b")
        ua, ub2 = local(t, tik.scope_ubuf, "ua", outs[0]), local(t, tik.scope_ubuf, "ub2", outs[1])
        t.broadcast_ub_to_l0c(a, ub, 1, 2, 0, 0)
        t.mmad_broadcast(b, ub, 1, 1, 3, 0, 0)
        t.data_move(ua, a, 0, 1, 2, 0, 0)
        t.data_move(ub2, b, 0, 1, 3, 0, 0)
        move(t, outs[0], ua)
        move(t, outs[1], ub2)

    one, many = run(body, [rows], [((2, 16, 16), "float16"), ((3, 16, 16), "float32")])
    np.testing.assert_array_equal(one, np.repeat(rows, 16, 0).reshape(2, 16, 16))
    np.testing.assert_array_equal(many, np.broadcast_to(rows[0].astype(np.float32), (3, 16, 16)))


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910B1"])
def test_fixpipe_parameters(soc):
    """int32 product, bias, dequantization per column, addition."""
    a, b = RNG.integers(-5, 6, (1, 16, 32)).astype(np.int8), RNG.integers(-5, 6, (1, 32, 32)).astype(np.int8)
    bias, scale = RNG.integers(-9, 9, 32).astype(np.int32), np.array([0.5, 2.0] * 16, np.float16)
    add = half(2, 16, 16)
    extras = soc == "Ascend310P3"

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        tensors = [local(t, tik.scope_cbuf, f"l{i}", x) for i, x in enumerate(ins)]
        for dst, src in zip(tensors, ins, strict=True):
            move(t, dst, src)
        c = t.Tensor("int32", (2, 16, 16), tik.scope_cbuf_out, "c")
        t.matmul(c, tensors[0], tensors[1], 16, 32, 32)
        params = {"quantize_params": {"mode": "int322fp16", "mode_param": tensors[3]}}
        if extras:
            params.update({"bias": tensors[2], "element-wise-add": tensors[4]})
        t.fixpipe(outs[0], c, 2, 32, 0, 0, params)

    got, = run(body, [a, b, bias, scale, add], [((2, 16, 16), "float16")], soc)
    total = a[0].astype(np.int64) @ b[0].astype(np.int64).T + (bias if extras else 0)
    want = (total * scale.astype(np.float64)).astype(np.float16).reshape(16, 2, 16).transpose(1, 0, 2)
    want = (want.astype(np.float32) + add).astype(np.float16) if extras else want
    np.testing.assert_array_equal(got, want)


def test_fixpipe_to_bfloat16():
    a = half(1, 16, 16)

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        l1, c = local(t, tik.scope_cbuf, "l1", ins[0]), t.Tensor("float32", (16, 16), tik.scope_cbuf_out, "c")
        move(t, l1, ins[0])
        t.matmul(c, l1, l1, 16, 16, 16)
        t.fixpipe(outs[0], c, 1, 32, 0, 0, {"quantize_params": {"mode": "fp322bf16"}, "relu": True})

    got, = run(body, [a], [((16, 16), "bfloat16")], "Ascend910B1")
    want = np.maximum(a[0].astype(np.float64) @ a[0].astype(np.float64).T, 0)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=2**-8, atol=1e-3)


def test_fill_and_its_register():
    def body(t: tik.Tik, ins: list, outs: list) -> None:
        l1, ub = local(t, tik.scope_cbuf, "l1", outs[0]), local(t, tik.scope_ubuf, "ub", outs[0])
        t.tensor_padding_with_matrix(l1, 2, 1.5)
        t.set_l0_set_value(-2.0, "float16")
        t.tensor_padding_with_matrix(l1[256], 1)
        t.data_move(ub, l1, 0, 1, 32, 0, 0)
        move(t, outs[0], ub)

    got, = run(body, [], [((512,), "float16")])
    np.testing.assert_array_equal(got, np.repeat([1.5, -2.0], 256))


@pytest.mark.parametrize("to_hwc", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "uint8", "float32"])
def test_v4dtrans(dtype, to_hwc):
    x = RNG.integers(0, 200, (5, 64)).astype(dtype) if to_hwc else RNG.integers(0, 200, (64, 5)).astype(dtype)

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        a, b = local(t, tik.scope_ubuf, "a", ins[0]), local(t, tik.scope_ubuf, "b", outs[0])
        move(t, a, ins[0])
        t.v4dtrans(to_hwc, b, a, 64, 5)
        move(t, outs[0], b)

    got, = run(body, [x], [(x.T.shape, dtype)], "Ascend310P3")
    np.testing.assert_array_equal(got, x.T)


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(("kind", "dtype"), [(4, "uint8"), (9, "float16"), (0, "uint8")])
def test_load_image(kind, dtype, swap):
    height, width, c0 = 8, 10, 32 // DTYPES[dtype].size_bytes
    planes = {4: [(height, width, 3)], 9: [(height, width)], 0: [(height, width), (height // 2, width // 2, 2)]}[kind]
    images = [RNG.integers(0, 256, s).astype(np.uint8) for s in planes]
    swaps = [int(swap and kind == 4), int(swap and kind == 0), 0]

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        l1, ub = local(t, tik.scope_cbuf, "l1", outs[0]), local(t, tik.scope_ubuf, "ub", outs[0])
        t.load_image(l1, ins[0], ins[-1] if kind == 0 else None, kind, 0,
                     {"src_horizontal_size": width, "src_vertical_size": height},
                     {"dst_horizontal_size": 4, "dst_vertical_size": 6, "crop_horizontal_start": 2,
                      "crop_vertical_start": 2},
                     None, swaps, None, None, None, None, 0, None, None, None, None, 0)
        t.data_move(ub, l1, 0, 1, 24, 0, 0)
        move(t, outs[0], ub)

    got, = run(body, images, [((6, 4, c0), dtype)])
    rows, cols = slice(2, 8), slice(2, 6)
    if kind == 4:
        want = images[0][rows, cols, ::-1] if swap else images[0][rows, cols]
    else:
        want = images[0][rows, cols, None]
    if kind == 0:
        pairs = np.repeat(np.repeat(images[1], 2, 0), 2, 1)[rows, cols]
        want = np.concatenate([want, pairs[..., ::-1] if swap else pairs], 2)
    np.testing.assert_array_equal(got[..., : want.shape[2]], want)
    assert not got[..., want.shape[2] :].any()


def test_load_smask_and_load2d_from_gm():
    x = half(2, 16, 16)

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        mask = t.Tensor("uint16", (32,), tik.scope_smask, "mask")
        t.load_smask(mask, ins[1], 2)
        l0a = t.Tensor("float16", (2, 16, 16), tik.scope_ca, "l0a")
        t.load2dv1(l0a, ins[0], 1, 2, 0, 0, True)
        identity(t, outs[0], l0a, 2)

    got, = run(body, [x, np.arange(32, dtype=np.uint16)], [((2, 16, 16), "float16")])
    np.testing.assert_array_equal(got, np.stack([x[1].T, x[1].T]))


@pytest.mark.parametrize(("count", "nburst"), [(1, 1), (9, 1), (13, 2), (31, 2)])
def test_read_of_a_partial_last_block(count, nburst):
    """data_move from GM whose last block reaches beyond the tensor takes the bytes that are there."""
    x = half(count).astype(np.float32)
    whole = -(-count // 8) * 8
    burst = whole // 8 // nburst

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        ub = t.Tensor("float32", (whole,), tik.scope_ubuf, "ub")
        t.data_move(ub, ins[0], 0, nburst, burst, 0, 0)
        t.data_move(outs[0], ub, 0, 1, whole // 8, 0, 0)

    got, = run(body, [x], [((whole,), "float32")])
    np.testing.assert_array_equal(got[:count], x)
