# SPDX-License-Identifier: Apache-2.0
"""Programs as Ascend C projects (docs/export.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ms_custom_ops.errors import ExportError
from ms_custom_ops.exporter.project import Exported, write
from ms_custom_ops.exporter.subjects import op_subject, program_subject
from ms_custom_ops.program import ir
from ms_custom_ops.registry import get_op

__all__ = ["ExportError", "Exported", "export", "op_subject", "program_subject", "write"]


def export(
    program: ir.Program | Mapping[str, ir.Program] | str,
    out: str | os.PathLike,
    *,
    name: str | None = None,
    soc: str | None = None,
    cases: Sequence[str] = (),
) -> Exported:
    """An Ascend C project that computes the same bits, in the folder ``out``, which is new or empty.

    Args:
        program: a Program of :func:`ms_custom_ops.trace`, several of one kernel by the name of their case, or the name
            of an op of the registry, whose smoke cases (or ``cases``) are traced for ``soc``.
        name: of the op in Ascend C; that of the Program without one.

    Raises:
        ExportError: an instruction or a size that cannot go to the chip, with its line and what to do instead.
    """
    if isinstance(program, str):
        from ms_custom_ops.soc import current_soc

        return write(op_subject(get_op(program), soc or current_soc().name, cases), Path(out))
    programs = {"traced": program} if isinstance(program, ir.Program) else dict(program)
    if not programs:
        raise ExportError("export: Programs are none; accepted: at least one")
    first = next(iter(programs.values()))
    return write(program_subject(list(programs.items()), name or first.name, first.name), Path(out))
