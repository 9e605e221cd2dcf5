# SPDX-License-Identifier: Apache-2.0
"""Profiles of Ascend C kernels: a source with its entry, or the Ascend C kernel of an op with a case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ms_custom_ops.commands._subject import Wanted
    from ms_custom_ops.cost import CostChip, Profile
    from ms_custom_ops.scope import Scope

SOURCES = (".cpp", ".asc", ".cc", ".cxx")
"""Suffixes of files that hold Ascend C kernels."""


def is_source(what: str) -> bool:
    """Whether ``what`` is a file of Ascend C."""
    return Path(what).suffix in SOURCES


def profile_source(what: str, wanted: Wanted, chip: CostChip | None, blocks: int) -> Profile:
    """Profile of a kernel of a source; the values of its call come as those of ``ascendc run``."""
    from ms_custom_ops import ascendc
    from ms_custom_ops.commands.ascendc import value_of

    path = Path(what)
    if not path.is_file():
        raise click.UsageError(f"{what}: is no file; accepted: a source of Ascend C, KERNEL.py:ENTRY, an op")
    kernel = ascendc.build(path, wanted.entry, wanted.soc)
    values = [value_of(kernel.name, number, text) for number, text in enumerate(wanted.arguments)]
    data = wanted.tiling.read_bytes() if wanted.tiling else None
    return kernel.profile(
        wanted.block_dim, *values, chip=chip, traced_blocks=blocks, tiling=data, tiling_key=wanted.tiling_key,
        workspace=wanted.workspace,
    )  # fmt: skip


def profile_op(scope: Scope, what: str, wanted: Wanted, chip: CostChip | None, blocks: int) -> Profile:
    """Profile of an op's Ascend C kernel on the usual data of the case."""
    from ms_custom_ops.commands._subject import arrays_of, call_of, chosen_case
    from ms_custom_ops.compile_launch import op_of
    from ms_custom_ops.compiler import compile_call
    from ms_custom_ops.registry.implementation import use_impl

    op = scope.registry().get(what)
    case = chosen_case(op, wanted)
    with use_impl("ascendc"):
        call = call_of(op, case, wanted.soc)
        compiled = compile_call(call)
    if compiled.launch is None:
        accepted = "a call that the op's file gives to its Ascend C kernel (impl: ascendc: soc, when)"
        raise click.ClickException(f"{op.name} {case.name} on {call.soc}: has no Ascend C kernel; accepted: {accepted}")
    project, arrays = op_of(call.spec, call.soc), arrays_of(op, case, call)
    given: list[Any] = [arrays.get(param.name) for param in project.inputs]
    p = project.profile_launch(compiled.launch, given, chip=chip, traced_blocks=blocks)
    return replace(p, name=f"{op.name} (ascendc)")
