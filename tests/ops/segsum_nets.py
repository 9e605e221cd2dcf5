# SPDX-License-Identifier: Apache-2.0
"""Calls of the public segment-sum functions from a cell, and the settings of the tests that make them."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from ms_custom_ops import config, soc


@pytest.fixture(autouse=True)
def graph_mode(program_folder):
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.GRAPH_MODE)
    soc.set_soc(config.config().soc)


class Function(nn.Cell):
    """One of the functions with a fixed chunk size and, if they are fixed too, sequence bounds."""

    def __init__(self, function, *fixed):
        super().__init__()
        self.function = function
        self.fixed = fixed

    def construct(self, *tensors):
        return self.function(*tensors, *self.fixed)


def numpy(x):
    return ops.cast(x, ms.float32).asnumpy() if x.dtype == ms.bfloat16 else x.asnumpy()


def call(function, arrays, *fixed):
    """Outputs as a list of arrays."""
    out = Function(function, *fixed)(*[x if isinstance(x, Tensor) else Tensor(x) for x in arrays])
    return [numpy(x) for x in (out if isinstance(out, tuple) else (out,))]


def tensor(x, dtype):
    return Tensor(x.astype(np.float32)).astype(getattr(ms, dtype))
