# SPDX-License-Identifier: Apache-2.0
"""What the forward and the backward FlashAttention kernel share: the problem, score tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_custom_ops.op_impl.common.kernel import CubeKernel
from ms_custom_ops.op_impl.common.tile import Tile
from ms_custom_ops.op_impl.common.vector import lanes_of
from ms_custom_ops.op_impl.flash_attention.dropout import Dropout
from ms_custom_ops.op_impl.flash_attention.isolation import Isolation
from ms_custom_ops.op_impl.flash_attention.visibility import Visibility
from ms_custom_ops.soc.table import BLOCK_BYTES, CUBE_BLOCK
from ms_custom_ops.tik.call import KernelCall
from ms_custom_ops.tiling.budget import align
from ms_custom_ops.tiling.flash_attention import AttentionPlan, AttentionProblem

F32_BLOCK = BLOCK_BYTES // 4
"""float32 elements of a block, the unit of data_move."""
TINY = 1e-30
"""Added to a row sum (which is 0 or at least 1) before it divides, so that an empty row gives 0."""
_LANES = lanes_of("float32")


def problem_of(call: KernelCall) -> AttentionProblem:
    """The problem that the tensors and attributes of a call state."""
    query = call["query"]
    batch, q_heads, q_len, head_dim = query.shape
    _, kv_heads, kv_len, _ = call["key"].shape
    return AttentionProblem(
        batch,
        q_heads,
        kv_heads,
        q_len,
        kv_len,
        head_dim,
        query.dtype,
        **{name: value for name, value in call.attrs.items() if name != "tiling_stgy_name"},
        has_q_lengths="actual_seq_qlen" in call,
        has_kv_lengths="actual_seq_kvlen" in call,
        has_attn_mask="attn_mask" in call,
        has_real_shift="real_shift" in call,
        has_drop_mask="drop_mask" in call,
        has_seed_words="seed_words" in call,
        has_row_bounds="row_bounds" in call,
    )


class AttentionKernel(CubeKernel):
    """Base of both kernels; tensors as in the op_info files."""

    problem: AttentionProblem
    plan: AttentionPlan

    def workspaces(self) -> None:
        super().workspaces()
        plan = self.plan
        self.workspace("visible_tiles", "float32", plan.split.block_num * plan.q_block * plan.kv_block)

    def prepare(self) -> None:
        super().prepare()
        t = self.tik
        self.isolation = Isolation(self)
        self.visibility = Visibility(t, self.plan, self.buffers, self.vector, self.rows, self.gm)
        self.visibility.prepare()
        self.dropout = None
        if self.problem.seeded_dropout:
            words = self.gm.get("seed_words")
            self.dropout = Dropout(t, self.problem, self.buffers, self.vector, self.plan.q_block, words)
            self.dropout.prepare()

    def score_tile(self, scores: Tile, head: Head, q0: Any, height: int, k0: Any, width: int) -> None:
        """scores (Q K^T in UB) becomes scale * scores + bias + penalties."""
        rows, columns = align(height), align(width)
        self.vector.muls(scores, scores, self.problem.scale_value, rows * columns)
        if self.problem.has_real_shift:
            self._add_shift(scores, head, q0, height, k0, columns)
        self.isolation.hide(scores, rows, columns)
        self.penalties(scores, head, q0, height, k0, width)

    def penalties(self, scores: Tile, head: Head, q0: Any, height: int, k0: Any, width: int) -> None:
        """Add the penalties of the tile of keys that rows do not see."""
        if self.problem.has_attn_mask:
            self._add_mask(scores, head, q0, height, k0, align(width))
        self.visibility.mask(scores, q0, height, k0, width, head.q_length, head.kv_length)

    def _slice_at(self, name: str, head: Head, q0: Any, k0: Any) -> tuple[Any, Any]:
        """GM tensor and element offset of row q0, column k0 in a (1|B, 1|N1, 1|S1, S2 padded) tensor."""
        batches, heads, q_rows, row = self.call[name].shape
        plane = (head.batch if batches > 1 else 0) * heads + (head.index if heads > 1 else 0)
        return self.gm[name], (plane * q_rows + (q0 if q_rows > 1 else 0)) * row + k0

    def load_slice(self, target: Tile, name: str, start: Any, height: int, row_elements: int) -> None:
        """``[rows, 16]`` of a GM matrix with rows of ``row_elements``; rows beyond ``height`` are 0."""
        rows = align(height)
        if height < rows:
            self.vector.dup(target.shift(height * CUBE_BLOCK), 0.0, (rows - height) * CUBE_BLOCK)
        self.fractals.load_slice(target, self.gm[name], start, height, row_elements)

    def _add_mask(self, scores: Tile, head: Head, q0: Any, height: int, k0: Any, columns: int) -> None:
        rows = align(height)
        count = rows * CUBE_BLOCK
        half, wide = self.buffers["mask_slice"], self.buffers["mask_wide"]
        _, start = self._slice_at("attn_mask", head, q0, k0)
        for n1 in range(columns // CUBE_BLOCK):
            self.load_slice(half, "attn_mask", start + n1 * CUBE_BLOCK, height, self.problem.kv_padded)
            self.vector.convert(wide, half, count)
            self.vector.mul_add(scores.shift(n1 * count), wide, self.buffers["penalty"], count, row=True)

    def _add_shift(self, scores: Tile, head: Head, q0: Any, height: int, k0: Any, columns: int) -> None:
        rows = align(height)
        count = rows * CUBE_BLOCK
        half, wide = self.buffers["shift_slice"], self.buffers["mask_wide"]
        gm, start = self._slice_at("real_shift", head, q0, k0)
        one_row = self.call["real_shift"].shape[2] == 1
        for n1 in range(columns // CUBE_BLOCK):
            at = start + n1 * CUBE_BLOCK
            tile = scores.shift(n1 * count)
            if one_row:
                for copy in range(_LANES // CUBE_BLOCK):
                    self.tik.data_move(half[copy * CUBE_BLOCK], gm[at], 0, 1, 1, 0, 0)
                self.vector.convert(self.buffers["line"], half, _LANES)
                self.vector.add(tile, tile, self.buffers["line"], count, row=True)
            else:
                self.load_slice(half, "real_shift", at, height, self.problem.kv_padded)
                self.vector.convert(wide, half, count)
                self.vector.add(tile, tile, wide, count)

    def keep_slice(self, head: Head, q0: Any, height: int, column: Any) -> Tile | None:
        """Keep factors ``[rows, 16]`` from column ``column`` on; None without dropout."""
        rows = align(height)
        if self.dropout is not None:
            return self.dropout.keep(rows, q0, column)
        if not self.problem.has_drop_mask:
            return None
        half, wide = self.buffers["mask_slice"], self.buffers["mask_wide"]
        _, start = self._slice_at("drop_mask", head, q0, column)
        self.load_slice(half, "drop_mask", start, height, self.problem.kv_padded)
        self.vector.convert(wide, half, rows * CUBE_BLOCK)
        return wide

    def each_slice(self, combine: Callable, name: str, lanes: str, rows: int, columns: int) -> None:
        """Combine every slice ``[rows, 16]`` of tile ``name`` with the row values in ``lanes``, in place."""
        count = rows * CUBE_BLOCK
        for n1 in range(columns // CUBE_BLOCK):
            tile = self.buffers[name].shift(n1 * count)
            combine(tile, tile, self.buffers[lanes], count)

    @property
    def drops(self) -> bool:
        """Dropout is in force."""
        return self.dropout is not None or self.problem.has_drop_mask


class Head:
    """One query head of one batch entry: positions in GM and the lengths in force."""

    def __init__(self, kernel: AttentionKernel, batch: Any, index: Any):
        p = kernel.problem
        self.batch = batch
        self.index = index
        self.flat = kernel.scalar.hold(batch * p.q_heads + index)
        self.kv_flat = kernel.scalar.hold(batch * p.kv_heads + index // p.group)
        self.q_length, self.kv_length = kernel.visibility.lengths(batch)
        if kernel.dropout is not None:
            kernel.dropout.head(self.flat)
