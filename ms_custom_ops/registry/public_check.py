# SPDX-License-Identifier: Apache-2.0
"""Checks a call against the public form of an op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

from ms_custom_ops.errors import OpArgumentError, OpDtypeError, describe
from ms_custom_ops.registry import call as checks
from ms_custom_ops.registry.call_values import full_attrs
from ms_custom_ops.registry.dtypes import NAME_TO_CODE
from ms_custom_ops.registry.public import ABSENT, Call, Operand, PublicArg, PublicSpec, chosen


def check_public(public: PublicSpec, operands: Mapping[str, Operand], attrs: Mapping[str, Any]) -> Call:
    """The call, checked against the public form.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    env: dict[str, Any] = full_attrs(public, attrs)
    full = dict(env)
    operands = {name: _as_tensor(operand) for name, operand in operands.items()}
    for arg in public.args:
        env[f"present:{arg.name}"] = operands.get(arg.name, ABSENT).there
    spec = replace(public, args=tuple(replace(arg, shape=chosen(arg.shapes, env) or ()) for arg in public.args))
    check_kinds(spec, operands)
    plain = replace(spec, args=tuple(arg for arg in spec.args if not arg.broadcast))
    shapes = checks.present_shapes(plain, {arg.name: operands.get(arg.name, ABSENT).shape for arg in plain.args})
    _check_dtypes(spec, operands, env)
    symbols, origin = checks.bind(plain, shapes)
    env.update(symbols)
    for arg in spec.args:
        if operands.get(arg.name, ABSENT).values is not None:
            _check_values(spec.name, arg, operands[arg.name], env)
    checks.check_constraints(spec, env, origin)
    checks.check_dims(plain, shapes, env, origin)
    for arg in spec.args:
        if arg.broadcast and operands.get(arg.name, ABSENT).there:
            _check_broadcast(spec.name, arg, operands[arg.name], env)
    return Call(public, operands, full, env)


def check_kinds(public: PublicSpec, operands: Mapping[str, Operand]) -> None:
    """Tensors are tensors, and those that are needed are there.

    Raises:
        OpArgumentError: names the argument, what was given and what is accepted.
    """
    for arg in public.args:
        operand = operands.get(arg.name, ABSENT)
        if operand.values is not None and not arg.values:
            operand = replace(operand, other=f"a list of {len(operand.values)}")
        if operand.other or not (operand.there or arg.optional):
            known = arg if arg.shape else replace(arg, shape=arg.shapes[-1][1])
            accepted = f"a tensor of shape {known.shape_text}" if known.shape else "a tensor"
            accepted += " or a list of integers" * bool(arg.values) + " or None" * arg.optional
            raise OpArgumentError(describe(public.name, arg.name, operand.other or None, accepted))


def _as_tensor(operand: Operand) -> Operand:
    """A list of integers as the shape of the tensor that holds them."""
    if operand.values is None:
        return operand
    return Operand((len(operand.values),), "int64", tuple(operand.values))


def _check_dtypes(spec: PublicSpec, operands: Mapping[str, Operand], env: dict[str, Any]) -> None:
    # First those that others follow.
    for arg in sorted(spec.args, key=lambda arg: any(name in operands for name in arg.dtypes)):
        operand = operands.get(arg.name, ABSENT)
        env[f"dtype:{arg.name}"] = NAME_TO_CODE.get(str(operand.dtype), "") if operand.there else ""
        if not operand.there:
            continue
        if operand.values is not None:
            if not arg.values:
                accepted = f"a tensor of shape {arg.shape_text}"
                raise OpArgumentError(describe(spec.name, arg.name, list(operand.values), accepted))
            continue
        names = [operands[name].dtype if name in operands else name for name in arg.dtypes]
        if operand.dtype not in names:
            owner = next((f", the dtype of {name}" for name in arg.dtypes if name in operands), "")
            accepted = " or ".join(dict.fromkeys(map(str, names))) + owner
            raise OpDtypeError(describe(spec.name, f"dtype of {arg.name}", operand.dtype, accepted))


def _check_broadcast(op: str, arg: PublicArg, operand: Operand, env: Mapping[str, Any]) -> None:
    full = tuple(dim.alternatives[0].evaluate(env) for dim in arg.shape)
    shape = operand.shape or ()
    text = f"{arg.shape_text} = {full}"
    if any(size is None or size < 0 for size in shape):
        accepted = "a static shape; dynamic shapes are not supported"
        raise OpArgumentError(describe(op, arg.name, f"of shape {shape}", accepted))
    if not 1 <= len(shape) <= len(full):
        what = f"{len(shape)} (shape {shape})"
        accepted = f"1 to {len(full)}, broadcastable to {text}"
        raise OpArgumentError(describe(op, f"rank of {arg.name}", what, accepted))
    if any(size not in (1, wanted) for size, wanted in zip(shape[::-1], full[::-1], strict=False)):
        accepted = f"a shape that broadcasts to {text}"
        raise OpArgumentError(describe(op, arg.name, f"of shape {shape}", accepted))


def _check_values(op: str, arg: PublicArg, operand: Operand, env: Mapping[str, Any]) -> None:
    rule, expr = chosen(arg.values, env)
    limit, values = expr.evaluate(env), list(operand.values or ())
    whole = all(isinstance(n, Integral) and not isinstance(n, bool) for n in values)
    rising = whole and all(a <= b for a, b in zip(values, values[1:], strict=False))
    if rule == "counts":
        good, accepted = whole and all(0 <= n <= limit for n in values), f"integers from 0 to {limit} = {expr.text}"
    elif rule == "sums":
        good = rising and all(0 <= n <= limit for n in values)
        accepted = f"non-negative, non-decreasing prefix sums of at most {expr.text} = {limit}"
    else:
        good = rising and len(values) >= 2 and values[0] == 0 and values[-1] == limit
        accepted = f"at least 2 integers that do not fall, the first 0, the last {expr.text} = {limit}"
    if not good:
        raise OpArgumentError(describe(op, arg.name, values, accepted))
