# SPDX-License-Identifier: Apache-2.0
"""Case data that the ops of the segment-sum family share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import Arrays, Symbols, uniform

MATRICES = ("dSSdA", "SSdA")
SUMS = ("ddA_cs", "ddA_cs_rev", "dA_cs", "dA_cs_rev")
DECAYS = {"SSdA": uniform(-2, 0), "dA_cs": uniform(-2, 0), "dA_cs_rev": uniform(-2, 0), "da": uniform(-1, 0)}


def whole_chunks(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    """Results of a golden that takes whole chunks for (B, H, S) ``arrays`` of any S: filled up with zeros, cut."""
    steps = next(iter(arrays.values())).shape[-1]
    fill = -steps % attrs["chunk_size"]
    found = golden(**{n: np.pad(a, [(0, 0), (0, 0), (0, fill)]) for n, a in arrays.items()}, **attrs)
    results = found if isinstance(found, tuple) else (found,)
    return tuple(a[..., :steps] if a.ndim == 3 else a for a in results)
