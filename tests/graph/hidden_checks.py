# SPDX-License-Identifier: Apache-2.0
"""Places that take no part in a call, filled with what would spread from there."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mindspore as ms
import numpy as np
from attention_nets import OutputsAndGradients
from mindspore import Tensor, nn, ops

VALUES = (math.nan, math.inf, -math.inf)


def behind(lengths: Sequence[int], size: int) -> np.ndarray:
    """(batches, size): True from the length of each batch on."""
    return np.arange(size) >= np.asarray(lengths)[:, None]


def planted(arrays: Sequence[np.ndarray], hidden: dict[int, np.ndarray], value: float) -> list[Tensor]:
    """Tensors of the arrays, with ``value`` where ``hidden`` (array number -> bool array that broadcasts) is True."""
    filled = []
    for number, array in enumerate(arrays):
        where = np.broadcast_to(hidden.get(number, False), array.shape)
        filled.append(Tensor(np.where(where, np.array(value if where.any() else 0, array.dtype), array)))
    return filled


def as_arrays(results: object) -> list[np.ndarray]:
    """float32 arrays of a tensor or nested tuples of tensors."""
    if isinstance(results, Tensor):
        return [ops.cast(results, ms.float32).asnumpy()]
    return [x for part in results for x in as_arrays(part)]  # type: ignore[attr-defined]


def check_hidden(call: object, arrays: Sequence[np.ndarray], hidden: dict[int, np.ndarray]) -> list[np.ndarray]:
    """Results of ``call(*tensors)``: NaN and infinities in the hidden places give every bit that zeros give."""
    assert hidden and all(where.any() and not where.all() for where in hidden.values()), "hides nothing, or everything"
    wanted = as_arrays(call(*planted(arrays, hidden, 0.0)))  # type: ignore[operator]
    assert all(np.isfinite(x).all() for x in wanted)
    for value in VALUES:
        found = as_arrays(call(*planted(arrays, hidden, value)))  # type: ignore[operator]
        for number, (x, y) in enumerate(zip(found, wanted, strict=True)):
            assert x.tobytes() == y.tobytes(), f"result {number} with {value}"
    return wanted


class WithGradients(nn.Cell):
    """Results of ``net(*tensors)`` for the first ``count`` tensors, and their gradients for the output gradients that
    follow."""

    def __init__(self, net: nn.Cell, count: int):
        super().__init__()
        self.both, self.count = OutputsAndGradients(net), count

    def construct(self, *args):
        rest = args[self.count :]
        return self.both(*args[: self.count], rest[0] if len(rest) == 1 else rest)


class WithWeights(nn.Cell):
    """Output of a layer, and the gradients of its input and weights for the output gradient that comes second."""

    def __init__(self, layer: nn.Cell):
        super().__init__()
        self.layer, self.weights = layer, ms.ParameterTuple(layer.trainable_params())
        self.grad = ops.GradOperation(get_all=True, get_by_list=True, sens_param=True)

    def construct(self, *args):
        return self.layer(*args[:-1]), self.grad(self.layer, self.weights)(*args)
