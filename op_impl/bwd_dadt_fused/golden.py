# SPDX-License-Identifier: Apache-2.0
"""Golden of bwd_dadt_fused: the sum of its two parts, float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ms_custom_ops.op_impl.bwd_dadt_cumsum.golden import bwd_dadt_cumsum
from ms_custom_ops.op_impl.bwd_segsum_dadt.golden import bwd_segsum_dadt


def bwd_dadt_fused(
    dSSdA: npt.ArrayLike,
    SSdA: npt.ArrayLike,
    ddA_cs: npt.ArrayLike,
    ddA_cs_rev: npt.ArrayLike,
    dA_cs: npt.ArrayLike,
    dA_cs_rev: npt.ArrayLike,
    lengths: npt.ArrayLike | None = None,
    chunk_size: int | None = None,
) -> np.ndarray:
    """Whole gradient of da: through the segment sums (bwd_segsum_dadt) and the two running sums
    (bwd_dadt_cumsum).

    dSSdA, SSdA (B, H, N, C, C), the others (B, H, N*C); lengths as in bwd_segsum_dadt. Returns float64 (B, H,
    N*C). Raises OpArgumentError.
    """
    c = np.asarray(dSSdA).shape[-1] if chunk_size is None else chunk_size
    return bwd_segsum_dadt(dSSdA, SSdA, bwd_dadt_cumsum(ddA_cs, ddA_cs_rev, dA_cs, dA_cs_rev, c), lengths, c)
