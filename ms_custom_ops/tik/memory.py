# SPDX-License-Identifier: Apache-2.0
"""Device memory as a buffer of the Program: addresses are places in it.

The buffer ``memory`` is one more input of a Program that reaches data by addresses; the engine's binding lays it out
from the arrays that tables of addresses are fed with (:mod:`ms_custom_ops.engine.addressed`).
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr, as_expr, binary, cast, const
from ms_custom_ops.tik.builder import Builder, Storage

ADDRESS_DTYPE = "uint64"
_NAME = "memory"


def memory(b: Builder) -> Storage:
    """The storage of device memory, made when it is first asked for."""
    if b.memory is None:
        buffer = ir.Buffer(b.next_tensor(_NAME), _NAME, ir.GM, "uint8", (-1,), -1, 0, "input")
        b.program.buffers.append(buffer)
        b.memory = Storage(b, buffer, 0, None)
    return b.memory


def place(base: Expr, elements: Any, dtype: str) -> Expr:
    """Offset in elements of the dtype: of an address (a multiple of the element size), so many elements further on."""
    size = SIZE[dtype]
    first = base if size == 1 else binary("/", base, const(size, ADDRESS_DTYPE))
    if elements.__class__ is int and elements == 0:
        return first
    return binary("+", first, cast(as_expr(elements), ADDRESS_DTYPE))
