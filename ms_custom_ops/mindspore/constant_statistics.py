# SPDX-License-Identifier: Apache-2.0
"""Statistics of an attention that have no gradient: a loss on them is refused or gives NaN, never zeros."""

from __future__ import annotations

from mindspore import nn, ops
from mindspore.common import dtype as mstype
from mindspore.ops import PrimitiveWithInfer

from ms_custom_ops.errors import OpArgumentError, describe


class _CheckUnused(PrimitiveWithInfer):
    """What a graph cannot see and PYNATIVE mode can: that a gradient arrives."""

    def __init__(self, op):
        super().__init__("MsCustomOpsCheckUnused")
        self.op = op

    def __infer__(self, *_):
        return {"shape": (), "dtype": mstype.bool_, "value": False}

    def __call__(self, *gradients):
        for name, gradient in zip(("softmax_max", "softmax_sum"), gradients, strict=True):
            if bool(ops.not_equal(gradient, 0).any()):
                accepted = f"losses on attention_out; {name} behind stop_gradient is a constant"
                raise OpArgumentError(describe(self.op, f"gradient of {name}", "asked for, and it has none", accepted))
        return False


def _nan_where(bad, x):
    wide = ops.cast(x, mstype.float32)  # MindSpore's CPU back end selects among float32
    return ops.cast(ops.where(bad, ops.full_like(wide, float("nan")), wide), x.dtype)


class ConstantStatistics(nn.Cell):
    """(out, maximum, sum) as they are. A gradient of a statistic that is not 0 is an error in PYNATIVE mode; in a
    graph, which does not know values when it is built, every gradient of the op is then NaN."""

    def __init__(self, op):
        super().__init__()
        self.check_unused = _CheckUnused(op)

    def construct(self, out, softmax_max, softmax_sum):
        return out, softmax_max, softmax_sum

    def bprop(self, out, softmax_max, softmax_sum, results, gradients):
        self.check_unused(gradients[1], gradients[2])
        bad = ops.logical_or(ops.not_equal(gradients[1], 0).any(), ops.not_equal(gradients[2], 0).any())
        return _nan_where(bad, gradients[0]), ops.zeros_like(softmax_max), ops.zeros_like(softmax_sum)
