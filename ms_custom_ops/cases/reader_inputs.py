# SPDX-License-Identifier: Apache-2.0
"""Reads the ``inputs`` of a case file."""

from __future__ import annotations

import math
from typing import Any

from ms_custom_ops.cases.base import case_data
from ms_custom_ops.cases.data import LAYOUTS
from ms_custom_ops.cases.design import KINDS, read_input
from ms_custom_ops.cases.model import AttrValue, Fill, InputCases
from ms_custom_ops.cases.yaml_values import CaseReader, dotted
from ms_custom_ops.registry.dtypes import CODE_TO_NAME
from ms_custom_ops.registry.expr import Expr, ExpressionError, parse_expr
from ms_custom_ops.registry.spec import ArgSpec, OpSpec
from ms_custom_ops.registry.yaml_source import nearest

_KEYS = ("name", "type", "required", "dtypes", "ranges", "shapes", "layouts", "expected_error_msg")
_UNUSED = ("aclnn_name", "backward", "align_32B", "outlier_values", "tuple_numbers", "boundary")
_SPECIAL = ("inf", "-inf", "nan", "null")  # what ATK mixes into tensors
_FILL = "[low, high], a number, normal, or {normal | uniform | constant: .., upper: .., lower: ..}"
_ATTR_DTYPES = {
    **dict.fromkeys(("int", "int64", "int32", "int16", "int8", "int64_t", "int32_t", "int16_t", "int8_t"), "int"),
    **dict.fromkeys(("float", "double", "fp32", "fp64"), "float"),
    **dict.fromkeys(("bool", "attr_bool"), "bool"), **dict.fromkeys(("str", "string", "char"), "str"),
}  # fmt: skip
_ATTR_KINDS = ("attr", "scalar")

Path = tuple[Any, ...]


def read_inputs(reader: CaseReader, value: Any, op: OpSpec, form: str) -> tuple[InputCases, ...]:
    """One InputCases per entry; every argument without a default must have one."""
    function = case_data(op).function
    names = [a.name for a in op.args if form == "primitive" or not function or a.name in function]
    result: dict[str, InputCases] = {}
    unnamed = iter(names)
    for i, item in enumerate(reader.items(value, ("inputs",), "inputs")):
        path: Path = ("inputs", i)
        section = reader.keys(item, _KEYS, path, _UNUSED)
        name = section.get("name")
        if not name and "name" in section:  # by position, as ATK calls it
            name = next(unnamed, name)
        if reader.upstream and name not in names:  # such files name arguments as their function does
            name = next((n for n in names if n.lower() == str(name).lower()), name)
        kind = section.get("type", "tensor")
        if reader.upstream and kind in KINDS:
            known = name in names
            reader.design_inputs.append(read_input(section, str(name) if known else "", str(kind)))
            if not known and not str(kind).startswith("tensor"):
                reader.unused.append(f"inputs.{i} ({name!r}, no argument of {op.name}: for generator and reference)")
                continue
        if name not in names:
            reader.bad((*path, "name"), f"input {name!r}; {nearest(str(name), names)}")
        elif name in result:
            reader.bad((*path, "name"), f"input '{name}' is given twice; accepted: once")
        else:
            arg = next(a for a in op.args if a.name == name)
            result[name] = _Input(reader, op, arg, path, section, form).read()
    for arg in op.args:
        if arg.name in names and arg.name not in result and not arg.has_default:
            reader.bad(("inputs",), f"no input '{arg.name}'; accepted: one for each of "
                       f"{', '.join(a.name for a in op.args if a.name in names and not a.has_default)}")  # fmt: skip
    return tuple(result.values())


