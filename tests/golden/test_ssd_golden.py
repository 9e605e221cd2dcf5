# SPDX-License-Identifier: Apache-2.0
"""The goldens of the Mamba-2 and Mamba-3 scans: second formulas, finite differences, MindSpore's autograd."""

from __future__ import annotations

import numpy as np
import pytest
from scan_inputs import check_finite_differences, mamba3_inputs, ssd_inputs

from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.op_impl.mamba3_chunk_scan.golden import (
    mamba3_by_ssd,
    mamba3_chunk_scan,
    mamba3_chunk_scan_grad,
    trapezoid,
)
from ms_custom_ops.op_impl.ssd_chunk_scan.golden import ssd_by_chunks, ssd_chunk_scan, ssd_chunk_scan_grad
from ms_custom_ops.testing import rms_error

# (B, S, H, G, P, N, chunk)
SHAPES = [(1, 1, 1, 1, 1, 1, 1), (2, 15, 2, 1, 3, 5, 4), (1, 17, 4, 2, 4, 3, 16), (1, 63, 2, 2, 5, 7, 24)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "B{}-S{}-H{}g{}-P{}-N{}-C{}".format(*s))
# (B, S, R, H, G, P, N, chunk)
SHAPES3 = [(1, 1, 1, 1, 1, 1, 1, 1), (2, 15, 2, 2, 1, 3, 5, 4), (1, 17, 4, 4, 2, 4, 3, 16), (1, 33, 1, 2, 2, 5, 7, 8)]
every_shape3 = pytest.mark.parametrize("shape", SHAPES3, ids=lambda s: "B{}-S{}-R{}-H{}g{}-P{}-N{}-C{}".format(*s))


@every_shape
def test_ssd_recurrence_equals_chunked_form(shape):
    t = ssd_inputs(shape)
    for expected, actual in zip(ssd_chunk_scan(**t), ssd_by_chunks(**t, chunk_size=shape[-1]), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-11)


@every_shape
def test_ssd_gradient_against_finite_differences(shape):
    t = ssd_inputs(shape)
    rng = np.random.default_rng(3)
    d = [rng.standard_normal(out.shape) for out in ssd_chunk_scan(**t)]
    check_finite_differences(ssd_chunk_scan, t, ssd_chunk_scan_grad(**t, dy=d[0], d_final=d[1]), d)


