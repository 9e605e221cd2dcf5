# SPDX-License-Identifier: Apache-2.0
"""Vector loops over several matrices at once, block masks and transposes of the segment-sum kernels
(float32).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.common.vector import VectorUnit, lanes_of, pieces
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, MAX_REPEAT, VECTOR_REPEAT_BYTES
from ms_custom_ops.tiling.budget import DTYPE_BYTES
from ms_custom_ops.tiling.segsum_moves import Window

BLOCK = BLOCK_BYTES // DTYPE_BYTES["float32"]
LANES = lanes_of("float32")
_FULL = VECTOR_REPEAT_BYTES // BLOCK_BYTES
_MAX_STRIDE = 255
FULL_MASK = (1 << LANES) - 1


def triangle_bits(lower: bool) -> int:
    """Lanes of an 8 x 8 block (row-major) with column < row (``lower``) or column > row."""
    cells = [(r, c) for r in range(BLOCK) for c in range(BLOCK)]
    return sum(1 << (r * BLOCK + c) for r, c in cells if (c < r if lower else c > r))


def column_bits(first: int) -> int:
    """Lanes of an 8 x 8 block in columns ``first`` and later."""
    return sum(1 << (r * BLOCK + c) for r in range(BLOCK) for c in range(first, BLOCK))


class GridUnit:
    """Instructions over ``outer`` pieces of ``inner`` contiguous float32 elements, with a stride per
    operand.
    """

    def __init__(self, tik_instance: Any):
        self._tik = tik_instance
        self.vector = VectorUnit(tik_instance)

    def add(self, outer: int, inner: int, dst: tuple[Tile, int], a: tuple[Tile, int], b: tuple[Tile, int]) -> None:
        """dst = a + b; operands are (tile, elements from piece to piece)."""
        self._walk(self._tik.vec_add, outer, inner, (dst, a, b))

    def _walk(self, call: Callable, outer: int, inner: int, operands: Sequence[tuple[Tile, int]]) -> None:
        if outer == 1 or all(stride == inner for _, stride in operands):
            self._emit(call, operands, [(0, mask, repeat, at) for at, mask, repeat in pieces(outer * inner, LANES)])
            return
        strides = [stride // BLOCK for _, stride in operands]
        across = -(-inner // LANES) * -(-outer // MAX_REPEAT)
        along = outer * len(list(pieces(inner, LANES)))
        if across >= along or max(strides) > _MAX_STRIDE:
            for piece in range(outer):
                self._emit(call, operands, [(piece, mask, repeat, at) for at, mask, repeat in pieces(inner, LANES)])
            return
        for at in range(0, inner, LANES):
            for piece in range(0, outer, MAX_REPEAT):
                tiles = [tile[piece * stride + at] for tile, stride in operands]
                call(min(LANES, inner - at), *tiles, min(MAX_REPEAT, outer - piece), *strides)

    def _emit(
        self, call: Callable, operands: Sequence[tuple[Tile, int]], steps: Sequence[tuple[int, int, int, int]]
    ) -> None:
        for piece, mask, repeat, at in steps:
            tiles = [tile[piece * stride + at] for tile, stride in operands]
            call(mask, *tiles, repeat, *([_FULL] * len(operands)))

    def blocks(
        self,
        call: Callable,
        tiles: Sequence[Tile],
        spans: Sequence[tuple[int, int, int]],
        pitch: int,
        count: int,
        step: int,
    ) -> None:
        """``call`` on 8 x 8 blocks of ``count`` matrices ``step`` elements apart, rows ``pitch`` elements
        long.

        ``spans``: (group of 8 rows, first block, blocks). The old form of the instruction, with block
        strides, takes a block per repeat: every lane is used, whatever the width.
        """
        rows, operands = pitch // BLOCK, len(tiles)
        across = step // BLOCK <= _MAX_STRIDE and sum(blocks for _, _, blocks in spans) < count * len(spans)
        for group, first, blocks in spans:
            at = (group * pitch + first) * BLOCK
            places = (
                [(at + b * BLOCK, count, step // BLOCK) for b in range(blocks)]
                if across
                else [(at + n * step, blocks, 1) for n in range(count)]
            )
            for place, repeat, stride in places:
                call(LANES, *[tile[place] for tile in tiles], repeat, *([rows] * operands), *([stride] * operands))

    def sum_blocks(self, dst: tuple[Tile, int], src: tuple[Tile, int], pitch: int, width: int, count: int) -> None:
        """dst, one 8 x 8 block per matrix, = the sum of ``width`` neighbouring blocks of src; operands are
        (tile, elements from matrix to matrix), rows of src are ``pitch`` elements long.
        """
        (out, out_step), (blocks, step) = dst, src
        rows = pitch // BLOCK
        across = count > 1 and max(step, out_step) // BLOCK <= _MAX_STRIDE and max(width - 1, 1) < count * min(width, 2)
        walks = [(0, count)] if across else [(n, 1) for n in range(count)]
        out_gap, gap = (out_step // BLOCK, step // BLOCK) if across else (0, 0)
        for n, repeat in walks:
            at, block = out.shift(n * out_step), blocks.shift(n * step)
            if width == 1:
                self._tik.vadds(LANES, at[0], block[0], 0.0, repeat, 1, rows, out_gap, gap)
                continue
            self._tik.vadd(LANES, at[0], block[0], block[BLOCK], repeat, 1, rows, rows, out_gap, gap, gap)
            if width > 2 and not across:  # the running form: repeats go along the row
                self._tik.vadd(LANES, at[0], block[2 * BLOCK], at[0], width - 2, 1, rows, 1, 0, 1, 0)
                continue
            for b in range(2, width):
                self._tik.vadd(LANES, at[0], at[0], block[b * BLOCK], repeat, 1, 1, rows, out_gap, out_gap, gap)

    def add_blocks(self, dst: tuple[Tile, int], src: tuple[Tile, int], pitch: int, width: int, count: int) -> None:
        """``width`` neighbouring 8 x 8 blocks of dst += those of src; operands as in :meth:`sum_blocks`."""
        (out, step), (blocks, _) = dst, src
        rows = pitch // BLOCK
        if step // BLOCK <= _MAX_STRIDE and width < count:
            for b in range(width):
                at, block, gap = out[b * BLOCK], blocks[b * BLOCK], step // BLOCK
                self._tik.vadd(LANES, at, at, block, count, rows, rows, rows, gap, gap, gap)
            return
        for n in range(count):
            at, block = out[n * step], blocks[n * step]
            self._tik.vadd(LANES, at, at, block, width, rows, rows, rows, 1, 1, 1)

    def keep_blocks(
        self, tile: Tile, keep: Tile, zeros: Tile, row_blocks: int, counts: Sequence[tuple[int, int]]
    ) -> None:
        """0 into the lanes of 8 x 8 blocks whose bit in ``keep`` (16 bytes of UB) is 0; ``zeros`` is a
        block of zeros, the rest as in :meth:`zero_blocks`."""
        bits = self._tik.mov_tensor_to_cmpmask(keep[0])
        for at, count, step in self._places(counts):
            self._tik.vsel(
                LANES, 0, tile[at], bits, tile[at], zeros[0], count, row_blocks, row_blocks, 0, step, step, 0
            )

    def zero_blocks(self, tile: Tile, bits: int, row_blocks: int, counts: Sequence[tuple[int, int]]) -> None:
        """0 into the lanes ``bits`` of 8 x 8 blocks; ``row_blocks`` is the row pitch in blocks, ``counts``
        two (number, elements apart) of the blocks."""
        for at, count, step in self._places(counts):
            self._tik.vector_dup([0, bits], tile[at], 0.0, count, row_blocks, step)

    @staticmethod
    def _places(counts: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """(first element, repeats, repeat stride): the longer count that the strides allow is the repeat."""
        (n0, step0), (n1, step1) = counts
        if n1 > n0 and step1 // BLOCK <= _MAX_STRIDE or step0 // BLOCK > _MAX_STRIDE:
            (n0, step0), (n1, step1) = (n1, step1), (n0, step0)
        repeat = min(n0, MAX_REPEAT) if step0 // BLOCK <= _MAX_STRIDE else 1
        out = []
        for other in range(n1):
            for first in range(0, n0, repeat):
                count = min(repeat, n0 - first)
                out.append((other * step1 + first * step0, count, step0 // BLOCK if count > 1 else _FULL))
        return out


class TransposeUnit:
    """Transposes of ``count`` matrices that lie ``step`` elements apart."""

    def __init__(self, tik_instance: Any):
        self._tik = tik_instance

    def _call(self, dst: list, src: list, repeat: int, dst_rep: int, src_rep: int) -> None:
        if repeat == 1:  # the chip applies repeat strides even to a single repeat
            dst_rep = src_rep = 0
        self._tik.vnchwconv(False, False, dst, src, repeat, dst_rep, src_rep)

    def turn(self, dst: Tile, src: Tile, count: int, rows: int, columns: int) -> None:
        """dst ``[count, columns, rows]`` = src ``[count, rows, columns]``; rows a multiple of 16,
        columns of a block, 16- or 32-bit."""
        block = BLOCK_BYTES // DTYPE_BYTES[src.dtype]
        if block == CUBE_BLOCK:
            dst, src = (Tile(t.tensor.reinterpret_cast_to("uint16"), t.offset) for t in (dst, src))
        walks = [
            (count, rows * columns, rows * columns),
            (rows // CUBE_BLOCK, CUBE_BLOCK * columns, CUBE_BLOCK),
            (columns // block, block, block * rows),
        ]
        longest = max(range(len(walks)), key=lambda i: walks[i][0])
        (repeat, src_step, dst_step), others = (walks[longest], [w for i, w in enumerate(walks) if i != longest])
        for i in range(others[0][0]):
            for j in range(others[1][0]):
                s = i * others[0][1] + j * others[1][1]
                d = i * others[0][2] + j * others[1][2]
                for first in range(0, repeat, MAX_REPEAT):
                    self._square(
                        dst.shift(d + first * dst_step),
                        src.shift(s + first * src_step),
                        rows,
                        columns,
                        block,
                        min(MAX_REPEAT, repeat - first),
                        dst_step // block,
                        src_step // block,
                    )

    def turn_lower(self, dst: Tile, dst_window: Window, src: Tile, src_window: Window, count: int) -> None:
        """As :meth:`turn`, only where src has entries below its diagonal; what else dst holds is
        undefined.
        """
        rows, columns = src_window.rows, src_window.columns
        block = BLOCK_BYTES // DTYPE_BYTES[src.dtype]
        if block == CUBE_BLOCK:
            dst, src = (Tile(t.tensor.reinterpret_cast_to("uint16"), t.offset) for t in (dst, src))
        pitch, step, src_step = dst_window.pitch, dst_window.size, src_window.size
        spans = [(row, min(columns, row + CUBE_BLOCK - 1)) for row in range(0, rows, CUBE_BLOCK)]
        spans = [(row, -(-end // block)) for row, end in spans]
        across = sum(width for _, width in spans) < count * len(spans)
        for row, width in spans:
            places = [(0, b, count) for b in range(width)] if across else [(n, 0, width) for n in range(count)]
            reps = (step // block, src_step // block) if across else (pitch, 1)
            for n, b, repeat in places:
                self._square(
                    dst.shift(n * step + b * block * pitch + row),
                    src.shift(n * src_step + row * src_window.pitch + b * block),
                    pitch,
                    src_window.pitch,
                    block,
                    repeat,
                    *reps,
                )

    def _square(
        self, dst: Tile, src: Tile, rows: int, columns: int, block: int, repeat: int, dst_rep: int, src_rep: int
    ) -> None:
        source = [src[i * columns] for i in range(CUBE_BLOCK)]
        halves = CUBE_BLOCK // block
        target = [dst[i // halves * rows + i % halves * block] for i in range(CUBE_BLOCK)]
        self._call(target, source, repeat, dst_rep, src_rep)

    def spread(self, dst: Tile, step: int, row: Tile, columns: int) -> None:
        """dst[k * step .. + 16) = row[k] in all 16 lanes, k < ``columns`` (a multiple of 8)."""
        target = [dst[i // 2 * step + i % 2 * BLOCK] for i in range(CUBE_BLOCK)]
        self._call(target, [row[0]] * CUBE_BLOCK, columns // BLOCK, BLOCK * step // BLOCK, 1)
