# SPDX-License-Identifier: Apache-2.0
"""FlashAttentionScore, FlashAttentionVarLenScore (packed sequences) and their gradients in the order of the published
interface, on top of the primitives."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from ms_custom_ops.aclnn.interface import (
    ATTRIBUTE,
    INPUT,
    LENGTHS,
    OUTPUT,
    Given,
    Interface,
    Job,
    LoweredJob,
    Parameter,
)
from ms_custom_ops.aclnn.tensors import refuse
from ms_custom_ops.lower.score import LAYOUTS, ScoreCall, score, score_grad
from ms_custom_ops.lower.steps import Steps
from ms_custom_ops.registry import get_op
from ms_custom_ops.registry.public import Operand

_STATISTICS = "float32 (B,N1,S1,8), eight equal values; packed (T1,N1,8), which lie in memory as (N1,T1,8)"
_NAMES = ("FlashAttentionScore", "FlashAttentionScoreGrad")
_PACKED_NAMES = ("FlashAttentionVarLenScore", "FlashAttentionUnpaddingScoreGrad")
_KINDS: dict[str, Any] = {"int": Integral, "float": Real, "str": str}


def _attributes(packed: bool) -> tuple[Parameter, ...]:
    lengths = "inclusive prefix sums of the lengths of the sequences"
    own = ("actual_seq_q_len", "actual_seq_kv_len") if packed else ()
    return (
        Parameter("prefix", ATTRIBUTE, True, doc="None", type="ints"),
        *(Parameter(name, LENGTHS, True, doc=lengths) for name in own),
        Parameter("scale_value", ATTRIBUTE, True, 1.0, doc="factor on the scores", type="float"),
        Parameter("keep_prob", ATTRIBUTE, True, 1.0, doc="probability that drop_mask was made with", type="float"),
        Parameter("pre_tokens", ATTRIBUTE, True, 2147483647, doc="keys kept to the left of the diagonal", type="int"),
        Parameter("next_tokens", ATTRIBUTE, True, 2147483647, doc="keys kept to the right of the diagonal", type="int"),
        Parameter("head_num", ATTRIBUTE, doc="N1", type="int"),
        Parameter("input_layout", ATTRIBUTE, doc="TND" if packed else ", ".join(LAYOUTS), type="str"),
        Parameter("inner_precise", ATTRIBUTE, True, 0, doc="reserved, without effect", type="int"),
        Parameter("sparse_mode", ATTRIBUTE, True, 0, doc="0 to 4, docs/flash_attention.md", type="int"),
    )


def _parameters(packed: bool) -> tuple[Parameter, ...]:
    return (
        Parameter("query", INPUT, doc="in the layout of input_layout, float16 or bfloat16"),
        Parameter("key", INPUT, doc="as query, N2 heads"),
        Parameter("value", INPUT, doc="as key"),
        Parameter("real_shift", INPUT, True, doc="(B or 1,N1,S1,S2), added to the scaled scores"),
        Parameter("drop_mask", INPUT, True, doc="uint8, one bit per position, 1 = kept; with keep_prob below 1"),
        Parameter("padding_mask", INPUT, True, doc="None"),
        Parameter("atten_mask", INPUT, True, doc="bool or uint8, 1 = masked"),
        *_attributes(packed),
        Parameter("softmax_max_out", OUTPUT, doc=_STATISTICS),
        Parameter("softmax_sum_out", OUTPUT, doc=_STATISTICS),
        Parameter("softmax_out_out", OUTPUT, True, doc="None or empty"),
        Parameter("attention_out_out", OUTPUT, doc="as query"),
    )


def _grad_parameters(packed: bool) -> tuple[Parameter, ...]:
    return (
        Parameter("query", INPUT, doc="as of the forward call"),
        Parameter("key_in", INPUT, doc="as of the forward call"),
        Parameter("value", INPUT, doc="as of the forward call"),
        Parameter("dy", INPUT, doc="gradient of the output"),
        Parameter("pse_shift", INPUT, True, doc="(B,N1,S1,S2)"),
        Parameter("drop_mask", INPUT, True, doc="as of the forward call"),
        Parameter("padding_mask", INPUT, True, doc="None"),
        Parameter("atten_mask", INPUT, True, doc="as of the forward call"),
        Parameter("softmax_max", INPUT, doc=_STATISTICS),
        Parameter("softmax_sum", INPUT, doc=_STATISTICS),
        Parameter("softmax_in", INPUT, True, doc="None or empty"),
        Parameter("attention_in", INPUT, doc="output of the forward call"),
        *_attributes(packed),
        Parameter("dq_out", OUTPUT, doc="as query"),
        Parameter("dk_out", OUTPUT, doc="as key_in"),
        Parameter("dv_out", OUTPUT, doc="as value"),
        Parameter("dpse_out", OUTPUT, True, None, "pse_shift", "as pse_shift"),
    )


class ScoreInterface(Interface):
    """``grad``: the gradient. ``packed``: of packed sequences."""

    def __init__(self, grad: bool, packed: bool = False):
        self.grad, self.packed = grad, packed
        names = _PACKED_NAMES if packed else _NAMES
        op = "flash_attention_grad" if grad else "flash_attention"
        super().__init__(get_op(op), names[grad], (_grad_parameters if grad else _parameters)(packed))
        self.header = f"flash_attention_score{'_grad' if grad else ''}"

    def read(self, values: Mapping[str, Any]) -> Given:
        values = dict(values)
        for name in ("padding_mask", "prefix"):
            if values[name] is not None:
                refuse(self.name, name, "given", "None; this argument is not supported")
        reserved = "softmax_in" if self.grad else "softmax_out_out"
        if values[reserved] is not None and 0 not in values[reserved].shape:
            refuse(self.name, reserved, f"of shape {values[reserved].shape}", "None or an empty tensor")
        values[reserved] = None
        for name in ("actual_seq_q_len", "actual_seq_kv_len") if self.packed else ():
            if values[name] is not None and not isinstance(values[name], (list, tuple)):
                refuse(self.name, name, f"a {type(values[name]).__name__}", "a list of integers")
        return super().read(values)

    def attributes(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Checked for their types; float attributes by the plan."""
        for p in self.parameters:
            if p.kind == ATTRIBUTE and p.type in _KINDS:
                value = given[p.name]
                if isinstance(value, bool) or not isinstance(value, _KINDS[p.type]):
                    refuse(self.name, p.name, repr(value), f"a value of type {p.type}")
        return dict(given)

    def prepare(self, values: Mapping[str, Any]) -> Job:
        return LoweredJob(self, self.check(values))

    def lower(self, operands: Mapping[str, Operand], given: Given) -> tuple[ScoreCall, Steps]:
        packed_op = "" if self.packed else _PACKED_NAMES[self.grad]
        return (score_grad if self.grad else score)(self.name, operands, given.attrs, packed_op)
