# SPDX-License-Identifier: Apache-2.0
"""Which pipe waits for which: the flags that the accesses of a Program need, and no others.

Every pipe runs its instructions in order and alongside the others. Walking the Program, the last accesses of every pipe
are kept, each with the pipes that are known to come after it. An access that meets an earlier one of another pipe, one
of them a write, needs a flag between the two; a flag also orders what its source had waited for. Loops are walked until
what their last round leaves is known at the start of the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ms_custom_ops.exporter.accesses import Accesses, Actor, Touch
from ms_custom_ops.exporter.pending import Pending
from ms_custom_ops.program import ir
from ms_custom_ops.program.cores import CUBE, VECTOR

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")
_EVENTS = 8


@dataclass(frozen=True)
class Wait:
    """``after`` does not go on before ``before`` has done what was asked of it. Between cores every pipe of the
    core of ``after`` waits."""

    before: Actor
    after: Actor

    @property
    def crosses(self) -> bool:
        """Whether it is between two cores."""
        return self.before[0] != self.after[0]


@dataclass(frozen=True)
class Round:
    """A wait of a loop with ``thread_num`` for what an earlier round did to the same copies: before statement number
    ``first`` of its body; what it waits for is done behind number ``last``."""

    wait: Wait
    first: int
    last: int


State = Pending
Range = tuple[str, int, int]


class Order:
    """Waits before each statement of a Program, by ``id`` of the statement."""

    def __init__(self, accesses: Accesses, body: list[ir.Statement]):
        self.accesses = accesses
        self.waits: dict[int, list[Wait]] = {}
        self.rounds: dict[int, list[Round]] = {}  # by id of the loop
        self._entries: dict[int, State] = {}
        self._breaks: list[list[State]] = []
        self._continues: list[list[State]] = []
        self._walk(body, Pending())

    def _walk(self, body: Iterable[ir.Statement], state: State | None) -> State | None:
        """State behind a list of statements; None where its end is not reached."""
        for s in body:
            if state is None:
                return None
            if isinstance(s, ir.For):
                state = self._loop(s, state)
            elif isinstance(s, ir.If):
                state = _merged(self._walk(s.then, state.copy()), self._walk(s.orelse, state.copy()))
            elif isinstance(s, ir.NoSync):
                state = self._own_flags(s, state)
            elif isinstance(s, ir.Jump):
                self._jump(s, state)
                state = None
            elif isinstance(s, ir.Instr) and s.op in ("block_barrier", "pipe_barrier"):
                state = Pending()
            else:
                self._statement(s, state)
        return state

    def _loop(self, s: ir.For, state: State) -> State | None:
        if s.block:  # every core walks it once
            self._breaks.append([])
            self._continues.append([])
            done = self._walk(s.body, state)
            for other in (*self._breaks.pop(), *self._continues.pop()):
                done = _merged(done, other)
            return done
        entry = _merged(state, self._entries.get(id(s)))
        assert entry is not None
        doubled = _doubled(s)
        if doubled:
            self._free_before(s, entry, doubled)
        while True:
            self._breaks.append([])
            self._continues.append([])
            end = self._walk(s.body, entry.copy())
            breaks, turns = self._breaks.pop(), self._continues.pop()
            for other in turns:
                end = _merged(end, other)
            again = _merged(entry, None if end is None else _without(end, doubled))
            if again == entry:
                break
            assert again is not None
            entry = again
        self._entries[id(s)] = entry
        if doubled and end is not None:
            return self._rounds(s, entry, end, doubled)
        behind: State | None = entry
        for other in breaks:
            behind = _merged(behind, other)
        return behind

    def _free_before(self, s: ir.For, state: State, doubled: list[Range]) -> None:
        """Copies are free before the loop: what lay in their place was waited for."""
        waits: list[Wait] = []
        for x in ir.walk(s.body):
            for touch in self.accesses.of(x):
                if any(touch.memory == m and touch.low < high and low < touch.high for m, low, high in doubled):
                    for before in sorted(state.needed(touch)):
                        waits.append(Wait(before, touch.actor))
                        _apply(waits[-1], state)
        self.waits[id(s)] = waits

    def _rounds(self, s: ir.For, entry: State, end: State, doubled: list[Range]) -> State:
        """Waits for the round before the last one, which had the same copies: flags with a number for each copy."""
        plain = {id(x): list(self.waits.get(id(x), ())) for x in ir.walk(s.body)}
        again = entry.merged(end.within(doubled))
        self._walk(s.body, again)
        found: dict[Wait, tuple[int, int]] = {}
        for index, statement in enumerate(s.body):
            for x in ir.walk([statement]):
                for wait in self.waits.get(id(x), ()):
                    if wait not in plain.get(id(x), ()):
                        found.setdefault(wait, (index, self._last(s.body, wait.before, doubled)))
        for key, waits in plain.items():
            self.waits[key] = waits
        self.rounds[id(s)] = [Round(wait, first, last) for wait, (first, last) in found.items()]
        behind = entry.merged(end)
        for wait in found:
            _apply(wait, behind)
        return behind

    def _last(self, body: list, actor: Actor, doubled: list[Range]) -> int:
        """Index of the last statement in which a pipe touches a copy."""
        return max(
            k for k, s in enumerate(body)
            if any(t.actor == actor and t.memory == memory and t.low < high and low < t.high
                   for x in ir.walk([s]) for t in self.accesses.of(x) for memory, low, high in doubled)
        )  # fmt: skip

    def _jump(self, s: ir.Jump, state: State) -> None:
        if s.kind == "break" and self._breaks:
            self._breaks[-1].append(state)
        elif s.kind == "continue" and self._continues:
            self._continues[-1].append(state)

    def _own_flags(self, s: ir.NoSync, state: State) -> State:
        """A region with flags of its own begins and ends with every pipe at rest."""
        del s, state
        return Pending()

    def _statement(self, s: ir.Statement, state: State) -> None:
        touches = self.accesses.of(s)
        if not touches:
            return
        waits: list[Wait] = []
        while True:
            needed = {Wait(before, t.actor) for t in touches for before in state.needed(t)}
            if not needed:
                break
            waits.append(self._best(needed, touches, state))
            _apply(waits[-1], state)
        if waits:
            self.waits[id(s)] = waits
        else:
            self.waits.pop(id(s), None)
        for touch in touches:
            state.add(touch)

    @staticmethod
    def _best(needed: set[Wait], touches: tuple[Touch, ...], state: State) -> Wait:
        """The wait after which fewest others are left: its source may have waited for theirs."""
        order = sorted(needed, key=lambda w: (w.before, w.after), reverse=True)
        if len(order) == 1:
            return order[0]
        left = {}
        for wait in order:
            tried = state.copy()
            _apply(wait, tried)
            left[wait] = sum(len(tried.needed(t)) for t in touches)
        return min(order, key=left.__getitem__)


def _doubled(s: ir.For) -> list[Range]:
    """Places of the tensors of a loop's body that exist once for each thread; none where a jump may leave the body."""
    if s.threads == 1 or any(isinstance(x, ir.Jump) for x in ir.walk(s.body)):
        return []
    tensors = [x.buffer for x in s.body if isinstance(x, ir.Alloc) and len(x.buffer.addresses) == s.threads]
    return [(b.scope, min(b.addresses), max(b.addresses) + b.size_bytes) for b in tensors]


