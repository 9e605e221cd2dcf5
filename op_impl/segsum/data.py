# SPDX-License-Identifier: Apache-2.0
"""Case data that the ops of the segment-sum family share."""

from __future__ import annotations

from ms_custom_ops.cases.base import uniform

MATRICES = ("dSSdA", "SSdA")
SUMS = ("ddA_cs", "ddA_cs_rev", "dA_cs", "dA_cs_rev")
DECAYS = {"SSdA": uniform(-2, 0), "dA_cs": uniform(-2, 0), "dA_cs_rev": uniform(-2, 0), "da": uniform(-1, 0)}