class _Input:
    """Reads one entry."""

    def __init__(self, reader: CaseReader, op: OpSpec, arg: ArgSpec, path: Path, section: dict, form: str):
        self.reader, self.op, self.arg, self.path, self.section, self.form = reader, op, arg, path, section, form

    def read(self) -> InputCases:
        arg, reader, section = self.arg, self.reader, self.section
        kind = "tensor" if arg.is_tensor else "attr"
        if section.get("type", kind) not in (("tensor",) if arg.is_tensor else _ATTR_KINDS):
            reader.bad((*self.path, "type"), f"type of '{arg.name}' is {section['type']!r}; accepted: {kind}")
        required = section.get("required", True)
        if not isinstance(required, bool) or not (required or arg.has_default):
            accepted = "true or false" if arg.has_default else f"true, '{arg.name}' has no default"
            reader.bad((*self.path, "required"), f"required of '{arg.name}' is {required!r}; accepted: {accepted}")
        shared: dict[str, Any] = dict(name=arg.name, required=bool(required), expected_error=self.error_text())
        ranges = reader.keys(section.get("ranges", {}), ("valid", "invalid"), (*self.path, "ranges"),
                             ("valid_weights",))  # fmt: skip
        if not arg.is_tensor:
            return InputCases(**shared, **self.attribute(ranges))
        return InputCases(**shared, **self.tensor(ranges), layouts=self.layouts())

    def error_text(self) -> str:
        text = self.section.get("expected_error_msg", "")
        if not isinstance(text, str):
            self.reader.bad((*self.path, "expected_error_msg"), f"expected_error_msg is {text!r}; accepted: a string")
            return ""
        return text

    def each(self, ranges: dict, which: str, accepted: str, read: Any) -> tuple:
        path = (*self.path, "ranges", which)
        if which not in ranges:
            return ()
        given = self.reader.values(ranges[which], path, accepted)
        atk = self.reader.upstream or self.reader.versioned
        if which == "invalid" and atk and isinstance(ranges.get("valid"), dict):
            valid = ranges["valid"].get("values")
            # An invalid value that is valid too is how files for ATK say that there is none.
            given = [v for v in given if not (isinstance(valid, list) and v in valid)]
        if which == "invalid" and self.reader.upstream and self.arg.is_tensor:
            special = [v for v in given if v in _SPECIAL or (isinstance(v, list) and len(v) == 1 and v[0] in _SPECIAL)]
            if special:
                self.reader.unused.append(f"{dotted(path)} {special}")
            given = [v for v in given if v not in special]
        found = [read(v, (*path, "values", i)) for i, v in enumerate(given)]
        return tuple(v for v in found if v is not None)

    def attribute(self, ranges: dict) -> dict[str, Any]:
        arg, reader = self.arg, self.reader
        for key in ("shapes", "layouts"):
            if key in self.section:
                reader.bad((*self.path, key), f"{key} of the attribute '{arg.name}'; accepted: {key} of tensors")
        if "dtypes" in self.section:
            path = (*self.path, "dtypes")
            for dtype in reader.values(self.section["dtypes"], path, "dtypes"):
                if _ATTR_DTYPES.get(str(dtype)) != arg.kind:
                    reader.bad(path, f"dtype of the attribute '{arg.name}' is {dtype!r}; accepted: {arg.kind}")
        accepted = "values, [low, high] ranges or expressions over the shape symbols"
        values = self.each(ranges, "valid", accepted, self.value)
        if not values and not arg.has_default:
            reader.bad(self.path, f"attribute '{arg.name}' has no ranges.valid.values; accepted: {accepted}")
        return dict(values=values, invalid_values=self.each(ranges, "invalid", accepted, self.value))

    def value(self, value: Any, path: Path) -> AttrValue | None:
        if isinstance(value, list):
            if self.arg.kind in ("int", "float") and len(value) == 2 and self.ordered(value):
                return AttrValue(drawn=(value[0], value[1]))
            self.reader.bad(path, f"{dotted(path)} is {value!r}; accepted: [low, high] of numbers, for an attribute "
                            f"that is int or float ('{self.arg.name}' is {self.arg.kind})")  # fmt: skip
            return None
        if isinstance(value, str) and self.arg.kind in ("int", "float"):
            expr = self.expression(value, path)
            return None if expr is None else AttrValue(expr=expr)
        return AttrValue(literal=value)

    @staticmethod
    def ordered(pair: list) -> bool:
        return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in pair) and pair[0] <= pair[1]

    def expression(self, value: Any, path: Path) -> Expr | None:
        symbols = {d.symbol for a in self.op.tensors for d in a.shape if d.symbol} | set(self.op.symbols)
        try:
            expr = parse_expr(str(value))
        except ExpressionError as error:
            self.reader.bad(path, str(error))
            return None
        for name in sorted(expr.names - symbols):
            self.reader.bad(path, f"'{expr.text}' uses the unknown symbol '{name}'; {nearest(name, sorted(symbols))}")
            return None
        return expr

    def tensor(self, ranges: dict) -> dict[str, Any]:
        return dict(
            fills=self.each(ranges, "valid", _FILL, self.fill),
            invalid_fills=self.each(ranges, "invalid", _FILL, self.fill),
            **self.dtypes(),
            **self.shapes(),
        )

    def fill(self, value: Any, path: Path) -> Fill | None:
        reader = self.reader
        if value == "normal":
            return Fill("normal", 0.0, 1.0)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return Fill("constant", 0.0, float(value))
        if isinstance(value, list) and len(value) == 2 and self.ordered(value) and all(map(math.isfinite, value)):
            return Fill("uniform", float(value[0]), float(value[1]))
        if not isinstance(value, dict):
            reader.bad(path, f"{dotted(path)} is {value!r}; accepted: {_FILL}")
            return None
        section = reader.keys(value, ("normal", "uniform", "constant", "upper", "lower"), path)
        kinds = [key for key in ("normal", "uniform", "constant") if key in section]
        if len(kinds) != 1:
            reader.bad(path, f"{dotted(path)} has {', '.join(kinds) or 'neither'}; accepted: one of normal, uniform, "
                       "constant")  # fmt: skip
            return None
        given = section[kinds[0]]
        if kinds[0] == "uniform":
            base = self.fill(given, path) if isinstance(given, list) else None
            if base is None and not isinstance(given, list):
                reader.bad(path, f"uniform is {given!r}; accepted: [low, high]")
            low, high = (base.low, base.high) if base else (0.0, 0.0)
        else:
            low, high = 0.0, reader.number(given, (*path, kinds[0])) or 0.0
        ends = {key: reader.number(section[key], (*path, key)) for key in ("upper", "lower") if key in section}
        if ends and len(self.arg.shape) < 2:
            reader.bad(path, f"upper and lower of '{self.arg.name}' of rank {len(self.arg.shape)}; accepted: rank 2 "
                       "or more")  # fmt: skip
        return Fill(kinds[0], low, high, ends.get("upper"), ends.get("lower"))

    def dtypes(self) -> dict[str, Any]:
        if "dtypes" not in self.section:
            return {}
        reader, path = self.reader, (*self.path, "dtypes")
        section = reader.keys(self.section["dtypes"], ("values", "invalid"), path, unused=("weights",))
        known = {CODE_TO_NAME[row.codes[self.arg.name]] for row in self.op.dtype_rows}
        if self.form == "function":
            known |= self.public_dtypes(self.arg.name)
        result = {}
        for key, values in (
            ("dtypes", section.get("values", [])),
            ("invalid_dtypes", reader.values(section["invalid"], (*path, "invalid"), "dtypes")
             if "invalid" in section else []),
        ):  # fmt: skip
            found = [reader.dtype(v, path) for v in reader.items(values, path, "dtypes")]
            result[key] = tuple(v for v in found if v is not None)
        for dtype in result["dtypes"]:
            if dtype not in known:
                reader.bad(path, f"dtype of '{self.arg.name}' is {dtype}; accepted: {', '.join(sorted(known))}")
        return result

    def public_dtypes(self, name: str) -> set[str]:
        """Dtypes that the public function takes; it brings them to those of the kernel."""
        args = {} if self.op.public is None else {arg.name: arg for arg in self.op.public.args}
        found: set[str] = set()
        for dtype in args[name].dtypes if name in args else ():
            found |= self.public_dtypes(dtype) if dtype in args else {dtype}
        return found

    def shapes(self) -> dict[str, Any]:
        if "shapes" not in self.section:
            return {}
        reader, path = self.reader, (*self.path, "shapes")
        unused = () if reader.upstream else ("dim_values", "min", "max")
        keys = ("dim_numbers", "max_length", "invalid", *(("dim_values", "min", "max") if reader.upstream else ()))
        section = reader.keys(self.section["shapes"], keys, path, unused)
        rank = len(self.arg.shape)
        if "dim_numbers" in section:
            ranks = reader.values(section["dim_numbers"], (*path, "dim_numbers"), "ranks")
            if rank not in ranks and not reader.upstream:  # there the generator may give another
                reader.bad((*path, "dim_numbers"), f"ranks of '{self.arg.name}' are {ranks}; accepted: a list with "
                           f"{rank}, shape {self.arg.shape_text}")  # fmt: skip
        longest = section.get("max_length")
        if longest is not None:
            longest = reader.whole(longest, (*path, "max_length"), 1)
        wrong = []
        listed = reader.values(section["invalid"], (*path, "invalid"), "shapes") if "invalid" in section else []
        for i, shape in enumerate(listed):
            where = (*path, "invalid", "values", i)
            dims = [self.expression(dim, where) for dim in reader.items(shape, where, "sizes or expressions")]
            if None not in dims:
                wrong.append(tuple(dim for dim in dims if dim is not None))
        return dict(max_length=longest, invalid_shapes=tuple(wrong))

    def layouts(self) -> tuple[str, ...]:
        if "layouts" not in self.section:
            return ("contiguous",)
        reader, path = self.reader, (*self.path, "layouts")
        found = []
        for layout in reader.values(self.section["layouts"], path, "layouts"):
            if layout not in LAYOUTS:
                reader.bad(path, f"layout {layout!r}; {nearest(str(layout), LAYOUTS)}")
            elif layout == "swapped" and len(self.arg.shape) < 2:
                reader.bad(path, f"layout swapped of '{self.arg.name}' of rank {len(self.arg.shape)}; accepted: rank 2 "
                           "or more")  # fmt: skip
            elif layout != "contiguous" and self.form == "primitive":
                reader.bad(path, f"layout {layout} with api primitive, which takes contiguous tensors; accepted: api "
                           "function, or contiguous")  # fmt: skip
            else:
                found.append(layout)
        return tuple(found) or ("contiguous",)
