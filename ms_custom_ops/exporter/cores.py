# SPDX-License-Identifier: Apache-2.0
"""The statements of each core: on chips of split cores, a cube part and a vector part that meet at flags.

Both parts walk the same loops and branches, so that a flag that one sets is waited for as often by the other. What
neither moves data nor decides about it is left out of a part. A number that lies in UB and that the cube part needs
goes through GM: the vector part writes its block of 32 bytes there, the cube part reads it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ms_custom_ops.exporter.accesses import MODES, Accesses, home_of
from ms_custom_ops.exporter.order import Numbers, Order, Round, Wait
from ms_custom_ops.program import ir
from ms_custom_ops.program.cores import CUBE, VECTOR
from ms_custom_ops.program.dtypes import SIZE
from ms_custom_ops.program.expr import Expr, binary, const
from ms_custom_ops.program.names import BLOCK_BYTES

MAILBOX = "mailbox"


@dataclass(eq=False)
class Flag:
    """One end of a wait: the pipe that sets, or who waits."""

    wait: Wait
    number: int
    sets: bool
    loc: int
    turn: int | None = None  # register of the loop whose copies it is about: the number is that of the first copy

    @property
    def core(self) -> str:
        """The core on which it stands."""
        return (self.wait.before if self.sets else self.wait.after)[0]


@dataclass
class Parts:
    """``bodies``: statements by core ("" on fused cores). ``mailbox``: its tensor in GM, one for each block."""

    bodies: dict[str, list]
    mailbox: ir.Buffer | None
    waits: list[Wait]


def parts_of(program: ir.Program, statements: list | None = None) -> Parts:
    """The parts of a Program, of ``statements`` in place of its own where there are some. Those of a core that has no
    instruction of its own are left out."""
    whole = program.body if statements is None else statements
    posted: dict[int, int] = {}  # loads whose number the cube part needs -> place in the mailbox
    while True:
        cores: dict[int, str] = {}
        mailbox = _mailbox(program, len(posted)) if posted else None
        body = _with_mailbox(whole, posted, mailbox, cores)
        accesses = Accesses(program, cores)
        order = Order(accesses, body)
        flagged = _with_flags(body, order, Numbers(), cores)
        if not program.split_cores:
            return Parts({"": flagged}, None, _waits(order))
        bodies = {core: _Part(accesses, core).of(flagged) for core in (CUBE, VECTOR)}
        bodies = {core: part for core, part in bodies.items() if _has_work(part)}
        missing = [s for s in _loads(bodies.get(CUBE, [])) if home_of(program, s.ref.buffer) == VECTOR]
        if not missing:
            if len(bodies) < 2:
                bodies = {core: _unflagged(part) for core, part in bodies.items()}
            return Parts(bodies, mailbox if len(bodies) == 2 else None, _waits(order))
        for s in missing:
            posted[id(s)] = len(posted)


def _waits(order: Order) -> list[Wait]:
    return [w for waits in order.waits.values() for w in waits]


def _loads(body: list) -> Iterator[ir.Load]:
    return (s for s in ir.walk(body) if isinstance(s, ir.Load))


def _has_work(body: list) -> bool:
    return any(isinstance(s, ir.Store) or (isinstance(s, ir.Instr) and s.op not in MODES) for s in ir.walk(body))


def _unflagged(body: list) -> list:
    """Without ends of waits between cores: there is one kind of core."""
    return [_copied(s, _unflagged) for s in body if not (isinstance(s, Flag) and s.wait.crosses)]


def _copied(s: ir.Statement, change: object) -> ir.Statement:
    """A statement whose bodies are changed."""
    if isinstance(s, ir.For):
        return ir.For(s.register, s.begin, s.end, change(s.body), s.block, s.threads, s.loc)  # type: ignore[operator]
    if isinstance(s, ir.If):
        return ir.If(s.cond, change(s.then), change(s.orelse), s.loc)  # type: ignore[operator]
    if isinstance(s, ir.NoSync):
        return ir.NoSync(change(s.body), s.loc)  # type: ignore[operator]
    return s


def _mailbox(program: ir.Program, places: int) -> ir.Buffer:
    size = places * BLOCK_BYTES
    return ir.Buffer(len(program.buffers), MAILBOX, ir.GM, "int32", (size // SIZE["int32"],), size, kind="workspace")


def _with_mailbox(body: list, posted: dict[int, int], mailbox: ir.Buffer | None, cores: dict[int, str]) -> list:
    if mailbox is None:
        return body
    found: list = []
    for s in body:
        place = posted.get(id(s))
        if place is None:
            found.append(_copied(s, partial(_with_mailbox, posted=posted, mailbox=mailbox, cores=cores)))
            continue
        assert isinstance(s, ir.Load)
        size = SIZE[s.ref.dtype]
        lanes, at = BLOCK_BYTES // size, s.ref.offset
        start, rest = _split(at, lanes)
        posting = ir.Instr("data_move", (ir.Ref(mailbox, s.ref.dtype, place * lanes),
                                         ir.Ref(s.ref.buffer, s.ref.dtype, start)),
                           (1, BLOCK_BYTES, 0, 0), (), s.loc)  # fmt: skip
        taken = ir.Load(s.register, ir.Ref(mailbox, s.ref.dtype, binary("+", rest, place * lanes)), s.loc)
        cores |= {id(s): VECTOR, id(posting): VECTOR, id(taken): CUBE}
        found += [s, posting, taken]
        _kept.append((posting, taken))
    return found


_kept: list = []  # statements are told apart by id: those of a mailbox stay alive


def _split(at: int | Expr, lanes: int) -> tuple[int | Expr, Expr]:
    """Start of the block of 32 bytes that an element lies in, and its place there."""
    if isinstance(at, int):
        return at // lanes * lanes, const(at % lanes)
    rest = binary("%", at, lanes)
    return binary("-", at, rest), rest


def _with_flags(body: list, order: Order, numbers: Numbers, cores: dict[int, str]) -> list:
    found: list = []
    for s in body:
        for wait in order.waits.get(id(s), ()):
            number = numbers.flag(wait) if wait.crosses else numbers.event(wait)
            found += [Flag(wait, number, True, s.loc), Flag(wait, number, False, s.loc)]
        rounds = order.rounds.get(id(s), ()) if isinstance(s, ir.For) else ()
        if rounds:
            found += _loop_of_copies(s, rounds, order, numbers, cores)
            continue
        found.append(_copied(s, partial(_with_flags, order=order, numbers=numbers, cores=cores)))
    return found


def _loop_of_copies(s: ir.For, rounds: Sequence[Round], order: Order, numbers: Numbers, cores: dict[int, str]) -> list:
    """A loop whose rounds have copies of tensors: every copy is free at first, and is waited for behind the loop."""
    ends = [(r, numbers.copies(r.wait, s.threads)) for r in rounds]
    body: list = []
    for index, statement in enumerate(s.body):
        body += [Flag(r.wait, n, False, s.loc, s.register) for r, n in ends if r.first == index]
        body += _with_flags([statement], order, numbers, cores)
        body += [Flag(r.wait, n, True, s.loc, s.register) for r, n in ends if r.last == index]
    loop = ir.For(s.register, s.begin, s.end, body, s.block, s.threads, s.loc)
    sides = [[Flag(r.wait, n + k, sets, s.loc) for r, n in ends for k in range(s.threads)] for sets in (True, False)]
    return [*sides[0], loop, *sides[1]]


class _Part:
    """Picks the statements of one core."""

    def __init__(self, accesses: Accesses, core: str):
        self.accesses, self.core = accesses, core
        self.registers: set[int] = set()

    def of(self, body: list) -> list:
        """The statements, with those that their registers come from."""
        while True:
            known = len(self.registers)
            found = self._pick(body)
            for s in ir.walk(found):
                self.registers |= registers_of(s)
            if len(self.registers) == known:
                return found

    def _pick(self, body: list) -> list:
        found: list = []
        for s in body:
            if isinstance(s, ir.For):
                inner = self._pick(s.body)
                if _works(inner):
                    found.append(ir.For(s.register, s.begin, s.end, inner, s.block, s.threads, s.loc))
            elif isinstance(s, ir.If):
                then, orelse = self._pick(s.then), self._pick(s.orelse)
                if then or orelse:
                    found.append(ir.If(s.cond, then, orelse, s.loc))
            elif isinstance(s, ir.NoSync):
                inner = self._pick(s.body)
                if inner:
                    found.append(ir.NoSync(inner, s.loc))
            elif self._wanted(s):
                found.append(s)
        return _without_idle_modes(found)

    def _wanted(self, s: ir.Statement) -> bool:
        if isinstance(s, Flag):
            return s.core == self.core
        if isinstance(s, ir.Jump):
            return True
        core = self.accesses.core(s)
        if isinstance(s, ir.Assign | ir.Load):
            return core in ("", self.core) and s.register in self.registers or (
                isinstance(s, ir.Load) and s.register in self.registers and core == VECTOR and
                id(s) not in self.accesses.cores)  # fmt: skip
        return core in ("", self.core)


def _works(body: list) -> bool:
    return any(not isinstance(s, ir.Jump | ir.If | ir.For) or (isinstance(s, ir.For) and _works(s.body))
               or (isinstance(s, ir.If) and (_works(s.then) or _works(s.orelse))) for s in body)  # fmt: skip


def _without_idle_modes(body: list) -> list:
    """set_atomic_add that the next one takes back before anything is moved."""
    found: list = []
    for s in body:
        last = found[-1] if found else None
        if _is_mode(s) and _is_mode(last):
            found.pop()
            if s.attrs[0] == 0:
                continue
        found.append(s)
    return found


def _is_mode(s: object) -> bool:
    return isinstance(s, ir.Instr) and s.op == "set_atomic_add"


def registers_of(s: ir.Statement) -> set[int]:
    """Registers that a statement reads, not those of the statements inside it."""
    return set(reads_of(s))


def reads_of(s: ir.Statement) -> list[int]:
    """The same, each as often as it is read."""
    values: list = []
    if isinstance(s, ir.Instr):
        values = [*s.args, *(t.offset for t in s.tensors)]
    elif isinstance(s, ir.For):
        values = [s.begin, s.end]
    elif isinstance(s, ir.If):
        values = [s.cond]
    elif isinstance(s, ir.Assign):
        values = [s.value]
    elif isinstance(s, ir.Load):
        values = [s.ref.offset]
    elif isinstance(s, ir.Store):
        values = [s.ref.offset, s.value]
    found: list[int] = []
    while values:
        e = values.pop()
        if isinstance(e, Expr):
            if e.op == "var":
                found.append(e.value)
            values += [x for x in (e.a, e.b) if x is not None]
    return found
