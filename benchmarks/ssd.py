# SPDX-License-Identifier: Apache-2.0
"""Mamba-2 scan (SSD): the TIK kernels, and its chunked form composed of MindSpore's operators and in PyTorch eager.

The compositions take all chunks at once: a masked product inside a chunk, the states that the chunks leave, a product
with the decays between chunks, and what the carried states add.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from timing import FORWARD, FORWARD_BACKWARD, OURS, Contender

import ms_custom_ops as mco
from ms_custom_ops.op_impl.ssd_chunk_scan import golden

IMPLS = (OURS, "mindspore", "torch")
# float16 operands and products: far above their rounding, far below a wrong formula.
RMS_LIMIT = 1e-2
NAMES = ("x", "da", "B", "C")


@dataclass(frozen=True)
class Case:
    """B, S, H heads of P values, one group of N states, chunks of C steps."""

    batch: int
    steps: int
    heads: int
    size: int
    state: int
    chunk: int

    @property
    def name(self) -> str:
        return f"{self.batch}x{self.steps}-H{self.heads}-P{self.size}-N{self.state}-C{self.chunk}"

    def inputs(self) -> dict[str, np.ndarray]:
        """x, da, B, C and dy: values that float16 holds, in float32; da is a log-decay of about -0.1."""
        rng = np.random.default_rng(0)
        value, state = (self.batch, self.steps, self.heads, self.size), (self.batch, self.steps, 1, self.state)
        shapes = {"x": value, "B": state, "C": state, "dy": value}
        out = {n: rng.standard_normal(s).astype(np.float16).astype(np.float32) for n, s in shapes.items()}
        decay = rng.uniform(-0.2, 0, (self.batch, self.heads, self.steps))
        return out | {"da": decay.astype(np.float32)}


CASES = (Case(1, 1024, 8, 64, 64, 64), Case(1, 1024, 8, 64, 128, 128), Case(8, 256, 4, 32, 16, 32))


def gflop(case: Case, passes: str) -> float:
    """Multiplications and additions of the products of one call, in 10^9; a backward pass counts 2.6 times."""
    per_step = case.chunk * (case.state + case.size) + 2 * case.state * case.size
    forward = 2 * case.batch * case.heads * case.steps * per_step / 1e9
    return forward * (3.6 if passes == FORWARD_BACKWARD else 1)


class ScanNet(nn.Cell):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.chunk = case.chunk

    def construct(self, x, da, B, C):
        return mco.ops.ssd_chunk_scan(x, da, B, C, self.chunk)[0]


class ComposedNet(nn.Cell):
    def __init__(self, case: Case, dtype: str) -> None:
        super().__init__()
        self.dims = case.batch, case.steps // case.chunk, case.chunk, case.heads
        count = case.steps // case.chunk
        self.hidden = Tensor(np.where(np.tril(np.ones((case.chunk,) * 2)), 0, -np.inf).astype(np.float32))
        self.later = Tensor(np.where(np.tril(np.ones((count,) * 2), -1), 0, -np.inf).astype(np.float32))
        self.times, self.times_turned = ops.BatchMatMul(), ops.BatchMatMul(transpose_b=True)
        self.turned_times = ops.BatchMatMul(transpose_a=True)
        self.dtype = getattr(ms, dtype)

    def chunks(self, x, heads):
        """(B, S, heads, width) as (B, H, n, C, width)."""
        batch, count, chunk, all_heads = self.dims
        x = ops.transpose(ops.reshape(x, (batch, count, chunk, heads, -1)), (0, 3, 1, 2, 4))
        return ops.broadcast_to(x, (batch, all_heads, count, chunk, x.shape[-1]))

    def construct(self, x, da, B, C):
        batch, count, chunk, heads = self.dims
        x, key, query = self.chunks(x, heads), self.chunks(B, 1), self.chunks(C, 1)
        running = ops.cumsum(ops.reshape(da, (batch, heads, count, chunk)), -1)
        segments = ops.expand_dims(running, -1) - ops.expand_dims(running, -2)
        decay = ops.cast(ops.exp(segments + self.hidden), self.dtype)
        inside = self.times(self.times_turned(query, key) * decay, x)
        rest = ops.cast(ops.exp(running[..., -1:] - running), self.dtype)
        states = self.turned_times(key * ops.expand_dims(rest, -1), x)
        total = ops.cumsum(running[..., -1], -1)
        between = ops.expand_dims(total - running[..., -1], -1) - ops.expand_dims(total, -2) + self.later
        flat = ops.reshape(states, (batch, heads, count, -1))
        carried = ops.reshape(self.times(ops.cast(ops.exp(between), self.dtype), flat), states.shape)
        grown = ops.cast(ops.exp(running), self.dtype)
        y = inside + self.times(query * ops.expand_dims(grown, -1), carried)
        return ops.reshape(ops.transpose(y, (0, 2, 3, 1, 4)), (batch, count * chunk, heads, -1))


class GradNet(nn.Cell):
    """Forward and backward of a net: (x, da, B, C, dy) -> gradients of the first four."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net = net
        self.grad = ops.GradOperation(get_all=True, sens_param=True)

    def construct(self, x, da, B, C, dy):
        return self.grad(self.net)(x, da, B, C, dy)


