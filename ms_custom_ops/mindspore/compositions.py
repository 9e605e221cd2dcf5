# SPDX-License-Identifier: Apache-2.0
"""Ops as compositions of MindSpore's own operators: what ``ms-custom-ops bench`` puts beside a kernel.

Tensors and attributes of the op_info file by name; what a composition does not know is an error that names it.
"""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, ops
from mindspore.common import dtype as mstype

from ms_custom_ops.errors import OpArgumentError, describe


@ops.constexpr
def _refuse(what, given, accepted):
    raise OpArgumentError(describe("composition of flash_attention", what, given, accepted))


def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, scale_value: float = 1.0,
    sparse_mode: int = 0, keep_prob: float = 1.0, **others: Any,
) -> Tensor:  # fmt: skip
    """softmax(scale_value * query @ key^T, masked) @ value in the dtype of query; modes 0 and 3, no dropout."""
    if sparse_mode not in (0, 3) or keep_prob < 1:
        _refuse("sparse_mode, keep_prob", (sparse_mode, keep_prob), "modes 0 and 3 without dropout")
    for name in ("real_shift", "drop_mask", "actual_seq_qlen", "actual_seq_kvlen", "seed_words"):
        if name in others:
            _refuse(name, "given", "query, key, value and attn_mask")
    given = query.dtype
    if given == mstype.bfloat16:  # MindSpore's CPU back end has no transpose of it
        query, key, value = (
            ops.cast(query, mstype.float32),
            ops.cast(key, mstype.float32),
            ops.cast(value, mstype.float32),
        )
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = ops.repeat_interleave(key, groups, 1), ops.repeat_interleave(value, groups, 1)
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2)) * scale_value
    if attn_mask is not None:
        scores = scores + ops.cast(attn_mask[..., : key.shape[2]], query.dtype) * -10000.0
    if sparse_mode == 3:
        hidden = ops.triu(ops.ones((query.shape[2], key.shape[2]), mstype.float32), key.shape[2] - query.shape[2] + 1)
        scores = scores + ops.cast(hidden, query.dtype) * -10000.0
    return ops.cast(ops.matmul(ops.softmax(scores, -1), value), given)
