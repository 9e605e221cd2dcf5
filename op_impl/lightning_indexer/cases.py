# SPDX-License-Identifier: Apache-2.0
"""Case data of lightning_indexer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ms_custom_ops.cases.base import Arrays, CaseData, Maker, Symbols
from ms_custom_ops.op_impl.sparse.data import SparseCall, complete


def _grid(most: int, step: float) -> Maker:
    """Multiples of ``step``, at most ``most`` of them. Sums of products of those have no rounding in float32 for any
    shape that the indexer takes (2**24 steps), so that its order has to be the golden's, ties by index included."""
    return lambda rng, shape, symbols, attrs: rng.integers(-most, most + 1, shape) * step


def _indexer_golden(golden: Callable[..., Any], arrays: Arrays, attrs: dict[str, Any], symbols: Symbols) -> Any:
    """Slots behind sparse_count hold -1 and 0."""
    call, count = SparseCall(arrays, attrs, symbols), attrs.get("sparse_count", 2048)
    given = call.same("query", "key", "weights", "actual_seq_lengths_query", "actual_seq_lengths_key", "block_table")
    found = golden(**given, layout_query=call.layout, layout_key=call.layout_kv, sparse_count=count,
                   sparse_mode=attrs.get("sparse_mode", 3))  # fmt: skip
    ends = [(0, 0), (0, 0), (0, 0), (0, -count % 8)]
    return tuple(np.pad(call.batched(x), ends, constant_values=v) for x, v in zip(found, (-1, 0), strict=True))


_MAKERS = {"query": _grid(4, 0.25), "key": _grid(4, 0.25), "weights": _grid(16, 0.125)}

CASES = {"lightning_indexer": CaseData(_MAKERS, complete=complete, golden=_indexer_golden)}
