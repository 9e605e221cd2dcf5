# SPDX-License-Identifier: Apache-2.0
"""Sparse attention: the TIK kernels in GRAPH_MODE, NumPy in float32, PyTorch gathering the selected rows if installed.

Multi-query attention over K selected tokens per query row, with a rotary part: an absorbed latent attention.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from timing import FORWARD, FORWARD_BACKWARD, OURS, Contender

from ms_custom_ops.mindspore.sparse_attention import sparse_flash_attention
from ms_custom_ops.op_impl.sparse_flash_attention import golden

IMPLS = (OURS, "numpy", "torch")
# float16 inputs and intermediates: far above their rounding, far below a wrong formula.
RMS_LIMIT = 1e-2
_NAMES = ("query", "key", "value", "query_rope", "key_rope")


@dataclass(frozen=True)
class Case:
    """One sequence of S1 queries and S2 keys, N1 heads, K tokens selected per query."""

    s1: int = 64
    s2: int = 2048
    heads: int = 16
    count: int = 512
    head_dim: int = 512
    rope_dim: int = 64

    @property
    def name(self) -> str:
        return f"{self.s1}x{self.s2}-N{self.heads}-K{self.count}"

    @property
    def scale(self) -> float:
        return (self.head_dim + self.rope_dim) ** -0.5

    def inputs(self) -> dict[str, np.ndarray]:
        """Tensors by name, values that float16 holds, in float32; indices are a random choice per row."""
        rng = np.random.default_rng(0)
        shapes = {
            "query": (self.s1, self.heads, self.head_dim),
            "key": (self.s2, 1, self.head_dim),
            "value": (self.s2, 1, self.head_dim),
            "query_rope": (self.s1, self.heads, self.rope_dim),
            "key_rope": (self.s2, 1, self.rope_dim),
            "d_out": (self.s1, self.heads, self.head_dim),
        }
        out = {n: rng.standard_normal((1, *s)).astype(np.float16).astype(np.float32) for n, s in shapes.items()}
        rows = [rng.permutation(self.s2)[: self.count] for _ in range(self.s1)]
        return out | {"sparse_indices": np.stack(rows).astype(np.int32)[None, :, None]}


CASES = (Case(), Case(s1=16, s2=8192, heads=64, count=2048))


def gflop(case: Case, passes: str) -> float:
    """Multiplications and additions of the products of one call, in 10^9; the backward pass recomputes the scores."""
    wide, dim = case.head_dim + case.rope_dim, case.head_dim
    forward = 2 * case.heads * case.count * (wide + dim)
    backward = 2 * case.heads * case.count * (3 * wide + 2 * dim)
    return case.s1 * (forward + (backward if passes == FORWARD_BACKWARD else 0)) / 1e9


class Net(nn.Cell):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.scale = case.scale

    def construct(self, query, key, value, query_rope, key_rope, indices):
        return sparse_flash_attention(
            query, key, value, indices, self.scale, query_rope=query_rope, key_rope=key_rope, sparse_mode=0
        )[0]


class GradNet(nn.Cell):
    """Forward and backward of the net: gradients of the five tensors."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net = net
        self.grad = ops.GradOperation(get_all=True, sens_param=True)

    def construct(self, query, key, value, query_rope, key_rope, indices, d_out):
        return self.grad(self.net)(query, key, value, query_rope, key_rope, indices, d_out)[:5]


def our_contenders(case: Case) -> Iterator[Contender]:
    net = Net(case)
    grad_net, t = GradNet(net), case.inputs()
    tensors = [Tensor(t[n].astype(np.float16)) for n in _NAMES]
    indices, d_out = Tensor(t["sparse_indices"]), Tensor(t["d_out"].astype(np.float16))

    def forward() -> list[np.ndarray]:
        return [net(*tensors, indices).asnumpy()]

    def forward_backward() -> list[np.ndarray]:
        return [gradient.asnumpy() for gradient in grad_net(*tensors, indices, d_out)]

    yield Contender(OURS, "float16", FORWARD, forward, list)
    yield Contender(OURS, "float16", FORWARD_BACKWARD, forward_backward, list)


