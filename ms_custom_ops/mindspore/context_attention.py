# SPDX-License-Identifier: Apache-2.0
"""``context_parallel_attention``: each rank attends with its own rows to the keys of all ranks, chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.common import dtype as mstype

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.lower.steps import missing
from ms_custom_ops.mindspore.context_check import check_ranks
from ms_custom_ops.mindspore.context_parallel import ContextGroup, Exchange, nothing_like

_OP = "context_parallel_attention"
_LAYER = "nn.ContextParallelAttention"
_WIDE = 2147483647  # a band without an edge
_HIDDEN = -3.0e38  # maximum of a row that sees nothing, in comparisons only
_DIM, _ROWS, _LENGTHS = 16, 16, 8  # the primitive's rows are whole 32-byte blocks: 16 values of 2 bytes, 8 of 4


@ops.constexpr
def _relation(query_chunk, key_chunk, rows, sparse_mode, pre_tokens, next_tokens):
    """(sparse_mode, pre_tokens, next_tokens) of a chunk of queries against one of keys; () where all is hidden."""
    if sparse_mode == 0:
        return 0, _WIDE, _WIDE
    pre, after = (_WIDE, 0) if sparse_mode == 3 else (pre_tokens, next_tokens)
    # j - i counted within the two chunks is that much more than in the sequence.
    ahead = (query_chunk - key_chunk) * rows
    pre = pre if pre >= _WIDE else pre - ahead
    after = after if after >= _WIDE else after + ahead
    if after <= -rows or pre <= -rows:
        return ()
    if after >= rows - 1 and pre >= rows - 1:
        return 0, _WIDE, _WIDE
    if after == 0 and pre >= rows - 1:
        return 3, _WIDE, _WIDE
    return 4, pre, after


@ops.constexpr
def _place(row, column):
    """Words 2 to 7 of seed_words: where the chunks begin in the sequence."""
    return Tensor(np.array([row, column, 0, 0, 0, 0], np.int32))


@ops.constexpr
def _steps(rows, ahead):
    """float32 (1, 1, 1, rows): place of each key, counted from the first row of the chunk of queries."""
    return Tensor((np.arange(rows) - ahead).astype(np.float32).reshape(1, 1, 1, rows))


@ops.constexpr
def _positions(rows, chunk):
    """int32 (1, rows): places of a chunk's rows in the sequence."""
    return Tensor((np.arange(rows) + chunk * rows).astype(np.int32).reshape(1, rows))


_missing = ops.constexpr(missing)


@ops.constexpr
def _check_shapes(query, key, value, lengths, slopes, ahead):
    if len(query) != 4 or query[2] % 2 or query[2] == 0:
        accepted = "(B, N1, S / n, D) with an even number of rows: two chunks of equal length (context_rows)"
        raise OpArgumentError(describe(_OP, "query", f"shape {query}", accepted))
    for name, shape in (("key", key), ("value", value)):
        if len(shape) != 4 or (shape[0], *shape[2:]) != (query[0], *query[2:]) or shape != key:
            accepted = f"({query[0]}, N2, {query[2]}, {query[3]}), the rows of query"
            raise OpArgumentError(describe(_OP, name, f"shape {shape}", accepted))
    if lengths is not None and lengths != (query[0],):
        raise OpArgumentError(describe(_OP, "actual_seq_len", f"shape {lengths}", f"({query[0]},), one per batch"))
    if slopes is not None and slopes != (query[1],):
        raise OpArgumentError(describe(_OP, "alibi_slopes", f"shape {slopes}", f"({query[1]},), one per head"))
    if lengths is not None and ahead > 0:
        accepted = "at most 0 beside actual_seq_len: a causal mask, or a window to the left"
        raise OpArgumentError(describe(_OP, "next_tokens", ahead, accepted))


@ops.constexpr
def _rounds(group, head_dim, scale_value, keep_prob, band, has_lengths, has_slopes):
    """The rounds of one configuration."""
    members = ContextGroup(*group) if isinstance(group, tuple) else ContextGroup.of(group)
    scale = head_dim**-0.5 if scale_value is None else float(scale_value)
    return _Rounds(members, scale, float(keep_prob), band, has_lengths, has_slopes)


