# SPDX-License-Identifier: Apache-2.0
"""``errormgr`` / ``error_manager``: the errors operators raise about their parameters.

An error is a RuntimeError whose first argument is a dict (``errCode``, ``op_name``, and the facts), the form
kernels and frameworks read, and whose text says the same in a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_custom_ops.errors import MsCustomOpsError


class OpParamError(MsCustomOpsError, RuntimeError):
    """A parameter of an operator is wrong. ``args[0]`` is the dict of facts, ``args[1]`` the sentence."""

    def __init__(self, info: dict[str, Any], message: str):
        super().__init__(info, message)

    def __str__(self) -> str:
        return str(self.args[1])


def fail(code: str, op_name: str, message: str, **facts: Any) -> OpParamError:
    """The error of a failed check: ``message`` without the op's name in front."""
    info = {"errCode": code, "op_name": op_name, **{k: str(v) for k, v in facts.items()}, "detailed_cause": message}
    return OpParamError(info, f"{op_name or 'op'}: {message}")


def get_error_message(args: Any) -> str:
    """Sentence for a dict of facts (or for the arguments of an error that holds one)."""
    info = args[0] if isinstance(args, (tuple, list)) and args else args
    if not isinstance(info, dict):
        return str(info)
    name = info.get("op_name", "op")
    cause = info.get("detailed_cause")
    facts = cause or ", ".join(f"{k}={v}" for k, v in info.items() if k not in ("errCode", "op_name"))
    return f"{name}: {facts}"


def raise_runtime_error(info: dict[str, Any]) -> None:
    """Raise the error that a dict of facts describes."""
    raise OpParamError(info, get_error_message(info))


raise_runtime_error_cube = raise_runtime_error


# raise_err_<what>(op_name, facts...): code, names of the facts, sentence over them.
_RAISERS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "raise_err_input_value_invalid": (
        "E80000",
        ("param_name", "expect_value", "real_value"),
        "{0} is {2}; accepted: {1}",
    ),
    "raise_err_miss_mandatory_parameter": ("E80001", ("param_name",), "{0} is missing; accepted: a value"),
    "raise_err_input_param_not_in_range": (
        "E80002",
        ("param_name", "min_value", "max_value", "value"),
        "{0} is {3}; accepted: {1}..{2}",
    ),
    "raise_err_input_param_range_invalid": (
        "E80012",
        ("param_name", "min_value", "max_value", "value"),
        "rank of {0} is {3}; accepted: {1}..{2}",
    ),
    "raise_err_input_dtype_not_supported": (
        "E80008",
        ("param_name", "expect_value", "real_value"),
        "dtype of {0} is {2}; accepted: {1}",
    ),
    "raise_err_check_params_rules": ("E80009", ("rule_desc", "param_name", "param_value"), "{1} is {2}; accepted: {0}"),
    "raise_err_input_format_invalid": (
        "E80015",
        ("param_name", "expect_format", "real_format"),
        "format of {0} is {2}; accepted: {1}",
    ),
    "raise_err_inputs_shape_not_equal": (
        "E80017",
        ("param_name1", "param_name2", "shape1", "shape2", "expect_shape"),
        "shapes of {0} and {1} are {2} and {3}; accepted: {4}",
    ),
    "raise_err_inputs_dtype_not_equal": (
        "E80018",
        ("param_name1", "param_name2", "dtype1", "dtype2"),
        "dtypes of {0} and {1} are {2} and {3}; accepted: equal dtypes",
    ),
    "raise_err_input_shape_invalid": ("E80028", ("param_name", "error_detail"), "shape of {0}: {1}"),
    "raise_err_two_input_shape_invalid": (
        "E80029",
        ("param_name1", "param_name2", "error_detail"),
        "shapes of {0} and {1}: {2}",
    ),
    "raise_err_two_input_dtype_invalid": (
        "E80030",
        ("param_name1", "param_name2", "error_detail"),
        "dtypes of {0} and {1}: {2}",
    ),
    "raise_err_two_input_format_invalid": (
        "E80031",
        ("param_name1", "param_name2", "error_detail"),
        "formats of {0} and {1}: {2}",
    ),
    "raise_err_check_the_validity_of_variable": ("E80032", ("desc", "param1", "param2"), "{0}: {1}, {2}"),
    "raise_err_pad_mode_invalid": ("E60021", ("expect_mode", "real_mode"), "padding mode is {1}; accepted: {0}"),
    "raise_err_specific_reson": ("E61001", ("reason",), "{0}"),
    "raise_err_specific_reason": ("E61001", ("reason",), "{0}"),
    "raise_err_specific": ("E61001", ("reason",), "{0}"),
    "raise_err_common": ("E61002", ("reason", "value"), "{0}: {1}"),
}


def _raiser(name: str) -> Callable[..., None]:
    code, names, sentence = _RAISERS[name]

    def raise_error(op_name: str, *facts: Any, **named: Any) -> None:
        values = {**dict(zip(names, facts, strict=False)), **named}
        texts = [values.get(n, "?") for n in names]
        raise fail(code, op_name, sentence.format(*texts), **values)

    raise_error.__name__ = raise_error.__qualname__ = name
    raise_error.__doc__ = f"Raise OpParamError {code} from op_name, {', '.join(names)}."
    return raise_error


def __getattr__(name: str) -> Any:
    """raise_err_<what>; one that is not in the table raises with the facts it is given."""
    if name in _RAISERS:
        return globals().setdefault(name, _raiser(name))
    if name.startswith("raise_err_"):
        what = name.removeprefix("raise_err_").replace("_", " ")

        def raise_error(op_name: str = "", *facts: Any, **named: Any) -> None:
            given = [*map(str, facts), *(f"{k}={v}" for k, v in named.items())]
            raise fail("E60000", op_name, f"{what}: {', '.join(given)}", **named)

        return globals().setdefault(name, raise_error)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
