# SPDX-License-Identifier: Apache-2.0
"""Checks one call of an op against its OpSpec and infers its returns. It runs at graph compile."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from ms_custom_ops.errors import OpArgumentError, OpDtypeError, describe
from ms_custom_ops.registry.call_values import check_dtypes, full_attrs, known_tensors, soc_key
from ms_custom_ops.registry.dtypes import CODE_TO_NAME, NAME_TO_CODE
from ms_custom_ops.registry.expr import ExpressionError
from ms_custom_ops.registry.public import PublicSpec
from ms_custom_ops.registry.spec import ABSENT_DTYPE, ABSENT_SHAPE, Case, Dim, Dtypes, OpSpec, Shape, Shapes


def present_shapes(spec: OpSpec | PublicSpec, shapes: Shapes) -> dict[str, Shape]:
    """Shapes of the tensors that are there, rank and sign checked."""
    known_tensors(spec, shapes, "shape")
    result = {}
    for arg in spec.tensors:
        shape = shapes.get(arg.name)
        if shape is None:
            if not arg.optional:
                raise OpArgumentError(describe(spec.name, arg.name, "None", f"a tensor of shape {arg.shape_text}"))
            continue
        shape = tuple(-1 if size is None else operator.index(size) for size in shape)  # None: known when it runs
        if len(shape) != len(arg.shape):
            raise OpArgumentError(
                describe(
                    spec.name,
                    f"rank of {arg.name}",
                    f"{len(shape)} (shape {shape})",
                    f"{len(arg.shape)}, shape {arg.shape_text}",
                )
            )
        if any(size < 0 for size in shape):
            raise OpArgumentError(
                describe(
                    spec.name,
                    arg.name,
                    f"of shape {shape}",
                    f"a static shape {arg.shape_text}; dynamic shapes are not supported",
                )
            )
        result[arg.name] = shape
    return result


def bind(spec: OpSpec | PublicSpec, shapes: Mapping[str, Shape]) -> tuple[dict[str, int], dict[str, str]]:
    """Binds plain symbols; returns their values and, for messages, which axis bound each."""
    values: dict[str, int] = {}
    origin: dict[str, str] = {}
    for arg in spec.tensors:
        for axis, (dim, size) in enumerate(zip(arg.shape, shapes.get(arg.name, ()), strict=False)):
            if dim.symbol is None:
                continue
            if dim.symbol not in values:
                values[dim.symbol] = size
                origin[dim.symbol] = f"{arg.name} axis {axis}"
            elif values[dim.symbol] != size:
                raise OpArgumentError(
                    describe(
                        spec.name,
                        f"axis {axis} of {arg.name} ({dim.symbol})",
                        size,
                        f"{values[dim.symbol]}, the {dim.symbol} of {origin[dim.symbol]}",
                    )
                )
    return values, origin


def _derive(spec: OpSpec, env: dict[str, Any], values: dict[str, int], origin: dict[str, str]) -> None:
    for name, expr in spec.symbols.items():
        if expr.names <= env.keys():
            env[name] = values[name] = _evaluate(spec, f"symbol {name}", expr, env)
            sources = ", ".join(
                f"{n} = {env[n]}" + (f" from {origin[n]}" if n in origin else "") for n in sorted(expr.names)
            )
            origin[name] = f"{name} = {expr.text} with {sources}"


def _evaluate(spec: OpSpec | PublicSpec, what: str, expr: Any, env: Mapping[str, Any]) -> Any:
    try:
        return expr.evaluate(env)
    except ExpressionError as error:
        raise OpArgumentError(
            describe(spec.name, what, f"not computable: {error}", "values for which the expression has a value")
        ) from None


def _dim_text(spec: OpSpec | PublicSpec, dim: Dim, env: Mapping[str, Any], origin: Mapping[str, str]) -> str:
    parts = []
    for expr in dim.alternatives:
        if not expr.names:
            parts.append(expr.text)
            continue
        if expr.text in spec.symbols:
            why = origin[expr.text]
        elif expr.text in origin:
            why = f"the {expr.text} of {origin[expr.text]}"
        else:
            why = f"{expr.text} with " + ", ".join(
                f"{name} = {env[name]}" + (f" from {origin[name]}" if name in origin else "")
                for name in sorted(expr.names)
            )
        parts.append(f"{expr.evaluate(env)} ({why})")
    return " or ".join(parts)


def check_dims(
    spec: OpSpec | PublicSpec, shapes: Mapping[str, Shape], env: Mapping[str, Any], origin: Mapping[str, str]
) -> None:
    for arg in spec.tensors:
        for axis, (dim, size) in enumerate(zip(arg.shape, shapes.get(arg.name, ()), strict=False)):
            if dim.symbol is not None:
                continue
            accepted = [_evaluate(spec, f"axis {axis} of {arg.name}", expr, env) for expr in dim.alternatives]
            if size not in accepted:
                raise OpArgumentError(
                    describe(
                        spec.name,
                        f"axis {axis} of {arg.name} (shape {shapes[arg.name]})",
                        size,
                        _dim_text(spec, dim, env, origin),
                    )
                )


def check_constraints(spec: OpSpec | PublicSpec, env: Mapping[str, Any], origin: Mapping[str, str]) -> None:
    for constraint in spec.constraints:
        expr = constraint.expr
        if not expr.names <= env.keys():
            continue  # speaks of a symbol that only an absent optional tensor would bind
        if _evaluate(spec, f"constraint '{expr.text}'", expr, env):
            continue
        given = {
            name: repr(env[name]) + (f" ({origin[name]})" if name in origin else "") for name in sorted(expr.names)
        }
        for tensor in sorted(expr.tensors):
            if tensor in expr.dtypes:
                given[tensor] = CODE_TO_NAME.get(env[f"dtype:{tensor}"], "absent")
            else:
                given[tensor] = "given" if env[f"present:{tensor}"] else "absent"
        values = (
            " and ".join(f"{name} = {value}" for name, value in given.items())
            if len(given) > 1
            else next(iter(given.values()), "constant")
        )
        raise OpArgumentError(
            describe(spec.name, ", ".join(given) or "the call", values, f"{expr.text} ({constraint.msg})")
        )


def check_call(
    spec: OpSpec, shapes: Shapes, dtypes: Dtypes, attrs: Mapping[str, Any], soc: str
) -> tuple[dict[str, int], dict[str, Any]]:
    """See :meth:`OpSpec.check_call`; also returns the environment in which return shapes are evaluated."""
    key = soc_key(spec, soc)
    env: dict[str, Any] = full_attrs(spec, attrs)
    given = present_shapes(spec, shapes)
    for arg in spec.tensors:
        if arg.name not in given and dtypes.get(arg.name) is not None:
            what = f"absent but of dtype {dtypes[arg.name]}"
            raise OpArgumentError(describe(spec.name, arg.name, what, "a shape and a dtype, or neither"))
    row = check_dtypes(spec, list(given), dtypes, soc, key)
    symbols, origin = bind(spec, given)
    env.update(symbols)
    for arg in spec.tensors:
        env[f"present:{arg.name}"] = arg.name in given
        env[f"dtype:{arg.name}"] = row.codes[arg.name] if arg.name in given else ""
    _derive(spec, env, symbols, origin)
    check_dims(spec, given, env, origin)
    check_constraints(spec, env, origin)
    return symbols, env


def _return_shapes(spec: OpSpec, env: Mapping[str, Any]) -> list[Shape]:
    return [
        tuple(_evaluate(spec, f"shape of {ret.name}", dim.alternatives[0], env) for dim in ret.shape)
        if ret.present_if is None or env[f"present:{ret.present_if}"]
        else ABSENT_SHAPE
        for ret in spec.returns
    ]


def _return_dtypes(spec: OpSpec, dtypes: Dtypes) -> list[str]:
    result = []
    for ret in spec.returns:
        absent = ret.present_if is not None and dtypes.get(ret.present_if) is None
        name = ABSENT_DTYPE if absent else ret.dtype_from if ret.dtype_from in NAME_TO_CODE else dtypes[ret.dtype_from]
        assert name is not None  # a return's dtype comes from a required tensor or its own present_if
        result.append(name)
    return result


def infer(spec: OpSpec, shapes: Shapes, dtypes: Dtypes, attrs: Mapping[str, Any], soc: str) -> list[tuple[Shape, str]]:
    """See :meth:`OpSpec.infer`."""
    _, env = check_call(spec, shapes, dtypes, attrs, soc)
    return list(zip(_return_shapes(spec, env), _return_dtypes(spec, dtypes), strict=True))


def named_inputs(spec: OpSpec, values: Sequence[Any], present: Sequence[bool]) -> dict[str, Any]:
    """See :meth:`OpSpec.named_inputs`."""
    tensors, optional = spec.tensors, spec.optional_tensors
    if len(values) != len(tensors) or len(present) != len(optional):
        raise OpArgumentError(
            describe(
                spec.name,
                "inputs",
                f"{len(values)} tensors and {len(present)} presence flags",
                f"{len(tensors)} tensors ({', '.join(a.name for a in tensors)}) and {len(optional)} flags",
            )
        )
    absent = {arg.name for arg, flag in zip(optional, present, strict=False) if not flag}
    return {arg.name: None if arg.name in absent else value for arg, value in zip(tensors, values, strict=False)}


def case_call(spec: OpSpec, case: Case) -> tuple[dict[str, Shape | None], dict[str, str | None], dict[str, Any]]:
    """See :meth:`OpSpec.case_call`. Of alternatives such as "1|B" the last one is taken."""
    code = NAME_TO_CODE.get(case.dtype, case.dtype)
    row = next((row for row in spec.dtype_rows if all(row.codes[name] == code for name in spec.dtype_group)), None)
    if row is None:
        raise OpDtypeError(
            describe(
                spec.name,
                f"dtype of case {case.name}",
                case.dtype,
                ", ".join(sorted({r.codes[spec.dtype_group[0]] for r in spec.dtype_rows})),
            )
        )
    env: dict[str, Any] = {**full_attrs(spec, case.attrs), **case.symbols}
    _derive(spec, env, {}, {})
    shapes: dict[str, Shape | None] = {}
    dtypes: dict[str, str | None] = {}
    for arg in spec.tensors:
        there = not arg.optional or arg.name in case.present
        shapes[arg.name] = (
            tuple(
                _evaluate(spec, f"shape of {arg.name} in case {case.name}", dim.alternatives[-1], env)
                for dim in arg.shape
            )
            if there
            else None
        )
        dtypes[arg.name] = CODE_TO_NAME[row.codes[arg.name]] if there else None
    return shapes, dtypes, dict(case.attrs)
