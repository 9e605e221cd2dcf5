# SPDX-License-Identifier: Apache-2.0
"""The native engine in its measured mode: how long each step takes on this machine, and what it moves."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from ms_custom_ops.engine import native
from ms_custom_ops.program import ir

_MEASURED = 3
_WORK = 3  # numbers of a step: bytes read, bytes written, operations


@dataclass(frozen=True)
class StepMeasure:
    """One step of a Program over all blocks of a run.

    ``name`` is what it does and ``where`` its line in the kernel, as of :func:`ms_custom_ops.engine.count`.
    ``seconds`` holds what the walk from step to step costs; ``read`` and ``written`` are bytes, ``operations`` counts
    multiplications and additions of products. ``sources`` and ``targets``: the scopes of the operands that an
    instruction reads and writes; ``pipe`` its pipe's number on the chip, -1 for none. ``straight``: the engine makes it
    together with a product, so that by itself it takes next to no time.
    """

    name: str
    where: str
    executed: int
    seconds: float
    read: int = 0
    written: int = 0
    operations: int = 0
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    pipe: int = -1
    straight: bool = False


def measure(program: ir.Program, feed: native.Feed, *, threads: int = 1) -> list[StepMeasure]:
    """Times and traffic of the steps of ``program`` with this feed, in the order of its stream.

    Two runs: one that takes the time, one that counts bytes and operations. Steps that were never executed are in the
    list. Times of several threads add up. Raises EngineError as :func:`ms_custom_ops.engine.run` does.
    """
    inputs, scalars = native._bind(program, feed)
    handle, library = native._loaded(program), native._library()
    steps = library.mco_program_steps(handle.pointer)
    counts, again, nanoseconds = (np.zeros(steps, np.int64) for _ in range(3))
    work = np.zeros((steps, _WORK), np.int64)
    for executions, field, numbers in ((counts, "nanoseconds", nanoseconds), (again, "work", work)):
        outputs = [native._new_output(program, index, inputs) for index in program.outputs]
        options = native._options(_MEASURED, threads, True, None)
        options.counts = executions.ctypes.data
        setattr(options, field, numbers.ctypes.data)
        native._run_native(program, handle, inputs, scalars, outputs, options)
    found = []
    for step in range(steps):
        line = native.step_line(library, handle, step)
        if line is not None:
            taken, (read, written, operations) = float(nanoseconds[step]) * 1e-9, map(int, work[step])
            sources, targets, pipe = _route(library, handle, step)
            straight = bool(library.mco_program_step_straight(handle.pointer, step))
            found.append(
                StepMeasure(
                    *line, int(counts[step]), taken, read, written, operations, sources, targets, pipe, straight
                )
            )
    return found


def _route(library: ctypes.CDLL, handle: native.Handle, step: int) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Scopes that a step reads and writes, and its pipe."""
    read, written, pipe = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_int32(-1)
    if library.mco_program_step_route(
        handle.pointer, step, ctypes.byref(read), ctypes.byref(written), ctypes.byref(pipe)
    ):
        return (), (), -1
    read_names, written_names = (
        tuple(scope for number, scope in enumerate(ir.SCOPES) if bits.value >> number & 1) for bits in (read, written)
    )
    return read_names, written_names, pipe.value
