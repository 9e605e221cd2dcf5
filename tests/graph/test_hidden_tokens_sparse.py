# SPDX-License-Identifier: Apache-2.0
"""Sparse attention, the indexer and its loss: what lies beyond a length may hold anything."""

from __future__ import annotations

from collections.abc import Callable

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco

SOCS = ("Ascend910A", "Ascend910B1")
B, S1, S2, N1, N2, D, K = 2, 9, 70, 4, 1, 32, 24
QUERIES, KEYS = [5, 9], [33, 70]
Fill = Callable[..., np.ndarray]


def filler(fill: float) -> Fill:
    """Arrays of a shape, with ``fill`` behind the lengths of axis 1."""
    seeds = iter(range(100))

    def make(lengths: list[int], *rest: int) -> np.ndarray:
        size = S1 if lengths is QUERIES else S2
        array = np.random.default_rng(next(seeds)).standard_normal((B, size, *rest)).astype(np.float16)
        for b, length in enumerate(lengths):
            array[b, length:] = fill
        return array

    return make


def same(run: Callable[[Fill], list[Tensor]]) -> None:
    """NaN and Inf there give the bits of 0 there."""
    wanted = [ops.cast(x, ms.float32).asnumpy() for x in run(filler(0.0))]
    assert all(np.isfinite(x).all() for x in wanted)
    for fill in (np.nan, np.inf):
        for i, (x, y) in enumerate(zip(run(filler(fill)), wanted, strict=True)):
            assert ops.cast(x, ms.float32).asnumpy().tobytes() == y.tobytes(), f"result {i} with {fill}"


@pytest.fixture(params=SOCS)
def soc(request: pytest.FixtureRequest) -> str:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    mco.set_soc(request.param)
    return str(request.param)


class Loss(nn.Cell):
    def construct(self, query, key, value, sinks, indices, d_out):
        out = mco.ops.sparse_flash_attention(
            query, key, value, indices, 0.2, actual_seq_lengths_query=QUERIES, actual_seq_lengths_kv=KEYS, sinks=sinks
        )[0]
        return ops.cast(out, ms.float32) * ops.cast(d_out, ms.float32)


def test_sparse_flash_attention(soc: str) -> None:
    indices = np.random.default_rng(9).permuted(np.tile(np.arange(S2, dtype=np.int32), (B, S1, N2, 1)), axis=-1)[
        ..., :K
    ]

    def run(make: Fill) -> list[Tensor]:
        q, k, v, d = (make(x, n, D) for x, n in ((QUERIES, N1), (KEYS, N2), (KEYS, N2), (QUERIES, N1)))
        sinks = Tensor(np.linspace(-1, 1, N1).astype(np.float32))
        given = [Tensor(q), Tensor(k), Tensor(v), sinks, Tensor(indices)]
        results = mco.ops.sparse_flash_attention(
            *given[:3], given[4], 0.2, actual_seq_lengths_query=QUERIES, actual_seq_lengths_kv=KEYS,
            sinks=sinks, return_softmax_lse=True,
        )  # fmt: skip
        return [*results, *ms.grad(Loss(), (0, 1, 2, 3))(*given, Tensor(d))]

    same(run)


@pytest.mark.parametrize("mode", [0, 3])
def test_lightning_indexer(soc: str, mode: int) -> None:
    def run(make: Fill) -> list[Tensor]:
        q, k, w = make(QUERIES, N1, D), make(KEYS, 1, D), make(QUERIES, N1)
        return list(
            mco.ops.lightning_indexer(
                Tensor(q), Tensor(k), Tensor(w), actual_seq_lengths_query=QUERIES, actual_seq_lengths_key=KEYS,
                sparse_count=K, sparse_mode=mode, return_value=True,
            )
        )  # fmt: skip

    same(run)


def test_indexer_kl_loss(soc: str) -> None:
    def run(make: Fill) -> list[Tensor]:
        q, k, qi, ki, w = (
            Tensor(make(x, *rest))
            for x, *rest in ((QUERIES, N1, D), (KEYS, 1, D), (QUERIES, 2, 16), (KEYS, 1, 16), (QUERIES, 2))
        )
        lengths = dict(actual_seq_lengths_query=QUERIES)
        indices, _ = mco.ops.lightning_indexer(qi, ki, w, **lengths, actual_seq_lengths_key=KEYS, sparse_count=K)
        _, top, total = mco.ops.sparse_flash_attention(
            q, k, None, indices, 0.2, **lengths, actual_seq_lengths_kv=KEYS, return_softmax_lse=True
        )

        def loss(query_index: Tensor, key_index: Tensor, weights: Tensor) -> Tensor:
            rest = (indices, top, total, None, None, QUERIES, KEYS)
            return mco.ops.indexer_kl_loss(q, k, query_index, key_index, weights, *rest, scale_value=0.2)

        value, grads = ms.value_and_grad(loss, (0, 1, 2))(qi, ki, w)
        return [value.reshape(1), *grads]

    same(run)
