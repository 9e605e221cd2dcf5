# SPDX-License-Identifier: Apache-2.0
"""What users' own tests call: comparisons with a golden, :func:`opcheck`, which checks an op in every way, and
:func:`do_bench`, which times it on this machine."""

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
from ms_custom_ops.timing import do_bench

__all__ = [
    "MIXED_TOLERANCES",
    "Finding",
    "MixedTolerance",
    "Report",
    "assert_mixed",
    "assert_ratio",
    "assert_rms",
    "do_bench",
    "opcheck",
    "rms_error",
]
