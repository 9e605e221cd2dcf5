# SPDX-License-Identifier: Apache-2.0
"""Per-chunk vectors: their way between GM and UB, and the scans along them.

A group of up to 16 chunks of C elements is kept as rows ``[16, P]``, P = C rounded up to 16. When C is a
whole number of blocks, row position and step agree. Otherwise moves of whole blocks would touch the
neighbour, so a row holds the first ``C // 16 * 16`` steps and then, once more as one aligned piece, the last
16: both are moved to where they belong, and every byte that is moved twice is moved with the same value.

Turned, a group is ``[steps, 16]``: a chunk per lane, so that a step of a scan is one aligned vector addition.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit
from ms_custom_ops.op_impl.segsum.vector import BLOCK, TransposeUnit
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK
from ms_custom_ops.tiling.budget import DTYPE_BYTES

GROUP = CUBE_BLOCK
_LANE_BLOCKS = GROUP // BLOCK


class GroupRows:
    """Rows of a group. ``edge`` is scratch of 16 x 16 float32 elements, ``half`` of [16, P] in a 16-bit
    dtype.
    """

    def __init__(self, tik_instance: Any, chunk: int, pitch: int, edge: Tile, half: Tile | None):
        self._tik = tik_instance
        self._chunk = chunk
        self._pitch = pitch
        self._edge = edge
        self._half = half
        self._vector = VectorUnit(tik_instance)
        self._transpose = TransposeUnit(tik_instance)

    def _direct(self, dtype: str) -> bool:
        return self._chunk * DTYPE_BYTES[dtype] % BLOCK_BYTES == 0

    @property
    def _main(self) -> int:
        return self._chunk // CUBE_BLOCK * CUBE_BLOCK

    def _move(self, gm: Any, start: Any, rows: Tile, count: int, to_gm: bool) -> None:
        def copy(gm_at: Any, row_at: Any, nburst: int, burst: int, row_gap: int) -> None:
            if to_gm:
                self._tik.data_move(gm_at, row_at, 0, nburst, burst, row_gap, 0)
            else:
                self._tik.data_move(row_at, gm_at, 0, nburst, burst, 0, row_gap)

        block = BLOCK_BYTES // DTYPE_BYTES[gm.dtype]
        if self._direct(gm.dtype):
            copy(gm[start], rows[0], count, self._chunk // block, (self._pitch - self._chunk) // block)
            return
        for i in range(count):
            at = start + i * self._chunk
            copy(gm[at], rows[i * self._pitch], 1, self._main // block, 0)
            copy(gm[at + self._chunk - CUBE_BLOCK], rows[i * self._pitch + self._main], 1, CUBE_BLOCK // block, 0)

    def load(self, rows: Tile, gm: Any, start: Any, count: int) -> None:
        """float32 rows = ``count`` chunks from element ``start`` of GM."""
        target = rows if gm.dtype == "float32" else self._half
        self._move(gm, start, target, count, False)
        if target is not rows:
            self._vector.convert(rows, target, count * self._pitch)

    def store(self, gm: Any, start: Any, rows: Tile, count: int) -> None:
        """``count`` chunks of GM from element ``start`` on = float32 rows, rounded to nearest even."""
        source = rows
        if gm.dtype != "float32":
            source = self._half
            mode = "round" if gm.dtype == "bfloat16" else "none"
            self._vector.convert(source, rows, count * self._pitch, mode)
        self._move(gm, start, source, count, True)

    def turn(self, turned: Tile, rows: Tile, dtype: str = "") -> None:
        """turned ``[steps, 16]`` = rows that came from a GM tensor of ``dtype``; "": position and step
        agree.
        """
        if not dtype or self._direct(dtype):
            self._transpose.turn(turned, rows, 1, GROUP, self._pitch)
            return
        self._piece_to_lanes(turned, rows, self._main)
        self._piece_to_lanes(self._edge, rows.shift(self._main), CUBE_BLOCK)
        rest = self._chunk - self._main
        self._tik.data_move(
            turned[self._main * GROUP], self._edge[(CUBE_BLOCK - rest) * GROUP], 0, 1, rest * _LANE_BLOCKS, 0, 0
        )

    def _piece_to_lanes(self, turned: Tile, rows: Tile, columns: int) -> None:
        """turned ``[columns, 16]`` = ``columns`` columns of rows that are P apart."""
        source = [rows[i * self._pitch] for i in range(GROUP)]
        target = [turned[i // _LANE_BLOCKS * GROUP + i % _LANE_BLOCKS * BLOCK] for i in range(GROUP)]
        repeat = columns // BLOCK
        strides = (0, 0) if repeat == 1 else (BLOCK * _LANE_BLOCKS, 1)
        self._tik.vnchwconv(False, False, target, source, repeat, *strides)

    def turn_back(self, rows: Tile, turned: Tile, count: int, dtype: str = "") -> None:
        """rows for a GM tensor of ``dtype`` ("": position and step agree) = turned ``[steps, 16]``, the first
        ``count`` chunks at least.
        """
        direct = not dtype or self._direct(dtype)
        for lane in range(0, count, BLOCK):
            self._lanes_to_piece(
                rows.shift(lane * self._pitch), turned.shift(lane), self._pitch if direct else self._main
            )
            if not direct:
                self._lanes_to_piece(
                    rows.shift(lane * self._pitch + self._main),
                    turned.shift((self._chunk - CUBE_BLOCK) * GROUP + lane),
                    CUBE_BLOCK,
                )

    def _lanes_to_piece(self, rows: Tile, turned: Tile, columns: int) -> None:
        """8 rows of ``columns`` columns = 8 lanes of turned."""
        source = [turned[i * GROUP] for i in range(CUBE_BLOCK)]
        halves = CUBE_BLOCK // BLOCK
        target = [rows[i // halves * self._pitch + i % halves * BLOCK] for i in range(CUBE_BLOCK)]
        repeat = columns // CUBE_BLOCK
        strides = (0, 0) if repeat == 1 else (halves, CUBE_BLOCK * _LANE_BLOCKS)
        self._tik.vnchwconv(False, False, target, source, repeat, *strides)

    def scan(self, turned: Tile, other: Tile, reverse: bool = False) -> tuple[Tile, Tile]:
        """Inclusive sums along the steps of turned ``[C, 16]``, from the last step on if ``reverse``.

        Each pass adds what lies 1, 2, 4, ... steps away. Returns (the tile with the sums, the other one)."""
        steps, distance = self._chunk, 1
        while distance < steps:
            moved, kept = (steps - distance) * GROUP, distance * GROUP
            if reverse:
                self._vector.add(other, turned, turned.shift(kept), moved)
                self._copy(other.shift(moved), turned.shift(moved), kept)
            else:
                self._vector.add(other.shift(kept), turned.shift(kept), turned, moved)
                self._copy(other, turned, kept)
            turned, other = other, turned
            distance *= 2
        return turned, other

    def _copy(self, dst: Tile, src: Tile, elements: int) -> None:
        self._tik.data_move(dst[0], src[0], 0, 1, elements // BLOCK, 0, 0)

    def zero_step(self, turned: Tile, step: int) -> None:
        """Step ``step`` of turned = 0."""
        self._vector.dup(turned.shift(step * GROUP), 0.0, GROUP)
