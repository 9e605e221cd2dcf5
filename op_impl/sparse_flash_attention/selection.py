# SPDX-License-Identifier: Apache-2.0
"""Sequences of a BSND or TND batch and the key tokens that a query row selects, in NumPy. Shared by the goldens of
the sparse-attention ops and by :mod:`helpers`; the kernels have their own code."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from ms_custom_ops.errors import OpArgumentError, describe

LAYOUTS = ("BSND", "TND")
PAGED = "PA_BSND"
SPARSE_MODES = {0: "no mask", 3: "causal, aligned to the lower right"}


def refuse(op: str, argument: str, given: object, accepted: object) -> NoReturn:
    """Raises OpArgumentError in the order of the package: op, argument, given, accepted."""
    raise OpArgumentError(describe(op, argument, given, accepted))


@dataclass(frozen=True)
class SequenceRows:
    """One sequence: ``q_rows`` index the query tensor flattened to (rows, heads, D), ``kv_rows`` the key tensor; both
    hold only the tokens within the actual length."""

    index: int
    q_rows: np.ndarray
    kv_rows: np.ndarray

    @property
    def q_len(self) -> int:
        """Actual query tokens."""
        return len(self.q_rows)

    @property
    def kv_len(self) -> int:
        """Actual key tokens."""
        return len(self.kv_rows)

    def visible(self, position: int, sparse_mode: int) -> int:
        """Keys that query token ``position`` may see: the first so many of the sequence."""
        if sparse_mode == 0:
            return self.kv_len
        return max(self.kv_len - self.q_len + position + 1, 0)


def selected_tokens(ids: Seq[int] | np.ndarray, visible: int, block_size: int) -> np.ndarray:
    """Tokens that one index row selects among the first ``visible`` tokens of its sequence.

    At most ceil(visible / block_size) slots are read; the first negative id ends the list; an id selects
    ``block_size`` tokens from ``id * block_size`` on, cut at ``visible``. A repeated id counts again.
    """
    slots = min(len(ids), -(-visible // block_size))
    tokens: list[int] = []
    for block in ids[:slots]:
        if block < 0:
            break
        start = int(block) * block_size
        tokens.extend(range(start, min(start + block_size, visible)))
    return np.asarray(tokens, np.int64)


def sequences(
    op: str,
    q_shape: tuple[int, ...],
    kv_shape: tuple[int, ...],
    layout: str,
    q_lengths: npt.ArrayLike | None,
    kv_lengths: npt.ArrayLike | None,
    layout_kv: str | None = None,
    block_table: npt.ArrayLike | None = None,
) -> Iterator[SequenceRows]:
    """Sequences of tensors with these shapes. Lengths are counts for BSND and for paged keys, inclusive prefix sums
    for TND; None in BSND means all tokens. Raises OpArgumentError."""
    if layout not in LAYOUTS:
        refuse(op, "layout_query", repr(layout), " or ".join(LAYOUTS))
    q_parts = _parts(op, "query", q_shape, layout, q_lengths)
    layout_kv = layout if layout_kv is None else layout_kv
    if layout_kv == PAGED:
        kv_parts = _pages(op, kv_shape, kv_lengths, block_table, len(q_parts))
    elif layout_kv == layout:
        kv_parts = _parts(op, "kv", kv_shape, layout, kv_lengths)
    else:
        refuse(op, "layout_kv", repr(layout_kv), f"{layout!r}, as layout_query, or {PAGED!r}")
    if len(q_parts) != len(kv_parts):
        refuse(op, "number of key sequences", len(kv_parts), f"{len(q_parts)}, as query")
    for index, (q_rows, kv_rows) in enumerate(zip(q_parts, kv_parts, strict=False)):
        yield SequenceRows(index, q_rows, kv_rows)


def _parts(op: str, side: str, shape: tuple[int, ...], layout: str, lengths: npt.ArrayLike | None) -> list[np.ndarray]:
    name = f"actual_seq_lengths_{side}"
    if len(shape) != len(layout):
        refuse(op, f"rank of {side}", f"{len(shape)} (shape {shape})", f"{len(layout)} for layout {layout}")
    if layout == "BSND":
        batch, tokens = shape[:2]
        counts = np.full(batch, tokens) if lengths is None else np.asarray(lengths)
        if counts.shape != (batch,):
            refuse(op, name, f"of shape {counts.shape}", f"one count per sequence, shape ({batch},)")
        if counts.size and (counts.min() < 0 or counts.max() > tokens):
            refuse(op, name, counts.tolist(), f"counts from 0 to {tokens}")
        return [b * tokens + np.arange(n) for b, n in enumerate(counts)]
    if lengths is None:
        refuse(op, name, None, "inclusive prefix sums, shape (B,): layout TND needs them")
    ends = np.asarray(lengths)
    if ends.ndim != 1:
        refuse(op, name, f"of shape {ends.shape}", "inclusive prefix sums, shape (B,)")
    starts = np.concatenate([[0], ends[:-1]]) if ends.size else ends
    if ends.size and ((ends < starts).any() or ends[-1] > shape[0]):
        refuse(op, name, ends.tolist(), f"non-negative, non-decreasing prefix sums of at most T = {shape[0]}")
    return [np.arange(a, b) for a, b in zip(starts, ends, strict=False)]


def _pages(
    op: str, shape: tuple[int, ...], lengths: npt.ArrayLike | None, block_table: npt.ArrayLike | None, batch: int
) -> list[np.ndarray]:
    """Rows of key flattened to (blocks * block_size, N2, D)."""
    if lengths is None or block_table is None:
        refuse(op, "block_table, actual_seq_lengths_kv", "None", f"both, for layout_kv {PAGED}")
    counts, table = np.asarray(lengths), np.asarray(block_table)
    page = shape[1]
    if table.ndim != 2 or len(table) != batch or counts.shape != (batch,):
        refuse(
            op,
            "block_table, actual_seq_lengths_kv",
            f"of shapes {table.shape}, {counts.shape}",
            f"({batch}, pages) and ({batch},)",
        )
    out = []
    for row, count in zip(table, counts, strict=False):
        if not 0 <= count <= row.size * page:
            refuse(op, "actual_seq_lengths_kv", counts.tolist(), f"counts from 0 to {row.size * page}")
        tokens = np.arange(count)
        out.append(row[tokens // page].astype(np.int64) * page + tokens % page)
    return out
