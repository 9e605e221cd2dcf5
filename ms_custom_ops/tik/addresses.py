# SPDX-License-Identifier: Apache-2.0
"""TensorAddrList: lists of GM addresses. Addresses are numbers here; a tensor cannot be placed at one."""

from __future__ import annotations

from typing import Any

from ms_custom_ops.program.expr import Expr
from ms_custom_ops.tik.tensor import Tensor

ADDRESS_DTYPE = "uint64"


class AddressValue(Expr):
    """An address as a number; ``address_of`` is the list it comes from."""

    __slots__ = ("address_of",)

    def __init__(self, element: Tensor):
        register = element.__tik_expr__()
        super().__init__("var", register.dtype, value=register.value)
        self.address_of = element.name


class TensorAddress:
    """One address of a list."""

    def __init__(self, element: Tensor):
        self._element = element

    @property
    def value(self) -> Any:
        """The address as a uint64 Scalar."""
        return AddressValue(self._element)

    def set_as(self, value: Any, dst_offset: Any = 0, src_offset: Any = None) -> None:
        """Write the address: a number, Scalar, or another address."""
        source = value._element if isinstance(value, TensorAddress) else value
        self._element.set_as(source, dst_offset, src_offset)


class TensorAddrList(Tensor):
    """``size`` addresses in GM or UB: moved like a uint64 tensor, read with ``addresses[i].value``."""

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


__all__ = ["AddressMixin", "TensorAddrList", "TensorAddress"]
