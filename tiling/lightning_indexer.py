# SPDX-License-Identifier: Apache-2.0
"""Tiling of lightning_indexer: keys per score tile, candidates per selection, order of the list, buffers, core split.

A query row scores its visible keys in tiles, collects ``chunk`` scores at a time beside the best of what came before,
keeps the best ``count`` of them, and puts these in order at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from ms_custom_ops.errors import BudgetError
from ms_custom_ops.soc.support import codes, column
from ms_custom_ops.soc.table import CUBE_BLOCK, Soc
from ms_custom_ops.tiling.budget import BufferSpec, align, fits, table
from ms_custom_ops.tiling.choice import tuned_choice
from ms_custom_ops.tiling.sparse_flash_attention_problem import F32_LANES, I32_BLOCK, SparseProblem
from ms_custom_ops.tiling.split import CoreSplit

_TILE_KEYS = (256, 128, 64, 32, 16)
_CHUNKS = (16384, 8192, 4096, 2048, 1024, 512, 256)

RECORDS = "records"
PROPOSALS = "proposals"
RANKS = "ranks"
_NEEDS = {
    RECORDS: ("vreducev2", "vbitsort32", "vmrgsort4v2"),
    PROPOSALS: ("vreduce", "vconcat", "vextract", "vbitsort", "vmrgsort4"),
    RANKS: (),
}
"""Instructions, by their names in the support table, that an order needs for float32."""
RECORD_FLOATS = {RECORDS: 2, PROPOSALS: 8}
"""float32 elements of what the sort instructions move: score and id, or a region proposal."""
_EXACT_FLOAT = 1 << 24
"""float32 holds every integer up to this one; ids in a region proposal are float32."""
_BITS_BLOCK = 8
"""32-bit words of the 32-byte block in which vreduce looks for the bits of each repeat."""


@dataclass(frozen=True)
class IndexerPlan:
    """``rows`` heads padded for the cube, ``tile`` keys per score tile, ``chunk`` scores per selection (a multiple of
    the tile), ``kept`` places in front of a chunk for earlier candidates (0 when one chunk holds every key).

    ``order``: RECORDS (vsort32, vmrgsort), PROPOSALS (vrpsort16, vmrgsort4) or RANKS (every entry against every other
    one: for chips whose sort instructions know no float32, and where nothing else fits).
    ``scores_twice``: scores of a tile arrive while those of the one before are worked on."""

    problem: SparseProblem
    soc: Soc
    count: int
    order: str
    rows: int
    tile: int
    chunk: int
    buffers: tuple[BufferSpec, ...]
    split: CoreSplit
    scores_twice: bool = False

    @property
    def listed(self) -> int:
        """Places of the list of the best."""
        return listed_places(self.count, self.order)

    @property
    def kept(self) -> int:
        """Places for earlier candidates."""
        return kept_places(self.problem, self.count, self.chunk, self.order)

    @property
    def candidates(self) -> int:
        """Places for candidates, a whole number of repeats."""
        return candidate_places(self.problem, self.count, self.chunk, self.order)


@dataclass(frozen=True)
class _Asked(SparseProblem):
    """What a choice is stored for."""

    count: int = 0


def most_keys(p: SparseProblem) -> int:
    """Most keys a row can see."""
    return p.pages * p.kv_len if p.paged else p.kv_rows if p.packed else p.kv_len


def orders(p: SparseProblem, soc: Soc) -> list[str]:
    """Ways to put the list in order on a chip, best first."""
    family = column(soc)
    have = [order for order, needs in _NEEDS.items() if all("f32" in codes(name, family) for name in needs)]
    if most_keys(p) > _EXACT_FLOAT and PROPOSALS in have:
        have.remove(PROPOSALS)
    return have


def listed_places(count: int, order: str) -> int:
    """Places of the list, a whole number of repeats. Sorted lists have two parts (above the level, equal to it), each
    from a 32-byte block on."""
    return align(count if order == RANKS else align(count, I32_BLOCK) + I32_BLOCK, F32_LANES)


def kept_places(p: SparseProblem, count: int, chunk: int, order: str) -> int:
    """Places for earlier candidates; 0 when one chunk holds every key."""
    return 0 if chunk >= most_keys(p) else listed_places(count, order)


def candidate_places(p: SparseProblem, count: int, chunk: int, order: str) -> int:
    """Places for candidates, a whole number of repeats."""
    return align(kept_places(p, count, chunk, order) + chunk, F32_LANES)


def _tiles(p: SparseProblem) -> list[int]:
    """Key counts of a tile: a paged tile stays within a page."""
    most = align(most_keys(p))
    return [t for t in _TILE_KEYS if t <= max(most, CUBE_BLOCK) and (not p.paged or p.kv_len % t == 0)]


def _order_buffers(order: str, listed: int, total: int) -> list[tuple[str, str, int, str]]:
    """Buffers of UB that depend on the way to order: name, dtype, elements, phase."""
    if order == RANKS:
        return [
            ("ids", "int32", listed, "chunk"),
            ("bits", "int32", align(total // 32, I32_BLOCK), "chunk.select"),
            ("rank", "float32", listed, "order"),
            ("steps", "float32", listed, "order"),
            ("taken", "int32", listed, "order"),
        ]
    words = total // 32 if order == RECORDS else total // F32_LANES * _BITS_BLOCK
    size = RECORD_FLOATS[order] * listed
    # Records of two floats have room, in turn, in the list itself.
    turns = ("sorted",) if order == RECORDS else ("sorted", "merged")
    return [
        ("ids", "int32", total, "chunk"),
        ("ramp", "int32", F32_LANES, ""),
        ("bits", "int32", align(words, I32_BLOCK), "chunk.select"),
        *((name, "float32", size, "order") for name in turns),
    ]


def indexer_buffers(
    p: SparseProblem, count: int, order: str, tile: int, chunk: int, scores_twice: bool = False
) -> tuple[BufferSpec, ...]:
    """On-chip buffers for tiles of ``tile`` keys, of one or two tiles' scores, and selections from ``chunk`` scores."""
    m, d, t = align(p.q_heads), p.head_dim, p.dtype
    listed, total = listed_places(count, order), candidate_places(p, count, chunk, order)
    floats = [
        ("best", 2 * listed, ""),
        ("candidates", total, "chunk"),
        ("probe", total, "chunk.select"),
        ("zeros", F32_LANES, ""),
        ("ones", F32_LANES, ""),
        ("lowest", F32_LANES, ""),
        ("highest", F32_LANES, ""),
        ("sum", F32_LANES, ""),
        ("level", F32_LANES, ""),
        ("line", align(tile, F32_LANES), ""),
        ("row_a", m, ""),
        ("turn", m * CUBE_BLOCK, ""),
        ("weight_lanes", m * CUBE_BLOCK, ""),
        ("scores", m * tile * (1 + scores_twice), "chunk.scores"),
    ]
    out = [BufferSpec(n, "ub", "float32", e, phase) for n, e, phase in floats]
    out += [BufferSpec(n, "ub", dtype, e, phase) for n, dtype, e, phase in _order_buffers(order, listed, total)]
    out += [
        BufferSpec("q", "l1", t, m * d),
        BufferSpec("k", "l1", t, tile * d),
        BufferSpec("left", "l0a", t, m * d),
        BufferSpec("right", "l0b", t, tile * d),
        BufferSpec("acc", "l0c", "float32", m * tile),
    ]
    for name, has in (("q_lengths", p.has_q_lengths), ("kv_lengths", p.has_kv_lengths)):
        if has:
            out.append(BufferSpec(name, "ub", "int32", align(p.batch, I32_BLOCK)))
    if p.paged:
        out.append(BufferSpec("page_table", "ub", "int32", p.pages))
    return tuple(out)


