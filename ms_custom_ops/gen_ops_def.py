# SPDX-License-Identifier: Apache-2.0
"""Functions of the ops: generated from op_info/*.yaml by ms-custom-ops gen; do not edit.

They call the primitives with names and defaults, in construct as in plain Python. Padding, mask
forms and empty batches are the business of ms_custom_ops.ops, which calls these.
"""
from __future__ import annotations

from mindspore import Tensor

from ms_custom_ops.gen_ops_prim import ABSENT, FlashAttention, FlashAttentionGrad
from ms_custom_ops.mindspore.custom import prim_cache


def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    real_shift: Tensor | None = None, drop_mask: Tensor | None = None, actual_seq_qlen: Tensor | None = None,
    actual_seq_kvlen: Tensor | None = None, *, scale_value: float = 1.0, keep_prob: float = 1.0,
    seed: int = 0, sparse_mode: int = 0, pre_tokens: int = 2147483647, next_tokens: int = 2147483647,
    prev_block_num: int = 65536, next_block_num: int = 65536, tiling_stgy_name: str = "auto",
    high_precision: bool = True) -> tuple[Tensor, ...]:
    """Fused attention: softmax(scale_value * query @ key^T + real_shift, masked) @ value, without the S1 x S2
    matrix in memory.

    This is the primitive: the public function pads rows to whole 32-byte blocks, broadcasts masks and handles
    empty batches before it comes here. Statistics are of the scaled scores, with the natural exponent. A
    fully masked row has output 0 and sum 0, and gets gradient 0.

    Args:
        query: (B, N1, S1, D) F16 | BF16. queries
        key: (B, N2, S2, D) F16 | BF16. keys; N1 is a multiple of N2 (grouped heads)
        value: (B, N2, S2, D) F16 | BF16. values
        attn_mask: (1|B, 1|N1, S1, S2P) F16, optional. 1 = masked, 0 = kept
        real_shift: (1|B, N1, 1|S1, S2P) F16 | BF16, optional. added to the scaled scores (ALiBi, relative
            positions)
        drop_mask: (B, N1, S1, S2P) F16, optional. 1 = kept, 0 = dropped; takes the place of seed
        actual_seq_qlen: (BP) I32, optional. query length of each batch, padded to BP with anything
        actual_seq_kvlen: (BP) I32, optional. key length of each batch, padded to BP with anything
        scale_value: float, default 1.0. factor on the scores, applied inside
        keep_prob: float, default 1.0. probability to keep a weight; kept ones are divided by it
        seed: int, default 0. seed of the counter-based dropout
        sparse_mode: int, default 0. 0 none, 3 causal aligned to the lower right, 4 band of pre_tokens and
            next_tokens
        pre_tokens: int, default 2147483647. mode 4: keys kept to the left of the diagonal
        next_tokens: int, default 2147483647. mode 4: keys kept to the right of the diagonal
        prev_block_num: int, default 65536. blocks of 128 keys kept before the query's block
        next_block_num: int, default 65536. blocks of 128 keys kept after the query's block
        tiling_stgy_name: str, default "auto". block sizes: auto, sparse, wukong or xunfei
        high_precision: bool, default True. exponent, sum and output accumulate in float32

    Returns:
        attention_out: (B, N1, S1, D) F16 | BF16. the attention output
        softmax_max: (B, N1, S1P) F32. row maximum of the scaled scores
        softmax_sum: (B, N1, S1P) F32. row sum of exp(score - maximum)

    Where:
        S1P = (S1 + 15) // 16 * 16
        S2P = (S2 + 15) // 16 * 16
        BP = (B + 7) // 8 * 8

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and N1 >= 1 and N2 >= 1: empty batches are answered by the public function
            * S1 >= 1 and S2 >= 1: sequences have at least one token
            * N1 % N2 == 0: query heads must be a multiple of key heads
            * D % 16 == 0 and 16 <= D <= 256: the head size is padded to a multiple of 16 and at most 256
            * 0 < keep_prob <= 1: a probability, not 0
            * 0 <= seed < 9223372036854775808: a non-negative 64-bit seed
            * sparse_mode in (0, 3, 4): 0 none, 3 causal, 4 band
            * pre_tokens + next_tokens >= 0 or sparse_mode != 4: the band must not be empty
            * prev_block_num >= 0 and next_block_num >= 0: counts of blocks
            * tiling_stgy_name in ('auto', 'sparse', 'wukong', 'xunfei'): the known tiling strategies
            * high_precision or dtype(query) != 'BF16': bfloat16 always accumulates in float32
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (
        attn_mask is not None, real_shift is not None, drop_mask is not None, actual_seq_qlen is not None,
        actual_seq_kvlen is not None)
    attn_mask = ABSENT if attn_mask is None else attn_mask
    real_shift = ABSENT if real_shift is None else real_shift
    drop_mask = ABSENT if drop_mask is None else drop_mask
    actual_seq_qlen = ABSENT if actual_seq_qlen is None else actual_seq_qlen
    actual_seq_kvlen = ABSENT if actual_seq_kvlen is None else actual_seq_kvlen
    primitive = prim_cache(FlashAttention)(
        present, scale_value, keep_prob, seed, sparse_mode, pre_tokens, next_tokens, prev_block_num,
        next_block_num, tiling_stgy_name, high_precision)
    return primitive(query, key, value, attn_mask, real_shift, drop_mask, actual_seq_qlen, actual_seq_kvlen)


def flash_attention_grad(
    query: Tensor, key: Tensor, value: Tensor, attention_out: Tensor, d_attention_out: Tensor,
    softmax_max: Tensor, softmax_sum: Tensor, attn_mask: Tensor | None = None,
    real_shift: Tensor | None = None, drop_mask: Tensor | None = None, actual_seq_qlen: Tensor | None = None,
    actual_seq_kvlen: Tensor | None = None, *, scale_value: float = 1.0, keep_prob: float = 1.0,
    seed: int = 0, sparse_mode: int = 0, pre_tokens: int = 2147483647, next_tokens: int = 2147483647,
    prev_block_num: int = 65536, next_block_num: int = 65536, tiling_stgy_name: str = "auto",
    high_precision: bool = True) -> tuple[Tensor, ...]:
    """Gradient of flash_attention for query, key and value.

    The weights are recomputed from softmax_max and softmax_sum, block by block; masks, dropout and bias must
    be those of the forward call.

    Args:
        query: (B, N1, S1, D) F16 | BF16. as in the forward call
        key: (B, N2, S2, D) F16 | BF16. as in the forward call
        value: (B, N2, S2, D) F16 | BF16. as in the forward call
        attention_out: (B, N1, S1, D) F16 | BF16. output of the forward call
        d_attention_out: (B, N1, S1, D) F16 | BF16. gradient of that output
        softmax_max: (B, N1, S1P) F32. output of the forward call
        softmax_sum: (B, N1, S1P) F32. output of the forward call
        attn_mask: (1|B, 1|N1, S1, S2P) F16, optional. as in the forward call
        real_shift: (1|B, N1, 1|S1, S2P) F16 | BF16, optional. as in the forward call
        drop_mask: (B, N1, S1, S2P) F16, optional. as in the forward call
        actual_seq_qlen: (BP) I32, optional. as in the forward call
        actual_seq_kvlen: (BP) I32, optional. as in the forward call
        scale_value: float, default 1.0. as in the forward call
        keep_prob: float, default 1.0. as in the forward call
        seed: int, default 0. as in the forward call
        sparse_mode: int, default 0. as in the forward call
        pre_tokens: int, default 2147483647. as in the forward call
        next_tokens: int, default 2147483647. as in the forward call
        prev_block_num: int, default 65536. as in the forward call
        next_block_num: int, default 65536. as in the forward call
        tiling_stgy_name: str, default "auto". as in the forward call
        high_precision: bool, default True. as in the forward call

    Returns:
        d_query: (B, N1, S1, D) F16 | BF16. gradient of query
        d_key: (B, N2, S2, D) F16 | BF16. gradient of key
        d_value: (B, N2, S2, D) F16 | BF16. gradient of value

    Where:
        S1P = (S1 + 15) // 16 * 16
        S2P = (S2 + 15) // 16 * 16
        BP = (B + 7) // 8 * 8

    Raises:
        OpArgumentError: a rank, shape or attribute is wrong; these must hold:
            * B >= 1 and N1 >= 1 and N2 >= 1: empty batches are answered by the public function
            * S1 >= 1 and S2 >= 1: sequences have at least one token
            * N1 % N2 == 0: query heads must be a multiple of key heads
            * D % 16 == 0 and 16 <= D <= 256: the head size is padded to a multiple of 16 and at most 256
            * 0 < keep_prob <= 1: a probability, not 0
            * 0 <= seed < 9223372036854775808: a non-negative 64-bit seed
            * sparse_mode in (0, 3, 4): 0 none, 3 causal, 4 band
            * pre_tokens + next_tokens >= 0 or sparse_mode != 4: the band must not be empty
            * prev_block_num >= 0 and next_block_num >= 0: counts of blocks
            * tiling_stgy_name in ('auto', 'sparse', 'wukong', 'xunfei'): the known tiling strategies
            * high_precision or dtype(query) != 'BF16': bfloat16 always accumulates in float32
        OpDtypeError: the chip or the op does not have the dtype combination.
    """
    present = (
        attn_mask is not None, real_shift is not None, drop_mask is not None, actual_seq_qlen is not None,
        actual_seq_kvlen is not None)
    attn_mask = ABSENT if attn_mask is None else attn_mask
    real_shift = ABSENT if real_shift is None else real_shift
    drop_mask = ABSENT if drop_mask is None else drop_mask
    actual_seq_qlen = ABSENT if actual_seq_qlen is None else actual_seq_qlen
    actual_seq_kvlen = ABSENT if actual_seq_kvlen is None else actual_seq_kvlen
    primitive = prim_cache(FlashAttentionGrad)(
        present, scale_value, keep_prob, seed, sparse_mode, pre_tokens, next_tokens, prev_block_num,
        next_block_num, tiling_stgy_name, high_precision)
    return primitive(
        query, key, value, attention_out, d_attention_out, softmax_max, softmax_sum, attn_mask, real_shift,
        drop_mask, actual_seq_qlen, actual_seq_kvlen)
