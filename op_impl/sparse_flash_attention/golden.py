# SPDX-License-Identifier: Apache-2.0
"""Golden of sparse_flash_attention and its gradient: naive float64 NumPy, one row and one head group at a time.

It follows README.md of this folder formula by formula and shares no code with the kernels. Inputs of any real dtype
are widened to float64 first; the values they hold must be finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ms_custom_ops.op_impl.sparse_flash_attention.selection import (
    SPARSE_MODES,
    SequenceRows,
    refuse,
    selected_tokens,
    sequences,
)


@dataclass(frozen=True)
class Row:
    """One query row of one key head: flat query row, key head, flat key rows of the selected tokens."""

    q_row: int
    kv_head: int
    keys: np.ndarray


class Problem:
    """Checked float64 arguments with batch and token axes flattened: query (rows, N1, D), key (rows, N2, D)."""

    def __init__(
        self,
        op: str,
        query: npt.ArrayLike,
        key: npt.ArrayLike,
        value: npt.ArrayLike | None,
        sparse_indices: npt.ArrayLike,
        scale_value: float,
        block_table: npt.ArrayLike | None,
        q_lengths: npt.ArrayLike | None,
        kv_lengths: npt.ArrayLike | None,
        query_rope: npt.ArrayLike | None,
        key_rope: npt.ArrayLike | None,
        block_size: int,
        layout: str,
        layout_kv: str | None,
        sparse_mode: int,
        sinks: npt.ArrayLike | None = None,
    ):
        q, k = np.asarray(query), np.asarray(key)
        self.op, self.layout, self.q_shape, self.k_shape = op, layout, q.shape, k.shape
        self.sparse_mode, self.block_size, self.scale = sparse_mode, block_size, float(scale_value)
        if sparse_mode not in SPARSE_MODES:
            refuse(op, "sparse_mode", sparse_mode, ", ".join(f"{m} ({w})" for m, w in SPARSE_MODES.items()))
        if block_size < 1:
            refuse(op, "sparse_block_size", block_size, "at least 1")
        self.sequences = list(sequences(op, q.shape, k.shape, layout, q_lengths, kv_lengths, layout_kv, block_table))
        self.query, self.key = _rows(q), _rows(k)
        self.value = self.key if value is None else _rows(value)
        self.n1, self.n2 = self.query.shape[1], self.key.shape[1]
        ids = np.asarray(sparse_indices)
        self.indices = ids.reshape(len(self.query), self.n2, ids.shape[-1])
        self._check()
        self.query_rope = self.key_rope = None
        if (query_rope is None) != (key_rope is None):
            refuse(op, "query_rope, key_rope", "one of the two", "both or neither")
        if query_rope is not None and key_rope is not None:
            self.query_rope, self.key_rope = _rows(query_rope), _rows(key_rope)
        self.sinks = None if sinks is None else np.minimum(np.asarray(sinks, np.float64), np.finfo(np.float32).max)

    def _check(self) -> None:
        if self.n2 == 0 or self.n1 % self.n2:
            refuse(self.op, "query", f"N1 = {self.n1} heads", f"a multiple of N2 = {self.n2} heads of key")
        if self.query.shape[2] != self.key.shape[2]:
            refuse(self.op, "key", f"D = {self.key.shape[2]}", f"D = {self.query.shape[2]}, as query")
        if self.value.shape[:2] != self.key.shape[:2]:
            refuse(self.op, "value", f"of shape {self.value.shape}", f"rows and heads of key {self.key.shape}")

    @property
    def group(self) -> int:
        """Query heads per key head."""
        return self.n1 // self.n2

    def heads(self, row: Row) -> slice:
        """Query heads of the row's key head."""
        return slice(row.kv_head * self.group, (row.kv_head + 1) * self.group)

    def rows(self) -> Iterator[Row]:
        """Every (row, key head) within the lengths, with what it selects."""
        for sequence in self.sequences:
            for i, q_row in enumerate(sequence.q_rows):
                for n2 in range(self.n2):
                    yield Row(int(q_row), n2, sequence.kv_rows[self._tokens(sequence, i, int(q_row), n2)])

    def _tokens(self, sequence: SequenceRows, position: int, q_row: int, n2: int) -> np.ndarray:
        visible = sequence.visible(position, self.sparse_mode)
        tokens = selected_tokens(self.indices[q_row, n2], visible, self.block_size)
        return tokens

    def scores(self, row: Row) -> np.ndarray:
        """Scaled scores (G, L)."""
        heads = self.heads(row)
        s = self.query[row.q_row, heads] @ self.key[row.keys, row.kv_head].T
        if self.query_rope is not None and self.key_rope is not None:
            s = s + self.query_rope[row.q_row, heads] @ self.key_rope[row.keys, row.kv_head].T
        return s * self.scale

    def softmax(self, row: Row) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """P (G, L), row maximum (G,), row sum (G,); a sink takes part in both statistics."""
        scores = self.scores(row)
        sink = None if self.sinks is None else self.sinks[self.heads(row)]
        if not row.keys.size and sink is None:
            return scores, np.zeros(self.group), np.zeros(self.group)
        peak = scores.max(axis=1) if row.keys.size else np.full(self.group, -np.inf)
        if sink is not None:
            peak = np.maximum(peak, sink)
            peak = np.where(peak == -np.inf, 0.0, peak)
        exps = np.exp(scores - peak[:, None])
        total = exps.sum(axis=1)
        if sink is not None:
            total = total + np.exp(sink - peak)
        return exps / np.where(total == 0, 1, total)[:, None], peak, total

    def like_query(self, rows: np.ndarray) -> np.ndarray:
        """(rows, N1, x) in the layout of query."""
        return rows.reshape(*self.q_shape[:-2], *rows.shape[1:])

    def like_key(self, rows: np.ndarray) -> np.ndarray:
        """(rows, N2, x) in the layout of key."""
        return rows.reshape(*self.k_shape[:-2], *rows.shape[1:])

    def statistics(self, rows: np.ndarray) -> np.ndarray:
        """(rows, N2, G) as (B, N2, S1, G) or (N2, T1, G)."""
        if self.layout == "TND":
            return rows.transpose(1, 0, 2)
        return rows.reshape(*self.q_shape[:2], self.n2, self.group).transpose(0, 2, 1, 3)

    def statistics_rows(self, x: npt.ArrayLike | None) -> np.ndarray:
        """(rows, N2, G) of statistics as :meth:`statistics` gives them; zeros of None."""
        if x is None:
            return np.zeros((len(self.query), self.n2, self.group))
        array = np.asarray(x, np.float64)
        if self.layout == "TND":
            return array.transpose(1, 0, 2)
        return array.transpose(0, 2, 1, 3).reshape(-1, self.n2, self.group)


