# SPDX-License-Identifier: Apache-2.0
"""Packed sequences (layout TND) and values with heads of another size: each sequence as a call of its own."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
import pytest
from attention_nets import OutputsAndGradients
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.lower.run import run_public
from ms_custom_ops.op_impl.flash_attention import golden
from ms_custom_ops.op_impl.flash_attention.packed import row_bounds
from ms_custom_ops.testing import assert_rms

N1, N2, D, DV = 4, 2, 24, 40
Q_ENDS, KV_ENDS = [5, 5, 40, 90], [20, 33, 33, 150]  # the second has no query, the third no key
BAND = dict(pre_tokens=7, next_tokens=3)
LIMIT = {ms.float16: 2e-3, ms.bfloat16: 1.5e-2}


def arrays() -> list[np.ndarray]:
    """Query, key, value and d_out; the last rows belong to no sequence."""
    rng = np.random.default_rng(0)
    shapes = ((95, N1, D), (160, N2, D), (160, N2, DV), (95, N1, DV))
    return [rng.standard_normal(shape).astype(np.float16) for shape in shapes]


def sequences() -> list[tuple[slice, slice]]:
    ends = zip([0, *Q_ENDS], Q_ENDS, [0, *KV_ENDS], KV_ENDS, strict=False)
    return [(slice(a, b), slice(c, d)) for a, b, c, d in ends if b > a and d > c]


def one_at_a_time(mode: int) -> list[np.ndarray]:
    """attention_out and the three gradients of the golden, in the packed layout."""
    given = arrays()
    found = [np.zeros(x.shape) for x in (given[3], *given[:3])]

    def wide(x: np.ndarray) -> np.ndarray:
        return np.pad(x.astype(np.float64), ((0, 0), (0, 0), (0, DV - x.shape[-1]))).swapaxes(0, 1)[None]

    for q_rows, kv_rows in sequences():
        q, k, v, d_out = (wide(x[rows]) for x, rows in zip(given, (q_rows, kv_rows, kv_rows, q_rows), strict=True))
        attrs = dict(scale_value=0.2, sparse_mode=mode, **BAND)
        results = [golden.flash_attention(q, k, v, **attrs)[0], *golden.flash_attention_grad(q, k, v, d_out, **attrs)]
        for target, x, rows in zip(found, results, (q_rows, q_rows, kv_rows, kv_rows), strict=True):
            target[rows] = x[0].swapaxes(0, 1)[..., : target.shape[-1]]
    return found


class Packed(nn.Cell):
    def __init__(self, mode: int, tensors: bool, score: bool = False):
        super().__init__()
        self.mode, self.score = mode, score
        self.q_ends, self.kv_ends = (Tensor(x, ms.int64) if tensors else x for x in (Q_ENDS, KV_ENDS))

    def construct(self, query, key, value):
        if self.score:
            return mco.ops.flash_attention_score(
                query, key, value, N1, actual_seq_qlen=self.q_ends, actual_seq_kvlen=self.kv_ends, scalar_value=0.2,
                input_layout="TND", sparse_mode=self.mode, **BAND,
            )  # fmt: skip
        return mco.ops.flash_attention(
            query, key, value, actual_seq_qlen=self.q_ends, actual_seq_kvlen=self.kv_ends, scale_value=0.2,
            layout="TND", sparse_mode=self.mode, **BAND,
        )[0]  # fmt: skip


def results(net: nn.Cell, given: list[np.ndarray], dtype: Any) -> list[np.ndarray]:
    out, gradients = OutputsAndGradients(net)(*[ops.cast(Tensor(x), dtype) for x in given])
    return [ops.cast(x, ms.float32).asnumpy() for x in (out, *gradients)]


def check(mode: int, tensors: bool, score: bool, dtype: Any) -> None:
    actual = results(Packed(mode, tensors, score), arrays(), dtype)
    for name, x, wanted in zip(("out", "d_query", "d_key", "d_value"), actual, one_at_a_time(mode), strict=True):
        assert x.shape == wanted.shape
        assert_rms(name, x.astype(np.float64), wanted, LIMIT[dtype])


@pytest.mark.parametrize("score", [False, True], ids=["flash_attention", "score"])
@pytest.mark.parametrize("tensors", [False, True], ids=["lists", "tensors"])
@pytest.mark.parametrize("mode", [0, 3, 4])
def test_sequences_see_their_own_keys(mode: int, tensors: bool, score: bool) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    check(mode, tensors, score, ms.float16)


@pytest.mark.parametrize("tensors, score, dtype", [(False, False, ms.bfloat16), (True, True, ms.float16)])
def test_sequences_in_a_graph(tensors: bool, score: bool, dtype: Any) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    mco.set_soc("Ascend910B1")
    check(3, tensors, score, dtype)


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B1"])
def test_nan_stays_in_its_sequence(soc: str) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    mco.set_soc(soc)
    net, given = Packed(0, True), arrays()
    wanted = results(net, given, ms.float16)
    given[1][5], given[2][7], given[3][93] = np.nan, np.inf, np.nan
    for x, y, first in zip(results(net, given, ms.float16), wanted, (5, 5, 20, 20), strict=True):
        assert x[first:].tobytes() == y[first:].tobytes()


def test_arrays_and_statistics() -> None:
    q, k, v, _ = arrays()
    lengths = dict(actual_seq_qlen=np.array(Q_ENDS), actual_seq_kvlen=np.array(KV_ENDS))
    attrs = dict(layout="TND", scale_value=0.2)
    found = run_public("flash_attention", dict(query=q, key=k, value=v, **lengths), attrs)
    assert_rms("attention_out", found["attention_out"].astype(np.float64), one_at_a_time(0)[0], 2e-3)
    assert found["softmax_max"].shape == found["softmax_sum"].shape == (N1, 95)
    assert (found["softmax_sum"][:, :5] >= 1).all() and not found["softmax_sum"][:, 5:40].any()


def test_bounds_of_rows_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        t1, t2, count = (int(n) for n in rng.integers(1, (60, 60, 6)))
        q_ends, kv_ends = (np.sort(rng.integers(0, most + 1, count)) for most in (t1, t2))
        upper, lower = (int(n) for n in rng.integers(-5, 70, 2))
        (found,) = row_bounds(q_ends, kv_ends, t1, t2, upper, lower)
        assert (np.diff(found) >= 0).all() and found.shape == (2, -(-t1 // 16) * 16)
        visible = np.zeros((t1, t2), bool)
        for a, b, c, d in zip([0, *q_ends], q_ends, [0, *kv_ends], kv_ends, strict=False):
            i, j = np.mgrid[: b - a, : d - c]
            distance = j - i - ((d - c) - (b - a))
            visible[a:b, c:d] = (distance <= upper) & (distance >= -lower)
        low, high = found[:, :t1, None]
        np.testing.assert_array_equal((np.arange(t2) >= low) & (np.arange(t2) < high), visible)


def test_values_with_heads_of_another_size(mode: str) -> None:
    rng = np.random.default_rng(2)
    for d, dv in ((48, 32), (16, 80)):
        q, k = (rng.standard_normal((1, 2, 17, d)).astype(np.float16) for _ in range(2))
        v = rng.standard_normal((1, 2, 17, dv)).astype(np.float16)
        out = mco.ops.flash_attention(Tensor(q), Tensor(k), Tensor(v))[0]
        wide = [np.pad(x, ((0, 0),) * 3 + ((0, 80 - x.shape[-1]),)).astype(np.float64) for x in (q, k, v)]
        wanted = golden.flash_attention(*wide, scale_value=d**-0.5)[0][..., :dv]
        assert_rms("attention_out", out.asnumpy().astype(np.float64), wanted, 2e-3)
        flat = [Tensor(x.swapaxes(1, 2).reshape(1, 17, -1)) for x in (q, k, v)]
        score = mco.ops.flash_attention_score(*flat, 2, scalar_value=d**-0.5, input_layout="BSH")
        assert_rms("score", score.asnumpy().astype(np.float64), wanted.swapaxes(1, 2).reshape(1, 17, -1), 2e-3)


TND = "input_layout TND"
REFUSED = {
    "no lengths": ({}, f"actual_seq_qlen is None; accepted: inclusive prefix sums of the lengths: {TND} needs them"),
    "shift": ({"real_shift": Tensor(np.zeros(1, np.float16))}, f"real_shift is given; accepted: None in {TND}"),
    "mask": ({"attn_mask": Tensor(np.zeros((4, 4), bool))}, f"attn_mask is given; accepted: None in {TND} and"),
    "mode 2": ({"sparse_mode": 2, "actual_seq_kvlen": [1, 4]}, f"sparse_mode 2 in {TND} is lengths that differ"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    x = Tensor(np.zeros((4, 2, 16), np.float16))
    attrs, text = REFUSED[name]
    lengths = {"actual_seq_qlen": [2, 4], "actual_seq_kvlen": [2, 4]} if attrs else {}
    with pytest.raises(OpArgumentError, match=f"flash_attention_score: {text}"):
        mco.ops.flash_attention_score(x, x, x, 2, input_layout="TND", **{**lengths, **attrs})


def test_masks_of_packed_sequences_are_refused() -> None:
    x, mask = Tensor(np.zeros((4, 2, 16), np.float16)), Tensor(np.zeros((4, 4), bool))
    with pytest.raises(OpArgumentError, match="masks, biases and drop masks are for BNSD"):
        mco.ops.flash_attention(x, x, x, mask, actual_seq_qlen=[4], actual_seq_kvlen=[4], layout="TND")
    with pytest.raises(OpArgumentError, match="TND needs both prefix sums"):
        mco.ops.flash_attention(x, x, x, layout="TND")
