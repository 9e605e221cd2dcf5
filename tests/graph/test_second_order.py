# SPDX-License-Identifier: Apache-2.0
"""Gradients of gradients, and derivatives forward: refused with the name of the op, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

import ms_custom_ops as mco
from ms_custom_ops.errors import OpArgumentError

ACCEPTED = r"accepted: gradients of first order .*; not of second order, jvp or jacfwd"


def attention(query, key, value):
    return mco.ops.flash_attention(query, key, value)[0].sum()


def attention_slope(query, key, value):
    return ms.grad(attention, 0)(query, key, value).sum()


def decay(da):
    return mco.ops.segsum_decay(da, 16).sum()


def decay_slope(da):
    return (ms.grad(decay)(da) * ops.exp(da)).sum()


def scan(x, da, b, c):
    return mco.ops.ssd_chunk_scan(x, da, b, c)[0].sum()


def scan_slope(x, da, b, c):
    return ms.grad(scan, 1)(x, da, b, c).sum()


def random(*shape: int, dtype: Any = np.float16) -> Tensor:
    return Tensor((-np.abs(np.random.default_rng(0).standard_normal(shape))).astype(dtype))


def inputs() -> dict[str, tuple[Callable, Callable, tuple[Tensor, ...], str]]:
    qkv = (random(1, 2, 16, 16),) * 3
    steps = (random(1, 2, 32, dtype=np.float32),)
    scanned = (random(1, 32, 2, 16), random(1, 2, 32, dtype=np.float32), random(1, 32, 1, 16), random(1, 32, 1, 16))
    return {
        "flash_attention": (attention, attention_slope, qkv, "flash_attention_grad"),
        "segsum_decay": (decay, decay_slope, steps, "bwd_segsum_dadt"),
        "ssd_chunk_scan": (scan, scan_slope, scanned, "ssd_chunk_scan_grad"),
    }


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("op", ["flash_attention", "segsum_decay", "ssd_chunk_scan"])
def test_second_order(mode: str, op: str) -> None:
    first, slope, given, name = inputs()[op]
    with pytest.raises(OpArgumentError, match=f"{name}: derivative is asked for.*{ACCEPTED}"):
        ms.grad(slope)(*given)
    assert np.isfinite(ms.grad(first)(*given).asnumpy()).all()


@pytest.mark.parametrize("op", ["flash_attention", "segsum_decay"])
def test_jvp(mode: str, op: str) -> None:
    first, _, given, name = inputs()[op]
    with pytest.raises(OpArgumentError, match=f"{name}: derivative is asked for.*{ACCEPTED}"):
        ms.jvp(first, given if len(given) > 1 else given[0], given if len(given) > 1 else given[0])
