# SPDX-License-Identifier: Apache-2.0
"""Golden of sparse_lightning_indexer_grad_kl_loss: naive float64 NumPy, one row at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ms_custom_ops.op_impl.lightning_indexer.golden import index_scores
from ms_custom_ops.op_impl.sparse_flash_attention.golden import Problem
from ms_custom_ops.op_impl.sparse_flash_attention.selection import refuse


@dataclass(frozen=True)
class KlGradients:
    """Gradients in the shapes of query_index, key_index and weights; ``loss`` is the sum over all rows."""

    d_query_index: np.ndarray
    d_key_index: np.ndarray
    d_weights: np.ndarray
    loss: float


def sparse_lightning_indexer_grad_kl_loss(
    query: npt.ArrayLike,
    key: npt.ArrayLike,
    query_index: npt.ArrayLike,
    key_index: npt.ArrayLike,
    weights: npt.ArrayLike,
    sparse_indices: npt.ArrayLike,
    scale_value: float,
    *,
    query_rope: npt.ArrayLike | None = None,
    key_rope: npt.ArrayLike | None = None,
    actual_seq_lengths_query: npt.ArrayLike | None = None,
    actual_seq_lengths_kv: npt.ArrayLike | None = None,
    layout: str = "BSND",
    sparse_mode: int = 3,
) -> KlGradients:
    """KL divergence of the indexer's softmax from the main attention, over the selected tokens, and its gradient.

    p[t] = main attention over the selected tokens, summed over heads and divided by its sum (a constant);
    loss = sum over rows t and selected tokens s of p * (ln p - ln softmax(I[t])[s]).

    query (B,S1,N1,D) or (T1,N1,D), key with one head; query_index (B,S1,Ni,Di) or (T1,Ni,Di), key_index with one
    head, weights (B,S1,Ni) or (T1,Ni); sparse_indices hold token ids (block size 1). The softmax of the main
    attention is computed again. Raises OpArgumentError.
    """
    op = "sparse_lightning_indexer_grad_kl_loss"
    main = Problem(
        op,
        query,
        key,
        None,
        sparse_indices,
        scale_value,
        None,
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        query_rope,
        key_rope,
        1,
        layout,
        None,
        sparse_mode,
    )
    if main.n2 != 1:
        refuse(op, "key", f"N2 = {main.n2} heads", "1 head")
    qi, ki, w = (np.asarray(x).astype(np.float64) for x in (query_index, key_index, weights))
    q_rows, k_rows, w_rows = qi.reshape(-1, *qi.shape[-2:]), ki.reshape(-1, ki.shape[-1]), w.reshape(-1, w.shape[-1])
    dq, dk, dw, loss = np.zeros_like(q_rows), np.zeros_like(k_rows), np.zeros_like(w_rows), 0.0
    for row in main.rows():
        if not row.keys.size:
            continue
        target = main.softmax(row)[0].sum(axis=0)
        target = target / target.sum()
        keys, at = k_rows[row.keys], row.q_row
        scores = index_scores(q_rows[at], w_rows[at], keys)
        log_model = scores - scores.max()
        log_model = log_model - np.log(np.exp(log_model).sum())
        some = target > 0
        loss += float((target[some] * (np.log(target[some]) - log_model[some])).sum())
        d_scores = np.exp(log_model) - target
        z = q_rows[at] @ keys.T
        dw[at] = np.maximum(z, 0.0) @ d_scores
        dz = (z > 0) * w_rows[at][:, None] * d_scores
        dq[at] = dz @ keys
        np.add.at(dk, row.keys, dz.T @ q_rows[at])
    return KlGradients(dq.reshape(qi.shape), dk.reshape(ki.shape), dw.reshape(w.shape), loss)
