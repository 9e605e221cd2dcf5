# SPDX-License-Identifier: Apache-2.0
"""flash_attention against its golden in GRAPH and PYNATIVE mode: outputs and all gradients."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from attention_nets import Attention, AttentionOut, Gradients, OutputsAndGradients, check, numpy, qkv, random, rms_ratio
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.op_impl.flash_attention import golden

RNG = np.random.RandomState(11)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 16), (2, 2, 2, 17, 63, 40), (1, 4, 2, 15, 33, 1)], ids=str)
def test_shapes(mode: str, sizes: tuple[int, ...]) -> None:
    check(Attention(), qkv(*sizes))


def test_bfloat16(mode: str) -> None:
    check(Attention(), qkv(1, 2, 1, 17, 33, 40), ms.bfloat16)


@pytest.mark.parametrize(
    "attrs",
    [
        {"sparse_mode": 3},
        {"sparse_mode": 4, "pre_tokens": 5, "next_tokens": 2},
        {"scale_value": 0.7},
        {"keep_prob": 0.8, "seed": 9},
        {"tiling_stgy_name": "wukong"},
        {"high_precision": False},
    ],
    ids=lambda attrs: next(iter(attrs)) + str(next(iter(attrs.values()))),
)
def test_attributes(mode: str, attrs: dict) -> None:
    wanted = {name: value for name, value in attrs.items() if name not in ("tiling_stgy_name", "high_precision")}
    check(Attention(**attrs), qkv(1, 2, 2, 17, 33, 16), attrs=wanted)


MASKS = {
    "bool_matrix": RNG.rand(17, 33) < 0.3,
    "uint8_255_keys": ((RNG.rand(2, 1, 1, 33) < 0.3) * 255).astype(np.uint8),
    "float16_heads": (RNG.rand(4, 17, 33) < 0.3).astype(np.float16),
    "bool_full": RNG.rand(2, 4, 17, 33) < 0.3,
    "bool_row": RNG.rand(33) < 0.3,
    "fully_masked": np.ones((17, 33), bool),
}


@pytest.mark.graph_at_night("bool_full", "bool_row")
@pytest.mark.parametrize("name", MASKS)
def test_masks(mode: str, name: str) -> None:
    check(Attention(), qkv(2, 4, 2, 17, 33, 16), extras=(MASKS[name],))


def test_fully_masked_rows_are_zero_in_everything() -> None:
    arrays = [Tensor(a) for a in qkv(1, 1, 1, 17, 33, 16)]
    mask = np.zeros((17, 33), bool)
    mask[3:5] = True
    out, row_max, row_sum = Attention()(*arrays, Tensor(mask))
    for tensor in (out, row_max, row_sum):
        assert not numpy(tensor)[:, :, 3:5].any()


@pytest.mark.parametrize(
    "shape, dtype", [((1, 4, 1, 33), np.float16), ((2, 4, 17, 33), np.float32), ((1, 4, 17, 33), np.float32)], ids=str
)
def test_real_shift(mode: str, shape: tuple[int, ...], dtype: type) -> None:
    check(Attention(), qkv(2, 4, 2, 17, 33, 16), extras=(None, random(*shape).astype(dtype)))


class Total(nn.Cell):
    """A loss on the statistics alone, and one on the output beside a trained bias."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind = kind
        self.bias = ms.Parameter(Tensor(random(1, 2, 17, 33, seed=9).astype(np.float32)), name="bias")

    def construct(self, query, key, value):
        out, top, total = mco.ops.flash_attention(query, key, value, None, self.bias)
        if self.kind == "lse":
            return ops.square(top + ops.log(total)).sum()
        return top.sum() if self.kind == "max" else ops.square(ops.cast(out, ms.float32)).sum()


@pytest.mark.parametrize("kind", ["lse", "max", "out"])
def test_losses_on_statistics_and_trained_bias(mode: str, kind: str) -> None:
    """The gradients of a z-loss and of a relative position bias, in closed form."""
    net, arrays = Total(kind), qkv(1, 2, 1, 17, 33, 16)
    found, (d_bias,) = ms.grad(net, (0, 1), net.trainable_params())(*[Tensor(a) for a in arrays])
    q, k, v = (a.astype(np.float64) for a in arrays)
    scores = q @ k.swapaxes(2, 3) * 0.25 + net.bias.asnumpy().astype(np.float16)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - top)
    p, lse = e / e.sum(-1, keepdims=True), top + np.log(e.sum(-1, keepdims=True))
    dp = 2 * (p @ v) @ v.swapaxes(2, 3)
    wanted = {"lse": 2 * lse * p, "max": scores == top, "out": p * (dp - (p * dp).sum(-1, keepdims=True))}[kind]
    for actual, reference in (
        (d_bias, wanted),
        (found[0], wanted @ k * 0.25),
        (found[1], (wanted.swapaxes(2, 3) @ q).sum(1, keepdims=True) * 0.25),
    ):
        assert rms_ratio(actual, reference) <= 2e-3


