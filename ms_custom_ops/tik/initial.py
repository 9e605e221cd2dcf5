# SPDX-License-Identifier: Apache-2.0
"""``init_value`` of a GM tensor: one number for all elements, or a list of the values of all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ms_custom_ops.errors import TikError
from ms_custom_ops.program.dtypes import DTYPES, FLOATS, INT_RANGE
from ms_custom_ops.tik.builder import Builder

MAX_INIT_ELEMENTS = 256 * 1024
_ACCEPTED = "a number, or a list, tuple or array of numbers"


def initial_value(b: Builder, api: str, value: Any, dtype: str, shape: tuple) -> int | float | bytes | None:
    """What the buffer of a GM tensor starts with: None, a number, or the bytes of all elements (row by row).

    ``shape``: its dimensions, -1 where one is unknown. TikError for values that are no numbers or not as many as there
    are elements, that the dtype does not hold, and for shapes that are too large or known only at run time.
    """
    if value is None:
        return None
    if -1 in shape or math.prod(shape) > MAX_INIT_ELEMENTS:
        accepted = f"static shapes of at most {MAX_INIT_ELEMENTS} elements"
        raise b.fail(TikError, api, "init_value for a shape", f"{list(shape)}", accepted)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        return _table(b, api, value, dtype, shape)
    number = _number(b, api, "init_value", value, dtype)
    if isinstance(number, int) and int(float(number)) != number:  # the Program holds one number as a float
        return np.full(math.prod(shape), number, DTYPES[dtype].numpy).tobytes()
    return number


def _table(b: Builder, api: str, values: Any, dtype: str, shape: tuple) -> bytes:
    count, kind = math.prod(shape), DTYPES[dtype].numpy
    flat = values.reshape(-1).tolist() if isinstance(values, np.ndarray) else _flat(b, api, values)
    if len(flat) != count:
        raise b.fail(TikError, api, "number of values in init_value", len(flat), f"{count}, one for each element")
    if isinstance(values, np.ndarray) and values.dtype == kind:
        return values.tobytes()
    found = [_number(b, api, f"init_value[{k}]", v, dtype) for k, v in enumerate(flat)]
    with np.errstate(over="ignore"):
        return (np.array(found, np.float64).astype(kind) if dtype in FLOATS else np.array(found, kind)).tobytes()


def _flat(b: Builder, api: str, values: Any) -> list[Any]:
    """The numbers of nested lists, row by row."""
    found: list[Any] = []
    stack = [iter(values)]
    while stack:
        for item in stack[-1]:
            if isinstance(item, np.ndarray):
                item = item.tolist()
            if isinstance(item, (list, tuple)):
                if len(stack) >= 16:
                    raise b.fail(TikError, api, "init_value", "lists nested deeper than 16", _ACCEPTED)
                stack.append(iter(item))
                break
            found.append(item)
        else:
            stack.pop()
    return found


def _number(b: Builder, api: str, what: str, value: Any, dtype: str) -> int | float:
    """A number that the dtype holds: floats are rounded to it, integers must be whole and in its range."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (int, float)):
        raise b.fail(TikError, api, what, f"a {type(value).__name__}", _ACCEPTED)
    if dtype in FLOATS:
        return float(value)
    low, high = INT_RANGE.get(dtype, (0, 1))
    if float(value) != float(value) or math.isinf(float(value)) or int(value) != value or not low <= value <= high:
        raise b.fail(TikError, api, what, value, f"an integer {low}..{high} ({dtype})")
    return int(value)
