# SPDX-License-Identifier: Apache-2.0
"""An op of an Ascend C project as a MindSpore operator, in GRAPH_MODE and PYNATIVE."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ms_custom_ops.ascendc import table
from ms_custom_ops.ascendc.definition import DYNAMIC
from ms_custom_ops.ascendc.op import AscendcOp
from ms_custom_ops.cache import content_key
from ms_custom_ops.errors import AscendcError, describe
from ms_custom_ops.mindspore.custom import EngineCustom, inferred

__all__ = ["AscendcCustom", "operator"]


class AscendcCustom(EngineCustom):
    """Primitive of an op of a project with fixed attributes; called with the tensors ``inputs`` in their order.

    Args:
        op: the op of the project.
        attributes: one value for each attribute of the OpDef.
        inputs: numbers of the inputs that are there.
        bprop: gradient function, or None.
    """

    def __init__(self, op: AscendcOp, attributes: Sequence[Any], inputs: Sequence[int], bprop: Any = None):
        self._op, self._values, self._there = op, list(attributes), list(inputs)
        self._known: dict[Any, dict[str, Any]] = {}
        super().__init__(f"{op.name} of {op.host_library}", bprop)
        parts = {"ascendc": op.name, "host": str(op.host_library), "soc": op.soc.name, "attributes": self._values}
        self._prefix = json.dumps({**parts, "inputs": self._there}, sort_keys=True)
        digest = hashlib.sha256(self._prefix.encode()).hexdigest()[:32]
        outputs = range(len(op.outputs))
        self.add_keys(digest, "", range(len(self._there)), outputs, len(self._there), len(op.outputs))
        self.add_prefix(self._prefix, launches=True)

    def __infer__(self, *args: Any) -> dict[str, Any]:
        """Runs the project's shape inference and tiling, builds the kernel, and returns the output types."""
        op, names = self._op, [self._op.inputs[number].name for number in self._there]
        if len(args) != len(names):
            raise AscendcError(describe(op.name, "tensors", len(args), f"{len(names)}: {', '.join(names)}"))
        shapes, dtypes = self.tensor_types(names, args)
        known = self._known.get((shapes, dtypes))
        if known is None:
            by_number = dict(zip(self._there, zip(shapes, dtypes, strict=True), strict=True))
            places = [by_number.get(number) for number in range(len(op.inputs))]
            launch = op.launch(
                [None if place is None else place[0] for place in places],
                [() if place is None else (place[1],) for place in places],
                self._values,
            )
            if any(0 not in shape for shape, _ in launch.outputs):
                key = content_key(self._prefix, tuple(zip(shapes, dtypes, strict=True)))
                table.put(key, op.name, launch, self._there, shapes, dtypes)
            known = self._known[shapes, dtypes] = inferred(launch.outputs)
        return dict(known)


def operator(op: AscendcOp, attributes: Mapping[str, Any], bprop: Any, inputs: Sequence[str] | None) -> AscendcCustom:
    """See :meth:`AscendcOp.mindspore`."""
    names = [param.name for param in op.inputs]
    wanted = names if inputs is None else list(inputs)
    for param in op.inputs:
        if param.option == DYNAMIC:
            accepted = "one tensor (REQUIRED or OPTIONAL), in MindSpore"
            raise AscendcError(describe(op.name, f"input {param.name}", "a list of tensors (DYNAMIC)", accepted))
        if param.name not in wanted and not param.optional:
            raise AscendcError(describe(op.name, f"input {param.name}", "left out", "one that is OPTIONAL"))
    for name in wanted:
        if name not in names:
            raise AscendcError(describe(op.name, "inputs", name, ", ".join(names)))
    there = [number for number, name in enumerate(names) if name in wanted]
    return AscendcCustom(op, op.attribute_values(attributes), there, bprop)