@every_shape
def test_ssd_gradient_against_mindspore_autograd(shape):
    ms = pytest.importorskip("mindspore")
    from mindspore import ops

    _, s, h, g, *_ = shape
    t = ssd_inputs(shape)
    lower = ms.Tensor(np.tril(np.ones((s, s))))
    cs_of = ms.Tensor(np.triu(np.ones((s, s))))  # running sum as a product: float64 cumsum has no CPU gradient

    def composition(x, da, b, c, h0):
        b, c = (ops.transpose(ops.repeat_interleave(v, h // g, 2), (0, 2, 1, 3)) for v in (b, c))
        cs = ops.matmul(da, cs_of)
        seg = (cs.expand_dims(-1) - cs.expand_dims(-2)) * lower
        scores = ops.matmul(c, ops.transpose(b, (0, 1, 3, 2))) * ops.exp(seg) * lower
        xs = ops.transpose(x, (0, 2, 1, 3))
        y = ops.matmul(scores, xs)
        y = y + ops.exp(cs).expand_dims(-1) * ops.matmul(c, ops.transpose(h0, (0, 1, 3, 2)))
        rest = ops.exp(cs[:, :, -1:] - cs).expand_dims(-1)
        final = ops.exp(cs[:, :, -1:]).expand_dims(-1) * h0 + ops.matmul(ops.transpose(xs * rest, (0, 1, 3, 2)), b)
        return ops.transpose(y, (0, 2, 1, 3)), final

    names = ("x", "da", "B", "C", "initial_states")
    values = [ms.Tensor(t[n]) for n in names]
    outputs = composition(*values)
    for expected, actual in zip(ssd_chunk_scan(**t), outputs, strict=True):
        np.testing.assert_allclose(actual.asnumpy(), expected, rtol=1e-11, atol=1e-11)
    rng = np.random.default_rng(4)
    d = [rng.standard_normal(out.shape) for out in outputs]
    gradient = ms.ops.GradOperation(get_all=True, sens_param=True)(composition)
    actual = gradient(*values, tuple(ms.Tensor(x) for x in d))
    expected = ssd_chunk_scan_grad(**t, dy=d[0], d_final=d[1])
    for name, value in zip(names, actual, strict=True):
        assert rms_error(value.asnumpy(), expected[name]) <= 1e-12, name


def test_ssd_packed_sequences_do_not_see_each_other():
    t = ssd_inputs((1, 23, 2, 1, 3, 4, 4))
    t["initial_states"] = np.random.default_rng(5).standard_normal((3, 2, 3, 4))
    bounds = [0, 5, 5, 23]
    y, final = ssd_chunk_scan(**t, cu_seqlens=bounds)
    rng = np.random.default_rng(6)
    d = dict(dy=rng.standard_normal(y.shape), d_final=rng.standard_normal(final.shape))
    gradient = ssd_chunk_scan_grad(**t, **d, cu_seqlens=bounds)
    for i, (a, b) in enumerate(zip(bounds, bounds[1:], strict=False)):
        one = dict(
            x=t["x"][:, a:b],
            da=t["da"][:, :, a:b],
            B=t["B"][:, a:b],
            C=t["C"][:, a:b],
            initial_states=t["initial_states"][i : i + 1],
        )
        if a == b:
            np.testing.assert_array_equal(final[i], t["initial_states"][i])
            continue
        y_one, final_one = ssd_chunk_scan(**one)
        np.testing.assert_array_equal(y[:, a:b], y_one)
        np.testing.assert_array_equal(final[i : i + 1], final_one)
        grad_one = ssd_chunk_scan_grad(**one, dy=d["dy"][:, a:b], d_final=d["d_final"][i : i + 1])
        np.testing.assert_array_equal(gradient["x"][:, a:b], grad_one["x"])
        np.testing.assert_array_equal(gradient["initial_states"][i : i + 1], grad_one["initial_states"])


@every_shape3
def test_mamba3_recurrence_equals_scans_with_factors(shape):
    t = mamba3_inputs(shape)
    del t["initial_states"]
    for expected, actual in zip(mamba3_chunk_scan(**t), mamba3_by_ssd(**t, chunk_size=shape[-1]), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10)


@every_shape3
def test_mamba3_gradient_against_finite_differences(shape):
    t = mamba3_inputs(shape)
    rng = np.random.default_rng(7)
    d = [rng.standard_normal(out.shape) for out in mamba3_chunk_scan(**t)]
    check_finite_differences(mamba3_chunk_scan, t, mamba3_chunk_scan_grad(**t, do=d[0], d_final=d[1]), d)


# Short: the composition is one graph node per step and operator.
@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 1, 1, 1, 1), (2, 7, 3, 4, 2, 3, 5, 4)], ids=["S1-R1", "S7-R3-H4g2"])
def test_mamba3_gradient_against_mindspore_autograd(shape):
    ms = pytest.importorskip("mindspore")
    from mindspore import ops

    b, s, r, h, g, p, n, _ = shape
    t = mamba3_inputs(shape)
    one = ms.Tensor(np.float64(1.0))

    def composition(q, k, v, da, dt, trap, h0):
        q, k = (ops.repeat_interleave(x, h // g, 3) for x in (q, k))
        state, before, outputs = h0, ops.zeros_like(h0), []
        weight = ops.sigmoid(trap)
        for i in range(s):
            kv = ops.matmul(ops.transpose(v[:, i], (0, 2, 3, 1)), ops.transpose(k[:, i], (0, 2, 1, 3)))
            new, old = (w[:, :, i].reshape(b, h, 1, 1) for w in (weight * dt, (one - weight) * dt))
            state = ops.exp(da[:, :, i]).reshape(b, h, 1, 1) * (state + old * before) + new * kv
            out = ops.matmul(state, ops.transpose(q[:, i], (0, 2, 3, 1)))
            outputs.append(ops.transpose(out, (0, 3, 1, 2)))
            before = kv
        return ops.stack(outputs, 1), state

    names = ("q", "k", "v", "da", "dt", "trap", "initial_states")
    values = [ms.Tensor(t[name]) for name in names]
    outputs = composition(*values)
    rng = np.random.default_rng(8)
    d = [rng.standard_normal(out.shape) for out in outputs]
    gradient = ms.ops.GradOperation(get_all=True, sens_param=True)(composition)
    actual = gradient(*values, tuple(ms.Tensor(x) for x in d))
    expected = mamba3_chunk_scan_grad(**t, do=d[0], d_final=d[1])
    for name, value in zip(names, actual, strict=True):
        assert rms_error(value.asnumpy(), expected[name]) <= 1e-12, name


def test_trapezoid_factor_takes_the_next_step():
    factor, gamma = trapezoid(np.array([[[1.0, 2.0, 4.0]]]), np.zeros((1, 1, 3)))
    np.testing.assert_array_equal(gamma, [[[0.5, 1.0, 2.0]]])
    np.testing.assert_array_equal(factor, [[[1.5, 3.0, 2.0]]])


@pytest.mark.parametrize(
    "name, shape, text",
    [
        ("da", (1, 2, 9), "accepted: (B, H, S) = (1, 2, 4)"),
        ("B", (1, 4, 3, 4), "G a divisor of 2"),
        ("initial_states", (1, 2, 4, 3), "accepted: (B, H, P, N) = (1, 2, 3, 4)"),
        ("x", (4, 2, 3), "accepted: 4, shape"),
    ],
)
def test_ssd_golden_refuses(name, shape, text):
    t = ssd_inputs((1, 4, 2, 1, 3, 4, 4)) | {name: np.zeros(shape)}
    with pytest.raises(OpArgumentError, match=r"^ssd_chunk_scan: ") as caught:
        ssd_chunk_scan(**t)
    assert text in str(caught.value)


def test_packed_golden_refuses_bounds_that_do_not_cover():
    with pytest.raises(OpArgumentError, match=r"cu_seqlens is \[0, 3\].*accepted: sums of lengths from 0 to S"):
        ssd_chunk_scan(**ssd_inputs((1, 4, 2, 1, 3, 4, 4)), cu_seqlens=[0, 3])


@pytest.mark.parametrize(
    "name, shape, text",
    [
        ("dt", (1, 2, 9), "accepted: (B, H, S) = (1, 2, 4)"),
        ("k", (1, 4, 2, 1, 5), "accepted: both (B, S, R, G, N)"),
        ("initial_states", (1, 2, 4, 3), "accepted: (B, H, P, N) = (1, 2, 3, 4)"),
        ("v", (4, 2, 3), "accepted: 5, shape"),
    ],
)
def test_mamba3_golden_refuses(name, shape, text):
    t = mamba3_inputs((1, 4, 2, 2, 1, 3, 4, 4)) | {name: np.zeros(shape)}
    with pytest.raises(OpArgumentError, match=r"^mamba3_chunk_scan: ") as caught:
        mamba3_chunk_scan(**t)
    assert text in str(caught.value)
