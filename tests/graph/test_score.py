# SPDX-License-Identifier: Apache-2.0
"""flash_attention_score: MindSpore's signature, layouts, masks and modes."""

from __future__ import annotations

import inspect
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from attention_nets import OutputsAndGradients, numpy, qkv, random, rms_ratio
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops.errors import OpArgumentError, OpDtypeError
from ms_custom_ops.lower.score_plan import UNLIMITED, Sizes, band
from ms_custom_ops.op_impl.flash_attention import golden

SIZES = (2, 4, 2, 17, 24, 8)
HEADS = 4
RNG = np.random.RandomState(5)


class Score(nn.Cell):
    def __init__(self, **attrs: Any):
        super().__init__()
        self.attrs = attrs

    def construct(self, query, key, value, real_shift=None, drop_mask=None, attn_mask=None):
        return mco.ops.flash_attention_score(
            query, key, value, HEADS, real_shift, drop_mask, None, attn_mask, **self.attrs
        )


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    """A BNSD array in another layout."""
    axes = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "SBH": (2, 0, 1, 3)}[layout]
    x = np.ascontiguousarray(x.transpose(axes))
    return x.reshape(*x.shape[:2], -1) if layout.endswith("H") else x


def test_signature_is_mindspore_s() -> None:
    ours, theirs = (inspect.signature(module.flash_attention_score) for module in (mco.ops, ops))
    assert list(ours.parameters) == list(theirs.parameters)
    for name, parameter in theirs.parameters.items():
        assert ours.parameters[name].default == parameter.default, name


@pytest.mark.graph_at_night("BSND-BFloat16", "SBH-BFloat16", "BSH-BFloat16")
@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16], ids=str)
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_layouts(mode: str, layout: str, dtype: Any) -> None:
    arrays = qkv(*SIZES)
    given = [ops.cast(Tensor(laid_out(a, layout)), dtype) for a in arrays]
    net, d_out = Score(scalar_value=0.4, input_layout=layout), random(*arrays[0].shape, seed=4)
    out, gradients = OutputsAndGradients(net)(*given, ops.cast(Tensor(laid_out(d_out, layout)), dtype))
    limit = 2e-3 if dtype == ms.float16 else 1.5e-2
    assert out.shape == given[0].shape and out.dtype == dtype
    assert rms_ratio(out, laid_out(golden.flash_attention(*arrays, scale_value=0.4)[0], layout)) <= limit
    wanted = golden.flash_attention_grad(*arrays, d_out, scale_value=0.4)
    for actual, reference in zip(gradients, wanted, strict=False):
        assert rms_ratio(actual, laid_out(reference, layout)) <= limit


@pytest.mark.graph_at_night("uint8-(2, 4, 17, 24)", "bool-(2, 1, 17, 24)", "uint8-(17, 24)", "bool-(2, 4, 17, 24)")
@pytest.mark.parametrize("shape", [(2, 4, 17, 24), (2, 1, 17, 24), (17, 24)], ids=str)
@pytest.mark.parametrize("kind", [np.uint8, bool])
def test_masks(mode: str, shape: tuple[int, ...], kind: type) -> None:
    arrays, mask = qkv(*SIZES), (RNG.rand(*shape) < 0.3).astype(kind)
    for sparse_mode in (0, 1):
        out = Score(input_layout="BNSD", sparse_mode=sparse_mode)(
            *[Tensor(a) for a in arrays], None, None, Tensor(mask)
        )
        assert rms_ratio(out, golden.flash_attention(*arrays, mask, scale_value=1.0)[0]) <= 2e-3


def test_packed_drop_mask(mode: str) -> None:
    arrays, keep = qkv(*SIZES), RNG.rand(2, 4, 17, 24) < 0.7
    packed = np.packbits(keep, axis=-1, bitorder="little")
    out = Score(input_layout="BNSD", keep_prob=0.7)(*[Tensor(a) for a in arrays], None, Tensor(packed))
    wanted = golden.flash_attention(*arrays, None, None, keep, keep_prob=0.7, scale_value=1.0)[0]
    assert rms_ratio(out, wanted) <= 2e-3


