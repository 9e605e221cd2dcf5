# SPDX-License-Identifier: Apache-2.0
"""Rows that touch no data: modes of a block, flags, barriers."""

from __future__ import annotations

from ms_custom_ops.program.access.bursts import nothing
from ms_custom_ops.program.isa.row import row

_PIPE = "pipe[0..7]"

ROWS = (
    row(
        "set_mode",
        "",
        "",
        "which[0..1] value[0..1]",
        "S",
        nothing,
        "from here on in this block. which 0: float16 and bfloat16 results saturate (value 0) or keep inf and NaN "
        "(1); which 1: vconv into an integer saturates (0) or keeps the low bits of the rounded value (1, NaN and inf "
        "give 0)",
    ),
    row(
        "set_atomic_add",
        "",
        "",
        "mode[0..6]",
        "S",
        nothing,
        "ATOMIC_MODES number for the following moves of this block to GM",
    ),
    row("set_flag", "", "event:count", f"{_PIPE} trigger[0..7]", "S", nothing, "PIPES numbers; no effect on results"),
    row("wait_flag", "", "event:count", f"{_PIPE} trigger[0..7]", "S", nothing, "PIPES numbers; no effect on results"),
    row("pipe_barrier", "", "", _PIPE, "S", nothing, "PIPES number; no effect on results"),
    row(
        "block_barrier",
        "workspace:rw",
        "",
        "",
        "S",
        nothing,
        "every block of the multi-core loop arrives before one goes on",
    ),
)
