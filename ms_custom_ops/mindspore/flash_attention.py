# SPDX-License-Identifier: Apache-2.0
"""``flash_attention``: the public function over the generated primitive. Usable in construct and in plain
Python.
"""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, ops
from mindspore.common import dtype as mstype

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.errors import OpArgumentError, OpDtypeError, describe
from ms_custom_ops.mindspore.cast import cast
from ms_custom_ops.mindspore.custom import DTYPES, dtype_name
from ms_custom_ops.mindspore.lowered import about, check_tensors, eager, lowered, operand_of

_OP = "flash_attention"
_WORD = 2**32
_BITS = 24  # float32 holds whole numbers of that many bits
_POWERS = Tensor(2.0 ** np.arange(_BITS).astype(np.float32) / 2)  # what is kept comes doubled
_COINS = Tensor(np.ones((2, _BITS), np.float32))
_join = ops.Concat(0)
# Recomputed, the words would be drawn again: the mask of the backward pass would not be the one of the forward pass.
_join.recompute(False)


def _drawn_words():
    """Words of a seed of 48 random bits."""
    coins = ops.stop_gradient(ops.dropout(_COINS, 0.5))
    words = ops.cast((coins * _POWERS).sum(1), mstype.int32)
    return _join((words, ops.zeros((6,), mstype.int32)))


def _words(seed):
    """Low and high word of a tensor of one integer."""
    whole = ops.cast(ops.reshape(seed, (1,)), mstype.int64)
    high = ops.floor_div(whole, _WORD)
    words = (ops.cast(whole - high * _WORD, mstype.int32), ops.cast(high, mstype.int32))
    return ops.concat((*words, ops.zeros((6,), mstype.int32)), 0)


@ops.constexpr
def _check_one_bias(alone):
    if not alone:
        raise OpArgumentError(describe(_OP, "attn_bias", "given beside real_shift", "one of the two"))


@ops.constexpr
def _bias_shape(entry):
    """Shape of a bias with four axes."""
    operand = operand_of(entry)
    if operand.other or operand.values is not None:
        accepted = "a tensor that broadcasts to (B, N1, S1, S2)"
        raise OpArgumentError(describe(_OP, "attn_bias", operand.other or list(operand.values or ()), accepted))
    shape = operand.shape or ()
    return (1,) * (4 - len(shape)) + shape


def _shift_of(bias, heads, keys):
    """(1 or B, N1, 1 or S1, S2) of what broadcasts to (B, N1, S1, S2)."""
    shape = _bias_shape(about(bias))
    if len(shape) != 4 or (shape[1] == heads and shape[3] == keys):
        return ops.reshape(bias, shape)
    bias = ops.reshape(ops.cast(bias, mstype.float32), shape)  # its gradient is summed in float32
    return ops.broadcast_to(
        bias, (shape[0], heads if shape[1] == 1 else shape[1], shape[2], keys if shape[3] == 1 else shape[3])
    )


def _check_flags(values):
    """A float mask, an array, as it is: it holds 0 and 1; what would be added to the scores is no mask."""
    other = values[(values != 0) & (values != 1)]
    if other.size:
        given = f"a float16 mask with values such as {other[0]}"
        accepted = "0 (kept) and 1 (masked); what is added to the scores is attn_bias or real_shift"
        raise OpArgumentError(describe(_OP, "attn_mask", given, accepted))
    return values


# Of a graph, which meets values when it runs; its own shape and dtype.
_checked_flags = ops.Custom(_check_flags, lambda shape: shape, lambda dtype: dtype, "pyfunc")


