# SPDX-License-Identifier: Apache-2.0
"""Case data that the ops of the segment-sum family share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import Arrays, Function, Lift, uniform


def _same(outputs: list[np.ndarray]) -> list[np.ndarray]:
    return outputs


def chunked(matrices: Sequence[str], vectors: Sequence[str]) -> Function:
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


MATRICES = ("dSSdA", "SSdA")
SUMS = ("ddA_cs", "ddA_cs_rev", "dA_cs", "dA_cs_rev")
DECAYS = {"SSdA": uniform(-2, 0), "dA_cs": uniform(-2, 0), "dA_cs_rev": uniform(-2, 0), "da": uniform(-1, 0)}
