# SPDX-License-Identifier: Apache-2.0
"""FlashAttentionScore and its gradient through their two phases: layouts, masks, dropout, refusals."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ms_custom_ops import aclnn
from ms_custom_ops.op_impl.flash_attention import golden
from ms_custom_ops.testing import assert_rms

pytestmark = pytest.mark.usefixtures("program_folder")

FAR = 2147483647
B, N1, N2, S1, S2, D = 2, 4, 2, 17, 24, 40


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    """(B, N, S, D) in a layout."""
    b, n, s, d = x.shape
    if layout == "BNSD":
        return x.copy()
    if layout == "SBH":
        return np.ascontiguousarray(x.transpose(2, 0, 1, 3)).reshape(s, b, n * d)
    x = np.ascontiguousarray(x.transpose(0, 2, 1, 3))
    return x if layout == "BSND" else x.reshape(b, s, n * d)


class Problem:
    """A call; ``golden`` are the outputs and gradients in (B, N, S, D)."""

    def __init__(self, layout: str, dtype: Any = np.float16, **extra: Any):
        rng = np.random.default_rng(3)
        shapes = {"query": (N1, S1), "key": (N2, S2), "value": (N2, S2), "dy": (N1, S1)}
        self.x = {k: rng.standard_normal((B, n, s, D)).astype(dtype) for k, (n, s) in shapes.items()}
        self.layout, self.dtype = layout, dtype
        self.mask = extra.get("mask")
        self.shift = extra.get("shift")
        self.keep, self.bits = extra.get("keep", 1.0), extra.get("bits")
        wide = [self.x[name].astype(np.float64) for name in ("query", "key", "value")]
        drop = None
        if self.bits is not None:
            drop = np.unpackbits(self.bits, axis=-1, bitorder="little").reshape(B, N1, S1, S2)
        mask = None if self.mask is None else np.broadcast_to(self.mask, (B, N1, S1, S2))
        common = dict(attn_mask=mask, real_shift=self.shift, drop_mask=drop, scale_value=0.2, keep_prob=self.keep)
        self.forward = golden.flash_attention(*wide, **common)
        self.backward = golden.flash_attention_grad(*wide, self.x["dy"].astype(np.float64), **common)

    def given(self, *names: str) -> list[np.ndarray]:
        return [laid_out(self.x[name], self.layout) for name in names]

    def attrs(self, **changed: Any) -> dict[str, Any]:
        usual = dict(scale_value=0.2, keep_prob=self.keep, pre_tokens=FAR, next_tokens=FAR, head_num=N1,
                     input_layout=self.layout, sparse_mode=0)  # fmt: skip
        return usual | changed

    def outputs(self) -> dict[str, np.ndarray]:
        rows = np.full((B, N1, S1, 8), np.nan, np.float32)
        out = np.full_like(laid_out(self.x["dy"], self.layout), np.nan)
        return dict(softmax_max_out=rows, softmax_sum_out=rows.copy(), attention_out_out=out)

    def first(self, **changed: Any) -> tuple[int, int, Any]:
        names = ("real_shift", "drop_mask", "padding_mask", "atten_mask", "prefix")
        given = dict.fromkeys(names) | dict(real_shift=self.shift, drop_mask=self.bits, atten_mask=self.mask)
        inputs = dict(zip(("query", "key", "value"), self.given("query", "key", "value"), strict=True))
        return aclnn.FlashAttentionScoreGetWorkspaceSize(**(inputs | given | self.attrs() | self.outputs() | changed))


def run(second: Any, found: tuple[int, int, Any]) -> None:
    status, size, executor = found
    assert status == 0, aclnn.get_recent_error()
    assert second(np.empty(size, np.uint8), size, executor, None) == 0, aclnn.get_recent_error()


LIMIT = {"float16": 2e-3, "bfloat16": 1.5e-2}
RNG = np.random.default_rng(5)
EXTRAS = {
    "plain": {},
    "mask": {"mask": (RNG.random((S1, S2)) < 0.3).astype(np.uint8)},
    "mask_of_one_batch": {"mask": (RNG.random((1, 1, S1, S2)) < 0.3)},
    "shift": {"shift": RNG.standard_normal((B, N1, S1, S2)).astype(np.float16)},
    "dropout": {"keep": 0.5, "bits": RNG.integers(0, 256, (B, N1, S1, S2 // 8)).astype(np.uint8)},
    "flat_dropout": {"keep": 0.5, "bits": RNG.integers(0, 256, B * N1 * S1 * S2 // 8).astype(np.uint8)},
}
CALLS = [("BNSD", "plain"), ("BSND", "mask"), ("BSH", "mask_of_one_batch"), ("SBH", "shift"), ("BSH", "dropout"),
         ("BSND", "flat_dropout")]  # fmt: skip


@pytest.mark.parametrize(("layout", "extra"), CALLS, ids=[f"{a}-{b}" for a, b in CALLS])
def test_forward_and_gradient(layout, extra):
    p = Problem(layout, **EXTRAS[extra])
    outputs = p.outputs()
    run(aclnn.FlashAttentionScore, p.first(**outputs))
    assert_rms("attention_out", outputs["attention_out_out"], laid_out(np.asarray(p.forward[0]), layout), 2e-3)
    for name, expected in (("softmax_max_out", p.forward[1]), ("softmax_sum_out", p.forward[2])):
        assert_rms(name, outputs[name], np.repeat(np.asarray(expected)[..., None], 8, -1), 2e-3)
    grads = [np.full_like(x, np.nan) for x in p.given("query", "key", "value")]
    dpse = None if p.shift is None else np.full_like(p.shift, np.nan)
    inputs = [*p.given("query", "key", "value", "dy"), p.shift, p.bits, None, p.mask]
    statistics = outputs["softmax_max_out"], outputs["softmax_sum_out"], None, outputs["attention_out_out"]
    found = aclnn.FlashAttentionScoreGradGetWorkspaceSize(
        *inputs,
        *statistics,
        None,
        **p.attrs(),
        **dict(zip(("dq_out", "dk_out", "dv_out"), grads, strict=True)),
        dpse_out=dpse,
    )
    run(aclnn.FlashAttentionScoreGrad, found)
    wanted = [laid_out(np.asarray(x), layout) for x in p.backward[:3]]
    for name, value, expected in zip(("dq", "dk", "dv"), grads, wanted, strict=True):
        assert_rms(name, value, expected, 3e-3)
    if dpse is not None:
        assert_rms("dpse", dpse, np.asarray(p.backward[3]), 3e-3)


def test_bfloat16():
    p = Problem("BSH", ml_dtypes.bfloat16)
    outputs = p.outputs()
    run(aclnn.FlashAttentionScore, p.first(**outputs))
    assert_rms("attention_out", outputs["attention_out_out"], laid_out(np.asarray(p.forward[0]), "BSH"), 1.5e-2)


REFUSED = {
    "no_query": ({"query": None}, 161001, "query is None; accepted: a tensor"),
    "no_output": ({"attention_out_out": None}, 161001, "attention_out_out is None"),
    "padding_mask": ({"padding_mask": np.zeros(1, np.uint8)}, 161002, "padding_mask is given; accepted: None"),
    "prefix": ({"prefix": [1]}, 161002, "prefix is given; accepted: None"),
    "softmax_out": ({"softmax_out_out": np.zeros((2, 2), np.float32)}, 161002, "softmax_out_out is of shape (2, 2)"),
    "type_of_head_num": ({"head_num": 1.5}, 161002, "head_num is 1.5; accepted: a value of type int"),
    "type_of_layout": ({"input_layout": 3}, 161002, "input_layout is 3; accepted: a value of type str"),
    "dtype": ({"query": np.zeros((B, S1, N1 * D), np.float32)}, 161002, "dtype of query is float32"),
    "layout": ({"input_layout": "TND"}, 561002, "input_layout is 'TND'; accepted: BNSD, BSND, BSH, SBH"),
    "head_num": ({"head_num": 3}, 561002, "head_num is 3"),
    "keep_prob": ({"keep_prob": 0.5}, 561002, "drop_mask is None with keep_prob 0.5"),
    "sparse_mode": ({"sparse_mode": 9}, 561002, "sparse_mode is 9"),
    "statistics": ({"softmax_max_out": np.zeros((B, N1, S1), np.float32)}, 561002, "softmax_max_out is of shape"),
    "dtype_of_statistics": ({"softmax_sum_out": np.zeros((B, N1, S1, 8), np.int8)}, 161002, "dtype of softmax_sum_out"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    changed, code, text = REFUSED[name]
    status, size, executor = Problem("BSH").first(**changed)
    assert (status, size, executor) == (code, 0, None), aclnn.get_recent_error()
    assert text in aclnn.get_recent_error()


def test_a_gradient_without_its_statistics_is_refused():
    p = Problem("BSH")
    grads = dict(zip(("dq_out", "dk_out", "dv_out"), p.given("query", "key", "value"), strict=True))
    given = [*p.given("query", "key", "value", "dy"), None, None, None, None]
    rows = np.ones((B, N1, S1, 8), np.float32)
    for statistics, code, text in (
        ((None, rows, None, *p.given("dy")), 161001, "softmax_max is None"),
        ((np.ones((B, N1, S1), np.float32), rows, None, *p.given("dy")), 561002, "softmax_max is of shape"),
        ((rows, rows, None, np.zeros((1, 2), np.float16)), 561002, "attention_in is of shape"),
        ((rows, rows.astype(np.float16), None, *p.given("dy")), 161002, "dtype of softmax_sum is float16"),
    ):
        found = aclnn.FlashAttentionScoreGradGetWorkspaceSize(*given, *statistics, None, **p.attrs(), **grads)
        assert found[0] == code and text in aclnn.get_recent_error()


def test_an_empty_batch_writes_zeros():
    p = Problem("BSH")
    empty = [np.zeros((0, s, n * D), np.float16) for n, s in ((N1, S1), (N2, S2), (N2, S2))]
    rows = np.zeros((0, N1, S1, 8), np.float32)
    outputs = dict(softmax_max_out=rows, softmax_sum_out=rows, attention_out_out=np.zeros((0, S1, N1 * D), np.float16))
    run(aclnn.FlashAttentionScore, p.first(**dict(zip(("query", "key", "value"), empty, strict=True)), **outputs))
