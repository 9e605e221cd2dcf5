# SPDX-License-Identifier: Apache-2.0
"""Where tensors of a part of a Program lie in C++: local tensors, GM, the special register, what is left of L0."""

from __future__ import annotations

from ms_custom_ops.exporter.errors import refuse
from ms_custom_ops.exporter.expressions import CPP
from ms_custom_ops.exporter.scopes import Names
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.names import FRACTAL_BYTES

ROOM = {ir.UB: "ubBuf", ir.L1: "l1Buf", ir.L0A: "l0aBuf", ir.L0B: "l0bBuf", ir.L0C: "l0cBuf"}
"""Name of the TBuf that holds all tensors of a memory."""
_KEPT, _MERGED = 0, 8  # bytes of the special register: what vreduce kept, what vmrgsort took of each list


class Places:
    """Names of tensors. ``globals``: C++ names of tensors in GM by (buffer, dtype), ``ends``: bytes of each memory that
    are used, both filled on the way; ``head``: declarations of the special register."""

    def __init__(self, program: ir.Program, statements: list, names: Names):
        self.program, self.names = program, names
        self.locals: dict[int, str] = {}
        self.globals: dict[tuple[int, str], str] = {}
        self.special: dict[int, str] = {}  # byte of the special register -> variable
        self.head: list[str] = []
        self.ends: dict[str, int] = {}
        for s in ir.walk(statements):
            if isinstance(s, ir.Alloc) and s.buffer.scope in ROOM:
                self._use(s.buffer.scope, max(s.buffer.addresses) + s.buffer.size_bytes)
        self._own = dict(self.ends)
        self._watch_special(statements)

    def _use(self, scope: str, end: int) -> None:
        self.ends[scope] = max(self.ends.get(scope, 0), end)

    def _watch_special(self, statements: list) -> None:
        """Variables of the special register, which the Program reads as memory."""
        read = [s.ref for s in ir.walk(statements) if isinstance(s, ir.Load) and s.ref.buffer.scope == ir.SMASK]
        places = {byte_of(ref) for ref in read}
        if any(isinstance(s, ir.Instr) and s.op == "vreduce" for s in ir.walk(statements)):
            self.special[_KEPT] = self.names.take("kept")
            self.head.append(f"uint64_t {self.special[_KEPT]} = 0;")
        if any(p is not None and p >= _MERGED for p in places):
            for i in range(4):
                self.special[_MERGED + 2 * i] = self.names.take(f"merged{i}")
                self.head.append(f"uint16_t {self.special[_MERGED + 2 * i]} = 0;")

    def kept(self) -> str:
        """The variable that GatherMask writes."""
        return self.special[_KEPT]

    def merged(self) -> list[str]:
        """Those that MrgSort's counts go to; none where nothing reads them."""
        return [name for place, name in self.special.items() if place >= _MERGED]

    def local(self, s: ir.Alloc, copy: str) -> str:
        """The declaration of a local tensor. ``copy``: the variable that says which of its copies a round has, or
        ""."""
        b = s.buffer
        room = ROOM.get(b.scope)
        if room is None:
            raise refuse(self.program, s, "memory", b.scope, ", ".join(ROOM))
        name = self.locals[b.index] = self.names.take(b.name or f"t{b.index}")
        kind, place = CPP[b.dtype], str(b.address)
        if len(b.addresses) > 1 and copy:
            place += f" + {copy} * {b.addresses[1] - b.addresses[0]}"
        return f"LocalTensor<{kind}> {name} = {room}.GetWithOffset<{kind}>({b.size_bytes // SIZE[b.dtype]}, {place});"

    def free_room(self, scope: str) -> int:
        """Bytes of a memory behind the kernel's own tensors."""
        return self.program.scope_bytes.get(scope, 0) - self._first_free(scope)

    def room(self, scope: str, dtype: str, size: int) -> str:
        """A tensor of ``size`` bytes there."""
        at = self._first_free(scope)
        self._use(scope, at + size)
        return f"{ROOM[scope]}.GetWithOffset<{CPP[dtype]}>({size // SIZE[dtype]}, {at})"

    def _first_free(self, scope: str) -> int:
        return -(-self._own.get(scope, 0) // FRACTAL_BYTES) * FRACTAL_BYTES

    def tensor(self, buffer: ir.Buffer, dtype: str) -> str:
        """C++ of a tensor, read as ``dtype``."""
        if buffer.scope == ir.GM:
            return self.globals.get((buffer.index, dtype)) or self._global(buffer, dtype)
        name = self.locals[buffer.index]
        return name if dtype == buffer.dtype else f"{name}.ReinterpretCast<{CPP[dtype]}>()"

    def _global(self, buffer: ir.Buffer, dtype: str) -> str:
        base = buffer.name or f"gm{buffer.index}"
        wanted = f"{base}Gm" if dtype == buffer.dtype else f"{base}Gm_{dtype}"
        name = self.globals[buffer.index, dtype] = self.names.take_top(wanted)
        return name


def byte_of(ref: ir.Ref) -> int | None:
    """Where an element begins, if that is known."""
    known = ref.offset if isinstance(ref.offset, int) else ref.offset.eval_value()
    return None if known is None else int(known) * SIZE[ref.dtype]
