# SPDX-License-Identifier: Apache-2.0
"""Which query rows see a key, and which keys are seen by a query: the others are no tokens, whatever they hold.

A product of tiles multiplies hidden rows by 0, and 0 times NaN is NaN; so they are zeroed before the kernel runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

MASK_BLOCK = 128
"""Edge of the blocks that prev_block_num and next_block_num count."""


@dataclass(frozen=True)
class Band:
    """Sizes of a call and its static bounds in tokens and blocks, cut to what the lengths can reach."""

    q_len: int
    kv_len: int
    kv_heads: int
    upper: int
    lower: int
    prev: int
    next: int

    @staticmethod
    def of(sizes: Mapping[str, Any]) -> Band:
        """Of a call's sizes and attributes."""
        s1, s2 = sizes["S1"], sizes["S2"]
        most = s1 + s2

        def cut(value: int) -> int:
            return max(min(value, most), -most)

        mode = sizes["sparse_mode"]
        upper = 0 if mode == 3 else cut(sizes["next_tokens"]) if mode == 4 else most
        lower = cut(sizes["pre_tokens"]) if mode == 4 else most
        blocks = most // MASK_BLOCK + 1
        return Band(
            s1,
            s2,
            sizes["N2"],
            upper,
            lower,
            min(sizes["prev_block_num"], blocks),
            min(sizes["next_block_num"], blocks),
        )

    @property
    def parameters(self) -> tuple[int, ...]:
        """As plain integers."""
        return self.q_len, self.kv_len, self.kv_heads, self.upper, self.lower, self.prev, self.next


def seen(q_lengths: Any, kv_lengths: Any, mask: Any, *parameters: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """bool ``seen_queries`` (B or 1, N1 or 1, S1, 1), ``seen_keys`` (B or 1, N2 or 1, S2, 1), and ``seen_queries``
    without its last axis.

    Args:
        q_lengths, kv_lengths: (B,) or None. mask: attn_mask, broadcastable to (B, N1, S1, S2), not 0 = hidden, or None.
        parameters: :attr:`Band.parameters`.
    """
    band = Band(*parameters)
    i, j = np.arange(band.q_len), np.arange(band.kv_len)
    q_length = np.array([[band.q_len]]) if q_lengths is None else np.asarray(q_lengths, np.int64)[:, None]
    kv_length = np.array([[band.kv_len]]) if kv_lengths is None else np.asarray(kv_lengths, np.int64)[:, None]
    q_length, kv_length = q_length.clip(0, band.q_len), kv_length.clip(0, band.kv_len)
    shift = kv_length - q_length
    low = np.maximum(np.maximum(i + shift - band.lower, (i // MASK_BLOCK - band.prev) * MASK_BLOCK), 0)
    high = np.minimum(np.minimum(i + shift + band.upper + 1, (i // MASK_BLOCK + band.next + 1) * MASK_BLOCK), kv_length)
    if mask is not None:
        inside = (low[..., None] <= j) & (j < high[..., None]) & (i < q_length)[..., None]
        visible = inside[:, None] & (np.asarray(mask) == 0)
        queries, keys = visible.any(-1), visible.any(-2)
        if keys.shape[1] > 1:
            keys = keys.reshape(keys.shape[0], band.kv_heads, -1, band.kv_len).any(2)
        return queries[..., None], keys[..., None], queries
    queries = (low < high) & (i < q_length)
    low = np.maximum(np.maximum(j - shift - band.upper, (j // MASK_BLOCK - band.next) * MASK_BLOCK), 0)
    high = np.minimum(np.minimum(j - shift + band.lower + 1, (j // MASK_BLOCK + band.prev + 1) * MASK_BLOCK), q_length)
    keys = (low < high) & (j < kv_length)
    return queries[:, None, :, None], keys[:, None, :, None], queries[:, None]
