# SPDX-License-Identifier: Apache-2.0
"""Goldens of the segment-sum ops: second formulas, finite differences, MindSpore's autograd, the original's
output.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.op_impl.bwd_dadt_cumsum.golden import bwd_dadt_cumsum
from ms_custom_ops.op_impl.bwd_dadt_fused.golden import bwd_dadt_fused
from ms_custom_ops.op_impl.bwd_dtrap_ddt.golden import bwd_dtrap_ddt
from ms_custom_ops.op_impl.bwd_segsum_dadt.golden import bwd_segsum_dadt
from ms_custom_ops.op_impl.dacs_segsum.golden import dacs_segsum
from ms_custom_ops.op_impl.segsum.chunks import chunk_slots, pack, slot_lengths, unpack
from ms_custom_ops.op_impl.segsum_decay.golden import segsum_decay
from ms_custom_ops.testing import assert_rms, rms_error

ORACLE = Path(__file__).parents[1] / "data" / "segsum_triton_h200.npz"
SHAPES = [(1, 1, 1, 1), (1, 2, 1, 2), (2, 1, 3, 3), (1, 2, 2, 7), (2, 1, 2, 15), (1, 1, 2, 17), (1, 1, 1, 63)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "B{}-H{}-n{}-C{}".format(*s))


def operands(shape, seed=3):
    b, h, n, c = shape
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((b, h, n, c, c)),
        rng.standard_normal((b, h, n, c, c)),
        rng.standard_normal((b, h, n * c)),
    )


@every_shape
def test_bwd_segsum_dadt_matches_two_reductions_and_a_scan(shape):
    d, s, ddt = operands(shape)
    z = np.tril(np.exp(s) * d.swapaxes(-1, -2), -1)
    steps = z.sum(-2) - z.sum(-1)
    expected = ddt + (np.cumsum(steps, -1) - steps).reshape(ddt.shape)
    np.testing.assert_allclose(bwd_segsum_dadt(d, s, ddt, chunk_size=shape[3]), expected, rtol=1e-11, atol=1e-11)


@every_shape
def test_bwd_segsum_dadt_takes_both_index_orders(shape):
    d, s, ddt = operands(shape)
    np.testing.assert_array_equal(
        bwd_segsum_dadt(d, s, ddt), bwd_segsum_dadt(d.swapaxes(-1, -2), s, ddt, layout="query_key")
    )


@every_shape
@pytest.mark.parametrize("garbage", [np.inf, -np.inf, np.nan])
def test_bwd_segsum_dadt_ignores_what_is_not_below_the_diagonal(shape, garbage):
    d, s, ddt = operands(shape)
    unused = ~np.tril(np.ones(s.shape[-2:], bool), -1)
    dirty_s, dirty_d = np.where(unused, garbage, s), np.where(unused.T, garbage, d)
    np.testing.assert_array_equal(bwd_segsum_dadt(dirty_d, dirty_s, ddt), bwd_segsum_dadt(d, s, ddt))


def test_bwd_segsum_dadt_of_short_chunks_is_that_of_smaller_chunks():
    d, s, _ = operands((2, 1, 2, 9))
    out = bwd_segsum_dadt(d, s, None, lengths=[4, 9]).reshape(2, 1, 2, 9)
    np.testing.assert_allclose(
        out[:, :, 0, :4], bwd_segsum_dadt(d[:, :, :1, :4, :4], s[:, :, :1, :4, :4])[:, :, :4], rtol=1e-13
    )
    np.testing.assert_array_equal(out[:, :, 0, 4:], 0)


@every_shape
def test_decay_gradient_matches_finite_differences(shape):
    b, h, n, c = shape
    rng = np.random.default_rng(5)
    da = -np.abs(rng.standard_normal((b, h, n * c)))
    dy = rng.standard_normal((b, h, n, c, c))
    decay, segsum = segsum_decay(da, c)
    gradient = bwd_segsum_dadt(dy, segsum, None, None, c, "query_key")
    direction = rng.standard_normal(da.shape)
    eps = 1e-5
    step = segsum_decay(da + eps * direction, c)[0] - segsum_decay(da - eps * direction, c)[0]
    np.testing.assert_allclose((gradient * direction).sum(), (dy * step).sum() / (2 * eps), rtol=1e-7, atol=1e-8)
    np.testing.assert_array_equal(decay, np.tril(decay, -1))


@every_shape
def test_running_sums_match_numpy_and_clamp(shape):
    b, h, n, c = shape
    da = np.random.default_rng(7).standard_normal((b, h, n * c))
    x = da.reshape(b, h, n, c)
    total = np.cumsum(x, -1)
    da_cs, da_cs_rev, segsum = dacs_segsum(da, c)
    np.testing.assert_allclose(da_cs, np.minimum(total, 0).reshape(da.shape), atol=1e-13)
    np.testing.assert_allclose(da_cs_rev, np.minimum(total[..., -1:] - total, 0).reshape(da.shape), atol=1e-13)
    lower = np.tril(np.ones((c, c), bool), -1)
    expected = np.where(lower, np.minimum(total[..., :, None] - total[..., None, :], 0), 0)
    np.testing.assert_allclose(segsum, expected, atol=1e-13)


@every_shape
def test_dadt_cumsum_is_the_gradient_of_the_running_sums(shape):
    b, h, n, c = shape
    rng = np.random.default_rng(9)
    da = -np.abs(rng.standard_normal((b, h, n * c)))
    down, up, direction = rng.standard_normal((3, *da.shape))
    da_cs, da_cs_rev, _ = dacs_segsum(da, c)
    gradient = bwd_dadt_cumsum(down, up, da_cs, da_cs_rev, c)

    def loss(x):
        cs, rev, _ = dacs_segsum(x, c)
        return (down * np.exp(cs)).sum() + (up * np.exp(rev)).sum()

    eps = 1e-5
    slope = (loss(da + eps * direction) - loss(da - eps * direction)) / (2 * eps)
    np.testing.assert_allclose((gradient * direction).sum(), slope, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("cu_seqlens", [None, [0, 4, 4, 11]], ids=["one", "packed_with_an_empty_one"])
def test_dtrap_ddt_is_the_gradient_of_the_trapezoid(cu_seqlens):
    rng = np.random.default_rng(11)
    trap, dfactor, dgamma, v, w = rng.standard_normal((5, 2, 3, 11))
    dt = np.abs(rng.standard_normal((2, 3, 11)))
    last = {10} if cu_seqlens is None else {x - 1 for x in cu_seqlens[1:]}

    def loss(trap, dt):
        s = 1 / (1 + np.exp(-trap))
        total = 0.0
        for t in range(11):
            gamma = s[..., t] * dt[..., t]
            following = 0 if t in last else (1 - s[..., t + 1]) * dt[..., t + 1]
            total += (dgamma[..., t] * gamma + dfactor[..., t] * (gamma + following)).sum()
        return total

    ddt, dtrap = bwd_dtrap_ddt(trap, dt, dfactor, dgamma, cu_seqlens)
    eps = 1e-6
    np.testing.assert_allclose(
        (ddt * v).sum(), (loss(trap, dt + eps * v) - loss(trap, dt - eps * v)) / (2 * eps), rtol=1e-7
    )
    np.testing.assert_allclose(
        (dtrap * w).sum(), (loss(trap + eps * w, dt) - loss(trap - eps * w, dt)) / (2 * eps), rtol=1e-7
    )


@pytest.mark.parametrize("c", [2, 7, 16])
def test_decay_gradient_matches_mindspore_autograd(c):
    ms = pytest.importorskip("mindspore")
    from mindspore import Tensor, ops

    rng = np.random.default_rng(13)
    da, dy = -np.abs(rng.standard_normal((2, 3, 2 * c))), rng.standard_normal((2, 3, 2, c, c))
    lower = Tensor(np.tril(np.ones((c, c)), -1))
    inclusive = Tensor(np.tril(np.ones((c, c))))

    def composition(x, weight):
        running = ops.matmul(ops.reshape(x, (2, 3, 2, c)), inclusive.T)
        segsum = (ops.expand_dims(running, -1) - ops.expand_dims(running, -2)) * lower
        return (ops.exp(segsum) * lower * weight).sum()

    expected = ms.grad(composition)(Tensor(da), Tensor(dy)).asnumpy()
    segsum = segsum_decay(da, c)[1]
    assert_rms("d_da", bwd_segsum_dadt(dy, segsum, None, None, c, "query_key"), expected, 1e-11)


def oracle():
    with np.load(ORACLE) as data:
        return {key: data[key] for key in data.files}


ORACLE_CASES = [key[: -len("_dSSdA")] for key in oracle() if key.startswith("segsum") and key.endswith("_dSSdA")]


@pytest.mark.parametrize("case", ORACLE_CASES)
def test_bwd_segsum_dadt_agrees_with_the_original_kernel(case):
    data = oracle()
    out = bwd_segsum_dadt(data[f"{case}_dSSdA"], data[f"{case}_SSdA"], data[f"{case}_ddt_in"])
    assert_rms(case, data[f"{case}_ddt_out"], out, 1e-6)


def test_the_chain_agrees_with_the_original_kernels():
    d = {key.rpartition("16_")[2]: value for key, value in oracle().items() if key.startswith("chain")}
    for name, ours in zip(("cs", "rev", "seg"), dacs_segsum(d["da"], 16), strict=True):
        assert_rms(name, d[name], ours, 1e-6)
    fused = bwd_dadt_fused(d["dSSdA"], d["seg"], d["ddA_cs"], d["ddA_cs_rev"], d["cs"], d["rev"], None, 16)
    assert_rms("dadt", d["dadt"], fused, 1e-6)
    ddt, dtrap = bwd_dtrap_ddt(d["trap"], d["dt"], d["dfactor"], d["dgamma_diag"])
    assert_rms("ddt", d["ddt"], ddt, 1e-6)
    assert_rms("dtrap", d["dtrap"], dtrap, 1e-6)


def test_dropping_the_transpose_would_be_seen():
    d = oracle()
    case = "segsum_f32_1_1_2_64"
    wrong = bwd_segsum_dadt(d[f"{case}_dSSdA"], d[f"{case}_SSdA"], d[f"{case}_ddt_in"], layout="query_key")
    assert rms_error(wrong, d[f"{case}_ddt_out"]) > 0.5


def test_packed_slots_follow_the_numbering_of_the_original():
    cu = [0, 5, 5, 12, 20]
    assert chunk_slots(20, 4, cu) == [(0, 0, 4), (1, 4, 1), (3, 5, 4), (4, 9, 3), (6, 12, 4), (7, 16, 4)]
    np.testing.assert_array_equal(slot_lengths(20, 4, cu), [4, 1, 0, 4, 3, 0, 4, 4, 0])
    x = np.random.default_rng(1).standard_normal((2, 3, 20))
    np.testing.assert_array_equal(unpack(pack(x, 4, cu), 20, 4, cu), x)
    np.testing.assert_array_equal(slot_lengths(10, 4), [4, 4, 2])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda d, s, t: bwd_segsum_dadt(d, s, t, chunk_size=5), "chunk_size is 5; accepted: 7, the C of dSSdA"),
        (lambda d, s, t: bwd_segsum_dadt(d[..., :6], s, t), "dSSdA, SSdA is of shapes"),
        (lambda d, s, t: bwd_segsum_dadt(d, s, t, layout="x"), "layout is x; accepted: key_query, query_key"),
        (lambda d, s, t: dacs_segsum(t, 5), "chunk_size is 5; accepted: a divisor of S = 14"),
        (lambda d, s, t: dacs_segsum(t[0], 7), "rank of da is 2"),
        (lambda d, s, t: bwd_dtrap_ddt(t, t, t[..., :3], t), "dfactor is of shape (1, 2, 3)"),
    ],
    ids=["chunk_size", "shapes", "layout", "divisor", "rank", "dtrap_shape"],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(OpArgumentError) as error:
        call(*operands((1, 2, 2, 7)))
    assert message in str(error.value)
