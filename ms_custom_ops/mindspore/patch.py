# SPDX-License-Identifier: Apache-2.0
"""``mco.patch``: models written for Ascend call MindSpore's attention operators; on CPU these go to this package."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

import mindspore as ms
from mindspore import nn, ops
from mindspore.common import dtype as mstype
from mindspore.ops.auto_generate import gen_ops_prim
from mindspore.ops.operations.manually_defined import ops_def

from ms_custom_ops.errors import MsCustomOpsError, OpArgumentError, OpDtypeError, describe
from ms_custom_ops.mindspore import ops as own
from ms_custom_ops.mistakes import author_location

COMPUTE_DTYPES = (None, "float16", "bfloat16")


@ops.constexpr
def _refuse_float32():
    accepted = "float16 or bfloat16; float32 with mco.patch(compute_dtype='float16') or 'bfloat16', which rounds it"
    raise OpDtypeError(describe("flash_attention_score", "dtype of query", "float32", accepted))


def _score(query, key, value, head_num, real_shift, drop_mask, padding_mask, attn_mask, prefix, actual_seq_qlen,
           actual_seq_kvlen, keep_prob, scalar_value, pre_tokens, next_tokens, inner_precise, input_layout, sparse_mode,
           dtype):  # fmt: skip
    """The function of this package; float32 tensors are rounded to ``dtype`` where one is given, the result is not."""
    given = query.dtype
    if dtype is None and given == mstype.float32:
        _refuse_float32()
    if dtype is not None and given == mstype.float32:
        query, key, value = ops.cast(query, dtype), ops.cast(key, dtype), ops.cast(value, dtype)
        if real_shift is not None:
            real_shift = ops.cast(real_shift, dtype)
    out = own.flash_attention_score(query, key, value, head_num, real_shift, drop_mask, padding_mask, attn_mask, prefix,
                                    actual_seq_qlen, actual_seq_kvlen, keep_prob, scalar_value, pre_tokens, next_tokens,
                                    inner_precise, input_layout, sparse_mode)  # fmt: skip
    return ops.cast(out, given) if out.dtype != given else out


def _named(dtype: Any):
    """``flash_attention_score`` with MindSpore's signature. A function of its own per dtype: graphs read constants of a
    closure."""

    def flash_attention_score(query, key, value, head_num, real_shift=None, drop_mask=None, padding_mask=None,
                              attn_mask=None, prefix=None, actual_seq_qlen=None, actual_seq_kvlen=None, keep_prob=1.0,
                              scalar_value=1.0, pre_tokens=2147483647, next_tokens=2147483647, inner_precise=0,
                              input_layout="BSH", sparse_mode=0):  # fmt: skip
        return _score(query, key, value, head_num, real_shift, drop_mask, padding_mask, attn_mask, prefix,
                      actual_seq_qlen, actual_seq_kvlen, keep_prob, scalar_value, pre_tokens, next_tokens,
                      inner_precise, input_layout, sparse_mode, dtype)  # fmt: skip

    return flash_attention_score


def sparse_flash_attention(query, key, value, sparse_indices, scale_value, *, block_table=None,
                           actual_seq_lengths_query=None, actual_seq_lengths_kv=None, query_rope=None, key_rope=None,
                           sparse_block_size=1, layout_query="BSND", layout_kv="BSND", sparse_mode=3,
                           pre_tokens=9223372036854775807, next_tokens=9223372036854775807, attention_mode=0,
                           return_softmax_lse=False):  # fmt: skip
    """``mindspore.ops.sparse_flash_attention`` on this package."""
    return own.sparse_flash_attention(
        query, key, value, sparse_indices, scale_value, block_table=block_table,
        actual_seq_lengths_query=actual_seq_lengths_query, actual_seq_lengths_kv=actual_seq_lengths_kv,
        query_rope=query_rope, key_rope=key_rope, sparse_block_size=sparse_block_size, layout_query=layout_query,
        layout_kv=layout_kv, sparse_mode=sparse_mode, pre_tokens=pre_tokens, next_tokens=next_tokens,
        attention_mode=attention_mode, return_softmax_lse=return_softmax_lse,
    )  # fmt: skip


def lightning_indexer(query, key, weights, *, actual_seq_lengths_query=None, actual_seq_lengths_key=None,
                      block_table=None, layout_query="BSND", layout_key="BSND", sparse_count=2048, sparse_mode=3,
                      pre_tokens=9223372036854775807, next_tokens=9223372036854775807, return_value=False):  # fmt: skip
    """``mindspore.ops.lightning_indexer`` on this package."""
    return own.lightning_indexer(
        query, key, weights, actual_seq_lengths_query=actual_seq_lengths_query,
        actual_seq_lengths_key=actual_seq_lengths_key, block_table=block_table, layout_query=layout_query,
        layout_key=layout_key, sparse_count=sparse_count, sparse_mode=sparse_mode, pre_tokens=pre_tokens,
        next_tokens=next_tokens, return_value=return_value,
    )  # fmt: skip


def _cell_class(function: Any) -> type:
    class FlashAttentionScore(nn.Cell):
        """The primitive ``FlashAttentionScore`` as layers of MindSpore Transformers build it: attributes at
        construction, four results of which the last is the output. The statistics are not given: they are None."""

        def __init__(self, head_num, keep_prob=1.0, scale_value=1.0, pre_tokens=2147483647, next_tokens=2147483647,
                     inner_precise=0, input_layout="BSH", sparse_mode=0):  # fmt: skip
            super().__init__()
            self.function = function
            self.head_num, self.keep_prob, self.scale_value = head_num, keep_prob, scale_value
            self.pre_tokens, self.next_tokens, self.inner_precise = pre_tokens, next_tokens, inner_precise
            self.input_layout, self.sparse_mode = input_layout, sparse_mode

        def construct(self, query, key, value, real_shift=None, drop_mask=None, padding_mask=None, attn_mask=None,
                      prefix=None, actual_seq_qlen=None, actual_seq_kvlen=None):  # fmt: skip
            out = self.function(query, key, value, self.head_num, real_shift, drop_mask, padding_mask, attn_mask,
                                prefix, actual_seq_qlen, actual_seq_kvlen, self.keep_prob, self.scale_value,
                                self.pre_tokens, self.next_tokens, self.inner_precise, self.input_layout,
                                self.sparse_mode)  # fmt: skip
            return None, None, None, out

        def shard(self, *strategies, **more):
            """Nothing: one device."""
            return self

        def add_prim_attr(self, name, value):
            """Nothing: what parallel layers note on a primitive (layouts, load balance) is about several devices."""
            return self

        def set_stage(self, stage):
            """Nothing: one stage of a pipeline."""
            return self

    return FlashAttentionScore


class Patch:
    """What :func:`patch` replaced. ``undo()``, or the end of a ``with`` statement, puts MindSpore's own back."""

    def __init__(self, replaced: dict[int, tuple[Any, Any]], where: str | None):
        self._replaced, self.where = replaced, where

    def undo(self) -> None:
        """MindSpore's own operators again, in every module; nothing when that was done before."""
        global _active
        for original, ours in self._replaced.values():
            _swap(ours, original)
        self._replaced = {}
        if _active is self:
            _active = None

    def __enter__(self) -> Patch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