class Biased(nn.Cell):
    def construct(self, query, key, value, attn_bias):
        return ops.cast(mco.ops.flash_attention(query, key, value, attn_bias=attn_bias)[0], ms.float32)


@pytest.mark.graph_at_night("(2, 1, 17, 33)", "(4, 1, 1)")
@pytest.mark.parametrize("shape", [(17, 33), (2, 1, 17, 33), (4, 1, 1), (2, 4, 17, 1), (1,)], ids=str)
def test_a_bias_of_any_shape_that_broadcasts(mode: str, shape: tuple[int, ...]) -> None:
    arrays, bias = qkv(2, 4, 2, 17, 33, 16), random(*shape).astype(np.float32)
    ones = np.ones(arrays[0].shape, np.float32)
    found, (*_, grad) = OutputsAndGradients(Biased())(*[Tensor(a) for a in (*arrays, bias, ones)])
    assert rms_ratio(found, golden.flash_attention(*arrays, None, bias)[0]) <= 2e-3
    wanted = golden.flash_attention_grad(*arrays, ones, None, bias)[3]
    assert grad.shape == shape and grad.dtype == ms.float32
    scale = np.sqrt(np.mean(wanted**2))  # along keys, gradients of a bias add up to 0
    assert np.sqrt(np.mean((numpy(grad) - wanted) ** 2)) <= 2e-3 * scale + 0.02 * (33 not in shape)


def test_a_bias_of_minus_infinity_hides_keys(mode: str) -> None:
    arrays, hidden = qkv(1, 2, 2, 17, 33, 16), np.triu(np.ones((17, 33), bool), 5)
    bias = Tensor(np.where(hidden, -np.inf, 0).astype(np.float16))
    ones = Tensor(np.ones(arrays[0].shape, np.float32))
    found, grads = OutputsAndGradients(Biased())(*[Tensor(a) for a in arrays], bias, ones)
    assert rms_ratio(found, golden.flash_attention(*arrays, hidden)[0]) <= 2e-3
    assert rms_ratio(grads[1], golden.flash_attention_grad(*arrays, np.ones(arrays[0].shape), hidden)[1]) <= 2e-3


def test_a_bias_is_no_mask_in_a_graph_either() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    arrays, mask = qkv(1, 2, 2, 17, 33, 16), (RNG.rand(17, 33) < 0.3).astype(np.float16)
    tensors = [Tensor(a) for a in arrays]
    out = golden.flash_attention(*arrays, mask)[0]
    d_out = (Tensor(out.astype(np.float16)), *[ops.zeros((1, 2, 17), ms.float32)] * 2)
    found = Gradients(Attention())(*tensors, Tensor(mask), d_out)
    wanted = golden.flash_attention_grad(*arrays, out, mask)
    assert rms_ratio(found[1], wanted[1]) <= 1e-2
    with pytest.raises(OpArgumentError, match=r"attn_mask is a float16 mask with values such as -[12]\.5; accepted"):
        numpy(Attention()(*tensors, Tensor(mask - 2.5))[0])


def test_a_bias_is_no_mask() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    tensors, bias = [Tensor(a) for a in qkv(1, 2, 2, 17, 33, 16)], Tensor(np.full((17, 33), -2.5, np.float16))
    with pytest.raises(
        OpArgumentError, match=r"attn_mask is a float16 mask with values such as -2\.5; accepted: 0 .* attn_bias"
    ):
        mco.ops.flash_attention(*tensors, bias)
    with pytest.raises(OpArgumentError, match="attn_bias is given beside real_shift; accepted: one of the two"):
        mco.ops.flash_attention(*tensors, None, bias, attn_bias=bias)


def test_drop_mask(mode: str) -> None:
    mask = (RNG.rand(2, 2, 17, 33) < 0.8).astype(np.uint8)
    check(Attention(keep_prob=0.8), qkv(2, 2, 2, 17, 33, 16), extras=(None, None, mask), attrs={"keep_prob": 0.8})


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_lengths_as_tensors(mode: str, dtype: type) -> None:
    lengths = (np.array([17, 5, 0], dtype), np.array([20, 33, 7], dtype))
    check(
        Attention(sparse_mode=3),
        qkv(3, 2, 2, 17, 33, 16),
        extras=(None, None, None, *lengths),
        attrs={"sparse_mode": 3},
    )


def test_lengths_as_lists(mode: str) -> None:
    arrays = qkv(2, 2, 2, 17, 33, 16)
    out = AttentionWithLists()(*[Tensor(a) for a in arrays])
    wanted = golden.flash_attention(*arrays, actual_seq_qlen=[17, 4], actual_seq_kvlen=[33, 9])[0]
    assert rms_ratio(out, wanted) <= 2e-3


class AttentionWithLists(ms.nn.Cell):
    def construct(self, query, key, value):
        return mco.ops.flash_attention(query, key, value, actual_seq_qlen=[17, 4], actual_seq_kvlen=(33, 9))[0]


