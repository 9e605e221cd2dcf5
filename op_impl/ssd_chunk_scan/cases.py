# SPDX-License-Identifier: Apache-2.0
"""Case data of the Mamba-2 scan, and what that of Mamba-3 shares with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import Arrays, CaseData, Maker, Symbols, uniform

_CHUNK = 64  # default of chunk_size


def first_chunks(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Any) -> np.ndarray:
    """First chunks of NS packed sequences, the number of chunks behind them, and padding."""
    count, chunks = symbols["NS"], symbols["S"] // attrs.get("chunk_size", _CHUNK)
    first = np.full(shape, -1)
    first[:count] = [0, *np.sort(rng.integers(0, chunks + 1, count - 1))]
    first[count] = chunks
    return first


def scaled(scale: float, per_state: bool = False) -> Maker:
    """Normal times ``scale``, and N**-0.25 for factors of a product over the N states."""

    def make(rng: np.random.Generator, shape: tuple[int, ...], symbols: Symbols, attrs: Any) -> np.ndarray:
        return rng.standard_normal(shape) * scale * (symbols["N"] ** -0.25 if per_state else 1.0)

    return make


def packed_bounds(arrays: Arrays, attrs: Mapping[str, Any], symbols: Symbols) -> np.ndarray | None:
    """First row of each packed sequence and the number of rows; None for a dense batch."""
    first = arrays.get("first_chunks")
    return None if first is None else first[: symbols["NS"] + 1] * attrs.get("chunk_size", _CHUNK)


def _scan_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    """The golden's names, and steps for chunks; its gradients in the order of the returns."""
    names = {"b": "B", "c": "C", "d_final_states": "d_final"}
    given: dict[str, Any] = {names.get(n, n): a for n, a in arrays.items() if n != "first_chunks"}
    found = golden(**given, cu_seqlens=packed_bounds(arrays, attrs, symbols))  # chunk_size changes how, not what
    return tuple(found[n] for n in ("x", "da", "B", "C", "initial_states")) if isinstance(found, dict) else found


# x is dt*x of a model: dt about 0.1 and products c.b of size 1, as after its projections, keep y near 1. The mixed
# standard has an absolute part, so that it can only be asked of results of that size.
_MAMBA2: dict[str, Maker] = {
    "da": uniform(-0.1, 0), "x": scaled(0.1), "b": scaled(1, True), "c": scaled(1, True),
    "dy": scaled(0.1), "initial_states": scaled(0.1), "d_final_states": scaled(0.1), "first_chunks": first_chunks,
}  # fmt: skip

CASES = {
    "ssd_chunk_scan": CaseData(_MAMBA2, golden=_scan_golden),
    "ssd_chunk_scan_grad": CaseData(_MAMBA2, golden=_scan_golden),
}
