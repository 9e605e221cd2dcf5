# SPDX-License-Identifier: Apache-2.0
"""FlashAttention backward in TIK: one task per (batch, key head), key blocks outside, query blocks inside.

dK and dV of a key block stay in L0C while the query blocks of every head of the group pass; dQ is summed in a float32
GM workspace by the one block that owns the key head. Every sum has one owner and one order: no atomic adds.

Gradients of the statistics m and l enter dS = P * (dP - delta) as README.md says: dl * l is taken off delta, and where
dm differs from it, the rest goes to the key that holds the maximum, P = 1 / l.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ms_custom_ops.op_impl.common.kernel import round_mode_to
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.common.vector import lanes_of
from ms_custom_ops.op_impl.flash_attention.base import F32_BLOCK, TINY, AttentionKernel, Head, problem_of
from ms_custom_ops.soc.table import CUBE_BLOCK
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.budget import align
from ms_custom_ops.tiling.flash_attention import plan_backward

_LANES = lanes_of("float32")
_ROUNDING = 1e-5
"""Share of dl * l up to which dm - dl * l is rounding: a loss on m + ln(l) has dm = dl * l."""
_NEAR = 1.0 / (1 << 22)
"""A key whose weight is that close to 1 / l holds the maximum; statistics are the forward kernel's, to the bit."""
_STEEP = 1e30
"""Slope that turns a float32 difference into at least 1 before it is clipped."""


