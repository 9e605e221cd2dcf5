# SPDX-License-Identifier: Apache-2.0
"""The goldens of lightning_indexer and of the indexer's KL loss."""

from __future__ import annotations

import numpy as np
import pytest

from ms_custom_ops.op_impl.indexer_kl_loss.golden import sparse_lightning_indexer_grad_kl_loss
from ms_custom_ops.op_impl.lightning_indexer.golden import HIGHEST, LOWEST, lightning_indexer


def index_tensors(s1=5, s2=17, n1=3, d=8, batch=2, seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((batch, s1, n1, d)),
        rng.standard_normal((batch, s2, 1, d)),
        rng.standard_normal((batch, s1, n1)),
    )


@pytest.mark.parametrize("mode", [0, 3])
@pytest.mark.parametrize("count", [1, 4, 17, 30])
def test_indexer_is_topk_of_weighted_relu_scores(mode, count):
    q, k, w = index_tensors()
    indices, values = lightning_indexer(q, k, w, sparse_count=count, sparse_mode=mode)
    scores = np.einsum("btg,btgs->bts", w, np.maximum(np.einsum("btgd,bsd->btgs", q, k[:, :, 0]), 0))
    for b, t in np.ndindex(2, 5):
        visible = 17 if mode == 0 else 17 - 5 + t + 1
        order = sorted(range(visible), key=lambda s: (-scores[b, t, s], s))[:count]
        assert indices[b, t, 0].tolist() == order + [-1] * (count - len(order))
        np.testing.assert_allclose(values[b, t, 0, : len(order)], scores[b, t, order], rtol=1e-12)
        assert not values[b, t, 0, len(order) :].any()


def test_indexer_ties_go_to_the_lower_token():
    q, k, w = np.ones((1, 1, 1, 4)), np.ones((1, 9, 1, 4)), np.ones((1, 1, 1))
    k[0, 3] = 2.0
    indices, _ = lightning_indexer(q, k, w, sparse_count=4)
    assert indices[0, 0, 0].tolist() == [3, 0, 1, 2]


def test_indexer_scores_that_are_nan_or_infinite():
    """Infinite weights give +-inf, or NaN where the product is 0."""
    q, k = np.ones((1, 2, 1, 1)), np.array([0.0, 1, 2, 0]).reshape(1, 4, 1, 1)
    with np.errstate(invalid="ignore"):
        indices, values = lightning_indexer(
            q, k, np.array([np.inf, -np.inf]).reshape(1, 2, 1), sparse_mode=0, sparse_count=5
        )
    assert indices[0, :, 0].tolist() == [[1, 2, 0, 3, -1], [0, 1, 2, 3, -1]]
    assert values[0, :, 0].tolist() == [[HIGHEST, HIGHEST, LOWEST, LOWEST, 0], [LOWEST] * 4 + [0]]
    assert np.finfo(np.float32).min < np.float32(LOWEST) == LOWEST


def test_indexer_lengths_bsnd_and_tnd_agree():
    q, k, w = index_tensors()
    bsnd = lightning_indexer(q, k, w, sparse_count=6, actual_seq_lengths_query=[4, 0], actual_seq_lengths_key=[9, 17])
    packed = lightning_indexer(
        q[0, :4],
        k[0, :9],
        w[0, :4],
        sparse_count=6,
        layout_query="TND",
        actual_seq_lengths_query=[4],
        actual_seq_lengths_key=[9],
    )
    np.testing.assert_array_equal(bsnd[0][0, :4], packed[0])
    assert (bsnd[0][0, 4:] == -1).all() and (bsnd[0][1] == -1).all()


def test_indexer_paged():
    q, k, w = index_tensors(s2=32)
    table = np.array([[2, 0], [1, 3]])
    pages = np.empty((4, 16, 1, 8))
    pages[table] = k.reshape(2, 2, 16, 1, 8)
    paged = lightning_indexer(
        q, pages, w, sparse_count=7, layout_key="PA_BSND", block_table=table, actual_seq_lengths_key=[32, 20]
    )
    plain = lightning_indexer(q, k, w, sparse_count=7, actual_seq_lengths_key=[32, 20])
    np.testing.assert_array_equal(paged[0], plain[0])


