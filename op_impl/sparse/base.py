# SPDX-License-Identifier: Apache-2.0
"""Base of the sparse-attention kernels: gather of keys, score tiles in UB.

Tiles of scores lie in UB as ``[columns/16, rows, 16]``; rows are heads, columns selected tokens. What belongs to a row
is kept as "lanes" ``[rows, 16]`` (see :mod:`rows`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_custom_ops.op_impl.common.kernel import CubeKernel
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.sparse.token_tile import piece
from ms_custom_ops.op_impl.sparse.tokens import Sequences, TokenTiles
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, MAX_REPEAT
from ms_custom_ops.tiling.budget import DTYPE_BYTES, align
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES, chunks, padded_row

F32_BLOCK = BLOCK_BYTES // 4
PENALTY = -1e30
"""Added to a masked score, times a positive integer."""
FLOOR = -1e20
"""Running maximum of a row that has seen nothing: above every masked score, below every other."""
LARGEST = 3.4028234663852886e38
"""Of float32: row maximum where a sink is +inf."""
ABSENT_MAX = 1e30
"""Row maximum that stands for a row without weights."""
_WIDE = 64
"""Columns from which on a move per head costs less than a move per 16 columns."""
TINY = 1e-30
"""Added to a row sum (which is 0 or at least 1) before it divides, so that an empty row gives 0."""


class SparseKernel(CubeKernel):
    """Base; :meth:`task` handles one task of the core split."""

    def each_row(self, task: Any, body: Callable[[Any], None]) -> None:
        """``body(query row)`` for the rows of a task: one row, or (deterministic plans) the rows of a sequence."""
        p, t = self.problem, self.tik
        if not self.plan.deterministic:
            body(task)
            return
        if not p.packed:
            with t.for_range(0, p.q_len) as i:
                body(self.scalar.hold(task * p.q_len + i))
            return
        first, end = t.Scalar("int64", init_value=0), t.Scalar("int64", init_value=p.q_rows)
        with t.if_scope(task < p.batch):  # the task behind the last sequence has the rows behind it
            bounds = self.sequences.bounds("q_lengths", task, p.q_rows)
            first.set_as(bounds[0])
            end.set_as(bounds[1])
        with t.else_scope():
            first.set_as(self.sequences.bounds("q_lengths", p.batch - 1, p.q_rows)[1])
        with t.for_range(first, end) as row:
            body(self.scalar.hold(row))

    def prepare(self) -> None:
        super().prepare()
        t = self.tik
        self.sequences = Sequences(t, self.problem, self.buffers, self.scalar, self.gm)
        self.sequences.prepare()
        if "sparse_indices" in self.call.inputs:
            given, holds = self.gm["sparse_indices"], any(b.name == "held_ids" for b in self.plan.buffers)
            self.tiles = TokenTiles(
                t, self.problem, self.buffers, self.vector, self.scalar, self.sequences, given, holds
            )
            self.tiles.prepare()

    # ---- keys ----
    def gather(self, sources: list[tuple[str, str, int]], kv_head: Any, part: tuple[int, int] = (0, 1)) -> None:
        """L1 tiles ``[D/16, columns, 16]`` = the rows of the tile's tokens; ``sources`` are (L1 tile, GM tensor, D).
        ``part`` (i, n): the i-th of n pieces of it."""
        p = self.problem
        tiles = [(self.buffers[name], gm, width) for name, gm, width in sources]

        def token(column: Any, at: Any) -> None:
            row = self.scalar.hold(self.tiles.key_row(at) * p.kv_heads + kv_head)
            for l1, gm, width in tiles:
                self._token(l1[column * CUBE_BLOCK], self.gm[gm][row * width], width)

        if p.block_size == 1:
            start, end = piece(p.columns, part)
            self.tiles.tokens(start, end - start, token, padding=True)
        else:
            self.tiles.blocks(lambda column, at: self._block(tiles, kv_head, column, at), token, part)

    def _token(self, target: Any, source: Any, width: int) -> None:
        """One row of ``width`` elements into its places in the fractals. A move has a burst per block, which costs more
        than its bytes; where the chip has a move of rows into fractals, that is one."""
        if self.plan.soc.split_core:
            self.tik.data_move_multi_nd2nz(target, source, 1, 1, width, 0, width, self.problem.columns, 1, 1)
        else:
            self.tik.data_move(target, source, 0, width // CUBE_BLOCK, 1, 0, self.problem.columns - 1)

    def _block(self, tiles: list[tuple[Tile, str, int]], kv_head: Any, column: Any, token: Any) -> None:
        """The rows of one whole block of consecutive tokens."""
        p = self.problem
        row = self.scalar.hold(self.tiles.key_row(token) * p.kv_heads + kv_head)
        for l1, gm, width in tiles:
            stride, count = p.kv_heads * width, width // CUBE_BLOCK
            if self.plan.soc.split_core:
                self.tik.data_move_multi_nd2nz(
                    l1[column * CUBE_BLOCK],
                    self.gm[gm][row * width],
                    1,
                    p.block_size,
                    width,
                    0,
                    stride,
                    p.columns,
                    1,
                    1,
                )
            elif count <= p.block_size:
                for c in range(count):
                    self.tik.data_move(
                        l1[(c * p.columns + column) * CUBE_BLOCK],
                        self.gm[gm][row * width + c * CUBE_BLOCK],
                        0,
                        p.block_size,
                        1,
                        stride // CUBE_BLOCK - 1,
                        0,
                    )
            else:
                for j in range(p.block_size):
                    self.tik.data_move(
                        l1[(column + j) * CUBE_BLOCK],
                        self.gm[gm][row * width + j * stride],
                        0,
                        count,
                        1,
                        0,
                        p.columns - 1,
                    )

    # ---- score tiles ----
    def multiply_rows(self, pairs: list[tuple[Tile, Tile, int]], rows: int, columns: int, target: str = "acc") -> None:
        """L0C ``target`` = sum over ``pairs`` (left L1 tile, right L1 tile, depth) of left @ right^T."""
        b, cube, first = self.buffers, self.cube, True
        for left, right, depth in pairs:
            for at, width in chunks(depth, self.plan.depth_chunk):
                cube.load_left(b["left"], left.shift(at * rows), rows, width)
                cube.load_right(b["right"], right.shift(at * columns), width, columns)
                cube.multiply(b[target], b["left"], b["right"], rows, width, columns, accumulate=not first)
                first = False

    def mask_columns(self, scores: Tile, rows: int) -> None:
        """Penalty for the columns behind ``width`` of a partial tile."""
        with self.tik.if_scope(self.tiles.held.partial):
            line = self.penalty_line()
            self.by_columns(self.tik.vadd, scores, line, rows, self.problem.columns)

    def penalty_line(self) -> Tile:
        """One value per column: 0 within ``width``, a positive multiple of the penalty behind it."""
        b, v, columns = self.buffers, self.vector, self.problem.columns
        line = b["line"]
        v.adds(line, b["ramp"], self.scalar.to_float(1 - self.tiles.held.width), columns)
        v.max(line, line, b["zeros"], columns, row=True)
        v.muls(line, line, PENALTY, columns)
        return line

    def by_columns(self, call: Callable[..., None], tile: Tile, line: Tile, rows: int, columns: int) -> None:
        """tile = call(tile, line) where every row meets the same ``line`` of one value per column; ``call`` is a
        two-source vector instruction with block strides."""
        per_row = CUBE_BLOCK // F32_BLOCK  # blocks of a row of a slice
        at_once = F32_LANES // F32_BLOCK  # rows of one repeat that takes one block of each
        step = per_row * at_once
        for start in range(0, columns, F32_BLOCK):
            at = start // CUBE_BLOCK * rows * CUBE_BLOCK + start % CUBE_BLOCK
            call(F32_LANES, tile[at], tile[at], line[start], rows // at_once, per_row, per_row, 0, step, step, 0)

    def sum_rows(self, line: Tile, tile: Tile, rows: int, columns: int) -> None:
        """line ``[columns]`` = sum of the rows of the tile; destroys the tile."""
        t, slices = self.tik, columns // CUBE_BLOCK
        blocks, row_blocks = rows * CUBE_BLOCK // F32_BLOCK, CUBE_BLOCK // F32_BLOCK
        count = rows
        while count > 1:
            kept = (count + 1) // 2
            for at in range(0, (count - kept) * CUBE_BLOCK, F32_LANES):
                lanes = min(F32_LANES, (count - kept) * CUBE_BLOCK - at)
                self._each_slice(t.vec_add, lanes, tile, at, tile, kept * CUBE_BLOCK + at, slices, blocks)
            count = kept
        if blocks <= MAX_REPEAT:
            t.vec_adds(CUBE_BLOCK, line[0], tile[0], 0.0, slices, row_blocks, blocks)
        else:
            for n1 in range(slices):
                t.vec_adds(
                    CUBE_BLOCK, line[n1 * CUBE_BLOCK], tile[n1 * rows * CUBE_BLOCK], 0.0, 1, row_blocks, row_blocks
                )

    @staticmethod
    def _each_slice(
        call: Callable[..., None], lanes: int, dst: Tile, at: int, src: Tile, src_at: int, slices: int, blocks: int
    ) -> None:
        """dst[at] = call(dst[at], src[src_at]) in every slice of ``blocks`` blocks."""
        if blocks <= MAX_REPEAT:
            call(lanes, dst[at], dst[at], src[src_at], slices, blocks, blocks, blocks)
            return
        size = blocks * F32_BLOCK
        for n1 in range(slices):
            call(lanes, dst[n1 * size + at], dst[n1 * size + at], src[n1 * size + src_at], 1, 0, 0, 0)

    def by_rows(self, call: Callable[..., None], tile: Tile, lanes: Tile, rows: int, columns: int) -> None:
        """tile = call(tile, lanes) where every slice ``[rows, 16]`` meets the same lanes; ``call`` is a two-source
        vector instruction. Either one instruction per slice or one per four rows, whichever is less."""
        blocks = rows * CUBE_BLOCK // F32_BLOCK
        slices, groups = columns // CUBE_BLOCK, rows * CUBE_BLOCK // F32_LANES
        full = F32_LANES // F32_BLOCK
        if groups < slices and blocks <= MAX_REPEAT:
            for g in range(groups):
                at = g * F32_LANES
                call(F32_LANES, tile[at], tile[at], lanes[at], slices, blocks, blocks, 0)
        else:
            for n1 in range(slices):
                at = n1 * rows * CUBE_BLOCK
                call(F32_LANES, tile[at], tile[at], lanes[0], groups, full, full, full)

    def fold_slices(self, call: Callable[..., None], lanes: Tile, tile: Tile, rows: int, columns: int) -> None:
        """lanes = call over all slices ``[rows, 16]`` of the tile and the lanes themselves."""
        blocks = rows * CUBE_BLOCK // F32_BLOCK
        slices, groups = columns // CUBE_BLOCK, rows * CUBE_BLOCK // F32_LANES
        full = F32_LANES // F32_BLOCK
        if groups < slices and blocks <= MAX_REPEAT:
            for g in range(groups):
                at = g * F32_LANES
                call(F32_LANES, lanes[at], tile[at], lanes[at], slices, 0, blocks, 0)
        else:
            for n1 in range(slices):
                at = n1 * rows * CUBE_BLOCK
                call(F32_LANES, lanes[0], lanes[0], tile[at], groups, full, full, full)

    def clear_rows(self, vector: Tile, first: int, end: int) -> None:
        """Elements ``[first, end)`` of a float32 vector = 0, where ``end`` is a multiple of 16 at most 15 further."""
        if first == end:
            return
        base = first // F32_LANES * F32_LANES
        bits = (1 << min(end - base, F32_LANES)) - (1 << (first - base))
        self.tik.vec_dup([0, bits], vector[base], 0.0, 1, F32_LANES // F32_BLOCK)

    def invert_sums(self, rows: int) -> None:
        """``row_a`` maxima and ``row_b`` sums as the forward stores them -> maxima and 1 / sum; a row without weights
        (sum 0) gets ABSENT_MAX and 0, so that every exponential of it is 0. Leaves 0 or 1 per row in ``row_c``."""
        b, v = self.buffers, self.vector
        v.min(b["row_c"], b["row_b"], b["ones"], rows)
        v.muls(b["turn"], b["row_c"], -ABSENT_MAX, rows)
        v.adds(b["turn"], b["turn"], ABSENT_MAX, rows)
        v.add(b["row_a"], b["row_a"], b["turn"], rows)
        v.adds(b["row_b"], b["row_b"], TINY, rows)
        v.div(b["row_b"], b["row_c"], b["row_b"], rows)

    # ---- rows in GM ----
    def rows_to_ub(
        self, dst: Tile, l0c: Tile, rows: int, columns: int, pitch: int, scratch: Tile, factor: Any, spare: bool = False
    ) -> None:
        """UB ``[rows, columns]``, row-major float32 with ``pitch`` elements from row to row, = L0C times ``factor``: a
        row is then one burst on its way to GM. ``scratch`` takes the tile as the cube leaves it."""
        self.cube.fetch(scratch, l0c, rows, columns, spare)
        self._turn_rows(dst, scratch, rows, columns, pitch, factor)

    def add_rows_to_ub(
        self, dst: Tile, l0c: Tile, rows: int, columns: int, pitch: int, scratch: Tile, factor: float, spare: bool
    ) -> None:
        """As :meth:`rows_to_ub`, added to what is there."""
        self.cube.fetch(scratch, l0c, rows, columns, spare)
        if factor != 1.0:
            self.vector.muls(scratch, scratch, factor, rows * columns)
        self._turn_rows(dst, scratch, rows, columns, pitch, None)

    def _turn_rows(self, dst: Tile, src: Tile, rows: int, columns: int, pitch: int, factor: Any) -> None:
        """dst ``[rows, pitch]`` = (without ``factor``: +=) src ``[columns/16, rows, 16]``. A repeat takes one block of
        each of 8 rows, which lie in different banks where ``pitch`` is an odd number of blocks; repeats go down the
        rows or along the slices, whichever stride an instruction can have."""
        t, eight, row_blocks = self.tik, F32_LANES // F32_BLOCK, CUBE_BLOCK // F32_BLOCK
        groups, slices, step = rows // eight, columns // CUBE_BLOCK, pitch // F32_BLOCK
        if eight * step <= MAX_REPEAT:
            starts, repeats = [(0, n1) for n1 in range(slices)], groups
            dst_rep, src_rep = eight * step, eight * row_blocks
        elif rows * row_blocks <= MAX_REPEAT:
            starts, repeats = [(group, 0) for group in range(groups)], slices
            dst_rep, src_rep = row_blocks, rows * row_blocks
        else:
            starts, repeats = [(group, n1) for n1 in range(slices) for group in range(groups)], 1
            dst_rep = src_rep = 0
        for group, n1 in starts:
            for lane in range(0, CUBE_BLOCK, F32_BLOCK):
                to = dst[group * eight * pitch + n1 * CUBE_BLOCK + lane]
                of = src[(n1 * rows + group * eight) * CUBE_BLOCK + lane]
                if factor is None:
                    t.vadd(F32_LANES, to, to, of, repeats, step, step, row_blocks, dst_rep, dst_rep, src_rep)
                else:
                    t.vmuls(F32_LANES, to, of, factor, repeats, step, row_blocks, dst_rep, src_rep)

    def scatter(self, targets: list[tuple[str, Tile, int]], start: int, count: int, kv_head: Any) -> None:
        """float32 GM rows of the held tile's tokens ``[start, start + count)`` += UB ``[count, padded_row(width)]`` for
        each of ``targets`` (GM tensor, UB tile, width): one atomic move per token and target."""
        p, t = self.problem, self.tik

        def token(column: Any, key: Any) -> None:
            row = self.scalar.hold(self.tiles.key_row(key) * p.kv_heads + kv_head)
            for gm, tile, width in targets:
                source = tile[(column - start) * padded_row(width)]
                t.data_move(self.gm[gm][row * width], source, 0, 1, width // F32_BLOCK, 0, 0)

        t.set_atomic_add(1)
        self.tiles.held.tokens(start, count, token, padding=False)
        t.set_atomic_add(0)

    def load_heads(self, l1: Tile, gm: str, row: Any, first: Any, heads: int, width: int) -> None:
        """L1 ``[width/16, heads padded, 16]`` = ``heads`` heads from ``first`` on of query row ``row``."""
        self.load_rows(l1, gm, (row * self.problem.q_heads + first) * width, heads, width)

    def load_rows(self, l1: Tile, gm: str, start: Any, heads: int, width: int) -> None:
        """The same for heads that start at an element."""
        self.fractals.load(l1, self.gm[gm], start, heads, align(heads), width, each_row=width >= _WIDE)

    def store_heads(self, gm: str, row: Any, first: Any, heads: int, total: int, at: int, ub: Tile, width: int) -> None:
        """Columns ``[at, at + width)`` of ``heads`` heads of query row ``row`` = UB
        ``[width/16, heads padded, 16]``."""
        start = (row * self.problem.q_heads + first) * total + at
        rows = align(heads)
        for c in range(width // CUBE_BLOCK):
            self.tik.data_move(
                self.gm[gm][start + c * CUBE_BLOCK], ub[c * rows * CUBE_BLOCK], 0, heads, 1, 0, total // CUBE_BLOCK - 1
            )

    def statistics_at(self, kv_head: Any, row: Any, first: int) -> Any:
        """Element of head ``first`` of a group in the statistics (B, N2, S1, G padded)."""
        p = self.problem
        if p.packed:
            flat = kv_head * p.q_rows + row
        else:
            flat = (row // p.q_len * p.kv_heads + kv_head) * p.q_len + row % p.q_len
        return self.scalar.hold(flat * p.group_padded + first)

    def move_rows(self, dst: Any, src: Any, rows: int) -> None:
        """``rows`` float32 elements between a UB vector and GM."""
        self.tik.data_move(dst, src, 0, 1, rows * DTYPE_BYTES["float32"] // BLOCK_BYTES, 0, 0)
