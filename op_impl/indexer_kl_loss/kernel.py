# SPDX-License-Identifier: Apache-2.0
"""KL loss between main attention and indexer over the selected tokens, and its gradient, in TIK.

Per query row: a first walk over the tiles collects the target (weights of the main attention, summed over heads) and
the index scores of every selected token in UB; loss and d_scores follow from these two lines; a second walk gathers
the index keys again for the gradients. Sharing of rows and additions to keys: as in the backward of
sparse_flash_attention.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.kernel import round_mode_to
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.indexer_kl_loss.lines import LineUnit
from ms_custom_ops.op_impl.sparse.base import FLOOR, TINY, SparseKernel
from ms_custom_ops.op_impl.sparse.problem import problem_of
from ms_custom_ops.soc.table import CUBE_BLOCK
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.budget import align
from ms_custom_ops.tiling.lightning_indexer_kl import plan_kl
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES, I32_BLOCK, chunks, padded_row

_STEP = 1e30
"""Applied twice, lifts any positive float32, subnormal ones included, above 1."""
_SMALLEST = 1e-37
"""Below every weight that matters: 0 * ln(_SMALLEST) is 0."""


class IndexerKlLoss(SparseKernel):
    """Tensors as in op_info/sparse_lightning_indexer_grad_kl_loss.yaml."""

    summed = ("d_key_index",)
    spare_exchange = True

    def prepare(self) -> None:
        super().prepare()
        b, p = self.buffers, self.problem
        self.vector.dup(b["ones"], 1.0, b["ones"].tensor.shape[0])
        self.lines = LineUnit(self.tik, self.vector, b)
        self.visited = self.tik.Scalar("int32", "visited", 0)
        self.row_loss, self.factor, self.inverse_factor = (
            self.tik.Scalar("float32", name, 0.0) for name in ("row_loss", "factor", "inverse_factor")
        )
        self.index_source = ("k_index", "key_index", self.plan.index_dim)
        self.sources = [("k", "key", p.head_dim), self.index_source]
        if p.rope_dim:
            self.sources.append(("k_rope", "key_rope", p.rope_dim))

    def task(self, index: Any) -> None:
        self.each_row(index, self._row)

    def _row(self, row: Any) -> None:
        b, v, plan = self.buffers, self.vector, self.plan
        self.sequences.seek(row)
        self.visited.set_as(0)
        self.row_loss.set_as(0.0)
        v.dup(b["d_weight_lanes"], 0.0, plan.index_rows * CUBE_BLOCK)
        with self.tik.if_scope(self.sequences.visible > 0):
            self.tiles.begin(row)
            self._load_row(row)
            v.dup(b["target"], 0.0, plan.row_columns)
            v.dup(b["model"], FLOOR, plan.row_columns)
            with self.tiles.fresh():
                self._fetch()
            self.tiles.each_held(self._collect, self._fetch)
            with self.tik.if_scope(self.visited != 0):
                self.tiles.begin(row)
                with self.tiles.fresh():
                    self._fetch_index()
                with b.phase("loss"):
                    self._loss()
                self.visited.set_as(0)
                self.tiles.each_held(self._gradients, self._fetch_index)
        self._store(row)

    # ---- inputs of a row ----
    def _load_row(self, row: Any) -> None:
        p, b, v, plan = self.problem, self.buffers, self.vector, self.plan
        for first, heads in plan.head_tiles:
            for name, gm, width in (("q", "query", p.head_dim), ("q_rope", "query_rope", p.rope_dim)):
                if width:
                    self.load_heads(b[name].shift(first * width), gm, row, first, heads, width)
            self._statistics(row, first, heads)
        dim, mi = plan.index_dim, plan.index_rows
        self.load_rows(b["q_index"], "query_index", row * plan.index_heads * dim, plan.index_heads, dim)
        self.move_rows(b["row_a"][0], self.gm["weights"][row * mi], mi)
        self.clear_rows(b["row_a"], plan.index_heads, mi)
        self.rows.spread(b["weight_lanes"], b["row_a"], mi)
        v.muls(b["row_b"], b["row_a"], -1.0, mi)
        v.max(b["row_b"], b["row_b"], b["row_a"], mi)
        self.factor.set_as(self.lines.largest(b["row_b"], mi))

    def _statistics(self, row: Any, first: int, heads: int) -> None:
        """Lanes of maximum and 1 / sum of the main attention, 0 for rows without weights."""
        b, rows = self.buffers, align(heads)
        at = self.statistics_at(0, row, first)
        self.move_rows(b["row_a"][0], self.gm["softmax_max"][at], rows)
        self.move_rows(b["row_b"][0], self.gm["softmax_sum"][at], rows)
        self.clear_rows(b["row_b"], heads, rows)
        self.invert_sums(rows)
        self.rows.spread(b["max_lanes"].shift(first * CUBE_BLOCK), b["row_a"], rows)
        self.rows.spread(b["inverse"].shift(first * CUBE_BLOCK), b["row_b"], rows)

    # ---- first walk ----
    def _column(self, first_slot: Any) -> Any:
        """First column of the tile in the lines of the row."""
        return self.scalar.hold(first_slot // self.problem.tile_slots * self.problem.columns)

    def _fetch(self, part: tuple[int, int] = (0, 1)) -> None:
        self.gather(self.sources, 0, part)

    def _fetch_index(self, part: tuple[int, int] = (0, 1)) -> None:
        self.gather([self.index_source], 0, part)

    def _collect(self, first_slot: Any) -> None:
        """target, model: columns of the tile. The cube is done with its keys before the vector unit starts, so that
        those of the next tile arrive beside its work."""
        p, b = self.problem, self.buffers
        at, tiles, two = self._column(first_slot), self.plan.head_tiles, self.plan.two_products
        for first, heads in tiles[:-1]:
            with b.phase("scores"):
                self._start_main(first, align(heads))
                self._main_weights(first, align(heads))
            self._add_target(at)
        first, heads = tiles[-1]
        with b.phase("scores"):
            self._start_main(first, align(heads))
            if two:
                self._start_relu("acc_2")
            self.tiles.advance()
            self._fetch_some(0, 4 if two else 0)
            self._main_weights(first, align(heads))
            self._fetch_some(1, 4 if two else 0)
            self._add_target(at)
            if not two:
                self._start_relu("acc")
            self._add_model(b["model"].shift(at), "acc_2" if two else "acc")
        with self.tik.if_scope(self.tiles.held.partial):
            self.vector.add(b["model"].shift(at), b["model"].shift(at), self.penalty_line(), p.columns)
        self.visited.set_as(1)

    def _fetch_some(self, index: int, count: int) -> None:
        """Piece ``index`` of the next tile, where it comes in ``count`` pieces."""
        if count:
            with self.tiles.fresh():
                self._fetch((index, count))

    def _add_target(self, at: Any) -> None:
        b, columns = self.buffers, self.problem.columns
        self.vector.add(b["target"].shift(at), b["target"].shift(at), b["head_line"], columns)

    def _add_model(self, target: Tile, acc: str) -> None:
        """The line of index scores; the rest of the next tile's keys arrive."""
        b, plan, columns, two = self.buffers, self.plan, self.problem.columns, self.plan.two_products
        self._relu_products(acc)
        self._fetch_some(2, 4 if two else 0)
        self.by_rows(self.tik.vec_mul, b["scores"], b["weight_lanes"], plan.index_rows, columns)
        self.sum_rows(target, b["scores"], plan.index_rows, columns)
        self._fetch_some(3 if two else 0, 4 if two else 1)

    def _start_main(self, first: int, rows: int) -> None:
        """The products of the main attention for the heads from ``first`` on, as far as the cube goes with them."""
        p, b = self.problem, self.buffers
        pairs = [(b["q"].shift(first * p.head_dim), b["k"], p.head_dim)]
        if p.rope_dim:
            pairs.append((b["q_rope"].shift(first * p.rope_dim), b["k_rope"], p.rope_dim))
        self.multiply_rows(pairs, rows, p.columns)
        self.cube.leave(b["acc"], rows, p.columns)

    def _main_weights(self, first: int, rows: int) -> None:
        """head_line = sum over the heads from ``first`` on of the weights of the main attention."""
        p, b, v, t = self.problem, self.buffers, self.vector, self.tik
        scores, columns = b["scores"], p.columns
        self.cube.fetch(scores, b["acc"], rows, columns)
        v.muls(scores, scores, p.scale_value, rows * columns)
        self.mask_columns(scores, rows)
        self.by_rows(t.vec_sub, scores, b["max_lanes"].shift(first * CUBE_BLOCK), rows, columns)
        v.exp(scores, scores, rows * columns)
        self.by_rows(t.vec_mul, scores, b["inverse"].shift(first * CUBE_BLOCK), rows, columns)
        self.sum_rows(b["head_line"], scores, rows, columns)

    def _start_relu(self, acc: str) -> None:
        """q_index k_index^T, as far as the cube goes with it."""
        b, rows, columns = self.buffers, self.plan.index_rows, self.problem.columns
        self.multiply_rows([(b["q_index"], b["k_index"], self.plan.index_dim)], rows, columns, acc)
        self.cube.leave(b[acc], rows, columns, spare=True)

    def _relu_products(self, acc: str) -> None:
        """scores = max(q_index k_index^T, 0)."""
        b, rows, columns = self.buffers, self.plan.index_rows, self.problem.columns
        self.cube.fetch(b["scores"], b[acc], rows, columns, spare=True)
        self.vector.max(b["scores"], b["scores"], b["zeros"], rows * columns, row=True)

    # ---- between the walks ----
    def _loss(self) -> None:
        """row_loss; model becomes d_scores = softmax(model) - target; factor = max|d_scores| * max|weights|."""
        b, v, lines, count = self.buffers, self.vector, self.lines, self.plan.row_columns
        target, model, scratch = b["target"], b["model"], b["scratch"]
        v.muls(target, target, lines.inverse(lines.total(target, count)), count)
        v.adds(model, model, 0.0 - lines.largest(model, count), count)
        v.dup(b["single"], _SMALLEST, F32_LANES)
        v.max(scratch, target, b["single"], count, row=True)
        lines.log(scratch, scratch, count)
        v.sub(scratch, scratch, model, count)
        v.mul(scratch, scratch, target, count)
        self.row_loss.set_as(lines.total(scratch, count))
        v.exp(model, model, count)
        total = lines.total(model, count)
        self.row_loss.set_as(self.row_loss + lines.log_of(total))
        v.muls(model, model, lines.inverse(total), count)
        v.sub(model, model, target, count)
        v.muls(scratch, model, -1.0, count)
        v.max(scratch, scratch, model, count)
        self.factor.set_as(self.factor * lines.largest(scratch, count) + TINY)
        self.inverse_factor.set_as(lines.inverse(self.factor))

    # ---- second walk ----
    def _gradients(self, first_slot: Any) -> None:
        """Sums of d_weights and d_query_index, rows of d_key_index."""
        p, b, t, plan = self.problem, self.buffers, self.tik, self.plan
        rows, columns = plan.index_rows, p.columns
        with b.phase("scores"):
            self._start_relu("acc")
            self.tiles.advance()
            self._relu_products("acc")
            self._d_products(b["model"].shift(self._column(first_slot)), rows, columns)
        with b.phase("dq"):
            self.cube.load_left(b["left_dz"], b["dz"], rows, columns)
            self.cube.load_right(b["right_k"], b["k_index"], columns, plan.index_dim, turned=True)
            for condition, accumulate in ((self.visited == 0, False), (self.visited != 0, True)):
                with t.if_scope(condition):
                    self.cube.multiply(
                        b["acc_dq"], b["left_dz"], b["right_k"], rows, columns, plan.index_dim, accumulate
                    )
        self.visited.set_as(1)
        with b.phase("kv"):
            self._add_keys(rows)

    def _add_keys(self, rows: int) -> None:
        """Rows of d_key_index += products of the tile. While the additions of some tokens are on their way, the
        products of the next ones are made, and keys of the next tile arrive."""
        b, dim, tiles = self.buffers, self.plan.index_dim, ("kv_tile", "kv_tile_2")
        self.cube.load_right(b["right_kv"], b["q_index"], rows, dim, turned=True)
        pieces = chunks(self.problem.columns, self.plan.kv_tokens)
        for index, (start, count) in enumerate(pieces):
            target, spare = b[tiles[index % 2]], bool(index % 2)
            self.cube.load_left(b["left_kv"], b["dz"].shift(start * rows), count, rows, turned=True)
            self.cube.multiply(b["acc_kv"], b["left_kv"], b["right_kv"], count, rows, dim)
            self.cube.leave(b["acc_kv"], count, dim, spare)
            self.rows_to_ub(target, b["acc_kv"], count, dim, padded_row(dim), b["kv_turn"], self.factor, spare)
            with self.tiles.fresh():
                self._fetch_index((index, len(pieces)))
            if index:
                self._scatter(tiles[(index - 1) % 2], pieces[index - 1])
        self._scatter(tiles[(len(pieces) - 1) % 2], pieces[-1])

    def _scatter(self, tile: str, piece: tuple[int, int]) -> None:
        self.scatter([("d_key_index", self.buffers[tile], self.plan.index_dim)], *piece, 0)

    def _d_products(self, d_scores: Tile, rows: int, columns: int) -> None:
        """d_weight_lanes += relu * d_scores; L1 dz = (relu > 0) * weights * d_scores / factor.

        The factor keeps dz around 1: as float16 it would else lose its digits among the subnormal numbers.
        """
        b, v, t, count = self.buffers, self.vector, self.tik, rows * columns
        scores, product = b["scores"], b["product"]
        v.adds(product, scores, 0.0, count)
        self.by_columns(t.vmul, product, d_scores, rows, columns)
        self.fold_slices(t.vec_add, b["d_weight_lanes"], product, rows, columns)
        v.muls(scores, scores, _STEP, count)
        v.muls(scores, scores, _STEP, count)
        v.min(scores, scores, b["ones"], count, row=True)
        self.by_rows(t.vec_mul, scores, b["weight_lanes"], rows, columns)
        self.by_columns(t.vmul, scores, d_scores, rows, columns)
        v.muls(scores, scores, self.inverse_factor, count)
        v.convert(b["cast"], scores, count, round_mode_to(self.problem.dtype))
        self.cube.to_l1(b["dz"], b["cast"], count)

    def _store(self, row: Any) -> None:
        b, v, t, plan = self.buffers, self.vector, self.tik, self.plan
        rows, dim = plan.index_rows, plan.index_dim
        with b.phase("final"):
            with t.if_scope(self.visited == 0):
                v.dup(b["dq_cast"], 0.0, rows * dim)
            with t.else_scope():
                self.cube.to_ub(b["dq_tile"], b["acc_dq"], rows, dim)
                v.muls(b["dq_tile"], b["dq_tile"], self.factor, rows * dim)
                v.convert(b["dq_cast"], b["dq_tile"], rows * dim, round_mode_to(self.problem.dtype))
            self.fractals.store(
                self.gm["d_query_index"], row * plan.index_heads * dim, b["dq_cast"], plan.index_heads, rows, dim
            )
        self.rows.fold(v.add, b["row_a"], b["d_weight_lanes"], rows)
        self.move_rows(self.gm["d_weights"][row * rows], b["row_a"][0], rows)
        v.dup(b["single"], self.row_loss, F32_LANES)
        self.move_rows(self.gm["row_loss"][row * I32_BLOCK], b["single"][0], I32_BLOCK)


def sparse_lightning_indexer_grad_kl_loss(call: KernelCall) -> Any:
    """Entry of the kernel."""
    heads, dim = call["query_index"].shape[2:]
    plan = plan_kl(problem_of(call, merged=True), heads, dim, call.soc, call.attrs["deterministic"])
    return IndexerKlLoss(call, plan).build()