def test_views_arrive_contiguous(mode: str) -> None:
    arrays = qkv(1, 2, 2, 17, 33, 16)
    views = [Tensor(np.ascontiguousarray(a.transpose(0, 2, 1, 3))).transpose(0, 2, 1, 3) for a in arrays]
    sliced = ops.concat([Tensor(arrays[0]), Tensor(arrays[0])], 2)[:, :, 17:]
    wanted = golden.flash_attention(*arrays)[0]
    assert rms_ratio(AttentionOut()(*views), wanted) <= 2e-3
    assert rms_ratio(AttentionOut()(sliced, *views[1:]), wanted) <= 2e-3


def test_one_tensor_for_all(mode: str) -> None:
    x = random(1, 2, 17, 16)
    tensor = Tensor(x)
    assert rms_ratio(AttentionOut()(tensor, tensor, tensor), golden.flash_attention(x, x, x)[0]) <= 2e-3


class TwoCalls(ms.nn.Cell):
    def construct(self, query, key, value):
        one = mco.ops.flash_attention(query, key, value, scale_value=0.5)[0]
        return mco.ops.flash_attention(one, key, value, sparse_mode=3)[0]


def test_two_attribute_values_in_one_graph(mode: str) -> None:
    arrays = qkv(1, 2, 2, 17, 17, 16)
    one = golden.flash_attention(*arrays, scale_value=0.5)[0].astype(np.float16)
    wanted = golden.flash_attention(one, *arrays[1:], sparse_mode=3)[0]
    assert rms_ratio(TwoCalls()(*[Tensor(a) for a in arrays]), wanted) <= 2e-3


@pytest.mark.parametrize("level", ["O0", "O1"])
def test_jit_levels(level: str) -> None:
    ms.set_context(jit_config={"jit_level": level})
    check(Attention(sparse_mode=3), qkv(1, 2, 2, 17, 33, 16), attrs={"sparse_mode": 3})


def test_jit_in_pynative() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    arrays = qkv(1, 2, 2, 17, 33, 16)
    function = ms.jit(plain_attention)
    assert rms_ratio(function(*[Tensor(a) for a in arrays]), golden.flash_attention(*arrays)[0]) <= 2e-3


def plain_attention(query, key, value):
    return mco.ops.flash_attention(query, key, value)[0]


def test_same_result_in_both_modes_and_every_time() -> None:
    tensors = [Tensor(a) for a in qkv(2, 2, 2, 63, 63, 40)]
    graph = AttentionOut(sparse_mode=3)(*tensors).asnumpy()
    again = AttentionOut(sparse_mode=3)(*tensors).asnumpy()
    ms.set_context(mode=ms.PYNATIVE_MODE)
    pynative = AttentionOut(sparse_mode=3)(*tensors).asnumpy()
    assert (graph == again).all() and (graph == pynative).all()


@pytest.mark.parametrize(
    "shape, kv",
    [
        ((0, 2, 17, 16), (0, 2, 9, 16)),
        ((2, 0, 17, 16), (2, 0, 9, 16)),
        ((2, 2, 0, 16), (2, 2, 9, 16)),
        ((2, 2, 17, 16), (2, 2, 0, 16)),
    ],
    ids=str,
)
def test_nothing_to_attend_to(mode: str, shape: tuple[int, ...], kv: tuple[int, ...]) -> None:
    query, key = Tensor(np.ones(shape, np.float16)), Tensor(np.ones(kv, np.float16))
    d = (query, Tensor(np.ones(shape[:3], np.float32)), Tensor(np.ones(shape[:3], np.float32)))
    (out, row_max, row_sum), grads = OutputsAndGradients(Attention())(query, key, key, d)
    assert out.shape == shape and row_max.shape == row_sum.shape == shape[:3]
    assert out.dtype == ms.float16 and row_max.dtype == row_sum.dtype == ms.float32
    assert [x.shape for x in grads] == [shape, kv, kv]
    assert not any(numpy(x).any() for x in (out, row_max, row_sum, *grads))


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
def test_other_chips(mode: str, chip: str) -> None:
    mco.set_soc(chip)
    check(Attention(sparse_mode=3), qkv(1, 2, 1, 17, 33, 40), attrs={"sparse_mode": 3})


def test_gradients_of_everything_are_complete(mode: str) -> None:
    """No gradient is missing or None, whatever is differentiated: None would abort the process."""
    tensors = [Tensor(a) for a in qkv(1, 2, 2, 17, 33, 16)]
    mask, shift = Tensor(np.zeros((17, 33), bool)), Tensor(random(1, 2, 1, 33))
    d_out = (tensors[0], ops.zeros((1, 2, 17), ms.float32), ops.zeros((1, 2, 17), ms.float32))
    gradients = Gradients(Attention())(*tensors, mask, shift, None, None, None, d_out)
    floats = [g for g in gradients if isinstance(g, Tensor) and g.dtype == ms.float16]
    assert len(floats) == 4 and floats[3].asnumpy().any() and floats[3].shape == shift.shape
