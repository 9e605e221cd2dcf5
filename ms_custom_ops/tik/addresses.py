# SPDX-License-Identifier: Apache-2.0
"""TensorAddrList: lists of GM addresses, moves at an address, and tensors that are placed at one.

An address is a place in device memory (:mod:`ms_custom_ops.tik.memory`).
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.errors import TikError, describe
from ms_custom_ops.program.dtypes import FLOATS
from ms_custom_ops.program.expr import Expr, as_expr, binary
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.checks import as_tensor
from ms_custom_ops.tik.memory import ADDRESS_DTYPE, memory, place
from ms_custom_ops.tik.tensor import Tensor
from ms_custom_ops.where import user_location


class AddressValue(Expr):
    """An address: as a number, its value. ``address + n`` and ``address - n`` is the address n elements further on or
    back, where the dtype is that of the other operand of a move."""

    __slots__ = ("address_of", "base", "elements", "builder")

    def __init__(self, builder: Builder, name: str, base: Expr, elements: Any = 0):
        number = base if elements.__class__ is int and elements == 0 else binary("+", base, elements)
        super().__init__(number.op, number.dtype, number.a, number.b, number.value)
        self.builder, self.address_of, self.base, self.elements = builder, name, base, elements

    def get(self) -> Expr:
        """The number alone, as a Program holds it."""
        return Expr(self.op, self.dtype, self.a, self.b, self.value)

    def _moved(self, op: str, n: Any) -> Any:
        by = as_expr(n)
        if by.dtype in FLOATS:
            what = f"number of elements behind {op}"
            raise TikError(
                describe(f"address of {self.address_of}", what, n, "an integer or a Scalar of one"), user_location()
            )
        return AddressValue(self.builder, self.address_of, self.base, binary(op, self.elements, n))

    def __add__(self, n: Any) -> Any:
        return self._moved("+", n)

    def __radd__(self, n: Any) -> Any:
        return self._moved("+", n)

    def __sub__(self, n: Any) -> Any:
        return self._moved("-", n)

    def tensor(self, dtype: str) -> Tensor:
        """What lies there, as an operand of a move whose other side has this dtype."""
        return Tensor(memory(self.builder), dtype, (1,), (1,), place(self.base, self.elements, dtype), None, True, True)


def sides(dst: Any, src: Any, api: str) -> tuple[Tensor, Tensor]:
    """The operands of a move: tensors, or one of them an address, where elements have the dtype of the other."""
    if isinstance(dst, AddressValue) and isinstance(src, Tensor):
        dst = dst.tensor(src.dtype)
    elif isinstance(src, AddressValue) and isinstance(dst, Tensor):
        src = src.tensor(dst.dtype)
    return as_tensor(dst, api, "dst"), as_tensor(src, api, "src")


class TensorAddress:
    """One address of a list."""

    def __init__(self, element: Tensor):
        self._element = element

    @property
    def value(self) -> Any:
        """The address: a uint64 number, and an operand of data_move."""
        storage = self._element.storage
        return AddressValue(storage.builder, storage.buffer.name, self._element.__tik_expr__())

    def set_as(self, value: Any, dst_offset: Any = 0, src_offset: Any = None) -> None:
        """Write the address: a number, Scalar, or another address."""
        source = value._element if isinstance(value, TensorAddress) else value
        self._element.set_as(source, dst_offset, src_offset)


class TensorAddrList(Tensor):
    """``size`` addresses in GM or UB: moved like a uint64 tensor, read with ``addresses[i].value``. One in GM that
    BuildCCE lists is fed with a list of arrays, also where it is an output: the addresses are there when the kernel
    starts."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        view = super().__getitem__(key)
        return view if isinstance(key, slice) else TensorAddress(view)


class AddressMixin:
    """``Tik`` methods of this module."""

    Tensor: Any

    def TensorAddrList(self, size, scope, name):
        """A list of ``size`` GM addresses (uint64)."""
        t = self.Tensor(ADDRESS_DTYPE, (size,), scope, name)
        return TensorAddrList(t.storage, t._dtype, t._shape, t.strides, t.offset, t.total)


__all__ = ["AddressMixin", "AddressValue", "TensorAddrList", "TensorAddress"]