def _rows(x: npt.ArrayLike) -> np.ndarray:
    array = np.asarray(x).astype(np.float64)
    return array.reshape(-1, *array.shape[-2:])


def sparse_flash_attention(
    query: npt.ArrayLike,
    key: npt.ArrayLike,
    value: npt.ArrayLike | None,
    sparse_indices: npt.ArrayLike,
    scale_value: float,
    *,
    block_table: npt.ArrayLike | None = None,
    actual_seq_lengths_query: npt.ArrayLike | None = None,
    actual_seq_lengths_kv: npt.ArrayLike | None = None,
    query_rope: npt.ArrayLike | None = None,
    key_rope: npt.ArrayLike | None = None,
    sparse_block_size: int = 1,
    layout_query: str = "BSND",
    layout_kv: str | None = None,
    sparse_mode: int = 3,
    sinks: npt.ArrayLike | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Attention of every query row over the key blocks its index row names.

    query (B,S1,N1,D) or (T1,N1,D); key (B,S2,N2,D), (T2,N2,D) or, paged, (blocks, block_size, N2, D); value as key
    with its own last axis, None = key; sparse_indices (B,S1,N2,K) or (T1,N2,K); rope tensors as query and key with
    last axis Dr; sinks (N1,). Lengths: see :func:`selection.sequences`; layout_kv None = layout_query.

    Returns float64 (attention_out, softmax_max, softmax_sum): query shape with the last axis of value, statistics
    (B,N2,S1,G) or (N2,T1,G) of the scaled scores with natural exponent. A row that selects nothing has 0 in all three
    (with sinks: the sink and 1); a row beyond its length has 0. A sink of -inf is none; one of +inf leaves nothing for
    the keys, and the maximum is the largest float32. Raises OpArgumentError.
    """
    p = Problem(
        "sparse_flash_attention",
        query,
        key,
        value,
        sparse_indices,
        scale_value,
        block_table,
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        query_rope,
        key_rope,
        sparse_block_size,
        layout_query,
        layout_kv,
        sparse_mode,
        sinks,
    )
    out = np.zeros((len(p.query), p.n1, p.value.shape[2]))
    softmax_max, softmax_sum = np.zeros((2, len(p.query), p.n2, p.group))
    for row in p.rows():
        weights, softmax_max[row.q_row, row.kv_head], softmax_sum[row.q_row, row.kv_head] = p.softmax(row)
        out[row.q_row, p.heads(row)] = weights @ p.value[row.keys, row.kv_head]
    return p.like_query(out), p.statistics(softmax_max), p.statistics(softmax_sum)


@dataclass(frozen=True)
class Gradients:
    """Gradients in the shapes of the inputs; None where there is no input. Without value, d_key is dK + dV."""

    d_query: np.ndarray
    d_key: np.ndarray
    d_value: np.ndarray | None
    d_query_rope: np.ndarray | None
    d_key_rope: np.ndarray | None
    d_sinks: np.ndarray | None


def sparse_flash_attention_grad(
    query: npt.ArrayLike,
    key: npt.ArrayLike,
    value: npt.ArrayLike | None,
    sparse_indices: npt.ArrayLike,
    d_out: npt.ArrayLike,
    scale_value: float,
    *,
    actual_seq_lengths_query: npt.ArrayLike | None = None,
    actual_seq_lengths_kv: npt.ArrayLike | None = None,
    query_rope: npt.ArrayLike | None = None,
    key_rope: npt.ArrayLike | None = None,
    sparse_block_size: int = 1,
    layout: str = "BSND",
    sparse_mode: int = 3,
    sinks: npt.ArrayLike | None = None,
    attention_out: npt.ArrayLike | None = None,
    d_softmax_max: npt.ArrayLike | None = None,
    d_softmax_sum: npt.ArrayLike | None = None,
) -> Gradients:
    """Gradients of sum(d_out * attention_out) + sum(d_softmax_max * softmax_max) + sum(d_softmax_sum * softmax_sum),
    each in the shape of its result, None = 0; the rest as in the forward.

    The softmax is computed again. ``attention_out`` None: nothing depends on a rounded forward result. Given, as the op
    takes it, delta is the sum of d_out * attention_out: where few keys share a row, its rounding outweighs every other.
    Raises OpArgumentError.
    """
    p = Problem(
        "sparse_flash_attention_grad",
        query,
        key,
        value,
        sparse_indices,
        scale_value,
        None,
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        query_rope,
        key_rope,
        sparse_block_size,
        layout,
        None,
        sparse_mode,
        sinks,
    )
    do, out = _rows(d_out), None if attention_out is None else _rows(attention_out)
    dq, dk, dv = np.zeros_like(p.query), np.zeros_like(p.key), np.zeros_like(p.value)
    dqr = None if p.query_rope is None else np.zeros_like(p.query_rope)
    dkr = None if p.key_rope is None else np.zeros_like(p.key_rope)
    d_sinks = None if p.sinks is None else np.zeros(p.n1)
    d_statistics = [p.statistics_rows(x) for x in (d_softmax_max, d_softmax_sum)]
    for row in p.rows():
        heads, at = p.heads(row), row.kv_head
        weights, peak, total = p.softmax(row)
        dp = do[row.q_row, heads] @ p.value[row.keys, at].T
        delta = (weights * dp).sum(axis=1) if out is None else (do * out)[row.q_row, heads].sum(axis=1)
        d_peak, d_lse = (x[row.q_row, at] for x in d_statistics)
        d_lse = d_lse * total
        d_peak = d_peak - d_lse  # the sum falls as the maximum rises
        ds = weights * (dp - delta[:, None] + d_lse[:, None])
        sink = None if p.sinks is None else p.sinks[heads]
        at_sink = np.full(p.group, not row.keys.size) if sink is None else sink == peak
        if row.keys.size:
            ds[np.arange(p.group), weights.argmax(axis=1)] += np.where(at_sink, 0.0, d_peak)
        ds = ds * p.scale
        dq[row.q_row, heads] = ds @ p.key[row.keys, at]
        np.add.at(dk[:, at], row.keys, ds.T @ p.query[row.q_row, heads])
        np.add.at(dv[:, at], row.keys, weights.T @ do[row.q_row, heads])
        if dqr is not None and dkr is not None and p.query_rope is not None and p.key_rope is not None:
            dqr[row.q_row, heads] = ds @ p.key_rope[row.keys, at]
            np.add.at(dkr[:, at], row.keys, ds.T @ p.query_rope[row.q_row, heads])
        if d_sinks is not None and sink is not None:
            d_sink = np.exp(sink - peak) / np.where(total == 0, 1, total) * (d_lse - delta) + np.where(
                at_sink, d_peak, 0.0
            )
            d_sinks[heads] += np.where(sink < np.finfo(np.float32).max, d_sink, 0.0)
    return Gradients(
        p.like_query(dq),
        p.like_key(dk + dv if value is None else dk),
        None if value is None else p.like_key(dv),
        None if dqr is None else p.like_query(dqr),
        None if dkr is None else p.like_key(dkr),
        d_sinks,
    )
