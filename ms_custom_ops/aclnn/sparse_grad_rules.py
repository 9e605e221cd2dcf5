# SPDX-License-Identifier: Apache-2.0
"""Documented constraints of SparseFlashAttentionGrad by product, as data, with the texts of the tiling stage.

Conditions are in the expression language of op_info files. The A2 implementation does not check D, K and the block size
against its documented lists, and small models need other values: those lists hold on 950 only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ms_custom_ops.aclnn.products import PRODUCTS
from ms_custom_ops.aclnn.status import StatusError
from ms_custom_ops.registry.expr import parse_expr

LAYOUTS = {"BSND": 4, "TND": 3}
HEADS = {
    "A2": (1, 2, 4, 8, 16, 32, 64, 128),
    "A3": (1, 2, 4, 8, 16, 32, 64, 128),
    "950": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128),
}


@dataclass(frozen=True)
class Rule:
    """``holds`` must be true on ``products``, else the call ends in ``kind`` with ``text`` (formatted with the same
    names)."""

    holds: str
    text: str
    products: tuple[str, ...] = PRODUCTS
    kind: str = "tiling"


_950 = ("950",)
# Names: attributes, rank_query, layout_rank, present flags has_*.
BEFORE_SHAPES = (
    Rule("not has_sinks or product == '950'", "sinks are given on {product}; accepted: on 950 only", kind="runtime"),
    Rule("sparse_mode in (0, 3)", "only support sparse_mode=0 or 3, now sparse_mode={sparse_mode}"),
    Rule("layout in ('BSND', 'TND')", "only support TND or BSND layout, now layout is {layout}"),
    Rule(
        "rank_query == layout_rank",
        "layout dims is not equal to the input's dim: rank of query is {rank_query}, layout is {layout}; accepted: "
        "rank {layout_rank}",
    ),
    Rule("layout != 'TND' or has_lengths", "actual_seq_q, actual_seq_kv: TND needs the lengths of both sides"),
    Rule(
        "has_value or not has_d_value",
        "d_value is given without value; accepted: None or an empty tensor, d_key is then dK + dV",
        kind="invalid_parameter",
    ),
)
# Names: those above and the sizes of sizes() below.
OF_SHAPES = (
    Rule("D == D_key", "head_dim of Query[{D}] should be equal to head_dim of Key[{D_key}]"),
    Rule("D == 512", "head_dim of Query[{D}] should be 512", _950),
    Rule("D >= D_value", "head_dim of Query[{D}] can not less than head_dim of Value[{D_value}]"),
    Rule("Dr == Dr_key", "headDim of qRope and kRope should be equal, got {Dr} and {Dr_key}"),
    Rule("not has_rope or Dr == 64", "headDim of qRope and kRope should be 64, got {Dr}", _950),
    Rule("N2 == 1 and N1_listed", "only support n2=1 and n1={heads}, but got n2={N2} n1={N1}"),
    Rule(
        "layout != 'TND' or smallest >= 1",
        "TND with a size of 0: t1={S1} n1={N1} d={D} t2={S2} n2={N2}; accepted: at least 1 each",
    ),
    Rule("K % 1024 == 0 and 1024 <= K <= 8192", "K of sparse_indices is {K}; accepted: 1024, 2048, ... 8192", _950),
    Rule(
        "sparse_block_size in (1, 8, 16, 32, 64)",
        "sparse_block_size is {sparse_block_size}; accepted: 1, 8, 16, 32, 64",
        _950,
    ),
)


def check(rules: tuple[Rule, ...], op: str, product: str, names: Mapping[str, Any]) -> None:
    """StatusError for the first rule of ``product`` that does not hold."""
    for rule in rules:
        if product in rule.products and not parse_expr(rule.holds).evaluate(names):
            raise StatusError(rule.kind, f"{op}: {rule.text.format(**names)}")


def sizes(shapes: Mapping[str, tuple[int, ...]], layout: str, product: str) -> dict[str, Any]:
    """Sizes of tensors whose ranks are right: B 1 and S1, S2 the totals for TND."""
    query, key = shapes["query"], shapes["key"]
    batch = 1 if layout == "TND" else query[0]
    found: dict[str, Any] = dict(
        B=batch,
        S1=query[-3],
        S2=key[-3],
        N1=query[-2],
        N2=key[-2],
        D=query[-1],
        D_key=key[-1],
        D_value=shapes.get("value", key)[-1],
        K=shapes["sparse_indices"][-1],
    )
    rope = shapes.get("query_rope", (0,)), shapes.get("key_rope", (0,))
    found |= dict(
        Dr=rope[0][-1],
        Dr_key=rope[1][-1],
        heads=",".join(map(str, HEADS[product])),
        N1_listed=found["N1"] in HEADS[product],
    )
    found["smallest"] = min(found[name] for name in ("S1", "N1", "D", "S2", "N2"))
    return found


def expected_shapes(layout: str, s: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes that every tensor must have, given the sizes."""
    packed = layout == "TND"
    q, k = ((s["S1"],), (s["S2"],)) if packed else ((s["B"], s["S1"]), (s["B"], s["S2"]))
    n1, n2, group = s["N1"], s["N2"], s["N1"] // max(s["N2"], 1)
    stats = (n2, s["S1"], group) if packed else (s["B"], n2, s["S1"], group)
    shapes = {
        "key": (*k, n2, s["D"]),
        "value": (*k, n2, s["D_value"]),
        "sparse_indices": (*q, n2, s["K"]),
        "d_out": (*q, n1, s["D_value"]),
        "out": (*q, n1, s["D_value"]),
        "softmax_max": stats,
        "softmax_sum": stats,
        "query_rope": (*q, n1, s["Dr"]),
        "key_rope": (*k, n2, s["Dr"]),
        "sinks": (n1,),
        "query": (*q, n1, s["D"]),
    }
    outputs = ("query", "key", "value", "query_rope", "key_rope", "sinks")
    return {**shapes, **{f"d_{name}": shapes[name] for name in outputs}}


def camel(name: str) -> str:
    """softmax_max -> softmaxMax, the name in the C interface."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
