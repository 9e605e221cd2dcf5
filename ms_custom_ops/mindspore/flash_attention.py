# SPDX-License-Identifier: Apache-2.0
"""``flash_attention``: the public function over the generated primitive. Usable in construct and in plain
Python.
"""

from __future__ import annotations

from mindspore import Tensor

from ms_custom_ops import mco_generated_ops
from ms_custom_ops.mindspore.lowered import lowered


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    real_shift: Tensor | None = None,
    drop_mask: Tensor | None = None,
    actual_seq_qlen: Tensor | list[int] | tuple[int, ...] | None = None,
    actual_seq_kvlen: Tensor | list[int] | tuple[int, ...] | None = None,
    *,
    scale_value: float | None = None,
    keep_prob: float = 1.0,
    seed: int = 0,
    sparse_mode: int = 0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647,
    prev_block_num: int = 65536,
    next_block_num: int = 65536,
    tiling_stgy_name: str = "auto",
    high_precision: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Scaled dot-product attention without the S1 x S2 matrix in memory; layout BNSD.

    ``attention_out = dropout(softmax(mask(scale_value * query @ key^T + real_shift))) @ value``
    (op_impl/flash_attention/README.md has the formulas and the order of the masks).

    Args:
        query: (B, N1, S1, D), float16, or bfloat16 on split-core chips. D from 1 to 256.
        key: (B, N2, S2, D), dtype of query; N1 is a multiple of N2 (grouped heads).
        value: shape and dtype of key.
        attn_mask: bool, uint8 or float16, broadcastable to (B, N1, S1, S2); 1 = masked.
        real_shift: float16, bfloat16 or float32 (used in the dtype of query), (1 or B, N1, 1 or S1, S2);
            added to the scaled scores. :func:`alibi_slopes` helps with ALiBi.
        drop_mask: bool, uint8 or float16, (B, N1, S1, S2); 1 = kept. Takes the place of ``seed``; what is
            kept is divided by ``keep_prob``.
        actual_seq_qlen: int32 or int64 tensor (B,) or a list of B ints: tokens of query in each batch, 0 to
            S1.
        actual_seq_kvlen: the same for key and value, 0 to S2. What lies beyond a length, or is hidden from all
            rows by a mask or band, has no influence on results and gradients, whatever it holds (NaN, Inf).
        scale_value: factor on the scores, applied inside; None means D^-0.5.
        keep_prob: probability to keep a weight, 0 < keep_prob <= 1. Below 1 without ``drop_mask``, the mask
            comes from a counter-based generator and is made again in the backward pass.
        seed: seed of that generator. It is part of the graph: the same seed drops the same weights at every
            step.
        sparse_mode: 0 none, 3 causal aligned to the lower right, 4 band of ``pre_tokens`` and ``next_tokens``
            around the lower-right diagonal. Modes and ``attn_mask`` both apply.
        pre_tokens: mode 4: keys kept to the left of the diagonal.
        next_tokens: mode 4: keys kept to the right of the diagonal.
        prev_block_num: blocks of 128 keys kept before the block of the query.
        next_block_num: blocks of 128 keys kept after the block of the query.
        tiling_stgy_name: "auto", "sparse", "wukong" or "xunfei".
        high_precision: exponent, sum and output accumulate in float32.

    Returns:
        attention_out, shape and dtype of query; softmax_max and softmax_sum, float32 (B, N1, S1), of the
        scaled scores with the natural exponent. A row with all keys masked has 0 in all three and gradient 0.
        Gradients flow from all three to query, key, value and real_shift; a loss on the log-sum-exp is one on
        ``softmax_max + log(softmax_sum)``. With B, N1, S1 or S2 = 0 the outputs are
        empty or 0, and so are the gradients.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    given = (query, key, value, attn_mask, real_shift, drop_mask, actual_seq_qlen, actual_seq_kvlen)
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
    }
    return lowered("flash_attention", mco_generated_ops.flash_attention, given, attrs)
