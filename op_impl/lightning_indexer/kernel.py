# SPDX-License-Identifier: Apache-2.0
"""Lightning indexer in TIK: one task per query row; scores of its visible keys, then the best of them."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.lightning_indexer.ranks import RankSelection
from ms_custom_ops.op_impl.lightning_indexer.record_sort import ProposalSelection, RecordSelection
from ms_custom_ops.op_impl.lightning_indexer.select import ABSENT, HIGHEST, LOWEST
from ms_custom_ops.op_impl.sparse.base import F32_BLOCK, SparseKernel
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK, MAX_REPEAT
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.budget import align
from ms_custom_ops.tiling.lightning_indexer import PROPOSALS, RANKS, RECORDS, plan_indexer
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES, PAGED, SparseProblem

_SELECTIONS = {RECORDS: RecordSelection, PROPOSALS: ProposalSelection, RANKS: RankSelection}


class LightningIndexer(SparseKernel):
    """Tensors as in op_info/lightning_indexer.yaml."""

    gm_names = {"actual_seq_lengths_key": "actual_seq_lengths_kv"}

    def prepare(self) -> None:
        super().prepare()
        b, v = self.buffers, self.vector
        for name, value in (("zeros", 0.0), ("ones", 1.0), ("lowest", LOWEST), ("highest", HIGHEST)):
            v.dup(b[name], value, F32_LANES)
        self.selection = _SELECTIONS[self.plan.order](self.tik, self.plan, b, v, self.scalar)

    def task(self, index: Any) -> None:
        self.sequences.seek(index)
        self._load_row(index)
        plan, visible = self.plan, self.sequences.visible
        self.selection.clear()
        with self.buffers.phase("chunk"):
            with self.tik.for_range(0, self.scalar.hold((visible + (plan.chunk - 1)) // plan.chunk)) as step:
                self._chunk(self.scalar.hold(step * plan.chunk))
        with self.buffers.phase("order"):
            self.selection.sort(lambda name, tile: self._store(index, name, tile))

    def _load_row(self, row: Any) -> None:
        p, b, rows = self.problem, self.buffers, self.plan.rows
        self.load_heads(self.buffers["q"], "query", row, 0, p.q_heads, p.head_dim)
        self.cube.load_left(b["left"], b["q"], rows, p.head_dim)
        self.move_rows(b["row_a"][0], self.gm["weights"][row * rows], rows)
        self.clear_rows(b["row_a"], p.q_heads, rows)
        self.rows.spread(b["weight_lanes"], b["row_a"], rows)

    def _chunk(self, base: Any) -> None:
        """Select among the keys kept so far and ``chunk`` keys from ``base`` on."""
        tile, selection = self.plan.tile, self.selection
        new = selection.begin(base)
        here = self.scalar.minimum(self.sequences.visible - base, self.plan.chunk)
        tiles = self.scalar.hold((here + (tile - 1)) // tile)
        with self.buffers.phase("chunk.scores"):
            self._start(base, here)
            if self.plan.scores_twice:
                self.cube.fetch(self.buffers["scores"], self.buffers["acc"], self.plan.rows, tile)
            with self.tik.for_range(0, tiles) as j:
                at = self.scalar.hold(j * tile)
                self._scores(j, base + at, here - at, new.shift(at))
        whole = align(tile, F32_LANES)
        selection.fill(new, here, (here + (whole - 1)) // whole * whole, ABSENT)
        selection.select(selection.found + here, base)

    def _start(self, token: Any, left: Any) -> None:
        """L0C acc = products with the keys from ``token`` on, as far as the cube goes with them."""
        p, plan, b, cube = self.problem, self.plan, self.buffers, self.cube
        self._load_keys(token, left)
        cube.load_right(b["right"], b["k"], p.head_dim, plan.tile)
        cube.multiply(b["acc"], b["left"], b["right"], plan.rows, p.head_dim, plan.tile)
        cube.leave(b["acc"], plan.rows, plan.tile)

    def _scores(self, turn: Any, token: Any, left: Any, out: Tile) -> None:
        """out ``[tile]`` = scores of the keys from ``token`` on, whose products were started, anything behind the first
        ``left``. Products of the next tile start, and where there is room arrive, beside the work on these."""
        plan, b, v, cube = self.plan, self.buffers, self.vector, self.cube
        rows, tile, scores = plan.rows, plan.tile, b["scores"]
        if plan.scores_twice:
            half = self.scalar.hold(turn % 2 * (rows * tile))
            scores, other = scores.shift(half), scores.shift(rows * tile - half)
        else:
            cube.fetch(scores, b["acc"], rows, tile)
        with self.tik.if_scope(left > tile):
            self._start(token + tile, left - tile)
            if plan.scores_twice:
                cube.fetch(other, b["acc"], rows, tile)
        self._clear_padding(scores)
        v.max(scores, scores, b["zeros"], rows * tile, row=True)
        self.by_rows(self.tik.vec_mul, scores, b["weight_lanes"], rows, tile)
        self.sum_rows(b["line"], scores, rows, tile)
        v.max(b["line"], b["line"], b["lowest"], tile, row=True)  # the second source where the first is NaN
        v.min(out, b["line"], b["highest"], tile, row=True)

    def _clear_padding(self, scores: Tile) -> None:
        """0 for the rows behind the heads: they repeat a head, and an infinite score times their weight 0 is NaN."""
        size, slices = self.plan.rows * CUBE_BLOCK, self.plan.tile // CUBE_BLOCK
        stride = size // F32_BLOCK
        at_once = slices if stride <= MAX_REPEAT else 1
        for at in range(self.problem.q_heads * CUBE_BLOCK, size, F32_LANES):
            for first in range(0, slices, at_once):
                lanes = min(F32_LANES, size - at)
                self.tik.vec_dup(lanes, scores[first * size + at], 0.0, at_once, stride if at_once > 1 else 0)

    def _load_keys(self, token: Any, left: Any) -> None:
        """L1 k ``[D/16, tile, 16]`` = keys from ``token`` on, as many as there are in the tile."""
        p, b, t, tile = self.problem, self.buffers, self.tik, self.plan.tile
        if p.paged:
            page = t.Scalar("int32")
            page.set_as(b["page_table"][token // p.kv_len])
            first = page * p.kv_len + token % p.kv_len
        else:
            first = self.sequences.kv_first + token
        start = self.scalar.hold(first * p.head_dim)
        count = self.scalar.minimum(left, tile)
        if self.plan.soc.split_core:
            t.data_move_multi_nd2nz(b["k"][0], self.gm["key"][start], 1, count, p.head_dim, 0, p.head_dim, tile, 1, 1)
            return
        c1 = p.head_dim // CUBE_BLOCK
        for c in range(c1):
            t.data_move(b["k"][c * tile * CUBE_BLOCK], self.gm["key"][start + c * CUBE_BLOCK], 0, count, 1, c1 - 1, 0)

    def _store(self, row: Any, name: str, tile: Tile) -> None:
        slots = self.gm["sparse_values"].shape[3]
        self.tik.data_move(self.gm[name][row * slots], tile[0], 0, 1, slots * 4 // BLOCK_BYTES, 0, 0)


def lightning_indexer(call: KernelCall) -> Any:
    """Entry of the kernel."""
    query, key, layout = call["query"], call["key"], call.attrs["layout_query"]
    batches, q_len, heads, dim = query.shape
    kv_batches, kv_len = key.shape[:2]
    lengths = "actual_seq_lengths_query" in call
    problem = SparseProblem(
        batch=call["actual_seq_lengths_query"].shape[0] if layout == "TND" and lengths else batches,
        q_rows=batches * q_len,
        q_len=q_len,
        kv_rows=kv_batches * kv_len,
        kv_len=kv_len,
        q_heads=heads,
        kv_heads=1,
        head_dim=dim,
        value_dim=dim,
        rope_dim=0,
        slots=call["sparse_indices"].shape[3],
        dtype=query.dtype,
        scale_value=1.0,
        block_size=1,
        packed=layout == "TND",
        sparse_mode=call.attrs["sparse_mode"],
        paged=call.attrs["layout_key"] == PAGED,
        pages=call["block_table"].shape[1] if "block_table" in call else 0,
        has_q_lengths=lengths,
        has_kv_lengths="actual_seq_lengths_key" in call,
    )
    plan = plan_indexer(problem, call.attrs["sparse_count"], call.soc)
    return LightningIndexer(call, plan).build()
