# SPDX-License-Identifier: Apache-2.0
"""An exported project against the Programs it came from: compiled here, every case, every bit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ms_custom_ops import ascendc, engine
from ms_custom_ops.cases import smoke_cases
from ms_custom_ops.cases.base import case_data, golden_outputs
from ms_custom_ops.cases.data import filled, make_arrays, plain_fill
from ms_custom_ops.cases.model import PlannedCase
from ms_custom_ops.compiler import describe_call
from ms_custom_ops.engine.checked import run_checked
from ms_custom_ops.engine.reference.memory import fill
from ms_custom_ops.errors import ExportError
from ms_custom_ops.exporter.kernel import CaseFacts
from ms_custom_ops.lower.run import kernel_array
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import numpy_dtype
from ms_custom_ops.registry import get_op

_IN_ORDER = ("MCO_ASC_NO_PAUSE",)  # what several blocks add to one place lands in the order of the blocks, as in TIK


@dataclass(frozen=True)
class Row:
    """A case: whether all bits are equal, how far the exported op is from the golden (None without one), seconds."""

    case: str
    equal: bool
    different: str
    golden: float | None
    seconds: float


def prove(folder: Path, entry: str, soc: str, op: str = "", layout: str = "op_host") -> list[Row]:
    """Runs every case of a project through its own tiling, shapes and kernel, compiled against the headers here.

    ``op``: name in the registry, which has data and a golden; without one, inputs are normal and small integers.
    ``layout``: "op_host", or the folder of the same op in the layout of MindSpore's own package.
    Raises AscendcBuildError, AscendcError where the project does not compile or run, ExportError without its cases.
    """
    kernel = folder / "op_kernel" / f"{entry}.cpp"
    programs = sorted((folder / "programs").glob("*.program"))
    if not kernel.is_file() or not programs:
        raise ExportError(
            f"prove: {folder} has no op_kernel/{entry}.cpp and programs/*.program; accepted: an exported project"
        )
    project = ascendc.load_project(folder / layout, soc=soc, defines=_IN_ORDER, optimize=False)
    exported = next(iter(project.values()))
    planned = {case.name: case for case in smoke_cases(get_op(op), soc)} if op else {}
    rows = []
    for path in programs:
        start = time.perf_counter()
        program = ir.Program.from_bytes(path.read_bytes())
        given = _data(planned[path.stem]) if op else _plain(program)
        rows.append(_row(path.stem, exported, program, given, planned.get(path.stem), start))
    return rows


def prove_kernel(source: Path, entry: str, program: ir.Program, facts: CaseFacts, key: int = 1) -> str:
    """Runs one case of a kernel without host code, on inputs as those of :func:`prove`; what differs, or ""."""
    given = _plain(program)
    feed = [given[program.buffers[i].name] for i in program.inputs]
    kept = [x.copy() for x in feed]
    wanted = engine.run(program, [x.copy() for x in feed])
    outputs = [feed[program.inputs.index(i)] if i in program.inputs else _fresh(program.buffers[i], x)
               for i, x in zip(program.outputs, wanted, strict=True)]  # fmt: skip
    kernel = ascendc.build(source, entry=entry, soc=program.soc, defines=_IN_ORDER, optimize=False)
    kernel(facts.blocks, *feed, *outputs, tiling=bytes(8), tiling_key=key, workspace=facts.workspace, threads=1)
    return _against(program, kept, outputs, wanted)


def _fresh(buffer: ir.Buffer, like: np.ndarray) -> np.ndarray:
    """An output before a run: what TIK fills it with, else 0xFF bytes."""
    found = np.frombuffer(b"\xff" * like.nbytes, like.dtype).reshape(like.shape).copy()
    if buffer.atomic_init:
        fill(buffer, found.reshape(-1).view(np.uint8))
    return found


def _against(program: ir.Program, feed: Sequence[Any], outputs: Sequence[np.ndarray],
             wanted: Sequence[np.ndarray]) -> str:  # fmt: skip
    """What differs from a run of the Program, or "". Where the Program gives out on-chip memory that it never wrote,
    bytes do not count in which a run differs from one whose memory starts as 0xFF."""
    different = _differing(program, outputs, wanted)
    if different:
        report = run_checked(program, [x.copy() if isinstance(x, np.ndarray) else x for x in feed])
        unset = report.of_kind("uninitialized_read")
        if unset:
            settled = [_settled(*three) for three in zip(outputs, wanted, report.outputs, strict=True)]
            different = _differing(program, settled, wanted)
            where = f"{Path(unset[0].file or '').name}:{unset[0].line}"
            return f"{different}; the TIK kernel gives out memory that it never wrote ({where})" if different else ""
    return different


def _settled(found: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """``found`` with the bytes of ``one`` where those of ``other`` differ."""
    raw = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (found, one, other)]
    return np.where(raw[1] == raw[2], raw[0], raw[1]).view(found.dtype).reshape(found.shape)


def _differing(program: ir.Program, outputs: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    names = [program.buffers[i].name for i in program.outputs]
    kinds = [f"{n}: {a.dtype} in place of {b.dtype}" for n, a, b in zip(names, outputs, wanted, strict=True)
             if a.dtype != b.dtype]  # fmt: skip
    if kinds:
        return "; ".join(kinds)
    return "; ".join(f"{n}: {_count(a, b)} of {b.size}" for n, a, b in zip(names, outputs, wanted, strict=True)
                     if a.tobytes() != b.tobytes())  # fmt: skip


def _row(name: str, exported: Any, program: ir.Program, given: dict[str, Any], planned: Any,
         start: float) -> Row:  # fmt: skip
    attributes = dict(planned.attrs) if planned is not None else {}
    tensors = [given[p.name] for p in exported.inputs if p.name in given] if planned is not None else [
        given[program.buffers[i].name] for i in program.inputs]  # fmt: skip
    feed = [
        kernel_array(np.ascontiguousarray(x), program.buffers[i]) for x, i in zip(tensors, program.inputs, strict=True)
    ]
    scalars = [3 + k for k, _ in enumerate(program.input_scalars)]
    attributes |= {program.registers[i].name: v for i, v in zip(program.input_scalars, scalars, strict=True)}
    wanted = engine.run(program, [*(x.copy() for x in feed), *scalars])
    there = {p.name: given.get(p.name) for p in exported.inputs} if planned is not None else dict(
        zip((p.name for p in exported.inputs), feed, strict=True))  # fmt: skip
    outputs = _run(exported, list(there.values()), attributes)
    names = _outputs(program, planned)
    kept = {p.name: x for p, x in zip(exported.outputs, outputs, strict=True) if p.name in names}
    different = _against(program, [*feed, *scalars], list(kept.values()), wanted)
    distance = None
    if planned is not None:
        distance = _from_golden(planned, given, kept)
    return Row(name, not different, different, distance, time.perf_counter() - start)


def _outputs(program: ir.Program, planned: PlannedCase | None) -> set[str]:
    """Outputs that a case has; the op may have others."""
    if planned is None:
        return {program.buffers[i].name for i in program.outputs}
    call = describe_call(planned.op, dict(planned.shapes), dict(planned.dtypes), planned.attrs, program.soc)
    return {name for name, _, _ in call.outputs}


def _from_golden(planned: PlannedCase, given: dict[str, Any], named: dict[str, np.ndarray]) -> float:
    """The largest distance of an output, without its padding, from the golden."""
    op = planned.op
    golden = golden_outputs(op, given, planned.attrs, planned.symbols)
    visible = case_data(op).visible
    named = visible(named, planned) if visible else named
    pairs = [(named[ret.name], g) for ret, g in zip(op.returns, golden, strict=True) if ret.name in named]
    return max(_distance(a, g) for a, g in pairs)


def _run(exported: Any, arrays: list[np.ndarray | None], attributes: dict[str, Any]) -> list[np.ndarray]:
    """Outputs, which start as those of TIK Programs do: 0xFF bytes, so that what is not written shows."""
    shapes = [None if a is None else a.shape for a in arrays]
    dtypes: list[tuple[str, ...]] = [() if a is None else (a.dtype.name,) for a in arrays]
    launch = exported.launch(shapes, dtypes, exported.attribute_values(attributes))
    outputs = []
    for number, (shape, dtype) in enumerate(launch.outputs):
        made = np.empty(shape, numpy_dtype(dtype))
        made.reshape(-1).view(np.uint8)[:] = 0xFF
        if number in launch.init:
            made[...] = launch.init[number]
        if number in launch.copies:
            made = np.array(arrays[launch.copies[number]])
        outputs.append(made)
    sides: dict[str, list[Any]] = {
        "input": [None if a is None else np.ascontiguousarray(a) for a in arrays],
        "output": outputs,
    }
    entries = [None if slot is None else sides[slot[0]][slot[1]] for slot in launch.slots]
    tiling = launch.tiling
    launch.kernel(tiling.block_dim, *entries, tiling=tiling.data, tiling_key=tiling.tiling_key,
                  workspace=launch.user_workspace, threads=1)  # fmt: skip
    return outputs


def _data(case: Any) -> dict[str, np.ndarray]:
    return make_arrays(case)


def _plain(program: ir.Program) -> dict[str, np.ndarray]:
    """Inputs of a kernel of which nothing is known."""
    found = {}
    for k, index in enumerate(program.inputs):
        b = program.buffers[index]
        found[b.name] = filled(np.random.default_rng(k), plain_fill(b.dtype), tuple(b.shape), b.dtype)
    return found


def _count(a: np.ndarray, b: np.ndarray) -> int:
    raw = [np.ascontiguousarray(x).view(np.uint8).reshape(x.size, -1) for x in (a, b)]
    return int((raw[0] != raw[1]).any(axis=1).sum())


def _distance(a: np.ndarray, golden: np.ndarray) -> float:
    wide, right = a.reshape(-1).astype(np.float64), golden.reshape(-1).astype(np.float64)
    return float(np.sqrt(np.mean((wide - right) ** 2)) / max(float(np.sqrt(np.mean(right**2))), 1e-30))
