# SPDX-License-Identifier: Apache-2.0
"""The keys of an op that are ours: dtype rows, kernels, chips, accuracy, status codes, cases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ms_custom_ops.registry.dtypes import CODE_TO_NAME, NAME_TO_CODE
from ms_custom_ops.registry.schema import SIGNATURE, OpReader, check_names, identifier
from ms_custom_ops.registry.spec import ArgSpec, AscendcImpl, Case, DtypeRow, Impl, ReturnSpec, Target, Tolerance
from ms_custom_ops.registry.yaml_source import nearest

_ENTRY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
_ASCENDC_FAMILIES = ("Ascend910B", "Ascend910_93", "Ascend310P")
_ACCURACY_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
# design/OP_INFO rule 3: mixed tolerance of the public operator-accuracy standard of the CANN ecosystem
DEFAULT_TOLERANCE = MappingProxyType(
    {
        "float16": Tolerance(2.0**-9, 2.0**-9, 1e-1),
        "bfloat16": Tolerance(2.0**-6, 2.0**-6, 1.0),
        "float32": Tolerance(2.0**-10, 2.0**-16, 1e-2),
    }
)


def class_case(name: str) -> str:
    """flash_attention_grad -> FlashAttentionGrad."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def read_sections(reader: OpReader, args: tuple[ArgSpec, ...], returns: tuple[ReturnSpec, ...]) -> dict[str, Any]:
    """Every OpSpec field that does not come from args, returns, symbols and constraints; bprop is resolved
    later."""
    rows = read_rows(reader, args, returns)
    return {
        "class_name": _given_name(reader, "class", class_case(reader.name)),
        "function_name": _given_name(reader, "function", reader.name),
        "dtype_rows": rows,
        "dtype_group": read_group(reader, args),
        "bprop": None,
        "impl": read_impl(reader, args),
        "target": read_target(reader),
        "accuracy": read_accuracy(reader),
        "status": read_status(reader),
        "cases": read_cases(reader, args),
        "doc": reader.string(reader.raw, "doc", ()).strip(),
        "composition": read_composition(reader),
    }


def read_composition(reader: OpReader) -> str:
    value = reader.string(reader.raw, "composition", ())
    if value and not _ENTRY.match(value):
        reader.bad(("composition",), f"composition is '{value}'; accepted: \"package.module:function\"")
    return value


def _given_name(reader: OpReader, key: str, default: str) -> str:
    section = reader.section(key)
    reader.keys(section, ("name", "disable"), (key,))
    name = reader.string(section, "name", (key,), default)
    identifier(reader, name, (key, "name"), f"{key} name")
    return name


def read_group(reader: OpReader, args: tuple[ArgSpec, ...]) -> tuple[str, ...]:
    """Arguments whose dtype the chips restrict: args_signature.dtype_group, else the first tensor."""
    section = reader.section("args_signature")
    reader.keys(section, SIGNATURE, ("args_signature",))
    tensors = [arg.name for arg in args if arg.is_tensor]
    text = reader.string(section, "dtype_group", ("args_signature",))
    if not text:
        return tuple(tensors[:1])
    names = re.findall(r"\w+", text.split(")")[0])  # the first group: MindSpore allows several
    for name in names:
        if name not in tensors:
            reader.bad(
                ("args_signature", "dtype_group"),
                f"dtype_group names '{name}', which is no tensor argument; {nearest(name, tensors)}",
            )
    return tuple(names)


def read_rows(reader: OpReader, args: tuple[ArgSpec, ...], returns: tuple[ReturnSpec, ...]) -> tuple[DtypeRow, ...]:
    if "dtype_format" not in reader.raw:
        reader.bad((), "the key 'dtype_format' is missing")
        return ()
    names = tuple(arg.name for arg in args if arg.is_tensor) + tuple(ret.name for ret in returns)
    rows = []
    value = reader.typed(reader.raw["dtype_format"], list, ("dtype_format",), "a list of rows") or []
    if not value:
        reader.bad(("dtype_format",), "dtype_format has no row; accepted: at least one combination")
    for i, item in enumerate(value):
        path: tuple[Any, ...] = ("dtype_format", i)
        if reader.typed(item, dict, path, "a mapping from argument to dtype code") is None:
            continue
        reader.keys(item, names + ("format",), path)
        for name in names:
            if name not in item:
                reader.bad(path, f"the row has no dtype for '{name}'")
            elif item[name] not in tuple(CODE_TO_NAME):  # compared, not hashed: it may be a list
                reader.bad(
                    path + (name,),
                    f"dtype code of '{name}' is {item[name]!r}; {nearest(str(item[name]), CODE_TO_NAME)}",
                )
        if item.get("format", "ND") != "ND":
            reader.bad(path + ("format",), f"format is {item['format']!r}; accepted: ND (plain row-major tensors)")
        for ret in returns:
            want = NAME_TO_CODE.get(ret.dtype_from, item.get(ret.dtype_from))
            if want is not None and item.get(ret.name, want) != want:
                reader.bad(
                    path + (ret.name,),
                    f"the row gives '{ret.name}' {item[ret.name]}, dtype_from ({ret.dtype_from}) gives {want}",
                )
        rows.append(DtypeRow(MappingProxyType({n: c for n, c in item.items() if n != "format"}), "ND"))
    return tuple(rows)


