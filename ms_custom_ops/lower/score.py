# SPDX-License-Identifier: Apache-2.0
"""From calls of FlashAttentionScore and its gradient, as CANN's C interface has them, to the primitives.

The layout of the call becomes (B, N, S, D), or stays TND, what is left is the lowering of ``flash_attention``. Row
statistics have a last axis of 8 equal values there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ms_custom_ops.errors import OpArgumentError, OpDtypeError, describe
from ms_custom_ops.lower.score_plan import PACKED, Sizes, check, sizes
from ms_custom_ops.lower.steps import Chain, Steps, lower_call, missing
from ms_custom_ops.registry.public import ABSENT, Operand
from ms_custom_ops.registry.spec import Shape

STATISTICS = 8
"""Values of a row of softmax_max and softmax_sum."""
LAYOUTS = ("BNSD", "BSND", "BSH", "SBH")
_ROWS = 16
_TENSORS = ("query", "key", "value", "real_shift", "drop_mask", "attn_mask")
_FORWARD = {"attn_mask": "atten_mask"}
_BACKWARD = {"attn_mask": "atten_mask", "key": "key_in", "real_shift": "pse_shift"}
_LENGTHS = {"actual_seq_qlen": "actual_seq_q_len", "actual_seq_kvlen": "actual_seq_kv_len"}
"""Lengths of flash_attention -> what the published interface calls them."""
Operands = Mapping[str, Operand]


@dataclass(frozen=True)
class ScoreCall:
    """A checked call. ``found``: return -> shape and dtype, None where it was not asked for."""

    found: Mapping[str, tuple[Shape, str] | None]

    def returns(self) -> dict[str, tuple[Shape, str] | None]:
        return dict(self.found)


class Score:
    """What both directions share. ``names``: what query, key, value, real_shift, drop_mask and attn_mask are called.
    ``packed_op``: the op that takes packed sequences, where this one does not."""

    def __init__(
        self, op: str, operands: Operands, attrs: Mapping[str, Any], names: Mapping[str, str], packed_op: str = ""
    ):
        self.op, self.layout, self.attrs, self.names = op, attrs["input_layout"], attrs, names
        self.packed = not packed_op
        if self.packed != (self.layout == PACKED):
            accepted = PACKED if self.packed else f"{', '.join(LAYOUTS)}; {PACKED} is that of aclnn{packed_op}"
            raise OpArgumentError(describe(op, "input_layout", repr(self.layout), accepted))
        self.given = {name: operands.get(names.get(name, name), ABSENT) for name in _TENSORS}
        self.lengths = {name: operands.get(own, ABSENT) for name, own in _LENGTHS.items()}
        self.planned = self._planned()
        axes, self.mode = check(
            self.planned,
            attrs["head_num"],
            attrs["keep_prob"],
            attrs["scale_value"],
            self.layout,
            attrs["sparse_mode"],
            attrs["pre_tokens"],
            attrs["next_tokens"],
            {_LENGTHS[name]: operand for name, operand in self.lengths.items()},
        )
        self.z = Sizes(*axes)

    def _planned(self) -> dict[str, Operand]:
        """The operands in the forms that the plan knows: a flat mask of dropout, a mask of all batches and heads."""
        planned = dict(self.given)
        drop, mask = self.given["drop_mask"], self.given["attn_mask"]
        if mask.there and len(mask.shape or ()) == 4 and (mask.shape or ())[:2] == (1, 1):
            planned["attn_mask"] = Operand((mask.shape or ())[2:], mask.dtype)
        if drop.there and len(drop.shape or ()) == 1:
            query, key, value = (self.given[name] for name in ("query", "key", "value"))
            z = sizes(query, key, value, self.attrs["head_num"], self.layout)
            if z.s2 % 8 == 0 and drop.shape == (z.b * z.n1 * z.s1 * z.s2 // 8,):
                planned["drop_mask"] = Operand((z.b, z.n1, z.s1, z.s2 // 8), drop.dtype)
        return planned

    def bnsd(self, name: str, heads: int, rows: int, size: int, dtype: str) -> Chain:
        """A tensor of the call as (B, N, S, D)."""
        b, name = self.z.b, self.names.get(name, name)
        if self.packed:
            return Chain(name, (rows, heads, size), dtype).swap().batch(True)
        if self.layout == "BNSD":
            return Chain(name, (b, heads, rows, size), dtype)
        if self.layout == "BSND":
            return Chain(name, (b, rows, heads, size), dtype).transpose((0, 2, 1, 3))
        if self.layout == "BSH":
            chain = Chain(name, (b, rows, heads * size), dtype).reshape((b, rows, heads, size))
            return chain.transpose((0, 2, 1, 3))
        return Chain(name, (rows, b, heads * size), dtype).reshape((rows, b, heads, size)).transpose((1, 2, 0, 3))

    def laid_out(self, chain: Chain) -> Chain:
        """The inverse of :meth:`bnsd`."""
        b, n, s, d = chain.shape
        if self.packed:
            return chain.unbatch(True).swap()
        if self.layout == "BNSD":
            return chain
        if self.layout == "SBH":
            return chain.transpose((2, 0, 1, 3)).reshape((s, b, n * d))
        chain = chain.transpose((0, 2, 1, 3))
        return chain if self.layout == "BSND" else chain.reshape((b, s, n * d))

    def forward(self) -> tuple[Any, Steps]:
        """The call of ``flash_attention`` and its steps, whose sources are the tensors of this call."""
        z, dtype = self.z, str(self.given["query"].dtype)
        key, value = (str(self.given[name].dtype) for name in ("key", "value"))
        chains: dict[str, Chain | None] = {
            "query": self.bnsd("query", z.n1, z.s1, z.d, dtype),
            "key": self.bnsd("key", z.n2, z.s2, z.d, key),
            "value": self.bnsd("value", z.n2, z.s2, z.dv, value),
            "attn_mask": self._mask(),
            "real_shift": self._as_given("real_shift"),
            "drop_mask": self._drop(),
        }
        if self.packed:
            chains |= {name: self._as_given(name) for name in ("query", "key", "value")}
        operands = {name: Operand(x.shape, x.dtype) for name, x in chains.items() if x is not None}
        if self.packed:
            operands |= self.lengths
        attrs = {
            "scale_value": float(self.attrs["scale_value"]),
            "keep_prob": float(self.attrs["keep_prob"]),
            "sparse_mode": self.mode[0],
            "pre_tokens": self.mode[1],
            "next_tokens": self.mode[2],
            "layout": PACKED if self.packed else "BNSD",
        }
        call, steps = lower_call("flash_attention", operands, attrs)
        return call, Steps(
            {name: joined(chains, chain) for name, chain in steps.inputs.items()},
            steps.attributes,
            steps.outputs,
            steps.computed,
            steps.empty,
            steps.answers,
        )

    def _as_given(self, name: str) -> Chain | None:
        operand = self.given[name]
        name = self.names.get(name, name)
        return Chain(name, operand.shape or (), str(operand.dtype)) if operand.there else None

    def _mask(self) -> Chain | None:
        """None where the mode alone decides."""
        mask = self._as_given("attn_mask")
        if mask is None or self.attrs["sparse_mode"] > 1:
            return None
        return mask.reshape(self.planned["attn_mask"].shape or ())

    def _drop(self) -> Chain | None:
        drop = self._as_given("drop_mask")
        return None if drop is None else drop.reshape(self.planned["drop_mask"].shape or ()).bits()

    @property
    def statistics(self) -> Shape:
        """Of packed sequences (T, N, 8) by name, and (N, T, 8) in memory, as the published interface has them."""
        if self.packed:
            return (self.z.s1, self.z.n1, STATISTICS)
        return (self.z.b, self.z.n1, self.z.s1, STATISTICS)

    def out_shape(self) -> Shape:
        """Of the attention output: that of query, with heads of the size of value."""
        if self.packed:
            return (self.z.s1, self.z.n1, self.z.dv)
        return self.laid_out(Chain(None, (self.z.b, self.z.n1, self.z.s1, self.z.dv), "float16")).shape


def joined(before: Mapping[str, Chain | None], chain: Chain | None) -> Chain | None:
    """``chain`` behind the steps of the chain that its source names."""
    first = before.get(chain.source) if chain is not None and isinstance(chain.source, str) else None
    if chain is None or first is None:
        return chain
    return Chain(first.source, chain.shape, chain.dtype, (*first.steps, *chain.steps))


def score(op: str, operands: Operands, attrs: Mapping[str, Any], packed_op: str = "") -> tuple[ScoreCall, Steps]:
    """A call of FlashAttentionScore, checked and lowered; without ``packed_op``, the name of the op for packed
    sequences, a call of that one. Returns: softmax_max_out, softmax_sum_out, attention_out_out.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    call = Score(op, operands, attrs, _FORWARD, packed_op)
    dtype = str(call.given["query"].dtype)
    _, steps = call.forward()

    def outputs(chains: Mapping[str, Chain | None]) -> dict[str, Chain | None]:
        out, top, total = (chains[name] for name in ("attention_out", "softmax_max", "softmax_sum"))
        assert out is not None and top is not None and total is not None
        return {
            "softmax_max_out": top.tile(STATISTICS).reshape(call.statistics),
            "softmax_sum_out": total.tile(STATISTICS).reshape(call.statistics),
            "attention_out_out": out if call.packed else call.laid_out(out),
        }

    if steps.empty:
        lowered = Steps({}, {}, {}, empty=True, answers=outputs(steps.answers))
    else:
        lowered = Steps(steps.inputs, steps.attributes, outputs(steps.outputs), steps.computed)
    statistics = (call.statistics, "float32")
    found = {"softmax_max_out": statistics, "softmax_sum_out": statistics}
    return ScoreCall({**found, "attention_out_out": (call.out_shape(), dtype)}), lowered


