# SPDX-License-Identifier: Apache-2.0
"""Runs a case through MindSpore in GRAPH mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from ms_custom_ops import soc as chips
from ms_custom_ops.cases.base import case_data
from ms_custom_ops.cases.data import numpy_dtype
from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.mindspore import ops as public
from ms_custom_ops.mindspore.functions import function_of


class _Net(nn.Cell):
    """The function over views of the given tensors; the views are made in the graph.

    ``half``: tensors that come as float32 and become bfloat16 after the view, as MindSpore has no bfloat16 Transpose
    on CPU.
    """

    def __init__(
        self, function: Callable[..., Any], layouts: tuple[str, ...], half: tuple[bool, ...], attrs: dict[str, Any]
    ):
        super().__init__()
        self.function, self.layouts, self.half, self.attrs = function, layouts, half, attrs

    def construct(self, *stored: Any) -> Any:
        tensors: Any = ()
        for i in range(len(self.layouts)):
            x = stored[i]
            if self.layouts[i] == "swapped":
                x = ops.swapaxes(x, -1, -2)
            elif self.layouts[i] == "stepped":
                x = x[..., ::2]
            if self.half[i]:
                x = ops.cast(x, ms.bfloat16)
            tensors = tensors + (x,)
        return self.function(*tensors, **self.attrs)


def run_graph(case: PlannedCase, stored: dict[str, np.ndarray], soc: str) -> dict[str, np.ndarray]:
    """Outputs by name of the public function (form "function") or of the generated one ("primitive").

    ``stored``: memory of the tensors, see :func:`ms_custom_ops.cases.data.stored`. The mode and the chip are put
    back. Raises what the call raises.
    """
    function, names = _function(case)
    layouts = tuple(case.layouts.get(n, "contiguous") for n in names)
    half = tuple(
        n in stored and case.dtypes[n] == "bfloat16" and layout != "contiguous"
        for n, layout in zip(names, layouts, strict=True)
    )
    tensors = [
        None if n not in stored else Tensor(stored[n].astype(np.float32)) if late else _tensor(stored[n])
        for n, late in zip(names, half, strict=True)
    ]
    mode, chip = ms.get_context("mode"), chips.current_soc().name
    ms.set_context(mode=ms.GRAPH_MODE)
    chips.set_soc(soc)
    try:
        found = _Net(function, layouts, half, dict(case.attrs))(*tensors)
        outputs = [_array(x) for x in (found if isinstance(found, (tuple, list)) else (found,))]
    finally:
        ms.set_context(mode=mode)
        chips.set_soc(chip)
    public_form = case.op.public if case.form == "function" else None
    returns = [ret.name for ret in (case.op.returns if public_form is None else public_form.returns)]
    if len(outputs) != len(returns):
        raise OpArgumentError(describe(case.op.name, "outputs", len(outputs), ", ".join(returns)))
    absent = [r.name for r in case.op.returns if r.present_if is not None and r.present_if not in stored]
    return {n: a for n, a in zip(returns, outputs, strict=True) if n not in absent}


def _function(case: PlannedCase) -> tuple[Callable[..., Any], list[str]]:
    """The function, and the tensors it takes, in order."""
    names = [arg.name for arg in case.op.tensors]
    if case.form == "primitive":
        return function_of(case.op), names
    names = [name for name in names if name in case_data(case.op).function]
    function = getattr(public, case.op.function_name)
    given = list(inspect.signature(function).parameters)
    if given[: len(names)] != names:
        raise OpArgumentError(describe(case.op.name, "parameters of the public function", given, ", ".join(names)))
    return function, names


def _tensor(array: np.ndarray) -> Tensor:
    if array.dtype == numpy_dtype("bfloat16"):
        return Tensor(array.astype(np.float32)).astype(ms.bfloat16)
    return Tensor(array)


def _array(x: Tensor) -> np.ndarray:
    if x.dtype == ms.bfloat16:
        return ops.cast(x, ms.float32).asnumpy().astype(numpy_dtype("bfloat16"))
    return x.asnumpy()
