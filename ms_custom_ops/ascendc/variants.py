# SPDX-License-Identifier: Apache-2.0
"""What a tiling key says about the kernel it is for: template arguments, a structure, what its preprocessor asks."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_custom_ops.ascendc.definition import DTYPES, Definition, TilingStruct, keyed, snake_case
from ms_custom_ops.ascendc.rewrite import without_comments
from ms_custom_ops.errors import AscendcBuildError, describe

_KINDS = ("type", "dtype", "format", "number", "bool", "cores", "struct")  # mco_host::TemplateParameter::Kind
_CORES = ("AIV_ONLY", "AIC_ONLY", "MIX_AIV_1_0", "MIX_AIC_1_0", "MIX_AIC_1_1", "MIX_AIC_1_2")  # ASCENDC_TPL_...
_OF_TENSOR = 1 << 32  # a value from here on: the dtype or format of an input or output
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)
_ASKS = re.compile(r"^[ \t]*#[ \t]*(?:el)?if\b(?:[^\n]|\\\n)*\bTILING_KEY_VAR\b", re.M)
_BY_KEY = re.compile(r'\bREGISTER_TILING_FOR_TILINGKEY\s*\(\s*"((?:[^"\\]|\\.)*)"\s*,\s*([\w:]+)\s*\)')
_MOST_FILES = 500


@dataclass(frozen=True)
class TemplateParameter:
    """One of ASCENDC_TPL_ARGS_DECL, or what a choice says. ``values``: numbers it may have."""

    kind: str
    name: str
    bits: int
    values: tuple[int, ...]

    def takes(self, value: int) -> bool:
        return value in self.values or any(number >= _OF_TENSOR for number in self.values)


@dataclass(frozen=True)
class TemplateKeys:
    """The template arguments of an op's kernel that tiling keys stand for, and the choices that there are."""

    op: str
    parameters: tuple[TemplateParameter, ...]
    choices: tuple[tuple[TemplateParameter, ...], ...]

    def arguments(self, key: int) -> list[int]:
        """One number for each parameter."""
        found = []
        for parameter in self.parameters:
            code, key = key & ((1 << parameter.bits) - 1), key >> parameter.bits
            found.append(
                parameter.values[code] if parameter.kind == "number" and code < len(parameter.values) else code
            )
        return found

    def choice(self, arguments: Sequence[int]) -> tuple[TemplateParameter, ...]:
        """What the host chose, with its cores and structure."""
        by_name = dict(zip((p.name for p in self.parameters), arguments, strict=True))
        for choice in self.choices:
            if all(one.takes(by_name[one.name]) for one in choice if one.name in by_name):
                return choice
        return ()


def read_templates(described: Sequence[Mapping[str, Any]]) -> list[TemplateKeys]:
    """Out of what the library of op_host tells."""

    def parameters(listed: Sequence[Mapping[str, Any]]) -> tuple[TemplateParameter, ...]:
        return tuple(TemplateParameter(_KINDS[p["kind"]], p["name"], p["bits"], tuple(p["values"])) for p in listed)

    return [
        TemplateKeys(item["op"], parameters(item["parameters"]), tuple(map(parameters, item["choices"])))
        for item in described
    ]


