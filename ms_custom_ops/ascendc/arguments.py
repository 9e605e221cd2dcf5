# SPDX-License-Identifier: Apache-2.0
"""What a call of a project's op gives: arrays by input, values by attribute, checked against the OpDef."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ms_custom_ops.ascendc.definition import DYNAMIC, KINDS, Definition, Param
from ms_custom_ops.ascendc.definition import Attribute as AttributeDef
from ms_custom_ops.errors import AscendcError, describe

Array = np.ndarray | list[np.ndarray] | None
"""Of one input: an array, a list of them where it is DYNAMIC, None where it is absent."""


def arrays_of(op: str, inputs: Sequence[Param], tensors: Sequence[Any], named: dict[str, Any]) -> list[Array]:
    """One entry for each input; takes inputs that are named out of ``named``."""
    if len(tensors) > len(inputs):
        accepted = f"at most {len(inputs)}: {', '.join(p.name for p in inputs)}; attributes go by name"
        raise AscendcError(describe(op, "positional arguments", len(tensors), accepted))
    given = dict(zip((param.name for param in inputs), tensors, strict=False))
    for param in inputs:
        if param.name in named:
            if param.name in given:
                raise AscendcError(describe(op, f"input {param.name}", "twice", "once"))
            given[param.name] = named.pop(param.name)
    return [_entry(op, param, given.get(param.name)) for param in inputs]


def _entry(op: str, param: Param, value: Any) -> Array:
    if param.option == DYNAMIC:
        if not isinstance(value, list | tuple) or not value:
            what = "an empty list" if isinstance(value, list | tuple) else _kind(value)
            accepted = "a list of NumPy arrays: the input is DYNAMIC"
            raise AscendcError(describe(op, f"input {param.name}", what, accepted))
        arrays = [_array(op, f"{param.name}[{number}]", item) for number, item in enumerate(value)]
        if len({array.dtype for array in arrays}) > 1:
            dtypes = ", ".join(array.dtype.name for array in arrays)
            raise AscendcError(describe(op, f"input {param.name}", f"a list of {dtypes}", "one dtype"))
        return arrays
    return None if value is None and param.optional else _array(op, param.name, value)


def _kind(value: Any) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"


def _array(op: str, name: str, value: Any) -> np.ndarray:
    if not isinstance(value, np.ndarray | np.generic):
        raise AscendcError(describe(op, f"input {name}", _kind(value), "a NumPy array"))
    return np.asarray(value)


def contiguous(entry: Array) -> Array:
    """The same values without gaps; an array that has none stays itself."""
    if isinstance(entry, list):
        return [np.ascontiguousarray(array) for array in entry]
    return None if entry is None else np.ascontiguousarray(entry)


def dtype_names(entry: Array) -> tuple[str, ...]:
    """Names of the dtype an input may stand for: uint16 also for the bits of bfloat16; () where it is absent."""
    array = entry[0] if isinstance(entry, list) else entry
    if array is None:
        return ()
    return (array.dtype.name, "bfloat16") if array.dtype.name == "uint16" else (array.dtype.name,)


def storage(dtype: str, inputs: Sequence[Array]) -> np.dtype:
    """NumPy's dtype of an output: bfloat16 as the first input that may be it has it."""
    if dtype != "bfloat16":
        return np.dtype(dtype)
    for entry in inputs:
        array = entry[0] if isinstance(entry, list) else entry
        if array is not None and array.dtype.name in ("bfloat16", "uint16"):
            return array.dtype
    return np.dtype(ml_dtypes.bfloat16)


def attribute_values(definition: Definition, inputs: Sequence[Param], named: Mapping[str, Any]) -> list[Any]:
    """One value for each attribute of the OpDef, defaults filled in."""
    known = [attribute.name for attribute in definition.attributes]
    for name in named:
        if name not in known:
            accepted = ", ".join([*(p.name for p in inputs), *known])
            raise AscendcError(describe(definition.name, "argument", name, accepted))
    return [_attribute(definition.name, attribute, named) for attribute in definition.attributes]


def _attribute(op: str, attribute: AttributeDef, named: Mapping[str, Any]) -> Any:
    if attribute.name not in named:
        if attribute.required or attribute.default is None:
            raise AscendcError(describe(op, f"attribute {attribute.name}", "missing", KINDS[attribute.kind]))
        return float(attribute.default) if attribute.kind == 2 else attribute.default  # also "inf", which JSON lacks
    value = named[attribute.name]
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, tuple):
        value = [list(row) if isinstance(row, tuple) else row for row in value]
    if not _fits(attribute.kind, value):
        raise AscendcError(describe(op, f"attribute {attribute.name}", repr(value), KINDS[attribute.kind]))
    return value


def _fits(kind: int, value: Any) -> bool:
    def integer(item: Any) -> bool:
        return isinstance(item, int) and not isinstance(item, bool) and -(1 << 63) <= item < 1 << 63

    def number(item: Any) -> bool:
        return isinstance(item, int | float) and not isinstance(item, bool)

    def every(test: Any) -> bool:
        return isinstance(value, list) and all(test(item) for item in value)

    tests = (
        lambda: isinstance(value, bool),
        lambda: integer(value),
        lambda: number(value),
        lambda: isinstance(value, str) and "\0" not in value,
        lambda: every(integer),
        lambda: every(number),
        lambda: every(lambda item: isinstance(item, bool)),
        lambda: every(lambda row: isinstance(row, list) and all(integer(item) for item in row)),
    )
    return tests[kind]()


def start_values(
    op: str,
    outputs: Sequence[Param],
    fixed: Collection[int],
    made: Sequence[np.ndarray | None],
    given: Mapping[str, Any],
) -> dict[int, np.ndarray]:
    """By the number of its output, what a call gives it to start with. ``fixed``: outputs that start as an input;
    ``made``: memory of each, None of a list."""
    free = {param.name: number for number, param in enumerate(outputs) if number not in fixed}
    found = {}
    for name, value in given.items():
        if name not in free:
            raise AscendcError(describe(op, "name in out_values", repr(name), ", ".join(free) or "no output is free"))
        memory, array = made[free[name]], np.asarray(value)
        if memory is None:
            raise AscendcError(describe(op, f"out_values of {name}", "for a list of tensors", "one tensor"))
        if array.shape != memory.shape or array.dtype != memory.dtype:
            text = f"{array.dtype}{list(array.shape)}"
            raise AscendcError(describe(op, f"out_values of {name}", text, f"{memory.dtype}{list(memory.shape)}"))
        found[free[name]] = array
    return found


def descriptor(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """A list of tensors as ListTensorDesc of a kernel reads it: 64-bit words, the last ones their addresses."""
    words = descriptor_words([array.shape for array in arrays])
    return np.array([*words, *(array.ctypes.data for array in arrays)], np.uint64)


def descriptor_words(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """What a list of tensors says before their addresses."""
    words = [0]
    for number, shape in enumerate(shapes):
        words += [number << 32 | len(shape), *shape]
    words[0] = 8 * len(words)
    return words