def mindspore_contenders(case: Case, impl: str, dtype: str) -> Iterator[Contender]:
    net = ScanNet(case) if impl == OURS else ComposedNet(case, dtype)
    grad_net, given = GradNet(net), case.inputs()
    inputs = [Tensor(given[n].astype("float32" if n == "da" else dtype)) for n in (*NAMES, "dy")]

    def forward() -> list[np.ndarray]:
        return [net(*inputs[:-1]).asnumpy()]

    def forward_backward() -> list[np.ndarray]:
        return [gradient.asnumpy() for gradient in grad_net(*inputs)]

    # asnumpy waits for the result; its copy of a few MB belongs to what a user waits for.
    yield Contender(impl, dtype, FORWARD, forward, list)
    yield Contender(impl, dtype, FORWARD_BACKWARD, forward_backward, list)


def torch_scan(case: Case, x, da, B, C):
    import torch

    batch, count, chunk, heads = case.batch, case.steps // case.chunk, case.chunk, case.heads
    x, key, query = (t.reshape(batch, count, chunk, t.shape[2], -1).permute(0, 3, 1, 2, 4) for t in (x, B, C))
    running = da.reshape(batch, heads, count, chunk).cumsum(-1)
    below = torch.ones(chunk, chunk, dtype=torch.bool).tril()
    decay = (running[..., None] - running[..., None, :]).masked_fill(~below, -torch.inf).exp()
    inside = (query @ key.transpose(-1, -2) * decay) @ x
    states = (key * (running[..., -1:] - running).exp()[..., None]).transpose(-1, -2) @ x
    total = running[..., -1].cumsum(-1)
    between = (total - running[..., -1])[..., None] - total[..., None, :]
    earlier = torch.ones(count, count, dtype=torch.bool).tril(-1)
    carry = between.masked_fill(~earlier, -torch.inf).exp()
    carried = (carry @ states.flatten(-2)).reshape(states.shape)
    y = inside + (query * running.exp()[..., None]) @ carried
    return y.permute(0, 2, 3, 1, 4).reshape(batch, case.steps, heads, -1)


def torch_contenders(case: Case) -> Iterator[Contender]:
    import torch

    given = {n: torch.from_numpy(v) for n, v in case.inputs().items()}
    inputs, dy = [given[n].requires_grad_() for n in NAMES], given["dy"]

    def forward() -> list[torch.Tensor]:
        with torch.no_grad():
            return [torch_scan(case, *inputs)]

    def forward_backward() -> list[torch.Tensor]:
        return list(torch.autograd.grad(torch_scan(case, *inputs), inputs, dy))

    def to_numpy(outputs: list[torch.Tensor]) -> list[np.ndarray]:
        return [x.numpy() for x in outputs]

    yield Contender("torch", "float32", FORWARD, forward, to_numpy)
    yield Contender("torch", "float32", FORWARD_BACKWARD, forward_backward, to_numpy)


def contenders(case: Case, impls: tuple[str, ...]) -> list[Contender]:
    """The chosen implementations of a case: ours in float16, the others in float32, MindSpore in both."""
    found: list[Contender] = []
    if OURS in impls:
        found += mindspore_contenders(case, OURS, "float16")
    if "mindspore" in impls:
        found += mindspore_contenders(case, "mindspore", "float16")
        found += mindspore_contenders(case, "mindspore", "float32")
    if "torch" in impls:
        found += torch_contenders(case)
    return found


def expected(case: Case) -> dict[str, list[np.ndarray]]:
    """Reference outputs per pass, float64."""
    given = case.inputs()
    arguments = [given[n] for n in NAMES]
    gradients = golden.ssd_chunk_scan_grad(*arguments, given["dy"])
    return {FORWARD: [golden.ssd_chunk_scan(*arguments)[0]], FORWARD_BACKWARD: [gradients[n] for n in NAMES]}


def available() -> tuple[str, ...]:
    """The implementations that can run here."""
    return tuple(impl for impl in IMPLS if impl != "torch" or importlib.util.find_spec("torch"))


def prepare() -> None:
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
