# SPDX-License-Identifier: Apache-2.0
"""Random inputs of the scans as MindSpore tensors."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor


class Random:
    """Tensors from one seed."""

    def __init__(self, dtype=ms.float16, seed=0):
        self.rng, self.dtype = np.random.default_rng(seed), dtype

    def operand(self, *shape):
        return Tensor(self.rng.standard_normal(shape).astype(np.float32)).astype(self.dtype)

    def float32(self, *shape, low=-1.0, high=1.0):
        return Tensor(self.rng.uniform(low, high, shape).astype(np.float32))


def ssd_inputs(sizes, dtype=ms.float16, owners=None):
    b, s, h, g, p, n = sizes
    r = Random(dtype)
    return dict(
        x=r.operand(b, s, h, p),
        da=r.float32(b, h, s, low=-0.2, high=0),
        B=r.operand(b, s, g, n),
        C=r.operand(b, s, g, n),
        initial_states=r.float32(owners or b, h, p, n),
    )


def mamba3_inputs(sizes, dtype=ms.float16, owners=None):
    b, s, rank, h, g, p, n = sizes
    r = Random(dtype)
    return dict(
        q=r.operand(b, s, rank, g, n),
        k=r.operand(b, s, rank, g, n),
        v=r.operand(b, s, rank, h, p),
        da=r.float32(b, h, s, low=-0.2, high=0),
        dt=r.float32(b, h, s, low=0, high=1),
        trap=r.float32(b, h, s),
        initial_states=r.float32(owners or b, h, p, n),
    )