def test_real_shift(mode: str) -> None:
    arrays, shift = qkv(*SIZES), random(1, 4, 17, 24)
    out = Score(input_layout="BNSD")(*[Tensor(a) for a in arrays], Tensor(shift))
    assert rms_ratio(out, golden.flash_attention(*arrays, None, shift, scale_value=1.0)[0]) <= 2e-3


@pytest.mark.graph_at_night("2-1-1-24-17", "3-1-1-17-24", "4-5-3-24-17", "4-6--2-17-24")
@pytest.mark.parametrize("s1, s2", [(17, 24), (24, 17), pytest.param(17, 17, marks=pytest.mark.nightly)], ids=str)
@pytest.mark.parametrize("sparse_mode, pre, following", [(2, 1, 1), (3, 1, 1), (4, 5, 3), (4, 6, -2)])
def test_compressed_modes(mode: str, s1: int, s2: int, sparse_mode: int, pre: int, following: int) -> None:
    arrays = qkv(1, 4, 4, s1, s2, 16)
    i, j = np.mgrid[:s1, :s2]
    right = j - i - (s2 - s1)
    masked = {2: j > i, 3: right > 0, 4: (right > following) | (right < -pre)}[sparse_mode]
    net = Score(input_layout="BNSD", sparse_mode=sparse_mode, pre_tokens=pre, next_tokens=following)
    triangle = Tensor(np.triu(np.ones((2048, 2048), np.uint8), 1))
    for mask in (None, triangle):
        out = net(*[Tensor(a) for a in arrays], None, None, mask)
        wanted = golden.flash_attention(*arrays, masked, scale_value=1.0)[0]
        assert rms_ratio(out, wanted) <= 2e-3
        assert not numpy(out)[:, :, masked.all(-1)].any()


@pytest.mark.graph_at_night("5-3-24-17", f"{UNLIMITED}-0-17-24", "4--1-24-17", "-1-6-17-24")
@pytest.mark.parametrize("s1, s2", [(17, 24), (24, 17)], ids=str)
@pytest.mark.parametrize("pre, following", [(5, 3), (UNLIMITED, 0), (4, -1), (-1, 6)])
def test_mode_0_band_beside_a_mask(mode: str, s1: int, s2: int, pre: int, following: int) -> None:
    arrays, mask = qkv(1, 4, 4, s1, s2, 16), RNG.rand(s1, s2) < 0.2
    i, j = np.mgrid[:s1, :s2]
    outside = (j > i + following) | (j < i - pre)
    net = Score(input_layout="BNSD", pre_tokens=pre, next_tokens=following)
    out = net(*[Tensor(a) for a in arrays], None, None, Tensor(mask))
    assert rms_ratio(out, golden.flash_attention(*arrays, mask | outside, scale_value=1.0)[0]) <= 2e-3


def test_tokens_without_a_mask_are_ignored() -> None:
    assert band(0, False, 1, 1, Sizes(1, 4, 4, 17, 24, 16)) == (0, UNLIMITED, UNLIMITED)


