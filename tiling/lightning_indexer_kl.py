# SPDX-License-Identifier: Apache-2.0
"""Tiling of sparse_lightning_indexer_grad_kl_loss: heads per tile, buffers, core split."""

from __future__ import annotations

from dataclasses import dataclass

from ms_custom_ops.errors import BudgetError
from ms_custom_ops.soc.table import CUBE_BLOCK, Soc
from ms_custom_ops.tiling.budget import DTYPE_BYTES, BufferSpec, align, fits, table
from ms_custom_ops.tiling.sparse_flash_attention_problem import (
    F32_LANES,
    SparseProblem,
    gather_buffers,
    largest_chunk,
    padded_row,
)
from ms_custom_ops.tiling.split import CoreSplit

_SIDES = (128, 64, 32, 16)
_MOST_TOKENS = 64
"""Half a tile: its additions are on their way while the products of the other half are made."""


@dataclass(frozen=True)
class KlPlan:
    """``head_rows`` heads of the main attention are one tile, all heads of the indexer another; the depth of a product
    goes through L0 in pieces of ``depth_chunk``; gradients of ``kv_tokens`` keys leave the cube at once."""

    problem: SparseProblem
    soc: Soc
    index_heads: int
    index_dim: int
    head_rows: int
    depth_chunk: int
    kv_tokens: int
    buffers: tuple[BufferSpec, ...]
    split: CoreSplit
    deterministic: bool

    @property
    def index_rows(self) -> int:
        """Heads of the indexer, padded for the cube."""
        return align(self.index_heads)

    @property
    def head_tiles(self) -> list[tuple[int, int]]:
        """(first head, heads) of the tiles of the main attention."""
        group = self.problem.group
        return [(at, min(self.head_rows, group - at)) for at in range(0, group, self.head_rows)]

    @property
    def two_products(self) -> bool:
        """L0C has room for the products of the main attention and of the indexer side by side."""
        return any(b.name == "acc_2" for b in self.buffers)

    @property
    def row_columns(self) -> int:
        """Columns of all tiles of a row."""
        return row_columns(self.problem)


def row_columns(p: SparseProblem) -> int:
    """Columns of all tiles of an index row, padded to whole repeats."""
    return align(-(-p.slots // p.tile_slots) * p.columns, F32_LANES)


def kl_buffers(
    p: SparseProblem, soc: Soc, heads: int, dim: int, m: int, depth: int, tokens: int
) -> tuple[BufferSpec, ...]:
    """On-chip buffers for ``m`` heads of the main attention and ``heads`` of the indexer, ``dim`` wide."""
    n, t, mi, total = p.columns, p.dtype, align(heads), row_columns(p)
    tall, group = max(m, mi), align(p.group)
    floats = [
        ("row_a", tall, ""),
        ("row_b", tall, ""),
        ("row_c", tall, ""),
        ("ones", max(tall, F32_LANES), ""),
        ("turn", tall * CUBE_BLOCK, ""),
        ("max_lanes", group * CUBE_BLOCK, ""),
        ("inverse", group * CUBE_BLOCK, ""),
        ("weight_lanes", mi * CUBE_BLOCK, ""),
        ("d_weight_lanes", mi * CUBE_BLOCK, ""),
        ("target", total, ""),
        ("model", total, ""),
        ("reduced", F32_LANES, ""),
        ("single", F32_LANES, ""),
        ("head_line", n, ""),
        ("scratch", total, "loss"),
        ("scores", tall * n, "scores"),
        ("product", mi * n, "scores"),
        ("kv_tile", tokens * padded_row(dim), "kv"),
        ("kv_tile_2", tokens * padded_row(dim), "kv"),
        ("kv_turn", tokens * dim, "kv"),
        ("dq_tile", mi * dim, "final"),
    ]
    out = gather_buffers(p, holds=True) + [BufferSpec(name, "ub", "float32", e, phase) for name, e, phase in floats]
    out += [
        BufferSpec("cast", "ub", t, mi * n, "scores"),
        BufferSpec("dq_cast", "ub", t, mi * dim, "final"),
        BufferSpec("q", "l1", t, group * p.head_dim),
        BufferSpec("k", "l1", t, n * p.head_dim),
        BufferSpec("q_index", "l1", t, mi * dim),
        BufferSpec("k_index", "l1", t, n * dim),
        BufferSpec("dz", "l1", t, mi * n),
        BufferSpec("left", "l0a", t, tall * depth, "scores"),
        BufferSpec("right", "l0b", t, n * depth, "scores"),
        BufferSpec("acc", "l0c", "float32", tall * n, "scores"),
        BufferSpec("acc_dq", "l0c", "float32", mi * dim),
        BufferSpec("left_dz", "l0a", t, mi * n, "dq"),
        BufferSpec("right_k", "l0b", t, n * dim, "dq"),
        BufferSpec("left_kv", "l0a", t, tokens * mi, "kv"),
        BufferSpec("right_kv", "l0b", t, mi * dim, "kv"),
        BufferSpec("acc_kv", "l0c", "float32", tokens * dim, "kv"),
    ]
    if (mi * dim + 2 * tall * n) * DTYPE_BYTES["float32"] <= soc.l0c_bytes:
        out.append(BufferSpec("acc_2", "l0c", "float32", tall * n, "scores"))
    if p.rope_dim:
        out += [BufferSpec("q_rope", "l1", t, group * p.rope_dim), BufferSpec("k_rope", "l1", t, n * p.rope_dim)]
    return tuple(out)


def plan_kl(p: SparseProblem, heads: int, dim: int, soc: Soc, deterministic: bool) -> KlPlan:
    """Most heads per tile, then the most keys per gradient; tasks as in the backward of sparse_flash_attention.
    BudgetError when nothing fits."""
    buffers: tuple[BufferSpec, ...] = ()
    size = DTYPE_BYTES[p.dtype]
    tasks = p.batch + int(p.packed) if deterministic else p.q_rows
    for m in sorted({min(side, p.group_padded) for side in _SIDES}, reverse=True):
        limit = min(soc.l0a_bytes // (max(m, align(heads)) * size), soc.l0b_bytes // (p.columns * size))
        depth = largest_chunk(max(p.head_dim, dim), limit)
        for tokens in range(min(p.columns, _MOST_TOKENS), 0, -CUBE_BLOCK):
            buffers = kl_buffers(p, soc, heads, dim, m, depth, tokens)
            if depth and fits(buffers, soc):
                return KlPlan(
                    p, soc, heads, dim, m, depth, tokens, buffers, CoreSplit(tasks, soc.core_count), deterministic
                )
    raise BudgetError(
        f"sparse_lightning_indexer_grad_kl_loss: no tile of N1={p.q_heads} D={p.head_dim} K={p.slots} "
        f"fits {soc.name}:\n{table(buffers, soc)}"
    )
