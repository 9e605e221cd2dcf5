# SPDX-License-Identifier: Apache-2.0
"""Sparse flash attention forward in TIK: one task per (query row, key head), online softmax over tiles of tokens."""

from __future__ import annotations

import functools
from typing import Any

from ms_custom_ops.op_impl.common.kernel import round_mode_to
from ms_custom_ops.op_impl.sparse.base import FLOOR, LARGEST, TINY, SparseKernel
from ms_custom_ops.op_impl.sparse.problem import problem_of
from ms_custom_ops.op_impl.sparse.tokens import AheadWork
from ms_custom_ops.soc.table import CUBE_BLOCK
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.budget import align
from ms_custom_ops.tiling.sparse_flash_attention import plan_forward
from ms_custom_ops.tiling.sparse_flash_attention_problem import chunks


class SparseFlashAttentionForward(SparseKernel):
    """Tensors as in op_info/sparse_flash_attention.yaml."""

    def prepare(self) -> None:
        super().prepare()
        self.vector.dup(self.buffers["ones"], 1.0, self.plan.head_rows)

    def task(self, index: Any) -> None:
        p = self.problem
        row = self.scalar.hold(index // p.kv_heads)
        kv_head = self.scalar.hold(index % p.kv_heads)
        self.sequences.seek(row)
        for first, heads in self.plan.head_tiles:
            self._heads(index, row, kv_head, first, heads)

    def _heads(self, index: Any, row: Any, kv_head: Any, first: int, heads: int) -> None:
        p = self.problem
        head = self.scalar.hold(kv_head * p.group + first)
        self.load_heads(self.buffers["q"], "query", row, head, heads, p.head_dim)
        if p.rope_dim:
            self.load_heads(self.buffers["q_rope"], "query_rope", row, head, heads, p.rope_dim)
        self._start(row, kv_head, first, align(heads))
        sources = [("k", "key", p.head_dim)]
        if p.rope_dim:
            sources.append(("k_rope", "key_rope", p.rope_dim))
        if not p.merged:
            sources.append(("v", "value", p.value_dim))

        rows = align(heads)

        def tile(_: Any) -> None:
            self.gather(sources, kv_head)
            self._scores(rows)
            self._product(rows)

        if p.merged or p.slots <= p.tile_slots:
            self.tiles.each(index, tile)
        else:
            parts = functools.partial
            fetch_keys, fetch_values = (parts(self.gather, part, kv_head) for part in (sources[:-1], sources[-1:]))
            work = AheadWork(fetch_keys, parts(self._scores, rows), fetch_values, parts(self._product, rows))
            self.tiles.each_ahead(index, work)
        self._finish(row, kv_head, head, first, heads)

    def _start(self, row: Any, kv_head: Any, first: int, rows: int) -> None:
        """Nothing seen yet; a sink counts as a score that was seen."""
        b, v, p = self.buffers, self.vector, self.problem
        v.dup(b["row_a"], FLOOR, rows)
        v.dup(b["sum_lanes"], 0.0, rows * CUBE_BLOCK)
        v.dup(b["out"], 0.0, rows * p.value_dim)
        if p.has_sinks:
            with self.tik.if_scope(self.sequences.inside != 0):
                at = self.statistics_at(kv_head, row, first)
                self.move_rows(b["row_a"][0], self.gm["sinks"][at], rows)
                self._sinks(rows)
        self.rows.spread(b["max_lanes"], b["row_a"], rows)

    def _sinks(self, rows: int) -> None:
        """``row_a`` sinks -> maxima; lanes of the sums: 1 per row, 0 where the sink is -inf, which is none, and NaN
        of NaN."""
        b, v = self.buffers, self.vector
        v.adds(b["row_c"], b["row_a"], 0.0, rows)
        v.dup(b["row_b"], LARGEST, rows)
        v.min(b["row_a"], b["row_a"], b["row_b"], rows)  # a score less +inf is -inf, +inf less +inf is not 0
        v.dup(b["row_b"], FLOOR, rows)
        v.max(b["row_a"], b["row_a"], b["row_b"], rows)
        v.sub(b["row_c"], b["row_c"], b["row_a"], rows)  # minimum and maximum lose a NaN: what they took, squared
        v.mul(b["row_c"], b["row_c"], b["row_c"], rows)
        v.muls(b["row_c"], b["row_c"], -1.0, rows)
        v.exp(b["row_c"], b["row_c"], rows)  # 0 to 1, or NaN
        v.muls(b["row_c"], b["row_c"], 0.0, rows)
        v.sub(b["row_b"], b["row_a"], b["row_b"], rows)
        v.min(b["row_b"], b["row_b"], b["ones"], rows)
        v.muls(b["row_b"], b["row_b"], 1.0 / CUBE_BLOCK, rows)
        v.add(b["row_b"], b["row_b"], b["row_c"], rows)
        self.rows.spread(b["sum_lanes"], b["row_b"], rows)

    def _scores(self, rows: int) -> None:
        """The weights of a tile, on their way to L1 p."""
        p, b, cube = self.problem, self.buffers, self.cube
        columns = p.columns
        pairs = [(b["q"], b["k"], p.head_dim)]
        if p.rope_dim:
            pairs.append((b["q_rope"], b["k_rope"], p.rope_dim))
        with b.phase("scores"):
            self.multiply_rows(pairs, rows, columns)
            cube.to_ub(b["scores"], b["acc"], rows, columns)
            self.vector.muls(b["scores"], b["scores"], p.scale_value, rows * columns)
            self.mask_columns(b["scores"], rows)
            self._softmax(rows, columns)
            for at, width in chunks(columns, self.plan.elements("probs") // self.plan.head_rows):
                self.vector.convert(b["probs"], b["scores"].shift(at * rows), rows * width, round_mode_to(p.dtype))
                cube.send(b["p"], b["probs"], rows * width, at * rows)

    def _product(self, rows: int) -> None:
        """The weighted values of a tile, added to ``out``."""
        p, b, cube = self.problem, self.buffers, self.cube
        columns = p.columns
        cube.receive(b["p"], rows * columns)
        keys = b["k"] if p.merged else b["v"]
        with b.phase("product"):
            cube.load_left(b["left_p"], b["p"], rows, columns)
            for at, width in chunks(p.value_dim, self.plan.value_chunk):
                cube.load_right(b["right_v"], keys.shift(at * columns), columns, width, turned=True)
                cube.multiply(b["acc_o"], b["left_p"], b["right_v"], rows, columns, width)
                cube.to_ub(b["product"], b["acc_o"], rows, width)
                out = b["out"].shift(at * rows)
                self.by_rows(self.tik.vec_mul, out, b["factor"], rows, width)
                self.vector.add(out, out, b["product"], rows * width)

    def _softmax(self, rows: int, columns: int) -> None:
        """scores -> weights; updates maximum (``row_a``, ``max_lanes``) and ``sum_lanes``; ``factor``
        is what older sums and outputs shrink by."""
        b, v, t = self.buffers, self.vector, self.tik
        scores, lanes = b["scores"], rows * CUBE_BLOCK
        v.adds(b["new_lanes"], b["max_lanes"], 0.0, lanes)
        self.fold_slices(t.vec_max, b["new_lanes"], scores, rows, columns)
        self.rows.fold(v.max, b["row_a"], b["new_lanes"], rows)
        self.rows.spread(b["new_lanes"], b["row_a"], rows)
        v.sub(b["factor"], b["max_lanes"], b["new_lanes"], lanes)
        v.exp(b["factor"], b["factor"], lanes)
        v.adds(b["max_lanes"], b["new_lanes"], 0.0, lanes)
        self.by_rows(t.vec_sub, scores, b["max_lanes"], rows, columns)
        v.exp(scores, scores, rows * columns)
        v.mul(b["sum_lanes"], b["sum_lanes"], b["factor"], lanes)
        self.fold_slices(t.vec_add, b["sum_lanes"], scores, rows, columns)

    def _finish(self, row: Any, kv_head: Any, head: Any, first: int, heads: int) -> None:
        """Normalise, and store output and statistics of the tile's heads."""
        p, b, v, rows = self.problem, self.buffers, self.vector, align(heads)
        self.rows.fold(v.add, b["row_b"], b["sum_lanes"], rows)
        v.min(b["row_c"], b["row_b"], b["ones"], rows)  # 1 where something was seen, else 0
        v.mul(b["row_a"], b["row_a"], b["row_c"], rows)
        v.adds(b["row_a"], b["row_a"], 0.0, rows)  # no negative zero
        at = self.statistics_at(kv_head, row, first)
        for gm, vector in (("softmax_max", "row_a"), ("softmax_sum", "row_b")):
            self.clear_rows(b[vector], heads, rows)
            self.move_rows(self.gm[gm][at], b[vector][0], rows)
        v.adds(b["row_b"], b["row_b"], TINY, rows)
        v.div(b["row_c"], b["ones"], b["row_b"], rows)
        self.rows.spread(b["factor"], b["row_c"], rows)
        self.by_rows(self.tik.vec_mul, b["out"], b["factor"], rows, p.value_dim)
        with b.phase("finish"):
            for column, width in chunks(p.value_dim, self.plan.elements("out_cast") // self.plan.head_rows):
                v.convert(b["out_cast"], b["out"].shift(column * rows), rows * width, round_mode_to(p.dtype))
                self.store_heads("attention_out", row, head, heads, p.value_dim, column, b["out_cast"], width)


def sparse_flash_attention(call: KernelCall) -> Any:
    """Entry of the kernel."""
    plan = plan_forward(problem_of(call), call.soc)
    return SparseFlashAttentionForward(call, plan).build()