def _shapes(p: SparseProblem) -> Iterator[tuple[int, int]]:
    """``(tile, chunk)``, widest tile first, then longest chunk."""
    for tile in _tiles(p):
        whole = align(most_keys(p), max(tile, F32_LANES))
        for chunk in [whole, *(c for c in _CHUNKS if c < whole and c % tile == 0)]:
            yield tile, chunk


def _choices(p: SparseProblem, count: int, soc: Soc) -> list[dict[str, int]]:
    """Tiles and selections of the best order that has any, for tune."""
    for order in orders(p, soc):
        found = [
            {"tile": tile, "chunk": chunk}
            for tile, chunk in _shapes(p)
            if fits(indexer_buffers(p, count, order, tile, chunk), soc)
        ]
        if found:
            return found
    return []


def _order_of(p: SparseProblem, count: int, soc: Soc, tile: int, chunk: int) -> str:
    """The best order in which a tile and a selection fit, else the last."""
    have = orders(p, soc)
    return next((o for o in have if fits(indexer_buffers(p, count, o, tile, chunk), soc)), have[-1])


def _with_scores_twice(plan: IndexerPlan) -> IndexerPlan:
    """The plan with room for the scores of two tiles, where the chip has it. Where cube and vector share a core, the
    vector unit itself brings them, and nothing is won."""
    if not plan.soc.split_core or plan.chunk <= plan.tile:
        return plan
    buffers = indexer_buffers(plan.problem, plan.count, plan.order, plan.tile, plan.chunk, True)
    return replace(plan, buffers=buffers, scores_twice=True) if fits(buffers, plan.soc) else plan


def plan_indexer(p: SparseProblem, count: int, soc: Soc) -> IndexerPlan:
    """Best order of the chip that fits; widest tile, then the longest selection, that has at least as many new keys as
    kept ones, or the longest of all; or what tune found. BudgetError when nothing fits."""
    split = CoreSplit(p.q_rows, soc.core_count)

    def buffers_of(tile: int, chunk: int) -> tuple[BufferSpec, ...]:
        return indexer_buffers(p, count, _order_of(p, count, soc, tile, chunk), tile, chunk)

    found = tuned_choice("lightning_indexer", _Asked(**asdict(p), count=count), soc,
                         lambda: _choices(p, count, soc), buffers_of)  # fmt: skip
    if found is not None:
        order = _order_of(p, count, soc, **found)
        plan = IndexerPlan(p, soc, count, order, align(p.q_heads), **found, buffers=buffers_of(**found), split=split)
        return _with_scores_twice(plan)
    buffers: tuple[BufferSpec, ...] = ()
    for order in orders(p, soc):
        best: IndexerPlan | None = None
        for tile, chunk in _shapes(p):
            buffers = indexer_buffers(p, count, order, tile, chunk)
            if fits(buffers, soc) and (best is None or chunk > best.chunk):
                best = IndexerPlan(p, soc, count, order, align(p.q_heads), tile, chunk, buffers, split)
                if chunk >= best.kept:
                    return _with_scores_twice(best)
        if best is not None:
            return _with_scores_twice(best)
    raise BudgetError(
        f"lightning_indexer: no tile of N1={p.q_heads} D={p.head_dim} K={count} fits {soc.name}:\n{table(buffers, soc)}"
    )
