# SPDX-License-Identifier: Apache-2.0
"""What a statement touches, and which pipe of which core does it."""

from __future__ import annotations

from dataclasses import dataclass

from ms_custom_ops.program import ir
from ms_custom_ops.program.access import access, hull
from ms_custom_ops.program.cores import CUBE, VECTOR, core_of
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.isa import ISA, PIPES, UnknownRouteError

SCALAR = "S"
MODES = frozenset(("set_flag", "wait_flag", "pipe_barrier", "block_barrier", "set_mode", "set_atomic_add"))
"""Instructions that move nothing."""
TILED = frozenset(("matmul", "conv2d"))
"""Products that load the tiles of their operands themselves: L1 is read by the pipe that fills L0A and L0B."""
_CORES = {"PIPE_V": VECTOR, "PIPE_MTE3": VECTOR, "PIPE_M": CUBE, "PIPE_MTE1": CUBE, "PIPE_FIX": CUBE}
_PIPES = {number: name for name, number in PIPES.items()}

Actor = tuple[str, str]
"""A core ("" on fused ones) and a pipe of it: what runs in the order of the source."""


@dataclass(frozen=True)
class Touch:
    """Bytes [low, high) of a memory: an on-chip one, or (GM) a tensor."""

    actor: Actor
    memory: str | int
    low: int
    high: int
    writes: bool


def pipe_of(program: ir.Program, s: ir.Instr) -> str:
    """The pipe that runs an instruction."""
    row = ISA[s.op]
    scopes = [t.buffer.scope for t in s.tensors]
    if ir.SMASK in scopes and not isinstance(row.pipe, str):
        return "V"
    try:
        return row.pipe_on(program.split_cores, scopes)
    except UnknownRouteError:
        return "MTE2"


def home_of(program: ir.Program, buffer: ir.Buffer) -> str:
    """The core whose memory a buffer lies in; "" for GM, and on fused cores."""
    if not program.split_cores or buffer.scope == ir.GM:
        return ""
    return VECTOR if buffer.scope in (ir.UB, ir.SMASK) else CUBE


class Accesses:
    """Touches of the statements of one Program. ``cores``: the core of statements that do not say it themselves."""

    def __init__(self, program: ir.Program, cores: dict[int, str]):
        self.program, self.cores = program, cores
        self._kept: dict[int, tuple[Touch, ...]] = {}

    def core(self, s: ir.Statement) -> str:
        """The core that runs a statement; "" where both, or the only one, do."""
        if id(s) in self.cores:
            return self.cores[id(s)]
        if isinstance(s, ir.Instr):
            return self._flagged(s) if s.op in ("set_flag", "wait_flag") else core_of(self.program, s)
        if isinstance(s, ir.Load | ir.Store):
            home = home_of(self.program, s.ref.buffer)
            return home or (VECTOR if self.program.split_cores and isinstance(s, ir.Store) else "")
        if isinstance(s, ir.Alloc | ir.Free):
            return home_of(self.program, s.buffer)
        return ""

    def _flagged(self, s: ir.Instr) -> str:
        """The core that has both pipes of a flag of the kernel's own."""
        if not self.program.split_cores:
            return ""
        return next((_CORES[_PIPES[n]] for n in s.attrs if _PIPES[n] in _CORES), VECTOR)

    def of(self, s: ir.Statement) -> tuple[Touch, ...]:
        """What a statement touches itself, not the statements inside it."""
        found = self._kept.get(id(s))
        if found is None:
            found = self._kept[id(s)] = tuple(self._find(s))
        return found

    def _find(self, s: ir.Statement) -> list[Touch]:
        if isinstance(s, ir.Load):
            return [self._scalar(s, False)]
        if isinstance(s, ir.Store):
            return [self._scalar(s, True)]
        if not isinstance(s, ir.Instr) or s.op in MODES:
            return []
        actor = (self.core(s), pipe_of(self.program, s))
        row, found = ISA[s.op], []
        for k, ref in enumerate(s.tensors):
            low, high = self._range(s, k, ref)
            if high <= low:
                continue
            memory = ref.buffer.index if ref.buffer.scope == ir.GM else ref.buffer.scope
            who = (actor[0], "MTE1") if s.op in TILED and ref.buffer.scope == ir.L1 else actor
            if row.reads(k, s.attrs):
                found.append(Touch(who, memory, low, high, False))
            if row.writes(k):
                found.append(Touch(who, memory, low, high, True))
        return found

    def _scalar(self, s: ir.Load | ir.Store, writes: bool) -> Touch:
        buffer, offset = s.ref.buffer, _constant(s.ref.offset)
        width = SIZE[s.ref.dtype] if writes else SIZE[self.program.registers[s.register].dtype]  # type: ignore[union-attr]
        base, more = _places(buffer)
        low, high = base, base + _bytes(buffer)
        if offset is not None:
            low = base + offset * SIZE[s.ref.dtype]
            high = low + width
        high += more
        return Touch((self.core(s), SCALAR), buffer.index if buffer.scope == ir.GM else buffer.scope, low, high, writes)

    def _range(self, s: ir.Instr, k: int, ref: ir.Ref) -> tuple[int, int]:
        """Bytes of an operand: exact where everything is known, else from its start to the end of its tensor."""
        row, buffer = ISA[s.op], ref.buffer
        base, more = _places(buffer)
        offset = _constant(ref.offset)
        args = [0 if spec.is_value else _constant(a) for spec, a in zip(row.arguments, s.args, strict=True)]
        start = 0 if offset is None else offset * SIZE[ref.dtype]
        if offset is None or any(a is None for a in args) or buffer.size_bytes < 0:
            return base + start, base + _bytes(buffer) + more
        rooms = [max(0, _bytes(t.buffer) - (_constant(t.offset) or 0) * SIZE[t.dtype]) for t in s.tensors]
        found = access(row, k, [t.dtype for t in s.tensors], [a or 0 for a in args], s.attrs,
                       [t.buffer.scope for t in s.tensors], rooms)  # fmt: skip
        low, high = hull(found.boxes)
        return base + start + low, (base + start + high + more) if high > low else base


def _constant(value: object) -> int | None:
    if isinstance(value, int | float):
        return int(value)
    known = value.eval_value()  # type: ignore[attr-defined]
    return None if known is None else int(known)


def _places(buffer: ir.Buffer) -> tuple[int, int]:
    """Where a tensor begins, and how much further on the last of its copies does."""
    if buffer.scope == ir.GM:
        return 0, 0
    return min(buffer.addresses), max(buffer.addresses) - min(buffer.addresses)


def _bytes(buffer: ir.Buffer) -> int:
    return buffer.size_bytes if buffer.size_bytes >= 0 else 1 << 62
