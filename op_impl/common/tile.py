# SPDX-License-Identifier: Apache-2.0
"""A place inside an on-chip tensor, and the allocation of a plan's buffers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from ms_custom_ops import tik
from ms_custom_ops.errors import SignatureError, describe
from ms_custom_ops.mistakes import author_location

SCOPE_OF = {"ub": tik.scope_ubuf, "l1": tik.scope_cbuf, "l0a": tik.scope_ca, "l0b": tik.scope_cb, "l0c": tik.scope_cc}


@dataclass(frozen=True)
class Tile:
    """Elements of a flat tensor from ``offset`` on. ``tile[i]`` is the address ``i`` elements further."""

    tensor: Any
    offset: Any = 0

    def __getitem__(self, elements: Any) -> Any:
        return self.tensor[self.offset + elements]

    def shift(self, elements: Any) -> Tile:
        """The tile that starts ``elements`` further."""
        return Tile(self.tensor, self.offset + elements)

    @property
    def dtype(self) -> str:
        """dtype of the tensor."""
        return self.tensor.dtype


class Buffers:
    """Allocates the buffers that a plan lists, by name and phase, so that budget and kernel cannot differ."""

    def __init__(self, tik_instance: Any, plan: Any):
        self._tik = tik_instance
        self._plan = plan
        self._live: dict[str, Tile] = {}

    def __getitem__(self, name: str) -> Tile:
        """The buffer; SignatureError for one that the plan does not list, or whose phase is not entered."""
        found = self._live.get(name)
        return found if found is not None else self._absent(name)

    def _absent(self, name: str) -> NoReturn:
        phase = {b.name: b.phase for b in self._plan.buffers}.get(name)
        if phase is not None:
            where = f"with self.buffers.phase({phase!r}): around it" if phase else "its use in task, prepare or finish"
            accepted = f"a buffer that is alive; write: {where}"
        else:
            accepted = f"one of the plan: {', '.join(b.name for b in self._plan.buffers)}; write: BufferSpec({name!r}, "
            accepted += "scope, dtype, elements) into the plan's buffers"
        raise SignatureError(describe("kernel", "buffer", repr(name), accepted), author_location())

    def _allocate(self, phase: str) -> list[str]:
        names = []
        for b in self._plan.buffers:
            if b.phase == phase:
                tensor = self._tik.Tensor(b.dtype, (b.elements,), SCOPE_OF[b.scope], b.name)
                self._live[b.name] = Tile(tensor)
                names.append(b.name)
        return names

    def resident(self) -> None:
        """Allocate the buffers that live as long as the block."""
        self._allocate("")

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Buffers of phase ``name`` for the body of a ``with`` statement; "outer.inner" is entered inside "outer"."""
        with self._tik.new_stmt_scope():
            names = self._allocate(name)
            yield
            for n in names:
                del self._live[n]