def kl_tensors(packed=False, rope=True):
    rng = np.random.default_rng(4)
    lead_q, lead_k = ((9,), (30,)) if packed else ((2, 4), (2, 15))
    rows = int(np.prod(lead_q))
    ids = np.stack([rng.permutation(13)[:6] for _ in range(rows)]).astype(np.int32)
    ids[rows // 2, 3:] = -1
    ids[0, :] = -1
    out = {
        "query": rng.standard_normal((*lead_q, 3, 8)),
        "key": rng.standard_normal((*lead_k, 1, 8)),
        "query_index": rng.standard_normal((*lead_q, 2, 4)),
        "key_index": rng.standard_normal((*lead_k, 1, 4)),
        "weights": rng.standard_normal((*lead_q, 2)),
        "sparse_indices": ids.reshape(*lead_q, 1, 6),
        "scale_value": 0.4,
    }
    if rope:
        out["query_rope"], out["key_rope"] = rng.standard_normal((*lead_q, 3, 4)), rng.standard_normal((*lead_k, 1, 4))
    if packed:
        out.update(layout="TND", actual_seq_lengths_query=[4, 9], actual_seq_lengths_kv=[14, 29])
    return out


@pytest.mark.parametrize("packed", [False, True], ids=["bsnd", "tnd"])
@pytest.mark.parametrize("rope", [False, True], ids=["plain", "rope"])
def test_kl_gradients_match_central_differences(packed, rope):
    tensors = kl_tensors(packed, rope)
    result = sparse_lightning_indexer_grad_kl_loss(**tensors)
    assert result.loss > 0
    rng = np.random.default_rng(1)
    for name in ("query_index", "key_index", "weights"):
        direction, step = rng.standard_normal(tensors[name].shape), 1e-6
        ends = [
            sparse_lightning_indexer_grad_kl_loss(**{**tensors, name: tensors[name] + s * direction}).loss
            for s in (step, -step)
        ]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert np.sum(getattr(result, f"d_{name}") * direction) == pytest.approx(slope, rel=1e-6)


def test_kl_loss_is_zero_when_the_indexer_equals_the_attention():
    """One head, weight 1, positive products and D-independent scale 1: I is the main score."""
    rng = np.random.default_rng(0)
    q, k = np.abs(rng.standard_normal((1, 3, 1, 4))), np.abs(rng.standard_normal((1, 7, 1, 4)))
    ids = np.broadcast_to(np.arange(7), (1, 3, 1, 7))
    result = sparse_lightning_indexer_grad_kl_loss(q, k, q, k, np.ones((1, 3, 1)), ids, 1.0)
    assert abs(result.loss) < 1e-14
    assert max(abs(x).max() for x in (result.d_query_index, result.d_key_index, result.d_weights)) < 1e-14


@pytest.fixture
def pynative():
    """The compositions are plain Python: they run eagerly, whatever mode another test has left."""
    import mindspore as ms

    before = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=before)


def test_kl_gradients_match_mindspore_autograd(pynative):
    import mindspore as ms
    from mindspore import ops

    tensors = kl_tensors(rope=False)
    result = sparse_lightning_indexer_grad_kl_loss(**tensors)
    picked = np.zeros((2, 4, 15), bool)
    for b, t in np.ndindex(2, 4):
        visible = 15 - 4 + t + 1
        for s in tensors["sparse_indices"][b, t, 0]:
            if s < 0:
                break
            picked[b, t, s] = s < visible
    scores = 0.4 * np.einsum("btgd,bsd->btgs", tensors["query"], tensors["key"][:, :, 0])
    exps = np.exp(scores) * picked[:, :, None]
    total = np.maximum(exps.sum(-1, keepdims=True), 1e-300)
    target = (exps / total).sum(2)
    target = target / np.maximum(target.sum(-1, keepdims=True), 1e-300)
    some = picked.any(-1, keepdims=True)
    mask, p = ms.Tensor(np.where(picked, 0.0, -1e30)), ms.Tensor(target)
    log_p = ms.Tensor(np.where(target > 0, np.log(np.where(target > 0, target, 1.0)), 0.0))

    def loss(qi, ki, w):
        z = ops.relu(ops.matmul(qi, ops.expand_dims(ops.transpose(ki[:, :, 0], (0, 2, 1)), 1)))
        i = (z * ops.expand_dims(w, -1)).sum(2) + mask
        log_q = i - ops.stop_gradient(i.max(-1, keepdims=True))
        log_q = log_q - ops.log(ops.exp(log_q).sum(-1, keepdims=True))
        return ops.where(ms.Tensor(picked & some), p * (log_p - log_q), ops.zeros_like(log_q)).sum()

    inputs = [ms.Tensor(tensors[n]) for n in ("query_index", "key_index", "weights")]
    value, grads = ms.value_and_grad(loss, (0, 1, 2))(*inputs)
    assert float(value) == pytest.approx(result.loss, rel=1e-12)
    for got, name in zip(grads, ("d_query_index", "d_key_index", "d_weights"), strict=False):
        np.testing.assert_allclose(getattr(result, name), got.asnumpy(), rtol=1e-11, atol=1e-13)
