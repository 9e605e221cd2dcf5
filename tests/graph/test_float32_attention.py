# SPDX-License-Identifier: Apache-2.0
"""flash_attention of float32 tensors: rounded to the dtype that the caller names, refused without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from attention_nets import qkv, rms_ratio
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops.errors import OpArgumentError, OpDtypeError
from ms_custom_ops.op_impl.flash_attention import golden

LIMIT = {"float16": 2e-3, "bfloat16": 1.5e-2}


class Attention(nn.Cell):
    def __init__(self, **attrs: Any):
        super().__init__()
        self.attrs = attrs

    def construct(self, query, key, value):
        return mco.ops.flash_attention(query, key, value, **self.attrs)


class Loss(Attention):
    def construct(self, query, key, value):
        return (mco.ops.flash_attention(query, key, value, **self.attrs)[0] * 2).sum()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def tensors(dtype: Any = np.float32) -> list[Tensor]:
    return [Tensor(x.astype(dtype)) for x in qkv(1, 4, 2, 17, 33, 20)]


@pytest.mark.parametrize("compute_dtype", LIMIT)
def test_rounded_as_asked(mode: str, compute_dtype: str) -> None:
    given = tensors()
    net = Attention(compute_dtype=compute_dtype)
    out, top, total = net(*given)
    assert out.dtype == top.dtype == total.dtype == ms.float32
    expected = golden.flash_attention(*(x.asnumpy() for x in given), scale_value=20**-0.5)
    assert rms_ratio(out, expected[0]) <= LIMIT[compute_dtype]
    dtype = getattr(ms, compute_dtype)
    same = Attention()(*(ops.cast(x, dtype) for x in given))
    assert (ops.cast(same[0], ms.float32).asnumpy() == out.asnumpy()).all()
    gradients = ms.grad(Loss(compute_dtype=compute_dtype), (0, 1, 2))(*given)
    wanted = golden.flash_attention_grad(*(x.asnumpy() for x in given), np.full(out.shape, 2.0), scale_value=20**-0.5)
    for gradient, right in zip(gradients, wanted, strict=False):
        assert gradient.dtype == ms.float32
        assert rms_ratio(gradient, right) <= LIMIT[compute_dtype]


def test_half_tensors_may_name_their_own_dtype(mode: str) -> None:
    given = tensors(np.float16)
    out = Attention(compute_dtype="float16")(*given)[0]
    assert out.dtype == ms.float16
    assert (out.asnumpy() == Attention()(*given)[0].asnumpy()).all()


def test_refused_without_a_dtype(mode: str) -> None:
    text = (
        r"flash_attention: dtype of query is float32; accepted: float16 or bfloat16; float32 with "
        r"compute_dtype='float16' or compute_dtype='bfloat16' of mco.ops.flash_attention, which rounds"
    )
    with pytest.raises(OpDtypeError, match=text):
        Attention()(*tensors())


def test_other_dtypes(mode: str) -> None:
    with pytest.raises(OpArgumentError, match="compute_dtype is 'float8'; accepted: 'float16', 'bfloat16' or None"):
        Attention(compute_dtype="float8")(*tensors())
    query, key, value = tensors()
    text = "dtype of key is float16; accepted: float32 or bfloat16, the compute_dtype"
    with pytest.raises(OpDtypeError, match=text):
        Attention(compute_dtype="bfloat16")(query, ops.cast(key, ms.float16), value)


def test_chip_without_bfloat16(mode: str) -> None:
    mco.set_soc("Ascend910A")
    try:
        with pytest.raises(OpDtypeError, match="dtype of query is bfloat16 on Ascend910A"):
            Attention(compute_dtype="bfloat16")(*tensors())
        assert np.isfinite(Attention(compute_dtype="float16")(*tensors())[0].asnumpy()).all()
    finally:
        mco.set_soc("Ascend910B1")
