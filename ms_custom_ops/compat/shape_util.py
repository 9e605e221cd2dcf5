# SPDX-License-Identifier: Apache-2.0
"""``tbe.common.utils.shape_util``: arithmetic on shapes and axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ms_custom_ops.compat.op_errors import fail


def shape_to_list(shape: Any) -> list[int]:
    """The dimensions as Python ints."""
    return [int(getattr(dim, "value", dim)) for dim in shape]


def scalar2tensor_one(shape: Any) -> list[int] | tuple[int, ...]:
    """``[1]`` for the shape of a scalar, other shapes as they are."""
    if isinstance(shape, (list, tuple)):
        return shape if len(shape) else [1]
    return [shape]


def axis_check(shape_len: int, axis: Any) -> Any:
    """``axis`` (int or list) with negative values counted from the end, sorted and without repeats."""
    if isinstance(axis, int):
        return wrap_axes_to_positive([axis], shape_len)[0]
    return sorted(set(wrap_axes_to_positive(axis, shape_len)))


def wrap_axes_to_positive(axes: Any, rank: int) -> list[int]:
    """Axes with negative values counted from the end; OpParamError for one outside -rank..rank-1."""
    items = [axes] if isinstance(axes, int) else list(axes)
    for axis in items:
        if not -rank <= axis < rank:
            raise fail("E80002", "", f"axis is {axis}; accepted: {-rank}..{rank - 1}")
    return [axis % rank if rank else axis for axis in items]


def broadcast_shapes(
    shape1: Sequence[int],
    shape2: Sequence[int],
    op_name: str = "",
    param_name_input1: str = "input1",
    param_name_input2: str = "input2",
) -> tuple[list[int], list[int], list[int]]:
    """Both shapes padded with leading ones to one rank, and their broadcast shape."""
    width = max(len(shape1), len(shape2))
    a = [1] * (width - len(shape1)) + list(shape1)
    b = [1] * (width - len(shape2)) + list(shape2)
    result = []
    for x, y in zip(a, b, strict=True):
        if x != y and 1 not in (x, y):
            raise fail(
                "E80013",
                op_name,
                f"shapes of {param_name_input1} and {param_name_input2} are {list(shape1)} and {list(shape2)}; "
                "accepted: shapes that broadcast",
            )
        result.append(y if x == 1 else x)
    return a, b, result


def produce_shapes(shape1: Sequence[int], shape2: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Older name of :func:`broadcast_shapes`."""
    return broadcast_shapes(shape1, shape2)


def refine_shapes_for_broadcast(shape1: Sequence[int], shape2: Sequence[int]) -> tuple[list[int], list[int]]:
    """Both shapes at one rank, with neighbouring dimensions fused where both agree or both broadcast alike."""
    a, b, _ = broadcast_shapes(shape1, shape2)
    out_a: list[int] = []
    out_b: list[int] = []
    last = ""
    for x, y in zip(a, b, strict=True):
        if x == y == 1 and out_a:
            continue
        kind = "same" if x == y else "left" if x == 1 else "right"
        if kind == last:
            out_a[-1], out_b[-1] = out_a[-1] * x, out_b[-1] * y
        else:
            out_a.append(x)
            out_b.append(y)
        last = kind
    return out_a, out_b


def shape_refine(shape: Sequence[int], reduce_axis: Any = None, keep_dims: bool = True) -> Any:
    """The shape without dimensions of 1; with ``reduce_axis`` also the axes as they are then numbered."""
    if reduce_axis is None:
        return [dim for dim in shape if dim != 1] or [1]
    axes = set(wrap_axes_to_positive(reduce_axis, len(shape)))
    kept = [k for k, dim in enumerate(shape) if dim != 1]
    if not kept:
        return [1], [0]
    return [shape[k] for k in kept], [new for new, old in enumerate(kept) if old in axes]


def simplify_axis_shape(shape: Sequence[int], axes: Any) -> tuple[list[int], list[int]]:
    """Shape and reduced axes with neighbours fused that are both reduced or both kept."""
    reduced = set(wrap_axes_to_positive(axes, len(shape)))
    out: list[int] = []
    out_axes: list[int] = []
    last: bool | None = None
    for k, dim in enumerate(shape):
        now = k in reduced
        if now == last:
            out[-1] *= dim
        else:
            if now:
                out_axes.append(len(out))
            out.append(dim)
        last = now
    return out, out_axes


refine_shape_axes = simplify_axis_shape


def compare_tensor_dict_key(dict1: dict[str, Any], dict2: dict[str, Any], key: str) -> None:
    """Both tensors have the same value (case of strings aside) under ``key``; OpParamError otherwise."""
    for which, d in (("first", dict1), ("second", dict2)):
        if not isinstance(d, dict) or key not in d:
            raise fail("E80001", "", f"{key} of the {which} tensor is missing; accepted: a dict with {key}")
    a, b = ([v.lower() if isinstance(v, str) else list(v) for v in (d[key],)][0] for d in (dict1, dict2))
    if a != b:
        raise fail("E80017", "", f"{key} of two tensors is {dict1[key]} and {dict2[key]}; accepted: equal values")
