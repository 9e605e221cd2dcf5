# SPDX-License-Identifier: Apache-2.0
"""What the op_info files do not say about an op's data: sensible values of its tensors, how its golden is called,
and how its public function comes to the primitive. One module per family; an op without an entry has no case data and
is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ms_custom_ops.cases import knowledge_attention, knowledge_scan, knowledge_segsum, knowledge_sparse
from ms_custom_ops.cases.knowledge_base import Arrays, Function, Knowledge, Symbols
from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.registry import resolve
from ms_custom_ops.registry.spec import OpSpec

__all__ = ["KNOWLEDGE", "Function", "Knowledge", "golden_outputs", "knowledge_of"]

KNOWLEDGE: dict[str, Knowledge] = {
    **knowledge_attention.KNOWLEDGE,
    **knowledge_scan.KNOWLEDGE,
    **knowledge_segsum.KNOWLEDGE,
    **knowledge_sparse.KNOWLEDGE,
}


def knowledge_of(op: OpSpec) -> Knowledge:
    """Entry of an op; OpArgumentError when it has none."""
    if op.name not in KNOWLEDGE:
        raise OpArgumentError(describe("cases", "op", repr(op.name), "an op with case data: " + ", ".join(KNOWLEDGE)))
    return KNOWLEDGE[op.name]


def golden_outputs(op: OpSpec, arrays: Arrays, attrs: Mapping[str, Any], symbols: Symbols) -> list[np.ndarray]:
    """Results of the op's golden, float64."""
    golden, known = resolve(op.impl.golden), knowledge_of(op)
    wide = {n: a if a.dtype.kind in "iub" else a.astype(np.float64) for n, a in arrays.items()}
    if known.golden is None:
        found = golden(**wide, **attrs)
    else:
        found = known.golden(golden, wide, dict(attrs), symbols)
    return [np.asarray(a) for a in (found if isinstance(found, tuple) else (found,))]
