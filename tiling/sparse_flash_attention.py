# SPDX-License-Identifier: Apache-2.0
"""Tiling of sparse_flash_attention and its gradient: heads per tile, chunks of the depth, buffers, core split.

One query row of one key head is a task; its heads are the rows of the cube tile, in tiles of ``head_rows``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ms_custom_ops.errors import BudgetError
from ms_custom_ops.soc.table import CUBE_BLOCK, Soc
from ms_custom_ops.tiling.budget import DTYPE_BYTES, BufferSpec, align, fits, table
from ms_custom_ops.tiling.choice import tuned_choice
from ms_custom_ops.tiling.sparse_flash_attention_problem import SparseProblem, gather_buffers, largest_chunk, padded_row
from ms_custom_ops.tiling.split import CoreSplit

_SIDES = (128, 64, 32, 16)


@dataclass(frozen=True)
class SparsePlan:
    """``head_rows`` heads per tile (a multiple of 16); the depth of a product goes through L0 in pieces of
    ``depth_chunk``, the width of a result in pieces of ``value_chunk``. Backward: the gradients of ``kv_tokens``
    tokens by ``kv_width`` columns leave the cube at once; sums of dQ stay in L0C from tile to tile or, ``spilled``, in
    a workspace in GM."""

    problem: SparseProblem
    soc: Soc
    head_rows: int
    depth_chunk: int
    value_chunk: int
    kv_tokens: int
    kv_width: int
    buffers: tuple[BufferSpec, ...]
    split: CoreSplit
    deterministic: bool = True

    @property
    def spilled(self) -> bool:
        """Backward: L0C has no room for the sums of dQ of so many heads."""
        return self.elements("dq_sum") > 0

    @property
    def head_tiles(self) -> list[tuple[int, int]]:
        """(first head, heads) of the tiles of a group."""
        group = self.problem.group
        return [(at, min(self.head_rows, group - at)) for at in range(0, group, self.head_rows)]

    def elements(self, name: str) -> int:
        """Of a buffer; 0 where the plan has none of that name."""
        return next((b.elements for b in self.buffers if b.name == name), 0)


def _rows_buffers(m: int, lanes: tuple[str, ...]) -> list[BufferSpec]:
    out = [BufferSpec(n, "ub", "float32", m) for n in ("row_a", "row_b", "row_c")]
    return out + [BufferSpec(n, "ub", "float32", m * CUBE_BLOCK) for n in ("turn", *lanes)]


def _inputs(p: SparseProblem, m: int) -> list[BufferSpec]:
    """L1 tiles of a query tile and of the gathered keys."""
    n, t = p.columns, p.dtype
    out = [BufferSpec("q", "l1", t, m * p.head_dim), BufferSpec("k", "l1", t, n * p.head_dim)]
    if p.rope_dim:
        out += [BufferSpec("q_rope", "l1", t, m * p.rope_dim), BufferSpec("k_rope", "l1", t, n * p.rope_dim)]
    if not p.merged:
        out.append(BufferSpec("v", "l1", t, n * p.value_dim))
    return out


def forward_buffers(p: SparseProblem, soc: Soc, m: int, depth: int, width: int) -> tuple[BufferSpec, ...]:
    """On-chip buffers of the forward kernel for ``m`` heads: as many columns of the output and of the weights are cast
    at once as fit."""
    as_scores = min(p.value_dim, p.columns * DTYPE_BYTES["float32"] // DTYPE_BYTES[p.dtype])  # in the room of theirs
    casts = [(weights, out) for weights in _halved(p.columns) for out in (p.value_dim, as_scores)]
    choices = [_forward_buffers(p, m, depth, width, *cast) for cast in casts]
    return next((buffers for buffers in choices if fits(buffers, soc)), choices[-1])


def _forward_buffers(
    p: SparseProblem, m: int, depth: int, width: int, cast: int, cast_out: int
) -> tuple[BufferSpec, ...]:
    n, t, dv = p.columns, p.dtype, p.value_dim
    return (
        *gather_buffers(p),
        *_rows_buffers(m, ("max_lanes", "new_lanes", "factor", "sum_lanes")),
        *_inputs(p, m),
        BufferSpec("ones", "ub", "float32", m),
        BufferSpec("out", "ub", "float32", m * dv),
        BufferSpec("scores", "ub", "float32", m * n, "scores"),
        BufferSpec("probs", "ub", t, m * cast, "scores"),
        BufferSpec("product", "ub", "float32", m * width, "product"),
        BufferSpec("out_cast", "ub", t, m * cast_out, "finish"),
        BufferSpec("p", "l1", t, m * n),
        BufferSpec("left", "l0a", t, m * depth, "scores"),
        BufferSpec("right", "l0b", t, n * depth, "scores"),
        BufferSpec("acc", "l0c", "float32", m * n, "scores"),
        BufferSpec("left_p", "l0a", t, m * n, "product"),
        BufferSpec("right_v", "l0b", t, n * width, "product"),
        BufferSpec("acc_o", "l0c", "float32", m * width, "product"),
    )


def backward_buffers(
    p: SparseProblem, soc: Soc, m: int, depth: int, width: int, tokens: int, kv: int
) -> tuple[BufferSpec, ...]:
    """On-chip buffers of the backward kernel for ``m`` heads and kv gradients of ``tokens`` x ``kv``; sums of dQ are
    spilled where they do not fit."""
    resident = _backward_buffers(p, soc, m, depth, width, tokens, kv, False)
    return resident if fits(resident, soc) else _backward_buffers(p, soc, m, depth, width, tokens, kv, True)


def _d_query_buffers(p: SparseProblem, m: int, width: int, spilled: bool) -> list[BufferSpec]:
    if spilled:
        parts = [BufferSpec(name, "ub", "float32", m * width, "dq") for name in ("dq_part", "dq_sum")]
        return [*parts, BufferSpec("acc_dq", "l0c", "float32", m * width, "dq")]
    names = (("acc_dq", p.head_dim), ("acc_dq_rope", p.rope_dim))
    return [BufferSpec(name, "l0c", "float32", m * depth) for name, depth in names if depth]


def _backward_buffers(
    p: SparseProblem, soc: Soc, m: int, depth: int, width: int, tokens: int, kv: int, spilled: bool
) -> tuple[BufferSpec, ...]:
    n, t, dv = p.columns, p.dtype, p.value_dim
    kept = 0 if spilled else m * (p.head_dim + p.rope_dim)
    out = [
        *gather_buffers(p, holds=True),
        *_rows_buffers(m, ("max_lanes", "inverse", "delta")),
        *_inputs(p, m),
        BufferSpec("ones", "ub", "float32", m),
        BufferSpec("scores", "ub", "float32", m * n, "scores"),
        BufferSpec("d_probs", "ub", "float32", m * n, "scores"),
        BufferSpec("cast", "ub", t, m * n, "scores"),
        BufferSpec("half", "ub", t, CUBE_BLOCK * dv, "delta"),
        BufferSpec("wide_o", "ub", "float32", CUBE_BLOCK * dv, "delta"),
        BufferSpec("wide_do", "ub", "float32", CUBE_BLOCK * dv, "delta"),
        BufferSpec("d_key", "ub", "float32", tokens * padded_row(p.head_dim), "kv"),
        BufferSpec("kv_turn", "ub", "float32", tokens * kv, "kv"),
        BufferSpec("kv_turn_2", "ub", "float32", tokens * kv, "kv"),
        BufferSpec("dq_tile", "ub", "float32", m * width, "final"),
        BufferSpec("dq_cast", "ub", t, m * width, "final"),
        BufferSpec("do", "l1", t, m * dv),
        BufferSpec("p", "l1", t, m * n),
        BufferSpec("ds", "l1", t, m * n),
        *_d_query_buffers(p, m, width, spilled),
        BufferSpec("left", "l0a", t, m * depth, "scores"),
        BufferSpec("right", "l0b", t, n * depth, "scores"),
        BufferSpec("acc", "l0c", "float32", m * n, "scores"),
        BufferSpec("left_ds", "l0a", t, m * n, "dq"),
        BufferSpec("right_k", "l0b", t, n * width, "dq"),
        BufferSpec("left_ds_kv", "l0a", t, tokens * m, "kv"),
        BufferSpec("left_p_kv", "l0a", t, tokens * m, "kv"),
        BufferSpec("acc_kv", "l0c", "float32", tokens * kv, "kv"),
    ]
    # Second accumulators, where they do not cost heads: a tile of fewer heads would round otherwise.
    for name, elements, phase in (("acc", m * n, "scores"), ("acc_kv", tokens * kv, "kv")):
        if (kept + 2 * elements) * DTYPE_BYTES["float32"] <= soc.l0c_bytes:
            out.append(BufferSpec(f"{name}_2", "l0c", "float32", elements, phase))
    rights = m * (p.head_dim + dv + p.rope_dim)
    if rights * DTYPE_BYTES[t] > soc.l0b_bytes:
        rights = m * kv
    out.append(BufferSpec("right_kv", "l0b", t, rights, "kv"))
    if p.has_d_statistics:
        out.append(BufferSpec("peak", "ub", "float32", m))
    if p.rope_dim:
        out.append(BufferSpec("d_key_rope", "ub", "float32", tokens * padded_row(p.rope_dim), "kv"))
    if not p.merged:
        out.append(BufferSpec("d_value", "ub", "float32", tokens * padded_row(p.value_dim), "kv"))
    return tuple(out)


def _heads(p: SparseProblem) -> list[int]:
    return sorted({min(side, p.group_padded) for side in _SIDES}, reverse=True)


def _cube_chunks(p: SparseProblem, soc: Soc, m: int) -> tuple[int, int]:
    """Depth and width that L0A and L0B hold beside ``m`` heads and a tile of tokens; 0 when nothing fits."""
    size = DTYPE_BYTES[p.dtype]
    depth = min(soc.l0a_bytes // (m * size), soc.l0b_bytes // (p.columns * size))
    return (
        largest_chunk(max(p.head_dim, p.value_dim), depth),
        largest_chunk(max(p.head_dim, p.value_dim), soc.l0b_bytes // (p.columns * size)),
    )


def _halved(start: int) -> list[int]:
    out = [start]
    while out[-1] > CUBE_BLOCK:
        out.append(align(out[-1] // 2))
    return out


def _forward_choices(p: SparseProblem, soc: Soc) -> Iterator[dict[str, int]]:
    """What fits: most heads per tile, then the widest product."""
    for m in _heads(p):
        depth, width = _cube_chunks(p, soc, m)
        for w in _halved(width):
            if depth and fits(forward_buffers(p, soc, m, depth, w), soc):
                yield {"head_rows": m, "depth_chunk": depth, "value_chunk": w}


def plan_forward(p: SparseProblem, soc: Soc) -> SparsePlan:
    """Most heads per tile, then the widest product, or what tune found; BudgetError when nothing fits."""
    op = "sparse_flash_attention"

    def buffers_of(head_rows: int, depth_chunk: int, value_chunk: int) -> tuple[BufferSpec, ...]:
        return forward_buffers(p, soc, head_rows, depth_chunk, value_chunk)

    found = tuned_choice(op, p, soc, lambda: list(_forward_choices(p, soc)), buffers_of)
    choice = found or next(_forward_choices(p, soc), None)
    if choice is None:
        depth, width = (max(x, CUBE_BLOCK) for x in _cube_chunks(p, soc, CUBE_BLOCK))
        smallest = table(buffers_of(CUBE_BLOCK, depth, min(width, CUBE_BLOCK)), soc)
        raise BudgetError(f"{op}: no tile of D={p.head_dim} Dv={p.value_dim} {p.dtype} fits {soc.name}:\n{smallest}")
    split = CoreSplit(p.q_rows * p.kv_heads, soc.core_count)
    return SparsePlan(p, soc, **choice, kv_tokens=0, kv_width=0, buffers=buffers_of(**choice), split=split)


def _backward_choices(p: SparseProblem, soc: Soc) -> Iterator[dict[str, int]]:
    """What fits: most heads per tile, sums of dQ in L0C rather than spilled, then the widest rows of kv gradients (each
    row is one move per token)."""
    for m, spilled in itertools.product(_heads(p), (False, True)):
        depth, width = _cube_chunks(p, soc, m)
        widest = max(p.head_dim, p.value_dim, p.rope_dim)
        for kv, tokens, w in itertools.product(_halved(widest), _halved(p.columns), _halved(width)):
            if not depth or fits(_backward_buffers(p, soc, m, depth, w, tokens, kv, False), soc) == spilled:
                continue
            if fits(_backward_buffers(p, soc, m, depth, w, tokens, kv, spilled), soc):
                yield {"head_rows": m, "depth_chunk": depth, "value_chunk": w, "kv_tokens": tokens, "kv_width": kv}


def plan_backward(p: SparseProblem, soc: Soc, deterministic: bool) -> SparsePlan:
    """Most heads per tile, then the widest rows of kv gradients, or what tune found.

    Deterministic: one task per sequence, so that the additions to a key have one order; TND has one task more, the
    rows behind the last sequence. Otherwise one task per query row. BudgetError when nothing fits.
    """
    op = "sparse_flash_attention_grad"

    def buffers_of(head_rows: int, depth_chunk: int, value_chunk: int, kv_tokens: int, kv_width: int):
        return backward_buffers(p, soc, head_rows, depth_chunk, value_chunk, kv_tokens, kv_width)

    tasks = p.batch + int(p.packed) if deterministic else p.q_rows
    found = tuned_choice(op, p, soc, lambda: list(_backward_choices(p, soc)), buffers_of)
    choice = found or next(_backward_choices(p, soc), None)
    if choice is None:
        depth, width = (max(x, CUBE_BLOCK) for x in _cube_chunks(p, soc, CUBE_BLOCK))
        smallest = table(buffers_of(CUBE_BLOCK, depth, min(width, CUBE_BLOCK), CUBE_BLOCK, CUBE_BLOCK), soc)
        raise BudgetError(f"{op}: no tile of D={p.head_dim} Dv={p.value_dim} {p.dtype} fits {soc.name}:\n{smallest}")
    split = CoreSplit(tasks, soc.core_count)
    return SparsePlan(p, soc, **choice, buffers=buffers_of(**choice), split=split, deterministic=deterministic)
