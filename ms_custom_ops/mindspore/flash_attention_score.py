# SPDX-License-Identifier: Apache-2.0
"""``flash_attention_score``: MindSpore's own signature over :func:`flash_attention`."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, ops
from mindspore.common import dtype as mstype

from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.lower.score_plan import OP, PACKED, check
from ms_custom_ops.mindspore.flash_attention import flash_attention
from ms_custom_ops.mindspore.lowered import about, operand_of

_BITS = Tensor(np.array([1, 2, 4, 8, 16, 32, 64, 128], np.uint8))


@ops.constexpr
def _plan(operands, lengths, head_num, keep_prob, scalar_value, input_layout, sparse_mode, pre_tokens, next_tokens):
    names = ("query", "key", "value", "real_shift", "drop_mask", "attn_mask")
    named = {name: operand_of(entry) for name, entry in zip(names, operands, strict=True)}
    ends = {
        name: operand_of(entry) for name, entry in zip(("actual_seq_qlen", "actual_seq_kvlen"), lengths, strict=True)
    }
    return check(named, head_num, keep_prob, scalar_value, input_layout, sparse_mode, pre_tokens, next_tokens, ends)


@ops.constexpr
def _refuse_unsupported(argument):
    raise OpArgumentError(describe(OP, argument, "given", "None; this argument is not supported"))


def _rearranged(x, shape, order, shape_after):
    """Reshape, transpose, reshape. MindSpore's CPU back end has neither for bfloat16 in GRAPH mode; float32
    holds every bfloat16 exactly."""
    if x.dtype == mstype.bfloat16:
        x = ops.cast(x, mstype.float32)
        return ops.cast(ops.reshape(ops.transpose(ops.reshape(x, shape), order), shape_after), mstype.bfloat16)
    return ops.reshape(ops.transpose(ops.reshape(x, shape), order), shape_after)


def _to_bnsd(x, layout, b, n, s, d):
    if layout == "BNSD":
        return x
    if layout == "SBH":
        return _rearranged(x, (s, b, n, d), (1, 2, 0, 3), (b, n, s, d))
    return _rearranged(x, (b, s, n, d), (0, 2, 1, 3), (b, n, s, d))


def _from_bnsd(x, layout, shape):
    if layout == "BNSD":
        return x
    if layout == "SBH":
        return _rearranged(x, x.shape, (2, 0, 1, 3), shape)
    return _rearranged(x, x.shape, (0, 2, 1, 3), shape)


def _unpacked(drop_mask, shape):
    """Bit k of byte j is position 8 * j + k of the row, as MindSpore's DropoutGenMask packs them."""
    return ops.reshape(ops.bitwise_and(ops.expand_dims(drop_mask, -1), _BITS), shape)


def flash_attention_score(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    real_shift: Tensor | None = None,
    drop_mask: Tensor | None = None,
    padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    prefix: Tensor | None = None,
    actual_seq_qlen: Tensor | None = None,
    actual_seq_kvlen: Tensor | None = None,
    keep_prob: float = 1.0,
    scalar_value: float = 1.0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647,
    inner_precise: int = 0,
    input_layout: str = "BSH",
    sparse_mode: int = 0,
) -> Tensor:
    """``mindspore.ops.flash_attention_score`` with the same arguments, on any machine and with gradients.

    Args:
        query: (B, S1, H1), (S1, B, H1), (B, N1, S1, D), (B, S1, N1, D) or (T1, N1, D) as ``input_layout`` says;
            float16 or bfloat16.
        key: the same with S2 and N2; N2 divides N1.
        value: shape and dtype of key; its head size may be another one.
        head_num: N1.
        real_shift: dtype of query, (B or 1, N1, S1, S2); added to the scaled scores. The compressed form of
            1024 rows is not supported.
        drop_mask: uint8 (B, N1, S1, S2 // 8), one bit per position, lowest bit first, 1 = kept; S2 a multiple
            of 8. Required when keep_prob is below 1, None when it is 1.
        padding_mask: None.
        attn_mask: bool or uint8, 1 = masked. Modes 0 and 1: (B, N1, S1, S2), (B, 1, S1, S2) or (S1, S2).
            Modes 2, 3 and
            4: None or the (2048, 2048) triangle that MindSpore asks for; the mode alone decides, it is not
                read.
        prefix: None; it belongs to mode 5.
        actual_seq_qlen, actual_seq_kvlen: layout TND: inclusive prefix sums of the lengths of the packed sequences, an
            int32 or int64 tensor or a list. Sequences see their own keys; masks are counted within each; real_shift,
            drop_mask and a mask of its own are None. Other layouts: None.
        keep_prob: probability that drop_mask was made with; what is kept is divided by it.
        scalar_value: factor on the scores.
        pre_tokens, next_tokens: mode 0 beside a mask: keys kept to the left and right of the upper-left
            diagonal;
            mode 4: of the lower-right diagonal. Ignored in the other modes.
        inner_precise: reserved, without effect.
        input_layout: BSH, SBH, BNSD, BSND or TND.
        sparse_mode: 0 default mask, 1 complete mask, 2 causal from the upper left, 3 causal from the lower
            right, 4 band. In TND 2 needs equal lists of lengths, where it is 3.

    Returns:
        attention_out, dtype and shape of query, with heads of the size of value.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    if padding_mask is not None:
        _refuse_unsupported("padding_mask")
    if prefix is not None:
        _refuse_unsupported("prefix (sparse_mode 5)")
    operands = (about(query), about(key), about(value), about(real_shift), about(drop_mask), about(attn_mask))
    lengths = (about(actual_seq_qlen), about(actual_seq_kvlen))
    axes, mode = _plan(
        operands, lengths, head_num, keep_prob, scalar_value, input_layout, sparse_mode, pre_tokens, next_tokens
    )
    b, n1, n2, s1, s2, d, dv = axes
    if input_layout == PACKED:
        out, _, _ = flash_attention(
            query,
            key,
            value,
            actual_seq_qlen=actual_seq_qlen,
            actual_seq_kvlen=actual_seq_kvlen,
            scale_value=scalar_value,
            sparse_mode=mode[0],
            pre_tokens=mode[1],
            next_tokens=mode[2],
            layout=PACKED,
        )
        return out
    if drop_mask is not None:
        drop_mask = _unpacked(drop_mask, (b, n1, s1, s2))
    if sparse_mode > 1:
        attn_mask = None
    out, _, _ = flash_attention(
        _to_bnsd(query, input_layout, b, n1, s1, d),
        _to_bnsd(key, input_layout, b, n2, s2, d),
        _to_bnsd(value, input_layout, b, n2, s2, dv),
        attn_mask,
        real_shift,
        drop_mask,
        scale_value=scalar_value,
        keep_prob=keep_prob,
        sparse_mode=mode[0],
        pre_tokens=mode[1],
        next_tokens=mode[2],
    )
    shape = query.shape[:2] + (n1 * dv,) if len(query.shape) == 3 else query.shape[:3] + (dv,)
    return _from_bnsd(out, input_layout, shape)
