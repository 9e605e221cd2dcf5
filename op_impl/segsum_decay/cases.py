# SPDX-License-Identifier: Apache-2.0
"""Case data of segsum_decay."""

from __future__ import annotations

from ms_custom_ops.cases.base import CaseData
from ms_custom_ops.op_impl.segsum.data import DECAYS

CASES = {"segsum_decay": CaseData(DECAYS)}
