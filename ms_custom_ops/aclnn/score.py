# SPDX-License-Identifier: Apache-2.0
"""FlashAttentionScore and FlashAttentionScoreGrad in the order of the published interface, on top of the primitives."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from ms_custom_ops.aclnn.interface import ATTRIBUTE, INPUT, OUTPUT, Given, Interface, Job, LoweredJob, Parameter
from ms_custom_ops.aclnn.tensors import refuse
from ms_custom_ops.lower.score import LAYOUTS, ScoreCall, score, score_grad
from ms_custom_ops.lower.steps import Steps
from ms_custom_ops.registry import get_op
from ms_custom_ops.registry.public import Operand

_STATISTICS = "float32 (B,N1,S1,8), eight equal values"
_NAMES = ("FlashAttentionScore", "FlashAttentionScoreGrad")
_KINDS: dict[str, Any] = {"int": Integral, "float": Real, "str": str}


def _attributes() -> tuple[Parameter, ...]:
    return (
        Parameter("scale_value", ATTRIBUTE, True, 1.0, doc="factor on the scores", type="float"),
        Parameter("keep_prob", ATTRIBUTE, True, 1.0, doc="probability that drop_mask was made with", type="float"),
        Parameter("pre_tokens", ATTRIBUTE, True, 2147483647, doc="keys kept to the left of the diagonal", type="int"),
        Parameter("next_tokens", ATTRIBUTE, True, 2147483647, doc="keys kept to the right of the diagonal", type="int"),
        Parameter("head_num", ATTRIBUTE, doc="N1", type="int"),
        Parameter("input_layout", ATTRIBUTE, doc=", ".join(LAYOUTS), type="str"),
        Parameter("inner_precise", ATTRIBUTE, True, 0, doc="reserved, without effect", type="int"),
        Parameter("sparse_mode", ATTRIBUTE, True, 0, doc="0 to 4, docs/flash_attention.md", type="int"),
    )


def _parameters() -> tuple[Parameter, ...]:
    return (
        Parameter("query", INPUT, doc="in the layout of input_layout, float16 or bfloat16"),
        Parameter("key", INPUT, doc="as query, N2 heads"),
        Parameter("value", INPUT, doc="as key"),
        Parameter("real_shift", INPUT, True, doc="(B or 1,N1,S1,S2), added to the scaled scores"),
        Parameter("drop_mask", INPUT, True, doc="uint8, one bit per position, 1 = kept; with keep_prob below 1"),
        Parameter("padding_mask", INPUT, True, doc="None"),
        Parameter("atten_mask", INPUT, True, doc="bool or uint8, 1 = masked"),
        Parameter("prefix", ATTRIBUTE, True, doc="None", type="ints"),
        *_attributes(),
        Parameter("softmax_max_out", OUTPUT, doc=_STATISTICS),
        Parameter("softmax_sum_out", OUTPUT, doc=_STATISTICS),
        Parameter("softmax_out_out", OUTPUT, True, doc="None or empty"),
        Parameter("attention_out_out", OUTPUT, doc="as query"),
    )


def _grad_parameters() -> tuple[Parameter, ...]:
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
        Parameter("prefix", ATTRIBUTE, True, doc="None", type="ints"),
        *_attributes(),
        Parameter("dq_out", OUTPUT, doc="as query"),
        Parameter("dk_out", OUTPUT, doc="as key_in"),
        Parameter("dv_out", OUTPUT, doc="as value"),
        Parameter("dpse_out", OUTPUT, True, None, "pse_shift", "as pse_shift"),
    )


class ScoreInterface(Interface):
    """``grad``: the gradient."""

    def __init__(self, grad: bool):
        self.grad = grad
        op, name = ("flash_attention_grad", _NAMES[1]) if grad else ("flash_attention", _NAMES[0])
        super().__init__(get_op(op), name, _grad_parameters() if grad else _parameters())

    def read(self, values: Mapping[str, Any]) -> Given:
        values = dict(values)
        for name in ("padding_mask", "prefix"):
            if values[name] is not None:
                refuse(self.name, name, "given", "None; this argument is not supported")
        reserved = "softmax_in" if self.grad else "softmax_out_out"
        if values[reserved] is not None and 0 not in values[reserved].shape:
            refuse(self.name, reserved, f"of shape {values[reserved].shape}", "None or an empty tensor")
        values[reserved] = None
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
        self.check_null(values)
        return LoweredJob(self, self.read(values))

    def lower(self, operands: Mapping[str, Operand], given: Given) -> tuple[ScoreCall, Steps]:
        return (score_grad if self.grad else score)(self.name, operands, given.attrs)