@dataclass(frozen=True)
class Variant:
    """How a kernel is built for a key. ``key``: what tells it from the others, 0 where all keys share one kernel."""

    entry: str
    key: int = 0
    struct: str | None = None
    defines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variants:
    """Of one op."""

    op: Definition
    structs: Sequence[TilingStruct]
    templates: TemplateKeys | None
    source: Path | None
    folders: Sequence[Path]

    @functools.cached_property
    def _text(self) -> str:
        return "" if self.source is None else _closure(self.source, self.folders)

    @functools.cached_property
    def _by_key(self) -> list[tuple[str, str]]:
        return registered_by_key(self._text)

    @functools.cached_property
    def several(self) -> bool:
        """Whether the kernel depends on the key otherwise than by asking for it while it runs."""
        return bool(self.templates or self._by_key or _ASKS.search(self._text) or keyed(self.op, self.structs))

    def of(self, tiling_key: int) -> Variant:
        if not self.several:
            return Variant(self.op.entry)
        entry, struct, defines = self.op.entry, None, [f"TILING_KEY_VAR={tiling_key}ULL"]
        if self.templates is not None:
            arguments = self.templates.arguments(tiling_key)
            pairs = zip(self.templates.parameters, arguments, strict=True)
            entry = f"{entry}<{', '.join(_argument(parameter, value) for parameter, value in pairs)}>"
            for one in self.templates.choice(arguments):
                if one.kind == "cores":
                    defines.append(f"MCO_ASC_CORES=KERNEL_TYPE_{_CORES[one.values[0]]}")
                elif one.kind == "struct":
                    struct = one.name
        struct = struct_of(self.op.name, self._by_key, tiling_key) or struct
        if struct is not None:
            defines.append(f"MCO_ASC_STRUCT_OF_KEY={struct}")
        return Variant(entry, tiling_key, struct, tuple(defines))


def registered_by_key(bare: str) -> list[tuple[str, str]]:
    """Conditions on the tiling key, and the structures of REGISTER_TILING_FOR_TILINGKEY, in a text without comments."""
    return _BY_KEY.findall(bare)


def struct_of(where: str, by_key: Sequence[tuple[str, str]], tiling_key: int) -> str | None:
    """The structure of a key: that of the first condition that holds, or None."""
    return next((name for condition, name in by_key if _holds(where, condition, tiling_key)), None)


def templates_of(op: Definition, templates: Sequence[TemplateKeys]) -> TemplateKeys | None:
    """Those of an op: declared by its name, or by that of its files."""
    for keys in templates:
        if keys.op in (op.name, op.entry) or snake_case(keys.op) == op.entry:
            return keys
    return None


def _argument(parameter: TemplateParameter, value: int) -> str:
    if parameter.kind == "type":
        return DTYPES[value][1] if value in DTYPES else f"ge::DataType({value})"
    return str(value)


def _closure(source: Path, folders: Sequence[Path]) -> str:
    """The text of a source and of what it includes by a name in quotes, without comments."""
    seen: dict[Path, str] = {}
    waiting = [source]
    while waiting and len(seen) < _MOST_FILES:
        path = waiting.pop()
        if path in seen:
            continue
        seen[path] = without_comments(path.read_text(errors="replace"))
        for name in _INCLUDE.findall(seen[path]):
            found = next((p for folder in (path.parent, *folders) if (p := folder / name).is_file()), None)
            waiting += [found.resolve()] if found is not None else []
    return "\n".join(seen.values())


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Not: operator.not_,
    ast.Invert: operator.invert, ast.USub: operator.neg,
}  # fmt: skip


def _holds(where: str, condition: str, key: int) -> bool:
    """A condition of C on TILING_KEY_VAR."""
    text = re.sub(r"\b(0[xX][\da-fA-F]+|\d+)[uUlL]+\b", r"\1", condition).replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"!(?!=)", " not ", text).replace("/", "//")

    def value(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name) and node.id == "TILING_KEY_VAR":
            return key
        if isinstance(node, ast.BoolOp):
            return (all if isinstance(node.op, ast.And) else any)(value(one) for one in node.values)
        if isinstance(node, ast.UnaryOp):
            return _OPERATORS[type(node.op)](value(node.operand))
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return _OPERATORS[type(node.ops[0])](value(node.left), value(node.comparators[0]))
        raise KeyError(ast.dump(node))

    try:
        return bool(value(ast.parse(f"({text.strip()})", mode="eval").body))
    except (SyntaxError, KeyError, ValueError, ArithmeticError):
        accepted = "comparisons of TILING_KEY_VAR with numbers, joined by && and ||"
        given = repr(condition)
        raise AscendcBuildError(describe(where, "REGISTER_TILING_FOR_TILINGKEY", given, accepted)) from None
