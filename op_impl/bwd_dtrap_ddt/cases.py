# SPDX-License-Identifier: Apache-2.0
"""Case data of bwd_dtrap_ddt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import Arrays, CaseData, Symbols


def _bounds(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Any) -> np.ndarray:
    """0, rising first steps of sequences, S, and zeros behind."""
    count = int(rng.integers(1, min(shape[0] - 1, symbols["S"]) + 1))
    inner = rng.choice(np.arange(1, symbols["S"]), count - 1, replace=False)
    bounds = np.zeros(shape, np.int64)
    bounds[1:count], bounds[count] = np.sort(inner), symbols["S"]
    return bounds


def _sequence_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    bounds = arrays.get("cu_seqlens")
    if bounds is not None:
        arrays = {**arrays, "cu_seqlens": bounds[: int(np.argmax(bounds)) + 1]}
    return golden(**arrays, **attrs)


CASES = {
    "bwd_dtrap_ddt": CaseData(
        {"cu_seqlens": _bounds}, golden=_sequence_golden, function=("trap", "dt", "dfactor", "dgamma_diag")
    )
}