_active: Patch | None = None


def _swap(old: Any, new: Any) -> None:
    """Every name of ``old`` in a loaded module, this one left out, becomes one of ``new``."""
    for name, module in list(sys.modules.items()):
        if module is None or name == __name__:
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is old:
                setattr(module, attribute, new)


def patch(compute_dtype: str | None = None) -> Patch:
    """Routes ``mindspore.ops.flash_attention_score``, ``ops.sparse_flash_attention``, ``ops.lightning_indexer`` and the
    primitive ``FlashAttentionScore`` to this package, wherever a module has them by name already or imports them later.

    For models written for Ascend, unchanged, on CPU, in both modes, with gradients. On an Ascend device nothing is
    replaced. Graphs that were compiled before keep what they were compiled with.

    Args:
        compute_dtype: what flash attention rounds float32 tensors to, "float16" or "bfloat16"; the result is float32
            again. None: float32 is an error that says what is accepted.

    Returns:
        A :class:`Patch`: ``with mco.patch(): ...``, or ``undo()``, or :func:`unpatch`.

    Raises:
        OpArgumentError: another ``compute_dtype``. MsCustomOpsError: patched already.
    """
    global _active
    if compute_dtype not in COMPUTE_DTYPES:
        raise OpArgumentError(describe("patch", "compute_dtype", repr(compute_dtype), "None, 'float16', 'bfloat16'"))
    if _active is not None:
        raise MsCustomOpsError(describe("patch", "MindSpore", f"patched already at {_active.where}",
                                        "one patch at a time: mco.unpatch() first"))  # fmt: skip
    if ms.get_context("device_target") == "Ascend":
        return Patch({}, author_location())
    dtype = None if compute_dtype is None else getattr(mstype, compute_dtype)
    score = _named(dtype)
    pairs = [
        (ops_def.flash_attention_score, score),
        (gen_ops_prim.FlashAttentionScore, _cell_class(score)),
        (ops.sparse_flash_attention, sparse_flash_attention),
        (ops.lightning_indexer, lightning_indexer),
    ]
    for original, ours in pairs:
        _swap(original, ours)
    _active = Patch({id(original): (original, ours) for original, ours in pairs}, author_location())
    return _active


def unpatch() -> None:
    """Ends the :func:`patch` in force; nothing when there is none."""
    if _active is not None:
        _active.undo()
