# SPDX-License-Identifier: Apache-2.0
"""What an entry of case data holds, and the makers that several ops use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ms_custom_ops.cases.model import PlannedCase

Arrays = dict[str, np.ndarray]
Symbols = Mapping[str, int]
Maker = Callable[[np.random.Generator, tuple[int, ...], Symbols, Mapping[str, Any]], np.ndarray]
Lift = Callable[[list[np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True)
class Function:
    """The public function without MindSpore. ``parameters``: its arguments that cases may give, names of the
    op_info file. ``lower`` turns its arrays and attributes into those of the primitive, and gives the function
    that turns outputs back."""

    parameters: tuple[str, ...]
    lower: Callable[[Arrays, dict[str, Any]], tuple[Arrays, dict[str, Any], Lift]]


@dataclass(frozen=True)
class Knowledge:
    """``makers``: tensors that are not normal numbers. ``complete`` fills in tensors that follow from others; what a
    case file gives values for (``fills`` of the case) it leaves alone.
    ``golden``: float64 results in the order of the returns; None calls the op's golden with all arguments by
    name. ``visible`` cuts off outputs, by name, what the golden does not speak of, such as padding."""

    makers: Mapping[str, Maker] = field(default_factory=dict)
    complete: Callable[[PlannedCase, np.random.Generator, Arrays], None] | None = None
    golden: Callable[[Callable[..., Any], Arrays, dict[str, Any], Symbols], Any] | None = None
    visible: Callable[[Arrays, PlannedCase], Arrays] | None = None
    function: Function | None = None


def uniform(low: float, high: float) -> Maker:
    """Uniform numbers."""
    return lambda rng, shape, symbols, attrs: rng.uniform(low, high, shape)


def lengths(symbol: str) -> Maker:
    """Numbers of steps from 0 to a symbol's size."""
    return lambda rng, shape, symbols, attrs: rng.integers(0, symbols[symbol] + 1, shape)
