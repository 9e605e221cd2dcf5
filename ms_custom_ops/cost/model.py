# SPDX-License-Identifier: Apache-2.0
"""``mco.profile``: a Program, or what a kernel built, through the cost model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ms_custom_ops.cost import binding
from ms_custom_ops.cost.chip import CostChip, cost_chip
from ms_custom_ops.cost.result import Profile, assemble, occupancy
from ms_custom_ops.engine import native
from ms_custom_ops.errors import EngineError, describe
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.soc import get_soc

EXECUTE = {"needed": 0, "all": 1, "integers": 2}


def program_of(given: Any) -> ir.Program:
    """The Program of a Tik instance after BuildCCE, of a compiled op, or the Program itself."""
    if isinstance(given, ir.Program):
        return given
    if getattr(given, "launch", None) is not None:
        accepted = "a Program, or the op itself: mco.ascendc.load_project(...)[name]"
        raise EngineError(describe("profile", "program", f"the launch of {given.op}", accepted))
    program = getattr(given, "program", None)
    if isinstance(program, ir.Program):
        return program
    built = getattr(given, "programs", None)
    if isinstance(built, list) and built:
        return built[0]
    raise EngineError(
        describe("profile", "program", type(given).__name__, "a Program, a Tik instance after BuildCCE, a compiled op")
    )


def profile(
    program: Any,
    feed: native.Feed | None = None,
    soc: str | None = None,
    *,
    chip: CostChip | None = None,
    execute: str = "needed",
    traced_blocks: int = 2,
    traced_slices: int = 100_000,
    threads: int = 0,
    **launch: Any,
) -> Profile:
    """Modelled time of ``program`` on a chip.

    Args:
        program: a Program, a Tik instance after BuildCCE, or a compiled op. Also a kernel of ``mco.ascendc.build`` or
            an op of ``mco.ascendc.load_project``: the feed holds the positional arguments of its call, everything is
            computed, on one thread.
        feed: inputs as of ``mco.run``. Left out: tensors of zeros, for Programs whose control flow reads no data.
        soc: the chip, by default the one the Program was traced for; it must have split cores where that one has.
        chip: numbers of the model in place of those of ``soc`` (:func:`~ms_custom_ops.cost.cost_chip`).
        execute: which results are computed on the way. "needed": all where control flow reads memory, else none;
            "all"; "integers": those of integer dtypes, so that lengths and indices are right and floats that control
            flow looks at are zeros (no result is NaN, nothing is selected by score).
        traced_blocks, traced_slices: of how many blocks the timeline is kept, and how many slices of each.
        threads: as of ``mco.run``.
        launch: of an Ascend C kernel, the keywords of its ``profile``: tiling, tiling_key, workspace, reachable,
            time_limit; of an op its attributes.

    Raises EngineError as :func:`mco.run` does.
    """
    if hasattr(program, "profile"):  # it runs itself
        if execute == "integers":
            raise EngineError(describe(program.name, "execute of profile", "'integers'", "needed, all for Ascend C"))
        given = chip or (cost_chip(soc) if soc else None)
        traced = {"traced_blocks": traced_blocks, "traced_slices": traced_slices}
        return program.profile(*(feed or ()), chip=given, **traced, **launch)
    if launch:
        raise EngineError(describe("profile", "argument", next(iter(launch)), "those of a Program"))
    built = program_of(program)
    numbers = chip or cost_chip(soc or built.soc)
    if get_soc(numbers.soc.name).split_core != built.split_cores:
        raise EngineError(
            describe(built.name, "soc of profile", numbers.soc.name, f"{built.soc}, or a chip with cores of its kind")
        )
    if execute not in EXECUTE:
        raise EngineError(describe(built.name, "execute of profile", repr(execute), ", ".join(EXECUTE)))
    if feed is None:
        if built.input_scalars:
            raise EngineError(describe(built.name, "feed", "None", "values: the Program has input scalars"))
        inputs: list[np.ndarray] = [_empty(built, built.buffers[i]) for i in built.inputs]
        scalars: list[int | float] = []
    else:
        inputs, scalars = native._bind(built, feed)
    outputs = [_empty(built, built.buffers[i]) for i in built.outputs]
    raw = binding.run(
        built, numbers, inputs, scalars, outputs, execute=EXECUTE[execute], traced_blocks=traced_blocks,
        traced_slices=traced_slices, threads=threads,
    )  # fmt: skip
    return assemble(built.name, numbers, raw, binding.core_count(built, numbers), occupancy(built))


def _empty(program: ir.Program, buffer: ir.Buffer) -> np.ndarray:
    """Zeros that take no memory until they are touched."""
    if buffer.size_bytes < 0:
        raise EngineError(
            describe(program.name, "feed", f"None, but the size of {buffer.name} is known only when fed", "arrays")
        )
    return np.zeros(buffer.size_bytes // SIZE[buffer.dtype], DTYPES[buffer.dtype].numpy)