Q, KV = (2, 4, 17, 8), (2, 2, 24, 8)
BAD = {
    "layout": ({"input_layout": "NBSD"}, "input_layout is 'NBSD'; accepted: BNSD, BSND, BSH, SBH, TND"),
    "tnd": ({"input_layout": "TND"}, r"rank of query is 4 .*accepted: shape \(T, N, D\) of input_layout TND"),
    "rank": ({"input_layout": "BSH"}, r"rank of query is 4 .*accepted: shape \(B, S, N \* D\) of input_layout BSH"),
    "prefix": ({"prefix": (1, 2)}, "prefix .*is given; accepted: None"),
    "padding_mask": ({"padding_mask": Tensor(np.zeros(1))}, "padding_mask is given; accepted: None"),
    "qlen": ({"actual_seq_qlen": (17, 17)}, "actual_seq_qlen .*TND.* is given; accepted: None"),
    "kvlen": ({"actual_seq_kvlen": (17, 17)}, "actual_seq_kvlen .*TND.* is given; accepted: None"),
    "mode": ({"sparse_mode": 5}, "sparse_mode is 5; accepted: 0 .*, 4"),
    "mode_1": ({"sparse_mode": 1}, "attn_mask is None; accepted: a tensor: sparse_mode 1"),
    "mode_3_mask": (
        {"sparse_mode": 3, "attn_mask": Tensor(np.zeros((17, 24), bool))},
        r"attn_mask is of shape \(17, 24\); accepted: \(2048, 2048\) in sparse_mode 3",
    ),
    "mask_shape": ({"attn_mask": Tensor(np.zeros((17, 23), bool))}, r"attn_mask is of shape \(17, 23\); accepted: "),
    "band": ({"sparse_mode": 4, "pre_tokens": -5, "next_tokens": 2}, "-5, 2; accepted: a band that is not empty"),
    "keep_prob": ({"keep_prob": 0.0}, "keep_prob is 0.0; accepted: a probability"),
    "no_drop_mask": ({"keep_prob": 0.5}, "drop_mask is None with keep_prob 0.5"),
    "drop_mask": ({"drop_mask": Tensor(np.zeros((2, 4, 17, 3), np.uint8))}, "drop_mask is given with keep_prob 1.0"),
    "drop_shape": (
        {"keep_prob": 0.5, "drop_mask": Tensor(np.zeros((2, 4, 17, 24), np.uint8))},
        r"drop_mask is of shape \(2, 4, 17, 24\); accepted: \(B, N1, S1, S2 // 8\)",
    ),
    "shift_1024": ({"real_shift": Tensor(np.zeros((1, 4, 1024, 24), np.float16))}, "1024 rows is not supported"),
    "scalar": ({"scalar_value": None}, "scalar_value is None; accepted: a float"),
    "head_num": ({"head_num": 3}, "head_num is 3; accepted: the 4 heads of query"),
    "head_num_0": ({"head_num": 0}, "head_num is 0; accepted: an int of at least 1"),
}


class Bad(nn.Cell):
    def __init__(self, attrs: dict[str, Any]):
        super().__init__()
        self.attrs = {"head_num": HEADS, "input_layout": "BNSD", **attrs}

    def construct(self, query, key, value):
        return mco.ops.flash_attention_score(query, key, value, **self.attrs)


@pytest.mark.parametrize("name", BAD)
def test_refusals(name: str) -> None:
    attrs, text = BAD[name]
    given = [Tensor(np.zeros(shape, np.float16)) for shape in (Q, KV, KV)]
    with pytest.raises(OpArgumentError, match=f"flash_attention_score: .*{text}"):
        Bad(attrs)(*given)


@pytest.mark.parametrize(
    "attrs, text",
    [
        (
            {"attn_mask": Tensor(np.zeros((17, 24), np.float16))},
            "dtype of attn_mask is float16; accepted: bool or uint8",
        ),
        (
            {"real_shift": Tensor(np.zeros((1, 4, 17, 24), np.float32))},
            "dtype of real_shift is float32; accepted: float16",
        ),
        (
            {"keep_prob": 0.5, "drop_mask": Tensor(np.zeros((2, 4, 17, 3), bool))},
            "dtype of drop_mask is bool; accepted",
        ),
    ],
)
def test_dtype_refusals(attrs: dict[str, Any], text: str) -> None:
    given = [Tensor(np.zeros(shape, np.float16)) for shape in (Q, KV, KV)]
    with pytest.raises(OpDtypeError, match=f"flash_attention_score: {text}"):
        Bad(attrs)(*given)


def test_hidden_size_refusals() -> None:
    with pytest.raises(OpArgumentError, match="head_num is 4; accepted: a divisor of the hidden size 30 of query"):
        Score()(*[Tensor(np.zeros((2, 17, 30), np.float16))] * 3)
    with pytest.raises(OpArgumentError, match="hidden size of key is 12; accepted: a multiple of the head size D = 8"):
        Score()(Tensor(np.zeros((2, 17, 32), np.float16)), *[Tensor(np.zeros((2, 24, 12), np.float16))] * 2)
    with pytest.raises(OpArgumentError, match="value is of shape .*; accepted: the shape of key"):
        Score()(*[Tensor(np.zeros((2, s, 32), np.float16)) for s in (17, 24, 23)])
