# SPDX-License-Identifier: Apache-2.0
"""Cube products of L1 matrices in NZ layout, on fused-core and on split-core chips.

A matrix X of R rows and C columns lies in L1 as ``[C/16, R, 16]`` (NZ). As left operand it is ``X`` or, turned,
``X^T``; as right operand likewise. ``load2d`` turns fractals on the way into L0A/L0B at no cost, so every matrix is
moved to L1 once, in one layout.

Where cube and vector share a core, L0C goes to UB directly and UB to L1 directly. Where they are split, both ways lead
through a GM workspace (``fixpipe``, ``data_move``); :class:`CubeUnit` hides the difference.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, MAX_REPEAT, Soc
from ms_custom_ops.tiling.budget import DTYPE_BYTES

_FRACTAL = CUBE_BLOCK * CUBE_BLOCK


class CubeUnit:
    """``workspace`` (split-core chips) is a GM tile of this block for one float32 tile and one 16-bit tile;
    ``spare_workspace`` for a second float32 tile, so that one may wait there while another passes."""

    def __init__(
        self,
        tik_instance: Any,
        soc: Soc,
        wide_workspace: Tile | None,
        half_workspace: Tile | None,
        spare_workspace: Tile | None = None,
    ):
        self._tik = tik_instance
        self._soc = soc
        self._wide = wide_workspace
        self._spare = spare_workspace
        self._half = half_workspace

    def _load2d(self, dst: Any, src: Any, index: int, repeat: int, src_stride: int, turn: bool) -> None:
        if self._soc.family in ("310", "910A"):
            self._tik.load2dv1(dst, src, index, repeat, src_stride, 0, turn)
        else:
            self._tik.load2dv2(dst, src, index, repeat, 0, src_stride, 0, turn)

    def load_left(self, l0a: Tile, l1: Tile, m: int, k: int, turned: bool = False) -> None:
        """L0A (zZ) = X[m, k], or X^T of X[k, m] when ``turned``; m, k multiples of 16."""
        m1, k1 = m // CUBE_BLOCK, k // CUBE_BLOCK
        for i in range(m1):
            first, stride = (i * k1, 1) if turned else (i, m1)
            self._load2d(l0a[i * k1 * _FRACTAL], l1[0], first, k1, stride, turned)

    def load_right(self, l0b: Tile, l1: Tile, k: int, n: int, turned: bool = False) -> None:
        """L0B (nZ) = X^T of X[n, k], or X[k, n] when ``turned``; k, n multiples of 16."""
        k1, n1 = k // CUBE_BLOCK, n // CUBE_BLOCK
        if turned:
            for i in range(k1):
                self._load2d(l0b[i * n1 * _FRACTAL], l1[0], i, n1, k1, True)
            return
        for first in range(0, k1 * n1, MAX_REPEAT):
            self._load2d(l0b[first * _FRACTAL], l1[0], first, min(MAX_REPEAT, k1 * n1 - first), 1, False)

    def multiply(self, l0c: Tile, l0a: Tile, l0b: Tile, m: int, k: int, n: int, accumulate: bool = False) -> None:
        """L0C[m, n] (+)= L0A[m, k] @ L0B[k, n] in float32."""
        self._tik.mmad(l0c[0], l0a[0], l0b[0], m, k, n, 1 if accumulate else 0)

    def to_ub(self, dst: Tile, l0c: Tile, m: int, n: int, spare: bool = False) -> None:
        """UB ``[n/16, m, 16]`` float32 = L0C; ``spare``: by the second workspace."""
        self.leave(l0c, m, n, spare)
        self.fetch(dst, l0c, m, n, spare)

    def leave(self, l0c: Tile, m: int, n: int, spare: bool = False) -> None:
        """The first half of to_ub, up to where the cube is done with its result."""
        if self._soc.split_core:
            blocks = m * CUBE_BLOCK * DTYPE_BYTES["float32"] // BLOCK_BYTES
            self._tik.fixpipe((self._spare if spare else self._wide)[0], l0c[0], n // CUBE_BLOCK, blocks, 0, 0)

    def fetch(self, dst: Tile, l0c: Tile, m: int, n: int, spare: bool = False, first: int = 0) -> None:
        """The second half of to_ub, for columns from ``first`` on."""
        m1, n1 = m // CUBE_BLOCK, n // CUBE_BLOCK
        if not self._soc.split_core:
            self._tik.data_move(dst[0], l0c[m * first], 0, n1, m1, 0, 0)
            return
        blocks = n1 * m * CUBE_BLOCK * DTYPE_BYTES["float32"] // BLOCK_BYTES
        self._tik.data_move(dst[0], (self._spare if spare else self._wide)[m * first], 0, 1, blocks, 0, 0)

    def to_l1(self, dst: Tile, src: Tile, elements: int) -> None:
        """L1 = UB, the same 16-bit layout."""
        self.send(dst, src, elements)
        self.receive(dst, elements)

    def send(self, dst: Tile, src: Tile, elements: int, at: int = 0) -> None:
        """The first half of to_l1, all that the vector unit has to do with it; to element ``at`` on."""
        blocks = elements * DTYPE_BYTES[src.dtype] // BLOCK_BYTES
        self._tik.data_move((self._half if self._soc.split_core else dst)[at], src[0], 0, 1, blocks, 0, 0)

    def receive(self, dst: Tile, elements: int) -> None:
        """The second half of to_l1, which takes a turn in the queue of what comes from GM."""
        if self._soc.split_core:
            blocks = elements * DTYPE_BYTES[dst.dtype] // BLOCK_BYTES
            self._tik.data_move(dst[0], self._half[0], 0, 1, blocks, 0, 0)


class Fractals:
    """Movement between row-major (ND) GM matrices and NZ tiles."""

    def __init__(self, tik_instance: Any, soc: Soc):
        self._tik = tik_instance
        self._soc = soc

    def load(self, l1: Tile, gm: Any, start: Any, rows: int, padded: int, columns: int, each_row: bool = False) -> None:
        """L1 ``[columns/16, padded, 16]`` = ``rows`` consecutive rows of ``columns`` elements from element ``start``.

        Rows up to ``padded`` repeat the first row: finite values that later steps mask. ``each_row``: where the chip
        has no move of rows into fractals, a move per row, whose blocks lie side by side in GM, instead of a move per 16
        columns, whose blocks lie apart: for few, wide rows.
        """
        c1 = columns // CUBE_BLOCK
        if self._soc.split_core:
            self._tik.data_move_multi_nd2nz(l1[0], gm[start], 1, rows, columns, 0, columns, padded, 1, 1)
        elif each_row:
            for row in range(rows):
                self._tik.data_move(l1[row * CUBE_BLOCK], gm[start + row * columns], 0, c1, 1, 0, padded - 1)
        else:
            for c in range(c1):
                self._tik.data_move(l1[c * padded * CUBE_BLOCK], gm[start + c * CUBE_BLOCK], 0, rows, 1, c1 - 1, 0)
        for row in range(rows, padded):
            self._tik.data_move(l1[row * CUBE_BLOCK], gm[start], 0, c1, 1, 0, padded - 1)

    def load_slice(self, ub: Tile, gm: Any, start: Any, rows: int, row_elements: int) -> None:
        """UB ``[rows, 16]`` of 16-bit elements = 16 columns from element ``start`` of a matrix with rows of
        ``row_elements`` (a multiple of 16)."""
        self._tik.data_move(ub[0], gm[start], 0, rows, 1, row_elements // CUBE_BLOCK - 1, 0)

    def store(self, gm: Any, start: Any, ub: Tile, rows: int, padded: int, columns: int) -> None:
        """``rows`` rows of ``columns`` elements at element ``start`` = UB ``[columns/16, padded, 16]``."""
        c1 = columns // CUBE_BLOCK
        for c in range(c1):
            self._tik.data_move(gm[start + c * CUBE_BLOCK], ub[c * padded * CUBE_BLOCK], 0, rows, 1, 0, c1 - 1)
