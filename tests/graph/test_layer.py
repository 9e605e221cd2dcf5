# SPDX-License-Identifier: Apache-2.0
"""nn.FlashAttention and alibi_slopes."""

from __future__ import annotations

import inspect
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from attention_nets import Loss, data, numpy, qkv, rms_ratio, seeded_model, train
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.mindspore.custom import TikCustom
from ms_custom_ops.op_impl.flash_attention import golden

SIZES = (2, 4, 2, 17, 33, 8)
RNG = np.random.RandomState(6)


def layer(*call: Any, dtype: Any = ms.float16, train: bool = False, rate: float = 0.0, **options: Any) -> Tensor:
    net = mco.nn.FlashAttention(8, 4, rate, kv_head_num=2, **options)
    net.set_train(train)
    return net(*[ops.cast(Tensor(a), dtype) for a in qkv(*SIZES)], *call)


def test_constructor_of_the_removed_layer() -> None:
    names = list(inspect.signature(mco.nn.FlashAttention.__init__).parameters)[1:]
    assert names[:11] == [
        "head_dim",
        "head_num",
        "dropout_rate",
        "prev_block_num",
        "next_block_num",
        "tiling_stgy_name",
        "dp",
        "mp",
        "high_precision",
        "have_attention_mask_batch",
        "alibi",
    ]


@pytest.mark.parametrize(
    "options, attrs",
    [
        ({}, {}),
        ({"causal": True}, {"sparse_mode": 3}),
        ({"prev_block_num": 0, "next_block_num": 0}, {"prev_block_num": 0, "next_block_num": 0}),
        ({"tiling_stgy_name": "auto", "high_precision": True}, {}),
    ],
    ids=["plain", "causal", "blocks", "auto"],
)
def test_forward(mode: str, options: dict, attrs: dict) -> None:
    assert rms_ratio(layer(**options), golden.flash_attention(*qkv(*SIZES), **attrs)[0]) <= 2e-3


@pytest.mark.parametrize("head_dim", [80, 128, 256])
@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B1"])
def test_the_defaults_work_at_large_head_sizes(soc: str, head_dim: int) -> None:
    q, k, v = qkv(1, 1, 1, 130, 150, head_dim)
    mco.set_soc(soc)
    out = mco.nn.FlashAttention(head_dim, 1)(Tensor(q), Tensor(k), Tensor(v))
    assert rms_ratio(out, golden.flash_attention(q, k, v)[0]) <= 2e-3


def test_bfloat16_accumulates_in_float32(mode: str) -> None:
    assert rms_ratio(layer(dtype=ms.bfloat16), golden.flash_attention(*qkv(*SIZES))[0]) <= 1.5e-2


@pytest.mark.graph_at_night("(1, 17, 33)", "(2, 1, 17, 33)")
@pytest.mark.parametrize("shape", [(17, 33), (2, 17, 33), (1, 17, 33), (2, 1, 17, 33), (2, 4, 17, 33)], ids=str)
def test_masks(mode: str, shape: tuple[int, ...]) -> None:
    mask = RNG.rand(*shape) < 0.3
    wanted = golden.flash_attention(*qkv(*SIZES), mask[:, None] if mask.ndim == 3 else mask)[0]
    assert rms_ratio(layer(Tensor(mask), have_attention_mask_batch=shape[0] == 2), wanted) <= 2e-3


def test_alibi(mode: str) -> None:
    shift = (mco.ops.alibi_slopes(4).asnumpy()[None, :, None, None] * np.arange(33)).astype(np.float16)
    wanted = golden.flash_attention(*qkv(*SIZES), None, shift)[0]
    assert rms_ratio(layer(None, Tensor(shift), alibi=True), wanted) <= 2e-3


def test_float32_is_rounded_where_precision_is_asked_for(mode: str) -> None:
    arrays = qkv(*SIZES)
    wanted = numpy(mco.nn.FlashAttention(8, 4, kv_head_num=2)(*[Tensor(a) for a in arrays]))
    net = mco.nn.FlashAttention(8, 4, kv_head_num=2).to_float(ms.float16)
    assert (numpy(net(*[Tensor(a.astype(np.float32)) for a in arrays])) == wanted).all()


def test_dropout_only_in_training(mode: str) -> None:
    plain = numpy(layer())
    assert (numpy(layer(rate=0.4)) == plain).all()
    assert np.abs(numpy(layer(rate=0.4, train=True)) - plain).max() > 0.1


def test_dropout_keeps_the_mean() -> None:
    net = mco.nn.FlashAttention(16, 2, 0.25)
    net.set_train()
    query, key = Tensor(np.zeros((8, 2, 64, 16), np.float16)), Tensor(np.zeros((8, 2, 64, 16), np.float16))
    out = numpy(net(query, key, Tensor(np.ones((8, 2, 64, 16), np.float16))))
    assert abs(out.mean() - 1) < 0.02 and out.std() > 0.03


def test_dropout_keeps_no_mask_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of a layer that drops reads a seed of 8 words, no mask of S1 x S2."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net, shapes, original = mco.nn.FlashAttention(16, 1, 0.5), [], TikCustom._infer
    net.set_train()
    with monkeypatch.context() as patch:
        patch.setattr(TikCustom, "_infer", lambda self, *a: shapes.extend(a[0]) or original(self, *a))
        net(*[Tensor(np.zeros((1, 1, 61, 16), np.float16))] * 3)
    assert (8,) in shapes and max(np.prod(s, dtype=int) for s in shapes) == 61 * 16


