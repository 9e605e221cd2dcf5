# SPDX-License-Identifier: Apache-2.0
"""mco.patch: a model that knows MindSpore's operators alone trains on CPU; unpatch restores."""

from __future__ import annotations

import re
from collections.abc import Iterator

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops.errors import MsCustomOpsError, OpArgumentError

B, S, N1, N2, D = 2, 32, 4, 2, 16
KEEP = 0.75


@pytest.fixture()
def mode(request: pytest.FixtureRequest) -> Iterator[int]:
    before = ms.get_context("mode")
    ms.set_context(mode=request.param)
    yield request.param
    ms.set_context(mode=before)


@pytest.fixture(autouse=True)
def unpatched() -> Iterator[None]:
    yield
    mco.unpatch()


class Attention(nn.Cell):
    """As models for Ascend write it: BSH, a bool mask of what is hidden, fewer key heads, dropout bits."""

    def __init__(self, dtype):
        super().__init__()
        rng = np.random.default_rng(1)

        def dense(width):
            weight = Tensor(rng.standard_normal((width, N1 * D)).astype(np.float32) * 0.1).astype(dtype)
            return nn.Dense(N1 * D, width, weight_init=weight, has_bias=False, dtype=dtype)

        self.query, self.key, self.value = dense(N1 * D), dense(N2 * D), dense(N2 * D)

    def construct(self, x, hidden, drop_mask):
        return ops.flash_attention_score(
            self.query(x), self.key(x), self.value(x), N1, drop_mask=drop_mask, attn_mask=hidden, keep_prob=KEEP,
            scalar_value=0.25, input_layout="BSH",
        )  # fmt: skip


def plain(net: Attention, x: Tensor, hidden: Tensor, kept: Tensor) -> Tensor:
    """The same in float32 from MindSpore's own operators."""

    def heads(y, n):
        return y.astype(ms.float32).reshape(B, S, n, D).transpose(0, 2, 1, 3)

    q, k, v = heads(net.query(x), N1), heads(net.key(x), N2), heads(net.value(x), N2)
    k, v = ops.repeat_interleave(k, N1 // N2, 1), ops.repeat_interleave(v, N1 // N2, 1)
    scores = ops.masked_fill(ops.matmul(q, k.transpose(0, 1, 3, 2)) * 0.25, hidden, Tensor(-1e9, ms.float32))
    p = ops.softmax(scores, -1) * kept / KEEP
    return ops.matmul(p, v).transpose(0, 2, 1, 3).reshape(B, S, N1 * D)


def data(dtype):
    rng = np.random.default_rng(0)
    x = Tensor(rng.standard_normal((B, S, N1 * D)).astype(np.float32)).astype(dtype)
    hidden = np.triu(np.ones((S, S), bool), 1)
    kept = rng.random((B, N1, S, S)) < KEEP
    return x, Tensor(hidden), Tensor(np.packbits(kept, -1, bitorder="little")), Tensor(kept.astype(np.float32))


def slopes(function, net, *inputs):
    """Gradients of the mean square of the output with respect to every weight."""

    def loss(*given):
        return (function(*given).astype(ms.float32) ** 2).mean() * 1024

    return [g.astype(ms.float32).asnumpy() for g in ms.grad(loss, None, net.trainable_params())(*inputs)]


@pytest.mark.parametrize(
    ("mode", "dtype", "compute_dtype"),
    [(ms.GRAPH_MODE, ms.float16, None), (ms.PYNATIVE_MODE, ms.float32, "float16")],
    ids=["graph", "pynative"],
    indirect=["mode"],
)
def test_gradients_are_those_of_the_composition(mode, dtype, compute_dtype):
    x, hidden, drop_mask, kept = data(dtype)
    net = Attention(dtype)
    with mco.patch(compute_dtype):
        out = net(x, hidden, drop_mask)
        found = slopes(net, net, x, hidden, drop_mask)
    assert out.dtype == dtype

    def composition(*given):
        return plain(net, *given)

    wanted = slopes(composition, net, x, hidden, kept)
    for a, b in zip(found, wanted, strict=True):
        assert np.abs(b).max() > 0
        assert np.sqrt(((a - b) ** 2).mean() / (b**2).mean()) < 5e-3


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE], indirect=True, ids=["graph"])
def test_a_model_trains(mode):
    x, hidden, drop_mask, _ = data(ms.float32)
    net, target = Attention(ms.float32), Tensor(np.full((B, S, N1 * D), 0.1, np.float32))
    optimizer = nn.Adam(net.trainable_params(), 1e-2)

    def loss(x):
        return ((net(x, hidden, drop_mask) - target) ** 2).mean()

    step = ms.value_and_grad(loss, None, optimizer.parameters)
    with mco.patch("float16"):
        losses = []
        for _ in range(15):
            value, grads = step(x)
            optimizer(grads)
            losses.append(float(value.asnumpy()))
    assert losses[-1] < 0.7 * losses[0]


