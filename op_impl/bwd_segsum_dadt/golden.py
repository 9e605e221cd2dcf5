# SPDX-License-Identifier: Apache-2.0
"""Golden of bwd_segsum_dadt: the double sum as the definition writes it, float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ms_custom_ops.errors import OpArgumentError, describe

LAYOUTS = ("key_query", "query_key")


def bwd_segsum_dadt(
    dSSdA: npt.ArrayLike,
    SSdA: npt.ArrayLike,
    ddt_out: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
    chunk_size: int | None = None,
    layout: str = "key_query",
) -> np.ndarray:
    """ddt_out plus the gradient with respect to da of ``sum of dSSdA * exp(segsum(da))`` below the diagonal.

    ``out[c*C + k] = ddt_out[c*C + k] + sum over j < k <= i of dSSdA[c, j, i] * exp(SSdA[c, i, j])``

    dSSdA and SSdA (B, H, N, C, C); SSdA is indexed (query i, key j), dSSdA (key j, query i), or like SSdA
    with ``layout`` "query_key". ddt_out (B, H, N*C), None = zeros. lengths (at least N,): steps of each chunk
    that count, None = all; entries beyond them are ignored. What is not below the diagonal is never looked
    at. Returns float64 (B, H, N*C). Raises OpArgumentError.
    """
    d, s = np.asarray(dSSdA, np.float64), np.asarray(SSdA, np.float64)
    if d.ndim != 5 or d.shape != s.shape or d.shape[3] != d.shape[4]:
        raise OpArgumentError(
            describe("bwd_segsum_dadt", "dSSdA, SSdA", f"of shapes {d.shape}, {s.shape}", "both (B, H, N, C, C)")
        )
    b, h, n, c, _ = d.shape
    if chunk_size is not None and chunk_size != c:
        raise OpArgumentError(describe("bwd_segsum_dadt", "chunk_size", chunk_size, f"{c}, the C of dSSdA"))
    if layout not in LAYOUTS:
        raise OpArgumentError(describe("bwd_segsum_dadt", "layout", layout, ", ".join(LAYOUTS)))
    out = np.zeros((b, h, n, c)) if ddt_out is None else np.array(ddt_out, np.float64).reshape(b, h, n, c)
    with np.errstate(all="ignore"):  # the triangle that is not used may hold anything
        decay = np.exp(s).swapaxes(-1, -2)
        z = (d if layout == "key_query" else d.swapaxes(-1, -2)) * decay
    for chunk in range(n):
        valid = c if lengths is None else int(np.asarray(lengths)[chunk])
        for k in range(1, valid):
            out[:, :, chunk, k] += z[:, :, chunk, :k, k:valid].sum((-1, -2))
    return out.reshape(b, h, n * c)
