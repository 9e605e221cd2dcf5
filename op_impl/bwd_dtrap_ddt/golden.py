# SPDX-License-Identifier: Apache-2.0
"""Golden of bwd_dtrap_ddt: step by step, float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ms_custom_ops.errors import OpArgumentError, describe


def bwd_dtrap_ddt(
    trap: npt.ArrayLike,
    dt: npt.ArrayLike,
    dfactor: npt.ArrayLike,
    dgamma_diag: npt.ArrayLike,
    cu_seqlens: Sequence[int] | np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients of dt and trap from those of the trapezoid's factors.

    With s = sigmoid(trap), the forward has ``gamma[t] = s[t]*dt[t]`` on the diagonal and
    ``factor[t] = gamma[t] + (1 - s[t+1])*dt[t+1]`` below it; dgamma_diag and dfactor are their gradients. The
    last step of a sequence has no next one. All (B, H, S); cu_seqlens: first steps of the sequences and S at
    the end, None = one sequence. Returns float64 (ddt, dtrap), both (B, H, S). Raises OpArgumentError.
    """
    given = {"trap": trap, "dt": dt, "dfactor": dfactor, "dgamma_diag": dgamma_diag}
    x = {name: np.asarray(value, np.float64) for name, value in given.items()}
    shape = x["trap"].shape
    for name, value in x.items():
        if value.ndim != 3 or value.shape != shape:
            raise OpArgumentError(
                describe("bwd_dtrap_ddt", name, f"of shape {value.shape}", f"(B, H, S), shape {shape} of trap")
            )
    starts = {0} if cu_seqlens is None else {int(start) for start in cu_seqlens}
    ddt, dtrap = np.zeros(shape), np.zeros(shape)
    for t in range(shape[2]):
        s = 1 / (1 + np.exp(-x["trap"][..., t]))
        own = x["dfactor"][..., t] + x["dgamma_diag"][..., t]
        before = np.zeros(shape[:2]) if t in starts else x["dfactor"][..., t - 1]
        ddt[..., t] = before * (1 - s) + own * s
        dtrap[..., t] = (own - before) * x["dt"][..., t] * s * (1 - s)
    return ddt, dtrap
