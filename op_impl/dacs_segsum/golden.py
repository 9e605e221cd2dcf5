# SPDX-License-Identifier: Apache-2.0
"""Golden of dacs_segsum: sums as the definition writes them, float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ms_custom_ops.op_impl.segsum.chunks import split_chunks


def dacs_segsum(da: npt.ArrayLike, chunk_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of ``da`` (B, H, S) inside chunks of C = ``chunk_size`` steps, C a divisor of S.

    Returns float64 da_cs (B, H, S) with ``da_cs[i] = sum da[k], k <= i``; da_cs_rev (B, H, S) with
    ``sum da[k], k > i``; segsum (B, H, S/C, C, C) with ``segsum[i, j] = sum da[k], j < k <= i`` below the
    diagonal and 0 elsewhere. Every sum is clamped at 0 from above. Raises OpArgumentError.
    """
    x = split_chunks("dacs_segsum", "da", da, chunk_size)
    da_cs, da_cs_rev = np.zeros_like(x), np.zeros_like(x)
    segsum = np.zeros((*x.shape, chunk_size))
    for i in range(chunk_size):
        da_cs[..., i] = x[..., : i + 1].sum(-1)
        da_cs_rev[..., i] = x[..., i + 1 :].sum(-1)
        for j in range(i):
            segsum[..., i, j] = x[..., j + 1 : i + 1].sum(-1)
    flat = np.asarray(da).shape
    return (np.minimum(da_cs, 0).reshape(flat), np.minimum(da_cs_rev, 0).reshape(flat), np.minimum(segsum, 0))
