# SPDX-License-Identifier: Apache-2.0
"""Special registers of a kernel that instructions write: a few bytes beside the compare mask, and start values.

The registers live in a hidden buffer before SMASK, so that both engines reach them as operands.
"""

from __future__ import annotations

from typing import Any

from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import Expr, const, var
from ms_custom_ops.tik.builder import Builder
from ms_custom_ops.tik.scopes import REGISTER_BYTES

SPECIAL_BYTES = 32
# Place of each register in elements of its dtype.
_PLACES = {"count": ("uint32", 0), "merge": ("uint16", 4), "suppression": ("uint16", 8)}
MERGE_LISTS = 4


def special(b: Builder, name: str, offset: int = 0) -> ir.Ref:
    """Operand of the special register ``name`` (plus elements)."""
    if b.special is None:
        size = SPECIAL_BYTES
        b.special = ir.Buffer(
            len(b.program.buffers), "special", ir.SMASK, "uint8", (size,), size, REGISTER_BYTES - size, "local"
        )
        b.program.buffers.append(b.special)
        b.prologue.append(ir.Alloc(b.special, 0))
    dtype, place = _PLACES[name]
    return ir.Ref(b.special, dtype, place + offset)


def read_special(b: Builder, name: str, offset: int = 0) -> Expr:
    """The value of a special register now, in a new temporary."""
    ref = special(b, name, offset)
    register = b.temporary(ref.dtype)
    b.body.append(ir.Load(register.value, ref, b.loc()))
    return register


def mode_register(b: Builder, name: str, dtype: str, start: int | float) -> Expr:
    """A register that holds a mode from the start of every block on."""
    register = b.modes.get(name)
    if register is None:
        register = b.modes[name] = b.register(name, dtype)
        b.prologue.append(ir.Assign(register, const(start, dtype), 0))
    return var(register, dtype)


def set_mode_register(b: Builder, name: str, dtype: str, start: int | float, value: Any) -> None:
    """Record a new value of a mode."""
    register = mode_register(b, name, dtype, start)
    b.body.append(ir.Assign(register.value, value, b.loc()))
