# SPDX-License-Identifier: Apache-2.0
"""The flags of an export, put back into the Program: a checked run of it says whether one is missing."""

from __future__ import annotations

import dataclasses

from ms_custom_ops.exporter.accesses import MODES, TILED, pipe_of
from ms_custom_ops.exporter.cores import Flag, parts_of
from ms_custom_ops.program import ir
from ms_custom_ops.program.expr import binary, var
from ms_custom_ops.program.isa import PIPES
from ms_custom_ops.soc import get_soc


def flagged(program: ir.Program) -> ir.Program | None:
    """``program`` with the flags that its export has as flags of its own, in a disable_sync region; None where it has
    parts for two kinds of cores, regions of its own, or products that load their tiles themselves.

    ``engine.run`` with ``set_check(True)`` refuses it where an access is not ordered against one of another pipe.
    Within a pipe the compiler of Ascend C orders accesses; barriers stand for it here on chips that need them.
    """
    bodies = parts_of(program).bodies
    if len(bodies) != 1 or any(map(_keeps_flags, ir.walk(program.body))):
        return None
    loops = {s.register: s for s in ir.walk(program.body) if isinstance(s, ir.For)}
    body = _instructions(next(iter(bodies.values())), program, loops)
    if get_soc(program.soc).barrier_within_pipe:
        body = _with_barriers(body, program)
    body = _region(body)
    return ir.Program.from_bytes(dataclasses.replace(program, body=body).to_bytes())


def _with_barriers(body: list, program: ir.Program) -> list:
    """A barrier of its own pipe before each instruction."""
    found: list = []
    for s in body:
        if isinstance(s, ir.For):
            s = ir.For(s.register, s.begin, s.end, _with_barriers(s.body, program), s.block, s.threads, s.loc)
        elif isinstance(s, ir.If):
            s = ir.If(s.cond, *(_with_barriers(side, program) for side in (s.then, s.orelse)), s.loc)
        elif isinstance(s, ir.Instr) and s.op not in MODES:
            found.append(ir.Instr("pipe_barrier", (), (), (PIPES[f"PIPE_{pipe_of(program, s)}"],), s.loc))
        found.append(s)
    return found


def _keeps_flags(s: ir.Statement) -> bool:
    """Whether there are flags inside a statement that are not those of the export."""
    return isinstance(s, ir.NoSync) or (isinstance(s, ir.Instr) and s.op in TILED)


def _instructions(body: list, program: ir.Program, loops: dict[int, ir.For]) -> list:
    found: list = []
    for s in body:
        if isinstance(s, Flag):
            found.append(_instruction(s, program, loops))
        elif isinstance(s, ir.For):
            inner = _instructions(s.body, program, loops)
            found.append(ir.For(s.register, s.begin, s.end, inner, s.block, s.threads, s.loc))
        elif isinstance(s, ir.If):
            sides = [_instructions(side, program, loops) for side in (s.then, s.orelse)]
            found.append(ir.If(s.cond, sides[0], sides[1], s.loc))
        else:
            found.append(s)
    return found


def _instruction(s: Flag, program: ir.Program, loops: dict[int, ir.For]) -> ir.Instr:
    event: object = s.number
    if s.turn is not None:
        loop = loops[s.turn]
        turn = binary("-", var(s.turn, program.registers[s.turn].dtype), loop.begin)
        event = binary("+", binary("%", turn, loop.threads), s.number)
    pipes = tuple(PIPES[f"PIPE_{actor[1]}"] for actor in (s.wait.before, s.wait.after))
    return ir.Instr("set_flag" if s.sets else "wait_flag", (), (event,), pipes, s.loc)


def _region(body: list) -> list:
    """The statements of the multi-core loop, or all, in a region without automatic synchronisation."""
    for index, s in enumerate(body):
        if isinstance(s, ir.For) and s.block:
            loop = ir.For(s.register, s.begin, s.end, [ir.NoSync(s.body, s.loc)], True, s.threads, s.loc)
            return [*body[:index], loop, *body[index + 1 :]]
    return [ir.NoSync(body, 0)]
