# SPDX-License-Identifier: Apache-2.0
"""Cells for models."""

from __future__ import annotations

from typing import Any

from mindspore import context, nn, ops
from mindspore.common import dtype as mstype

from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.mindspore.context_attention import ContextParallelAttention
from ms_custom_ops.mindspore.context_scan import ContextParallelMamba2
from ms_custom_ops.mindspore.flash_attention import flash_attention
from ms_custom_ops.mindspore.lowered import eager
from ms_custom_ops.mindspore.mamba2_layer import GatedRMSNorm, Mamba2
from ms_custom_ops.mindspore.rewriting import leave_cells, leave_functions
from ms_custom_ops.mindspore.sparse_mla import SparseMLA
from ms_custom_ops.registry.bounds import upper_bound

__all__ = ["ContextParallelAttention", "ContextParallelMamba2", "FlashAttention", "GatedRMSNorm", "Mamba2", "SparseMLA"]

_LAYER = "nn.FlashAttention"


def _positive(name: str, value: Any, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or (most is not None and value > most):
        accepted = "an int of at least 1" if most is None else f"an int from 1 to {most}"
        raise OpArgumentError(describe(_LAYER, name, repr(value), accepted))
    return value


def _check_parallel(dp: int, mp: int) -> None:
    if (dp, mp) == (1, 1):
        return
    mode = context.get_auto_parallel_context("parallel_mode")
    if mode not in ("stand_alone", "data_parallel"):
        raise OpArgumentError(
            describe(
                _LAYER,
                "dp, mp",
                f"{dp}, {mp} in parallel mode {mode}",
                "stand_alone or data_parallel: the op has no sharding rules",
            )
        )


@ops.constexpr
def _check_call(query, key, mask, alibi_mask, head_dim, head_num, kv_head_num, mask_batch, alibi):
    """Shapes against what the constructor was told; the rest is checked by flash_attention."""
    for name, shape, heads in (("query", query, head_num), ("key", key, kv_head_num)):
        if len(shape) != 4 or shape[1] != heads or shape[3] != head_dim:
            raise OpArgumentError(
                describe(_LAYER, name, f"of shape {tuple(shape)}", f"(B, {heads}, S, {head_dim}) as constructed")
            )
    if mask is not None and not mask_batch and len(mask) > 2 and mask[0] != 1:
        raise OpArgumentError(
            describe(
                _LAYER, "attn_mask", f"of shape {tuple(mask)}", "a batch axis of 1 with have_attention_mask_batch=False"
            )
        )
    if (alibi_mask is not None) != alibi:
        raise OpArgumentError(
            describe(
                _LAYER,
                "alibi_mask",
                "None" if alibi_mask is None else "given",
                f"a tensor (B, {head_num}, 1, S2) with alibi=True, None with alibi=False",
            )
        )


class FlashAttention(nn.Cell):
    """Attention with the constructor of MindSpore 2.2's ``nn.layer.flash_attention.FlashAttention``.

    Scores are scaled by head_dim^-0.5. Lengths need not be multiples of 16, and query and key may differ in
    length.

    Args:
        head_dim: size D of a head, 1 to 256.
        head_num: query heads N1.
        dropout_rate: probability to drop an attention weight, in training mode only.
        prev_block_num: blocks of 128 keys kept before the block of the query.
        next_block_num: blocks of 128 keys kept after the block of the query.
        tiling_stgy_name: "auto", the largest tile that fits the chip at this head size, or "sparse", "wukong" or
            "xunfei", which are refused where they do not fit.
        dp, mp: data and model parallel degree. Without effect alone and in data parallel mode; refused in the
            modes that would shard the op.
        high_precision: exponent, sum and output accumulate in float32; bfloat16 always does.
        have_attention_mask_batch: False means that attn_mask has a batch axis of 1 (or none).
        alibi: the call passes alibi_mask.
        causal: each query sees the keys up to its own position, aligned to the lower right; no mask tensor is
            needed.
        kv_head_num: key heads N2, a divisor of head_num; None means head_num.
        seed: of the counter-based generator inside the kernel, which makes the dropout mask and keeps none in memory.
            None draws a new seed from MindSpore's generator at each call; an int drops the same weights at every step.
            Cells with ``recompute()`` in PYNATIVE mode need an int: MindSpore draws anew there.

    Inputs:
        query (B, N1, S1, D), key and value (B, N2, S2, D), float16, or bfloat16 where the chip has it; float32 where
            ``to_float`` or mixed precision gives the layer one of them.
        attn_mask (S1, S2), (1 or B, S1, S2) or (1 or B, 1 or N1, S1, S2), 1 = masked.
        alibi_mask (1 or B, N1, 1 or S1, S2), added to the scaled scores.

    Outputs:
        (B, N1, S1, D), dtype of query.
    """

    def __init__(
        self,
        head_dim: int,
        head_num: int,
        dropout_rate: float = 0.0,
        prev_block_num: int = 65536,
        next_block_num: int = 65536,
        tiling_stgy_name: str = "auto",
        dp: int = 1,
        mp: int = 1,
        high_precision: bool = False,
        have_attention_mask_batch: bool = True,
        alibi: bool = False,
        *,
        causal: bool = False,
        kv_head_num: int | None = None,
        seed: int | None = None,
    ):
        super().__init__()
        self.head_dim = _positive("head_dim", head_dim, upper_bound("flash_attention", "D"))
        self.head_num = _positive("head_num", head_num)
        self.kv_head_num = self.head_num if kv_head_num is None else _positive("kv_head_num", kv_head_num)
        if self.head_num % self.kv_head_num:
            raise OpArgumentError(describe(_LAYER, "kv_head_num", kv_head_num, f"a divisor of head_num = {head_num}"))
        if isinstance(dropout_rate, bool) or not isinstance(dropout_rate, (int, float)) or not 0 <= dropout_rate < 1:
            raise OpArgumentError(describe(_LAYER, "dropout_rate", repr(dropout_rate), "0 <= dropout_rate < 1"))
        _check_parallel(_positive("dp", dp), _positive("mp", mp))
        self.keep_prob = 1.0 - float(dropout_rate)
        self.prev_block_num = prev_block_num
        self.next_block_num = next_block_num
        self.tiling_stgy_name = tiling_stgy_name
        self.high_precision = bool(high_precision)
        self.have_attention_mask_batch = bool(have_attention_mask_batch)
        self.alibi = bool(alibi)
        self.sparse_mode = 3 if causal else 0
        self.seed = seed

    def _rounded(self, x: Any) -> Any:
        """In the dtype of ``to_float``, to which PYNATIVE mode casts operands of operations and no arguments."""
        flags = self.get_flags()
        for name, dtype in (("fp16", mstype.float16), ("bf16", mstype.bfloat16)):
            if flags.get(name):
                return ops.cast(x, dtype)
        return x

    def construct(self, query: Any, key: Any, value: Any, attn_mask: Any = None, alibi_mask: Any = None) -> Any:
        if eager():
            query, key, value = self._rounded(query), self._rounded(key), self._rounded(value)
        mask_shape = None if attn_mask is None else attn_mask.shape
        alibi_shape = None if alibi_mask is None else alibi_mask.shape
        _check_call(
            query.shape,
            key.shape,
            mask_shape,
            alibi_shape,
            self.head_dim,
            self.head_num,
            self.kv_head_num,
            self.have_attention_mask_batch,
            self.alibi,
        )
        if attn_mask is not None and len(attn_mask.shape) == 3:
            attn_mask = ops.expand_dims(attn_mask, 1)
        keep_prob = 1.0
        if self.training:
            keep_prob = self.keep_prob
        out, _, _ = flash_attention(
            query,
            key,
            value,
            attn_mask,
            alibi_mask,
            scale_value=self.head_dim**-0.5,
            keep_prob=keep_prob,
            seed=self.seed,
            sparse_mode=self.sparse_mode,
            prev_block_num=self.prev_block_num,
            next_block_num=self.next_block_num,
            tiling_stgy_name=self.tiling_stgy_name,
            high_precision=self.high_precision or query.dtype == mstype.bfloat16,
        )
        return out


leave_cells(ContextParallelAttention, ContextParallelMamba2, FlashAttention, GatedRMSNorm, Mamba2, SparseMLA)
leave_functions()
