# SPDX-License-Identifier: Apache-2.0
"""Case data of the segment-sum family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ms_custom_ops.cases.knowledge_base import Arrays, Function, Knowledge, Lift, Symbols, lengths, uniform


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


def _same(outputs: list[np.ndarray]) -> list[np.ndarray]:
    return outputs


def _chunked(matrices: Sequence[str], vectors: Sequence[str]) -> Function:
    """Functions over (B, H, N, C, C) matrices and (B, H, N*C) vectors: chunks below the smallest that the kernels
    take are filled up with zeros. Calls that do not fit together go on as they are, for the op's own check."""

    def lower(arrays: Arrays, attrs: dict[str, Any]) -> tuple[Arrays, dict[str, Any], Lift]:
        from ms_custom_ops.tiling.segsum import MIN_CHUNK

        dense = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        shape = dense[matrices[0]].shape
        chunk = attrs.get("chunk_size")
        fits = type(chunk) is int and len(shape) == 5 and shape[3] == shape[4] == chunk  # 8.0 and True are refused
        fits = fits and all(dense[n].shape == shape for n in matrices)
        fits = fits and all(dense[n].shape == (*shape[:2], shape[2] * shape[3]) for n in vectors)
        extra = MIN_CHUNK - shape[-1]
        if not fits or extra <= 0:
            return dense, attrs, _same
        ends = [(0, 0)] * 3
        for name in matrices:
            dense[name] = np.pad(dense[name], [*ends, (0, extra), (0, extra)])
        for name in vectors:
            steps = np.pad(dense[name].reshape(shape[:4]), [*ends, (0, extra)])
            dense[name] = steps.reshape(*shape[:2], -1)

        def lift(outputs: list[np.ndarray]) -> list[np.ndarray]:
            wide = [x.reshape(*shape[:3], MIN_CHUNK)[..., : shape[3]] for x in outputs]
            return [x.reshape(*shape[:2], -1) for x in wide]

        return dense, {**attrs, "chunk_size": MIN_CHUNK}, lift

    return Function((*matrices, *vectors, "chunk_size"), lower)


_MATRICES = ("dSSdA", "SSdA")
_SUMS = ("ddA_cs", "ddA_cs_rev", "dA_cs", "dA_cs_rev")
_DECAY = {"SSdA": uniform(-2, 0), "dA_cs": uniform(-2, 0), "dA_cs_rev": uniform(-2, 0), "da": uniform(-1, 0)}

KNOWLEDGE: dict[str, Knowledge] = {
    "bwd_dadt_cumsum": Knowledge(_DECAY),
    "bwd_dadt_fused": Knowledge({**_DECAY, "lengths": lengths("C")}, function=_chunked(_MATRICES, _SUMS)),
    "bwd_dtrap_ddt": Knowledge({"cu_seqlens": _bounds}, golden=_sequence_golden),
    "bwd_segsum_dadt": Knowledge({**_DECAY, "lengths": lengths("C")}, function=_chunked(_MATRICES, ("ddt_out",))),
    "dacs_segsum": Knowledge(_DECAY),
    "segsum_decay": Knowledge(_DECAY),
}
