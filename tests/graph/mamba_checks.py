# SPDX-License-Identifier: Apache-2.0
"""The scans as cells, and the comparison of their values and gradients with the goldens."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from attention_nets import OutputsAndGradients
from mamba_inputs import Random
from mindspore import nn

from ms_custom_ops.testing import assert_rms

LIMIT = {ms.float16: 2e-3, ms.bfloat16: 1.5e-2}
MAMBA3_INPUTS = 7


def wide(x):
    """float64 values of a tensor of any dtype."""
    return x.astype(ms.float32).asnumpy().astype(np.float64)


class Scan(nn.Cell):
    """One of the scans with fixed options."""

    def __init__(self, function, chunk, cu=None):
        super().__init__()
        self.function, self.chunk, self.cu = function, chunk, cu

    def construct(self, *args):
        if len(args) == MAMBA3_INPUTS:
            return self.function(*args[:6], self.chunk, args[6], self.cu)
        return self.function(*args[:4], self.chunk, args[4], self.cu)


def check(net, inputs, forward, backward, limit):
    """Outputs and all gradients of ``net`` against golden functions of the wide inputs."""
    operands = {name: wide(x) for name, x in inputs.items()}
    wanted, values = forward(**operands), inputs["v" if len(inputs) == MAMBA3_INPUTS else "x"]
    r = Random(values.dtype, 7)
    d = (r.operand(*wanted[0].shape), r.float32(*wanted[1].shape))
    outputs, gradients = OutputsAndGradients(net)(*inputs.values(), d)
    assert outputs[0].dtype == values.dtype and outputs[1].dtype == ms.float32
    for name, actual, expected in zip(("y", "final_states"), outputs, wanted, strict=True):
        assert actual.shape == expected.shape
        assert_rms(name, wide(actual), expected, limit)
    expected = backward(**operands, d=wide(d[0]), d_final=wide(d[1]))
    for (name, value), gradient in zip(inputs.items(), gradients, strict=True):
        assert gradient.dtype == value.dtype and gradient.shape == value.shape
        assert_rms(f"d_{name}", wide(gradient), expected[name], limit)