BOTH = pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE], indirect=True, ids=["graph", "pynative"])


@BOTH
def test_the_primitive_as_layers_of_transformers_build_it(mode):
    x, hidden, _, _ = data(ms.float16)

    with mco.patch():
        from mindspore.ops.operations.nn_ops import FlashAttentionScore

        class Layer(nn.Cell):
            def __init__(self):
                super().__init__()
                self.flash_attention = FlashAttentionScore(head_num=N1, scale_value=0.25, input_layout="BSH")
                self.flash_attention.shard(((1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1, 1)))
                self.flash_attention.add_prim_attr("enable_load_balance", True).set_stage(0)

            def construct(self, x, hidden):
                _, _, _, out = self.flash_attention(x, x, x, None, None, None, hidden)
                return out

        out = Layer()(x, hidden)
    wanted = mco.ops.flash_attention_score(x, x, x, N1, attn_mask=hidden, scalar_value=0.25)
    np.testing.assert_array_equal(out.asnumpy(), wanted.asnumpy())


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE], indirect=True, ids=["pynative"])
def test_lengths_of_packed_sequences_as_layers_give_them(mode):
    """To the primitive as int32 or int64 tensors, by position; to the function as a tuple or a list."""
    rng = np.random.default_rng(2)
    q, k = (Tensor(rng.standard_normal((t, n, D)).astype(np.float16)) for t, n in ((24, N1), (40, N2)))
    wanted = mco.ops.flash_attention_score(q, k, k, N1, actual_seq_qlen=(8, 24), actual_seq_kvlen=(24, 40),
                                           scalar_value=0.25, input_layout="TND").asnumpy()  # fmt: skip
    with mco.patch():
        from mindspore.ops.operations.nn_ops import FlashAttentionScore

        layer = FlashAttentionScore(N1, 1.0, 0.25, 2147483647, 2147483647, 0, "TND", 0)
        for dtype in (ms.int32, ms.int64):
            ends = Tensor([8, 24], dtype), Tensor([24, 40], dtype)
            found = layer(q, k, k, None, None, None, None, None, *ends)[3]
            np.testing.assert_array_equal(found.asnumpy(), wanted)
        for kind in (tuple, list):
            found = ops.flash_attention_score(q, k, k, N1, actual_seq_qlen=kind((8, 24)), scalar_value=0.25,
                                              actual_seq_kvlen=kind((24, 40)), input_layout="TND")  # fmt: skip
            np.testing.assert_array_equal(found.asnumpy(), wanted)


@BOTH
def test_sparse_attention_and_indexer(mode):
    rng = np.random.default_rng(0)
    q, k, w = (Tensor(rng.standard_normal(s).astype(np.float16)) for s in ((1, 5, 2, 16), (1, 9, 1, 16), (1, 5, 2)))
    with mco.patch():
        ids, _ = ops.lightning_indexer(q, k, w, sparse_count=4)
        out, _, _ = ops.sparse_flash_attention(q, k, k, ids, 0.25)
    wanted_ids, _ = mco.ops.lightning_indexer(q, k, w, sparse_count=4)
    np.testing.assert_array_equal(ids.asnumpy(), wanted_ids.asnumpy())
    np.testing.assert_array_equal(out.asnumpy(), mco.ops.sparse_flash_attention(q, k, k, ids, 0.25)[0].asnumpy())


def test_unpatch_restores_every_name():
    import mindspore.ops.auto_generate.gen_ops_prim as primitives
    import mindspore.ops.function as function

    def names():
        return [
            ops.flash_attention_score,
            function.flash_attention_score,
            ops.sparse_flash_attention,
            ops.lightning_indexer,
            primitives.FlashAttentionScore,
            ops.operations.nn_ops.FlashAttentionScore,
        ]

    before = names()
    patched = mco.patch()
    assert not any(a is b for a, b in zip(before, names(), strict=True))
    with pytest.raises(MsCustomOpsError, match=re.escape("patched already at") + r".*test_patch.py:\d+; accepted: one"):
        mco.patch()
    patched.undo()
    assert all(a is b for a, b in zip(before, names(), strict=True))
    with mco.patch():
        assert ops.flash_attention_score is not before[0]
    assert ops.flash_attention_score is before[0]
    mco.unpatch()


def test_float32_without_a_word_is_an_error_that_says_what_to_write():
    x, hidden, drop_mask, _ = data(ms.float32)
    with (
        mco.patch(),
        pytest.raises(
            Exception, match=r"float32; accepted: float16 or bfloat16; float32 with mco.patch\(compute_dtype"
        ),
    ):
        Attention(ms.float32)(x, hidden, drop_mask)
    with pytest.raises(OpArgumentError, match="compute_dtype is 'half'; accepted: None, 'float16', 'bfloat16'"):
        mco.patch("half")
