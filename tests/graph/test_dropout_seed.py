# SPDX-License-Identifier: Apache-2.0
"""Dropout of flash_attention: a mask per call by default, one that a seed fixes otherwise; a factor as a tensor."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
import pytest
from attention_nets import numpy, qkv, rms_ratio
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops.op_impl.flash_attention import golden

ARRAYS = qkv(2, 2, 1, 33, 70, 16)
TENSORS = [Tensor(a) for a in ARRAYS]


class Dropped(nn.Cell):
    def __init__(self, recompute: bool = False, **attrs: Any):
        super().__init__()
        self.attrs = attrs
        if recompute:
            self.recompute()

    def construct(self, query, key, value, seed=None):
        return mco.ops.flash_attention(query, key, value, keep_prob=0.7, seed=seed, **self.attrs)[0]


def test_a_mask_per_call_that_follows_set_seed(mode: str) -> None:
    runs = []
    for _ in range(2):
        ms.set_seed(3)
        net = Dropped()
        runs.append([net(*TENSORS).asnumpy() for _ in range(3)])
    first, second = runs
    assert not any((a == b).all() for a, b in ((first[0], first[1]), (first[1], first[2])))
    whole = golden.flash_attention(*ARRAYS)[0]
    for out in first:
        assert 0.1 < np.sqrt(np.mean((out - whole) ** 2)) / np.sqrt(np.mean(whole**2)) < 1.5
    for a, b in zip(first, second, strict=True):
        assert (a == b).all()


@pytest.mark.parametrize("seed", [5, -1, 2**40 + 3, -(2**50)])
def test_a_tensor_is_the_seed_it_holds(mode: str, seed: int) -> None:
    found = Dropped()(*TENSORS, Tensor(seed, ms.int64))
    assert rms_ratio(found, golden.flash_attention(*ARRAYS, keep_prob=0.7, seed=seed % 2**64)[0]) <= 2e-3
    if seed == 5:
        assert (found.asnumpy() == Dropped()(*TENSORS, 5).asnumpy()).all()
        assert (found.asnumpy() == Dropped()(*TENSORS, Tensor([5], ms.int32)).asnumpy()).all()


class Linear(nn.Cell):
    """Linear in value: its gradient knows the mask of the forward pass."""

    def __init__(self, recompute: bool):
        super().__init__()
        self.net = Dropped(recompute)

    def construct(self, query, key, value):
        out = ops.cast(self.net(query, key, value), ms.float32)
        return out.sum(), out


@pytest.mark.parametrize("recompute", [False, True])
def test_the_gradient_has_the_mask_of_the_call(mode: str, recompute: bool) -> None:
    if mode == "PYNATIVE" and recompute:
        pytest.skip("MindSpore draws anew when it recomputes in PYNATIVE mode; the docstring says so")
    net = Linear(recompute)
    (total, _), grad = ms.value_and_grad(net, 2, has_aux=True)(*TENSORS)
    inner = (numpy(grad) * ARRAYS[2].astype(np.float64)).sum()
    assert abs(inner - float(total)) <= 2e-3 * np.abs(ARRAYS[2]).sum()


class Scaled(nn.Cell):
    def construct(self, query, key, value, scale):
        return ops.cast(mco.ops.flash_attention(query, key, value, scale_value=scale)[0], ms.float32)


def test_a_factor_as_a_tensor_is_trained(mode: str) -> None:
    """d loss / d scale = <query, d_query> / scale."""
    scale = Tensor(0.3, ms.float32)
    out, (d_query, d_scale) = Scaled()(*TENSORS, scale), ms.grad(Scaled(), (0, 3))(*TENSORS, scale)
    assert rms_ratio(out, golden.flash_attention(*ARRAYS, scale_value=0.3)[0]) <= 2e-3
    wanted = golden.flash_attention_grad(*ARRAYS, np.ones(ARRAYS[0].shape), scale_value=0.3)[0]
    assert rms_ratio(d_query, wanted) <= 2e-3
    assert abs(float(d_scale) - (wanted * ARRAYS[0]).sum() / 0.3) <= 1e-2 * np.abs(wanted * ARRAYS[0]).sum()
