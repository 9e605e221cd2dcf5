# SPDX-License-Identifier: Apache-2.0
"""Bounds that the constraints of an op state, for layers that check what they are constructed with."""

from __future__ import annotations

import ast

from ms_custom_ops.errors import OpInfoError, describe
from ms_custom_ops.registry.discovery import get_op


def upper_bound(op: str, what: str) -> int:
    """The N of ``what <= N`` in the constraints of the public form of an op, else of its primitive.

    Args:
        op: name of the op. what: the left side as it stands in the op_info file: "D", "N1 // N2".

    Raises:
        OpInfoError: no constraint says that.
    """
    spec = get_op(op)
    public = () if spec.public is None else spec.public.constraints
    for constraint in (*public, *spec.constraints):
        for node in ast.walk(ast.parse(constraint.expr.text, mode="eval")):
            if not isinstance(node, ast.Compare):
                continue
            sides = [node.left, *node.comparators]
            for left, relation, right in zip(sides, node.ops, sides[1:], strict=False):
                bound = right.value if isinstance(right, ast.Constant) else None
                if ast.unparse(left) == what and isinstance(relation, ast.LtE) and isinstance(bound, int):
                    return bound
    raise OpInfoError(describe(op, "constraints", f"without {what} <= a number", "one that bounds it"))
