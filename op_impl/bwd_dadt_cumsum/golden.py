# SPDX-License-Identifier: Apache-2.0
"""Golden of bwd_dadt_cumsum: sums as the definition writes them, float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ms_custom_ops.op_impl.segsum.chunks import split_chunks


def bwd_dadt_cumsum(
    ddA_cs: npt.ArrayLike, ddA_cs_rev: npt.ArrayLike, dA_cs: npt.ArrayLike, dA_cs_rev: npt.ArrayLike, chunk_size: int
) -> np.ndarray:
    """Gradient of da through exp(dA_cs) and exp(dA_cs_rev), per chunk of C = ``chunk_size`` steps.

    ``out[k] = sum over i >= k of exp(dA_cs[i]) * ddA_cs[i] + sum over i < k of exp(dA_cs_rev[i]) *
    ddA_cs_rev[i]``

    All (B, H, S), C a divisor of S. Returns float64 (B, H, S). Raises OpArgumentError.
    """
    op = "bwd_dadt_cumsum"
    given = {"ddA_cs": ddA_cs, "ddA_cs_rev": ddA_cs_rev, "dA_cs": dA_cs, "dA_cs_rev": dA_cs_rev}
    x = {name: split_chunks(op, name, value, chunk_size) for name, value in given.items()}
    down = np.exp(x["dA_cs"]) * x["ddA_cs"]
    up = np.exp(x["dA_cs_rev"]) * x["ddA_cs_rev"]
    out = np.zeros_like(down)
    for k in range(chunk_size):
        out[..., k] = down[..., k:].sum(-1) + up[..., :k].sum(-1)
    return out.reshape(np.asarray(ddA_cs).shape)
