# SPDX-License-Identifier: Apache-2.0
"""Operations along rows of a zN tile.

A tile of M rows and N columns lies in UB as ``[N1, M, 16]`` after the cube. What belongs to a row is kept in two
forms: a vector ``[M]``, and "lanes" ``[M, 16]`` where each row repeats its value, which lines up with every one of the
N1 slices. ``vec_trans_scatter`` on float32 turns one into the other, on every chip.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit, pieces
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, VECTOR_REPEAT_BYTES

_F32_BYTES = 4
_BLOCK = BLOCK_BYTES // _F32_BYTES  # float32 elements of a block
_LANES = VECTOR_REPEAT_BYTES // _F32_BYTES


class RowUnit:
    """``turn`` is scratch of M * 16 float32 elements; M is a multiple of 16."""

    def __init__(self, tik_instance: Any, vector: VectorUnit, turn: Tile):
        self._tik = tik_instance
        self._vector = vector
        self._turn = turn

    def _transpose(self, dst: list, src: list, repeat: int, dst_rep: int, src_rep: int) -> None:
        if repeat == 1:  # the chip applies repeat strides even to a single repeat
            dst_rep = src_rep = 0
        self._tik.vec_trans_scatter(False, False, dst, src, repeat, dst_rep, src_rep)

    def to_columns(self, src: Tile, rows: int) -> Tile:
        """``[rows, 16]`` transposed into the scratch as ``[16, rows]``."""
        turn = self._turn
        for half in range(CUBE_BLOCK // _BLOCK):
            lane = half * _BLOCK
            source = [src[r * CUBE_BLOCK + lane] for r in range(CUBE_BLOCK)]
            target = [turn[(lane + i // 2) * rows + i % 2 * _BLOCK] for i in range(CUBE_BLOCK)]
            self._transpose(target, source, rows // CUBE_BLOCK, CUBE_BLOCK // _BLOCK, CUBE_BLOCK * CUBE_BLOCK // _BLOCK)
        return turn

    def fold(self, combine: Callable, dst: Tile, src: Tile, rows: int) -> None:
        """dst ``[rows]`` = the 16 lanes of every row of src ``[rows, 16]``, combined by a method of VectorUnit."""
        turn = self.to_columns(src, rows)
        half = CUBE_BLOCK // 2
        while half > 1:
            combine(turn, turn, turn.shift(half * rows), half * rows)
            half //= 2
        combine(dst, turn, turn.shift(rows), rows)

    def spread(self, dst: Tile, src: Tile, rows: int) -> None:
        """dst ``[rows, 16]``: every row repeats its element of src ``[rows]``."""
        turn = self._turn
        for offset, mask, _ in _single_repeats(rows):
            self._tik.vec_adds(mask, turn[offset], src[offset], 0.0, CUBE_BLOCK, rows // _BLOCK, 0)
        source = [turn[lane * rows] for lane in range(CUBE_BLOCK)]
        target = [dst[i // 2 * CUBE_BLOCK + i % 2 * _BLOCK] for i in range(CUBE_BLOCK)]
        self._transpose(target, source, rows // _BLOCK, _BLOCK * CUBE_BLOCK // _BLOCK, 1)


def _single_repeats(count: int) -> list[tuple[int, int, int]]:
    """Pieces of at most one repeat."""
    out = []
    for offset, mask, repeat in pieces(count, _LANES):
        out += [(offset + r * mask, mask, 1) for r in range(repeat)]
    return out
