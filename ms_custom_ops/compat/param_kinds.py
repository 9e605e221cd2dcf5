# SPDX-License-Identifier: Apache-2.0
"""Kinds of operator parameters (REQUIRED_INPUT, OPTION_ATTR_LIST_INT, ...) and what each must be."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ms_custom_ops.compat.op_errors import fail

VALID_DTYPES = (
    "float16", "float32", "float64", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
    "uint64", "bool", "int4", "uint1", "complex64", "complex128",
)  # fmt: skip


@dataclass(frozen=True)
class OpParam:
    """One parameter of one call."""

    op: str
    name: str
    value: Any


def _wrong(p: OpParam, what: str, given: Any, accepted: str) -> Exception:
    return fail("E80003", p.op, f"{what} is {given}; accepted: {accepted}", param_name=p.name)


def check_tensor(p: OpParam) -> None:
    """A dict with shape (list of int) and dtype, and strings where it names formats."""
    if not isinstance(p.value, dict):
        raise _wrong(p, f"type of {p.name}", type(p.value).__name__, "dict with shape and dtype")
    missing = [key for key in ("shape", "dtype") if key not in p.value]
    if missing:
        raise _wrong(p, f"{p.name}", f"a dict without {', '.join(missing)}", "a dict with shape and dtype")
    shape = p.value["shape"]
    if not isinstance(shape, (list, tuple)) or any(isinstance(d, bool) or not isinstance(d, int) for d in shape):
        raise _wrong(p, f"shape of {p.name}", shape, "a list of int")
    if any(d < -2 for d in shape):
        raise _wrong(p, f"shape of {p.name}", list(shape), "dimensions of at least -1 (-2: unknown rank)")
    dtype = p.value["dtype"]
    if not isinstance(dtype, str) or dtype.lower() not in VALID_DTYPES:
        raise _wrong(p, f"dtype of {p.name}", dtype, ", ".join(VALID_DTYPES))
    for key in ("format", "ori_format"):
        if key in p.value and not isinstance(p.value[key], str):
            raise _wrong(p, f"{key} of {p.name}", p.value[key], "a string")


def check_tensor_list(p: OpParam) -> None:
    """A list of tensors."""
    if not isinstance(p.value, (list, tuple)) or not p.value:
        raise _wrong(p, p.name, repr(p.value), "a list of at least one tensor dict")
    for k, item in enumerate(p.value):
        check_tensor(OpParam(p.op, f"{p.name}[{k}]", item))


def _attr(accepted: str, good: Callable[[Any], bool]) -> Callable[[OpParam], None]:
    def check(p: OpParam) -> None:
        if not good(p.value):
            raise _wrong(p, p.name, repr(p.value), accepted)

    return check


def _is_int(v: Any) -> bool:
    return isinstance(v, int) and not isinstance(v, bool)


def _is_float(v: Any) -> bool:
    return isinstance(v, float) or _is_int(v)


def _is_list(item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, (list, tuple)) and all(item(x) for x in v)


_ATTRS: dict[str, Callable[[OpParam], None]] = {
    "INT": _attr("an int", lambda v: isinstance(v, int)),  # True and False are ints, as in Python
    "FLOAT": _attr("a number", lambda v: isinstance(v, (int, float))),
    "STR": _attr("a string", lambda v: isinstance(v, str)),
    "BOOL": _attr("a bool", lambda v: isinstance(v, bool)),
    "TYPE": _attr("a dtype", lambda v: isinstance(v, (str, int)) and not isinstance(v, bool)),
    "LIST_INT": _attr("a list of int", _is_list(_is_int)),
    "LIST_FLOAT": _attr("a list of numbers", _is_list(_is_float)),
    "LIST_BOOL": _attr("a list of bool", _is_list(lambda v: isinstance(v, bool))),
    "LIST_STR": _attr("a list of strings", _is_list(lambda v: isinstance(v, str))),
    "LIST_LIST_INT": _attr("a list of lists of int", _is_list(_is_list(_is_int))),
}


def _optional(check: Callable[[OpParam], None]) -> Callable[[OpParam], None]:
    def checked(p: OpParam) -> None:
        if p.value is not None and p.value != {}:
            check(p)

    return checked


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KERNEL_NAME_LIMIT = 200


def _required(check: Callable[[OpParam], None]) -> Callable[[OpParam], None]:
    def checked(p: OpParam) -> None:
        if p.value is None:
            raise fail("E80001", p.op, f"{p.name} is None; accepted: a value", param_name=p.name)
        check(p)

    return checked


def check_kernel_name(kernel_name: Any) -> None:
    """A C identifier of at most 200 characters."""
    if not isinstance(kernel_name, str):
        raise fail("E80003", "", f"kernel_name is {kernel_name!r}; accepted: a string")
    if len(kernel_name) > KERNEL_NAME_LIMIT or not _NAME.fullmatch(kernel_name):
        raise fail(
            "E80009",
            "",
            f"kernel_name is {kernel_name!r}; accepted: letters, digits and _, not a digit first, at most "
            f"{KERNEL_NAME_LIMIT} characters",
        )


def _kernel_name(p: OpParam) -> None:
    check_kernel_name(p.value)


KERNEL_NAME = "kernel_name"
REQUIRED_INPUT, OPTION_INPUT, DYNAMIC_INPUT = "required_input", "option_input", "dynamic_input"
REQUIRED_OUTPUT, OPTION_OUTPUT, DYNAMIC_OUTPUT = "required_output", "option_output", "dynamic_output"
REQUIRED_ATTR_INT, OPTION_ATTR_INT = "required_attr_int", "option_attr_int"
REQUIRED_ATTR_FLOAT, OPTION_ATTR_FLOAT = "required_attr_float", "option_attr_float"
REQUIRED_ATTR_STR, OPTION_ATTR_STR = "required_attr_str", "option_attr_str"
REQUIRED_ATTR_BOOL, OPTION_ATTR_BOOL = "required_attr_bool", "option_attr_bool"
REQUIRED_ATTR_TYPE, OPTION_ATTR_TYPE = "required_attr_type", "option_attr_type"
REQUIRED_ATTR_LIST_INT, OPTION_ATTR_LIST_INT = "required_attr_list_int", "option_attr_list_int"
REQUIRED_ATTR_LIST_FLOAT, OPTION_ATTR_LIST_FLOAT = "required_attr_list_float", "option_attr_list_float"
REQUIRED_ATTR_LIST_BOOL, OPTION_ATTR_LIST_BOOL = "required_attr_list_bool", "option_attr_list_bool"
REQUIRED_ATTR_LIST_STR, OPTION_ATTR_LIST_STR = "required_attr_list_str", "option_attr_list_str"
REQUIRED_ATTR_LIST_LIST_INT, OPTION_ATTR_LIST_LIST_INT = "required_attr_list_list_int", "option_attr_list_list_int"

CHECKS: dict[str, Callable[[OpParam], None]] = {
    **{f"required_{end}": _required(check_tensor) for end in ("input", "output")},
    **{f"option_{end}": _optional(check_tensor) for end in ("input", "output")},
    **{f"dynamic_{end}": _required(check_tensor_list) for end in ("input", "output")},
    **{f"required_attr_{kind.lower()}": _required(check) for kind, check in _ATTRS.items()},
    **{f"option_attr_{kind.lower()}": _optional(check) for kind, check in _ATTRS.items()},
    KERNEL_NAME: _kernel_name,
}
"""Check of each kind; the keys are the values of the constants above."""
