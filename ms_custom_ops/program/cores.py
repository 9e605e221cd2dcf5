# SPDX-License-Identifier: Apache-2.0
"""Which core of a split chip runs an instruction; docs/program.md has the rule."""

from __future__ import annotations

from ms_custom_ops.program import ir
from ms_custom_ops.program.isa import ISA

CUBE, VECTOR = "cube", "vector"
_CUBE_SCOPES = frozenset((ir.L1, ir.L0A, ir.L0B, ir.L0C, ir.BT))
_PIPE = {"M": CUBE, "MTE1": CUBE, "FIX": CUBE}


def core_of(program: ir.Program, s: ir.Instr) -> str:
    """``cube`` or ``vector`` on a chip of split cores; empty on a fused one, and for what both cores do."""
    if not program.split_cores:
        return ""
    scopes = {t.buffer.scope for t in s.tensors}
    if scopes & _CUBE_SCOPES:
        return CUBE
    if ir.UB in scopes:
        return VECTOR
    row = ISA.get(s.op)
    return _PIPE.get(row.pipe, "") if row is not None and isinstance(row.pipe, str) else ""
