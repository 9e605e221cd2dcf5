# SPDX-License-Identifier: Apache-2.0
"""Host-side helpers of sparse attention, NumPy only: lengths, index rows, dense warm-up, workspace size."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ms_custom_ops.op_impl.sparse_flash_attention.selection import SPARSE_MODES, SequenceRows, refuse, sequences
from ms_custom_ops.soc import current_soc
from ms_custom_ops.soc.table import Soc

_SYSTEM_BYTES = 32 << 20
_UNIT = 512
_TILE = 128
_CORES = 24
"""Cores that the last term of the published formula counts, whatever the chip has."""


def counts_to_prefix_sums(counts: npt.ArrayLike) -> np.ndarray:
    """int32 inclusive prefix sums (B,) of token counts (B,): what TND lengths are. OpArgumentError for a negative or
    non-integer count."""
    array = _integers("counts_to_prefix_sums", "counts", counts)
    if (array < 0).any():
        refuse("counts_to_prefix_sums", "counts", array.tolist(), "counts of at least 0")
    return np.cumsum(array).astype(np.int32)


def prefix_sums_to_counts(prefix_sums: npt.ArrayLike) -> np.ndarray:
    """int32 token counts (B,) of inclusive prefix sums (B,). OpArgumentError unless they are non-negative and
    non-decreasing."""
    array = _integers("prefix_sums_to_counts", "prefix_sums", prefix_sums)
    counts = np.diff(array, prepend=0)
    if (counts < 0).any():
        refuse("prefix_sums_to_counts", "prefix_sums", array.tolist(), "non-negative, non-decreasing values")
    return counts.astype(np.int32)


def _integers(op: str, name: str, given: npt.ArrayLike) -> np.ndarray:
    array = np.asarray(given)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        refuse(op, name, f"{array.dtype} of shape {array.shape}", "integers of shape (B,)")
    return array.astype(np.int64)


def check_sparse_indices(
    sparse_indices: npt.ArrayLike,
    query_shape: tuple[int, ...],
    key_shape: tuple[int, ...],
    *,
    sparse_block_size: int = 1,
    layout: str = "BSND",
    sparse_mode: int = 3,
    actual_seq_lengths_query: npt.ArrayLike | None = None,
    actual_seq_lengths_kv: npt.ArrayLike | None = None,
) -> None:
    """Refuses index rows that the op accepts but that are most likely a mistake, or that other implementations read
    differently: repeated ids, ids after the first negative one, ids beyond the visible keys among the slots that are
    read, more valid ids than are read, and (block size above 1) a partial last block that is not in the last slot read.

    ``sparse_indices`` (B,S1,N2,K) or (T1,N2,K); ``query_shape`` and ``key_shape`` are those of query and key. Raises
    OpArgumentError for the first bad row, which it names.
    """
    op, ids = "check_sparse_indices", np.asarray(sparse_indices)
    if ids.dtype.kind != "i" or ids.shape[:-2] != tuple(query_shape[:-2]) or ids.ndim != len(query_shape):
        refuse(
            op,
            "sparse_indices",
            f"{ids.dtype} of shape {ids.shape}",
            f"integers of shape {(*query_shape[:-2], 'N2', 'K')}",
        )
    if sparse_mode not in SPARSE_MODES:
        refuse(op, "sparse_mode", sparse_mode, " or ".join(map(str, SPARSE_MODES)))
    rows = ids.reshape(-1, *ids.shape[-2:])
    for sequence in sequences(
        op, tuple(query_shape), tuple(key_shape), layout, actual_seq_lengths_query, actual_seq_lengths_kv
    ):
        for i, row in enumerate(sequence.q_rows):
            for n2 in range(ids.shape[-2]):
                _check_row(op, rows[row, n2], sequence, i, n2, sparse_block_size, sparse_mode)


def _check_row(op: str, row: np.ndarray, sequence: SequenceRows, i: int, n2: int, size: int, mode: int) -> None:
    where = f"row of sequence {sequence.index}, query {i}, key head {n2}"
    negative = np.flatnonzero(row < 0)
    count = int(negative[0]) if negative.size else len(row)
    ids, visible = row[:count], sequence.visible(i, mode)
    if (row[count:] >= 0).any():
        refuse(
            op,
            where,
            f"id {int(row[count:].max())} after the first negative id at slot {count}",
            "valid ids first, -1 after them",
        )
    if len(np.unique(ids)) != count:
        values, times = np.unique(ids, return_counts=True)
        refuse(op, where, f"id {int(values[times > 1][0])} more than once", "unique ids")
    blocks = -(-visible // size)
    if (ids >= blocks).any():
        refuse(op, where, f"id {int(ids.max())} beyond the {visible} visible keys", f"block ids from 0 to {blocks - 1}")
    partial = visible // size
    if size > 1 and visible % size and partial in ids and int(ids[-1]) != partial:
        refuse(
            op,
            where,
            f"the partial last block {partial} at slot {int(np.flatnonzero(ids == partial)[0])}",
            f"that block in the last slot, {count - 1}",
        )


def dense_sparse_indices(
    query_shape: tuple[int, ...], kv_tokens: int, *, kv_heads: int = 1, sparse_block_size: int = 1
) -> np.ndarray:
    """int32 index rows that select every key block of sequences of at most ``kv_tokens`` keys: sparse attention over
    them is dense attention, the KL loss over them the dense warm-up loss. Shape (*query_shape[:-2], kv_heads, K) with
    K = ceil(kv_tokens / sparse_block_size); causal masks and lengths cut the rows in the op itself."""
    if kv_tokens < 1 or sparse_block_size < 1 or kv_heads < 1:
        refuse(
            "dense_sparse_indices",
            "kv_tokens, sparse_block_size, kv_heads",
            f"{kv_tokens}, {sparse_block_size}, {kv_heads}",
            "at least 1 each",
        )
    blocks = np.arange(-(-kv_tokens // sparse_block_size), dtype=np.int32)
    shape = (*query_shape[:-2], kv_heads, blocks.size)
    return np.ascontiguousarray(np.broadcast_to(blocks, shape))


def get_workspace_size(
    q_rows: int,
    kv_rows: int,
    heads: int,
    head_dim: int,
    value_dim: int,
    rope_dim: int,
    slots: int,
    sparse_block_size: int = 1,
    soc: Soc | None = None,
) -> int:
    """GM workspace of the gradient by the formula of the published A2 implementation; q_rows and kv_rows are tokens of
    all sequences (B * S for BSND). The kernels of this package need less: float32 rows of the key gradients are outputs
    of the primitive, and split-core chips exchange two tiles per core."""
    chip = current_soc() if soc is None else soc
    cores = chip.core_count
    wide = head_dim + rope_dim
    per_core = 4 * _round(_TILE * wide * 2) + 2 * _round(_TILE * value_dim * 2) + 8 * _round(heads * _TILE * 4)
    sums = _round(4 * q_rows * heads * wide) + _round(4 * kv_rows * wide) + _round(4 * kv_rows * value_dim)
    scatter = _CORES * 2 * slots * sparse_block_size * (wide + value_dim) * 4
    return _SYSTEM_BYTES + cores * per_core + sums + scatter


def _round(size: int) -> int:
    return -(-size // _UNIT) * _UNIT