def _check_grad(call: Score, operands: Operands) -> None:
    """Shapes and dtypes of what the forward call gave."""
    dtype = str(call.given["query"].dtype)
    wanted = {
        "dy": (call.out_shape(), dtype),
        "attention_in": (call.out_shape(), dtype),
        "softmax_max": (call.statistics, "float32"),
        "softmax_sum": (call.statistics, "float32"),
    }
    for name, (shape, kind) in wanted.items():
        operand = operands[name]
        if operand.dtype != kind:
            raise OpDtypeError(describe(call.op, f"dtype of {name}", operand.dtype, kind))
        if operand.shape != shape:
            raise OpArgumentError(describe(call.op, name, f"of shape {operand.shape}", shape))


def score_grad(op: str, operands: Operands, attrs: Mapping[str, Any], packed_op: str = "") -> tuple[ScoreCall, Steps]:
    """A call of FlashAttentionScoreGrad, checked and lowered. Returns: dq_out, dk_out, dv_out, and dpse_out with
    real_shift. ``packed_op`` and errors as of :func:`score`."""
    call = Score(op, operands, attrs, _BACKWARD, packed_op)
    _check_grad(call, operands)
    z, dtype = call.z, str(call.given["query"].dtype)
    shift = call.given["real_shift"]
    if shift.there and (shift.shape or ())[0] != z.b:
        raise OpArgumentError(
            describe(op, "pse_shift", f"of shape {shift.shape}", f"{(z.b, z.n1, z.s1, z.s2)} in the gradient")
        )
    _, steps = call.forward()
    shapes = {"dq_out": call.given["query"].shape, "dk_out": call.given["key"].shape}
    found: dict[str, tuple[Shape, str] | None] = {name: (shape or (), dtype) for name, shape in shapes.items()}
    found["dv_out"] = (call.given["value"].shape or (), dtype)
    found["dpse_out"] = (shift.shape or (), dtype) if shift.there else None
    if steps.empty:
        answers = {name: None if x is None else Chain(None, *x) for name, x in found.items()}
        return ScoreCall(found), Steps({}, {}, {}, empty=True, answers=answers)
    query = steps.inputs["query"]
    assert query is not None
    wide, rows = query.shape[-1], z.s1 + missing(z.s1, _ROWS)

    def row(name: str) -> Chain:
        return (
            Chain(name, call.statistics, "float32").reshape((z.b, z.n1, z.s1, STATISTICS)).first().pad(-1, rows - z.s1)
        )

    nothing = Chain(None, (z.b, z.n1, rows), "float32")
    inputs = {
        **steps.inputs,
        "attention_out": call.bnsd("attention_in", z.n1, z.s1, z.dv, dtype).pad(-1, wide - z.dv),
        "d_attention_out": call.bnsd("dy", z.n1, z.s1, z.dv, dtype).pad(-1, wide - z.dv),
        "softmax_max": row("softmax_max"),
        "softmax_sum": row("softmax_sum"),
        "d_softmax_max": nothing,
        "d_softmax_sum": nothing,
    }
    outputs: dict[str, Chain | None] = {
        "dq_out": call.laid_out(Chain("d_query", (z.b, z.n1, z.s1, wide), dtype).cut(-1, z.d)),
        "dk_out": call.laid_out(Chain("d_key", (z.b, z.n2, z.s2, wide), dtype).cut(-1, z.d)),
        "dv_out": call.laid_out(Chain("d_value", (z.b, z.n2, z.s2, wide), dtype).cut(-1, z.dv)),
        "dpse_out": None,
    }
    if shift.there:
        grad = Chain("d_real_shift", (z.b, z.n1, z.s1, z.s2 + missing(z.s2, _ROWS)), "float32")
        outputs["dpse_out"] = grad.cut(-1, z.s2).cast(dtype)
    return ScoreCall(found), Steps(inputs, steps.attributes, outputs, steps.computed)
