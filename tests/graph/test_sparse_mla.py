# SPDX-License-Identifier: Apache-2.0
"""nn.SparseMLA against a composition of MindSpore's operators, without absorption and with S x S matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

ms = pytest.importorskip("mindspore")
from mindspore import Tensor, nn, ops  # noqa: E402

from ms_custom_ops.errors import OpArgumentError  # noqa: E402
from ms_custom_ops.mindspore.sparse_mla import SparseMLA  # noqa: E402
from ms_custom_ops.testing import assert_rms  # noqa: E402

WIDTH, BATCH, TOKENS = 24, 2, 17
SIZES = dict(
    q_lora_rank=20,
    kv_lora_rank=32,
    qk_nope_head_dim=12,
    qk_rope_head_dim=16,
    v_head_dim=10,
    index_n_heads=3,
    index_head_dim=32,
    max_length=32,
    seed=1,
)
INDEXER = ("index_wq", "index_wk", "index_norm", "index_bias", "index_ww")


def layer(topk: int = 6, **changes: Any) -> SparseMLA:
    return SparseMLA(WIDTH, 3, **{**SIZES, "index_topk": topk, **changes})


def inputs(tokens: int = TOKENS, batch: int = BATCH) -> Tensor:
    rng = np.random.default_rng(5)
    return Tensor(rng.standard_normal((batch, tokens, WIDTH)).astype(np.float32))


class Naive(nn.Cell):
    """The same layer in float32: keys and values of every head from the latent, masks instead of indices."""

    def __init__(self, layer: SparseMLA, mask: np.ndarray):
        super().__init__()
        self.layer = layer
        self.seen = Tensor(mask)
        self.hidden = Tensor(np.where(mask, 0, -1e30).astype(np.float32))

    def construct(self, x):
        net = self.layer
        batch, tokens, _ = x.shape
        q_latent, latent, key_rope = net.latents(x)
        nope, rope = net.queries(q_latent)
        keys = ops.matmul(latent.reshape(batch, 1, tokens, -1), ops.transpose(net.w_uk, (0, 2, 1)))
        values = ops.matmul(latent.reshape(batch, 1, tokens, -1), net.w_uv)
        scores = ops.matmul(ops.transpose(nope, (0, 2, 1, 3)), ops.transpose(keys, (0, 1, 3, 2)))
        scores = scores + ops.matmul(ops.transpose(rope, (0, 2, 1, 3)), ops.transpose(key_rope, (0, 2, 3, 1)))
        weights = ops.softmax(scores * net.scale + ops.expand_dims(self.hidden, 1), -1)
        out = ops.transpose(ops.matmul(weights, values), (0, 2, 1, 3)).reshape(batch, tokens, -1)
        target = ops.stop_gradient(weights.mean(1))
        return ops.matmul(out, net.w_o), self._kl(target, self._index_scores(x, q_latent))

    def _index_scores(self, x, q_latent):
        query, key, weights = self.layer.index_operands(x, q_latent)
        query, key = ops.cast(query, ms.float32), ops.cast(key, ms.float32)
        products = ops.matmul(ops.transpose(query, (0, 2, 1, 3)), ops.transpose(key, (0, 2, 3, 1)))
        return (ops.relu(products) * ops.expand_dims(ops.transpose(weights, (0, 2, 1)), -1)).sum(1)

    def _kl(self, target, scores):
        log_model = ops.log_softmax(scores + self.hidden, -1)
        log_target = ops.log(ops.maximum(target, Tensor(1e-30, ms.float32)))
        terms = ops.where(self.seen, target * (log_target - log_model), ops.zeros_like(target))
        return terms.sum() / (target.shape[0] * target.shape[1])


class Objective(nn.Cell):
    """A weighted sum of output and KL loss."""

    def __init__(self, net: nn.Cell, *extra: Any):
        super().__init__()
        self.net, self.extra = net, extra
        self.shares = (Tensor(1.0, ms.float32), Tensor(1.0, ms.float32))
        rng = np.random.default_rng(9)
        self.direction = Tensor(rng.standard_normal((BATCH, TOKENS, WIDTH)).astype(np.float32))

    def construct(self, x, task, kl):
        out, kl_loss = self.net(x, *self.extra)
        return (out * self.direction).sum() * task + kl_loss * kl, out, kl_loss


def short(parameter: Any) -> str:
    """Name of a parameter inside the layer."""
    return parameter.name.rpartition(".")[2]


def mask_of(indices: np.ndarray) -> np.ndarray:
    """(B, S, S) bool of index rows (B, S, 1, K), cut to the visible tokens."""
    batch, tokens = indices.shape[:2]
    mask = np.zeros((batch, tokens, tokens), bool)
    for b in range(batch):
        for i in range(tokens):
            row = indices[b, i, 0]
            mask[b, i, row[(row >= 0) & (row <= i)]] = True
    return mask


def evaluate(objective: Objective, weights: Any, x: Tensor) -> tuple[Any, Any]:
    return ops.value_and_grad(objective, 0, weights, has_aux=True)(x, *objective.shares)


def op_by_op() -> None:
    """For what is compared with, which needs no graph."""
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.mark.graph_at_night("dense")
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "sparse"])
def test_outputs_and_gradients(dense: bool, mode: str) -> None:
    net, x = layer(), inputs()
    latent, _, _ = net.latents(x)
    indices = net.select(net.index_operands(x, latent), None, dense).asnumpy()
    assert indices.shape == (BATCH, TOKENS, 1, TOKENS if dense else 6)
    weights = net.trainable_params()
    (_, out, kl), (d_x, d_weights) = evaluate(Objective(net, None, dense), weights, x)
    op_by_op()
    (_, out2, kl2), (d_x2, d_weights2) = evaluate(Objective(Naive(net, mask_of(indices))), weights, x)
    assert_rms("out", out.asnumpy(), out2.asnumpy(), 2e-3)
    assert abs(float(kl.asnumpy()) / float(kl2.asnumpy()) - 1) < 5e-3
    assert_rms("d_x", d_x.asnumpy(), d_x2.asnumpy(), 5e-3)
    for parameter, actual, expected in zip(weights, d_weights, d_weights2, strict=True):
        assert np.abs(expected.asnumpy()).max() > 0, parameter.name
        assert_rms(f"d_{parameter.name}", actual.asnumpy(), expected.asnumpy(), 1e-2)


def test_each_loss_trains_its_own_part() -> None:
    net, x = layer(), inputs()
    weights = net.trainable_params()
    step = ops.value_and_grad(Objective(net, None, False), 0, weights, has_aux=True)
    for task, kl in ((1.0, 0.0), (0.0, 1.0)):
        _, (d_x, gradients) = step(x, Tensor(task, ms.float32), Tensor(kl, ms.float32))
        reached = {short(p) for p, g in zip(weights, gradients, strict=True) if np.abs(g.asnumpy()).max() > 0}
        expected = {short(p) for p in weights if (short(p) in INDEXER) == (kl == 1.0)}
        assert reached == expected
        assert (np.abs(d_x.asnumpy()).max() > 0) == (task == 1.0)
    assert [short(p) for p in net.indexer_parameters()] == list(INDEXER)


@pytest.mark.nightly
@pytest.mark.parametrize("topk", [63, 17])
def test_selecting_every_token_is_dense(topk: int) -> None:
    net, x = layer(topk), inputs()
    (out, kl), (out2, kl2) = net(x, None, False), net(x, None, True)
    assert_rms("out", out.asnumpy(), out2.asnumpy(), 1e-3)
    assert abs(float(kl.asnumpy()) / float(kl2.asnumpy()) - 1) < 2e-3


@pytest.mark.parametrize("dense", [pytest.param(True, marks=pytest.mark.nightly), False], ids=["dense", "sparse"])
def test_lengths(dense: bool) -> None:
    net, x, short = layer(), inputs(), 9
    out, kl = net(x, Tensor([TOKENS, short], ms.int32), dense)
    op_by_op()
    first, kl1 = net(x[:1], None, dense)
    second, kl2 = net(x[1:, :short], None, dense)
    assert_rms("first", out.asnumpy()[:1], first.asnumpy(), 1e-6)
    assert_rms("second", out.asnumpy()[1:, :short], second.asnumpy(), 1e-6)
    assert not out.asnumpy()[1, short:].any()
    mean = (float(kl1.asnumpy()) * TOKENS + float(kl2.asnumpy()) * short) / (TOKENS + short)
    assert abs(float(kl.asnumpy()) / mean - 1) < 1e-5


@pytest.mark.graph_at_night("15")
@pytest.mark.parametrize("tokens", [1, 15])
def test_odd_lengths(tokens: int, mode: str) -> None:
    out, kl = layer()(inputs(tokens, 1), None, False)
    assert out.shape == (1, tokens, WIDTH) and kl.shape == ()
    assert np.isfinite(out.asnumpy()).all() and np.isfinite(float(kl.asnumpy()))


@pytest.mark.nightly
def test_a_query_sees_no_later_token() -> None:
    net, x = layer(), inputs()
    changed = x.asnumpy().copy()
    changed[:, 10:] += 1
    for dense in (True, False):
        before, after = net(x, None, dense)[0].asnumpy(), net(Tensor(changed), None, dense)[0].asnumpy()
        assert np.array_equal(before[:, :10], after[:, :10]) and not np.array_equal(before[:, 10:], after[:, 10:])


@pytest.mark.nightly
def test_bfloat16_operands() -> None:
    from ms_custom_ops import soc

    soc.set_soc("Ascend910B1")
    x = inputs()
    half, wide = layer(), layer(operand_dtype="bfloat16")
    assert_rms("out", wide(x, None, True)[0].asnumpy(), half(x, None, True)[0].asnumpy(), 3e-2)


REFUSED = {
    "latent": (dict(kv_lora_rank=40), "kv_lora_rank is 40; accepted: a multiple of 16 from 16 to 512"),
    "rope": (dict(qk_rope_head_dim=80), "qk_rope_head_dim is 80; accepted: a multiple of 16 from 16 to 64"),
    "index_dim": (
        dict(index_head_dim=16, qk_rope_head_dim=32),
        "index_head_dim is 16; accepted: at least qk_rope_head_dim = 32",
    ),
    "topk": (dict(index_topk=0), "index_topk is 0; accepted: an int from 1 to 8192"),
    "nope": (dict(qk_nope_head_dim=0), "qk_nope_head_dim is 0; accepted: an int of at least 1"),
    "dtype": (dict(operand_dtype="float32"), "operand_dtype is 'float32'; accepted: 'float16' or 'bfloat16'"),
}


@pytest.mark.parametrize(("changes", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_constructor_refusals(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(OpArgumentError) as caught:
        layer(**changes)
    assert f"nn.SparseMLA: {text}" in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "lengths", "text"),
    [
        ((2, 33, WIDTH), None, "x is of shape (2, 33, 24); accepted: (B, S, 24) with B of at least 1 and S from 1 to"),
        ((2, 5, 20), None, "x is of shape (2, 5, 20)"),
        ((2, 5, WIDTH), [1, 2, 3], "lengths is of shape (3,); accepted: (2,)"),
    ],
    ids=["too_long", "width", "lengths"],
)
def test_call_refusals(shape: tuple[int, ...], lengths: Any, text: str) -> None:
    with pytest.raises(OpArgumentError) as caught:
        layer()(Tensor(np.zeros(shape, np.float32)), None if lengths is None else Tensor(lengths, ms.int32), True)
    assert text in str(caught.value)
