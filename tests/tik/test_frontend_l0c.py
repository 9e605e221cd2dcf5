# SPDX-License-Identifier: Apache-2.0
"""Traced kernels that bring results out of L0C and values into it, against independent NumPy formulas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cube_kernels import RNG, half, local, move, run

from ms_custom_ops import tik
from ms_custom_ops.program.dtypes import DTYPES


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
        INTS,
        target,
        (2, 16, 16),
        lambda t, u, c, e: t.tensor_mov(u, c, "m", 1, 2, 0, 0, deqscale=deq(e), sid_store_mode=2),
        [words],
    )
    info = np.iinfo(target)
    want = np.clip(np.rint(INTS * np.array(scales, np.float64)) + 3, info.min, info.max)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mode", [0, 1])
def test_bytes_go_to_halves_of_blocks(mode):
    got = through_l0c(
        INTS,
        "int8",
        (2, 16, 2, 16),
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
        INTS,
        "float16",
        (2, 16, 16),
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


def test_strides_of_a_broadcast_are_of_src_then_of_dst():
    """A row of biases over the columns of a product [N1, M1, 16, 16]: M1 - 1 fractals lie between its blocks."""
    rows = np.arange(48, dtype=np.float32).reshape(3, 16)

    def body(t: tik.Tik, ins: list, outs: list) -> None:
        ub, back = local(t, tik.scope_ubuf, "ub", ins[0]), local(t, tik.scope_ubuf, "back", outs[0])
        move(t, ub, ins[0])
        a = t.Tensor("float32", (3, 2, 16, 16), tik.scope_cc, "a")
        with t.for_range(0, 2) as m1:
            t.broadcast_ub_to_l0c(a[0, m1, 0, 0], ub, 3, 1, 0, 1)
        t.data_move(back, a, 0, 1, 6, 0, 0)
        move(t, outs[0], back)

    (got,) = run(body, [rows], [((3, 2, 16, 16), "float32")])
    np.testing.assert_array_equal(got, np.broadcast_to(rows[:, None, None], (3, 2, 16, 16)))


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

    (got,) = run(body, [a, b, bias, scale, add], [((2, 16, 16), "float16")], soc)
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

    (got,) = run(body, [a], [((16, 16), "bfloat16")], "Ascend910B1")
    want = np.maximum(a[0].astype(np.float64) @ a[0].astype(np.float64).T, 0)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=2**-8, atol=1e-3)
