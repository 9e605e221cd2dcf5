# SPDX-License-Identifier: Apache-2.0
"""Sparse flash attention backward in TIK.

A query row recomputes its weights tile by tile from the statistics of the forward pass. dQ of the row stays in L0C; the
gradients of the selected keys are added to float32 rows in GM, which the caller casts. Deterministic: all rows of a
sequence belong to one block of the multi-core loop, so the additions to a key have one order. Otherwise rows are
spread over all cores and the order of the atomic additions is the chip's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ms_custom_ops.op_impl.common.kernel import round_mode_to
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.sparse.base import F32_BLOCK, SparseKernel
from ms_custom_ops.op_impl.sparse.problem import problem_of
from ms_custom_ops.op_impl.sparse_flash_attention.peaks import Peaks
from ms_custom_ops.soc.table import CUBE_BLOCK
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.budget import align
from ms_custom_ops.tiling.sparse_flash_attention import plan_backward
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES, chunks, padded_row


@dataclass(frozen=True)
class KeyGradient:
    """d of a key tensor: per token ``width`` columns, the sum of products (left L1 tile, right L1 tile, factor)."""

    gm: str
    width: int
    products: tuple[tuple[str, str, float], ...]


class SparseFlashAttentionBackward(SparseKernel):
    """Tensors as in op_info/sparse_flash_attention_grad.yaml."""

    summed = ("d_key", "d_value", "d_key_rope")
    spare_exchange = True

    @property
    def _sums(self) -> int:
        """Elements of the spilled sums of dQ of a core."""
        return self.plan.head_rows * (self.problem.head_dim + self.problem.rope_dim)

    def workspaces(self) -> None:
        super().workspaces()
        if self.plan.spilled:
            self.workspace("query_sums", "float32", self.plan.split.block_num * self._sums)

    def prepare(self) -> None:
        super().prepare()
        self.vector.dup(self.buffers["ones"], 1.0, self.plan.head_rows)
        self.visited = self.tik.Scalar("int32", "visited", 0)
        p = self.problem
        self.peaks = Peaks(self) if p.has_d_statistics else None
        self.sources = [("k", "key", p.head_dim)]
        self.pairs = [("q", "k", p.head_dim)]
        self.d_query = [("d_query", "acc_dq", "k", p.head_dim)]
        of_key: tuple[tuple[str, str, float], ...] = (("ds", "q", p.scale_value),)
        if p.merged:
            of_key += (("p", "do", 1.0),)
        self.d_keys = [KeyGradient("d_key", p.head_dim, of_key)]
        if p.rope_dim:
            self.sources.append(("k_rope", "key_rope", p.rope_dim))
            self.pairs.append(("q_rope", "k_rope", p.rope_dim))
            self.d_query.append(("d_query_rope", "acc_dq_rope", "k_rope", p.rope_dim))
            self.d_keys.append(KeyGradient("d_key_rope", p.rope_dim, (("ds", "q_rope", p.scale_value),)))
        if not p.merged:
            self.sources.append(("v", "value", p.value_dim))
            self.d_keys.append(KeyGradient("d_value", p.value_dim, (("p", "do", 1.0),)))

    def task(self, index: Any) -> None:
        self.each_row(index, self._row)

    def _row(self, row: Any) -> None:
        p = self.problem
        self.sequences.seek(row)
        with self.tik.for_range(0, p.kv_heads) as n2:
            kv_head = self.scalar.hold(n2)
            for first, heads in self.plan.head_tiles:
                self._heads(row, kv_head, first, heads)

    def _heads(self, row: Any, kv_head: Any, first: int, heads: int) -> None:
        p = self.problem
        head = self.scalar.hold(kv_head * p.group + first)

        def fetch() -> None:
            self.gather(self.sources, kv_head)

        self.tiles.begin(self.scalar.hold(row * p.kv_heads + kv_head))
        self.load_heads(self.buffers["q"], "query", row, head, heads, p.head_dim)
        self.load_heads(self.buffers["do"], "d_out", row, head, heads, p.value_dim)
        if p.rope_dim:
            self.load_heads(self.buffers["q_rope"], "query_rope", row, head, heads, p.rope_dim)
        self._statistics(row, kv_head, head, first, heads)
        self.visited.set_as(0)

        def tile(_: Any) -> None:
            self._weights(align(heads))
            self._add_queries(align(heads))
            self._add_keys(align(heads), kv_head)
            self.visited.set_as(1)

        with self.tiles.fresh():
            fetch()
        self.tiles.each_held(tile, fetch)
        self._store_queries(row, head, heads)

    # ---- what belongs to a row ----
    def _statistics(self, row: Any, kv_head: Any, head: Any, first: int, heads: int) -> None:
        """Lanes: maximum, 1 / sum and delta = sum over Dv of d_out * out of every head; the gradient of the sinks."""
        b, v, rows = self.buffers, self.vector, align(heads)
        at = self.statistics_at(kv_head, row, first)
        self.move_rows(b["row_a"][0], self.gm["softmax_max"][at], rows)
        self.move_rows(b["row_b"][0], self.gm["softmax_sum"][at], rows)
        self.clear_rows(b["row_b"], heads, rows)
        self.invert_sums(rows)
        self.rows.spread(b["max_lanes"], b["row_a"], rows)
        self.rows.spread(b["inverse"], b["row_b"], rows)
        self._delta(row, head, heads)
        self.rows.fold(v.add, b["row_c"], b["delta"], rows)
        with self.tik.if_scope(self.sequences.visible == 0):  # whatever d_out holds beyond a length
            v.dup(b["row_c"], 0.0, rows)
        if self.peaks is not None:
            self.peaks.find(at, heads, rows)
        self.rows.spread(b["delta"], b["row_c"], rows)
        if self.problem.has_sinks:
            self._sinks(at, rows)

    def _sinks(self, at: Any, rows: int) -> None:
        """d_sinks of the row = -exp(sink - maximum) / sum * delta."""
        b, v, weight = self.buffers, self.vector, self.buffers["turn"]
        self.move_rows(weight[0], self.gm["sinks"][at], rows)
        v.sub(weight, weight, b["row_a"], rows)
        v.exp(weight, weight, rows)
        v.min(weight, weight, b["ones"], rows)  # of a sink of +inf too, whose maximum is the largest float32
        if self.peaks is not None:
            self.peaks.keep_sinks(weight, rows)
        v.mul(weight, weight, b["row_b"], rows)
        v.mul(weight, weight, b["row_c"], rows)
        v.muls(weight, weight, -1.0, rows)
        if self.peaks is not None:
            self.peaks.add_to_sinks(at, weight, rows)
        self.move_rows(self.gm["d_sinks"][at], weight[0], rows)

    def _delta(self, row: Any, head: Any, heads: int) -> None:
        """delta lanes = 16 partial sums of d_out * out per head."""
        p, b, v, dv = self.problem, self.buffers, self.vector, self.problem.value_dim
        for start in range(0, heads, CUBE_BLOCK):
            count = min(CUBE_BLOCK, heads - start)
            at = (row * p.q_heads + head + start) * dv
            with b.phase("delta"):
                for gm, wide in (("attention_out", "wide_o"), ("d_out", "wide_do")):
                    if count < CUBE_BLOCK:
                        v.dup(b["half"].shift(count * dv), 0.0, (CUBE_BLOCK - count) * dv)
                    self.tik.data_move(b["half"][0], self.gm[gm][at], 0, 1, count * dv // CUBE_BLOCK, 0, 0)
                    v.convert(b[wide], b["half"], CUBE_BLOCK * dv)
                v.mul(b["wide_o"], b["wide_o"], b["wide_do"], CUBE_BLOCK * dv)
                self._sum_to_lanes(b["delta"].shift(start * CUBE_BLOCK), b["wide_o"], dv)

    def _sum_to_lanes(self, lanes: Tile, wide: Tile, width: int) -> None:
        """lanes ``[16, 16]``: the ``width`` columns of each of 16 rows folded onto 16; destroys ``wide``."""
        t, blocks = self.tik, width // F32_BLOCK
        span = min(width, F32_LANES)
        for at, part in chunks(width, F32_LANES)[1:]:
            t.vec_add(part, wide[0], wide[0], wide[at], CUBE_BLOCK, blocks, blocks, blocks)
        while span > CUBE_BLOCK:
            kept = align(span // 2)
            t.vec_add(span - kept, wide[0], wide[0], wide[kept], CUBE_BLOCK, blocks, blocks, blocks)
            span = kept
        t.vec_adds(CUBE_BLOCK, lanes[0], wide[0], 0.0, CUBE_BLOCK, CUBE_BLOCK // F32_BLOCK, blocks)

    # ---- one tile ----
    def _weights(self, rows: int) -> None:
        """L1 p = P and ds = P * (dP - delta), both in the input dtype."""
        p, b, v, t, cube = self.problem, self.buffers, self.vector, self.tik, self.cube
        columns, mode = p.columns, round_mode_to(p.dtype)
        count = rows * columns
        with b.phase("scores"):
            scores, d_probs = b["scores"], b["d_probs"]
            second = "acc_2" if self.plan.elements("acc_2") else "acc"
            self.multiply_rows([(b[left], b[right], depth) for left, right, depth in self.pairs], rows, columns)
            cube.leave(b["acc"], rows, columns)
            if second == "acc":
                cube.fetch(scores, b["acc"], rows, columns)
            self.multiply_rows([(b["do"], b["k" if p.merged else "v"], p.value_dim)], rows, columns, second)
            cube.leave(b[second], rows, columns, spare=True)
            self.tiles.advance()
            if second != "acc":
                cube.fetch(scores, b["acc"], rows, columns)
            cube.fetch(d_probs, b[second], rows, columns, spare=True)
            v.muls(scores, scores, p.scale_value, count)
            self.mask_columns(scores, rows)
            self.by_rows(t.vec_sub, scores, b["max_lanes"], rows, columns)
            v.exp(scores, scores, count)
            self.by_rows(t.vec_mul, scores, b["inverse"], rows, columns)
            v.convert(b["cast"], scores, count, mode)
            cube.to_l1(b["p"], b["cast"], count)
            self.by_rows(t.vec_sub, d_probs, b["delta"], rows, columns)
            if self.peaks is not None:
                self.peaks.add(rows, columns)
            v.mul(scores, scores, d_probs, count)
            v.convert(b["cast"], scores, count, mode)
            cube.to_l1(b["ds"], b["cast"], count)

    def _add_queries(self, rows: int) -> None:
        """dQ (+)= dS K; the first tile overwrites."""
        b, cube, columns = self.buffers, self.cube, self.problem.columns
        with b.phase("dq"):
            cube.load_left(b["left_ds"], b["ds"], rows, columns)
            for gm, acc, keys, depth in self.d_query:
                for at, width in chunks(depth, self.plan.value_chunk):
                    cube.load_right(b["right_k"], b[keys].shift(at * columns), columns, width, turned=True)
                    if self.plan.spilled:
                        self._add_to_sum(self._query_sum(gm, at, rows), rows, width)
                        continue
                    target = b[acc].shift(at * rows)
                    with self.tik.if_scope(self.visited == 0):
                        cube.multiply(target, b["left_ds"], b["right_k"], rows, columns, width)
                    with self.tik.else_scope():
                        cube.multiply(target, b["left_ds"], b["right_k"], rows, columns, width, accumulate=True)

    def _query_sum(self, gm: str, at: int, rows: int) -> Any:
        """Where a spilled sum of dQ lies, from column ``at`` on."""
        if gm == "d_query_rope":
            at += self.problem.head_dim
        return Tile(self.gm["query_sums"], self.core * self._sums).shift(at * rows)[0]

    def _add_to_sum(self, place: Any, rows: int, width: int) -> None:
        """``place`` (+)= the product of left_ds and right_k."""
        b, cube, part, total = self.buffers, self.cube, self.buffers["dq_part"], self.buffers["dq_sum"]
        cube.multiply(b["acc_dq"], b["left_ds"], b["right_k"], rows, self.problem.columns, width)
        cube.leave(b["acc_dq"], rows, width)
        with self.tik.if_scope(self.visited != 0):
            self.move_rows(total[0], place, rows * width)
        cube.fetch(part, b["acc_dq"], rows, width)
        with self.tik.if_scope(self.visited != 0):
            self.vector.add(part, part, total, rows * width)
        self.move_rows(place, part[0], rows * width)

    def _add_keys(self, rows: int, kv_head: Any) -> None:
        """Rows of the key gradients += products of the tile, ``kv_tokens`` of its tokens at a time. While the additions
        of one stage are on their way the next one is made, and keys of the next tile arrive piece by piece."""
        pieces = chunks(self.problem.columns, self.plan.kv_tokens)
        stages = [self.d_keys[:1], self.d_keys[1:]] if len(self.d_keys) > 1 else [self.d_keys]
        steps = [(start, count, stage) for start, count in pieces for stage in stages]
        with self.buffers.phase("kv"):
            self._load_rights(rows)
            for index, (start, count, stage) in enumerate(steps):
                self._products(stage, start, count, rows, first=stage is stages[0])
                with self.tiles.fresh():
                    self.gather(self.sources, kv_head, (index, len(steps)))
                if len(stages) == 1:
                    self._scatter(steps[index], kv_head)
                elif index:
                    self._scatter(steps[index - 1], kv_head)
            if len(stages) > 1:
                self._scatter(steps[-1], kv_head)

    def _scatter(self, step: tuple[int, int, list[KeyGradient]], kv_head: Any) -> None:
        start, count, stage = step
        self.scatter([(g.gm, self.buffers[g.gm], g.width) for g in stage], start, count, kv_head)

    def _rights(self) -> dict[str, int]:
        """Right operands of the products and where they lie in ``right_kv``; nothing where it has no room for all."""
        p, found, at = self.problem, {}, 0
        if self.plan.elements("right_kv") < self.plan.head_rows * (p.head_dim + p.value_dim + p.rope_dim):
            return {}
        for name, width in (("q", p.head_dim), ("do", p.value_dim), ("q_rope", p.rope_dim)):
            found[name] = at
            at += width * self.plan.head_rows
        return found

    def _load_rights(self, rows: int) -> None:
        widths = {right: g.width for g in self.d_keys for _, right, _ in g.products}
        for name, offset in self._rights().items():
            for at, width in chunks(widths.get(name, 0), self.plan.kv_width):
                target = self.buffers["right_kv"].shift(offset + at * rows)
                self.cube.load_right(target, self.buffers[name].shift(at * rows), rows, width, turned=True)

    def _products(self, stage: list[KeyGradient], start: int, count: int, rows: int, first: bool) -> None:
        """UB tiles ``[count, padded row]`` of the gradients of a stage for the tile's tokens from ``start`` on."""
        b, cube, rights, turn = self.buffers, self.cube, self._rights(), 0
        for left in ("ds", "p") if first else ():
            cube.load_left(b[f"left_{left}_kv"], b[left].shift(start * rows), count, rows, turned=True)
        double = bool(self.plan.elements("acc_kv_2"))
        for gradient in stage:
            pitch = padded_row(gradient.width)
            for at, width in chunks(gradient.width, self.plan.kv_width):
                for i, (left, right, factor) in enumerate(gradient.products):
                    acc, scratch = b["acc_kv_2" if double and turn else "acc_kv"], b["kv_turn_2" if turn else "kv_turn"]
                    if right in rights:
                        operand = b["right_kv"].shift(rights[right] + at * rows)
                    else:
                        operand = b["right_kv"]
                        cube.load_right(operand, b[right].shift(at * rows), rows, width, turned=True)
                    cube.multiply(acc, b[f"left_{left}_kv"], operand, count, rows, width)
                    cube.leave(acc, count, width, spare=bool(turn))
                    to_ub = self.add_rows_to_ub if i else self.rows_to_ub
                    to_ub(b[gradient.gm].shift(at), acc, count, width, pitch, scratch, factor, bool(turn))
                    turn = 1 - turn

    def _store_queries(self, row: Any, head: Any, heads: int) -> None:
        """dQ of the tile's heads, scaled; zeros when no key was seen."""
        p, b, v, rows = self.problem, self.buffers, self.vector, align(heads)
        for gm, acc, _, depth in self.d_query:
            for at, width in chunks(depth, self.plan.value_chunk):
                with b.phase("final"):
                    with self.tik.if_scope(self.visited == 0):
                        v.dup(b["dq_cast"], 0.0, rows * width)
                    with self.tik.else_scope():
                        if self.plan.spilled:
                            self.move_rows(b["dq_tile"][0], self._query_sum(gm, at, rows), rows * width)
                        else:
                            self.cube.to_ub(b["dq_tile"], b[acc].shift(at * rows), rows, width)
                        v.muls(b["dq_tile"], b["dq_tile"], p.scale_value, rows * width)
                        v.convert(b["dq_cast"], b["dq_tile"], rows * width, round_mode_to(p.dtype))
                    self.store_heads(gm, row, head, heads, depth, at, b["dq_cast"], width)


def sparse_flash_attention_grad(call: KernelCall) -> Any:
    """Entry of the kernel."""
    plan = plan_backward(problem_of(call), call.soc, call.attrs["deterministic"])
    return SparseFlashAttentionBackward(call, plan).build()
