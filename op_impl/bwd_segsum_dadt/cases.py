# SPDX-License-Identifier: Apache-2.0
"""Case data of bwd_segsum_dadt."""

from __future__ import annotations

from ms_custom_ops.cases.base import CaseData, lengths
from ms_custom_ops.op_impl.segsum.data import DECAYS, MATRICES

CASES = {
    "bwd_segsum_dadt": CaseData({**DECAYS, "lengths": lengths("C")}, function=(*MATRICES, "ddt_out", "chunk_size"))
}
