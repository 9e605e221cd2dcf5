# SPDX-License-Identifier: Apache-2.0
"""What the segment-sum kernels share: groups of chunks as tasks, and the backward tile."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.kernel import Kernel
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.segsum.matrix import TriangleLoader, TriangleMask, spans
from ms_custom_ops.op_impl.segsum.rows import GroupRows
from ms_custom_ops.op_impl.segsum.vector import BLOCK, GridUnit, TransposeUnit
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.segsum import SegsumPlan
from ms_custom_ops.tiling.segsum_moves import Window


class SegsumKernel(Kernel):
    """Base: a task is a :meth:`group` of chunks."""

    plan: SegsumPlan

    def __init__(self, call: KernelCall, plan: SegsumPlan):
        super().__init__(call, plan)
        self.grid = GridUnit(self.tik)
        self.transpose = TransposeUnit(self.tik)

    def task(self, index: Any) -> None:
        plan = self.plan
        start = self.scalar.hold(index * plan.group)
        if plan.full_groups:
            with self.tik.if_scope(index < plan.full_groups):
                self.group(start, plan.group)
        if plan.last_group:
            with self.tik.if_scope(index >= plan.full_groups):
                self.group(start, plan.last_group)

    def group(self, first: Any, count: int) -> None:
        """``count`` chunks from chunk ``first`` (a Scalar) on."""
        raise NotImplementedError

    def each_tile(self, first: Any, count: int, body: Any) -> None:
        """``body(first chunk, its place in the group, chunks)`` for the tiles of a group."""
        full, rest = self.plan.tiles(count)
        tile = self.plan.tile
        if full:
            with self.tik.for_range(0, full) as index:
                place = self.scalar.hold(index * tile)
                body(self.scalar.hold(first + place), place, tile)
        if rest:
            body(self.scalar.hold(first + full * tile), full * tile, rest)

    def rows_unit(self) -> GroupRows:
        """The unit for per-chunk vectors; to be made inside phase "finish"."""
        half = self.buffers["rows_half"] if self.problem.vector_dtype != "float32" else None
        return GroupRows(self.tik, self.problem.chunk, self.problem.pitch, self.buffers["edge"], half)


class BackwardKernel(SegsumKernel):
    """Sums of Z = dSSdA * exp(SSdA) over the strict triangle, by key and by query, per chunk of a group.

    ``row_sums`` and ``column_sums`` are (16, P). Rows of Z are keys, or queries when both operands are
    query-major.
    """

    def _mask(self) -> TriangleMask:
        return TriangleMask(self.tik, self.problem.chunk, self.buffers["keep_bits"], self.buffers["zero_block"])

    def prepare(self) -> None:
        super().prepare()
        self._mask().prepare(self.problem.query_major)
        if self.problem.has_lengths:
            lengths = self.buffers["lengths"]
            blocks = lengths.tensor.shape[0] // BLOCK
            self.tik.data_move(lengths[0], self.gm["lengths"][0], 0, 1, blocks, 0, 0)

    def sum_tile(self, first: Any, place: Any, count: int) -> None:
        """Row and column sums of ``count`` chunks into the group's rows from ``place`` on."""
        with self.buffers.phase("panel"):
            loader = TriangleLoader(self.tik, self.problem.chunks, self.problem.chunk, self.buffers["fix"])
            mask = self._mask()
            for index, (window, source) in enumerate(self.problem.windows(self.plan.panel, self.plan.pad)):
                blocks = spans(window, self.problem.chunk)
                if not blocks:
                    continue
                z = self._product(loader, first, count, window, source, blocks)
                mask.apply(z, count, window)
                if self.problem.has_lengths:
                    self._shorten(mask, z, first, count, window)
                self._row_sums(z, place, count, window, blocks)
                self._column_sums(z, place, count, window, blocks, index == 0)

    def _product(
        self,
        loader: TriangleLoader,
        first: Any,
        count: int,
        window: Window,
        source: Window,
        blocks: list[tuple[int, int, int]],
    ) -> Tile:
        """dSSdA * exp(SSdA) in ``blocks`` of the window, with anything outside the triangle."""
        b, elements = self.buffers, count * window.size
        half = "" if self.problem.wide_matrices else "_half"
        loader.load(b["decay" + half], self.gm["SSdA"], first, count, source)
        loader.load(b["product" + half], self.gm["dSSdA"], first, count, window)
        log_decay = b["decay" + half]
        if not self.problem.query_major:
            log_decay = b["turned" + half]
            self.transpose.turn_lower(log_decay, window, b["decay" + half], source, count)
        if half:
            self.vector.convert(b["decay"], log_decay, elements)
            self.vector.convert(b["product"], b["product_half"], elements)
            log_decay = b["decay"]
        step = window.size
        self.grid.blocks(self.tik.vexp, [log_decay, log_decay], blocks, window.pitch, count, step)
        self.grid.blocks(self.tik.vmul, [b["product"], b["product"], log_decay], blocks, window.pitch, count, step)
        return b["product"]

    def _shorten(self, mask: TriangleMask, z: Tile, first: Any, count: int, window: Window) -> None:
        lengths = self.buffers["lengths"]
        for n in range(count):
            length = self.tik.Scalar("int32")
            length.set_as(lengths[(first + n) % self.problem.slots])
            with self.tik.if_scope(length < self.problem.chunk):
                mask.shorten(z.shift(n * window.size), length, window)

    def _row_sums(self, z: Tile, place: Any, count: int, window: Window, blocks: list[tuple[int, int, int]]) -> None:
        """Blocks of a row are added up, then the 8 lanes of a block, turned, so that no instruction reduces
        lanes.
        """
        rows, step = window.rows, window.size
        lanes, turned = self.buffers["lane_sums"], self.buffers["lane_rows"]
        for group, first, width in blocks:
            self.grid.sum_blocks(
                (lanes.shift(group * BLOCK * BLOCK), rows * BLOCK),
                (z.shift((group * window.pitch + first) * BLOCK), step),
                window.pitch,
                width,
                count,
            )
        self.transpose.turn(turned, lanes, 1, count * rows, BLOCK)
        half = BLOCK // 2
        while half > 1:
            self.vector.add(turned, turned, turned.shift(half * count * rows), half * count * rows)
            half //= 2
        pitch = self.problem.pitch
        target = self.buffers["row_sums"].shift(place * pitch + window.row)
        self.grid.add(count, rows, (target, pitch), (turned, rows), (turned.shift(count * rows), rows))

    def _column_sums(
        self, z: Tile, place: Any, count: int, window: Window, blocks: list[tuple[int, int, int]], first_panel: bool
    ) -> None:
        """Groups of 8 rows are added to the widest one, then its rows in halves; Z is lost."""
        columns, step, pitch = window.pitch, window.size, self.problem.pitch
        widest, first, width = max(blocks, key=lambda span: span[2])
        for group, start, length in blocks:
            if group != widest:
                self.grid.add_blocks(
                    (z.shift((widest * columns + start) * BLOCK), step),
                    (z.shift((group * columns + start) * BLOCK), step),
                    columns,
                    length,
                    count,
                )
        rows, half = z.shift(widest * BLOCK * columns), BLOCK // 2
        while half > 1:
            self.grid.add(count, half * columns, (rows, step), (rows, step), (rows.shift(half * columns), step))
            half //= 2
        target = (self.buffers["column_sums"].shift(place * pitch + window.column), pitch)
        second = (rows.shift(columns), step)
        if first_panel:
            self.grid.add(count, window.columns, target, (rows, step), second)
            return
        self.grid.add(count, window.columns, (rows, step), (rows, step), second)
        self.grid.add(count, window.columns, target, target, (rows, step))

    def net_sums(self, count: int) -> Tile:
        """(16, P): what each step adds to the next step's value, over ``row_sums``."""
        rows, columns = self.buffers["row_sums"], self.buffers["column_sums"]
        plus, minus = (columns, rows) if self.problem.query_major else (rows, columns)
        self.vector.sub(rows, plus, minus, count * self.problem.pitch)
        return rows
