# SPDX-License-Identifier: Apache-2.0
"""softmax_max and softmax_sum of sparse_flash_attention have gradients, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

import ms_custom_ops as mco
from ms_custom_ops.op_impl.sparse_flash_attention import golden
from ms_custom_ops.testing import assert_rms

INDICES = np.tile(np.arange(8, dtype=np.int32), (1, 4, 1, 1))
SHAPES = ((1, 4, 2, 16), (1, 24, 1, 16), (1, 24, 1, 16))
STATISTICS = (1, 1, 4, 2)


def attention(query, key, value, statistics=True):
    return mco.ops.sparse_flash_attention(
        query, key, value, Tensor(INDICES), 0.25, sparse_mode=0, return_softmax_lse=statistics
    )


def plain(query, key, value):
    return ops.cast(attention(query, key, value, False)[0], ms.float32).sum()


def asked_and_unused(query, key, value):
    return ops.cast(attention(query, key, value)[0], ms.float32).sum()


def stopped(query, key, value):
    out, top, total = attention(query, key, value)
    return ops.cast(out, ms.float32).sum() + ops.stop_gradient(top + ops.log(total)).sum()


def log_sum_exp(query, key, value):
    _, top, total = attention(query, key, value)
    return (top + ops.log(total)).sum()


def all_three(query, key, value):
    out, top, total = attention(query, key, value)
    return ops.cast(out, ms.float32).sum() + 0.5 * top.sum() + (total * total).sum()


def of_log_sum_exp(total: np.ndarray) -> tuple[np.ndarray, ...]:
    return np.zeros(SHAPES[0]), np.ones(STATISTICS), 1 / total


def of_all_three(total: np.ndarray) -> tuple[np.ndarray, ...]:
    return np.ones(SHAPES[0]), np.full(STATISTICS, 0.5), 2 * total


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float16) for shape in SHAPES]


def gradients(loss: Callable, dtype: str = "float16") -> list[np.ndarray]:
    inputs = [ops.cast(Tensor(x), getattr(ms, dtype)) for x in arrays()]
    return [ops.cast(x, ms.float32).asnumpy() for x in ms.grad(loss, (0, 1, 2))(*inputs)]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("loss", [asked_and_unused, stopped])
def test_statistics_as_constants_change_nothing(mode: str, loss: Callable, dtype: str) -> None:
    for actual, expected in zip(gradients(loss, dtype), gradients(plain, dtype), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_statistics_as_auxiliary_results(mode: str) -> None:
    def loss(query, key, value):
        out, top, total = attention(query, key, value)
        return ops.cast(out, ms.float32).sum(), top, total

    (_, top, total), found = ms.value_and_grad(loss, (0, 1, 2), has_aux=True)(*(Tensor(x) for x in arrays()))
    assert np.isfinite(top.asnumpy()).all() and (total.asnumpy() >= 1).all()
    assert all(np.isfinite(x.asnumpy()).all() for x in found)


@pytest.mark.parametrize("loss, weights", [(log_sum_exp, of_log_sum_exp), (all_three, of_all_three)])
def test_a_loss_on_them_has_the_gradient_of_the_golden(mode: str, loss: Callable, weights: Callable) -> None:
    q, k, v = (x.astype(np.float64) for x in arrays())
    _, _, total = golden.sparse_flash_attention(q, k, v, INDICES, 0.25, sparse_mode=0)
    d_out, d_max, d_sum = weights(total)
    expected = golden.sparse_flash_attention_grad(
        q, k, v, INDICES, d_out, 0.25, sparse_mode=0, d_softmax_max=d_max, d_softmax_sum=d_sum
    )
    for name, actual in zip(("d_query", "d_key", "d_value"), gradients(loss), strict=True):
        assert_rms(name, actual.astype(np.float64), getattr(expected, name), 2e-3)
