# SPDX-License-Identifier: Apache-2.0
"""``tbe.common.utils.para_check``: checks of an operator's parameters. They check, and raise OpParamError."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ms_custom_ops.compat.op_errors import OpParamError, fail
from ms_custom_ops.compat.param_kinds import *  # noqa: F403
from ms_custom_ops.compat.param_kinds import CHECKS, KERNEL_NAME_LIMIT, VALID_DTYPES, OpParam, check_kernel_name  # noqa: F401

SHAPE_SIZE_LIMIT = 2**31 - 1
SIZE_LIMIT = 2**63 - 1  # of an operator's tensor; check_tensor_shape_size keeps the older, smaller one
SHAPE_SIZE_ZERO = 0
RANK_ZERO, RANK_LIMIT = 0, 8
DIM_LIMIT = 2**31 - 1
NONE_TYPE = type(None)
# Keys and codes of the dicts of facts that errors carry.
PARAM_NAME, OP_NAME = "param_name", "op_name"
OP_ERROR_CODE_000, OP_ERROR_CODE_001, OP_ERROR_CODE_002, OP_ERROR_CODE_003 = (f"E8000{k}" for k in range(4))
OP_ERROR_CODE_004, OP_ERROR_CODE_005, OP_ERROR_CODE_006, OP_ERROR_CODE_007 = (f"E8000{k}" for k in range(4, 8))
OP_ERROR_CODE_008, OP_ERROR_CODE_009 = "E80008", "E80009"
OP_ERROR_CODE_010, OP_ERROR_CODE_011, OP_ERROR_CODE_012, OP_ERROR_CODE_013 = (f"E800{k}" for k in range(10, 14))
OP_ERROR_CODE_014, OP_ERROR_CODE_015, OP_ERROR_CODE_016, OP_ERROR_CODE_017 = (f"E800{k}" for k in range(14, 18))
OP_ERROR_CODE_018, OP_ERROR_CODE_019, OP_ERROR_CODE_020, OP_ERROR_CODE_021 = (f"E800{k}" for k in range(18, 22))
ALL_FORMAT_LIST: tuple[str, ...] = (
    "NCHW", "NHWC", "ND", "NC1HWC0", "FRACTAL_Z", "FRACTAL_NZ", "C1HWNCoC0", "NC1HWC0_C04", "FRACTAL_Z_C04",
    "HWCN", "NDHWC", "NCDHW", "DHWCN", "NDC1HWC0", "FRACTAL_Z_3D", "NC", "CN", "N", "NHW", "NCL",
)  # fmt: skip
ALL_DTYPE_LIST = VALID_DTYPES

F = TypeVar("F", bound=Callable[..., Any])


def check_op_params(*kinds: str | type | Sequence[str | type], **options: Any) -> Callable[[F], F]:
    """Decorator of an operator: ``kinds`` says, in the order of its parameters, what each must be
    (REQUIRED_INPUT, OPTION_ATTR_INT, ..., KERNEL_NAME), a Python type, or a tuple of those: it may be one of them. A
    call with a wrong or missing one raises OpParamError that names the operator and the parameter; one that is left at
    its default None counts as absent, not as missing."""
    alternatives = [(kind,) if isinstance(kind, (str, type)) else tuple(kind) for kind in kinds]
    for kind in (k for group in alternatives for k in group):
        if kind not in CHECKS and not isinstance(kind, type):
            raise ValueError(f"check_op_params: kind is {kind!r}; accepted: {', '.join(CHECKS)}")

    def decorate(function: F) -> F:
        names = list(inspect.signature(function).parameters)

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            bound, given = _bind(function, args, kwargs)
            op_name = str(bound.get("kernel_name") or function.__name__)
            for group, name in zip(alternatives, names, strict=False):
                if name in given or bound.get(name) is not None:  # public operators default a required output to None
                    _check_one_of(group, OpParam(op_name, name, bound.get(name)))
            return function(*args, **kwargs)

        return checked  # type: ignore[return-value]

    return decorate


def _check_type(kind: type, param: OpParam) -> None:
    if not isinstance(param.value, kind):
        given = f"type of {param.name} is {type(param.value).__name__}"
        raise fail("E80003", param.op, f"{given}; accepted: {kind.__name__}", param_name=param.name)


def _check_one_of(kinds: tuple[str | type, ...], param: OpParam) -> None:
    """The parameter passes the check of one of the kinds; the error names what each of them accepts."""
    failures = []
    for kind in kinds:
        try:
            return _check_type(kind, param) if isinstance(kind, type) else CHECKS[kind](param)
        except OpParamError as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    accepted = ", or ".join(str(f).partition("accepted: ")[2] for f in failures)
    given = str(failures[0]).partition(": ")[2].partition("; accepted: ")[0]
    raise fail("E80003", param.op, f"{given}; accepted: {accepted}", param_name=param.name)


def _bind(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Arguments of a call by name with defaults, and the names of those that the call gives."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise fail(
            "E80001", function.__name__, f"arguments: {error}; accepted: {', '.join(signature.parameters)}"
        ) from None
    given = set(bound.arguments)
    bound.apply_defaults()
    return dict(bound.arguments), given


def check_input_type(*types: Any, **named: Any) -> Callable[[F], F]:
    """Decorator: the arguments of a call must be instances of ``types`` (a type or tuple of types each, in
    order; ``named`` for keyword arguments). OpParamError names function, argument and types."""

    def decorate(function: F) -> F:
        names = list(inspect.signature(function).parameters)
        wanted = {**dict(zip(names, types, strict=False)), **named}

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            for name, value in given.items():
                kinds = wanted.get(name, object)
                if not isinstance(value, kinds):
                    text = ", ".join(t.__name__ for t in (kinds if isinstance(kinds, tuple) else (kinds,)))
                    raise fail(
                        "E80003",
                        function.__name__,
                        f"type of {name} is {type(value).__name__}; accepted: {text}",
                        param_name=name,
                    )
            return function(*args, **kwargs)

        return checked  # type: ignore[return-value]

    return decorate


def check_shape(
    shape: Any,
    min_dim: int = 0,
    max_dim: int = DIM_LIMIT,
    min_rank: int = RANK_ZERO,
    max_rank: int = RANK_LIMIT,
    min_size: int = 0,
    max_size: int = SIZE_LIMIT,
    param_name: str = "",
    op_name: str = "",
) -> None:
    """Rank, each dimension and the number of elements of ``shape`` within the given inclusive bounds. A -1 or
    -2 dimension is one that is known only at run time."""
    what = param_name or "shape"
    if not isinstance(shape, (tuple, list)):
        raise fail("E80003", op_name, f"type of {what} is {type(shape).__name__}; accepted: list, tuple")
    for dim in shape:
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise fail("E80003", op_name, f"{what} is {list(shape)}; accepted: a list of int", param_name=what)
    if not min_rank <= len(shape) <= max_rank:
        raise fail("E80012", op_name, f"rank of {what} is {len(shape)}; accepted: {min_rank}..{max_rank}")
    dynamic = any(dim in (-1, -2) for dim in shape)
    for k, dim in enumerate(shape):
        if dim not in (-1, -2) and not min_dim <= dim <= max_dim:
            raise fail("E80002", op_name, f"dimension {k} of {what} is {dim}; accepted: {min_dim}..{max_dim}")
    size = functools.reduce(lambda a, b: a * b, shape, 1)
    if shape and not dynamic and not min_size <= size <= max_size:
        raise fail("E80002", op_name, f"elements of {what} are {size}; accepted: {min_size}..{max_size}")


def check_dtype(dtype: Any, check_list: Iterable[str] = VALID_DTYPES, param_name: str = "", op_name: str = "") -> None:
    """``dtype`` is a string in ``check_list``, names or one name (case does not matter)."""
    what = f"dtype of {param_name}" if param_name else "dtype"
    if not isinstance(dtype, str):
        raise fail("E80003", op_name, f"{what} is {dtype!r}; accepted: a string", param_name=param_name)
    accepted = _names(check_list)
    if dtype.lower() not in accepted:
        raise fail("E80008", op_name, f"{what} is {dtype}; accepted: {', '.join(accepted)}", param_name=param_name)


def _names(check_list: Iterable[str]) -> list[str]:
    """The accepted names: of a list, or of a string that holds one or several."""
    return re.split(r"[\s,]+", check_list.strip()) if isinstance(check_list, str) else list(check_list)


def check_format(
    data_format: Any, check_list: Iterable[str] = ALL_FORMAT_LIST, param_name: str = "", op_name: str = ""
) -> None:
    """``data_format`` is a string in ``check_list``."""
    accepted = _names(check_list)
    if data_format not in accepted:
        what = f"format of {param_name}" if param_name else "format"
        raise fail("E80015", op_name, f"{what} is {data_format}; accepted: {', '.join(accepted)}")


def check_range(shape: Sequence[int], shape_range: Sequence[Sequence[Any]] | None, param_name: str = "") -> None:
    """``shape_range`` holds for each dimension (low, high), high None for no limit, and shape lies in it."""
    if shape_range is None:
        return
    if len(shape_range) != len(shape):
        raise fail("E80012", "", f"range of {param_name} has {len(shape_range)} entries; accepted: {len(shape)}")
    for dim, (low, high) in zip(shape, shape_range, strict=True):
        if dim >= 0 and (dim < low or high is not None and dim > high):
            raise fail("E80002", "", f"shape of {param_name} is {list(shape)}; accepted: {list(shape_range)}")


# Older names (topi.cce.util): same checks without a parameter name.


def check_dtype_rule(dtype: Any, check_list: Iterable[str], param_name: str = "") -> None:
    """:func:`check_dtype`."""
    check_dtype(dtype, check_list, param_name)


def check_shape_rule(
    shape: Any, min_dim: int | None = None, max_dim: int | None = None, max_shape_num: int | None = None
) -> None:
    """Rank within min_dim..max_dim (1..8) and every dimension within 1..max_shape_num."""
    check_shape(
        shape,
        min_dim=1,
        max_dim=max_shape_num or DIM_LIMIT,
        min_rank=1 if min_dim is None else min_dim,
        max_rank=RANK_LIMIT if max_dim is None else max_dim,
        max_size=2**63,
    )


def check_tensor_shape_size(shape: Sequence[int]) -> int:
    """The number of elements, at most 2**31 - 1."""
    return check_shape_size(shape, SHAPE_SIZE_LIMIT)


def check_shape_size(shape: Sequence[int], limit: int = SHAPE_SIZE_LIMIT) -> int:
    """The number of elements, at most ``limit``."""
    check_shape(shape, max_size=limit)
    return math.prod(shape)


def is_scalar(shape: Sequence[int]) -> bool:
    """Whether a shape is that of one element in one dimension, (1,)."""
    return len(shape) == 1 and shape[0] == 1


def check_reduce_shape_rule(shape: Sequence[int]) -> None:
    """A shape that a reduction takes: :func:`check_shape_rule`."""
    check_shape_rule(shape)


def check_elewise_shape_range(inputs: Sequence[dict], support_broadcast: bool = False) -> None:
    """Shapes of the inputs are equal, or broadcast when ``support_broadcast``; unknown dimensions pass."""
    for first, second in zip(inputs, inputs[1:], strict=False):
        a, b = list(first["shape"]), list(second["shape"])
        if support_broadcast:
            width = max(len(a), len(b))
            a, b = [1] * (width - len(a)) + a, [1] * (width - len(b)) + b
        good = len(a) == len(b) and all(
            x == y or -1 in (x, y) or support_broadcast and 1 in (x, y) for x, y in zip(a, b, strict=False)
        )
        if not good:
            raise fail("E80013", "", f"shapes are {first['shape']} and {second['shape']}; accepted: shapes that agree")
