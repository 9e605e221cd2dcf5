# SPDX-License-Identifier: Apache-2.0
"""An op of an Ascend C project as a MindSpore operator, in GRAPH_MODE and PYNATIVE."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ms_custom_ops.ascendc import table
from ms_custom_ops.ascendc.definition import DYNAMIC, Param
from ms_custom_ops.ascendc.op import AscendcOp
from ms_custom_ops.cache import content_key
from ms_custom_ops.errors import AscendcError, describe
from ms_custom_ops.mindspore.custom import EngineCustom, inferred

__all__ = ["AscendcCustom", "operator"]


class AscendcCustom(EngineCustom):
    """Primitive of an op of a project with fixed attributes; called with the tensors of ``inputs`` one by one.

    Args:
        op: the op of the project.
        attributes: one value for each attribute of the OpDef.
        inputs: for each tensor the number of its input; those of a list follow each other.
        bprop: gradient function, or None.
    """

    def __init__(self, op: AscendcOp, attributes: Sequence[Any], inputs: Sequence[int], bprop: Any = None):
        self._op, self._values, self._there = op, list(attributes), list(inputs)
        self._known: dict[Any, dict[str, Any]] = {}
        super().__init__(f"{op.name} of {op.host_library}", bprop)
        parts = {"ascendc": op.name, "host": str(op.host_library), "soc": op.soc.name, "attributes": self._values}
        self._prefix = json.dumps({**parts, "inputs": self._there}, sort_keys=True)
        digest = hashlib.sha256(self._prefix.encode()).hexdigest()[:32]
        results = sum(count or 1 for count in self.result_lists())
        self.add_keys(digest, "", range(len(self._there)), range(results), len(self._there), results)
        self.add_prefix(self._prefix, launches=True)

    def result_lists(self) -> list[int]:
        """For each output how many tensors its list has, 0 where it is one tensor."""
        dynamic = [number for number, param in enumerate(self._op.inputs) if param.option == DYNAMIC]
        count = self._there.count(dynamic[0]) if dynamic else 0
        return [count if param.option == DYNAMIC else 0 for param in self._op.outputs]

    def __infer__(self, *args: Any) -> dict[str, Any]:
        """Runs the project's shape inference and tiling, builds the kernel, and returns the output types."""
        op, names = self._op, [self._op.inputs[number].name for number in self._there]
        if len(args) != len(names):
            raise AscendcError(describe(op.name, "tensors", len(args), f"{len(names)}: {', '.join(names)}"))
        shapes, dtypes = self.tensor_types(names, args)
        known = self._known.get((shapes, dtypes))
        if known is None:
            entries = [self._entry(number, shapes, dtypes) for number in range(len(op.inputs))]
            launch = op.launch([shape for shape, _ in entries], [dtype for _, dtype in entries], self._values)
            if any(0 not in shape for shape, _ in launch.outputs):
                key = content_key(self._prefix, tuple(zip(shapes, dtypes, strict=True)))
                table.put(key, op.name, launch, self._there, shapes, dtypes)
            known = self._known[shapes, dtypes] = inferred(launch.outputs)
        return dict(known)

    def _entry(self, number: int, shapes: Sequence[Any], dtypes: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
        """Shape, or shapes of a list, and dtype of one input; None and () where it is absent."""
        param, items = self._op.inputs[number], [at for at, there in enumerate(self._there) if there == number]
        if not items:
            return None, ()
        if param.option != DYNAMIC:
            return shapes[items[0]], (dtypes[items[0]],)
        given = [dtypes[at] for at in items]
        if len(set(given)) > 1:
            what = f"a list of {', '.join(given)}"
            raise AscendcError(describe(self._op.name, f"input {param.name}", what, "one dtype"))
        return [shapes[at] for at in items], (given[0],)


def operator(
    op: AscendcOp, attributes: Mapping[str, Any], bprop: Any, inputs: Sequence[str] | None, lists: Mapping[str, int]
) -> AscendcCustom:
    """See :meth:`AscendcOp.mindspore`."""
    names = [param.name for param in op.inputs]
    wanted = names if inputs is None else list(inputs)
    for name in (*wanted, *lists):
        if name not in names:
            raise AscendcError(describe(op.name, "inputs", name, ", ".join(names)))
    there: list[int] = []
    for number, param in enumerate(op.inputs):
        if param.name not in wanted and not param.optional:
            raise AscendcError(describe(op.name, f"input {param.name}", "left out", "one that is OPTIONAL"))
        there += [number] * (_count(op, param, lists) if param.name in wanted else 0)
    return AscendcCustom(op, op.attribute_values(attributes), there, bprop)


def _count(op: AscendcOp, param: Param, lists: Mapping[str, int]) -> int:
    """How many tensors an input has."""
    count = lists.get(param.name)
    if param.option != DYNAMIC:
        if count is not None:
            raise AscendcError(describe(op.name, f"lists of {param.name}", count, "an input that is DYNAMIC"))
        return 1
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        accepted = f'lists={{"{param.name}": N}} with at least 1: the input is DYNAMIC'
        raise AscendcError(describe(op.name, f"lists of {param.name}", count, accepted))
    return count


def call(op: AscendcOp, tensors: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """A call with MindSpore's tensors as one with arrays: lists of tensors in and out."""
    given = dict(zip((param.name for param in op.inputs), tensors, strict=False))
    there = {name: entry for name, entry in given.items() if entry is not None}
    lists = {name: len(entry) for name, entry in there.items() if isinstance(entry, list | tuple)}
    primitive = operator(op, named, None, list(there), lists)
    flat = [item for entry in there.values() for item in (entry if isinstance(entry, list | tuple) else [entry])]
    result = primitive(*flat)
    groups = primitive.result_lists()
    if not any(groups):
        return result
    left = iter(result if isinstance(result, tuple) else (result,))
    outputs = [[next(left) for _ in range(group)] if group else next(left) for group in groups]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
