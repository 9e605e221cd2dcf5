# SPDX-License-Identifier: Apache-2.0
"""A net whose gradient is the Ascend C kernel of bwd_segsum_dadt trains in GRAPH_MODE as with the TIK kernel."""

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


def losses(impl: str, count: int = 5) -> list[float]:
    net = Decay()
    optimizer = nn.SGD(net.trainable_params(), 0.5)
    step = nn.TrainOneStepCell(net, optimizer)
    with mco.use_impl(impl):
        return [float(step().asnumpy()) for _ in range(count)]


def test_the_same_losses_as_with_the_tik_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    ran: list[tuple[str, str]] = []
    publish = compiler.publish
    monkeypatch.setattr(compiler, "publish", lambda call: (ran.append((call.spec.name, call.impl)), publish(call)))
    tik, ascendc = losses("tik"), losses("ascendc")
    assert ("bwd_segsum_dadt", "tik") in ran and ("bwd_segsum_dadt", "ascendc") in ran
    np.testing.assert_allclose(ascendc, tik, rtol=1e-5)
    assert tik[-1] < tik[0]
