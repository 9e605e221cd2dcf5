# SPDX-License-Identifier: Apache-2.0
"""Cells and conversions for the tests of the public sparse-attention functions."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from sparse_cases import Case

from ms_custom_ops.mindspore import sparse_attention as sa

DIFFERENTIABLE = ("query", "key", "value", "query_rope", "key_rope", "sinks")


def to_tensor(x: np.ndarray | None) -> Tensor | None:
    """MindSpore tensor; bfloat16 by way of float32."""
    if x is None:
        return None
    if x.dtype.name == "bfloat16":
        return Tensor(x.astype(np.float32), ms.bfloat16)
    return Tensor(x)


def numpy(x: Tensor) -> np.ndarray:
    """float64 of a tensor."""
    return x.astype(ms.float32).asnumpy().astype(np.float64)


class Attention(nn.Cell):
    """sparse_flash_attention with fixed attributes; inputs in the order of DIFFERENTIABLE, None for what is absent."""

    def __init__(self, attrs: dict[str, Any], lse: bool = True):
        super().__init__()
        self.attrs, self.lse = attrs, lse

    def construct(self, query, key, value, query_rope, key_rope, sinks, indices, q_lengths, kv_lengths):
        return sa.sparse_flash_attention(
            query,
            key,
            value,
            indices,
            query_rope=query_rope,
            key_rope=key_rope,
            sinks=sinks,
            actual_seq_lengths_query=q_lengths,
            actual_seq_lengths_kv=kv_lengths,
            return_softmax_lse=self.lse,
            **self.attrs,
        )


class OutputsAndGradients(nn.Cell):
    """Results, and gradients of sum(out * d_out) for every differentiable input that is there, in one graph."""

    def __init__(self, net: nn.Cell):
        super().__init__()
        self.net = net
        self.grad = ops.GradOperation(get_all=True, sens_param=True)

    def construct(self, *inputs):
        d_out, d_stats = inputs[-2], inputs[-1]
        return self.net(*inputs[:-2]), self.grad(self.net)(*inputs[:-2], (d_out, d_stats, d_stats))


def attributes(case: Case) -> dict[str, Any]:
    """Attributes of the public function."""
    layout = "TND" if case.packed else "BSND"
    return dict(
        scale_value=(case.d + case.rope) ** -0.5,
        sparse_block_size=case.block,
        layout_query=layout,
        layout_kv=layout,
        sparse_mode=case.mode,
    )


def lengths(values: tuple[int, ...] | None) -> Tensor | None:
    """Lengths as a tensor."""
    return None if values is None else Tensor(np.array(values, np.int32))


def zeros(*shape: int, dtype: type = np.float16) -> Tensor:
    """A tensor of zeros."""
    return Tensor(np.zeros(shape, dtype))
