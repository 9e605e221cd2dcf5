# SPDX-License-Identifier: Apache-2.0
"""Case data of bwd_dadt_fused."""

from __future__ import annotations

from ms_custom_ops.cases.base import CaseData, lengths
from ms_custom_ops.op_impl.segsum.data import DECAYS, MATRICES, SUMS

CASES = {"bwd_dadt_fused": CaseData({**DECAYS, "lengths": lengths("C")}, function=(*MATRICES, *SUMS, "chunk_size"))}
