# SPDX-License-Identifier: Apache-2.0
"""Bounds of layers are those of the op_info files."""

from __future__ import annotations

import pytest

from ms_custom_ops.errors import OpInfoError
from ms_custom_ops.registry.bounds import upper_bound


@pytest.mark.parametrize(
    ("op", "what", "wanted"),
    [
        ("flash_attention", "D", 256),
        ("flash_attention", "DV", 256),
        ("ssd_chunk_scan", "chunk_size", 256),
        ("ssd_chunk_scan", "P", 128),
        ("sparse_flash_attention", "N1 // N2", 128),
        ("sparse_flash_attention", "R", 64),
        ("lightning_indexer", "sparse_count", 8192),
    ],
)
def test_bounds(op: str, what: str, wanted: int) -> None:
    assert upper_bound(op, what) == wanted


def test_no_bound() -> None:
    with pytest.raises(OpInfoError, match="flash_attention: constraints is without S1 <= a number; accepted: one that"):
        upper_bound("flash_attention", "S1")
