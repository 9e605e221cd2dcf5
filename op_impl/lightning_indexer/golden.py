# SPDX-License-Identifier: Apache-2.0
"""Golden of lightning_indexer: naive float64 NumPy, one row at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ms_custom_ops.op_impl.sparse_flash_attention.selection import SPARSE_MODES, refuse, sequences

HIGHEST = float(np.finfo(np.float32).max)
LOWEST = float(np.nextafter(np.finfo(np.float32).min, np.float32(0)))
"""Scores are kept between these, NaN counts as LOWEST; the kernel marks what is no key with the float32 below it."""


def index_scores(query: np.ndarray, weights: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """I[s] = sum_g weights[g] * relu(query[g] . keys[s]); query (N1, D), weights (N1,), keys (L, D) -> (L,)."""
    return weights @ np.maximum(query @ keys.T, 0.0)


def lightning_indexer(
    query: npt.ArrayLike,
    key: npt.ArrayLike,
    weights: npt.ArrayLike,
    *,
    actual_seq_lengths_query: npt.ArrayLike | None = None,
    actual_seq_lengths_key: npt.ArrayLike | None = None,
    block_table: npt.ArrayLike | None = None,
    layout_query: str = "BSND",
    layout_key: str | None = None,
    sparse_count: int = 2048,
    sparse_mode: int = 3,
) -> tuple[np.ndarray, np.ndarray]:
    """The sparse_count best keys of every query row by index score.

    query (B,S1,N1,D) or (T1,N1,D); key (B,S2,1,D), (T2,1,D) or paged (blocks, block_size, 1, D); weights (B,S1,N1) or
    (T1,N1). Lengths as in sparse_flash_attention. Returns int32 sparse_indices (B,S1,1,K) or (T1,1,K), best first,
    equal scores by ascending token, -1 in unused slots, and their float64 scores (0 in unused slots). Scores are kept
    between LOWEST and HIGHEST, the range of float32; NaN counts as LOWEST.
    """
    op = "lightning_indexer"
    q, k = np.asarray(query).astype(np.float64), np.asarray(key).astype(np.float64)
    if k.shape[-2] != 1:
        refuse(op, "key", f"N2 = {k.shape[-2]} heads", "1 head")
    if sparse_count < 1:
        refuse(op, "sparse_count", sparse_count, "at least 1")
    if sparse_mode not in SPARSE_MODES:
        refuse(op, "sparse_mode", sparse_mode, " or ".join(map(str, SPARSE_MODES)))
    q_rows, k_rows = q.reshape(-1, *q.shape[-2:]), k.reshape(-1, k.shape[-1])
    w_rows = np.asarray(weights).astype(np.float64).reshape(-1, q.shape[-2])
    indices = np.full((len(q_rows), sparse_count), -1, np.int32)
    values = np.zeros((len(q_rows), sparse_count))
    for sequence in sequences(
        op, q.shape, k.shape, layout_query, actual_seq_lengths_query, actual_seq_lengths_key, layout_key, block_table
    ):
        for i, row in enumerate(sequence.q_rows):
            visible = sequence.visible(i, sparse_mode)
            scores = index_scores(q_rows[row], w_rows[row], k_rows[sequence.kv_rows[:visible]])
            scores = np.minimum(np.where(scores > LOWEST, scores, LOWEST), HIGHEST)
            best = np.argsort(-scores, kind="stable")[:sparse_count]
            indices[row, : len(best)], values[row, : len(best)] = best, scores[best]
    shape = (*q.shape[:-2], 1, sparse_count)
    return indices.reshape(shape), values.reshape(shape)
