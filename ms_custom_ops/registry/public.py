# SPDX-License-Identifier: Apache-2.0
"""The public form of an op: what a caller may pass, before it is lowered to the primitive.

The ``public`` section of an op has args, returns and constraints in the grammar of the op's own, and:

* ``dtypes`` of a tensor: names of dtypes, or of a tensor whose dtype it has;
* ``shape`` may be a mapping from conditions on attributes (or ``else``) to shapes; the first that holds counts;
* ``broadcast: True``: any shape that broadcasts to it;
* ``values`` of integers that may come as a list: ``{counts: most}``, ``{sums: most}`` (prefix sums that do not fall) or
  ``{bounds: last}`` (from 0 to last, not falling), or a mapping from conditions to these;
* attributes are the primitive's where ``args`` does not name them, those of ``hides`` left out.

Constraints of the primitive that speak of public attributes alone hold here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from ms_custom_ops.errors import OpArgumentError, OpDtypeError, describe
from ms_custom_ops.registry.dtypes import NAME_TO_CODE
from ms_custom_ops.registry.expr import Expr
from ms_custom_ops.registry.spec import ArgSpec, Constraint, Dim, ReturnSpec, Shape
from ms_custom_ops.registry.yaml_source import nearest

KEYS = ("args", "returns", "constraints", "hides", "lower")
ARG_KEYS = ("shape", "dtypes", "default", "broadcast", "values", "dtype", "doc")
RETURN_KEYS = ("shape", "dtype_from", "present_if", "doc")
VALUES = ("counts", "sums", "bounds")
Cases = tuple[tuple[Expr | None, Any], ...]
"""(condition, what holds then); None always holds."""


@dataclass(frozen=True)
class PublicArg(ArgSpec):
    """``shapes``: Dims by condition. ``values``: (rule, limit) by condition, empty for tensors that are no list."""

    dtypes: tuple[str, ...] = ()
    shapes: Cases = ()
    broadcast: bool = False
    values: Cases = ()


@dataclass(frozen=True)
class PublicReturn(ReturnSpec):
    """``shapes``: Dims by condition. ``present_if`` may also name a bool attribute."""

    shapes: Cases = ()


@dataclass(frozen=True)
class PublicSpec:
    """Public form of the op ``name``. ``lower``: "module:function" from a call to its steps."""

    name: str
    args: tuple[PublicArg, ...]
    returns: tuple[PublicReturn, ...]
    constraints: tuple[Constraint, ...]
    lower: str
    symbols: Mapping[str, Expr]
    attributes: tuple[ArgSpec, ...]

    @property
    def tensors(self) -> tuple[PublicArg, ...]:
        return self.args


@dataclass(frozen=True)
class Operand:
    """Shape and dtype of an argument, None where it is absent; ``values`` for integers given as a list."""

    shape: Shape | None
    dtype: str | None
    values: tuple[Any, ...] | None = None

    @property
    def there(self) -> bool:
        """It was given."""
        return self.shape is not None or self.values is not None


ABSENT = Operand(None, None)


@dataclass(frozen=True)
class Call:
    """A call of a public function that broke no rule. ``sizes``: shape symbols and attributes, by name."""

    public: PublicSpec
    operands: Mapping[str, Operand]
    attrs: Mapping[str, Any]
    sizes: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """A size, or an attribute."""
        return self.sizes[name]

    def given(self, name: str) -> Operand | None:
        """An argument, None where it is absent."""
        operand = self.operands.get(name, ABSENT)
        return operand if operand.there else None

    def returns(self) -> dict[str, tuple[Shape, str] | None]:
        """Shape and dtype of every return; None for one that was not asked for."""
        found: dict[str, tuple[Shape, str] | None] = {}
        for ret in self.public.returns:
            wanted = ret.present_if is None or self.sizes.get(
                f"present:{ret.present_if}", self.sizes.get(ret.present_if)
            )
            dims: tuple[Dim, ...] = _chosen(ret.shapes, self.sizes) if wanted else ()
            shape = tuple(dim.alternatives[0].evaluate(self.sizes) for dim in dims)
            source = ret.dtype_from
            dtype = source if source in NAME_TO_CODE else str(self.operands.get(source, ABSENT).dtype)
            found[ret.name] = (shape, dtype) if wanted else None
        return found


def _chosen(cases: Cases, env: Mapping[str, Any]) -> Any:
    return next((value for condition, value in cases if condition is None or condition.evaluate(env)), None)


# ---- reading ----
def read_public(reader: Any, args: tuple[ArgSpec, ...], constraints: tuple[Constraint, ...]) -> PublicSpec | None:
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
        shapes = _read_cases(reader, value["shape"], path + ("shape",), lambda v, p: _dims(reader, v, p, fixed))
        values: Cases = ()
        if "values" in value:
            values = _read_cases(reader, value["values"], path, lambda v, p: _rule(reader, v, p))
        form = (name, "tensor", optional, optional, None, (), doc)
        tensors.append(PublicArg(*form, accepted, shapes, value.get("broadcast") is True, values))
    from ms_custom_ops.registry.schema import read_constraint_list

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


def _dims(reader: Any, value: Any, path: tuple[Any, ...], fixed: set[str]) -> tuple[Dim, ...]:
    from ms_custom_ops.registry.schema import read_shape  # schema builds on this module

    return read_shape(reader, value, path, fixed)


def _rule(reader: Any, value: Any, path: tuple[Any, ...]) -> tuple[str, Expr | None]:
    rule, limit = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else ("", None)
    if rule not in VALUES:
        reader.bad(path, f"values is {value!r}; accepted: one of {', '.join(VALUES)} with its limit")
    return rule, reader.expression(limit, path)


def _read_cases(reader: Any, value: Any, path: tuple[Any, ...], read: Any) -> Cases:
    if not isinstance(value, dict) or set(value) <= set(VALUES):
        return ((None, read(value, path)),)
    cases = []
    for condition, part in value.items():
        expr = None if condition == "else" else reader.expression(condition, path)
        cases.append((expr, read(part, path + (condition,))))
    return tuple(cases)


def _read_returns(reader: Any, section: Mapping[str, Any], fixed: set[str]) -> tuple[PublicReturn, ...]:
    returns = []
    for name, value in (reader.typed(section.get("returns"), dict, ("public", "returns"), "a mapping") or {}).items():
        path: tuple[Any, ...] = ("public", "returns", name)
        reader.keys(value, RETURN_KEYS, path)
        shapes = _read_cases(reader, value.get("shape"), path + ("shape",), lambda v, p: _dims(reader, v, p, fixed))
        source, doc = reader.string(value, "dtype_from", path), reader.string(value, "doc", path)
        present_if = reader.string(value, "present_if", path) or None
        returns.append(PublicReturn(name, (), source, present_if, None, doc, shapes))
    return tuple(returns)


# ---- checking ----
def check_public(public: PublicSpec, operands: Mapping[str, Operand], attrs: Mapping[str, Any]) -> Call:
    """The call, checked against the public form.

    Raises:
        OpArgumentError, OpDtypeError: name the argument, what was given and what is accepted.
    """
    from ms_custom_ops.registry import call as checks
    from ms_custom_ops.registry.call_values import full_attrs

    env: dict[str, Any] = full_attrs(public, attrs)
    full = dict(env)
    operands = {name: _as_tensor(operand) for name, operand in operands.items()}
    for arg in public.args:
        env[f"present:{arg.name}"] = operands.get(arg.name, ABSENT).there
    spec = replace(public, args=tuple(replace(arg, shape=_chosen(arg.shapes, env) or ()) for arg in public.args))
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
    rule, expr = _chosen(arg.values, env)
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