def read_impl(reader: OpReader, args: tuple[ArgSpec, ...]) -> Impl:
    section = reader.section("impl", required=True)
    reader.keys(section, ("tik", "ascendc", "golden", "tiling"), ("impl",))
    tik = section.get("tik", {})
    if reader.typed(tik, dict, ("impl", "tik"), "a mapping with the keys entry and kernel_name") is None:
        tik = {}
    reader.keys(tik, ("entry", "kernel_name"), ("impl", "tik"))
    entry = reader.string(tik, "entry", ("impl", "tik"))
    golden = reader.string(section, "golden", ("impl",))
    tiling = reader.string(section, "tiling", ("impl",))
    for value, path, pattern, form in (
        (entry, ("impl", "tik", "entry"), _ENTRY, "package.module:function"),
        (golden, ("impl", "golden"), _ENTRY, "package.module:function"),
        (tiling, ("impl", "tiling"), _MODULE, "package.module"),
    ):
        if not value:
            reader.bad(path, f'{".".join(path)} is missing; accepted: "{form}"')
        elif not pattern.match(value):
            reader.bad(path, f"{'.'.join(path)} is '{value}'; accepted: \"{form}\"")
    name = reader.string(tik, "kernel_name", ("impl", "tik"), reader.name)
    return Impl(entry, name, golden, tiling, read_ascendc(reader, section, args))


def read_ascendc(reader: OpReader, section: Mapping[str, Any], args: tuple[ArgSpec, ...]) -> AscendcImpl | None:
    """The op's Ascend C project, where it has one."""
    path: tuple[Any, ...] = ("impl", "ascendc")
    if "ascendc" not in section:
        return None
    form = "a mapping with the keys project, op, soc and perhaps when"
    value = reader.typed(section["ascendc"], dict, path, form)
    if value is None:
        return None
    reader.keys(value, ("project", "op", "soc", "when"), path)
    project, op = reader.string(value, "project", path), reader.string(value, "op", path)
    if not _MODULE.match(project):
        reader.bad((*path, "project"), f"impl.ascendc.project is '{project}'; accepted: \"package.folder\"")
    identifier(reader, op, (*path, "op"), "name of an OpDef")
    families = reader.typed(value.get("soc"), list, (*path, "soc"), "a list of chip families") or []
    for family in families:
        if family not in _ASCENDC_FAMILIES:
            reader.bad((*path, "soc"), f"impl.ascendc.soc names {family!r}; {nearest(str(family), _ASCENDC_FAMILIES)}")
    when = reader.expression(value["when"], (*path, "when")) if "when" in value else None
    if when is not None:
        optional = {arg.name for arg in args if arg.is_tensor and arg.optional}
        check_names(reader, when, {arg.name for arg in args if not arg.is_tensor}, optional, (*path, "when"))
        if when.dtypes:
            reader.bad((*path, "when"), f"'{when.text}' asks for a dtype; accepted: attributes and present()")
    return AscendcImpl(project, op, tuple(str(family).removeprefix("Ascend") for family in families), when)


