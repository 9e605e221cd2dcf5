# SPDX-License-Identifier: Apache-2.0
"""What a definition sees: one executed instruction with its operands, argument values and attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ms_custom_ops.engine.reference.memory import Operand
from ms_custom_ops.errors import EngineError
from ms_custom_ops.program.dtypes import DTYPES
from ms_custom_ops.program.isa import ISA
from ms_custom_ops.program.isa.row import SIGNED_KINDS

ON_CHIP = ("ub", "l1", "l0a", "l0b", "l0c", "bt", "smask")


class BlockState:
    """What instructions leave behind for later ones of the same block."""

    def __init__(self, program_saturate: bool = True) -> None:
        self.program_saturate = program_saturate  # atomic adds keep it whatever set_mode says
        self.atomic: str | None = None
        self.saturate: bool | None = None  # of set_mode; None: as the Program says
        self.wrap = False  # vconv into an integer keeps the low bits


class Call:
    """One executed instruction; ``args`` are Python numbers, ``cast`` converts one of them to a dtype."""

    __slots__ = ("op", "operands", "args", "attrs", "saturate", "where", "block", "_cast")

    def __init__(
        self,
        op: str,
        operands: dict[str, Operand],
        args: dict[str, int | float],
        attrs: dict[str, int],
        saturate: bool,
        where: str,
        block: BlockState,
        cast: Callable[[str, str], int | float],
    ):
        self.op, self.operands, self.args, self.attrs = op, operands, args, attrs
        self.saturate, self.where, self.block, self._cast = saturate, where, block, cast
        row = ISA[op]
        for attribute in row.attributes:
            value = attrs[attribute.name]
            self.need(attribute.allows(value), attribute.name, value, attribute.accepted)
        for argument in row.arguments:
            number = args[argument.name]
            if not argument.is_value:
                self.need(isinstance(number, int), f"dtype of {argument.name}", "a float", "an integer")
            self.need(argument.kind in SIGNED_KINDS or number >= 0, argument.name, number, "0 or more")

    def __getitem__(self, name: str) -> Operand:
        return self.operands[name]

    def value(self, name: str, operand: Operand) -> np.ndarray:
        """Argument ``name`` converted to the dtype of ``operand``, as a 0-d array."""
        return np.asarray(self._cast(name, operand.dtype)).astype(operand.numpy)

    def refuse(self, what: str, given: object, accepted: object) -> None:
        """Raise the error of a broken precondition."""
        raise EngineError(f"{self.op}: {what} is {given}; accepted: {accepted} [{self.where}]")

    def need(self, good: bool, what: str, given: object, accepted: object) -> None:
        """Precondition of a definition."""
        if not good:
            self.refuse(what, given, accepted)

    def ranged(self, name: str) -> int:
        """The argument ``name``, which must lie in the range of its row; or an attribute, which does."""
        if name in self.attrs:
            return self.attrs[name]
        value, spec = int(self.args[name]), next(a for a in ISA[self.op].arguments if a.name == name)
        if spec.low is not None and spec.high is not None:
            self.need(spec.low <= value <= spec.high, name, value, spec.accepted)
        return value

    def need_on_chip(self, *operands: Operand) -> None:
        """Precondition: operands that the vector unit can reach."""
        for operand in operands:
            self.need(not operand.is_gm, f"scope of {operand.name}", operand.scope, ", ".join(ON_CHIP))

    def need_dtype(self, operand: Operand, accepted: Any) -> None:
        """Precondition: the dtype of an operand."""
        if operand.dtype not in accepted:
            self.refuse(f"dtype of {operand.name}", operand.dtype, ", ".join(d for d in DTYPES if d in accepted))

    def need_same_dtype(self, *operands: Operand) -> None:
        """Precondition: all operands have the dtype of the first."""
        for other in operands[1:]:
            if other.dtype != operands[0].dtype:
                self.refuse(f"dtype of {other.name}", other.dtype, f"{operands[0].dtype} as {operands[0].name}")


Definition = Callable[[Call], None]
DEFINITIONS: dict[str, Definition] = {}


def instruction(*names: str) -> Callable[[Definition], Definition]:
    """Register a function as the definition of one or more instructions of the ISA."""

    def register(function: Definition) -> Definition:
        for name in names:
            if name not in ISA:
                raise ValueError(f"definition of {name}: not an instruction of the ISA")
            if name in DEFINITIONS:
                raise ValueError(f"definition of {name}: defined twice")
            DEFINITIONS[name] = function
        return function

    return register
