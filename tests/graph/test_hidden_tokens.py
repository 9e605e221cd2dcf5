# SPDX-License-Identifier: Apache-2.0
"""Rows that take no part (beyond a length, under a mask, outside a band) may hold anything: results are those with
zeros there, bit for bit."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
import pytest
from attention_nets import random
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops.lower.run import run_public
from ms_custom_ops.mindspore import seen as graph
from ms_custom_ops.op_impl.flash_attention import golden
from ms_custom_ops.op_impl.flash_attention.seen import Band, seen

B, N1, N2, S1, S2, D = 2, 4, 2, 70, 150, 24
LENGTHS = {"actual_seq_qlen": [33, 64], "actual_seq_kvlen": [130, 50]}
_MASK = np.random.default_rng(0).random((B, N1, S1, S2)) < 0.3
_MASK[0, :, :, 100:] = _MASK[1, :, 60:] = _MASK[1, :2, :, 3] = True
CASES: dict[str, dict[str, Any]] = {
    "lengths": LENGTHS,
    "causal lengths": {**LENGTHS, "sparse_mode": 3},
    "mask": {"attn_mask": _MASK},
    "mask and lengths": {"attn_mask": _MASK[1, 0], **LENGTHS},
    "band": {"sparse_mode": 4, "pre_tokens": 5, "next_tokens": -3},
    "blocks": {"next_block_num": 0},
}


def rows_seen(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(B, N1, S1, 1) and (B, N2, S2, 1), from the golden's matrix of what each row sees."""
    q, k = np.zeros((B, N1, S1, 1)), np.zeros((B, N2, S2, 1))
    visible = golden._prepare("test", q, k, k, case.get("attn_mask"), None, None,
                              *(case.get(name) for name in LENGTHS), 1.0, 1.0, 0, case.get("sparse_mode", 0),
                              case.get("pre_tokens", 0), case.get("next_tokens", 0),
                              case.get("prev_block_num", 65536), case.get("next_block_num", 65536)).visible  # fmt: skip
    return visible.any(-1)[..., None], visible.reshape(B, N2, -1, S1, S2).any((2, 3))[..., None]


def sizes_of(case: dict[str, Any]) -> dict[str, Any]:
    defaults = dict(sparse_mode=0, pre_tokens=2**31 - 1, next_tokens=2**31 - 1)
    blocks = dict(prev_block_num=65536, next_block_num=65536)
    return dict(S1=S1, S2=S2, N2=N2) | defaults | blocks | {k: v for k, v in case.items() if isinstance(v, int)}


class Loss(nn.Cell):
    """Depends on all three results."""

    def __init__(self, case: dict[str, Any], tensors: bool):
        super().__init__()
        self.mask = Tensor(case["attn_mask"]) if "attn_mask" in case else None
        lengths = [case.get(name) for name in LENGTHS]
        self.lengths = tuple(Tensor(x, ms.int32) if tensors and x else x for x in lengths)
        self.numbers = {k: v for k, v in case.items() if isinstance(v, int)}

    def construct(self, query: Tensor, key: Tensor, value: Tensor, d_out: Tensor) -> Tensor:
        return ops.cast(self.results(query, key, value)[0], ms.float32) * ops.cast(d_out, ms.float32)

    def results(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return mco.ops.flash_attention(
            query, key, value, self.mask, None, None, self.lengths[0], self.lengths[1], **self.numbers
        )


class Results(Loss):
    def construct(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return self.results(query, key, value)


def everything(case: dict[str, Any], fill: float, dtype: Any, tensors: bool) -> list[np.ndarray]:
    """Results and gradients with ``fill`` and its sign in turn in rows that take no part."""
    queries, keys = rows_seen(case)
    shapes = ((N1, S1), (N2, S2), (N2, S2), (N1, S1))
    hidden = np.where(np.arange(D) % 2, fill, np.sign(fill)).astype(np.float16)
    arrays = [
        np.where(kept, random(B, *shape, D, seed=i), hidden)
        for i, (shape, kept) in enumerate(zip(shapes, (queries, keys, keys, queries), strict=True))
    ]
    q, k, v, d_out = (ops.cast(Tensor(x), dtype) for x in arrays)
    results = Results(case, tensors)(q, k, v)
    grads = ms.grad(Loss(case, tensors), (0, 1, 2))(q, k, v, d_out)
    return [ops.cast(x, ms.float32).asnumpy() for x in (*results, *grads)]


def check_no_influence(case: str, dtype: Any, tensors: bool) -> None:
    wanted = everything(CASES[case], 0.0, dtype, tensors)
    assert all(np.isfinite(x).all() for x in wanted)
    for x, y in zip(everything(CASES[case], np.nan, dtype, tensors), wanted, strict=True):
        assert x.tobytes() == y.tobytes()
    for x, y in zip(everything(CASES[case], -np.inf, dtype, tensors), wanted, strict=True):
        assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("soc, dtype", [("Ascend910A", ms.float16), ("Ascend910B1", ms.bfloat16)])
def test_what_takes_no_part_has_no_influence(soc: str, dtype: Any, case: str) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    mco.set_soc(soc)
    check_no_influence(case, dtype, tensors=soc == "Ascend910A")


@pytest.mark.parametrize("case", ["causal lengths", "mask and lengths"])
def test_what_takes_no_part_has_no_influence_in_a_graph(case: str) -> None:
    check_no_influence(case, ms.float16, tensors=True)  # lists would be constants of the graph


@pytest.mark.parametrize("case", CASES)
def test_rows_seen_are_those_of_the_golden(case: str) -> None:
    parameters = Band.of(sizes_of(CASES[case])).parameters
    given = [CASES[case].get(name) for name in (*LENGTHS, "attn_mask")]
    tensors = [None if x is None else Tensor(x) for x in given]
    wanted = rows_seen(CASES[case])
    for found in (seen(*given, *parameters), tuple(x.asnumpy() for x in graph.seen(*tensors, parameters))):
        for x, y in zip(found, wanted, strict=False):
            np.testing.assert_array_equal(np.broadcast_to(x, y.shape), y)


def test_arrays_take_the_same_way() -> None:
    case, arrays = CASES["mask and lengths"], {}
    queries, keys = rows_seen(case)
    for fill in (0.0, np.nan):
        q = np.where(queries, random(B, N1, S1, D, seed=1), np.float16(fill))
        k, v = (np.where(keys, random(B, N2, S2, D, seed=i), np.float16(fill)) for i in (2, 3))
        arrays[fill] = run_public("flash_attention", {"query": q, "key": k, "value": v, **case}, {})
    for name, x in arrays[0.0].items():
        assert arrays[np.nan][name].tobytes() == x.tobytes(), name


def test_golden_with_nan_in_hidden_rows() -> None:
    case = CASES["causal lengths"]
    queries, keys = rows_seen(case)
    found = []
    for fill in (0.0, np.nan):
        q, d_out = (np.where(queries, random(B, N1, S1, D, seed=i), fill) for i in (1, 4))
        k, v = (np.where(keys, random(B, N2, S2, D, seed=i), fill) for i in (2, 3))
        found.append([*golden.flash_attention(q, k, v, **case), *golden.flash_attention_grad(q, k, v, d_out, **case)])
    for x, y in zip(*found, strict=True):
        assert x.tobytes() == y.tobytes()