class NumpyRows:
    """Row by row in float32: gather, two products, and in the backward pass a scatter-add."""

    def __init__(self, case: Case) -> None:
        t = case.inputs()
        self.query = np.concatenate([t["query"][0], t["query_rope"][0]], -1)
        self.key = np.concatenate([t["key"][0, :, 0], t["key_rope"][0, :, 0]], -1)
        self.value, self.indices, self.d_out = t["value"][0, :, 0], t["sparse_indices"][0, :, 0], t["d_out"][0]
        self.scale, self.dim = np.float32(case.scale), case.head_dim

    def _row(self, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        keys, values = self.key[self.indices[i]], self.value[self.indices[i]]
        scores = self.query[i] @ keys.T * self.scale
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return keys, values, weights, weights @ values

    def forward(self) -> list[np.ndarray]:
        return [np.stack([self._row(i)[3] for i in range(len(self.query))])[None]]

    def forward_backward(self) -> list[np.ndarray]:
        d_query, d_key, d_value = (np.zeros_like(x) for x in (self.query, self.key, self.value))
        for i, (rows, d_out) in enumerate(zip(self.indices, self.d_out, strict=False)):
            keys, values, weights, out = self._row(i)
            d_scores = weights * (d_out @ values.T - (d_out * out).sum(-1, keepdims=True)) * self.scale
            d_query[i] = d_scores @ keys
            d_key[rows] += d_scores.T @ self.query[i]  # an index row names a token once
            d_value[rows] += weights.T @ d_out
        return split(d_query, d_key, d_value, self.dim)


def split(d_query: np.ndarray, d_key: np.ndarray, d_value: np.ndarray, dim: int) -> list[np.ndarray]:
    """Gradients in the order and shape of the op."""
    return [
        d_query[None, ..., :dim],
        d_key[None, :, None, :dim],
        d_value[None, :, None],
        d_query[None, ..., dim:],
        d_key[None, :, None, dim:],
    ]


def numpy_contenders(case: Case) -> Iterator[Contender]:
    rows = NumpyRows(case)
    yield Contender("numpy", "float32", FORWARD, rows.forward, list)
    yield Contender("numpy", "float32", FORWARD_BACKWARD, rows.forward_backward, list)


def torch_contenders(case: Case, dtype: str) -> Iterator[Contender]:
    """Gather of all rows at once, batched products, autograd."""
    import torch

    rows, kind = NumpyRows(case), getattr(torch, dtype)
    query, key, value, d_out = (torch.from_numpy(x).to(kind) for x in (rows.query, rows.key, rows.value, rows.d_out))
    indices = torch.from_numpy(rows.indices.astype(np.int64))
    for x in (query, key, value):
        x.requires_grad_()

    def attend() -> torch.Tensor:
        scores = torch.bmm(query, key[indices].transpose(1, 2)).float() * case.scale
        return torch.bmm(torch.softmax(scores, -1).to(kind), value[indices])

    def forward() -> list[torch.Tensor]:
        with torch.no_grad():
            return [attend()]

    def forward_backward() -> list[torch.Tensor]:
        return list(torch.autograd.grad(attend(), (query, key, value), d_out))

    def gradients(outputs: list[torch.Tensor]) -> list[np.ndarray]:
        return split(*[x.float().numpy() for x in outputs], case.head_dim)

    yield Contender("torch", dtype, FORWARD, forward, lambda out: [out[0].float().numpy()[None]])
    yield Contender("torch", dtype, FORWARD_BACKWARD, forward_backward, gradients)


def contenders(case: Case, impls: tuple[str, ...]) -> list[Contender]:
    """The chosen implementations of a case, both passes. torch's float16 products on a CPU are several times slower
    than its bfloat16 and float32 ones, which are measured; bfloat16 is compared by the same rms limit."""
    makers: dict[str, list[Callable[[], Iterator[Contender]]]] = {
        OURS: [lambda: our_contenders(case)],
        "numpy": [lambda: numpy_contenders(case)],
        "torch": [lambda: torch_contenders(case, "float32"), lambda: torch_contenders(case, "bfloat16")],
    }
    return [contender for impl in impls for make in makers[impl] for contender in make()]


def expected(case: Case) -> dict[str, list[np.ndarray]]:
    """Reference outputs per pass, float64."""
    t = {n: x.astype(np.float64) for n, x in case.inputs().items()}
    indices, d_out = t.pop("sparse_indices").astype(np.int64), t.pop("d_out")
    common = dict(t, sparse_indices=indices, scale_value=case.scale, sparse_mode=0)
    grads = golden.sparse_flash_attention_grad(**common, d_out=d_out)
    return {
        FORWARD: [golden.sparse_flash_attention(**common)[0]],
        FORWARD_BACKWARD: [getattr(grads, f"d_{n}") for n in _NAMES],
    }


def available() -> tuple[str, ...]:
    """The implementations that can run here."""
    has_torch = importlib.util.find_spec("torch") is not None
    return tuple(impl for impl in IMPLS if has_torch or impl != "torch")


def prepare() -> None:
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