def _without(state: State, ranges: list[Range]) -> State:
    found = state.copy()
    for memory, low, high in ranges:
        found.forget(memory, low, high)
    return found


def _apply(wait: Wait, state: State) -> None:
    after = frozenset((wait.after[0], p) for p in PIPES) if wait.crosses else frozenset((wait.after,))
    state.order(wait.before, after)


def _merged(a: State | None, b: State | None) -> State | None:
    """What is known where two ways meet."""
    if a is None or b is None:
        return b if a is None else a
    return a.merged(b)


class Numbers:
    """Numbers of events and flags."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, str, str], int] = {}
        self._crossing: dict[Actor, int] = {}
        self._high: dict[tuple[str, str, str], int] = {}  # events from here on belong to loops with copies

    def event(self, wait: Wait) -> int:
        """Of an event between two pipes of a core: the eight in turn."""
        key = (wait.before[0], wait.before[1], wait.after[1])
        number = self._next.get(key, 0)
        self._next[key] = number + 1
        return number % max(1, self._high.get(key, _EVENTS))

    def copies(self, wait: Wait, count: int) -> int:
        """First of ``count`` numbers that no other event of the pair of pipes has."""
        key = (wait.before[0], wait.before[1], wait.after[1])
        self._high[key] = self._high.get(key, _EVENTS) - count
        return self._high[key]

    def flag(self, wait: Wait) -> int:
        """Of the flag that a pipe sets for the other core: always the same, so that sets and waits meet in order."""
        return self._crossing.setdefault(wait.before, len(self._crossing))


def other(core: str) -> str:
    """The other core of a block."""
    return CUBE if core == VECTOR else VECTOR
