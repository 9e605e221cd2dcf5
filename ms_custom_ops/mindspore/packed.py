# SPDX-License-Identifier: Apache-2.0
"""Computed tensors of lowered calls, in a graph: positions of packed sequences."""

from __future__ import annotations


def compute(function, tensors, sources, parameters):
    """Results of the function of that name."""
    return ()
