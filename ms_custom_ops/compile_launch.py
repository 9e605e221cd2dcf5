# SPDX-License-Identifier: Apache-2.0
"""Calls of ops whose Ascend C kernel is chosen: the project's own shape inference and tiling make the launch."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ms_custom_ops.ascendc import load_project, table
from ms_custom_ops.ascendc.op import AscendcOp, Launch
from ms_custom_ops.errors import OpInfoError, describe

if TYPE_CHECKING:
    from ms_custom_ops.compiler import Call, CompiledOp
    from ms_custom_ops.registry.spec import OpSpec


def project_folder(spec: OpSpec) -> Path:
    """Folder of the op's Ascend C project; OpInfoError when it is not there."""
    assert spec.impl.ascendc is not None
    dotted = spec.impl.ascendc.project
    found = importlib.util.find_spec(dotted)
    for place in (found.submodule_search_locations or []) if found is not None else []:
        if (Path(place) / "op_host").is_dir():
            return Path(place)
    raise OpInfoError(
        f"{spec.location}: "
        + describe(spec.name, "impl.ascendc.project", dotted, "a folder with op_host and op_kernel")
    )


@functools.lru_cache(maxsize=256)
def _digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in (".cpp", ".h"):
            found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.hexdigest()[:32]


def sources_digest(spec: OpSpec) -> str:
    """Of the files of the op's project, as this process first saw them."""
    return _digest(project_folder(spec))


@functools.lru_cache(maxsize=256)
def _op(folder: Path, name: str, soc: str) -> AscendcOp:
    return load_project(folder, soc)[name]


def op_of(spec: OpSpec, soc: str) -> AscendcOp:
    """The op of the project. Errors of :func:`ms_custom_ops.ascendc.load_project`."""
    assert spec.impl.ascendc is not None
    return _op(project_folder(spec), spec.impl.ascendc.op, soc)


def launch_of(call: Call) -> Launch:
    """The launch of a checked call; OpInfoError where the project's tensors are not those of the op."""
    spec = call.spec
    op = op_of(spec, call.soc)
    given = {name: (shape, dtype) for name, shape, dtype in call.inputs}
    sides = (
        ("inputs", [p.name for p in op.inputs], [arg.name for arg in spec.tensors]),
        ("outputs", [p.name for p in op.outputs], [ret.name for ret in spec.returns]),
        ("attributes", [a.name for a in op.definition.attributes], [arg.name for arg in spec.attributes]),
    )
    for what, theirs, ours in sides:
        if theirs != ours:
            at = f"{op.definition.file}:{op.definition.line}: "
            raise OpInfoError(at + describe(op.name, what, ", ".join(theirs) or "none", ", ".join(ours) or "none"))
    shapes = [given[p.name][0] if p.name in given else None for p in op.inputs]
    dtypes = [(given[p.name][1],) if p.name in given else () for p in op.inputs]
    launch = op.launch(shapes, dtypes, op.attribute_values(call.attrs))
    launch = _without_absent(call, launch)
    wanted = [(tuple(shape), dtype) for _, shape, dtype in call.outputs]
    if list(launch.outputs) != wanted:
        at = f"{op.definition.file}:{op.definition.line}: "
        raise OpInfoError(at + describe(op.name, "shapes and dtypes of the outputs", list(launch.outputs), wanted))
    return launch


def _without_absent(call: Call, launch: Launch) -> Launch:
    """The launch without outputs that the call does not have (their ``present_if`` was not given): the kernel gets no
    pointer. The project says so by an output without elements."""
    there = {name for name, _, _ in call.outputs}
    kept = [n for n, r in enumerate(call.spec.returns) if r.name in there or 0 not in launch.outputs[n][0]]
    place = {old: new for new, old in enumerate(kept)}

    def moved(slot: tuple[str, int] | None) -> tuple[str, int] | None:
        if slot is None or slot[0] == "input":
            return slot
        return ("output", place[slot[1]]) if slot[1] in place else None

    return replace(
        launch,
        outputs=tuple(launch.outputs[n] for n in kept),
        groups=tuple(launch.groups[n] for n in kept),
        slots=tuple(map(moved, launch.slots)),
        copies={place[n]: source for n, source in launch.copies.items() if n in place},
        init={place[n]: value for n, value in launch.init.items() if n in place},
    )


def run_launch(call: Call, compiled: CompiledOp, arrays: Mapping[str, np.ndarray | None]) -> dict[str, np.ndarray]:
    """Outputs by name, of a call compiled to a launch; those that are not there are left out."""
    assert compiled.launch is not None
    op = op_of(call.spec, call.soc)
    results = op.run(compiled.launch, [arrays.get(param.name) for param in op.inputs])
    listed = results if isinstance(results, tuple) else (results,)
    return {name: result for (name, _, _), result in zip(call.outputs, listed, strict=True)}


def put(call: Call, compiled: CompiledOp) -> None:
    """Makes a launch known to the engine under the call's key."""
    assert compiled.launch is not None
    numbers = {param.name: number for number, param in enumerate(op_of(call.spec, call.soc).inputs)}
    names, shapes, dtypes = zip(*call.inputs, strict=True)
    table.put(compiled.key, call.spec.name, compiled.launch, [numbers[name] for name in names], shapes, dtypes)
