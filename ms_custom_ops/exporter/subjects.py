# SPDX-License-Identifier: Apache-2.0
"""Ops of the registry, and single Programs, as what is exported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ms_custom_ops.cases import smoke_cases
from ms_custom_ops.compiler import compile_call, describe_call
from ms_custom_ops.errors import ExportError
from ms_custom_ops.exporter.model import Attribute, Case, Parameter, Subject, Tensor
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import FLOATS
from ms_custom_ops.registry import OpSpec
from ms_custom_ops.registry.dtypes import CODE_TO_NAME
from ms_custom_ops.soc import get_soc
from ms_custom_ops.soc.table import Soc

_KINDS = ("int", "float", "bool", "str")


def op_subject(op: OpSpec, soc: str, names: Sequence[str] = ()) -> Subject:
    """An op with its smoke cases that ``soc`` has, or those of ``names``.

    Raises:
        ExportError: no such case, or an attribute of a kind that an OpDef's tiling cannot compare here.
    """
    chip = get_soc(soc)
    planned = {case.name: case for case in smoke_cases(op, chip.name)}
    unknown = [name for name in names if name not in planned]
    if unknown or not planned:
        raise ExportError(
            f"{op.name}: case is {', '.join(unknown) or 'none'}; accepted on {chip.name}: {', '.join(planned)}"
        )
    for arg in op.attributes:
        if arg.kind not in _KINDS:
            raise ExportError(f"{op.name}: kind of attribute {arg.name} is {arg.kind}; accepted: {', '.join(_KINDS)}")
    cases = []
    for name in names or planned:
        case = planned[name]
        call = describe_call(op, dict(case.shapes), dict(case.dtypes), case.attrs, chip.name)
        program = compile_call(call).program
        inputs, outputs = (tuple(Tensor(*t) for t in side) for side in (call.inputs, call.outputs))
        cases.append(Case(name, program, inputs, outputs, dict(call.attrs)))
    rows = []
    for row in op.dtype_rows:
        dtypes = {name: CODE_TO_NAME[code] for name, code in row.codes.items()}
        if any(_fits(dtypes, case) for case in cases):
            rows.append(dtypes)
    return Subject(
        name=op.name, soc=chip.name, family=chip.family,
        inputs=tuple(Parameter(a.name, a.optional) for a in op.tensors),
        outputs=tuple(Parameter(r.name) for r in op.returns),
        attributes=tuple(Attribute(a.name, a.kind, a.default if a.has_default else None, a.has_default)
                         for a in op.attributes),
        rows=tuple(rows), cases=tuple(cases), origin=f"{op.name}, {op.impl.entry}", op=op.name,
    )  # fmt: skip


def _fits(row: dict[str, str], case: Case) -> bool:
    return all(row[t.name] == t.dtype for t in (*case.inputs, *case.outputs) if t.name in row)


def program_subject(programs: Sequence[tuple[str, ir.Program]], name: str, origin: str, soc: str = "") -> Subject:
    """Programs of one kernel, by case: their tensors are the op's, its InputScalars attributes.

    ``soc``: another chip than the one they were traced for, whose cores are of the same kind and have room for them.
    Raises:
        ExportError: their tensors have different names, their chips differ, or ``soc`` is another kind of chip.
    """
    target = get_soc(soc or programs[0][1].soc)
    if soc:
        for _, program in programs:
            _fits_chip(program, name, target)
    cases, first = [], programs[0][1]
    attributes = tuple(
        Attribute(first.registers[i].name, "float" if first.registers[i].dtype in FLOATS else "int", runtime=True)
        for i in first.input_scalars
    )
    for label, program in programs:
        sides = [tuple(_tensor(program, i) for i in numbers) for numbers in (program.inputs, program.outputs)]
        cases.append(Case(label, program, sides[0], sides[1], {}))
        if program.soc != first.soc:
            raise ExportError(f"{name}: chips are {first.soc} and {program.soc}; accepted: one chip")
        given, wanted = ([t.name for t in (*a, *b)] for a, b in (sides, (cases[0].inputs, cases[0].outputs)))
        if given != wanted:
            raise ExportError(f"{name}: tensors of {label} are {given}; accepted: those of {cases[0].name}, {wanted}")
    rows: list[dict[str, str]] = []
    for case in cases:
        row = {t.name: t.dtype for t in (*case.inputs, *case.outputs)}
        if row not in rows:
            rows.append(row)
    return Subject(
        name=name, soc=target.name, family=target.family,
        inputs=tuple(Parameter(t.name) for t in cases[0].inputs),
        outputs=tuple(Parameter(t.name) for t in cases[0].outputs),
        attributes=attributes, rows=tuple(rows), cases=tuple(cases), origin=origin,
    )  # fmt: skip


def _fits_chip(program: ir.Program, name: str, chip: Soc) -> None:
    """ExportError unless a Program gives the same bits on another chip."""
    own = get_soc(program.soc)
    if own.split_core != chip.split_core or program.saturate != chip.saturate_default:
        accepted = "a chip of the same kind of cores and the same way with overflows"
        raise ExportError(f"{name}: chip is {chip.name} for a trace of {own.name}; accepted: {accepted}")
    for b in program.buffers:
        room = chip.scope_bytes.get(b.scope, 0)
        if b.scope not in (ir.GM, ir.SMASK) and max(b.addresses) + b.size_bytes > room:
            end = max(b.addresses) + b.size_bytes
            raise ExportError(
                f"{name}: end of {b.name} is byte {end} of {b.scope}; accepted on {chip.name}: up to {room}"
            )


def _tensor(program: ir.Program, index: int) -> Tensor:
    buffer = program.buffers[index]
    shape: list[Any] = [d if isinstance(d, int) else -1 for d in buffer.shape]
    return Tensor(buffer.name, tuple(shape), buffer.dtype)
