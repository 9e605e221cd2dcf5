# SPDX-License-Identifier: Apache-2.0
"""Times a function over MindSpore tensors in GRAPH mode."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn

from ms_custom_ops import soc as chips
from ms_custom_ops.mindspore.both_modes import as_array, as_tensor


class _Named(nn.Cell):
    """``function(name=tensor, ..., **attrs)`` with tensors by position."""

    def __init__(self, function: Callable[..., Any], names: Sequence[str], attrs: Mapping[str, Any]):
        super().__init__()
        self.function, self.names, self.attrs = function, tuple(names), dict(attrs)

    def construct(self, *tensors: Any) -> Any:
        given = {}
        for i in range(len(self.names)):
            given[self.names[i]] = tensors[i]
        return self.function(**given, **self.attrs)


def timed(
    function: Callable[..., Any], arrays: Mapping[str, np.ndarray], attrs: Mapping[str, Any], soc: str, repeats: int
) -> tuple[list[float], list[np.ndarray]]:
    """Seconds of each call after a first one that compiles, and the outputs. Mode and chip are put back."""
    mode, chip = ms.get_context("mode"), chips.current_soc().name
    ms.set_context(mode=ms.GRAPH_MODE)
    chips.set_soc(soc)
    try:
        net, tensors = _Named(function, list(arrays), attrs), [as_tensor(a) for a in arrays.values()]
        seconds = []
        for turn in range(repeats + 1):
            start = time.perf_counter()
            found = net(*tensors)
            outputs = [as_array(x) for x in (found if isinstance(found, (tuple, list)) else (found,))]
            if turn:
                seconds.append(time.perf_counter() - start)
        return seconds, outputs
    finally:
        ms.set_context(mode=mode)
        chips.set_soc(chip)
