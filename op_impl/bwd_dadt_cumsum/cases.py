# SPDX-License-Identifier: Apache-2.0
"""Case data of bwd_dadt_cumsum."""

from __future__ import annotations

from ms_custom_ops.cases.base import CaseData
from ms_custom_ops.op_impl.segsum.data import DECAYS, SUMS, whole_chunks

CASES = {"bwd_dadt_cumsum": CaseData(DECAYS, golden=whole_chunks, function=(*SUMS, "chunk_size"))}
