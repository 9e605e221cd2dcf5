# SPDX-License-Identifier: Apache-2.0
"""bwd_segsum_dadt: the TIK kernel, MindSpore's composition in GRAPH_MODE, PyTorch eager and Triton's
interpreter.

The compositions are measured in two forms: ``*_scan`` follows the definition (a reverse running sum of the C
x C matrix), ``*_sums`` is the shorter way that the kernel takes too (two reductions and a running sum of C
values).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass

# Triton reads it when it is first imported, which another import may do.
os.environ["TRITON_INTERPRET"] = "1"

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from timing import FORWARD, OURS, Contender

import ms_custom_ops as mco
from ms_custom_ops.op_impl.bwd_segsum_dadt.golden import bwd_segsum_dadt

IMPLS = (OURS, "mindspore_scan", "mindspore_sums", "torch_scan", "torch_sums", "triton_interpreter")
# float32: rounding of at most a few hundred additions, far below a wrong formula.
RMS_LIMIT = 1e-5


@dataclass(frozen=True)
class Case:
    """B, H, S and the chunk size C."""

    batch: int
    heads: int
    steps: int
    chunk: int

    @property
    def name(self) -> str:
        return f"{self.batch}x{self.heads}x{self.steps}xC{self.chunk}"

    @property
    def vector(self) -> tuple[int, int, int]:
        return self.batch, self.heads, self.steps

    def inputs(self) -> list[np.ndarray]:
        """dSSdA, SSdA (a log-decay, at most 0) and ddt_out, float32, the same for every implementation."""
        rng = np.random.default_rng(0)
        matrix = (self.batch, self.heads, self.steps // self.chunk, self.chunk, self.chunk)
        log_decay = -np.abs(rng.standard_normal(matrix))
        return [
            x.astype(np.float32) for x in (rng.standard_normal(matrix), log_decay, rng.standard_normal(self.vector))
        ]


CASES = (Case(1, 4, 2048, 16), Case(1, 4, 2048, 64), Case(1, 4, 2048, 128))


# Jitted functions are the shortest way into a compiled graph: a Cell called in GRAPH_MODE costs our op 0.1 ms more,
# and the compositions take twice as long.
RUNNING_BACK = ops.CumSum(reverse=True)
RUNNING_BEFORE = ops.CumSum(exclusive=True)


@ms.jit
def op(d_decay, log_decay, ddt, below):
    return mco.ops.bwd_segsum_dadt(d_decay, log_decay, ddt, below.shape[0])


@ms.jit
def scan(d_decay, log_decay, ddt, below):
    """Sum over i >= k by a reverse running sum, then over j < k under the mask."""
    product = ops.swapaxes(d_decay, -1, -2) * ops.exp(log_decay)
    return ddt + ops.reshape((RUNNING_BACK(product, -2) * below).sum(-1), ddt.shape)


@ms.jit
def sums(d_decay, log_decay, ddt, below):
    product = ops.swapaxes(d_decay, -1, -2) * ops.exp(log_decay) * below
    return ddt + ops.reshape(RUNNING_BEFORE(product.sum(-2) - product.sum(-1), -1), ddt.shape)


GRAPHS = {OURS: op, "mindspore_scan": scan, "mindspore_sums": sums}


def mindspore_contender(case: Case, impl: str) -> Contender:
    graph = GRAPHS[impl]
    below = np.tril(np.ones((case.chunk, case.chunk), np.float32), -1)
    inputs = [Tensor(x) for x in (*case.inputs(), below)]
    # asnumpy waits for the result; its copy of a few KB belongs to what a user waits for.
    return Contender(impl, "float32", FORWARD, lambda: [graph(*inputs).asnumpy()], list)


def torch_contender(case: Case, impl: str) -> Contender:
    import torch

    d_decay, log_decay, ddt = (torch.from_numpy(x) for x in case.inputs())
    below = torch.tril(torch.ones(case.chunk, case.chunk, dtype=torch.bool), -1)

    def scan() -> list[torch.Tensor]:
        with torch.no_grad():
            product = d_decay.transpose(-1, -2) * torch.exp(log_decay)
            later = product.flip(-2).cumsum(-2).flip(-2)
            return [ddt + torch.where(below, later, 0.0).sum(-1).reshape(ddt.shape)]

    def sums() -> list[torch.Tensor]:
        with torch.no_grad():
            product = torch.where(below, d_decay.transpose(-1, -2) * torch.exp(log_decay), 0.0)
            net = product.sum(-2) - product.sum(-1)
            return [ddt + (net.cumsum(-1) - net).reshape(ddt.shape)]

    return Contender(
        impl, "float32", FORWARD, scan if impl == "torch_scan" else sums, lambda outputs: [x.numpy() for x in outputs]
    )


def triton_contender(case: Case) -> Contender:
    import segsum_triton
    import torch

    inputs = [torch.from_numpy(x) for x in case.inputs()]
    return Contender(
        "triton_interpreter",
        "float32",
        FORWARD,
        lambda: [segsum_triton.bwd_segsum_dadt(*inputs, case.chunk)],
        lambda out: [x.numpy() for x in out],
    )


def contenders(case: Case, impls: tuple[str, ...]) -> list[Contender]:
    """The chosen implementations of a case."""
    makers: dict[str, Callable[[], Contender]] = {
        impl: lambda impl=impl: mindspore_contender(case, impl) for impl in GRAPHS
    }
    makers |= {impl: lambda impl=impl: torch_contender(case, impl) for impl in ("torch_scan", "torch_sums")}
    makers["triton_interpreter"] = lambda: triton_contender(case)
    return [makers[impl]() for impl in impls]


def expected(case: Case) -> dict[str, list[np.ndarray]]:
    """Reference outputs per pass."""
    return {FORWARD: [bwd_segsum_dadt(*case.inputs(), chunk_size=case.chunk)]}


def available() -> tuple[str, ...]:
    """The implementations that can run here."""
    modules = {"torch": ("torch",), "triton": ("torch", "triton")}
    return tuple(
        impl for impl in IMPLS if all(importlib.util.find_spec(m) for m in modules.get(impl.partition("_")[0], ()))
    )


def prepare() -> None:
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
