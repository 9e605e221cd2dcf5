# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with the rms_norm of this folder in GRAPH_MODE: python train.py"""

from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn

import ms_custom_ops as mco

my_ops = mco.load(Path(__file__).parent)


class RmsNorm(nn.Cell):
    """rms_norm with a trained weight."""

    def __init__(self, width):
        super().__init__()
        self.weight = Parameter(Tensor(np.ones(width, np.float32)), name="weight")

    def construct(self, x):
        """(M, width) -> (M, width)."""
        y, _ = my_ops.rms_norm(x, self.weight, eps=1e-6)
        return y


ms.set_context(mode=ms.GRAPH_MODE)
ms.set_seed(0)
rng = np.random.default_rng(0)
x = rng.standard_normal((64, 32)).astype(np.float32)
wanted = np.tanh(x @ rng.standard_normal((32, 8)).astype(np.float32))
net = nn.SequentialCell(nn.Dense(32, 64), RmsNorm(64), nn.ReLU(), nn.Dense(64, 8))
step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 1e-2))
losses = [float(step(Tensor(x), Tensor(wanted)).asnumpy()) for _ in range(60)]
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
assert losses[-1] < losses[0] / 4