def read_target(reader: OpReader) -> Target:
    section = reader.section("target", required=True)
    reader.keys(section, ("soc", "deterministic"), ("target",))
    result = {}
    socs = reader.typed(section.get("soc", {}), dict, ("target", "soc"), "a mapping from chip to {dtypes: [..]}") or {}
    if not socs:
        reader.bad(("target",), "target.soc names no chip; accepted: at least one, such as Ascend910A: {dtypes: [F16]}")
    for soc, value in socs.items():
        path: tuple[Any, ...] = ("target", "soc", soc)
        if reader.typed(value, dict, path, "a mapping with the key dtypes") is None:
            continue
        reader.keys(value, ("dtypes",), path)
        codes = reader.typed(value.get("dtypes"), list, path + ("dtypes",), "a list of dtype codes") or []
        for code in codes:
            if code not in tuple(CODE_TO_NAME):
                reader.bad(path, f"dtype code {code!r} of {soc}; {nearest(str(code), CODE_TO_NAME)}")
        result[soc] = tuple(str(code) for code in codes)
    deterministic = section.get("deterministic", True)
    if reader.typed(deterministic, bool, ("target", "deterministic"), "True or False") is None:
        deterministic = True
    return Target(MappingProxyType(result), deterministic)


def read_accuracy(reader: OpReader) -> Any:
    section = reader.section("accuracy")
    reader.keys(section, ("standard",) + tuple(_ACCURACY_NAMES), ("accuracy",))
    if section.get("standard", "mixed") != "mixed":
        reader.bad(("accuracy", "standard"), f"standard is {section['standard']!r}; accepted: mixed")
    result = dict(DEFAULT_TOLERANCE)
    for short, name in _ACCURACY_NAMES.items():
        path: tuple[Any, ...] = ("accuracy", short)
        value = reader.typed(section.get(short, {}), dict, path, "a mapping such as {rtol: 0.001, atol: 0.001}") or {}
        reader.keys(value, ("rtol", "atol", "worst", "matched", "rms"), path)
        numbers = {}
        for key, number in value.items():
            if isinstance(number, (int, float)) and not isinstance(number, bool) and number >= 0:
                numbers[key] = float(number)
            else:
                reader.bad(path + (key,), f"{key} is {number!r}; accepted: a number >= 0 (YAML wants 1.0e-3, not 1e-3)")
        merged = {**vars(DEFAULT_TOLERANCE[name]), **{k: v for k, v in numbers.items() if k in vars(result[name])}}
        result[name] = Tolerance(**merged)
    return MappingProxyType(result)


def read_status(reader: OpReader) -> Any:
    section = reader.section("status")
    for key, value in section.items():
        reader.typed(value, int, ("status", key), "an aclnn status code (an int)")
    return MappingProxyType(dict(section))


def read_cases(reader: OpReader, args: tuple[ArgSpec, ...]) -> tuple[Case, ...]:
    symbols = {dim.symbol for arg in args for dim in arg.shape if dim.symbol}
    attributes = {arg.name for arg in args if not arg.is_tensor}
    optional = {arg.name for arg in args if arg.is_tensor and arg.optional}
    cases: list[Case] = []
    value = reader.typed(reader.raw.get("cases", []), list, ("cases",), "a list of cases") or []
    for i, item in enumerate(value):
        path: tuple[Any, ...] = ("cases", i)
        if reader.typed(item, dict, path, "a mapping such as {name: small, B: 1, dtype: F16}") is None:
            continue
        reader.keys(item, ("name", "dtype", "present") + tuple(sorted(symbols | attributes)), path)
        name, dtype = reader.string(item, "name", path), reader.string(item, "dtype", path)
        if not name or name in [case.name for case in cases]:
            reader.bad(path, f"case name '{name}'; accepted: a name of its own")
        if "dtype" not in item:
            reader.bad(path, f"case '{name}' has no dtype; accepted: dtype: one of {', '.join(CODE_TO_NAME)}")
        elif dtype not in CODE_TO_NAME:
            reader.bad(path, f"case '{name}': dtype code is {dtype!r}; {nearest(dtype, CODE_TO_NAME)}")
        present = reader.typed(item.get("present", []), list, path + ("present",), "a list of optional tensors") or []
        for tensor in present:
            if tensor not in tuple(optional):
                reader.bad(
                    path + ("present",),
                    f"case '{name}': '{tensor}' is no optional tensor; {nearest(str(tensor), sorted(optional))}",
                )
        sizes = {
            key: size
            for key, size in item.items()
            if key in symbols and reader.typed(size, int, path + (key,), "an int") is not None
        }
        attrs = {key: attr for key, attr in item.items() if key in attributes}
        cases.append(Case(name, dtype, MappingProxyType(sizes), MappingProxyType(attrs), tuple(present)))
    return tuple(cases)
