# SPDX-License-Identifier: Apache-2.0
"""Case data of segsum_decay."""

from __future__ import annotations

from ms_custom_ops.cases.base import CaseData
from ms_custom_ops.op_impl.segsum.data import DECAYS, whole_chunks

CASES = {"segsum_decay": CaseData(DECAYS, golden=whole_chunks, function=("da", "chunk_size"))}
