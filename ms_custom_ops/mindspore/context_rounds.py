# SPDX-License-Identifier: Apache-2.0
"""The rounds of ``context_parallel_attention``: part by part of the heads, chunk by chunk of the keys, forward and
backward.

What MindSpore's CPU runtime holds shaped this file (docs/parallel.md has the figures):

* Its graph runs what it can as soon as it can. Each round waits for the one before it, also without other ranks, and
  each part for the part before it; otherwise every chunk's partial results are there at once.
* A kernel that broadcasts keeps 16 bytes of indices for each value of its result as long as the graph lives. Large
  operands have equal shapes here.
* An index such as ``x[:, :, :n]`` of float16 goes through a float32 copy of the whole; ``ops.slice`` does not.
* A constant stays as long as the graph: sums start with their first term, not with zeros.
* Each step of the compiler's evaluation, an index into a tuple or a sum of numbers, costs memory that does not come
  back whole. What differs between parts is one constant, and what they share is not inlined.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, nn, no_inline, ops
from mindspore.common import dtype as mstype

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.lower.steps import missing
from ms_custom_ops.mindspore.context_parallel import Exchange, nothing_like

WIDE = 2147483647  # a band without an edge
PART_BYTES = 4 << 20
"""Partial output of a chunk in float32 above which heads are taken in parts; at most MOST_PARTS of them."""
MOST_PARTS = 8
_HIDDEN = -3.0e38  # maximum of a row that sees nothing, in comparisons only
_ROWS, _LENGTHS = 16, 8  # the primitive's rows are whole 32-byte blocks: 16 values of 2 bytes, 8 of 4
_WORD = 2**32
_NOTHING: Any = ()
_HEAD = 0x9E3779B97F4A7C15  # each head's seed is that much more than the one before (op_impl/flash_attention/README.md)


@ops.constexpr
def _relation(query_chunk, key_chunk, rows, sparse_mode, pre_tokens, next_tokens):
    """(sparse_mode, pre_tokens, next_tokens) of a chunk of queries against one of keys; () where all is hidden."""
    if sparse_mode == 0:
        return 0, WIDE, WIDE
    pre, after = (WIDE, 0) if sparse_mode == 3 else (pre_tokens, next_tokens)
    # j - i counted within the two chunks is that much more than in the sequence.
    ahead = (query_chunk - key_chunk) * rows
    pre = pre if pre >= WIDE else pre - ahead
    after = after if after >= WIDE else after + ahead
    if after <= -rows or pre <= -rows:
        return ()
    if after >= rows - 1 and pre >= rows - 1:
        return 0, WIDE, WIDE
    if after == 0 and pre >= rows - 1:
        return 3, WIDE, WIDE
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
# Primitives in place of functions: a function is a graph of its own to the compiler, whose memory counts.
_cast, _slice, _exp, _maximum = ops.Cast(), ops.Slice(), ops.Exp(), ops.Maximum()
_mul, _add, _sub, _reshape = ops.Mul(), ops.Add(), ops.Sub(), ops.Reshape()
_reciprocal = ops.Reciprocal()
_depend = ops.Depend()
_heads, _rows = ops.Concat(1), ops.Concat(2)


def _parts(query, key, part_bytes):
    """((first batch, batches, first key head, key heads), ...) that are worked on one after the other, all alike."""
    batch, kv_heads, rows = key[0], key[1], key[2] // 2
    head = query[1] // kv_heads * rows * query[3] * 4
    sizes = [(n, kv_heads) for n in range(batch, 0, -1) if batch % n == 0]
    sizes += [(1, n) for n in range(kv_heads - 1, 0, -1) if kv_heads % n == 0]
    batches, heads = sizes[0]
    for size in sizes:
        if batches * heads * head <= part_bytes or batch // size[0] * (kv_heads // size[1]) > MOST_PARTS:
            break
        batches, heads = size
    return tuple((b, batches, k, heads) for b in range(0, batch, batches) for k in range(0, kv_heads, heads))


@ops.constexpr
def _cuts(query, key, part_bytes):
    """(how many parts lie beside each other in the heads, parts). A part is three cuts as :meth:`Rounds.halves` takes
    them, of what has the shape of the queries, of their statistics and of the keys, and (first batch, batches, first
    head, heads, heads before it in all batches): all that differs between parts, worked out at once, since each step
    of the compiler's own evaluation costs memory."""
    shared, rows = query[1] // key[1], key[2] // 2
    parts = _parts(query, key, part_bytes)
    found = []
    for batch, batches, kv_head, kv_heads in parts:
        head, heads = kv_head * shared, kv_heads * shared
        queries = (batch, head, 0, 0), (batch, head, rows, 0), (batches, heads, rows, query[3])
        keys = (batch, kv_head, 0, 0), (batch, kv_head, rows, 0), (batches, kv_heads, rows, key[3])
        place = batch, batches, head, heads, batch * query[1] + head
        found.append((queries, tuple(x[:3] for x in queries), keys, place))
    return key[1] // parts[0][3], tuple(found)


