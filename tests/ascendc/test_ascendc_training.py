# SPDX-License-Identifier: Apache-2.0
"""Nets with the Ascend C kernels of bwd_segsum_dadt and flash_attention train in GRAPH_MODE as with the TIK kernels."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import compiler

ms = pytest.importorskip("mindspore")
from mindspore import Parameter, Tensor, nn  # noqa: E402

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
B, H, CHUNK, STEPS = 1, 2, 17, 34


class Decay(nn.Cell):
    """Values weighted by the decay between steps of one chunk."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        self.da = Parameter(Tensor(-np.abs(rng.standard_normal((B, H, STEPS))).astype(np.float32)))
        self.values = Tensor(rng.standard_normal((B, H, STEPS // CHUNK, CHUNK, 1)).astype(np.float32))
        self.wanted = Tensor(rng.standard_normal((B, H, STEPS // CHUNK, CHUNK, 1)).astype(np.float32))

    def construct(self):
        decay = mco.ops.segsum_decay(self.da, CHUNK)
        return ((ms.ops.matmul(decay, self.values) - self.wanted) ** 2).mean()


class Attention(nn.Cell):
    """Causal attention of one head pair over a learned projection."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(1)
        self.weight = Parameter(Tensor(rng.standard_normal((3, 32, 32)).astype(np.float32) * 0.2))
        self.x = Tensor(rng.standard_normal((1, 2, 40, 32)).astype(np.float32))
        self.wanted = Tensor(rng.standard_normal((1, 2, 40, 32)).astype(np.float32))

    def construct(self):
        q, k, v = (ms.ops.matmul(self.x, self.weight[i]).astype(ms.float16) for i in range(3))
        out = mco.ops.flash_attention(q, k, v, sparse_mode=3)[0]
        return ((out.astype(ms.float32) - self.wanted) ** 2).mean()


def losses(cell: type[nn.Cell], impl: str, count: int = 5) -> list[float]:
    net = cell()
    optimizer = nn.SGD(net.trainable_params(), 0.5)
    step = nn.TrainOneStepCell(net, optimizer)
    with mco.use_impl(impl):
        return [float(step().asnumpy()) for _ in range(count)]


@pytest.mark.parametrize(("cell", "op"), [(Decay, "bwd_segsum_dadt"), (Attention, "flash_attention")])
def test_the_same_losses_as_with_the_tik_kernel(cell, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    ran: list[tuple[str, str]] = []
    publish = compiler.publish
    monkeypatch.setattr(compiler, "publish", lambda call: (ran.append((call.spec.name, call.impl)), publish(call)))
    tik, ascendc = losses(cell, "tik"), losses(cell, "ascendc")
    assert (op, "tik") in ran and (op, "ascendc") in ran
    np.testing.assert_allclose(ascendc, tik, rtol=1e-3)
    assert tik[-1] < tik[0]
