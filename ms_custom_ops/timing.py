# SPDX-License-Identifier: Apache-2.0
"""``mco.testing.do_bench``: wall time of a function on this machine, with the parameters of Triton's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ms_custom_ops.errors import OpArgumentError, describe

RETURN_MODES = ("mean", "median", "min", "max", "all")
_ESTIMATES = 5


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> float | list[float]:
    """Milliseconds that ``fn()`` takes on this machine, which are not those of a chip (``mco.profile``).

    Args:
        fn: called without arguments. What it returns is waited for where it is a tensor of MindSpore.
        warmup, rep: milliseconds to spend on calls before and on measured ones; once at the least.
        quantiles: such as (0.5, 0.2, 0.8): a list of those, or one number for one quantile.
        return_mode: "mean", "median", "min", "max", or "all" times, in the order of the calls.

    Raises OpArgumentError for another ``return_mode``.
    """
    if return_mode not in RETURN_MODES:
        raise OpArgumentError(describe("do_bench", "return_mode", repr(return_mode), ", ".join(RETURN_MODES)))
    _once(fn)
    estimate = max(statistics.fmean(_once(fn) for _ in range(_ESTIMATES)), 1e-6)
    for _ in range(max(1, int(warmup / estimate))):
        _once(fn)
    times = [_once(fn) for _ in range(max(1, int(rep / estimate)))]
    if quantiles is not None:
        found = [float(q) for q in np.quantile(times, quantiles)]
        return found[0] if len(found) == 1 else found
    if return_mode == "all":
        return times
    reduce: dict[str, Callable[[list[float]], float]] = {
        "mean": statistics.fmean,
        "median": statistics.median,
        "min": min,
        "max": max,
    }
    return float(reduce[return_mode](times))


def _once(fn: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    result = fn()
    for tensor in result if isinstance(result, (tuple, list)) else (result,):
        if hasattr(tensor, "asnumpy"):
            tensor.asnumpy()
    return (time.perf_counter() - begun) * 1e3