@ops.constexpr
def _check_options(scale_value, keep_prob, sparse_mode, pre_tokens, next_tokens, seeded):
    if sparse_mode not in (0, 3, 4):
        raise OpArgumentError(describe(_OP, "sparse_mode", repr(sparse_mode), "0 none, 3 causal, 4 band"))
    if isinstance(keep_prob, bool) or not isinstance(keep_prob, (int, float)) or not 0 < keep_prob <= 1:
        raise OpArgumentError(describe(_OP, "keep_prob", repr(keep_prob), "0 < keep_prob <= 1"))
    if keep_prob < 1 and not seeded:
        accepted = "an int32 tensor (8,), the same on all ranks, where keep_prob is below 1"
        raise OpArgumentError(describe(_OP, "seed_words", None, accepted))
    if scale_value is not None and (isinstance(scale_value, bool) or not isinstance(scale_value, (int, float))):
        raise OpArgumentError(describe(_OP, "scale_value", repr(scale_value), "a number, or None for D^-0.5"))
    for name, count in (("pre_tokens", pre_tokens), ("next_tokens", next_tokens)):
        if isinstance(count, bool) or not isinstance(count, int):
            raise OpArgumentError(describe(_OP, name, repr(count), "an int"))
    if sparse_mode == 4 and pre_tokens + next_tokens < 0:
        given = f"pre_tokens={pre_tokens}, next_tokens={next_tokens}"
        raise OpArgumentError(describe(_OP, "band", given, "a band that is not empty"))


