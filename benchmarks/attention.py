# SPDX-License-Identifier: Apache-2.0
"""Attention: the TIK kernel, MindSpore's composition in GRAPH_MODE, PyTorch's SDPA if installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from timing import FORWARD, FORWARD_BACKWARD, OURS, Contender

import ms_custom_ops as mco

IMPLS = (OURS, "mindspore", "torch_flash", "torch_math")
CAUSAL = 3
# float16 inputs and intermediates: far above their rounding, far below a wrong formula.
RMS_LIMIT = 1e-2


@dataclass(frozen=True)
class Case:
    """Self attention over (batch, heads, tokens, head_dim)."""

    batch: int
    heads: int
    tokens: int
    head_dim: int
    causal: bool = False

    @property
    def name(self) -> str:
        return "x".join(map(str, self.shape)) + ("-causal" if self.causal else "")

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.tokens, self.head_dim

    def inputs(self) -> list[np.ndarray]:
        """query, key, value and the gradient of the output, float32, the same for every implementation."""
        rng = np.random.default_rng(0)
        return [rng.standard_normal(self.shape).astype(np.float16).astype(np.float32) for _ in range(4)]

    def hidden(self) -> np.ndarray:
        """(tokens, tokens) bool, True where a key is hidden from a query."""
        return np.triu(np.full((self.tokens, self.tokens), self.causal), k=1)


CASES = (Case(1, 8, 1024, 64), Case(1, 8, 1024, 64, causal=True), Case(8, 4, 256, 64, causal=True), Case(1, 8, 511, 80))


def reference(case: Case) -> list[np.ndarray]:
    """[out, dq, dk, dv] in float64 by the plain formulas."""
    q, k, v, do = (x.astype(np.float64) for x in case.inputs())
    scale = case.head_dim**-0.5
    scores = np.where(case.hidden(), -np.inf, q @ k.swapaxes(-1, -2) * scale)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    out = p @ v
    dp = do @ v.swapaxes(-1, -2)
    ds = p * (dp - (do * out).sum(-1, keepdims=True)) * scale
    return [out, ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do]


class FlashNet(nn.Cell):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.sparse_mode = CAUSAL if case.causal else 0

    def construct(self, query, key, value):
        return mco.ops.flash_attention(query, key, value, sparse_mode=self.sparse_mode)[0]


class ComposedNet(nn.Cell):
    def __init__(self, case: Case, dtype: str) -> None:
        super().__init__()
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.mix = ops.BatchMatMul()
        self.softmax = ops.Softmax(-1)
        self.scale = case.head_dim**-0.5
        self.causal = case.causal
        self.bias = Tensor(np.where(case.hidden(), -np.inf, 0.0).astype(dtype)[None, None])

    def construct(self, query, key, value):
        scores = self.scores(query, key) * self.scale
        if self.causal:
            scores = scores + self.bias
        return self.mix(self.softmax(scores), value)


class GradNet(nn.Cell):
    """Forward and backward of a net: (query, key, value, dout) -> (dq, dk, dv)."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net = net
        self.grad = ops.GradOperation(get_all=True, sens_param=True)

    def construct(self, query, key, value, dout):
        return self.grad(self.net)(query, key, value, dout)


def mindspore_contenders(case: Case, impl: str, dtype: str) -> Iterator[Contender]:
    net = FlashNet(case) if impl == OURS else ComposedNet(case, dtype)
    grad_net = GradNet(net)
    q, k, v, do = (Tensor(x.astype(dtype)) for x in case.inputs())

    def forward() -> list[np.ndarray]:
        return [net(q, k, v).asnumpy()]

    def forward_backward() -> list[np.ndarray]:
        return [gradient.asnumpy() for gradient in grad_net(q, k, v, do)]

    # asnumpy waits for the result; its copy of a few MB belongs to what a user waits for.
    yield Contender(impl, dtype, FORWARD, forward, list)
    yield Contender(impl, dtype, FORWARD_BACKWARD, forward_backward, list)


def torch_contenders(case: Case, impl: str, dtype: str) -> Iterator[Contender]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    backend = SDPBackend.FLASH_ATTENTION if impl == "torch_flash" else SDPBackend.MATH
    q, k, v, do = (torch.from_numpy(x.astype(dtype)) for x in case.inputs())
    for x in (q, k, v):
        x.requires_grad_()

    def forward() -> list[torch.Tensor]:
        with torch.no_grad(), sdpa_kernel(backend):
            return [scaled_dot_product_attention(q, k, v, is_causal=case.causal)]

    def forward_backward() -> list[torch.Tensor]:
        with sdpa_kernel(backend):
            out = scaled_dot_product_attention(q, k, v, is_causal=case.causal)
            return list(torch.autograd.grad(out, (q, k, v), do))

    def to_numpy(outputs: list[torch.Tensor]) -> list[np.ndarray]:
        return [x.numpy() for x in outputs]

    yield Contender(impl, dtype, FORWARD, forward, to_numpy)
    yield Contender(impl, dtype, FORWARD_BACKWARD, forward_backward, to_numpy)


def contenders(case: Case, impls: tuple[str, ...]) -> list[Contender]:
    """The chosen implementations of a case, both passes; the kernel itself is measured in float16 only."""
    found: list[Contender] = []
    for impl in impls:
        make: Callable = torch_contenders if impl.startswith("torch") else mindspore_contenders
        for dtype in ("float16",) if impl == OURS else ("float16", "float32"):
            found.extend(make(case, impl, dtype))
    return found


def expected(case: Case) -> dict[str, list[np.ndarray]]:
    """Reference outputs per pass."""
    out, *gradients = reference(case)
    return {FORWARD: [out], FORWARD_BACKWARD: gradients}


def available() -> tuple[str, ...]:
    """The implementations that can run here."""
    has_torch = importlib.util.find_spec("torch") is not None
    return tuple(impl for impl in IMPLS if has_torch or not impl.startswith("torch"))


def prepare() -> None:
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
