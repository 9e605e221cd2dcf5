# SPDX-License-Identifier: Apache-2.0
"""What the sparse-attention ops share: the problem, the tile of selected tokens, the buffers that find and gather it.

A tile is what one inner step handles: ``slots`` consecutive index slots, each naming a block of ``block_size`` tokens,
at most ``TILE_TOKENS`` tokens in all, padded to ``columns`` for the cube.
"""

from __future__ import annotations

from dataclasses import dataclass

from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, VECTOR_REPEAT_BYTES
from ms_custom_ops.tiling.budget import BufferSpec, align

TILE_TOKENS = 128
"""Tokens of one inner step (the published kernels' figure)."""
PAGED = "PA_BSND"
UNLIMITED = 9223372036854775807
"""The only value of pre_tokens and next_tokens."""
I32_BLOCK = BLOCK_BYTES // 4
F32_LANES = VECTOR_REPEAT_BYTES // 4


@dataclass(frozen=True)
class SparseProblem:
    """Shapes, dtype and attributes of one call at the primitive level.

    ``batch`` sequences; ``q_rows`` query rows in all, ``q_len`` of them per sequence in BSND; keys likewise, and for
    paged keys ``kv_len`` is the page size and ``pages`` the page slots per sequence. ``slots`` is the padded K.
    """

    batch: int
    q_rows: int
    q_len: int
    kv_rows: int
    kv_len: int
    q_heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    rope_dim: int
    slots: int
    dtype: str
    scale_value: float
    block_size: int
    packed: bool
    sparse_mode: int
    paged: bool = False
    pages: int = 0
    merged: bool = False
    has_sinks: bool = False
    has_q_lengths: bool = False
    has_kv_lengths: bool = False
    has_d_statistics: bool = False

    @property
    def group(self) -> int:
        """Query heads per key head."""
        return self.q_heads // self.kv_heads

    @property
    def group_padded(self) -> int:
        """Row length of the statistics in GM."""
        return align(self.group)

    @property
    def tile_slots(self) -> int:
        """Index slots of one tile; from 8 on a multiple of 8, so that a tile starts at a whole block of indices."""
        count = max(1, TILE_TOKENS // self.block_size)
        if count >= I32_BLOCK:
            count -= count % I32_BLOCK
        return min(count, self.slots)

    @property
    def columns(self) -> int:
        """Tokens of a tile, padded to whole fractals."""
        return align(self.tile_slots * self.block_size)

    @property
    def can_be_full(self) -> bool:
        """A tile without padding columns exists."""
        return self.columns == self.tile_slots * self.block_size


def gather_buffers(p: SparseProblem, holds: bool = False) -> list[BufferSpec]:
    """UB buffers that find the tokens of a tile: indices, their float form, comparison bits, token list, lengths.
    ``holds``: the tokens of a tile are kept while those of the next one are found."""
    ids = align(p.tile_slots + I32_BLOCK - 1, F32_LANES)
    out = [
        BufferSpec("ids", "ub", "int32", ids),
        BufferSpec("tokens", "ub", "int32", p.columns),
        BufferSpec("bits", "ub", "int32", align(ids // 32, I32_BLOCK)),
    ]
    out += [BufferSpec(n, "ub", "float32", ids) for n in ("ids_low", "ids_high")]
    out += [BufferSpec(n, "ub", "float32", p.columns) for n in ("ramp", "line")]
    out.append(BufferSpec("zeros", "ub", "float32", F32_LANES))
    for name, has in (("q_lengths", p.has_q_lengths), ("kv_lengths", p.has_kv_lengths)):
        if has:
            out.append(BufferSpec(name, "ub", "int32", align(p.batch, I32_BLOCK)))
    if holds:
        out += [BufferSpec("held_ids", "ub", "int32", ids), BufferSpec("held_tokens", "ub", "int32", p.columns)]
    if p.paged:
        out.append(BufferSpec("page_table", "ub", "int32", p.pages))
    return out


def largest_chunk(total: int, limit: int) -> int:
    """Largest multiple of 16 up to ``limit`` that splits ``total`` into the fewest, most even pieces; 0 when even 16
    exceeds ``limit``."""
    limit = limit // CUBE_BLOCK * CUBE_BLOCK
    if limit < CUBE_BLOCK:
        return 0
    pieces = -(-total // limit)
    return align(-(-total // pieces))


def chunks(total: int, size: int) -> list[tuple[int, int]]:
    """``(start, width)`` of the pieces of ``total``."""
    return [(at, min(size, total - at)) for at in range(0, total, size)]


def padded_row(width: int) -> int:
    """Elements from row to row of a row-major float32 tile of ``width`` columns: an odd number of blocks, so that a
    block of each of 8 rows lies in different banks."""
    return width + I32_BLOCK
