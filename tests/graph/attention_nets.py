# SPDX-License-Identifier: Apache-2.0
"""Cells and helpers of the graph tests, in a file because the graph compiler reads their source."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

import ms_custom_ops as mco
from ms_custom_ops.op_impl.flash_attention import golden

RMS_LIMIT = {ms.float16: 2e-3, ms.bfloat16: 1.5e-2}


class Attention(nn.Cell):
    """flash_attention with fixed attributes; returns all three outputs."""

    def __init__(self, **attrs: Any):
        super().__init__()
        self.attrs = attrs

    def construct(self, query, key, value, attn_mask=None, real_shift=None, drop_mask=None, qlen=None, kvlen=None):
        return mco.ops.flash_attention(query, key, value, attn_mask, real_shift, drop_mask, qlen, kvlen, **self.attrs)


class AttentionOut(nn.Cell):
    """attention_out alone, of query, key and value."""

    def __init__(self, **attrs: Any):
        super().__init__()
        self.attention = Attention(**attrs)

    def construct(self, query, key, value):
        return self.attention(query, key, value)[0]


class Composition(nn.Cell):
    """The same attention out of MindSpore's own ops."""

    def __init__(self, scale: float):
        super().__init__()
        self.scale = scale

    def construct(self, query, key, value):
        scores = ops.matmul(query, ops.swapaxes(key, -1, -2)) * self.scale
        return ops.matmul(ops.softmax(scores, -1), value)


class Gradients(nn.Cell):
    """Gradients of all inputs of ``net`` for an output gradient."""

    def __init__(self, net: nn.Cell):
        super().__init__()
        self.net = net
        self.grad = ops.GradOperation(get_all=True, sens_param=True)

    def construct(self, *args):
        return self.grad(self.net)(*args)


class OutputsAndGradients(nn.Cell):
    """Outputs of ``net``, and the gradients of all its inputs for the output gradient that comes last: one graph, which
    compiles in little more than half the time of two."""

    def __init__(self, net: nn.Cell):
        super().__init__()
        self.net = net
        self.grad = ops.GradOperation(get_all=True, sens_param=True)

    def construct(self, *args):
        return self.net(*args[:-1]), self.grad(self.net)(*args)


class Model(nn.Cell):
    """Dense, attention in float16, Dense: float32 weights, mean of squares as loss."""

    def __init__(self, width: int = 32, heads: int = 2, attention: nn.Cell | None = None):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv = nn.Dense(width, 3 * width)
        self.proj = nn.Dense(width, width)
        self.attention = attention if attention is not None else AttentionOut(sparse_mode=0)

    def construct(self, x):
        b, s, w = x.shape
        qkv = ops.reshape(self.qkv(x), (b, s, 3 * self.heads, self.size))
        q, k, v = ops.split(ops.transpose(qkv, (0, 2, 1, 3)), self.heads, axis=1)
        out = self.attention(ops.cast(q, ms.float16), ops.cast(k, ms.float16), ops.cast(v, ms.float16))
        out = ops.reshape(ops.transpose(ops.cast(out, x.dtype), (0, 2, 1, 3)), (b, s, w))
        return self.proj(out)


class Loss(nn.Cell):
    """Mean squared error of a model."""

    def __init__(self, net: nn.Cell):
        super().__init__()
        self.net = net

    def construct(self, x, y):
        return ops.mean((ops.cast(self.net(x), ms.float32) - y) ** 2)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """float16 normal numbers."""
    return np.random.RandomState(seed).randn(*shape).astype(np.float16)


def qkv(b: int, n1: int, n2: int, s1: int, s2: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """query, key, value."""
    return random(b, n1, s1, d, seed=1), random(b, n2, s2, d, seed=2), random(b, n2, s2, d, seed=3)


def numpy(tensor: Tensor) -> np.ndarray:
    """float64 array of any float tensor."""
    return ops.cast(tensor, ms.float32).asnumpy().astype(np.float64)


def rms_ratio(actual: Tensor, wanted: np.ndarray) -> float:
    """rms(actual - wanted) / rms(wanted)."""
    difference = numpy(actual) - wanted
    assert np.isfinite(difference).all()
    return float(np.sqrt(np.mean(difference**2)) / max(np.sqrt(np.mean(np.square(wanted))), 1e-30))


def check(net: nn.Cell, arrays: tuple, dtype: Any = ms.float16, extras: tuple = (), attrs: dict | None = None) -> None:
    """Outputs and gradients of ``net`` (an Attention) against the golden."""
    tensors = [ops.cast(Tensor(a), dtype) for a in arrays]
    arrays = tuple(numpy(t) for t in tensors)
    given = [None if e is None else Tensor(e) for e in extras]
    wanted = golden.flash_attention(*arrays, *extras, **(attrs or {}))
    d_out = ops.cast(Tensor(random(*arrays[0].shape, seed=4)), dtype)
    d_max, d_sum = (random(*wanted[1].shape, seed=i).astype(np.float32) for i in (5, 6))
    outputs, gradients = OutputsAndGradients(net)(*tensors, *given, (d_out, Tensor(d_max), Tensor(d_sum)))
    for name, actual, reference in zip(("out", "max", "sum"), outputs, wanted, strict=True):
        assert actual.shape == reference.shape
        ratio = rms_ratio(actual, reference)
        assert ratio <= RMS_LIMIT[dtype], f"{name} ratio {ratio:.2e}"
    wanted = golden.flash_attention_grad(
        *arrays, numpy(d_out), *extras, **(attrs or {}), d_softmax_max=d_max, d_softmax_sum=d_sum
    )
    kinds = [dtype] * 3
    if len(wanted) > 3:  # of real_shift, the last tensor of these calls
        gradients, kinds = (*gradients[:3], gradients[-1]), [*kinds, given[1].dtype]
    for name, actual, reference, kind in zip(("dq", "dk", "dv", "dshift"), gradients, wanted, kinds, strict=False):
        assert actual.shape == reference.shape and actual.dtype == kind
        ratio = rms_ratio(actual, reference)
        assert ratio <= RMS_LIMIT[dtype], f"{name} ratio {ratio:.2e}"


def data(steps: int, b: int = 2, s: int = 17, width: int = 32) -> list[tuple[Tensor, Tensor]]:
    """Training pairs."""
    rng = np.random.RandomState(7)
    return [
        (Tensor(rng.randn(b, s, width).astype(np.float32)), Tensor(rng.randn(b, s, width).astype(np.float32)))
        for _ in range(steps)
    ]


def train(net: nn.Cell, steps: int = 4) -> list[float]:
    """Losses of a few Adam steps."""
    step = nn.TrainOneStepCell(Loss(net), nn.Adam(net.trainable_params(), 1e-2))
    step.set_train()
    return [float(step(x, y).asnumpy()) for x, y in data(steps)]


def seeded_model(**kwargs: Any) -> Model:
    """A model with the same weights every time."""
    ms.set_seed(3)
    return Model(**kwargs)


def run_python(code: str, tmp_path: Path, **environ: str) -> subprocess.CompletedProcess:
    """A fresh Python process that can import this module; its code is a file: graphs need a source."""
    script = tmp_path / "script.py"
    script.write_text(code)
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "GLOG_v": "3", **environ}
    return subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=env, text=True, capture_output=True, timeout=120
    )
