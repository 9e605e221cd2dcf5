# SPDX-License-Identifier: Apache-2.0
"""What the sparse-attention functions have to do to their arguments before the primitives, decided from shapes, dtypes
and attributes alone. All refusals are made here, in terms of the public arguments. Plain Python: it runs while a graph
is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from ms_custom_ops.errors import OpDtypeError, describe
from ms_custom_ops.mindspore.attention_plan import Operand, Shape, refuse, round_up, static_shape

DTYPES = ("float16", "bfloat16")
INDEX_DTYPES = ("int32", "int64")
LAYOUTS = {"BSND": 4, "TND": 3}
PAGED = "PA_BSND"
SPARSE_MODES = (0, 3)
UNLIMITED = (2147483647, 9223372036854775807)
ATTENTION_MODES = (0, 2)
BLOCK_MAX, GROUP_MAX, DIM_MAX, ROPE_MAX, INDEX_DIM_MAX, COUNT_MAX = 128, 128, 512, 64, 256, 8192
DIM_MULTIPLE, ROW_MULTIPLE, INDEX_MULTIPLE = 16, 16, 8


def check_dtype(op: str, name: str, dtype: str | None, accepted: Sequence[str], why: str = "") -> None:
    """OpDtypeError unless ``dtype`` is accepted."""
    if dtype not in accepted:
        raise OpDtypeError(describe(op, f"dtype of {name}", dtype, " or ".join(accepted) + why))


def check_attributes(
    op: str, layout: str, sparse_mode: Any, pre_tokens: Any, next_tokens: Any, layout_name: str = "layout_query"
) -> None:
    """The attributes that every op of the family has."""
    if layout not in LAYOUTS:
        refuse(layout_name, repr(layout), " or ".join(LAYOUTS), op)
    if sparse_mode not in SPARSE_MODES:
        refuse("sparse_mode", repr(sparse_mode), "0 (no mask) or 3 (causal, aligned to the lower right)", op)
    for name, value in (("pre_tokens", pre_tokens), ("next_tokens", next_tokens)):
        if value not in UNLIMITED:
            refuse(name, repr(value), f"{UNLIMITED[1]} (no window)", op)


@dataclass(frozen=True)
class Lengths:
    """``pad`` values to append to int32 lengths, by repeating the last in TND; ``values`` when they came as a list."""

    pad: int
    values: Shape | None


def check_lengths(op: str, name: str, lengths: Operand, packed: bool, batch: int | None, most: int) -> int:
    """Number of sequences; refuses what can be seen to be wrong."""
    if lengths.values is None and lengths.shape is None:
        if packed:
            refuse(name, None, "inclusive prefix sums, shape (B,): layout TND needs them", op)
        return batch or 0
    if lengths.values is not None:
        values = lengths.values
        if any(isinstance(n, bool) or not isinstance(n, Integral) for n in values):
            refuse(name, list(values), "integers", op)
        ascending = all(a <= b for a, b in zip((0, *values), values, strict=False))
        if packed and (not ascending or (values and values[-1] > most)):
            refuse(name, list(values), f"non-negative, non-decreasing prefix sums of at most T = {most}", op)
        if not packed and any(not 0 <= n <= most for n in values):
            refuse(name, list(values), f"counts from 0 to {most}", op)
        count = len(values)
    else:
        shape = static_shape(name, lengths.shape or (), op)
        check_dtype(op, name, lengths.dtype, INDEX_DTYPES, " of a MindSpore tensor, or a list")
        if len(shape) != 1:
            refuse(name, f"of shape {shape}", "one length per sequence, shape (B,)", op)
        count = shape[0]
    if batch is not None and count != batch:
        refuse(name, f"{count} lengths", f"one per sequence, B = {batch}", op)
    if count < 1:
        refuse(name, "empty", "at least one length", op)
    return count


def check_multiple(op: str, what: str, size: int, most: int) -> None:
    """A head size: a multiple of 16 up to ``most``."""
    if size % DIM_MULTIPLE or not DIM_MULTIPLE <= size <= most:
        refuse(what, size, f"a multiple of {DIM_MULTIPLE} from {DIM_MULTIPLE} to {most}", op)


@dataclass(frozen=True)
class Problem:
    """Sizes of a call; rows of query and key without batch and token axes."""

    packed: bool
    lead_q: Shape
    lead_k: Shape
    n1: int
    n2: int
    sequences: int

    @property
    def empty(self) -> bool:
        """There is nothing to compute."""
        return 0 in self.lead_q or 0 in self.lead_k or self.n1 == 0

    @property
    def group(self) -> int:
        """Query heads per key head."""
        return self.n1 // self.n2

    def stats_shape(self) -> Shape:
        """Shape of the statistics."""
        if self.packed:
            return (self.n2, self.lead_q[0], self.group)
        return (self.lead_q[0], self.n2, self.lead_q[1], self.group)


def check_pair(
    op: str, query: Operand, key: Operand, layout: str, paged: bool, names: tuple[str, str]
) -> tuple[Shape, Shape]:
    """Shapes of a query tensor and its key tensor."""
    shapes = []
    for name, operand, rank in ((names[0], query, LAYOUTS[layout]), (names[1], key, 4 if paged else LAYOUTS[layout])):
        shape = static_shape(name, operand.shape or (), op)
        if len(shape) != rank:
            refuse(f"rank of {name}", f"{len(shape)} (shape {shape})", f"{rank} for its layout", op)
        check_dtype(
            op,
            name,
            operand.dtype,
            DTYPES if name == names[0] else (str(query.dtype),),
            "" if name == names[0] else f", the dtype of {names[0]}",
        )
        shapes.append(shape)
    q, k = shapes
    if q[-1] != k[-1]:
        refuse(f"head size of {names[1]}", k[-1], f"{q[-1]}, as {names[0]}", op)
    if layout == "BSND" and not paged and q[0] != k[0]:
        refuse(f"batch of {names[1]}", k[0], f"{q[0]}, as {names[0]}", op)
    return q, k


def check_like(op: str, name: str, operand: Operand, lead: Shape, last: int | None, dtype: str, what: str) -> int:
    """Last axis of a tensor whose other axes are ``lead``."""
    shape = static_shape(name, operand.shape or (), op)
    if shape[:-1] != lead or (last is not None and shape[-1] != last):
        refuse(name, f"of shape {shape}", f"{lead + ((last,) if last is not None else ('any',))}, as {what}", op)
    check_dtype(op, name, operand.dtype, (dtype,), f", the dtype of {what}")
    return shape[-1]


def check_rope(op: str, query_rope: Operand, key_rope: Operand, q: Shape, k: Shape, dtype: str) -> int:
    """Rope size, 0 without."""
    given = [operand.shape is not None for operand in (query_rope, key_rope)]
    if given == [False, False]:
        return 0
    if given != [True, True]:
        refuse("query_rope, key_rope", f"only {'query_rope' if given[0] else 'key_rope'}", "both or neither", op)
    size = check_like(op, "query_rope", query_rope, q[:-1], None, dtype, "query")
    check_like(op, "key_rope", key_rope, k[:-1], size, dtype, "key")
    check_multiple(op, "head size of query_rope", size, ROPE_MAX)
    return size


def check_indices(op: str, indices: Operand, lead: Shape, n2: int) -> int:
    """K; an index row per query row and key head."""
    shape = static_shape("sparse_indices", indices.shape or (), op)
    check_dtype(op, "sparse_indices", indices.dtype, ("int32",))
    if len(shape) != len(lead) + 2 or shape[:-1] != (*lead, n2) or shape[-1] < 1:
        refuse("sparse_indices", f"of shape {shape}", f"{(*lead, n2, 'K')} with K of at least 1", op)
    return shape[-1]


def check_heads(op: str, n1: int, n2: int) -> None:
    """Query heads are a multiple of key heads."""
    if n2 < 1 or n1 % n2 or n1 // n2 > GROUP_MAX:
        refuse("head count N1 of query", n1, f"a multiple of N2 = {n2}, at most {GROUP_MAX} per key head", op)


@dataclass(frozen=True)
class SparsePlan:
    """Static decisions for one call of sparse_flash_attention or its gradient."""

    problem: Problem
    value_dim: int
    rope_dim: int
    pad_k: int
    pad_group: int
    pad_pages: int
    pad_lengths: int
    merged: bool
    scale: float


def plan_attention(
    op: str,
    query: Operand,
    key: Operand,
    value: Operand,
    indices: Operand,
    block_table: Operand,
    q_lengths: Operand,
    kv_lengths: Operand,
    query_rope: Operand,
    key_rope: Operand,
    sinks: Operand,
    scale_value: Any,
    block_size: Any,
    layout_query: str,
    layout_kv: str,
    sparse_mode: Any,
    pre_tokens: Any,
    next_tokens: Any,
    attention_mode: Any,
) -> SparsePlan:
    """Plan of one call; OpArgumentError or OpDtypeError for what is refused."""
    check_attributes(op, layout_query, sparse_mode, pre_tokens, next_tokens)
    if attention_mode not in ATTENTION_MODES:
        refuse("attention_mode", repr(attention_mode), "0 or 2 (the same: absorbed latent attention)", op)
    if layout_kv not in (layout_query, PAGED):
        refuse("layout_kv", repr(layout_kv), f"{layout_query!r}, as layout_query, or {PAGED!r}", op)
    if isinstance(block_size, bool) or not isinstance(block_size, int) or not 1 <= block_size <= BLOCK_MAX:
        refuse("sparse_block_size", repr(block_size), f"an int from 1 to {BLOCK_MAX}", op)
    if isinstance(scale_value, bool) or not isinstance(scale_value, Real):
        refuse("scale_value", f"{scale_value!r} ({type(scale_value).__name__})", "a float", op)
    paged, packed = layout_kv == PAGED, layout_query == "TND"
    q, k = check_pair(op, query, key, layout_query, paged, ("query", "key"))
    n1, n2 = q[-2], k[-2]
    check_heads(op, n1, n2)
    check_multiple(op, "head size D of query", q[-1], DIM_MAX)
    merged = value.shape is None
    value_dim = q[-1] if merged else check_like(op, "value", value, k[:-1], None, str(query.dtype), "key")
    check_multiple(op, "head size of value", value_dim, DIM_MAX)
    rope = check_rope(op, query_rope, key_rope, q, k, str(query.dtype))
    slots = check_indices(op, indices, q[:-2], n2)
    sequences, pad_pages = _lengths_and_pages(
        op, q, k, q_lengths, kv_lengths, block_table, packed, paged, block_size, "kv"
    )
    if sinks.shape is not None:
        check_like(op, "sinks", sinks, (), n1, "float32", "the heads of query")
    problem = Problem(packed, q[:-2], k[:-2], n1, n2, sequences)
    return SparsePlan(
        problem,
        value_dim,
        rope,
        round_up(slots, INDEX_MULTIPLE) - slots,
        round_up(problem.group, ROW_MULTIPLE) - problem.group,
        pad_pages,
        round_up(sequences, INDEX_MULTIPLE) - sequences,
        merged,
        float(scale_value),
    )


def _lengths_and_pages(
    op: str,
    q: Shape,
    k: Shape,
    q_lengths: Operand,
    kv_lengths: Operand,
    table: Operand,
    packed: bool,
    paged: bool,
    block_size: int,
    side: str,
) -> tuple[int, int]:
    """(number of sequences, entries to append to the rows of block_table)."""
    name = f"actual_seq_lengths_{side}"
    batch = None if packed else q[0]
    sequences = check_lengths(op, "actual_seq_lengths_query", q_lengths, packed, batch, q[0] if packed else q[1])
    if not paged:
        if table.shape is not None:
            refuse("block_table", "given", f"None, unless the keys are {PAGED}", op)
        check_lengths(op, name, kv_lengths, packed, sequences, k[0] if packed else k[1])
        return sequences, 0
    if table.shape is None or (kv_lengths.shape is None and kv_lengths.values is None):
        refuse(f"block_table, {name}", "None", f"both, for {PAGED}", op)
    pages = static_shape("block_table", table.shape or (), op)
    check_dtype(op, "block_table", table.dtype, INDEX_DTYPES)
    if len(pages) != 2 or pages[0] != sequences or pages[1] < 1:
        refuse("block_table", f"of shape {pages}", f"({sequences}, pages)", op)
    if k[1] % ROW_MULTIPLE or k[1] % block_size:
        refuse(
            "block_size of the pages", k[1], f"a multiple of {ROW_MULTIPLE} and of sparse_block_size {block_size}", op
        )
    check_lengths(op, name, kv_lengths, False, sequences, pages[1] * k[1])
    return sequences, round_up(pages[1], INDEX_MULTIPLE) - pages[1]


@dataclass(frozen=True)
class IndexerPlan:
    """Static decisions for one call of lightning_indexer or of the KL loss."""

    problem: Problem
    pad_weights: int
    pad_pages: int
    pad_lengths: int
    pad_k: int = 0
    pad_group: int = 0
    rope_dim: int = 0
    scale: float = 1.0


def _check_weights(op: str, weights: Operand, lead: Shape, dtype: str) -> None:
    shape = static_shape("weights", weights.shape or (), op)
    if shape != lead:
        refuse("weights", f"of shape {shape}", f"{lead}, as the index query without its last axis", op)
    check_dtype(op, "weights", weights.dtype, tuple(dict.fromkeys((dtype, "float32"))))


def plan_indexer(
    op: str,
    query: Operand,
    key: Operand,
    weights: Operand,
    q_lengths: Operand,
    k_lengths: Operand,
    block_table: Operand,
    layout_query: str,
    layout_key: str,
    sparse_count: Any,
    sparse_mode: Any,
    pre_tokens: Any,
    next_tokens: Any,
) -> IndexerPlan:
    """Plan of one call; OpArgumentError or OpDtypeError for what is refused."""
    check_attributes(op, layout_query, sparse_mode, pre_tokens, next_tokens)
    if layout_key not in (layout_query, PAGED):
        refuse("layout_key", repr(layout_key), f"{layout_query!r}, as layout_query, or {PAGED!r}", op)
    if isinstance(sparse_count, bool) or not isinstance(sparse_count, int) or not 1 <= sparse_count <= COUNT_MAX:
        refuse("sparse_count", repr(sparse_count), f"an int from 1 to {COUNT_MAX}", op)
    paged, packed = layout_key == PAGED, layout_query == "TND"
    q, k = check_pair(op, query, key, layout_query, paged, ("query", "key"))
    _check_index_heads(op, q, k, "query", "key")
    _check_weights(op, weights, q[:-1], str(query.dtype))
    sequences, pad_pages = _lengths_and_pages(op, q, k, q_lengths, k_lengths, block_table, packed, paged, 1, "key")
    problem = Problem(packed, q[:-2], k[:-2], q[-2], 1, sequences)
    return IndexerPlan(
        problem, round_up(q[-2], ROW_MULTIPLE) - q[-2], pad_pages, round_up(sequences, INDEX_MULTIPLE) - sequences
    )


def _check_index_heads(op: str, q: Shape, k: Shape, q_name: str, k_name: str) -> None:
    if k[-2] != 1:
        refuse(f"head count of {k_name}", k[-2], "1", op)
    if not 1 <= q[-2] <= GROUP_MAX:
        refuse(f"head count of {q_name}", q[-2], f"1 to {GROUP_MAX}", op)
    check_multiple(op, f"head size of {q_name}", q[-1], INDEX_DIM_MAX)


def plan_kl(
    op: str,
    query: Operand,
    key: Operand,
    query_index: Operand,
    key_index: Operand,
    weights: Operand,
    indices: Operand,
    softmax_max: Operand,
    softmax_sum: Operand,
    query_rope: Operand,
    key_rope: Operand,
    q_lengths: Operand,
    kv_lengths: Operand,
    scale_value: Any,
    layout: str,
    sparse_mode: Any,
) -> IndexerPlan:
    """Plan of one call; OpArgumentError or OpDtypeError for what is refused."""
    check_attributes(op, layout, sparse_mode, UNLIMITED[1], UNLIMITED[1], "layout")
    if isinstance(scale_value, bool) or not isinstance(scale_value, Real):
        refuse("scale_value", f"{scale_value!r} ({type(scale_value).__name__})", "a float", op)
    packed, no_table = layout == "TND", Operand(None, None)
    q, k = check_pair(op, query, key, layout, False, ("query", "key"))
    if k[-2] != 1:
        refuse("head count of key", k[-2], "1", op)
    check_heads(op, q[-2], 1)
    check_multiple(op, "head size D of query", q[-1], DIM_MAX)
    qi, ki = check_pair(op, query_index, key_index, layout, False, ("query_index", "key_index"))
    if qi[:-2] != q[:-2] or ki[:-2] != k[:-2]:
        refuse("query_index, key_index", f"of shapes {qi}, {ki}", f"rows as query {q} and key {k}", op)
    check_dtype(op, "query_index", query_index.dtype, (str(query.dtype),), ", the dtype of query")
    _check_index_heads(op, qi, ki, "query_index", "key_index")
    _check_weights(op, weights, qi[:-1], str(query.dtype))
    slots = check_indices(op, indices, q[:-2], 1)
    rope = check_rope(op, query_rope, key_rope, q, k, str(query.dtype))
    sequences, _ = _lengths_and_pages(op, q, k, q_lengths, kv_lengths, no_table, packed, False, 1, "kv")
    problem = Problem(packed, q[:-2], k[:-2], q[-2], 1, sequences)
    check_statistics(op, problem, softmax_max, softmax_sum)
    return IndexerPlan(
        problem,
        round_up(qi[-2], ROW_MULTIPLE) - qi[-2],
        0,
        round_up(sequences, INDEX_MULTIPLE) - sequences,
        round_up(slots, INDEX_MULTIPLE) - slots,
        round_up(problem.group, ROW_MULTIPLE) - problem.group,
        rope,
        float(scale_value),
    )


def check_statistics(op: str, problem: Problem, softmax_max: Operand, softmax_sum: Operand) -> None:
    """softmax_max and softmax_sum as the forward gives them."""
    wanted = problem.stats_shape()
    for name, operand in (("softmax_max", softmax_max), ("softmax_sum", softmax_sum)):
        if tuple(operand.shape or ()) != wanted:
            refuse(name, f"of shape {operand.shape}", f"{wanted}: return_softmax_lse=True in the forward gives it", op)
        check_dtype(op, name, operand.dtype, ("float32",))


def plan_gradient(
    op: str, plan: SparsePlan, query: Operand, d_out: Operand, out: Operand, softmax_max: Operand, softmax_sum: Operand
) -> SparsePlan:
    """``plan`` again, after the checks of what only the gradient has."""
    lead = (*plan.problem.lead_q, plan.problem.n1)
    for name, operand in (("d_out", d_out), ("out", out)):
        check_like(op, name, operand, lead, plan.value_dim, str(query.dtype), "query")
    check_statistics(op, plan.problem, softmax_max, softmax_sum)
    return plan
