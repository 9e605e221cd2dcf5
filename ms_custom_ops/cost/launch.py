# SPDX-License-Identifier: Apache-2.0
"""Timed launches of Ascend C kernels: the cost model fed by the calls of the API."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ms_custom_ops.cost import binding
from ms_custom_ops.cost.chip import CostChip
from ms_custom_ops.cost.result import Profile, Shape, assemble
from ms_custom_ops.program import ir

LEFT_OUT = (
    "scalar code of the kernel between calls of the API is not seen; functions of the library are "
    "{library:g} vector instructions of their largest operand"
)

_SCOPES = 8


class _Shape(ctypes.Structure):
    _fields_ = [("cubes", ctypes.c_int32), ("vectors", ctypes.c_int32), ("used", ctypes.c_int64 * _SCOPES)]


def run_timed(
    chip: CostChip, launch: ctypes.Structure, run: Callable[[Callable[..., int]], None], *, traced_blocks: int,
    traced_slices: int,
) -> tuple[binding.Raw, Shape]:  # fmt: skip
    """What the engine counted in a launch. ``run(function)`` calls ``function(launch, text, room)`` and raises where it
    says that the launch failed."""
    library, soc, split = binding._library(), chip.soc, bool(launch.split)
    request = binding.request_of(
        chip, soc.cube_core_count, split, execute=1, traced_blocks=traced_blocks, traced_slices=traced_slices
    )
    pointer = ctypes.c_void_p()

    def timed(launch: Any, text: Any, room: Any) -> int:
        return library.mco_asc_time(
            launch, ctypes.byref(request), soc.cube_core_count, soc.vector_core_count, ctypes.byref(pointer), text, room
        )

    run(timed)
    shape = _Shape()
    library.mco_timing_shape(pointer, ctypes.byref(shape))
    names = _calls(pointer)
    blocks, steps, slices = binding.read(pointer)
    each = shape.cubes + shape.vectors
    core = slices["block"] % each
    slices["sub"] = np.where(core < shape.cubes, 0, core - shape.cubes)
    slices["block"] //= each
    used = {scope: int(shape.used[n]) for n, scope in enumerate(ir.SCOPES) if shape.used[n]}
    order = np.lexsort((slices["sub"], slices["lane"], slices["start"], slices["block"]))
    return binding.Raw(blocks, steps, slices[order], names), Shape(shape.cubes, shape.vectors, used)


def profile_launch(
    name: str, chip: CostChip, launch: ctypes.Structure, run: Callable[[Callable[..., int]], None], *,
    traced_blocks: int, traced_slices: int,
) -> Profile:  # fmt: skip
    """Modelled time of a launch; see :func:`run_timed`."""
    raw, shape = run_timed(chip, launch, run, traced_blocks=traced_blocks, traced_slices=traced_slices)
    soc = chip.soc
    at_once = soc.cube_core_count if shape.cubes or not soc.split_core else soc.vector_core_count // shape.vectors
    occupancy = {scope: (used, soc.scope_bytes.get(scope, 0)) for scope, used in shape.used.items()}
    left_out = LEFT_OUT.format(library=chip.values["library"])
    return assemble(name, chip, raw, at_once, occupancy, shape, left_out)


def _calls(pointer: ctypes.c_void_p) -> list[tuple[str, str, int]]:
    call, file, line = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_uint32()
    found: list[tuple[str, str, int]] = []
    while not binding._library().mco_timing_call(
        pointer, len(found), ctypes.byref(call), ctypes.byref(file), ctypes.byref(line)
    ):
        found.append(((call.value or b"").decode(), (file.value or b"").decode(), line.value))
    return found
