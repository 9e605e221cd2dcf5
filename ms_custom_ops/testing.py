# SPDX-License-Identifier: Apache-2.0
"""What users' own tests call: comparisons with a golden, and :func:`opcheck`, which checks an op in every way."""

from __future__ import annotations

from ms_custom_ops.comparators import (
    MIXED_TOLERANCES,
    MixedTolerance,
    assert_mixed,
    assert_ratio,
    assert_rms,
    rms_error,
)
from ms_custom_ops.opcheck import Finding, Report, opcheck

__all__ = [
    "MIXED_TOLERANCES",
    "Finding",
    "MixedTolerance",
    "Report",
    "assert_mixed",
    "assert_ratio",
    "assert_rms",
    "opcheck",
    "rms_error",
]
