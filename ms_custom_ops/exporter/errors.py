# SPDX-License-Identifier: Apache-2.0
"""What a Program says that Ascend C cannot."""

from __future__ import annotations

from ms_custom_ops.errors import ExportError
from ms_custom_ops.program import ir


def refuse(program: ir.Program, statement: ir.Statement, what: str, given: object, accepted: str) -> ExportError:
    """The error of one statement: its line, what it is, what to do instead."""
    name = statement.op if isinstance(statement, ir.Instr) else type(statement).__name__.lower()
    place = program.location(statement.loc)
    return ExportError(f"{program.name}: {name}: {what} is {given}; accepted: {accepted} [{place}]")
