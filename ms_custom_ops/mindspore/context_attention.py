# SPDX-License-Identifier: Apache-2.0
"""``context_parallel_attention``: each rank attends with its own rows to the keys of all ranks, chunk by chunk."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, nn, ops
from mindspore.common import dtype as mstype

from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.lower.steps import missing
from ms_custom_ops.mindspore.context_check import check_ranks
from ms_custom_ops.mindspore.context_parallel import ContextGroup
from ms_custom_ops.mindspore.context_rounds import WIDE, Rounds

_OP = "context_parallel_attention"
_LAYER = "nn.ContextParallelAttention"
_DIM = 16  # the primitive's rows are whole 32-byte blocks: 16 values of 2 bytes
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
    return Rounds(members, scale, float(keep_prob), band, has_lengths, has_slopes)


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
    pre_tokens: int = WIDE,
    next_tokens: int = WIDE,
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
    return out if count == 0 else out[:, :, :, :head_dim], top, total


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
        pre_tokens: int = WIDE,
        next_tokens: int = WIDE,
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


def _wider(x, count):
    """``count`` zeros behind the last axis, for what is differentiated."""
    return ops.concat((x, ops.zeros((*x.shape[:3], count), x.dtype)), 3)
