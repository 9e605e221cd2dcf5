# SPDX-License-Identifier: Apache-2.0
"""Tiling of lightning_indexer: keys per score tile, candidates per selection, buffers, core split.

A query row scores its visible keys in tiles, collects ``chunk`` scores at a time beside the best of what came before,
and keeps the best ``count`` of them.
"""
from __future__ import annotations

from dataclasses import dataclass

from ms_custom_ops.errors import BudgetError
from ms_custom_ops.soc.table import CUBE_BLOCK, Soc
from ms_custom_ops.tiling.budget import BufferSpec, align, fits, table
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES, I32_BLOCK, SparseProblem
from ms_custom_ops.tiling.split import CoreSplit

_TILE_KEYS = (256, 128, 64, 32, 16)
_CHUNKS = (16384, 8192, 4096, 2048, 1024, 512, 256)


@dataclass(frozen=True)
class IndexerPlan:
    """``rows`` heads padded for the cube, ``tile`` keys per score tile, ``chunk`` scores per selection (a multiple of
    the tile), ``kept`` places in front of a chunk for earlier candidates (0 when one chunk holds every key)."""

    problem: SparseProblem
    soc: Soc
    count: int
    rows: int
    tile: int
    chunk: int
    buffers: tuple[BufferSpec, ...]
    split: CoreSplit

    @property
    def kept(self) -> int:
        """Places for earlier candidates."""
        return kept_places(self.problem, self.count, self.chunk)

    @property
    def candidates(self) -> int:
        """Places for candidates, a whole number of repeats."""
        return candidate_places(self.problem, self.count, self.chunk)

    def elements(self, scope: str) -> int:
        """Largest buffer of a scope."""
        return max(b.elements for b in self.buffers if b.scope == scope)


def most_keys(p: SparseProblem) -> int:
    """Most keys a row can see."""
    return p.pages * p.kv_len if p.paged else p.kv_rows if p.packed else p.kv_len


def kept_places(p: SparseProblem, count: int, chunk: int) -> int:
    """Places for earlier candidates; 0 when one chunk holds every key."""
    return 0 if chunk >= most_keys(p) else align(count, F32_LANES)


def candidate_places(p: SparseProblem, count: int, chunk: int) -> int:
    """Places for candidates, a whole number of repeats."""
    return align(kept_places(p, count, chunk) + chunk, F32_LANES)


def _tiles(p: SparseProblem) -> list[int]:
    """Key counts of a tile: a paged tile stays within a page."""
    most = align(most_keys(p))
    return [t for t in _TILE_KEYS if t <= max(most, CUBE_BLOCK) and (not p.paged or p.kv_len % t == 0)]


def indexer_buffers(p: SparseProblem, count: int, tile: int, chunk: int) -> tuple[BufferSpec, ...]:
    """On-chip buffers for tiles of ``tile`` keys and selections from ``chunk`` scores."""
    m, d, t = align(p.q_heads), p.head_dim, p.dtype
    listed = align(count, F32_LANES)
    total = candidate_places(p, count, chunk)
    floats = [("candidates", max(total, listed), ""), ("probe", total, "select"), ("best_value", listed, ""),
              ("rank", listed, "order"), ("zeros", F32_LANES, ""), ("ones", F32_LANES, ""), ("sum", F32_LANES, ""),
              ("level", F32_LANES, ""), ("ramp", align(tile, F32_LANES), ""), ("line", align(tile, F32_LANES), ""),
              ("bound", align(tile, F32_LANES), ""), ("row_a", m, ""), ("turn", m * CUBE_BLOCK, ""),
              ("weight_lanes", m * CUBE_BLOCK, ""), ("scores", m * tile, "scores")]
    ints = [("bits", align(total // 32, I32_BLOCK), "select"), ("best_id", listed, ""), ("spare_id", listed, "")]
    out = [BufferSpec(n, "ub", "float32", e, phase) for n, e, phase in floats]
    out += [BufferSpec(n, "ub", "int32", e, phase) for n, e, phase in ints]
    out += [BufferSpec("q", "l1", t, m * d), BufferSpec("k", "l1", t, tile * d), BufferSpec("left", "l0a", t, m * d),
            BufferSpec("right", "l0b", t, tile * d), BufferSpec("acc", "l0c", "float32", m * tile)]
    for name, has in (("q_lengths", p.has_q_lengths), ("kv_lengths", p.has_kv_lengths)):
        if has:
            out.append(BufferSpec(name, "ub", "int32", align(p.batch, I32_BLOCK)))
    if p.paged:
        out.append(BufferSpec("page_table", "ub", "int32", p.pages))
    return tuple(out)


def plan_indexer(p: SparseProblem, count: int, soc: Soc) -> IndexerPlan:
    """Widest tile, then the longest selection; BudgetError when nothing fits."""
    buffers: tuple[BufferSpec, ...] = ()
    for tile in _tiles(p):
        whole = align(most_keys(p), max(tile, F32_LANES))
        for chunk in [whole, *(c for c in _CHUNKS if c < whole and c % tile == 0)]:
            buffers = indexer_buffers(p, count, tile, chunk)
            if fits(buffers, soc):
                split = CoreSplit(p.q_rows, soc.core_count)
                return IndexerPlan(p, soc, count, align(p.q_heads), tile, chunk, buffers, split)
    raise BudgetError(f"lightning_indexer: no tile of N1={p.q_heads} D={p.head_dim} K={count} fits {soc.name}:\n"
                      f"{table(buffers, soc)}")
