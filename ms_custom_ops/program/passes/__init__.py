# SPDX-License-Identifier: Apache-2.0
"""Passes over a Program, between tracing and bytes: each takes a Program and gives one, and is known by a name.

A pass is a module of this folder with a function ``run`` that is listed in :data:`PASSES`. It leaves the Program it
got as it is, gives that very object back when there is nothing to change, and keeps the ``file:line`` of what it
moves. An ``exact`` pass changes no bit of a result and no error of a run, and is on by default; any other is asked for
by name. A pass is tested by a text before it and a text after it (``parse(before)``, ``run``, ``text()``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ms_custom_ops.errors import EngineError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.passes import dead_scalars
from ms_custom_ops.program.verify import verify


@dataclass(frozen=True)
class Pass:
    """A pass: its function, whether it is exact, and what it does in a line."""

    run: Callable[[ir.Program], ir.Program]
    exact: bool
    doc: str


PASSES: dict[str, Pass] = {
    "verify": Pass(verify, True, "refuse what breaks a rule of structure or a limit"),
    "dead_scalars": Pass(dead_scalars.run, True, "drop assignments of scalars that nothing reads"),
}
DEFAULT = tuple(name for name, entry in PASSES.items() if entry.exact)


def apply(program: ir.Program, names: Sequence[str] = DEFAULT) -> ir.Program:
    """The Program after the passes of ``names``, in their order; what a pass has changed is verified again.

    EngineError for an unknown name, and what :func:`~ms_custom_ops.program.verify.verify` raises.
    """
    for name in names:
        if name not in PASSES:
            raise EngineError(describe("passes", "name", name, ", ".join(PASSES)))
        before, program = program, PASSES[name].run(program)
        if program is not before:
            verify(program)
    return program
