# SPDX-License-Identifier: Apache-2.0
"""rms_norm and its gradient as their definitions, in float64: what the kernels are measured by."""

import numpy as np


def rms_norm(x, weight, eps=1e-6):
    """(M, N), (N) -> y (M, N), rstd (M, 8) with equal columns."""
    rstd = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return x * rstd * weight, np.repeat(rstd, 8, axis=1)


def rms_norm_grad(x, weight, dy, rstd):
    """(M, N), (N), (M, N), (M, 8) -> dx (M, N), dweight (N)."""
    normal = x * rstd[:, :1]
    g = dy * weight
    dx = (g - normal * (g * normal).mean(-1, keepdims=True)) * rstd[:, :1]
    return dx, (dy * normal).sum(0)
