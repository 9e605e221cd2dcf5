# SPDX-License-Identifier: Apache-2.0
"""softmax_max and softmax_sum of sparse_flash_attention have no gradient: a loss on them never trains with zeros."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

import ms_custom_ops as mco
from ms_custom_ops.errors import OpArgumentError

INDICES = Tensor(np.tile(np.arange(8, dtype=np.int32), (1, 4, 1, 1)))


def attention(query, key, value, statistics):
    return mco.ops.sparse_flash_attention(
        query, key, value, INDICES, 0.25, sparse_mode=0, return_softmax_lse=statistics
    )


def plain(query, key, value):
    return ops.cast(attention(query, key, value, False)[0], ms.float32).sum()


def asked_and_unused(query, key, value):
    return ops.cast(attention(query, key, value, True)[0], ms.float32).sum()


def stopped(query, key, value):
    out, top, total = attention(query, key, value, True)
    return ops.cast(out, ms.float32).sum() + ops.stop_gradient(top + ops.log(total)).sum()


def log_sum_exp(query, key, value):
    _, top, total = attention(query, key, value, True)
    return (top + ops.log(total)).sum()


def maximum_beside_output(query, key, value):
    out, top, _ = attention(query, key, value, True)
    return ops.cast(out, ms.float32).sum() + top[0, 0, 0, 0]


def inputs(dtype: str) -> list[Tensor]:
    rng = np.random.default_rng(0)
    tensors = (
        Tensor(rng.standard_normal(shape).astype(np.float32))
        for shape in ((1, 4, 2, 16), (1, 24, 1, 16), (1, 24, 1, 16))
    )
    return [ops.cast(x, getattr(ms, dtype)) for x in tensors]


def gradients(loss: Callable, dtype: str = "float16") -> list[np.ndarray]:
    return [ops.cast(x, ms.float32).asnumpy() for x in ms.grad(loss, (0, 1, 2))(*inputs(dtype))]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("loss", [asked_and_unused, stopped])
def test_statistics_as_constants_change_nothing(mode: str, loss: Callable, dtype: str) -> None:
    for actual, expected in zip(gradients(loss, dtype), gradients(plain, dtype), strict=True):
        assert actual.tobytes() == expected.tobytes()


def test_statistics_as_auxiliary_results(mode: str) -> None:
    def loss(query, key, value):
        out, top, total = attention(query, key, value, True)
        return ops.cast(out, ms.float32).sum(), top, total

    (_, top, total), found = ms.value_and_grad(loss, (0, 1, 2), has_aux=True)(*inputs("float16"))
    assert np.isfinite(top.asnumpy()).all() and (total.asnumpy() >= 1).all()
    assert all(np.isfinite(x.asnumpy()).all() for x in found)


@pytest.mark.parametrize("loss", [log_sum_exp, maximum_beside_output])
def test_a_loss_on_them_is_refused_in_pynative_mode(loss: Callable) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    text = "sparse_flash_attention: gradient of softmax_max is asked for, and it has none; accepted: losses on att"
    try:
        with pytest.raises(OpArgumentError, match=text):
            gradients(loss)
    finally:
        ms.set_context(mode=ms.GRAPH_MODE)


@pytest.mark.parametrize("loss", [log_sum_exp, maximum_beside_output])
def test_a_loss_on_them_gives_nan_in_a_graph(loss: Callable) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    query, _, _ = gradients(loss)
    assert np.isnan(query).all()
