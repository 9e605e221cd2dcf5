# SPDX-License-Identifier: Apache-2.0
"""Reads the ``public`` section of an op; :mod:`ms_custom_ops.registry.public` has its grammar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ms_custom_ops.registry.dtypes import NAME_TO_CODE
from ms_custom_ops.registry.expr import Expr
from ms_custom_ops.registry.public import (
    ARG_KEYS,
    KEYS,
    RETURN_KEYS,
    VALUES,
    Cases,
    PublicArg,
    PublicReturn,
    PublicSpec,
)
from ms_custom_ops.registry.schema import OpReader, read_constraint_list, read_shape
from ms_custom_ops.registry.spec import ArgSpec, Constraint
from ms_custom_ops.registry.yaml_source import nearest


def read_public(reader: OpReader, args: tuple[ArgSpec, ...], constraints: tuple[Constraint, ...]) -> PublicSpec | None:
    """The section ``public`` of an op, None without."""
    if "public" not in reader.raw:
        return None
    section = reader.section("public")
    reader.keys(section, KEYS, ("public",))
    hides = section.get("hides", [])
    own = {arg.name: arg for arg in args if not arg.is_tensor}
    attributes = {name: arg for name, arg in own.items() if name not in hides}
    tensors = []
    given = reader.typed(section.get("args"), dict, ("public", "args"), "a mapping from arguments to shapes") or {}
    fixed = {name for name, value in given.items() if isinstance(value, dict) and "shape" not in value} | set(own)
    for name, value in given.items():
        path: tuple[Any, ...] = ("public", "args", name)
        if reader.typed(value, dict, path, "a mapping with the key shape or dtype") is None:
            continue
        reader.keys(value, ARG_KEYS, path)
        optional, doc = value.get("default") == "None", reader.string(value, "doc", path)
        if "shape" not in value:
            kind = reader.string(value, "dtype", path)
            default = None if optional else value.get("default")
            attributes[name] = ArgSpec(name, kind, optional, "default" in value, default, (), doc)
            continue
        accepted = tuple(value.get("dtypes", ()))
        for dtype in accepted:
            if dtype not in NAME_TO_CODE and dtype not in given:
                reader.bad(path, f"dtypes of '{name}' has {dtype!r}; {nearest(str(dtype), NAME_TO_CODE)}")
        shapes = _read_cases(reader, value["shape"], path + ("shape",), lambda v, p: read_shape(reader, v, p, fixed))
        values: Cases = ()
        if "values" in value:
            values = _read_cases(reader, value["values"], path, lambda v, p: _rule(reader, v, p))
        form = (name, "tensor", optional, optional, None, (), doc)
        tensors.append(PublicArg(*form, accepted, shapes, value.get("broadcast") is True, values))
    bound = {dim.symbol for arg in tensors for _, dims in arg.shapes for dim in dims if dim.symbol}
    names = {arg.name for arg in tensors}
    where = ("public", "constraints")
    listed = read_constraint_list(reader, section.get("constraints", []), where, bound | set(attributes), names)
    kept = {name for name in own if attributes.get(name) is own[name]}
    inherited = tuple(c for c in constraints if not c.expr.tensors and c.expr.names and c.expr.names <= kept)
    return PublicSpec(
        reader.name,
        tuple(tensors),
        _read_returns(reader, section, fixed),
        listed + inherited,
        reader.string(section, "lower", ("public",)),
        {},
        tuple(attributes.values()),
    )


def _rule(reader: OpReader, value: Any, path: tuple[Any, ...]) -> tuple[str, Expr | None]:
    rule, limit = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else ("", None)
    if rule not in VALUES:
        reader.bad(path, f"values is {value!r}; accepted: one of {', '.join(VALUES)} with its limit")
    return rule, reader.expression(limit, path)


def _read_cases(reader: OpReader, value: Any, path: tuple[Any, ...], read: Any) -> Cases:
    if not isinstance(value, dict) or set(value) <= set(VALUES):
        return ((None, read(value, path)),)
    cases = []
    for condition, part in value.items():
        expr = None if condition == "else" else reader.expression(condition, path)
        cases.append((expr, read(part, path + (condition,))))
    return tuple(cases)


def _read_returns(reader: OpReader, section: Mapping[str, Any], fixed: set[str]) -> tuple[PublicReturn, ...]:
    returns = []
    for name, value in (reader.typed(section.get("returns"), dict, ("public", "returns"), "a mapping") or {}).items():
        path: tuple[Any, ...] = ("public", "returns", name)
        reader.keys(value, RETURN_KEYS, path)
        shapes = _read_cases(
            reader, value.get("shape"), path + ("shape",), lambda v, p: read_shape(reader, v, p, fixed)
        )
        source, doc = reader.string(value, "dtype_from", path), reader.string(value, "doc", path)
        present_if = reader.string(value, "present_if", path) or None
        returns.append(PublicReturn(name, (), source, present_if, None, doc, shapes))
    return tuple(returns)
