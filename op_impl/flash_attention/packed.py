# SPDX-License-Identifier: Apache-2.0
"""Packed sequences (layout TND): which keys each row sees, from inclusive prefix sums of the lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS = 16
"""Bounds come in whole blocks of that many rows."""


def row_bounds(q_ends: Any, kv_ends: Any, queries: int, keys: int, upper: int, lower: int) -> tuple[np.ndarray]:
    """One array, int32 (2, queries padded): the first and one past the last key of each row, both non-decreasing.

    Position i of a sequence of Lq queries and Lkv keys sees its keys j with
    ``-lower <= j - i - (Lkv - Lq) <= upper``. Rows behind the last sequence see none.

    Args:
        q_ends, kv_ends: (L,) inclusive prefix sums. queries, keys: tokens of the tensors. upper, lower: tokens.
    """
    starts = []
    for ends, most in ((q_ends, queries), (kv_ends, keys)):
        ends = np.maximum.accumulate(np.asarray(ends, np.int64).clip(0, most))
        starts.append(np.concatenate([[0], ends, ends[-1:]]))
    (q_start, kv_start), rows = starts, np.arange(-(-queries // ROWS) * ROWS)
    owner = (rows[:, None] >= q_start[1:-1]).sum(1)  # the number of sequences for rows behind the last
    q0, q1, k0, k1 = q_start[owner], q_start[owner + 1], kv_start[owner], kv_start[owner + 1]
    at = k0 + rows - q0 + (k1 - k0) - (q1 - q0)
    low = (at - lower).clip(k0, k1)
    return (np.stack([low, (at + upper + 1).clip(low, k1)]).astype(np.int32),)