def test_dropout_mask_is_new_at_each_call_unless_seeded(mode: str) -> None:
    def twice(seed: int | None) -> tuple[np.ndarray, np.ndarray]:
        net = mco.nn.FlashAttention(8, 4, 0.4, kv_head_num=2, seed=seed)
        net.set_train()
        tensors = [Tensor(a) for a in qkv(*SIZES)]
        return numpy(net(*tensors)), numpy(net(*tensors))

    one, two = twice(None)
    assert (one != two).any()
    one, two = twice(11)
    wanted = golden.flash_attention(*qkv(*SIZES), keep_prob=0.6, seed=11)[0]
    assert (one == two).all() and np.sqrt(np.mean((one - wanted) ** 2) / np.mean(wanted**2)) <= 2e-3


@pytest.mark.parametrize("seed", [None, 3], ids=["drawn", "counter"])
def test_recompute_sees_the_mask_of_the_forward_pass(seed: int | None) -> None:
    """Queries and keys are 0, so all kept weights are equal: out = mask @ value, dv = mask^T @ dout."""
    net = mco.nn.FlashAttention(16, 1, 0.5, seed=seed)
    net.set_train()
    net.recompute()

    class Linear(nn.Cell):
        def __init__(self):
            super().__init__()
            self.net = net

        def construct(self, query, value):
            return ops.cast(self.net(query, query, value), ms.float32).sum()

    query = Tensor(np.zeros((1, 1, 32, 16), np.float16))
    value = Tensor(np.eye(32, 16)[None, None].astype(np.float16))
    total, gradient = ms.value_and_grad(Linear(), 1)(query, value)
    # The function is linear in value, so its value is the inner product of value and gradient.
    assert abs(float(total.asnumpy()) - (numpy(value) * numpy(gradient)).sum()) < 0.05


def test_trains(mode: str) -> None:
    losses = train(seeded_model(attention=mco.nn.FlashAttention(16, 2, causal=True)))
    assert losses[-1] < losses[0]
    assert np.isfinite(losses).all() and len(data(1)) == 1 and Loss is not None


@pytest.mark.parametrize(
    "arguments, options, text",
    [
        ((0, 4), {}, "head_dim is 0; accepted: an int from 1 to 256"),
        ((257, 4), {}, "head_dim is 257; accepted: an int from 1 to 256"),
        ((8.0, 4), {}, "head_dim is 8.0; accepted: an int from 1 to 256"),
        ((8, 0), {}, "head_num is 0; accepted: an int of at least 1"),
        ((8, 4, 1.0), {}, "dropout_rate is 1.0; accepted: 0 <= dropout_rate < 1"),
        ((8, 4, True), {}, "dropout_rate is True"),
        ((8, 4), {"kv_head_num": 3}, "kv_head_num is 3; accepted: a divisor of head_num = 4"),
        ((8, 4), {"dp": 0}, "dp is 0; accepted: an int of at least 1"),
    ],
    ids=str,
)
def test_constructor_refusals(arguments: tuple, options: dict, text: str) -> None:
    with pytest.raises(OpArgumentError, match=f"nn.FlashAttention: {text}"):
        mco.nn.FlashAttention(*arguments, **options)


@pytest.mark.parametrize(
    "call, options, text",
    [
        ((Tensor(np.zeros((2, 17, 33), bool)),), {"have_attention_mask_batch": False}, "a batch axis of 1"),
        ((), {"alibi": True}, "alibi_mask is None; accepted: a tensor"),
        (
            (None, Tensor(np.zeros((1, 4, 1, 33), np.float16))),
            {},
            "alibi_mask is given; accepted: .*None with alibi=False",
        ),
    ],
    ids=["mask_batch", "no_alibi", "alibi"],
)
def test_call_refusals(mode: str, call: tuple, options: dict, text: str) -> None:
    with pytest.raises(OpArgumentError, match=f"nn.FlashAttention: .*{text}"):
        layer(*call, **options)


def test_other_heads_than_constructed() -> None:
    with pytest.raises(OpArgumentError, match=r"query is of shape .*; accepted: \(B, 3, S, 8\) as constructed"):
        mco.nn.FlashAttention(8, 3)(*[Tensor(a) for a in qkv(*SIZES)])


def test_model_parallel_modes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mco.nn.FlashAttention(8, 4, dp=2, mp=2).head_num == 4
    monkeypatch.setattr(ms.context, "get_auto_parallel_context", lambda name: "semi_auto_parallel")
    with pytest.raises(OpArgumentError, match="dp, mp is 2, 2 in parallel mode semi_auto_parallel; accepted: stand_al"):
        mco.nn.FlashAttention(8, 4, dp=2, mp=2)


@pytest.mark.parametrize(
    "heads, wanted",
    [
        (1, [2**-8]),
        (2, [2**-4, 2**-8]),
        (8, [2.0**-i for i in range(1, 9)]),
        (3, [2**-4, 2**-8, 2**-2]),
        (6, [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]),
    ],
    ids=str,
)
def test_alibi_slopes(heads: int, wanted: list[float]) -> None:
    assert mco.ops.alibi_slopes(heads).asnumpy() == pytest.approx(wanted)


@pytest.mark.parametrize("heads", [0, -1, 2.0, True, None], ids=str)
def test_alibi_slopes_refusals(heads: Any) -> None:
    with pytest.raises(OpArgumentError, match="alibi_slopes: head_num is .*; accepted: an int of at least 1"):
        mco.ops.alibi_slopes(heads)
