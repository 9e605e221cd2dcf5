# SPDX-License-Identifier: Apache-2.0
"""The op_info schema: keys, and readers of arguments, shapes, returns, symbols and constraints that collect everything
that is wrong.

MindSpore's own keys keep their meaning; ours are listed apart, so that taking them away leaves a file that
MindSpore's generator accepts (see export.strip_to_op_def).
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ms_custom_ops.registry.dtypes import NAME_TO_CODE
from ms_custom_ops.registry.expr import Expr, ExpressionError, parse_expr
from ms_custom_ops.registry.spec import ArgSpec, Constraint, Dim, ReturnSpec
from ms_custom_ops.registry.yaml_source import Findings, Source, nearest

MS_TOP = (
    "args",
    "args_signature",
    "returns",
    "class",
    "function",
    "dispatch",
    "view",
    "graph_view",
    "labels",
    "bprop_expander",
    "non-differentiable",
    "composite",
    "gen_opapi",
)
OUR_TOP = (
    "doc",
    "grad_of",
    "symbols",
    "constraints",
    "dtype_format",
    "bprop",
    "impl",
    "target",
    "accuracy",
    "status",
    "cases",
    "public",
    "composition",
)
MS_ARG = ("dtype", "default", "prim_init", "type_cast", "arg_handler", "disable_tensor_to_scalar")
OUR_ARG = ("shape", "doc")
MS_RETURN = ("dtype", "inplace", "type_cast")
OUR_RETURN = ("shape", "dtype_from", "present_if", "doc")
SIGNATURE = ("rw_write", "rw_read", "rw_ref", "dtype_group")
# Names that generated code has a meaning of its own for.
RESERVED = ("self", "cls", "out", "dout", "present", "primitive", "gradient", "bprop", "ops", "Tensor", "ABSENT",
            "OpPrimitive", "prim_cache", "annotations")  # fmt: skip
ATTRIBUTE_KINDS: Mapping[str, type] = MappingProxyType({"int": int, "float": float, "bool": bool, "str": str})
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class OpReader:
    """Reads one op; every method reports to ``findings`` and goes on with what is left."""

    def __init__(self, source: Source, name: str, findings: Findings):
        self.source, self.name, self.findings = source, name, findings
        value = source.data[name]
        if not isinstance(value, dict):
            self.bad((), f"the op is {value!r}; accepted: a mapping with the keys args and returns")
            value = {}
        self.raw: dict[str, Any] = value

    def bad(self, path: tuple[Any, ...], text: str) -> None:
        self.findings.add(self.source.where(self.name, *path), f"op {self.name}: {text}", self.name)

    def keys(self, value: Mapping[str, Any], known: tuple[str, ...], path: tuple[Any, ...]) -> None:
        for key in value:
            if key not in known:
                self.bad(
                    path + (key,),
                    f"unknown key '{key}' in {'.'.join(map(str, path)) or 'the op'}; {nearest(key, known)}",
                )

    def typed(self, value: Any, kind: type, path: tuple[Any, ...], accepted: str) -> Any:
        """``value`` if it is a ``kind``, else None and a finding."""
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        self.bad(path, f"{'.'.join(map(str, path))} is {value!r}; accepted: {accepted}")
        return None

    def section(self, key: str, required: bool = False) -> dict[str, Any]:
        if key not in self.raw:
            if required:
                self.bad((), f"the key '{key}' is missing")
            return {}
        return self.typed(self.raw[key], dict, (key,), "a mapping") or {}

    def string(self, value: Mapping[str, Any], key: str, path: tuple[Any, ...], default: str = "") -> str:
        if key not in value:
            return default
        return self.typed(value[key], str, path + (key,), "a string") or default

    def expression(self, value: Any, path: tuple[Any, ...]) -> Expr | None:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if self.typed(value, str, path, "an expression (a string)") is None:
            return None
        try:
            return parse_expr(value)
        except ExpressionError as error:
            self.bad(path, str(error))
            return None


def identifier(reader: OpReader, name: str, path: tuple[Any, ...], what: str) -> bool:
    if not _IDENTIFIER.match(name) or keyword.iskeyword(name):
        reader.bad(path, f"{what} '{name}' is no identifier; accepted: letters, digits and underscores")
        return False
    if name in RESERVED or name.startswith("__"):  # a class changes names of the latter kind
        reserved = ", ".join(RESERVED)
        reader.bad(path, f"{what} '{name}' is reserved in generated code; accepted: any name but {reserved}, __*")
        return False
    return True


def read_shape(reader: OpReader, value: Any, path: tuple[Any, ...], fixed: set[str]) -> tuple[Dim, ...]:
    """``fixed``: names that an entry uses but does not bind (attributes and derived symbols)."""
    if reader.typed(value, list, path, "a list such as [B, N1, S1, D]") is None:
        return ()
    dims = []
    for axis, entry in enumerate(value):
        parts = entry.split("|") if isinstance(entry, str) else [entry]
        exprs = [reader.expression(part.strip() if isinstance(part, str) else part, path + (axis,)) for part in parts]
        known = tuple(expr for expr in exprs if expr is not None)
        plain = len(known) == 1 and _IDENTIFIER.match(known[0].text) and known[0].text not in fixed
        dims.append(Dim(str(entry), known[0].text if plain else None, known))
    return tuple(dims)


def _default(reader: OpReader, kind: str, value: Any, path: tuple[Any, ...]) -> Any:
    if kind == "str" and isinstance(value, str):  # MindSpore quotes a string default twice: "'BSND'"
        try:
            literal = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            literal = None
        if isinstance(literal, str):
            return literal
        reader.bad(path, f"default of a str is {value}; accepted: a quoted literal such as \"'auto'\"")
        return ""
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    kind_type = ATTRIBUTE_KINDS[kind]
    if not isinstance(value, kind_type) or (kind == "int" and isinstance(value, bool)):
        reader.bad(path, f"default {value!r} does not fit dtype {kind}; accepted: a literal of that type")
    elif refused := out_of_range(value):
        reader.bad(path, f"default {value!r} is {refused}")
    return value


def out_of_range(value: Any) -> str:
    """What is wrong with a literal that no attribute can hold; empty for one that fits."""
    if isinstance(value, float) and not math.isfinite(value):
        return "not finite; accepted: a finite number"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "wider than 64 bits; accepted: an int of 64 bits"
    return ""


def read_args(reader: OpReader, derived: set[str]) -> tuple[ArgSpec, ...]:
    section = reader.section("args", required=True)
    attributes = {name for name, arg in section.items() if isinstance(arg, dict) and arg.get("dtype") != "tensor"}
    args: list[ArgSpec] = []
    for name, value in section.items():
        path: tuple[Any, ...] = ("args", name)
        if reader.typed(value, dict, path, "a mapping with the key dtype") is None:
            continue
        identifier(reader, name, path, "argument")
        reader.keys(value, MS_ARG + OUR_ARG, path)
        kind = value.get("dtype")
        doc = reader.string(value, "doc", path)
        if kind == "tensor":
            optional = value.get("default") == "None"
            if "default" in value and not optional:
                reader.bad(path + ("default",), f"default of tensor '{name}' is {value['default']!r}; accepted: None")
            if "shape" not in value:
                reader.bad(path, f"tensor '{name}' has no shape; accepted: a list such as [B, N1, S1, D]")
            shape = read_shape(reader, value.get("shape", []), path + ("shape",), attributes | derived)
            args.append(ArgSpec(name, kind, optional, optional, None, shape, doc))
        elif kind in tuple(ATTRIBUTE_KINDS):  # compared, not hashed: it may be a list
            if value.get("prim_init") is not True:
                reader.bad(
                    path,
                    f"attribute '{name}' is not prim_init; accepted: prim_init: True (a kernel on this "
                    "road gets its attributes when it is built)",
                )
            if "shape" in value:
                reader.bad(path + ("shape",), f"attribute '{name}' has a shape; accepted: shapes of tensors")
            has = "default" in value
            default = _default(reader, kind, value["default"], path + ("default",)) if has else None
            args.append(ArgSpec(name, kind, False, has, default, (), doc))
        else:
            reader.bad(path, f"dtype of '{name}' is {kind!r}; accepted: tensor, {', '.join(ATTRIBUTE_KINDS)}")
    _check_order(reader, args)
    return tuple(args)


def _check_order(reader: OpReader, args: list[ArgSpec]) -> None:
    """Tensors come first, and in both groups nothing without a default follows something with one."""
    for before, arg in zip(args, args[1:], strict=False):
        if arg.is_tensor and not before.is_tensor:
            reader.bad(
                ("args", arg.name),
                f"tensor '{arg.name}' follows attribute '{before.name}'; accepted: all tensors first",
            )
        elif arg.is_tensor == before.is_tensor and before.has_default and not arg.has_default:
            reader.bad(("args", arg.name), f"'{arg.name}' without a default follows '{before.name}', which has one")


def read_returns(reader: OpReader, args: tuple[ArgSpec, ...], fixed: set[str]) -> tuple[ReturnSpec, ...]:
    tensors = {arg.name: arg for arg in args if arg.is_tensor}
    returns = []
    for name, value in reader.section("returns", required=True).items():
        path: tuple[Any, ...] = ("returns", name)
        if reader.typed(value, dict, path, "a mapping with the key dtype") is None:
            continue
        identifier(reader, name, path, "return")
        reader.keys(value, MS_RETURN + OUR_RETURN, path)
        if value.get("dtype") != "tensor":
            reader.bad(path, f"dtype of return '{name}' is {value.get('dtype')!r}; accepted: tensor")
        if "shape" not in value:
            reader.bad(path, f"return '{name}' has no shape; accepted: a list such as [B, N1, S1, D]")
        shape = read_shape(reader, value.get("shape", []), path + ("shape",), fixed)
        for dim in shape:
            if len(dim.alternatives) > 1:
                reader.bad(path + ("shape",), f"return '{name}' has the alternatives {dim.text}; accepted: one value")
        present_if = reader.string(value, "present_if", path) or None
        if present_if is not None and not (present_if in tensors and tensors[present_if].optional):
            optional = [arg.name for arg in tensors.values() if arg.optional]
            reader.bad(
                path + ("present_if",),
                f"present_if of '{name}' is '{present_if}'; accepted: an optional tensor "
                f"({', '.join(optional) or 'there is none'})",
            )
        source = reader.string(value, "dtype_from", path)
        if source not in NAME_TO_CODE and not (
            source in tensors and (not tensors[source].optional or source == present_if)
        ):
            reader.bad(
                path,
                f"dtype_from of '{name}' is '{source}'; accepted: a required tensor argument, the tensor "
                f"of present_if, or one of {', '.join(NAME_TO_CODE)}",
            )
        returns.append(
            ReturnSpec(
                name,
                shape,
                source,
                present_if,
                reader.string(value, "inplace", path) or None,
                reader.string(value, "doc", path),
            )
        )
    return tuple(returns)


def read_symbols(reader: OpReader) -> dict[str, Expr]:
    result = {}
    for name, value in reader.section("symbols").items():
        identifier(reader, name, ("symbols", name), "symbol")
        expr = reader.expression(value, ("symbols", name))
        if expr is not None:
            result[name] = expr
    return result


def read_constraints(reader: OpReader, known: set[str], tensors: set[str]) -> tuple[Constraint, ...]:
    value = reader.raw.get("constraints", [])
    return read_constraint_list(reader, value, ("constraints",), known, tensors)


def read_constraint_list(
    reader: OpReader, value: Any, where: tuple[Any, ...], known: set[str], tensors: set[str]
) -> tuple[Constraint, ...]:
    """A list of {expr, msg} at ``where``."""
    result = []
    for i, item in enumerate(reader.typed(value, list, where, "a list of {expr, msg}") or []):
        path: tuple[Any, ...] = (*where, i)
        if reader.typed(item, dict, path, "a mapping with the keys expr and msg") is None:
            continue
        reader.keys(item, ("expr", "msg"), path)
        expr = reader.expression(item.get("expr"), path + ("expr",))
        msg = reader.string(item, "msg", path)
        if not msg:
            reader.bad(path, "the constraint has no msg; accepted: words that the error can quote")
        if expr is not None:
            check_names(reader, expr, known, tensors, path + ("expr",))
            result.append(Constraint(expr, msg))
    return tuple(result)


def check_names(reader: OpReader, expr: Expr, known: set[str], tensors: set[str], path: tuple[Any, ...]) -> None:
    for name in sorted(expr.names - known):
        reader.bad(path, f"'{expr.text}' uses the unknown name '{name}'; {nearest(name, sorted(known))}")
    for name in sorted(expr.tensors - tensors):
        reader.bad(path, f"'{expr.text}' uses the unknown tensor '{name}'; {nearest(name, sorted(tensors))}")


def check_symbols(
    reader: OpReader, args: tuple[ArgSpec, ...], returns: tuple[ReturnSpec, ...], symbols: dict[str, Expr]
) -> set[str]:
    """Every name a shape uses must be bound by a plain entry; returns all names an expression may use."""
    attributes = {arg.name for arg in args if not arg.is_tensor}
    required = {dim.symbol for arg in args if not arg.optional for dim in arg.shape if dim.symbol}
    anywhere = {dim.symbol for arg in args for dim in arg.shape if dim.symbol}
    for name in sorted(attributes & (anywhere | symbols.keys())):
        reader.bad(("args", name), f"'{name}' is both an attribute and a shape symbol")
    usable = required | attributes
    for name, expr in symbols.items():
        check_names(reader, expr, usable, set(), ("symbols", name))
        usable = usable | {name}
    own = {arg.name: {dim.symbol for dim in arg.shape if dim.symbol} for arg in args}
    groups: list[tuple[tuple[Any, ...], tuple[Dim, ...], set[str]]]
    groups = [(("args", arg.name, "shape"), arg.shape, usable) for arg in args]
    for ret in returns:  # one that is only there beside a tensor may have that tensor's sizes
        groups.append((("returns", ret.name, "shape"), ret.shape, usable | own.get(str(ret.present_if), set())))
    for path, shape, known in groups:
        for axis, dim in enumerate(shape):
            if path[0] == "args" and dim.symbol:
                continue
            for expr in dim.alternatives:
                check_names(reader, expr, known, set(), path + (axis,))
    return usable | anywhere
