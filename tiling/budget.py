# SPDX-License-Identifier: Apache-2.0
"""On-chip memory of a plan: the list of buffers a kernel allocates, and the check of that list against a chip."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ms_custom_ops.errors import BudgetError, SignatureError, describe
from ms_custom_ops.soc.table import CUBE_BLOCK, Soc

SCOPES = ("ub", "l1", "l0a", "l0b", "l0c", "bt")
DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "int32": 4}


def align(value: int, unit: int = CUBE_BLOCK) -> int:
    """``value`` rounded up to a multiple of ``unit``."""
    return -(-value // unit) * unit


@dataclass(frozen=True)
class BufferSpec:
    """One on-chip tensor of ``elements`` elements. ``phase`` "" lives as long as the block; phases of equal depth are
    never alive together, and a phase "outer.inner" lives inside its phase "outer"."""

    name: str
    scope: str
    dtype: str
    elements: int
    phase: str = ""

    def __post_init__(self) -> None:
        for what, value, known in (("scope", self.scope, SCOPES), ("dtype", self.dtype, tuple(DTYPE_BYTES))):
            if value not in known:
                text = describe(f"BufferSpec {self.name}", what, repr(value), ", ".join(known))
                raise SignatureError(text)

    @property
    def size_bytes(self) -> int:
        """Bytes, rounded up to whole 32-byte blocks."""
        return align(self.elements * DTYPE_BYTES[self.dtype], 32)


def peak_bytes(buffers: Iterable[BufferSpec], scope: str) -> int:
    """Most bytes of ``scope`` alive at once: along every path of nested phases, the largest sum."""
    own: dict[str, int] = {"": 0}
    for b in buffers:
        if b.scope == scope:
            own[b.phase] = own.get(b.phase, 0) + b.size_bytes

    def path_bytes(phase: str) -> int:
        parts = phase.split(".") if phase else []
        return own[""] + sum(own.get(".".join(parts[: i + 1]), 0) for i in range(len(parts)))

    return max(path_bytes(phase) for phase in own)


def fits(buffers: tuple[BufferSpec, ...], soc: Soc) -> bool:
    """Every on-chip buffer of the chip can hold the list."""
    return all(peak_bytes(buffers, scope) <= size for scope, size in soc.scope_bytes.items())


def table(buffers: tuple[BufferSpec, ...], soc: Soc) -> str:
    """One line per buffer and one per scope, for errors and ``ms-custom-ops check --budget``."""
    lines = [
        f"  {b.scope:4} {b.phase or 'resident':12} {b.name:16} {b.dtype}[{b.elements}] {b.size_bytes} bytes"
        for b in buffers
    ]
    for scope, size in soc.scope_bytes.items():
        need = peak_bytes(buffers, scope)
        if need:
            lines.append(f"  {scope}: peak {need} of {size} bytes" + (" OVER" if need > size else ""))
    return "\n".join(lines)


def require(buffers: tuple[BufferSpec, ...], soc: Soc, what: str, accepted: str) -> None:
    """BudgetError unless the list fits ``soc``: what is accepted in the first line, the buffer table below."""
    if not fits(buffers, soc):
        raise BudgetError(f"{what} does not fit {soc.name}; accepted: {accepted}\n{table(buffers, soc)}")
