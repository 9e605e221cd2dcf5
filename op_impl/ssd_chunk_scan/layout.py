# SPDX-License-Identifier: Apache-2.0
"""Moves between GM matrices whose rows lie apart and NZ tiles ``[columns/16, rows, 16]`` in L1 and UB."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, Soc
from ms_custom_ops.tiling.budget import DTYPE_BYTES


class RowMoves:
    """``pitch`` is the distance in elements from one row of a GM matrix to the next."""

    def __init__(self, tik_instance: Any, soc: Soc):
        self._tik = tik_instance
        self._soc = soc

    def to_l1(self, l1: Tile, gm: Any, start: Any, rows: int, columns: int, pitch: int) -> None:
        """L1 = ``rows`` rows of ``columns`` 16-bit elements from element ``start``."""
        if self._soc.split_core:
            self._tik.data_move_multi_nd2nz(l1[0], gm[start], 1, rows, columns, 0, pitch, rows, 1, 1)
        else:
            self.to_tile(l1, gm, start, rows, columns, pitch)

    def to_tile(self, tile: Tile, gm: Any, start: Any, rows: int, columns: int, pitch: int) -> None:
        """The same by one strided move per 16 columns; UB or L1, any dtype."""
        burst, gap = self._blocks(tile.dtype, pitch)
        for c in range(0, columns, CUBE_BLOCK):
            self._tik.data_move(tile[c * rows], gm[start + c], 0, rows, burst, gap, 0)

    def from_tile(self, gm: Any, start: Any, tile: Tile, rows: int, columns: int, pitch: int) -> None:
        """The way back, from UB."""
        burst, gap = self._blocks(tile.dtype, pitch)
        for c in range(0, columns, CUBE_BLOCK):
            self._tik.data_move(gm[start + c], tile[c * rows], 0, rows, burst, 0, gap)

    def line(self, dst: Any, src: Any, elements: int, dtype: str) -> None:
        """Contiguous elements, a whole number of blocks."""
        self._tik.data_move(dst, src, 0, 1, elements * DTYPE_BYTES[dtype] // BLOCK_BYTES, 0, 0)

    @staticmethod
    def _blocks(dtype: str, pitch: int) -> tuple[int, int]:
        burst = CUBE_BLOCK * DTYPE_BYTES[dtype] // BLOCK_BYTES
        return burst, pitch // CUBE_BLOCK * burst - burst
