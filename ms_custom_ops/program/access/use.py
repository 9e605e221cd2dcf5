# SPDX-License-Identifier: Apache-2.0
"""One use of an instruction, as the functions of this package see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ms_custom_ops.program.access.box import Box
from ms_custom_ops.program.dtypes import SIZE


@dataclass(frozen=True)
class Access:
    """What one operand is touched on. ``exact`` false: at most these bytes, which of them is known only while the
    instruction runs."""

    boxes: tuple[Box, ...]
    exact: bool = True


class Use:
    """Values of one use by the names of its row."""

    __slots__ = ("row", "sizes", "scopes", "rooms", "_args", "_attrs")

    def __init__(
        self,
        row: Any,
        dtypes: Sequence[str],
        args: Sequence[int | float],
        attrs: Sequence[int],
        scopes: Sequence[str] | None = None,
        rooms: Sequence[int] | None = None,
    ):
        self.row, self.scopes, self.rooms = row, scopes, rooms
        self.sizes = dict(zip(row.tensors, (SIZE[d] for d in dtypes), strict=True))
        self._args = dict(zip(row.args, args, strict=True))
        self._attrs = dict(zip(row.attrs, attrs, strict=True))

    def arg(self, name: str) -> int:
        """An argument that is no value."""
        return int(self._args[name])

    def ints(self, *names: str) -> list[int]:
        """Several arguments."""
        return [int(self._args[n]) for n in names]

    def attr(self, name: str) -> int:
        """An attribute."""
        return self._attrs[name]

    def has(self, name: str) -> bool:
        """Whether the row has an argument of this name."""
        return name in self._args

    def has_attr(self, name: str) -> bool:
        """Whether the row has an attribute of this name."""
        return name in self._attrs

    def scope(self, operand: str) -> str:
        """Scope of an operand, for the moves whose bytes depend on it."""
        if self.scopes is None:
            raise ValueError(f"{self.row.name}: access needs the scopes of its operands; accepted: one per operand")
        return self.scopes[self.row.tensors.index(operand)]

    def anywhere(self, operand: str) -> Access:
        """Any byte from the start of the operand to the end of its tensor."""
        if self.rooms is None:
            raise ValueError(
                f"{self.row.name}: {operand} is touched at places known only while it runs; accepted: rooms, the "
                "bytes from the start of each operand to the end of its tensor"
            )
        room = self.rooms[self.row.tensors.index(operand)]
        return Access((Box(0, room),) if room > 0 else (), False)