class FlashAttentionBackward(AttentionKernel):
    """Inputs of the forward, its outputs and their gradients -> d_query, d_key, d_value in the input dtype, and
    d_real_shift in float32."""

    summed = ("d_real_shift",)

    def workspaces(self) -> None:
        p, plan = self.problem, self.plan
        heads = p.batch * p.q_heads
        self.workspace("delta", "float32", heads * p.q_rows_padded)
        self.workspace("peaks", "float32", heads * p.q_rows_padded)
        self.workspace("dq_sums", "float32", heads * plan.q_blocks * plan.q_block * p.head_dim)
        self.workspace("value_marks", "float32", plan.split.block_num * plan.kv_block * p.head_dim)
        super().workspaces()

    def task(self, index: Any) -> None:
        p = self.problem
        batch, kv_head = self.scalar.hold(index // p.kv_heads), self.scalar.hold(index % p.kv_heads)
        self.isolation.guarded(lambda: self._gradients(batch, kv_head))

    def _gradients(self, batch: Any, kv_head: Any) -> None:
        """All gradients of a key head and its group of query heads."""
        plan = self.plan
        self.peaked = self.tik.Scalar("int32", init_value=0)
        self.vector.dup(self.buffers["peak_total"], 0.0, F32_BLOCK)
        self._each_query_block(batch, kv_head, None, self._prepare_rows)
        self._count_peaks()
        with self.isolation.active():
            self._clear_shift(batch, kv_head)
        if plan.kv_full:
            with self.tik.for_range(0, plan.kv_full) as j:
                self._key_block(batch, kv_head, j * plan.kv_block, plan.kv_block)
        if plan.kv_tail:
            self._key_block(batch, kv_head, plan.kv_full * plan.kv_block, plan.kv_tail)
        self._each_query_block(batch, kv_head, None, self._store_dq)

    def _each_query_block(self, batch: Any, kv_head: Any, keys: tuple[Any, int] | None, body: Callable) -> None:
        """``body(head, block, height)`` for the query blocks of every head of the group that see ``keys`` (start,
        width), all of them for None."""
        plan, p = self.plan, self.problem
        with self.tik.for_range(0, p.group) as member:
            head = Head(self, batch, self.scalar.hold(kv_head * p.group + member))
            first, last = 0, plan.q_blocks
            if keys is not None:
                first, last = self.visibility.q_range(keys[0], keys[1], head.q_length, head.kv_length)
            full = self.scalar.minimum(last, plan.q_full)
            if plan.q_full and not self.scalar.surely_empty(first, full):
                with self.tik.for_range(first, full) as i:
                    body(head, self.scalar.hold(i), plan.q_block)
            if plan.q_tail:
                with self.tik.if_scope(first <= plan.q_full):
                    with self.tik.if_scope(last > plan.q_full):
                        body(head, plan.q_full, plan.q_tail)

    def _prepare_rows(self, head: Head, block: Any, height: int) -> None:
        """delta = row sums of d_attention_out * attention_out, less dl * l, into its workspace; the dQ sums = 0."""
        p, b, v, rows = self.problem, self.buffers, self.vector, align(height)
        q0, count = self.scalar.hold(block * self.plan.q_block), rows * CUBE_BLOCK
        start = (head.flat * p.q_len + q0) * p.head_dim
        v.dup(b["delta_lanes"], 0.0, count)
        with b.phase("delta"):
            for column in range(0, p.head_dim, CUBE_BLOCK):
                for name, half, wide in (
                    ("attention_out", "o_cast", "o_wide"),
                    ("d_attention_out", "do_cast", "do_wide"),
                ):
                    self.load_slice(b[half], name, start + column, height, p.head_dim)
                    v.convert(b[wide], b[half], count)
                v.mul_add(b["delta_lanes"], b["o_wide"], b["do_wide"], count)
        self.rows.fold(v.add, b["row_a"], b["delta_lanes"], rows)
        at = head.flat * p.q_rows_padded + q0
        with b.phase("delta"):
            self._prepare_peaks(at, height)
        self.tik.data_move(self.gm["delta"][at], b["row_a"][0], 0, 1, rows // F32_BLOCK, 0, 0)
        v.dup(b["delta_lanes"], 0.0, count)
        for column in range(0, p.head_dim, CUBE_BLOCK):
            target = self._dq_at(head, block, column * rows)
            self.tik.data_move(target, b["delta_lanes"][0], 0, 1, count // F32_BLOCK, 0, 0)

    def _prepare_peaks(self, at: Any, height: int) -> None:
        """row_a -= dl * l; ``peaks`` = (dm - dl * l) * l, what the key of the maximum gets beside; ``peak_total``
        counts rows where that is more than the rounding of a loss on m + ln(l) leaves."""
        b, v, rows = self.buffers, self.vector, align(height)
        total, share, peak, size, spare = (b[name] for name in ("row_b", "row_c", "peak", "peak_size", "peak_spare"))
        for name, row in (("softmax_sum", total), ("d_softmax_sum", share), ("d_softmax_max", peak)):
            self.tik.data_move(row[0], self.gm[name][at], 0, 1, rows // F32_BLOCK, 0, 0)
        v.mul(share, share, total, rows)
        self._clear_tail(share, height)
        self._clear_tail(peak, height)
        v.sub(b["row_a"], b["row_a"], share, rows)
        v.sub(peak, peak, share, rows)
        v.muls(size, peak, -1.0, rows)
        v.max(size, size, peak, rows)
        v.muls(spare, share, -1.0, rows)
        v.max(spare, spare, share, rows)
        v.muls(spare, spare, -_ROUNDING, rows)
        v.add(size, size, spare, rows)
        v.muls(size, size, _STEEP, rows)
        v.max(size, size, b["zeros"], rows, row=True)
        v.min(size, size, b["ones"], rows, row=True)
        v.mul(peak, peak, size, rows)
        v.mul(peak, peak, total, rows)
        self.tik.data_move(self.gm["peaks"][at], peak[0], 0, 1, rows // F32_BLOCK, 0, 0)
        while rows > F32_BLOCK:
            half = rows // 2 // F32_BLOCK * F32_BLOCK
            v.add(size, size, size.shift(rows - half), half)
            rows -= half
        v.add(b["peak_total"], b["peak_total"], size, F32_BLOCK)

    def _count_peaks(self) -> None:
        """``peaked``, 1 or 0, of all rows of the task at once: reads of UB by the scalar unit are slow."""
        b = self.buffers
        found = self.tik.Scalar("int32")
        words = b["peak_total"].tensor.reinterpret_cast_to("int32")  # 0 for 0.0, other bits for a count or NaN
        for lane in range(F32_BLOCK):
            found.set_as(words[lane])
            with self.tik.if_scope(found != 0):
                self.peaked.set_as(1)

    def _clear_tail(self, row: Tile, height: int) -> None:
        """0 in the padding rows of a vector ``[rows]``."""
        rows = align(height)
        if height < rows:
            repeat = height // _LANES * _LANES
            bits = (1 << (rows - repeat)) - (1 << (height - repeat))
            self.tik.vec_dup([0, bits], row[repeat], 0.0, 1, _LANES // F32_BLOCK)

    def _dq_at(self, head: Head, block: Any, elements: int = 0) -> Any:
        """``elements`` into the dQ sums of a query block in their workspace, kept as ``[D/16, rows, 16]``."""
        tile = self.plan.q_block * self.problem.head_dim
        return self.gm["dq_sums"][(head.flat * self.plan.q_blocks + block) * tile + elements]

    def _store_dq(self, head: Head, block: Any, height: int) -> None:
        p, b, v, rows = self.problem, self.buffers, self.vector, align(height)
        count = rows * p.head_dim
        with b.phase("final"):
            self.tik.data_move(b["dq_final"][0], self._dq_at(head, block), 0, 1, count // F32_BLOCK, 0, 0)
            v.muls(b["dq_final"], b["dq_final"], p.scale_value, count)
            self.isolation.watch((b["dq_final"], count))
            v.convert(b["dq_cast"], b["dq_final"], count, round_mode_to(p.dtype))
            start = (head.flat * p.q_len + block * self.plan.q_block) * p.head_dim
            self.fractals.store(self.gm["d_query"], start, b["dq_cast"], height, rows, p.head_dim)

    def _key_block(self, batch: Any, kv_head: Any, start: Any, width: int) -> None:
        p, b = self.problem, self.buffers
        columns = align(width)
        k0 = self.scalar.hold(start)
        at = ((batch * p.kv_heads + kv_head) * p.kv_len + k0) * p.head_dim
        self.fractals.load(b["k"], self.gm["key"], at, width, columns, p.head_dim)
        self.fractals.load(b["v"], self.gm["value"], at, width, columns, p.head_dim)
        visited = self.tik.Scalar("int32", init_value=0)
        with self.isolation.active(), b.phase("kv"):
            self.isolation.clear_marks(b["kv_tile"], columns * p.head_dim)

        def tile(head: Head, block: Any, height: int) -> None:
            with self.visibility.meets(self.scalar.hold(block * self.plan.q_block), height, k0, width):
                self._tile(head, block, height, k0, width, at, visited)

        self._each_query_block(batch, kv_head, (k0, width), tile)
        with b.phase("kv"):
            self._store_sum("d_value", "acc_dv", at, width, 1.0, visited)
            self._store_sum("d_key", "acc_dk", at, width, p.scale_value, visited)

    def _store_sum(self, output: str, sums: str, at: Any, width: int, factor: float, visited: Any) -> None:
        """Rows of d_key or d_value; zeros when no query block sees the key block."""
        p, b, v, columns = self.problem, self.buffers, self.vector, align(width)
        count = columns * p.head_dim
        with self.tik.if_scope(visited == 0):
            v.dup(b["kv_tile"], 0.0, count)
        with self.tik.else_scope():
            self.cube.to_ub(b["kv_tile"], b[sums], columns, p.head_dim)
        v.muls(b["kv_tile"], b["kv_tile"], factor, count)
        if output == "d_value":
            with self.isolation.active():
                self.isolation.join_marks(b["kv_tile"], count)
        self.isolation.watch((b["kv_tile"], count))
        v.convert(b["kv_cast"], b["kv_tile"], count, round_mode_to(p.dtype))
        self.fractals.store(self.gm[output], at, b["kv_cast"], width, columns, p.head_dim)

    def _tile(self, head: Head, block: Any, height: int, k0: Any, width: int, at: Any, visited: Any) -> None:
        p, b = self.problem, self.buffers
        rows, columns = align(height), align(width)
        q0 = self.scalar.hold(block * self.plan.q_block)
        start = (head.flat * p.q_len + q0) * p.head_dim
        self.fractals.load(b["q"], self.gm["query"], start, height, rows, p.head_dim)
        self.fractals.load(b["do"], self.gm["d_attention_out"], start, height, rows, p.head_dim)
        with self.isolation.active(), b.phase("clean"):
            self.isolation.see(head, q0, height, k0, width)
            self.fractals.load(b["k"], self.gm["key"], at, width, columns, p.head_dim)
        with b.phase("scores"):
            self._probabilities(head, q0, height, k0, width)
            self._d_scores(head, q0, height, k0, columns)
        with self.isolation.active(), b.phase("clean"):
            self.isolation.clean("q", "query", start, height, p.head_dim)
            self.isolation.clean("do", "d_attention_out", start, height, p.head_dim)
            self.isolation.clean("k", "key", at, width, p.head_dim)
        self._add_kv(rows, columns, visited)
        self._add_dq(head, block, rows, columns)
        with self.isolation.active():
            self.isolation.restore_d_out(start, height, width)
        visited.set_as(1)

    def _load_rows(self, head: Head, q0: Any, height: int) -> None:
        """row_a = maximum, row_b = 1 / sum (0 in padding rows, which keeps them out of every sum), row_c = delta."""
        p, b, v, rows = self.problem, self.buffers, self.vector, align(height)
        at = head.flat * p.q_rows_padded + q0
        for name, row in (("softmax_max", "row_a"), ("softmax_sum", "row_c")):
            self.tik.data_move(b[row][0], self.gm[name][at], 0, 1, rows // F32_BLOCK, 0, 0)
        v.adds(b["row_c"], b["row_c"], TINY, rows)
        v.dup(b["row_b"], 1.0, rows)
        v.div(b["row_b"], b["row_b"], b["row_c"], rows)
        self._clear_tail(b["row_b"], height)
        self.tik.data_move(b["row_c"][0], self.gm["delta"][at], 0, 1, rows // F32_BLOCK, 0, 0)

    def _probabilities(self, head: Head, q0: Any, height: int, k0: Any, width: int) -> None:
        """scores = P, the normalised probabilities; ``delta_lanes`` = delta."""
        b, v = self.buffers, self.vector
        rows, columns = align(height), align(width)
        self._start_product("q", "k", rows, columns)
        packed = self.problem.has_row_bounds  # whose masks use the rows
        if not packed:
            self._load_rows(head, q0, height)
        self.cube.fetch(b["scores"], b["acc_s"], rows, columns)
        self.score_tile(b["scores"], head, q0, height, k0, width)
        self._start_product("do", "v", rows, columns)  # dP, while the vector unit is with the scores
        if packed:
            self._load_rows(head, q0, height)
        self.rows.spread(b["wide_a"], b["row_a"], rows)
        self.rows.spread(b["inverse_lanes"], b["row_b"], rows)
        self.rows.spread(b["delta_lanes"], b["row_c"], rows)
        self.each_slice(v.sub, "scores", "wide_a", rows, columns)
        v.exp(b["scores"], b["scores"], rows * columns)
        self.each_slice(v.mul, "scores", "inverse_lanes", rows, columns)
        self.isolation.hide(b["scores"], rows, columns)

    def _start_product(self, left: str, right: str, rows: int, columns: int) -> None:
        """acc_s = left (rows, D) @ right (columns, D) transposed, on its way to UB."""
        b, cube, depth = self.buffers, self.cube, self.problem.head_dim
        cube.load_left(b["left_rows"], b[left], rows, depth)
        cube.load_right(b["right_rows"], b[right], depth, columns)
        cube.multiply(b["acc_s"], b["left_rows"], b["right_rows"], rows, depth, columns)
        cube.leave(b["acc_s"], rows, columns)

    def _d_scores(self, head: Head, q0: Any, height: int, k0: Any, columns: int) -> None:
        """L1 p = P with dropout, L1 ds = P * (dP - delta) with dP = dO V^T under dropout, both in the input dtype."""
        p, b, v, rows = self.problem, self.buffers, self.vector, align(height)
        count, mode = rows * columns, round_mode_to(p.dtype)
        with b.phase("scores.cast"):
            for at, keep in self._keep_slices(head, q0, height, k0, columns):
                v.mul(b["wide_a"], b["scores"].shift(at), keep, rows * CUBE_BLOCK)
                v.convert(b["cast"].shift(at), b["wide_a"], rows * CUBE_BLOCK, mode)
            if not self.drops:
                v.convert(b["cast"], b["scores"], count, mode)
            self.cube.to_l1(b["p"], b["cast"], count)
        with b.phase("scores.grad"):
            self.cube.fetch(b["d_probs"], b["acc_s"], rows, columns)
            for at, keep in self._keep_slices(head, q0, height, k0, columns):
                v.mul(b["d_probs"].shift(at), b["d_probs"].shift(at), keep, rows * CUBE_BLOCK)
            self.each_slice(v.sub, "d_probs", "delta_lanes", rows, columns)
            with self.tik.if_scope(self.peaked > 0):
                self._add_peaks(head, q0, rows, columns)
            v.mul(b["scores"], b["scores"], b["d_probs"], count)
        self.isolation.hide(b["scores"], rows, columns)
        with b.phase("scores.cast"):
            v.convert(b["cast"], b["scores"], count, mode)
            self.cube.to_l1(b["ds"], b["cast"], count)
        if p.has_real_shift:
            self._store_shift(head, q0, height, k0, columns)

    def _add_peaks(self, head: Head, q0: Any, rows: int, columns: int) -> None:
        """d_probs += peaks where P = 1 / l. delta_lanes are used up."""
        b, v, count = self.buffers, self.vector, rows * CUBE_BLOCK
        at = head.flat * self.problem.q_rows_padded + q0
        self.tik.data_move(b["row_a"][0], self.gm["peaks"][at], 0, 1, rows // F32_BLOCK, 0, 0)
        self.rows.spread(b["wide_b"], b["row_a"], rows)
        v.muls(b["delta_lanes"], b["inverse_lanes"], 1.0 - _NEAR, count)
        for n1 in range(columns // CUBE_BLOCK):
            where, target = b["wide_a"], b["d_probs"].shift(n1 * count)
            v.sub(where, b["scores"].shift(n1 * count), b["delta_lanes"], count)
            v.muls(where, where, _STEEP, count)
            v.max(where, where, b["zeros"], count, row=True)
            v.min(where, where, b["ones"], count, row=True)
            v.mul_add(target, where, b["wide_b"], count)

    def _clear_shift(self, batch: Any, kv_head: Any) -> None:
        """d_real_shift that was added to is 0 again."""
        p = self.problem
        if not p.has_real_shift or self.call["d_real_shift"].shape[2] > 1:
            return
        with self.tik.for_range(0, p.group) as member:
            plane = batch * p.q_heads + kv_head * p.group + member
            with self.tik.for_range(0, p.kv_padded // CUBE_BLOCK) as n1:
                target = self.gm["d_real_shift"][plane * p.kv_padded + n1 * CUBE_BLOCK]
                self.tik.data_move(target, self.buffers["zeros"][0], 0, 1, CUBE_BLOCK // F32_BLOCK, 0, 0)

    def _store_shift(self, head: Head, q0: Any, height: int, k0: Any, columns: int) -> None:
        """d_real_shift of the tile = dS, or += its sum over the rows where one row of the bias serves all. The scores
        are used up."""
        b, v, rows = self.buffers, self.vector, align(height)
        # Watched by itself: operands of the other gradients may be float16 that has no NaN, and this is float32.
        self.isolation.watch((b["scores"], rows * columns))
        gm, start = self._slice_at("d_real_shift", head, q0, k0)
        count, blocks = rows * CUBE_BLOCK, CUBE_BLOCK // F32_BLOCK
        if self.call["d_real_shift"].shape[2] > 1 or self.problem.q_len == 1:
            v.adds(b["scores"], b["scores"], 0.0, rows * columns)  # -0 of what no row sees is 0, as isolation gives
            stride = self.problem.kv_padded // F32_BLOCK - blocks
            for n1 in range(columns // CUBE_BLOCK):
                self.tik.data_move(gm[start + n1 * CUBE_BLOCK], b["scores"][n1 * count], 0, height, blocks, 0, stride)
            return
        sums = b["wide_a"]
        self.tik.data_move(sums[0], gm[start], 0, 1, columns // F32_BLOCK, 0, 0)
        for n1 in range(columns // CUBE_BLOCK):
            tile, left = b["scores"].shift(n1 * count), rows
            while left > 1:
                half = left // 2
                v.add(tile, tile, tile.shift((left - half) * CUBE_BLOCK), half * CUBE_BLOCK)
                left -= half
            v.add(sums.shift(n1 * CUBE_BLOCK), sums.shift(n1 * CUBE_BLOCK), tile, CUBE_BLOCK)
        self.tik.data_move(gm[start], sums[0], 0, 1, columns // F32_BLOCK, 0, 0)

    def _keep_slices(self, head: Head, q0: Any, height: int, k0: Any, columns: int) -> Iterator[tuple[int, Tile]]:
        """Offset and keep / keep_prob of every slice ``[rows, 16]`` of the tile; nothing without dropout. Made anew for
        each use: a kept tile would cost as much UB as the scores."""
        rows = align(height)
        for column in range(0, columns if self.drops else 0, CUBE_BLOCK):
            keep = self.keep_slice(head, q0, height, k0 + column)
            self.vector.muls(keep, keep, 1.0 / self.problem.keep_prob, rows * CUBE_BLOCK)
            yield column * rows, keep

    def _add_kv(self, rows: int, columns: int, visited: Any) -> None:
        """acc_dv (+)= P^T dO; acc_dk (+)= dS^T Q; the first tile overwrites."""
        b, cube, depth = self.buffers, self.cube, self.problem.head_dim
        with b.phase("kv_sum"):
            for sums, left, right in (("acc_dv", "p", "do"), ("acc_dk", "ds", "q")):
                cube.load_left(b["left_turned"], b[left], columns, rows, turned=True)
                cube.load_right(b["right_turned"], b[right], rows, depth, turned=True)
                with self.tik.if_scope(visited == 0):
                    cube.multiply(b[sums], b["left_turned"], b["right_turned"], columns, rows, depth)
                with self.tik.else_scope():
                    cube.multiply(b[sums], b["left_turned"], b["right_turned"], columns, rows, depth, accumulate=True)

    def _add_dq(self, head: Head, block: Any, rows: int, columns: int) -> None:
        """dQ sums of the block += dS K."""
        b, cube, depth = self.buffers, self.cube, self.problem.head_dim
        step = self.plan.buffer("dq_sum").elements // self.plan.q_block  # columns at a time
        with b.phase("dq"):
            if step == depth:
                self.tik.data_move(b["dq_sum"][0], self._dq_at(head, block), 0, 1, rows * step // F32_BLOCK, 0, 0)
            cube.load_left(b["left_ds"], b["ds"], rows, columns)
            cube.load_right(b["right_k"], b["k"], columns, depth, turned=True)
            cube.multiply(b["acc_dq"], b["left_ds"], b["right_k"], rows, columns, depth)
            cube.to_ub(b["dq_tile"], b["acc_dq"], rows, depth)
            for column in range(0, depth, step):
                at, count = self._dq_at(head, block, column * rows), rows * step
                if step < depth:
                    self.tik.data_move(b["dq_sum"][0], at, 0, 1, count // F32_BLOCK, 0, 0)
                self.vector.add(b["dq_sum"], b["dq_sum"], b["dq_tile"].shift(column * rows), count)
                self.tik.data_move(at, b["dq_sum"][0], 0, 1, count // F32_BLOCK, 0, 0)


def flash_attention_grad(call: KernelCall) -> Any:
    """Entry of the kernel."""
    plan = plan_backward(problem_of(call), call.soc, call.attrs["tiling_stgy_name"])
    return FlashAttentionBackward(call, plan).build()
