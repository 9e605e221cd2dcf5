# SPDX-License-Identifier: Apache-2.0
"""Training steps: against MindSpore's composition, mixed precision, recompute, accumulation, checkpoints."""

from __future__ import annotations

import functools
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from attention_nets import AttentionOut, Composition, Loss, Model, data, seeded_model, train
from mindspore import nn, ops

SCALE = 16**-0.5


@functools.cache
def plain_losses(mode: str) -> list[float]:
    """Of the model as it is; what changes nothing about its mathematics is compared with them."""
    ms.set_context(mode=ms.GRAPH_MODE if mode == "GRAPH" else ms.PYNATIVE_MODE)
    return train(seeded_model())


def test_same_losses_as_the_composition(mode: str) -> None:
    ours = plain_losses(mode)
    theirs = train(seeded_model(attention=Composition(SCALE)))
    assert np.abs(np.subtract(ours, theirs)).max() < 1e-3
    assert ours[-1] < ours[0]


def test_same_losses_in_both_modes() -> None:
    assert np.abs(np.subtract(plain_losses("GRAPH"), plain_losses("PYNATIVE"))).max() < 1e-5


@pytest.mark.parametrize("level", ["O2", "O3"])
def test_mixed_precision(mode: str, level: str) -> None:
    """Under O2 and O3 MindSpore casts inputs of a Custom to float16; statistics must stay float32."""
    mixed = train(ms.amp.auto_mixed_precision(seeded_model(), level))
    assert np.abs(np.subtract(plain_losses(mode), mixed)).max() < 2e-2


def test_to_float(mode: str) -> None:
    net = seeded_model()
    net.attention.to_float(ms.float16)
    assert np.abs(np.subtract(train(net), plain_losses(mode))).max() < 1e-3


def test_recompute(mode: str) -> None:
    net = seeded_model()
    net.attention.recompute()
    assert np.abs(np.subtract(train(net), plain_losses(mode))).max() < 1e-5


def test_recompute_with_dropout_in_the_kernel() -> None:
    """The mask comes from a counter, so the recomputed forward pass has the same one."""
    nets = [seeded_model(attention=AttentionOut(keep_prob=0.7, seed=5)) for _ in range(2)]
    nets[0].attention.recompute()
    assert np.abs(np.subtract(train(nets[0]), train(nets[1]))).max() < 1e-5


class Accumulate(nn.Cell):
    """Sums gradients over steps, applies them at the last one."""

    def __init__(self, net: nn.Cell, steps: int):
        super().__init__()
        self.net = net
        self.steps = steps
        self.weights = ms.ParameterTuple(net.trainable_params())
        self.sums = self.weights.clone(prefix="sums", init="zeros")
        self.optimizer = nn.SGD(self.weights, 0.1)
        self.grad = ops.GradOperation(get_by_list=True)

    def construct(self, x, y, last):
        gradients = self.grad(self.net, self.weights)(x, y)
        for total, gradient in zip(self.sums, gradients):  # noqa: B905 - the graph compiler knows no strict=
            ops.assign_add(total, gradient / self.steps)
        if last:
            self.optimizer(self.sums)
        return gradients[0].sum()


def test_gradient_accumulation(mode: str) -> None:
    pairs = data(2)
    nets = [seeded_model(), seeded_model()]
    accumulate = Accumulate(Loss(nets[0]), 2)
    for i, (x, y) in enumerate(pairs):
        accumulate(x, y, i == 1)
    x, y = [ops.concat([pair[i] for pair in pairs]) for i in (0, 1)]
    Accumulate(Loss(nets[1]), 1)(x, y, True)
    for one, other in zip(nets[0].trainable_params(), nets[1].trainable_params(), strict=True):
        assert np.abs(one.asnumpy() - other.asnumpy()).max() < 1e-4


def test_value_and_grad_inside_jit() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net = Loss(seeded_model())
    optimizer = nn.Adam(net.trainable_params(), 1e-2)
    value_and_grad = ms.value_and_grad(net, None, optimizer.parameters)

    @ms.jit
    def step(x, y):
        loss, gradients = value_and_grad(x, y)
        optimizer(gradients)
        return loss

    losses = [float(step(x, y).asnumpy()) for x, y in data(3)]
    assert np.abs(np.subtract(losses, plain_losses("GRAPH")[:3])).max() < 1e-4


def test_checkpoint(tmp_path: Path) -> None:
    net = seeded_model()
    train(net)
    ms.save_checkpoint(net, str(tmp_path / "model.ckpt"))
    other = Model()
    ms.load_param_into_net(other, ms.load_checkpoint(str(tmp_path / "model.ckpt")))
    x, _ = data(1)[0]
    assert (net(x).asnumpy() == other(x).asnumpy()).all()
