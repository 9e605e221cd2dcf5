# SPDX-License-Identifier: Apache-2.0
"""Synchronisation and control: blocks run in program order, so flags and barriers of pipes have no effect."""

from __future__ import annotations

from ms_custom_ops.engine.reference.call import Call, instruction
from ms_custom_ops.program.isa import ATOMIC_MODES


@instruction("set_flag", "wait_flag", "pipe_barrier")
def pipe_order(call: Call) -> None:
    """No effect on results."""


@instruction("block_barrier")
def block_barrier(call: Call) -> None:
    """The walker of the blocks waits here; the workspace keeps its content."""
    workspace = call["workspace"]
    call.need(workspace.is_gm, "scope of workspace", workspace.scope, "gm")


@instruction("set_atomic_add")
def set_atomic_add(call: Call) -> None:
    """Moves of this block to GM add in this dtype from here on; mode 0 ends it."""
    call.block.atomic = ATOMIC_MODES[call.attrs["mode"]]
