# SPDX-License-Identifier: Apache-2.0
"""``tbe.tvm``: placeholders and the classes kernels test values against; every other name is absent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Tensor:
    """A TVM placeholder: shape, dtype and name. It cannot be computed with here."""

    def __init__(self, shape: Sequence[Any], dtype: str, name: str):
        self.shape = tuple(shape)
        self.dtype = dtype
        self.name = name
        self.op = None

    def __repr__(self) -> str:
        return f"Tensor({self.name}, {self.dtype}, {list(self.shape)})"


def placeholder(shape: Sequence[Any], dtype: str = "float32", name: str = "placeholder", attrs: Any = None) -> Tensor:
    """A tensor of a DSL operator. Kernels that then take their TIK path never compute with it."""
    return Tensor(shape, dtype, name)


def register_func(name: Any, f: Callable | None = None, override: bool = False) -> Any:
    """Decorator that leaves the function as it is: nothing looks registered functions up here."""
    if callable(name):
        return name
    return f if f is not None else lambda function: function


NAMES = {"Tensor": Tensor, "placeholder": placeholder, "register_func": register_func}
