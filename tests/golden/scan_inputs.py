# SPDX-License-Identifier: Apache-2.0
"""Random float64 arguments of the scans' goldens, and the check of their gradients by central differences."""

from __future__ import annotations

import numpy as np


def ssd_inputs(shape, seed=1):
    """Of sizes (B, S, H, G, P, N, chunk)."""
    b, s, h, g, p, n, _ = shape
    rng = np.random.default_rng(seed)
    return dict(
        x=rng.standard_normal((b, s, h, p)),
        da=-0.5 * rng.random((b, h, s)),
        B=rng.standard_normal((b, s, g, n)),
        C=rng.standard_normal((b, s, g, n)),
        initial_states=rng.standard_normal((b, h, p, n)),
    )


def mamba3_inputs(shape, seed=2, owners=None):
    """Of sizes (B, S, R, H, G, P, N, chunk); ``owners`` states instead of B."""
    b, s, r, h, g, p, n, _ = shape
    rng = np.random.default_rng(seed)
    return dict(
        q=rng.standard_normal((b, s, r, g, n)),
        k=rng.standard_normal((b, s, r, g, n)),
        v=rng.standard_normal((b, s, r, h, p)),
        da=-0.5 * rng.random((b, h, s)),
        dt=np.log1p(np.exp(rng.standard_normal((b, h, s)) - 1)),
        trap=rng.standard_normal((b, h, s)),
        initial_states=rng.standard_normal((owners or b, h, p, n)),
    )


def check_finite_differences(function, inputs, gradients, cotangents, step=1e-5):
    """Directional derivatives along one random direction per argument."""
    rng = np.random.default_rng(9)
    for name, value in inputs.items():
        direction = rng.standard_normal(value.shape)
        both = [function(**(inputs | {name: value + sign * step * direction})) for sign in (1, -1)]
        change = sum(np.sum(c * (up - down)) for c, up, down in zip(cotangents, *both, strict=True)) / (2 * step)
        expected = np.sum(gradients[name] * direction)
        assert abs(change - expected) <= 1e-7 * max(1.0, abs(expected)), name
