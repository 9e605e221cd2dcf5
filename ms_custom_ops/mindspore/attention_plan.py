# SPDX-License-Identifier: Apache-2.0
"""What argument checks of public functions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ms_custom_ops.errors import OpArgumentError, describe
from ms_custom_ops.registry.public import Operand

__all__ = ["Operand", "Shape", "refuse", "round_up", "static_shape"]

Shape = tuple[int, ...]


def refuse(argument: str, given: object, accepted: object, op: str) -> NoReturn:
    """Raises OpArgumentError in the package's order: op, argument, given, accepted."""
    raise OpArgumentError(describe(op, argument, given, accepted))


def static_shape(name: str, shape: Sequence[Any], op: str) -> Shape:
    """``shape`` as a tuple of ints; a dynamic one is refused."""
    if any(size is None or size < 0 for size in shape):
        refuse(name, f"of shape {tuple(shape)}", "a static shape; dynamic shapes are not supported", op)
    return tuple(int(size) for size in shape)


def round_up(value: int, multiple: int) -> int:
    """``value`` rounded up to a multiple."""
    return -(-value // multiple) * multiple