@ops.constexpr
def _ahead(head):
    """Low and high word of what the seed of a head is ahead of that of head 0."""
    step = head * _HEAD % 2**64
    return step % _WORD, step // _WORD


def _word(x):
    """int32 of the bits of an int64 that is at least 0 and below 2**32."""
    return _cast(x - ops.floor_div(x + _WORD // 2, _WORD) * _WORD, mstype.int32)


def _beside(x, like):
    """A value of each row, (B, N, rows), at every value of the rows of ``like``."""
    return ops.broadcast_to(_reshape(x, (*x.shape, 1)), like.shape)


class Rounds(nn.Cell):
    """The rounds of chunks, forward and backward, for D in whole blocks. Helpers with branches are methods: of a plain
    function with branches MindSpore's graph compiler loses the branches in the bprop of its second compilation (of its
    own too: ops.full, ops.zeros_like)."""

    def __init__(self, group, scale_value, keep_prob, band, has_lengths, has_slopes):
        super().__init__()
        self.exchange = Exchange(group)
        self.rank = group.rank
        self.first, self.second = group.chunks()
        self.rounds = tuple((chunk, *group.owner(chunk)) for chunk in range(2 * group.size))
        self.scale_value, self.keep_prob = scale_value, keep_prob
        self.sparse_mode, self.pre_tokens, self.next_tokens = band
        self.has_lengths, self.has_slopes = has_lengths, has_slopes
        self.may_see_nothing = has_lengths or self.sparse_mode == 4
        self.part_bytes = PART_BYTES

    def relation(self, at, chunk, rows):
        return _relation(at, chunk, rows, self.sparse_mode, self.pre_tokens, self.next_tokens)

    def padded(self, x, axis, count):
        """``count`` zeros behind ``axis``."""
        if count == 0:
            return x
        return ops.concat((x, ops.zeros(x.shape[:axis] + (count,) + x.shape[axis + 1 :], x.dtype)), axis)

    def halves(self, x, cut):
        """Rows of this rank's two chunks, of a part of the heads."""
        begin, second, size = cut
        return _slice(x, begin, size), _slice(x, second, size)

    def joined(self, parts, across):
        """Whole rows of what :meth:`halves` took apart; ``across`` parts lie beside each other in the heads."""
        whole = _NOTHING
        for start in range(0, len(parts), across):
            whole += (parts[start] if across == 1 else _heads(parts[start : start + across]),)
        return whole[0] if len(whole) == 1 else ops.concat(whole, 0)

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
        return ops.where(ops.broadcast_to(inside, x.shape), x, nothing_like(x))

    def part_words(self, words, head):
        """The seed's words for heads from ``head`` on, the first of which the primitive counts as 0."""
        low, high = _ahead(head)
        given = _cast(words[:2], mstype.int64)
        given = given - ops.floor_div(given, _WORD) * _WORD
        low = given[:1] + low
        carry = ops.floor_div(low, _WORD)
        high = given[1:] + high + carry
        return ops.concat((_word(low - carry * _WORD), _word(high - ops.floor_div(high, _WORD) * _WORD)))

    def extras(self, query, at, chunk, rows, mode, lengths, slopes, words):
        """(real_shift, lengths of the queries, of the keys, seed_words) of one chunk against another."""
        shift, queries, keys, seed = None, None, None, None
        if self.has_slopes:
            shift = ops.reshape(slopes, (1, slopes.shape[0], 1, 1)) * _steps(rows, (at - chunk) * rows)
            shift = ops.broadcast_to(_cast(shift, query.dtype), (query.shape[0], slopes.shape[0], 1, rows))
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
        return ops.reshape(slopes, (1, -1, 1)) * ops.reshape(_steps(rows, 0), (1, 1, rows))

    def small(self, place, lengths, slopes, words):
        """Lengths, slopes and seed of a part."""
        if self.has_lengths:
            lengths = lengths[place[0] : place[0] + place[1]]
        if self.has_slopes:
            slopes = slopes[place[2] : place[2] + place[3]]
        if self.keep_prob < 1:
            words = self.part_words(words, place[4])
        return lengths, slopes, words

    def share(self, keys, values, owner, slot, after):
        """(what came, keys, values) of a chunk, of a part of the heads, from the rank that has it."""
        # In memory of their own, which a collective may change.
        mine = _heads((_depend(keys[slot], after), values[slot]))
        sent = self.exchange.share(mine, owner)
        half = (sent.shape[0], sent.shape[1] // 2, sent.shape[2], sent.shape[3])
        return sent, _slice(sent, (0, 0, 0, 0), half), _slice(sent, (0, half[1], 0, 0), half)

    def after(self, sums, x):
        """``x`` once the first tensor of ``sums`` is there."""
        return x if len(sums) == 0 else _depend(x, sums[0])

    def attend(self, state, query, key, value, at, chunk, small):
        """The state (output times sum, maximum, sum) of a chunk of queries, after one more chunk of keys; () before."""
        rows = query.shape[2]
        band = self.relation(at, chunk, rows)
        if band == ():
            return state
        shift, queries, keys, seed = self.extras(query, at, chunk, rows, band[0], small[0], small[1], small[2])
        out, top, total = mco_generated_ops.flash_attention(
            query, key, value, None, shift, None, queries, keys, seed,
            scale_value=self.scale_value, keep_prob=self.keep_prob,
            sparse_mode=band[0], pre_tokens=band[1], next_tokens=band[2],
        )  # fmt: skip
        if _missing(rows, _ROWS) > 0:
            top, total = top[:, :, :rows], total[:, :, :rows]
        if self.may_see_nothing:
            top = ops.where(total != 0, top, ops.full(top.shape, _HIDDEN, dtype=mstype.float32))
        return self.merged(state, _cast(out, mstype.float32), top, total)

    def merged(self, state, out, top, total):
        """The state of two disjoint sets of keys; the maximum of a row that saw none is unused."""
        if len(state) == 0:
            return _mul(out, _beside(total, out)), top, total
        before, last, sums = state
        most = _maximum(last, top)
        kept, added = _exp(_sub(last, most)), _mul(_exp(_sub(top, most)), total)
        out = _add(_mul(before, _beside(kept, out)), _mul(out, _beside(added, out)))
        return out, most, _add(_mul(sums, kept), added)

    def result(self, state, query, lengths, slopes, at):
        """(output, maximum, sum) of a chunk of queries that has seen all keys."""
        if len(state) == 0:
            nothing = ops.zeros(query.shape[:3], mstype.float32)
            return _zeros(query), nothing, nothing
        out, top, total = state
        divisor = total
        if self.may_see_nothing:
            divisor = ops.where(total != 0, total, ops.ones(total.shape, mstype.float32))
        out = self.real(_cast(_mul(out, _beside(_reciprocal(divisor), out)), query.dtype), lengths, at, query.shape[2])
        if self.has_slopes:
            top = top - self.slope_of_row(slopes, query.shape[2])
        if self.may_see_nothing:
            top = ops.where(total != 0, top, _zeros(top))
        return out, self.real(top, lengths, at, query.shape[2]), self.real(total, lengths, at, query.shape[2])

    @no_inline
    def attend_part(self, queries, keys, values, small):
        """(output, maximum, sum) of a part. Compiled once for all parts, as all arguments are tensors of equal
        shapes."""
        rows = queries[0].shape[2]
        first = self.real(queries[0], small[0], self.first, rows)
        second = self.real(queries[1], small[0], self.second, rows)
        one, two, after = _NOTHING, _NOTHING, queries[0]
        for chunk, owner, slot in self.rounds:
            after, key, value = self.share(keys, values, owner, slot, after)
            one = self.attend(one, first, key, value, self.first, chunk, small)
            two = self.attend(two, second, self.after(one, key), value, self.second, chunk, small)
            after = self.after(two, self.after(one, after))
        one = self.result(one, first, small[0], small[1], self.first)
        two = self.result(two, second, small[0], small[1], self.second)
        return _depend(_rows((one[0], two[0])), after), _rows((one[1], two[1])), _rows((one[2], two[2]))

    def construct(self, query, key, value, lengths, slopes, words):
        outs, tops, totals, after = _NOTHING, _NOTHING, _NOTHING, key
        across, cuts = _cuts(query.shape, key.shape, self.part_bytes)
        for wide, _, narrow, place in cuts:
            small = self.small(place, lengths, slopes, words)
            queries = self.halves(_depend(query, after), wide)
            keys, values = self.halves(_depend(key, after), narrow), self.halves(_depend(value, after), narrow)
            out, top, total = self.attend_part(queries, keys, values, small)
            outs, tops, totals, after = (*outs, out), (*tops, top), (*totals, total), out
        return self.joined(outs, across), self.joined(tops, across), self.joined(totals, across)

    def gradient(self, sums, half, key, value, at, chunk, small):
        """(gradient of the queries, of the chunk's keys and values), both float32 or (), after one more chunk."""
        query, out, top, total, d_out, d_top, d_total = half
        rows = query.shape[2]
        band = self.relation(at, chunk, rows)
        if band == ():
            return sums
        shift, queries, keys, seed = self.extras(query, at, chunk, rows, band[0], small[0], small[1], small[2])
        results = mco_generated_ops.flash_attention_grad(
            query, key, value, out, d_out, top, total, d_top, d_total, None, shift, None, queries, keys, seed,
            scale_value=self.scale_value, keep_prob=self.keep_prob,
            sparse_mode=band[0], pre_tokens=band[1], next_tokens=band[2],
        )  # fmt: skip
        return self.sum(sums[0], results[0]), self.sum(sums[1], _heads((results[1], results[2])))

    def sum(self, before, x):
        """(the sum in float32,) of what there was before, () or (tensor,), and ``x``."""
        x = _cast(x, mstype.float32)
        return (x,) if len(before) == 0 else (_add(before[0], x),)

    def some(self, sums, like):
        """The tensor of ``sums``, zeros in float32 where it is ()."""
        return nothing_like(_cast(like, mstype.float32)) if len(sums) == 0 else sums[0]

    def half(self, at, which, halves, small):
        """What the backward pass needs of one chunk of queries; statistics in whole blocks, 1 for the sum of a row that
        sees nothing: its gradients are zeros, and nothing is divided by 0."""
        rows = halves[0][which].shape[2]
        count = _missing(rows, _ROWS)
        parts: Any = ()
        for x in halves:
            parts += (self.real(x[which], small[0], at, rows),)
        query, out, top, total, d_out, d_top, d_total = parts
        if self.has_slopes:
            top = top + self.slope_of_row(small[1], rows)
        if self.may_see_nothing:
            total = ops.where(total != 0, total, ops.ones(total.shape, mstype.float32))
        if count > 0:
            top, total, d_top, d_total = (self.padded(x, 2, count) for x in (top, total, d_top, d_total))
        return query, out, top, total, d_out, d_top, d_total

    @no_inline
    def gradient_part(self, halves, keys, values, small):
        """Gradients of query, key and value of a part, compiled once as in :meth:`attend_part`."""
        first, second = self.half(self.first, 0, halves, small), self.half(self.second, 1, halves, small)
        d_first, d_second, slots, after = _NOTHING, _NOTHING, (_NOTHING, _NOTHING), first[0]
        for chunk, owner, slot in self.rounds:
            sent, key, value = self.share(keys, values, owner, slot, after)
            d_first, d_sent = self.gradient((d_first, ()), first, key, value, self.first, chunk, small)
            key = self.after(d_sent, key)
            d_second, d_sent = self.gradient((d_second, d_sent), second, key, value, self.second, chunk, small)
            total = self.exchange.total(self.some(d_sent, sent))
            after = total
            if owner == self.rank:
                mine = _cast(total, keys[0].dtype)
                slots = ((mine,), slots[1]) if slot == 0 else (slots[0], (mine,))
                after = _depend(total, mine)
        dtype = keys[0].dtype
        d_query = _rows((_cast(self.some(d_first, first[0]), dtype), _cast(self.some(d_second, second[0]), dtype)))
        both = _rows((slots[0][0], slots[1][0]))
        size = (both.shape[0], both.shape[1] // 2, both.shape[2], both.shape[3])
        d_key, d_value = _slice(both, (0, 0, 0, 0), size), _slice(both, (0, size[1], 0, 0), size)
        return _depend(d_query, after), d_key, d_value

    def bprop(self, query, key, value, lengths, slopes, words, results, gradients):
        out, top, total = results
        d_out, d_top, d_total = gradients
        after = _depend(out, d_out)  # not before the rounds of the forward pass are over
        d_queries, d_keys, d_values = _NOTHING, _NOTHING, _NOTHING
        across, cuts = _cuts(query.shape, key.shape, self.part_bytes)
        for wide, flat, narrow, place in cuts:
            small = self.small(place, lengths, slopes, words)
            halves = (
                self.halves(_depend(query, after), wide), self.halves(_depend(out, after), wide),
                self.halves(top, flat), self.halves(total, flat),
                self.halves(_depend(d_out, after), wide), self.halves(d_top, flat), self.halves(d_total, flat),
            )  # fmt: skip
            keys, values = self.halves(_depend(key, after), narrow), self.halves(_depend(value, after), narrow)
            d_query, d_key, d_value = self.gradient_part(halves, keys, values, small)
            d_queries, d_keys, d_values = (*d_queries, d_query), (*d_keys, d_key), (*d_values, d_value)
            after = _depend(_depend(d_query, d_key), d_value)
        return (
            self.joined(d_queries, across), self.joined(d_keys, across), self.joined(d_values, across),
            _zeros(lengths), _zeros(slopes), _zeros(words),
        )  # fmt: skip


def _zeros(x):
    return ops.zeros(x.shape, x.dtype)