def context_parallel_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    actual_seq_len: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    seed_words: Tensor | None = None,
    *,
    group: str | tuple | None = None,
    scale_value: float | None = None,
    keep_prob: float = 1.0,
    sparse_mode: int = 3,
    pre_tokens: int = _WIDE,
    next_tokens: int = _WIDE,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of a sequence whose rows lie on the ranks of a group; layout BNSD, in both modes, with gradients.

    Every rank calls it at the same place. Keys and values go round chunk by chunk, so that memory is O(S / n) plus one
    chunk; partial outputs are merged by their statistics in float32.

    Args:
        query: (B, N1, S/n, D) float16, or bfloat16 where the chip has it: rows :func:`context_rows` of the sequence.
        key: (B, N2, S/n, D), the same rows; N1 is a multiple of N2.
        value: shape and dtype of key.
        actual_seq_len: int32 (B,): tokens of each batch in the whole sequence, for queries and keys; None means all.
            Without it, padding rows of a sequence that is no multiple of 2n are keys like others; a causal mask
            hides them from real rows.
        alibi_slopes: float32 (N1,): slope * (j - i) is added to the scores. A constant, without gradient.
        seed_words: int32 (8,): low and high word of a 64-bit seed, then zeros; the same on all ranks, needed with
            keep_prob < 1. What is dropped depends on the seed and on places in the sequence alone.
        group: name of a communication group; None means all ranks.
        scale_value: factor on the scores; None means D^-0.5.
        keep_prob: probability to keep a weight.
        sparse_mode: 0 none, 3 causal, 4 band of ``pre_tokens`` and ``next_tokens``.
        pre_tokens, next_tokens: mode 4: keys kept to the left and to the right of the query; ``next_tokens`` is at
            most 0 beside ``actual_seq_len``.

    Returns:
        attention_out (B, N1, S/n, D) in the dtype of query; softmax_max and softmax_sum (B, N1, S/n) float32, over
        all keys of the sequence.

    Raises:
        OpArgumentError: an argument is none of those above.
    """
    ahead = next_tokens if sparse_mode == 4 else 0
    lengths = None if actual_seq_len is None else actual_seq_len.shape
    slopes = None if alibi_slopes is None else alibi_slopes.shape
    _check_options(scale_value, keep_prob, sparse_mode, pre_tokens, next_tokens, seed_words is not None)
    _check_shapes(query.shape, key.shape, value.shape, lengths, slopes, ahead)
    head_dim = query.shape[3]
    rounds = _rounds(
        group, head_dim, scale_value, keep_prob, (sparse_mode, pre_tokens, next_tokens),
        lengths is not None, slopes is not None,
    )  # fmt: skip
    count = _missing(head_dim, _DIM)
    if count > 0:
        query, key, value = _wider(query, count), _wider(key, count), _wider(value, count)
    nothing = ops.zeros((8,), mstype.int32)
    out, top, total = rounds(
        query, key, value,
        nothing[:1] if lengths is None else ops.cast(actual_seq_len, mstype.int32),
        ops.cast(nothing[:1], mstype.float32) if slopes is None else ops.stop_gradient(alibi_slopes),
        nothing if seed_words is None else seed_words,
    )  # fmt: skip
    return out[:, :, :, :head_dim], top, total


class ContextParallelAttention(nn.Cell):
    """:func:`context_parallel_attention` as a layer; its options are the constructor's arguments.

    Every rank makes it at the same place; with a group's name, or None, the ranks check that they agree (check_ranks).
    """

    def __init__(
        self,
        group: str | ContextGroup | None = None,
        *,
        scale_value: float | None = None,
        keep_prob: float = 1.0,
        sparse_mode: int = 3,
        pre_tokens: int = _WIDE,
        next_tokens: int = _WIDE,
    ):
        super().__init__()
        _check_options(scale_value, keep_prob, sparse_mode, pre_tokens, next_tokens, True)
        members = group if isinstance(group, ContextGroup) else ContextGroup.of(group)
        if members is not group:
            check_ranks(members, **{_LAYER: (scale_value, keep_prob, sparse_mode, pre_tokens, next_tokens)})
        self.group = (members.rank, members.size, members.name, members.broadcasts)
        self.scale_value, self.keep_prob, self.sparse_mode = scale_value, keep_prob, sparse_mode
        self.pre_tokens, self.next_tokens = pre_tokens, next_tokens

    def construct(
        self, query: Any, key: Any, value: Any, actual_seq_len: Any = None, alibi_slopes: Any = None,
        seed_words: Any = None
    ) -> Any:  # fmt: skip
        out, _, _ = context_parallel_attention(
            query, key, value, actual_seq_len, alibi_slopes, seed_words,
            group=self.group, scale_value=self.scale_value, keep_prob=self.keep_prob, sparse_mode=self.sparse_mode,
            pre_tokens=self.pre_tokens, next_tokens=self.next_tokens,
        )  # fmt: skip
        return out


class _Rounds(nn.Cell):
    """The rounds of chunks, forward and backward, for D in whole blocks."""

    def __init__(self, group, scale_value, keep_prob, band, has_lengths, has_slopes):
        super().__init__()
        self.exchange = Exchange(group)
        self.rank = group.rank
        self.first, self.second = group.chunks()
        self.rounds = tuple((chunk, *group.owner(chunk)) for chunk in range(2 * group.size))
        self.scale_value, self.keep_prob = scale_value, keep_prob
        self.sparse_mode, self.pre_tokens, self.next_tokens = band
        self.has_lengths, self.has_slopes = has_lengths, has_slopes

    def relation(self, at, chunk, rows):
        return _relation(at, chunk, rows, self.sparse_mode, self.pre_tokens, self.next_tokens)

    def padded(self, x, axis, count):
        """``count`` zeros behind ``axis``. A method: of a plain function with branches MindSpore's graph compiler loses
        the branches in the bprop of its second compilation (of its own too: ops.full, ops.zeros_like)."""
        if count == 0:
            return x
        return ops.concat((x, ops.zeros(x.shape[:axis] + (count,) + x.shape[axis + 1 :], x.dtype)), axis)

    def seen(self, lengths, chunk, rows):
        """int32 (BP,): how many rows of a chunk lie within the lengths."""
        inside = ops.minimum(ops.maximum(lengths - chunk * rows, 0), rows)
        return self.padded(inside, 0, _missing(inside.shape[0], _LENGTHS))

    def real(self, x, lengths, at, rows):
        """``x``, zeros in rows behind the lengths, whatever they hold."""
        if not self.has_lengths:
            return x
        inside = _positions(rows, at) < ops.reshape(lengths, (-1, 1))
        inside = ops.reshape(inside, (inside.shape[0], 1, rows) + (1,) * (len(x.shape) - 3))
        return ops.where(inside, x, _zeros(x))

    def extras(self, query, at, chunk, rows, mode, lengths, slopes, words):
        """(real_shift, lengths of the queries, of the keys, seed_words) of one chunk against another."""
        shift, queries, keys, seed = None, None, None, None
        if self.has_slopes:
            shift = ops.reshape(slopes, (1, slopes.shape[0], 1, 1)) * _steps(rows, (at - chunk) * rows)
            shift = ops.broadcast_to(ops.cast(shift, query.dtype), (query.shape[0], slopes.shape[0], 1, rows))
            shift = self.padded(shift, 3, _missing(rows, _ROWS))
        # A mask is aligned to the ends of the lengths, so they are given where both chunks are cut alike, or without
        # a mask. Elsewhere the keys lie before the queries, and a row that is real sees real keys alone.
        if self.has_lengths and (mode == 0 or at == chunk):
            queries, keys = self.seen(lengths, at, rows), self.seen(lengths, chunk, rows)
        if self.keep_prob < 1:
            seed = ops.concat((words[:2], _place(at * rows, chunk * rows)))
        return shift, queries, keys, seed

    def slope_of_row(self, slopes, rows):
        """float32 (1, N1, rows): what the scores have too much, whose bias counts from the first row of the chunk."""
        if not self.has_slopes:
            return 0.0
        return ops.reshape(slopes, (1, -1, 1)) * ops.reshape(_steps(rows, 0), (1, 1, rows))

    def chunk(self, key, value, slot):
        """Keys and values of one of this rank's chunks, in memory of their own, which a collective may change."""
        rows = key.shape[2] // 2
        return ops.concat((key[:, :, slot * rows : (slot + 1) * rows], value[:, :, slot * rows : (slot + 1) * rows]), 1)

    def attend(self, state, query, shared, at, chunk, lengths, slopes, words):
        """The state (output times sum, maximum, sum) of a chunk of queries, after one more chunk of keys."""
        rows = query.shape[2]
        band = self.relation(at, chunk, rows)
        if band == ():
            return state
        shift, queries, keys, seed = self.extras(query, at, chunk, rows, band[0], lengths, slopes, words)
        heads = shared.shape[1] // 2
        out, top, total = mco_generated_ops.flash_attention(
            query, shared[:, :heads], shared[:, heads:], None, shift, None, queries, keys, seed,
            scale_value=self.scale_value, keep_prob=self.keep_prob,
            sparse_mode=band[0], pre_tokens=band[1], next_tokens=band[2],
        )  # fmt: skip
        return _merged(state, out, top[:, :, :rows], total[:, :, :rows])

    def result(self, state, query, lengths, slopes, at):
        """(output, maximum, sum) of a chunk of queries that has seen all keys."""
        out, top, total = state
        seen = total != 0
        out = out / ops.expand_dims(ops.where(seen, total, ops.ones(total.shape, mstype.float32)), 3)
        top = ops.where(seen, top - self.slope_of_row(slopes, query.shape[2]), _zeros(top))
        out, top, total = (self.real(x, lengths, at, query.shape[2]) for x in (out, top, total))
        return ops.cast(out, query.dtype), top, total

    def construct(self, query, key, value, lengths, slopes, words):
        rows = query.shape[2] // 2
        first = self.real(query[:, :, :rows], lengths, self.first, rows)
        second = self.real(query[:, :, rows:], lengths, self.second, rows)
        states = _start(first), _start(second)
        shared = key
        for chunk, owner, slot in self.rounds:
            after = shared, states[0][0], states[1][0]
            shared = self.exchange.share(self.chunk(key, value, slot), owner, after)
            one = self.attend(states[0], first, shared, self.first, chunk, lengths, slopes, words)
            two = self.attend(states[1], second, shared, self.second, chunk, lengths, slopes, words)
            states = one, two
        one = self.result(states[0], first, lengths, slopes, self.first)
        two = self.result(states[1], second, lengths, slopes, self.second)
        out = self.exchange.wait(ops.concat((one[0], two[0]), 2), (shared,))
        return out, ops.concat((one[1], two[1]), 2), ops.concat((one[2], two[2]), 2)

    def gradient(self, sums, half, shared, at, chunk, lengths, slopes, words):
        """(gradient of the queries, of the shared keys and values), both float32, after one more chunk of keys."""
        query, out, top, total, d_out, d_top, d_total = half
        rows = query.shape[2]
        band = self.relation(at, chunk, rows)
        if band == ():
            return sums
        shift, queries, keys, seed = self.extras(query, at, chunk, rows, band[0], lengths, slopes, words)
        heads = shared.shape[1] // 2
        results = mco_generated_ops.flash_attention_grad(
            query, shared[:, :heads], shared[:, heads:], out, d_out, top, total, d_top, d_total,
            None, shift, None, queries, keys, seed,
            scale_value=self.scale_value, keep_prob=self.keep_prob,
            sparse_mode=band[0], pre_tokens=band[1], next_tokens=band[2],
        )  # fmt: skip
        d_shared = ops.concat((results[1], results[2]), 1)
        return sums[0] + ops.cast(results[0], mstype.float32), sums[1] + ops.cast(d_shared, mstype.float32)

    def half(self, at, start, query, lengths, slopes, results, gradients):
        """What the backward pass needs of one chunk of queries; statistics in whole blocks, 1 for the sum of a row that
        sees nothing: its gradients are zeros, and nothing is divided by 0."""
        rows = query.shape[2] // 2
        count = _missing(rows, _ROWS)
        parts: Any = ()
        for x in (query, results[0], results[1], results[2], gradients[0], gradients[1], gradients[2]):
            parts += (self.real(x[:, :, start : start + rows], lengths, at, rows),)
        query, out, top, total, d_out, d_top, d_total = parts
        top = top + self.slope_of_row(slopes, rows)
        total = ops.where(total != 0, total, ops.ones(total.shape, mstype.float32))
        top, total, d_top, d_total = (self.padded(x, 2, count) for x in (top, total, d_top, d_total))
        return query, out, top, total, d_out, d_top, d_total

    def bprop(self, query, key, value, lengths, slopes, words, results, gradients):
        rows = query.shape[2] // 2
        first = self.half(self.first, 0, query, lengths, slopes, results, gradients)
        second = self.half(self.second, rows, query, lengths, slopes, results, gradients)
        d_first = ops.zeros(first[0].shape, mstype.float32)
        d_second = d_first
        slots = key, key
        after: Any = (results[0], gradients[0])  # not before the rounds of the forward pass are over
        for chunk, owner, slot in self.rounds:
            shared = self.exchange.share(self.chunk(key, value, slot), owner, after)
            nothing = nothing_like(ops.cast(shared, mstype.float32))
            d_first, d_shared = self.gradient(
                (d_first, nothing), first, shared, self.first, chunk, lengths, slopes, words
            )
            d_second, d_shared = self.gradient(
                (d_second, d_shared), second, shared, self.second, chunk, lengths, slopes, words
            )
            total = self.exchange.total(d_shared, (d_first, d_second, shared))
            if owner == self.rank:
                slots = (total, slots[1]) if slot == 0 else (slots[0], total)
            after = (total,)
        d_both = ops.cast(ops.concat(slots, 2), key.dtype)
        d_query = self.exchange.wait(ops.cast(ops.concat((d_first, d_second), 2), query.dtype), after)
        heads = key.shape[1]
        return (
            d_query, d_both[:, :heads], d_both[:, heads:],
            _zeros(lengths), _zeros(slopes), _zeros(words),
        )  # fmt: skip


def _wider(x, count):
    """``count`` zeros behind the last axis, for what is differentiated."""
    return ops.concat((x, ops.zeros((*x.shape[:3], count), x.dtype)), 3)


def _zeros(x):
    return ops.zeros(x.shape, x.dtype)


def _start(query):
    """The state of queries that have seen no key."""
    out = ops.zeros(query.shape, mstype.float32)
    top = ops.full(query.shape[:3], _HIDDEN, dtype=mstype.float32)
    return out, top, ops.zeros(query.shape[:3], mstype.float32)


def _merged(state, out, top, total):
    """(output times sum, maximum, sum) of two disjoint sets of keys; the maximum of a row that saw none is unused."""
    before, last, sums = state
    top = ops.where(total != 0, top, ops.full(top.shape, _HIDDEN, dtype=mstype.float32))
    most = ops.maximum(last, top)
    kept, added = ops.exp(last - most), ops.exp(top - most) * total
    out = before * ops.expand_dims(kept, 3) + ops.cast(out, mstype.float32) * ops.expand_dims(added, 3)
    return out, most, sums * kept + added