@ops.constexpr
def _rounded_to(compute_dtype, dtypes):
    """The dtype that float32 operands are rounded to."""
    if compute_dtype is None:
        accepted = (
            "float16 or bfloat16; float32 with compute_dtype='float16' or compute_dtype='bfloat16' of "
            "mco.ops.flash_attention, which rounds query, key and value"
        )
        raise OpDtypeError(describe(_OP, "dtype of query", "float32", accepted))
    if compute_dtype not in ("float16", "bfloat16"):
        raise OpArgumentError(describe(_OP, "compute_dtype", repr(compute_dtype), "'float16', 'bfloat16' or None"))
    for name, given in zip(("query", "key", "value"), dtypes, strict=True):
        dtype = dtype_name(given)
        if dtype not in ("float32", compute_dtype):
            accepted = f"float32 or {compute_dtype}, the compute_dtype"
            raise OpDtypeError(describe(_OP, f"dtype of {name}", dtype, accepted))
    return DTYPES[compute_dtype]


@ops.constexpr
def _drops(keep_prob):
    """Weights may be dropped; what is no probability is refused later."""
    return isinstance(keep_prob, (int, float)) and not isinstance(keep_prob, bool) and 0 < keep_prob < 1


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    real_shift: Tensor | None = None,
    drop_mask: Tensor | None = None,
    actual_seq_qlen: Tensor | list[int] | tuple[int, ...] | None = None,
    actual_seq_kvlen: Tensor | list[int] | tuple[int, ...] | None = None,
    seed_words: Tensor | None = None,
    *,
    attn_bias: Tensor | None = None,
    scale_value: float | Tensor | None = None,
    keep_prob: float = 1.0,
    seed: int | Tensor | None = None,
    sparse_mode: int = 0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647,
    prev_block_num: int = 65536,
    next_block_num: int = 65536,
    tiling_stgy_name: str = "auto",
    high_precision: bool = True,
    compute_dtype: str | None = None,
    layout: str = "BNSD",
) -> tuple[Tensor, Tensor, Tensor]:
    """Scaled dot-product attention without the S1 x S2 matrix in memory; layout BNSD, or TND for packed sequences.

    ``attention_out = dropout(softmax(mask(scale_value * query @ key^T + real_shift))) @ value``
    (op_impl/flash_attention/README.md has the formulas and the order of the masks).

    Args:
        query: (B, N1, S1, D), TND: (T1, N1, D), float16, or bfloat16 on split-core chips; float32 with
            ``compute_dtype``. D from 1 to 256.
        key: (B, N2, S2, D), TND: (T2, N2, D), dtype of query; N1 is a multiple of N2 (grouped heads).
        value: shape and dtype of key, but for a head size of its own, Dv from 1 to 256; the narrower heads are padded
            with zeros to the wider.
        attn_mask: bool, uint8 or float16, broadcastable to (B, N1, S1, S2); 1 = masked, 0 = kept. Other values of a
            float16 mask are refused, in a graph when it runs: what is added to the scores, such as a mask of 0 and
            -inf, is ``attn_bias``.
        real_shift: float16, bfloat16 or float32 (used in the dtype of query), (1 or B, N1, 1 or S1, S2);
            added to the scaled scores. :func:`alibi_slopes` helps with ALiBi.
        drop_mask: bool, uint8 or float16, (B, N1, S1, S2); 1 = kept. Takes the place of ``seed``; what is
            kept is divided by ``keep_prob``.
        actual_seq_qlen: int32 or int64 tensor (B,) or a list of B ints: tokens of query in each batch, 0 to
            S1. TND: inclusive prefix sums of the lengths of the sequences, needed; each sees its own keys.
        actual_seq_kvlen: the same for key and value, 0 to S2. What a length, mask or band hides from a row has no
            influence on its results and gradients, whatever it holds (NaN, Inf).
        attn_bias: ``real_shift`` in any shape that broadcasts to (B, N1, S1, S2): added to the scaled scores, with a
            gradient.
        seed_words: int32 (8,): low and high word of a 64-bit seed, row and column of the first query and key in a
            longer sequence (0 and 0 for the whole), then padding; a ``seed`` made outside, as the
            interfaces without MindSpore take it.
        scale_value: factor on the scores, applied inside; None means D^-0.5. A tensor of one value is multiplied
            into query, rounded to its dtype, and has a gradient.
        keep_prob: probability to keep a weight, 0 < keep_prob <= 1. Below 1 without ``drop_mask``, the mask
            comes from a counter-based generator and is made again in the backward pass.
        seed: seed of that generator. None draws one from MindSpore's generator (``mindspore.set_seed``) at every
            call, in a graph at every step. An int is part of the graph: the same weights are dropped at every
            step. So does a tensor of one int32 or int64, which may change from step to step. Cells with
            ``recompute()`` in PYNATIVE mode need a seed: MindSpore draws anew there.
        sparse_mode: 0 none, 3 causal aligned to the lower right, 4 band of ``pre_tokens`` and ``next_tokens``
            around the lower-right diagonal. Modes and ``attn_mask`` both apply.
        pre_tokens: mode 4: keys kept to the left of the diagonal.
        next_tokens: mode 4: keys kept to the right of the diagonal.
        prev_block_num: blocks of 128 keys kept before the block of the query.
        next_block_num: blocks of 128 keys kept after the block of the query.
        tiling_stgy_name: "auto", "sparse", "wukong" or "xunfei".
        high_precision: exponent, sum and output accumulate in float32.
        compute_dtype: "float16" or "bfloat16": query, key and value of float32 are rounded to it, and attention_out is
            float32 where query is; gradients pass through the same rounding. Beyond 65504, float16 holds infinity.
            None refuses float32.
        layout: "BNSD" or "TND". TND takes no mask, bias, drop mask or window of blocks; the modes and dropout by seed
            apply, modes within each sequence.

    Returns:
        attention_out, query with heads of size Dv; softmax_max and softmax_sum, float32 (B, N1, S1) or (N1, T1), of the
        scaled scores with the natural exponent. A row with all keys masked has 0 in all three and gradient 0.
        Gradients flow from all three to query, key, value and real_shift; a loss on the log-sum-exp is one on
        ``softmax_max + log(softmax_sum)``. With B, N1, S1 or S2 = 0 the outputs are
        empty or 0, and so are the gradients.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    if compute_dtype is not None or attn_bias is not None or isinstance(scale_value, Tensor):
        check_tensors(_OP, ("query", "key", "value"), (query, key, value))
    if attn_bias is not None:
        _check_one_bias(real_shift is None)
        real_shift = _shift_of(attn_bias, query.shape[1], key.shape[2])
    if attn_mask is not None and about(attn_mask)[1] == mstype.float16:
        if eager():
            _check_flags(attn_mask.asnumpy())
        else:
            attn_mask = _checked_flags(ops.stop_gradient(attn_mask))
    if isinstance(scale_value, Tensor):
        scaled = ops.cast(query, mstype.float32) * ops.reshape(ops.cast(scale_value, mstype.float32), ())
        query, scale_value = ops.cast(scaled, query.dtype), 1.0
    wide = about(query)[1] == mstype.float32
    if wide or compute_dtype is not None:
        rounded = _rounded_to(compute_dtype, (about(query)[1], about(key)[1], about(value)[1]))
        query, key, value = cast(query, rounded), cast(key, rounded), cast(value, rounded)
    if isinstance(seed, Tensor):
        seed_words, seed = _words(seed), 0
    elif seed is None:
        seed = 0
        if seed_words is None and drop_mask is None and _drops(keep_prob):
            seed_words = _drawn_words()
    given = (query, key, value, attn_mask, real_shift, drop_mask, actual_seq_qlen, actual_seq_kvlen, seed_words)
    attrs = {
        "scale_value": scale_value,
        "keep_prob": keep_prob,
        "seed": seed,
        "sparse_mode": sparse_mode,
        "pre_tokens": pre_tokens,
        "next_tokens": next_tokens,
        "prev_block_num": prev_block_num,
        "next_block_num": next_block_num,
        "tiling_stgy_name": tiling_stgy_name,
        "high_precision": high_precision,
        "layout": layout,
    }
    out, softmax_max, softmax_sum = lowered("flash_attention", mco_generated_ops.flash_attention, given, attrs)
    if wide:
        out = cast(out, mstype.float32)
    return out, softmax_max, softmax_sum
