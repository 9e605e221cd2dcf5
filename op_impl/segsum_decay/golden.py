# SPDX-License-Identifier: Apache-2.0
"""Golden of segsum_decay: float64, built on the golden of the segment sums."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ms_custom_ops.op_impl.dacs_segsum.golden import dacs_segsum


def segsum_decay(da: npt.ArrayLike, chunk_size: int) -> tuple[np.ndarray, ...]:
    """Decay between the steps of a chunk and its logarithm, both float64 (B, H, S/C, C, C), index (query i,
    key j).

    ``decay[i, j] = exp(segsum[i, j])`` for i > j, 0 elsewhere; segsum as in dacs_segsum. Raises OpArgumentError.
    """
    segsum = dacs_segsum(da, chunk_size)[2]
    return np.tril(np.exp(segsum), -1), segsum
