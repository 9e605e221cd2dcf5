# SPDX-License-Identifier: Apache-2.0
"""What a checked run found, and how it is printed."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

ADVICE = {
    "out_of_bounds": "keep offset, repeats, strides and mask inside the tensor, or handle the tail apart",
    "misaligned": "start at a multiple of the alignment, or copy the part to a tensor of its own",
    "capacity": "smaller tiles, fewer live tensors, or scopes that end earlier",
    "uninitialized_read": "write the bytes first (data_move, vec_dup), or leave their lanes out with the mask",
    "uninitialized_scalar": "set the Scalar, or write the element, on every way that leads here",
    "unwritten_output": "the loops or the mask leave these bytes out; write them, or make the output smaller",
    "overlap": "use the same range in place, or a tensor of its own for the result",
    "race_cores": "give every block bytes of its own, put a block_barrier between them, or add with set_atomic_add",
    "race_pipes": "set_flag after the first instruction and wait_flag before the second one, or a pipe_barrier",
    "flag_unpaired": "one wait_flag for every set_flag, with the same pipes and event, on every way",
    "flag_deadlock": "issue the set_flag before the wait_flag that it answers",
    "event_id_range": "use the events the chip has",
    "use_after_scope": "make the tensor in the scope around both",
    "double_buffer_carry": "rounds of a loop with thread_num have a copy each: make the tensor outside the loop",
    "param_range": "bound the value before it reaches the instruction, or split the work",
    "nan_produced": "look at the operands: a logarithm or root of a negative number, inf - inf, 0 / 0",
    "saturated": "scale the operands, or compute in float32",
    "gm_tail": "data_move_pad moves exact bytes; or make the tensor a multiple of 32 bytes",
    "queue_misuse": "one AllocTensor, EnQue, DeQue and FreeTensor for each tensor, of its own queue, in this order",
    "dead_assignment": "s.set_as(...) writes the Scalar; an assignment gives its name to another expression",
}
"""What to do, by kind."""
ADVICE_ASCENDC = {
    "capacity": "smaller tiles, fewer buffers",
    "uninitialized_read": "write the bytes first (DataCopy, Duplicate), or leave their elements out by count or mask",
    "uninitialized_scalar": "write the element on every way that leads here",
    "unwritten_output": "the loops or the mask leave these bytes out; write them, or let the OpDef initialise them",
    "race_cores": "give every core bytes of its own, order them by SyncAll or CrossCoreSetFlag, or add by SetAtomicAdd",
    "race_pipes": "pass the tensor through its queue (EnQue, DeQue, FreeTensor, AllocTensor), or SetFlag after the "
    "first call and WaitFlag before the second one, or PipeBarrier<PIPE_ALL>",
    "flag_unpaired": "one WaitFlag for every SetFlag, with the same event and id, on every way",
    "flag_deadlock": "issue the SetFlag before the WaitFlag that it answers; every core has to come to a barrier",
    "use_after_scope": "FreeTensor comes after the last call that uses the tensor",
    "gm_tail": "DataCopyPad moves exact bytes",
}
"""The same, where a kernel in Ascend C has other means."""


@dataclass(frozen=True)
class Finding:
    """All events of one kind at one place.

    ``file`` and ``line`` are of the statement at fault, ``other_file`` and ``other_line`` (None: there is none) of the
    one it meets: the other access of a race, where a tensor was made or its scope ended. ``tensor`` is a name or None,
    ``start`` and ``end`` bytes of it (0, 0: none in particular), ``core`` the lowest block that did it, ``count`` how
    often. ``core_name`` says what that core is where a kernel has vector and cube cores; ``language`` is "tik" or
    "ascendc".
    """

    kind: str
    text: str
    file: str | None = None
    line: int | None = None
    other_file: str | None = None
    other_line: int | None = None
    tensor: str | None = None
    core: int = 0
    count: int = 1
    start: int = 0
    end: int = 0
    core_name: str | None = None
    language: str = "tik"

    @property
    def advice(self) -> str:
        """What to do about it."""
        return ADVICE_ASCENDC.get(self.kind, ADVICE[self.kind]) if self.language == "ascendc" else ADVICE[self.kind]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        where = f"{self.file}:{self.line}" if self.file else "?"
        yield f"{where}: {self.kind}: {self.text}"
        yield from _source(self.file, self.line)
        if self.other_file:
            yield f"{self.other_file}:{self.other_line}: {_OTHER.get(self.kind, 'the tensor is made here')}"
            yield from _source(self.other_file, self.other_line)
        times = "" if self.count == 1 else f", {self.count} times in all"
        yield f"    {self.core_name or f'core {self.core}'}{times}; {self.advice}"


_OTHER = {
    "race_cores": "the other core does so here",
    "race_pipes": "the other pipe does so here",
    "flag_unpaired": "it was set here",
    "flag_deadlock": "the set_flag stands here",
    "use_after_scope": "its life ended here",
    "uninitialized_scalar": "the bytes come from here",
}


def _source(file: str | None, line: int | None) -> Iterator[str]:
    text = linecache.getline(file, line).rstrip() if file and line else ""
    if text:
        yield f"    {line} | {text.strip()}"


@dataclass
class Report:
    """Findings of a checked run in the order of the kernel's lines, and what the outputs hold after it."""

    name: str
    findings: list[Finding] = field(default_factory=list)
    outputs: list[np.ndarray] = field(default_factory=list)
    dropped: int = 0
    """Events at further places than a report holds."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def of_kind(self, kind: str) -> list[Finding]:
        """The findings of one kind."""
        return [f for f in self.findings if f.kind == kind]

    def __str__(self) -> str:
        parts = [str(f) for f in self.findings]
        if self.dropped:
            parts.append(f"and {self.dropped} events at further places")
        count = len(self.findings)
        parts.append(f"{self.name}: {count or 'no'} finding{'' if count == 1 else 's'}")
        return "\n".join(parts)
