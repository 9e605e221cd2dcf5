# SPDX-License-Identifier: Apache-2.0
"""What ``profile`` and ``tune`` are about: an op with a case, or a kernel file, as a Program with its feed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ms_custom_ops.compiler import Call
    from ms_custom_ops.program import ir
    from ms_custom_ops.registry import OpSpec
    from ms_custom_ops.registry.spec import Case
    from ms_custom_ops.scope import Scope


@dataclass(frozen=True)
class Wanted:
    """The options that choose a subject."""

    case: str | None = None
    soc: str | None = None
    shape: tuple[str, ...] = ()
    attrs: tuple[str, ...] = ()
    dtype: str | None = None
    arguments: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    impl: str = "tik"
    entry: str | None = None
    block_dim: int = 1
    tiling: Path | None = None
    tiling_key: int | None = None
    workspace: int = 0


@dataclass(frozen=True)
class Subject:
    """A Program and its inputs; None where zeros do."""

    label: str
    program: ir.Program
    feed: Any


def pairs(items: Iterable[str], option: str) -> dict[str, Any]:
    """``A=1,B=2`` as a dict of literals; click.UsageError for anything else."""
    found: dict[str, Any] = {}
    for part in (p for item in items for p in item.split(",") if p):
        name, sign, text = part.partition("=")
        if not sign or not name:
            raise click.UsageError(f"{option} {part}: is no NAME=VALUE")
        try:
            found[name.strip()] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[name.strip()] = text
    return found


def chosen_case(op: OpSpec, wanted: Wanted) -> Case:
    """A smoke case of an op by its name (without one, the first), with other sizes and attributes."""
    names = [c.name for c in op.cases]
    if not names:
        raise click.UsageError(f"{op.name} has no cases; accepted: an op whose file has some")
    name = wanted.case or names[0]
    if name not in names:
        raise click.UsageError(f"--case {name}: is no case of {op.name}; accepted: {', '.join(names)}")
    case = op.cases[names.index(name)]
    sizes, attrs = pairs(wanted.shape, "--shape"), pairs(wanted.attrs, "--attr")
    unknown = [n for n in sizes if n not in case.symbols]
    if unknown:
        raise click.UsageError(f"--shape {', '.join(unknown)}: accepted for {name}: {', '.join(case.symbols)}")
    wrong = [f"{n}={size}" for n, size in sizes.items() if type(size) is not int or size < 0]
    if wrong:
        raise click.UsageError(f"--shape {', '.join(wrong)}: is no size; accepted: whole numbers from 0")
    return replace(
        case, symbols={**case.symbols, **sizes}, attrs={**case.attrs, **attrs}, dtype=wanted.dtype or case.dtype
    )


def call_of(op: OpSpec, case: Case, soc: str | None) -> Call:
    """The checked call of a case."""
    from ms_custom_ops.compiler import describe_call

    shapes, dtypes, attrs = op.case_call(case)
    return describe_call(op, shapes, dtypes, attrs, soc)


def arrays_of(op: OpSpec, case: Case, call: Call) -> Mapping[str, Any]:
    """The usual data of the op for the case, by argument."""
    from ms_custom_ops.cases.data import make_arrays
    from ms_custom_ops.cases.model import PlannedCase

    shapes, dtypes, attrs = op.case_call(case)
    symbols = op.check_call(shapes, dtypes, attrs, call.soc)
    planned = PlannedCase(case.name, op, "primitive", symbols, shapes, dtypes, attrs, {}, {}, (0,))
    return make_arrays(planned)


def usual_feed(op: OpSpec, case: Case, call: Call, program: ir.Program) -> list[Any]:
    """The same as the Program takes it."""
    from ms_custom_ops.lower.run import kernel_array

    arrays = arrays_of(op, case, call)
    names = [name for name, _, _ in call.inputs]
    return [kernel_array(arrays[n], program.buffers[i]) for n, i in zip(names, program.inputs, strict=True)]


def reads_data(program: ir.Program) -> bool:
    """Whether the control flow of a Program reads memory, so that zeros would not do."""
    from ms_custom_ops.program import ir

    return any(isinstance(s, ir.Load) for s in ir.walk(program.body))


def refuse_file(what: str, accepted: str) -> None:
    """click.UsageError for a file where an op or ``FILE.py:FUNCTION`` belongs."""
    if Path(what).suffix in (".py", ".cpp", ".asc", ".yaml", ".cce"):
        raise click.UsageError(f"{what} is the name of a file; accepted: {accepted}")


def find_subject(scope: Scope, what: str, wanted: Wanted) -> Subject:
    """An op of the registry, or ``FILE.py:FUNCTION``."""
    if ":" in what:
        return _of_file(what, wanted)
    refuse_file(what, "OP, FILE.py:FUNCTION, KERNEL.cpp")
    from ms_custom_ops.compiler import compile_call

    op = scope.registry().get(what)
    case = chosen_case(op, wanted)
    call = call_of(op, case, wanted.soc)
    program = compile_call(call).program
    feed = usual_feed(op, case, call, program) if reads_data(program) else None
    return Subject(f"{op.name} {case.name}", program, feed)


def _of_file(what: str, wanted: Wanted) -> Subject:
    from ms_custom_ops.commands.run import collect_feed, entry_of, split_arguments
    from ms_custom_ops.tik.trace import trace

    args, kwargs = split_arguments(wanted.arguments)
    program = trace(entry_of(what), *args, soc=wanted.soc, **kwargs)
    if not wanted.feeds and not program.input_scalars:
        return Subject(what, program, None)
    names = [program.buffers[i].name for i in program.inputs]
    names += [program.registers[i].name for i in program.input_scalars]
    return Subject(what, program, collect_feed(wanted.feeds, names))
