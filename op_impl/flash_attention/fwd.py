# SPDX-License-Identifier: Apache-2.0
"""FlashAttention forward in TIK: online softmax over key blocks, one task per (batch, query head, query block)."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.kernel import round_mode_to
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.flash_attention.base import F32_BLOCK, TINY, AttentionKernel, Head, problem_of
from ms_custom_ops.op_impl.flash_attention.visibility import FLOOR
from ms_custom_ops.soc.table import CUBE_BLOCK
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.budget import align
from ms_custom_ops.tiling.flash_attention import plan_forward

_ALARM = 1e19
"""Turns a row maximum beyond 3.4e19 into infinity."""


class FlashAttentionForward(AttentionKernel):
    """query (B, N1, S1, D), key/value (B, N2, S2, D) -> attention_out (B, N1, S1, D), softmax_max and softmax_sum
    (B, N1, S1 padded to 16) float32."""

    @property
    def spare_exchange(self) -> bool:
        """Scores that were started wait in one tile while products pass through the other."""
        return self.plan.ahead

    def prepare(self) -> None:
        super().prepare()
        if self.plan.ahead:
            self._waiting = self.tik.Scalar("int32", init_value=0)

    def task(self, index: Any) -> None:
        plan, p = self.plan, self.problem
        if plan.split.dealt:  # by blocks, the one that sees most keys first
            heads = p.batch * p.q_heads
            block = self.scalar.hold(plan.q_blocks - 1 - index // heads)
            flat = self.scalar.hold(index % heads)
        else:
            block = self.scalar.hold(index % plan.q_blocks)
            flat = self.scalar.hold(index // plan.q_blocks)
        head = Head(self, self.scalar.hold(flat // p.q_heads), self.scalar.hold(flat % p.q_heads))
        if plan.q_full:
            with self.tik.if_scope(block < plan.q_full):
                self._guarded_block(head, block * plan.q_block, plan.q_block)
        if plan.q_tail:
            with self.tik.if_scope(block == plan.q_full):
                self._guarded_block(head, plan.q_full * plan.q_block, plan.q_tail)

    def _guarded_block(self, head: Head, start: Any, height: int) -> None:
        q0 = self.scalar.hold(start)
        self.isolation.guarded(lambda: self._query_block(head, q0, height))

    def _query_block(self, head: Head, q0: Any, height: int) -> None:
        p, b, v = self.problem, self.buffers, self.vector
        rows = align(height)
        self.fractals.load(b["q"], self.gm["query"], (head.flat * p.q_len + q0) * p.head_dim, height, rows, p.head_dim)
        v.dup(b["row_a"], FLOOR, rows)
        v.dup(b["sum_lanes"], 0.0, rows * CUBE_BLOCK)
        v.dup(b["out"], 0.0, rows * p.head_dim)
        first, last = self.visibility.kv_range(q0, height, head.q_length, head.kv_length)
        full = self.plan.kv_full
        last_full = self.scalar.minimum(last, full)
        if full and not self.scalar.surely_empty(first, last_full):
            if self.plan.ahead:
                self._waiting.set_as(0)
                with self.tik.if_scope(first < last_full):
                    self._start_scores(head, height, first * self.plan.kv_block, self.plan.kv_block)
            with self.tik.for_range(first, last_full) as j:
                self._key_block(head, q0, height, j * self.plan.kv_block, self.plan.kv_block, (j, last_full))
            self._take_product(rows)
        if self.plan.kv_tail:
            with self.tik.if_scope(first <= full):
                with self.tik.if_scope(last > full):
                    self._key_block(head, q0, height, full * self.plan.kv_block, self.plan.kv_tail)
        self._finish(head, q0, height)

    def _start_scores(self, head: Head, height: int, start: Any, width: int) -> None:
        """Q K^T of a key block, as far as the cube goes with it."""
        p, b, cube = self.problem, self.buffers, self.cube
        rows, columns, depth = align(height), align(width), p.head_dim
        at = (head.kv_flat * p.kv_len + start) * depth
        self.fractals.load(b["k"], self.gm["key"], at, width, columns, depth)
        cube.load_left(b["left_q"], b["q"], rows, depth)
        cube.load_right(b["right_k"], b["k"], depth, columns)
        cube.multiply(b["acc_s"], b["left_q"], b["right_k"], rows, depth, columns)
        cube.leave(b["acc_s"], rows, columns, spare=self.plan.ahead)

    def _key_block(
        self, head: Head, q0: Any, height: int, start: Any, width: int, turn: tuple[Any, Any] | None = None
    ) -> None:
        """Adds a key block. ``turn``: its number and the end of those of full width; where the plan works ahead, its
        scores were started before, and those of the next one start beside its softmax."""
        p, b, cube = self.problem, self.buffers, self.cube
        rows, columns, depth = align(height), align(width), p.head_dim
        ahead = self.plan.ahead and turn is not None
        k0 = self.scalar.hold(start)
        at = (head.kv_flat * p.kv_len + k0) * depth
        self.fractals.load(b["v"], self.gm["value"], at, width, columns, depth)
        with self.isolation.active(), b.phase("clean"):
            self.isolation.see(head, q0, height, k0, width)
            self.isolation.clean("v", "value", at, width, depth)
        with b.phase("scores"):
            if not ahead:
                self._start_scores(head, height, k0, width)
            cube.fetch(b["scores"], b["acc_s"], rows, columns, spare=self.plan.ahead)
            self.score_tile(b["scores"], head, q0, height, k0, width)
            if ahead:
                with self.tik.if_scope(turn[0] + 1 < turn[1]):
                    self._start_scores(head, height, k0 + width, width)
            self._softmax(head, q0, height, k0, columns, ahead)
            cube.to_l1(b["p"], b["probs"], rows * columns)
        with b.phase("product"):
            cube.load_left(b["left_p"], b["p"], rows, columns)
            cube.load_right(b["right_v"], b["v"], columns, depth, turned=True)
            cube.multiply(b["acc_o"], b["left_p"], b["right_v"], rows, columns, depth)
            if ahead:
                cube.leave(b["acc_o"], rows, depth)
                self._waiting.set_as(1)
            else:
                cube.to_ub(b["product"], b["acc_o"], rows, depth)
                self.each_slice(self.vector.mul, "out", "wide_b", rows, depth)
                self.vector.add(b["out"], b["out"], b["product"], rows * depth)
        with self.isolation.active():
            if ahead:
                with b.phase("scores"):
                    self._add_product(rows)
                self._waiting.set_as(0)
            self.isolation.restore_values(at, height, width)

    def _take_product(self, rows: int) -> None:
        """The product of the last key block, where one waits, reaches the output."""
        if self.plan.ahead:
            with self.tik.if_scope(self._waiting > 0), self.buffers.phase("scores"):
                self._add_product(rows)
            self._waiting.set_as(0)

    def _add_product(self, rows: int) -> None:
        """out = out * wide_b + the product in acc_o, which comes through the memory of the probabilities."""
        b, v, count, depth = self.buffers, self.vector, rows * CUBE_BLOCK, self.problem.head_dim
        room = Tile(b["probs"].tensor.reinterpret_cast_to("float32"))
        step = min(depth, self.plan.kv_block // 2 // CUBE_BLOCK * CUBE_BLOCK)
        for column in range(0, depth, step):
            width = min(step, depth - column)
            self.cube.fetch(room, b["acc_o"], rows, width, first=column)
            for n1 in range(column // CUBE_BLOCK, (column + width) // CUBE_BLOCK):
                v.mul(b["out"].shift(n1 * count), b["out"].shift(n1 * count), b["wide_b"], count)
            target = b["out"].shift(column * rows)
            v.add(target, target, room, rows * width)

    def _softmax(self, head: Head, q0: Any, height: int, k0: Any, columns: int, ahead: bool = False) -> None:
        """scores -> probs in the input dtype; running maximum ``row_a``, lane sums ``sum_lanes``; leaves the factor
        e**(old maximum - new maximum) of every row in ``wide_b``. ``ahead``: takes the product that waits first."""
        b, v, rows = self.buffers, self.vector, align(height)
        count, slices = rows * CUBE_BLOCK, columns // CUBE_BLOCK
        scores = b["scores"]
        self._row_maximum(scores, rows, slices)
        v.sub(b["row_b"], b["row_a"], b["row_c"], rows)
        v.exp(b["row_b"], b["row_b"], rows)
        v.adds(b["row_a"], b["row_c"], 0.0, rows)
        self.rows.spread(b["wide_a"], b["row_c"], rows)
        self.each_slice(v.sub, "scores", "wide_a", rows, columns)
        if ahead:
            with self.tik.if_scope(self._waiting > 0):
                self._add_product(rows)
        self.rows.spread(b["wide_b"], b["row_b"], rows)
        v.mul(b["sum_lanes"], b["sum_lanes"], b["wide_b"], count)
        if self.problem.high_precision:
            v.exp(scores, scores, rows * columns)
            for n1 in range(slices):
                v.add(b["sum_lanes"], b["sum_lanes"], scores.shift(n1 * count), count)
            self._drop(scores, head, q0, height, k0, slices)
            v.convert(b["probs"], scores, rows * columns, round_mode_to(self.problem.dtype))
            return
        self._mark_keys(scores, rows, slices)
        v.convert(b["probs"], scores, rows * columns)
        v.exp(b["probs"], b["probs"], rows * columns)
        for n1 in range(slices):
            v.accumulate_half(b["sum_lanes"], b["probs"].shift(n1 * count), count)
        if self.drops:
            v.convert(scores, b["probs"], rows * columns)
            self._drop(scores, head, q0, height, k0, slices)
            v.convert(b["probs"], scores, rows * columns)

    def _mark_keys(self, scores: Any, rows: int, slices: int) -> None:
        """The first row's sum becomes NaN with a score of it: float16 may have no NaN, and then hides one of a key from
        what watches the sums."""
        sums, full = self.buffers["sum_lanes"], rows * CUBE_BLOCK
        for n1 in range(slices):
            self.tik.vec_axpy(CUBE_BLOCK, sums[0], scores[n1 * full], 0.0, 1, 0, 0)

    def _row_maximum(self, scores: Any, rows: int, slices: int) -> None:
        """row_c = max(row_a, maximum of every row of the tile)."""
        b, v, count = self.buffers, self.vector, rows * CUBE_BLOCK
        if slices == 1:
            peak = scores
        else:
            peak = b["wide_a"]
            v.max(peak, scores, scores.shift(count), count)
            for n1 in range(2, slices):
                v.max(peak, peak, scores.shift(n1 * count), count)
        self.rows.fold(v.max, b["row_c"], peak, rows)
        v.max(b["row_c"], b["row_c"], b["row_a"], rows)

    def _drop(self, scores: Any, head: Head, q0: Any, height: int, k0: Any, slices: int) -> None:
        count = align(height) * CUBE_BLOCK
        for n1 in range(slices if self.drops else 0):
            keep = self.keep_slice(head, q0, height, k0 + n1 * CUBE_BLOCK)
            self.vector.mul(scores.shift(n1 * count), scores.shift(n1 * count), keep, count)

    def _finish(self, head: Head, q0: Any, height: int) -> None:
        """Normalise, and store the block of the output and of both statistics."""
        p, b, v, rows = self.problem, self.buffers, self.vector, align(height)
        self.rows.fold(v.add, b["row_b"], b["sum_lanes"], rows)
        v.min(b["row_c"], b["row_b"], b["ones"], rows, row=True)  # 1 where some key was visible, else 0
        v.mul(b["row_a"], b["row_a"], b["row_c"], rows)
        v.adds(b["row_a"], b["row_a"], 0.0, rows)  # no negative zero
        at = head.flat * p.q_rows_padded + q0
        self.tik.data_move(self.gm["softmax_max"][at], b["row_a"][0], 0, 1, rows // F32_BLOCK, 0, 0)
        self.tik.data_move(self.gm["softmax_sum"][at], b["row_b"][0], 0, 1, rows // F32_BLOCK, 0, 0)
        v.adds(b["row_b"], b["row_b"], TINY, rows)
        v.dup(b["row_c"], 1.0 / p.keep_prob if self.drops else 1.0, rows)
        v.div(b["row_c"], b["row_c"], b["row_b"], rows)
        self.rows.spread(b["wide_a"], b["row_c"], rows)
        self.each_slice(v.mul, "out", "wide_a", rows, p.head_dim)
        watched = [(b["out"], rows * p.head_dim), (b["row_b"], rows)]
        if p.dtype == "bfloat16":  # scores of finite operands may exceed the penalty of a hidden key
            v.muls(b["row_c"], b["row_a"], _ALARM, rows)
            watched.append((b["row_c"], rows))
        self.isolation.watch(*watched)
        with b.phase("finish"):
            v.convert(b["out_cast"], b["out"], rows * p.head_dim, round_mode_to(p.dtype))
            self.fractals.store(
                self.gm["attention_out"],
                (head.flat * p.q_len + q0) * p.head_dim,
                b["out_cast"],
                height,
                rows,
                p.head_dim,
            )


def flash_attention(call: KernelCall) -> Any:
    """Entry of the kernel."""
    plan = plan_forward(problem_of(call), call.soc, call.attrs["tiling_stgy_name"])
    return FlashAttentionForward(call, plan).build()
