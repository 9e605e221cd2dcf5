# SPDX-License-Identifier: Apache-2.0
"""Nets with Ascend C kernels (bwd_segsum_dadt, flash_attention, rms_norm, gradients included) train as with TIK."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import compiler

ms = pytest.importorskip("mindspore")
from mindspore import Parameter, Tensor, nn  # noqa: E402

pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
    pytest.mark.usefixtures("example_ops"),
]
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


class Norm(nn.Cell):
    """A learned projection with the rms_norm of examples/user_ops behind it."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(2)
        self.rms_norm = mco.load(Path(__file__).parents[2] / "examples" / "user_ops").rms_norm
        self.weight = Parameter(Tensor(rng.standard_normal((32, 48)).astype(np.float32)))
        self.scale = Parameter(Tensor(np.ones(48, np.float32)))
        self.x = Tensor(rng.standard_normal((37, 32)).astype(np.float32))
        self.wanted = Tensor(rng.standard_normal((37, 48)).astype(np.float32))

    def construct(self):
        y, _ = self.rms_norm(ms.ops.matmul(self.x, self.weight), self.scale, eps=1e-6)
        return ((y - self.wanted) ** 2).mean()


OPS = [
    (Decay, {"bwd_segsum_dadt"}),
    (Attention, {"flash_attention", "flash_attention_grad"}),
    (Norm, {"rms_norm", "rms_norm_grad"}),
]


def losses(cell: type[nn.Cell], impl: str, count: int = 5) -> list[float]:
    net = cell()
    optimizer = nn.SGD(net.trainable_params(), 0.5)
    step = nn.TrainOneStepCell(net, optimizer)
    with mco.use_impl(impl):
        return [float(step().asnumpy()) for _ in range(count)]


@pytest.mark.parametrize(("cell", "ops"), OPS, ids=[cell.__name__ for cell, _ in OPS])
def test_the_same_losses_as_with_the_tik_kernel(cell, ops: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    ran: list[tuple[str, str]] = []
    publish = compiler.publish
    monkeypatch.setattr(compiler, "publish", lambda call: (ran.append((call.spec.name, call.impl)), publish(call)))
    tik, ascendc = losses(cell, "tik"), losses(cell, "ascendc")
    for op in ops:
        assert (op, "tik") in ran and (op, "ascendc") in ran
    np.testing.assert_allclose(ascendc, tik, rtol=1e-3)
    assert tik[-1] < tik[0]
