# SPDX-License-Identifier: Apache-2.0
"""Which bytes of a debugged kernel's memories hold something that it wrote or was given."""

from __future__ import annotations

from typing import Any

import numpy as np

from ms_custom_ops.program import ir
from ms_custom_ops.program.access import access, touched
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.isa import ISA


class Written:
    """One flag per byte: of GM for the run, of the on-chip memories for the block that runs."""

    def __init__(self, program: ir.Program):
        self.program = program
        self.gm: dict[int, np.ndarray] = {}
        self.chip: dict[int, dict[str, np.ndarray]] = {}

    def _flags(self, block: Any, buffer: ir.Buffer) -> np.ndarray:
        """Flags of the bytes of a buffer, as a view."""
        if buffer.scope == ir.GM:
            if buffer.index not in self.gm:
                given = buffer.index in self.program.inputs or buffer.atomic_init or buffer.init_value is not None
                self.gm[buffer.index] = np.full(block.gm.bytes[buffer.index].size, given)
            return self.gm[buffer.index]
        scopes = self.chip.setdefault(block.index, {})
        if buffer.scope not in scopes:
            scopes[buffer.scope] = np.zeros(block.memory.arenas[buffer.scope].size, bool)
        return scopes[buffer.scope][buffer.address : buffer.address + block.memory.occupied(buffer)]

    def elements(self, block: Any, buffer: ir.Buffer) -> np.ndarray:
        """Flags of the elements of a buffer: whether every byte of them is written."""
        count = buffer.size_bytes if buffer.size_bytes >= 0 else self._flags(block, buffer).size
        size = SIZE[buffer.dtype]
        return self._flags(block, buffer)[: count // size * size].reshape(-1, size).all(axis=1)

    def mark(self, block: Any, buffer: ir.Buffer, first: int, end: int) -> None:
        """Bytes of a buffer are written."""
        self._flags(block, buffer)[max(first, 0) : end] = True

    def after(self, block: Any, s: Any) -> None:
        """A statement of the block is done."""
        if isinstance(s, ir.Alloc) and s.buffer.scope != ir.GM:
            self._flags(block, s.buffer)[:] = False
        elif isinstance(s, ir.Store):
            start = block.offset(s.ref, s) * SIZE[s.ref.dtype]
            self.mark(block, s.ref.buffer, start, start + SIZE[s.ref.dtype])
        elif isinstance(s, ir.Instr):
            self._instruction(block, s)

    def _instruction(self, block: Any, s: ir.Instr) -> None:
        row = ISA[s.op]
        args = [block.value(a, s) for a in s.args]
        starts = [block.offset(r, s) * SIZE[r.dtype] for r in s.tensors]
        scopes = [r.buffer.scope for r in s.tensors]
        for i, ref in enumerate(s.tensors):
            if not row.writes(i):
                continue
            flags = self._flags(block, ref.buffer)
            rooms = [self._flags(block, r.buffer).size - start for r, start in zip(s.tensors, starts, strict=True)]
            found = access(row, i, [r.dtype for r in s.tensors], args, s.attrs, scopes, rooms)
            places = touched(found.boxes) + starts[i]
            flags[places[(places >= 0) & (places < flags.size)]] = True
