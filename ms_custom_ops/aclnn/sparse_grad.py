# SPDX-License-Identifier: Apache-2.0
"""SparseFlashAttentionGrad and its V2 in the order of the published interface, on top of the primitive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ms_custom_ops.aclnn import sparse_grad_rules as rules
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
from ms_custom_ops.aclnn.lengths import counts, prefix_sums, read_lengths, shaped_lengths
from ms_custom_ops.aclnn.products import VALIDATED_ONLY, current_product
from ms_custom_ops.aclnn.status import StatusError
from ms_custom_ops.aclnn.tensors import Shaped, Tensor, refuse
from ms_custom_ops.errors import describe
from ms_custom_ops.op_impl.sparse_flash_attention.helpers import get_workspace_size
from ms_custom_ops.registry import get_op
from ms_custom_ops.registry.public import Operand
from ms_custom_ops.soc import current_soc

OP = "sparse_flash_attention_grad"
_FLOATS, _STATS = ("float16", "bfloat16"), ("softmax_max", "softmax_sum")
_950_CORES = 32


def _parameters(version: int) -> tuple[Parameter, ...]:
    v2 = version == 2
    lse = "output of the forward op, float32 (B,N2,S1,G) or (N2,T1,G)"
    lengths = "lengths of each sequence: TND tokens of each batch or inclusive prefix sums, BSND counts or None"
    entries = [
        Parameter("query", INPUT, doc="(B,S1,N1,D) or (T1,N1,D), float16 or bfloat16"),
        Parameter("key", INPUT, doc="(B,S2,N2,D) or (T2,N2,D)"),
        Parameter("value", INPUT, v2, doc="as key" + (", None: key is the value" if v2 else "")),
        Parameter("sparse_indices", INPUT, doc="int32 (B,S1,N2,K) or (T1,N2,K), ids of key blocks"),
        Parameter("d_out", INPUT, doc="gradient of out"),
        Parameter("out", INPUT, doc="output of the forward op"),
        Parameter("softmax_max", INPUT, doc=lse),
        Parameter("softmax_sum", INPUT, doc=lse),
        *([Parameter("sinks", INPUT, True, doc="float32 (N1,)")] if v2 else []),
        Parameter("actual_seq_q", LENGTHS, True, doc=lengths),
        Parameter("actual_seq_kv", LENGTHS, True, doc=lengths),
        Parameter("query_rope", INPUT, True, doc="rotary part of query, with key_rope or not at all"),
        Parameter("key_rope", INPUT, True, doc="rotary part of key"),
        Parameter("scale_value", ATTRIBUTE, True, 1.0, doc="factor on the scores", type="float"),
        Parameter("sparse_block_size", ATTRIBUTE, True, 1, doc="tokens that an index names", type="int"),
        Parameter("layout", ATTRIBUTE, True, "BSND", doc="BSND or TND", type="str"),
        Parameter("sparse_mode", ATTRIBUTE, True, 3, doc="0 none, 3 causal aligned to the lower right", type="int"),
        Parameter("pre_tokens", ATTRIBUTE, True, 2147483647, doc="this value or 2^63-1: no window", type="int"),
        Parameter("next_tokens", ATTRIBUTE, True, 2147483647, doc="this value or 2^63-1: no window", type="int"),
        Parameter("deterministic", ATTRIBUTE, True, False, doc="additions to a key have one order", type="bool"),
        Parameter("d_query", OUTPUT, doc="as query"),
        Parameter("d_key", OUTPUT, doc="as key"),
        Parameter("d_value", OUTPUT, v2, None, "value" if v2 else None, "as value"),
        Parameter("d_query_rope", OUTPUT, True, None, "query_rope", "as query_rope"),
        Parameter("d_key_rope", OUTPUT, True, None, "key_rope", "as key_rope"),
    ]
    return (*entries, *([Parameter("d_sinks", OUTPUT, True, doc="as sinks")] if v2 else []))


class ValidatedJob(Job):
    """A checked call of a product without kernels."""

    def __init__(self, product: str, workspace_size: int):
        self.product, self.workspace_size = product, workspace_size

    def run(self) -> None:
        raise StatusError(
            "runtime",
            f"there are no kernels for {self.product}; accepted: A2 or A3, calls for {self.product} are only checked",
        )


class SparseGradInterface(Interface):
    """``version`` 1, or 2 with sinks, value None and strided inputs."""

    lengths_are_tensors = False  # they are read here, in two ways

    def __init__(self, version: int):
        name = "SparseFlashAttentionGrad" + ("V2" if version == 2 else "")
        super().__init__(get_op(OP), name, _parameters(version))
        self.strided_inputs = version == 2

    def check(self, values: Mapping[str, Any]) -> Given:
        return self._checked(values)[0]

    def _checked(self, values: Mapping[str, Any]) -> tuple[Given, dict[str, Any]]:
        """The call, its lengths read, and what the rules of the published interface know of it."""
        self.check_null(values)
        self._check_pairs(values)
        given = self.read(values)
        product = current_product()
        self._check_dtypes(given, product)
        names = self._names(given, product, values)
        rules.check(rules.BEFORE_SHAPES, self.name, product, names)
        names |= self._check_shapes(given, names)
        return Given(given.inputs, self._lengths(given, names), given.attrs, given.outputs), names

    def prepare(self, values: Mapping[str, Any]) -> Job:
        given, names = self._checked(values)
        product = current_product()
        workspace = _workspace(names, product)
        if product in VALIDATED_ONLY:
            return ValidatedJob(product, workspace)
        return LoweredJob(self, given, workspace)

    def _check_pairs(self, values: Mapping[str, Any]) -> None:
        """Half of a pair would be taken for none by the published implementation."""
        for pair in (("query_rope", "key_rope"), ("sinks", "d_sinks")):
            there = [name for name in pair if values.get(name) is not None]
            if len(there) == 1:
                refuse(self.name, ", ".join(pair), f"only {there[0]}", "both or neither")

    def _check_dtypes(self, given: Given, product: str) -> None:
        inputs, query = given.inputs, given.inputs["query"].dtype
        bf16 = product in VALIDATED_ONLY or current_soc().has_bf16
        self._dtype(inputs["query"], _FLOATS if bf16 else _FLOATS[:1])
        for name in ("key", "value", "d_out", "query_rope", "key_rope"):
            if name in inputs:
                self._dtype(inputs[name], (query,))
        self._dtype(inputs["out"], _FLOATS)
        self._dtype(inputs["sparse_indices"], ("int32",))
        if "sinks" in inputs:
            self._dtype(inputs["sinks"], ("float32",))
        for name, output in given.outputs.items():
            self._dtype(output, ("float32",) if name == "d_sinks" else (query,))

    def _dtype(self, tensor: Tensor, accepted: tuple[str, ...], kind: str = "invalid_parameter") -> None:
        if tensor.dtype not in accepted:
            raise StatusError(kind, describe(self.name, f"dtype of {tensor.name}", tensor.dtype, " or ".join(accepted)))

    def _names(self, given: Given, product: str, values: Mapping[str, Any]) -> dict[str, Any]:
        layout = given.attrs["layout"]
        return {
            **given.attrs,
            "product": product,
            "rank_query": len(given.inputs["query"].shape),
            "layout_rank": rules.LAYOUTS.get(layout, 0),
            "has_sinks": "sinks" in given.inputs,
            "has_rope": "query_rope" in given.inputs,
            "has_value": "value" in given.inputs,
            "has_d_value": "d_value" in given.outputs,
            "has_lengths": values["actual_seq_q"] is not None and values["actual_seq_kv"] is not None,
        }

    def _check_shapes(self, given: Given, names: Mapping[str, Any]) -> dict[str, Any]:
        layout, product, rank = names["layout"], names["product"], names["layout_rank"]
        tensors = {**given.inputs, **given.outputs}
        for name, tensor in given.inputs.items():
            wanted = 1 if name == "sinks" else rank
            if len(tensor.shape) != wanted and name not in _STATS:
                raise StatusError(
                    "tiling",
                    describe(
                        self.name,
                        f"rank of {name}",
                        f"{len(tensor.shape)} (shape {tensor.shape})",
                        f"{wanted} for layout {layout}",
                    ),
                )
        sizes = rules.sizes({name: tensor.shape for name, tensor in tensors.items()}, layout, product)
        rules.check(rules.OF_SHAPES, self.name, product, {**names, **sizes})
        expected = rules.expected_shapes(layout, sizes)
        for name, tensor in tensors.items():
            if tensor.shape != expected[name]:
                raise StatusError(
                    "tiling",
                    f"{self.name}: The shape of {rules.camel(name)} is invalid, got "
                    f"{tensor.shape}, should be {expected[name]}",
                )
        for name in _STATS:
            self._dtype(given.inputs[name], ("float32",), "tiling")
        self._dtype(given.inputs["out"], (given.inputs["query"].dtype,), "tiling")
        return sizes

    def _lengths(self, given: Given, names: Mapping[str, Any]) -> dict[str, Any]:
        """Lengths of the public function of the op."""
        result: dict[str, Any] = {}
        for name, size, target in (("actual_seq_q", "S1", "q"), ("actual_seq_kv", "S2", "kv")):
            if name not in given.lengths:
                continue
            if isinstance(given.lengths[name], Shaped):
                result[f"actual_seq_{target}len"] = shaped_lengths(self.name, name, given.lengths[name], names)
                continue
            values = read_lengths(self.name, name, given.lengths[name])
            if names["layout"] == "TND":
                found = prefix_sums(self.name, name, values, names[size], "T" + size[1])
            else:
                found = counts(self.name, name, values, names["B"], names[size], size)
            result[f"actual_seq_{target}len"] = found
        counts_of = [(x.shape or ())[0] if isinstance(x, Operand) else len(x) for x in result.values()]
        if len(set(counts_of)) > 1:
            raise StatusError(
                "tiling",
                describe(
                    self.name,
                    "actual_seq_q, actual_seq_kv",
                    " and ".join(f"{count} lengths" for count in counts_of),
                    "as many on both sides",
                ),
            )
        return result


def _workspace(names: Mapping[str, Any], product: str) -> int:
    """Bytes by the formula of the product's published implementation."""
    rows = names["B"] * names["S1"], names["B"] * names["S2"]
    if product != "950":
        return get_workspace_size(
            *rows, names["N1"], names["D"], names["D_value"], names["Dr"], names["K"], names["sparse_block_size"]
        )
    dim, wide, slots = names["D"], names["D"] + names["Dr"], names["K"]
    per_core = 3 * _unit(128 * wide * 2) + 2 * (_unit(4 * slots * wide) + _unit(4 * slots * dim))
    sums = _unit(4 * rows[0] * names["N1"] * wide) + _unit(4 * rows[1] * wide) + _unit(4 * rows[1] * names["D_value"])
    return (32 << 20) + _950_CORES * per_core + sums


def _unit(size: int) -> int:
    return -(-size // 512) * 512
