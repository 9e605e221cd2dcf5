# SPDX-License-Identifier: Apache-2.0
"""Runs the generated function of an op, and its gradients, in a chosen mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mindspore as ms
import ml_dtypes
import numpy as np
from mindspore import Tensor, nn, ops

from ms_custom_ops import soc as chips
from ms_custom_ops.mindspore.functions import function_of
from ms_custom_ops.registry import OpSpec


class _Call(nn.Cell):
    """The function with the tensors that are there by position and None for the others."""

    def __init__(self, spec: OpSpec, present: tuple[bool, ...], attrs: Mapping[str, Any]):
        super().__init__()
        self.function, self.present, self.attrs = function_of(spec), present, dict(attrs)

    def construct(self, *tensors: Any) -> Any:
        given: Any = ()
        at = 0
        for there in self.present:
            if there:
                given = given + (tensors[at],)
                at = at + 1
            else:
                given = given + (None,)
        return self.function(*given, **self.attrs)


def call_and_gradients(
    spec: OpSpec, arrays: Mapping[str, np.ndarray], attrs: Mapping[str, Any], soc: str, mode: str, wrt: Sequence[str],
    douts: Sequence[np.ndarray],
) -> dict[str, np.ndarray]:  # fmt: skip
    """Outputs by name, and "gradient of <input>" for every input of ``wrt``.

    Args:
        mode: "graph" or "pynative". It and the chip are put back afterwards.
        douts: gradient of every output, in its shape and dtype.
    """
    before, chip = ms.get_context("mode"), chips.current_soc().name
    names = [arg.name for arg in spec.tensors]
    given = [n for n in names if n in arrays]
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    chips.set_soc(soc)
    try:
        net = _Call(spec, tuple(n in arrays for n in names), attrs)
        tensors = [as_tensor(arrays[n]) for n in given]
        found = net(*tensors)
        outputs = found if isinstance(found, (tuple, list)) else (found,)
        result = {ret.name: as_array(x) for ret, x in zip(spec.returns, outputs, strict=True)}
        if wrt:
            sens = tuple(as_tensor(d) for d in douts)
            gradient = ops.GradOperation(get_all=True, sens_param=True)(net)
            grads = gradient(*tensors, sens if len(sens) > 1 else sens[0])
            for name, grad in zip(given, grads, strict=True):
                if name in wrt:
                    result[f"gradient of {name}"] = as_array(grad)
        return result
    finally:
        ms.set_context(mode=before)
        chips.set_soc(chip)


def as_tensor(array: np.ndarray) -> Tensor:
    if array.dtype == ml_dtypes.bfloat16:
        return Tensor(array.astype(np.float32)).astype(ms.bfloat16)
    return Tensor(np.ascontiguousarray(array))


def as_array(x: Tensor) -> np.ndarray:
    if x.dtype == ms.bfloat16:
        return ops.cast(x, ms.float32).asnumpy().astype(ml_dtypes.bfloat16)
    return x.asnumpy()
