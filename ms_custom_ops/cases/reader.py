# SPDX-License-Identifier: Apache-2.0
"""Reads a case file in the form of ATK, the operator test tool of the CANN ecosystem, and what we add to it.

A file that names Python code beside it, or a Triton kernel, is in the form of the operators' home: what such files say
beyond this reader (standards of ATK's own, attributes that only their code knows) becomes a note instead of a finding.

Everything that is wrong with a file is collected and raised as one error, each finding with file:line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ms_custom_ops.cases.base import case_data
from ms_custom_ops.cases.compare import COMPARATORS
from ms_custom_ops.cases.design import PREFIXES, read_design
from ms_custom_ops.cases.model import CaseFile, CaseFileError, InputCases, Standard
from ms_custom_ops.cases.names import DTYPES
from ms_custom_ops.cases.reader_inputs import read_inputs
from ms_custom_ops.cases.yaml_values import CaseReader, dotted
from ms_custom_ops.registry import Registry, load_registry
from ms_custom_ops.registry.spec import OpSpec
from ms_custom_ops.registry.yaml_source import Findings, TooManyFindings, nearest, read_source

TOP = ("api", "name", "dtype_numbers", "generate", "standard", "inputs")
#: Keys of ATK that say how ATK calls an op or what else it measures.
TOP_UNUSED = (
    "api_type", "aclnn_api_type", "triton_api_type", "fusion_api_type", "dist_api_type", "version", "aclnn_name",
    "triton_name", "extra_numbers", "expected_error_msg", "backward", "outputs", "fusion_mode", "method_inputs",
    "tensor_input", "shape_distributions",
)  # fmt: skip
FORMS = ("function", "primitive")
_SINGLE_MODES = ("high_performance", "high_precision")
_EXPONENT = re.compile(r"\d+(\.\d*)?[eE][-+]?\d+")
_GENERATE = ("symbols", "shapes", "random")
_MAX_BYTES = 1 << 20  # files of ATK list their values


def read_cases(path: str | Path, registry: Registry | None = None) -> CaseFile:
    """Reads ``path``; ``registry`` has the op it names (default: the installed ops).

    Raises:
        CaseFileError: with all findings, one per line, each with file:line.
    """
    findings = Findings()
    if not Path(path).is_file():
        raise CaseFileError(f"cases: {path} is no file; accepted: a YAML file")
    try:
        return _read(path, registry or load_registry(), findings)
    except TooManyFindings:
        raise _error(path, findings) from None


def _read(path: str | Path, registry: Registry, findings: Findings) -> CaseFile:
    source = read_source(Path(path), findings, _MAX_BYTES)
    if findings.items:
        # The reader of YAML speaks of op_info files, whose top level is ops.
        keys = f"a mapping with the keys {', '.join(TOP)}"
        for item in findings.items:
            del findings.entries[item]
            item = item.replace("a mapping from op name to op", keys).replace("duplicate op name", "duplicate key")
            findings.entries[item] = ""
        raise _error(path, findings)
    reader, data = CaseReader(source, findings), source.data
    reader.keys(data, TOP, (), TOP_UNUSED)
    op = _op(reader, data.get("name"), registry)
    if op is None:
        raise _error(path, findings)
    form = _form(reader, data.get("api"), op)
    inputs = read_inputs(reader, data.get("inputs"), op, form)
    design = read_design(reader, data, Path(path), tuple(reader.design_inputs)) if reader.upstream else None
    symbols, shapes, candidates = _generate(reader, data.get("generate", "default"), op, inputs)
    count = reader.whole(data.get("dtype_numbers", 0), ("dtype_numbers",), 0) or 0
    standards = _standards(reader, data.get("standard", {}))
    if not shapes and not count:
        reader.bad(("generate",), "no case: give generate.shapes, or dtype_numbers of 1 or more")
    if findings.items:
        raise _error(path, findings)
    if design is not None and data.get("api_type", "function") != "function":
        reader.unused.remove("api_type")  # it names the reference, or has a note of its own
    return CaseFile(str(path), op, form, inputs, symbols, shapes, candidates, count, standards, tuple(reader.unused),
                    design)  # fmt: skip


def _error(path: str | Path, findings: Findings) -> CaseFileError:
    return CaseFileError(f"cases: {len(findings.items)} finding(s) in {path}\n" + "\n".join(findings.items))


def _op(reader: CaseReader, name: Any, registry: Registry) -> OpSpec | None:
    """The op called ``name``, which may carry the prefix of its reference framework."""
    plain = [str(name).removeprefix(prefix) for prefix in ("", *PREFIXES)]
    found = next((n for n in plain if n in registry.ops), None)
    if found is None:
        reader.bad(("name",), f"name is {name!r}; accepted: an op, {nearest(str(name), registry.ops)}")
        return None
    return registry.ops[found]


def _form(reader: CaseReader, api: Any, op: OpSpec) -> str:
    """``api: pytorch``, ATK's usual one, means the function that users call."""
    has_function = bool(case_data(op).function)
    form = {None: "function" if has_function else "primitive", "pytorch": "function"}.get(api, api)
    if form not in FORMS or (form == "function" and not has_function):
        accepted = "function, primitive, pytorch (= function)" if has_function else f"primitive for {op.name}"
        reader.bad(("api",), f"api is {api!r}; accepted: {accepted}")
        return "primitive"
    return form


def _generate(
    reader: CaseReader, value: Any, op: OpSpec, inputs: tuple[InputCases, ...]
) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...], dict[str, tuple[int, ...]]]:
    given = [i.name for i in inputs]
    dims = [d.symbol for a in op.tensors if not a.optional or a.name in given for d in a.shape]
    known = tuple(name for name in dict.fromkeys(dims) if name and name not in op.symbols)
    if isinstance(value, str):  # default, or a class beside the file
        return known, (), {}
    section = reader.keys(value, _GENERATE, ("generate",))
    symbols = tuple(reader.items(section.get("symbols", list(known)), ("generate", "symbols"), "shape symbols"))
    if sorted(map(str, symbols)) != sorted(known):
        reader.bad(("generate", "symbols"), f"symbols are {', '.join(map(str, symbols))}; accepted: those of "
                   f"{op.name}, {', '.join(known)}, in any order")  # fmt: skip
        return known, (), {}
    shapes = []
    for i, row in enumerate(reader.items(section.get("shapes", []), ("generate", "shapes"), "lists of sizes")):
        where: tuple[Any, ...] = ("generate", "shapes", i)
        sizes = [reader.whole(size, where, 1) for size in reader.items(row, where, "sizes")]
        if isinstance(row, list) and len(sizes) != len(symbols):
            reader.bad(where, f"{dotted(where)} has {len(sizes)} sizes; accepted: {len(symbols)}, "
                       f"{', '.join(symbols)}")  # fmt: skip
        shapes.append(tuple(size for size in sizes if size is not None))
    candidates = {}
    for name, sizes in reader.keys(section.get("random", {}), symbols, ("generate", "random")).items():
        path: tuple[Any, ...] = ("generate", "random", name)
        found = [reader.whole(size, path, 1) for size in reader.items(sizes, path, "sizes")]
        candidates[name] = tuple(size for size in found if size is not None)
        if sizes == []:
            reader.bad(path, f"{dotted(path)} is empty; accepted: at least one size")
    return symbols, tuple(shapes), candidates


def _standards(reader: CaseReader, value: Any) -> tuple[Standard, ...]:
    acc = reader.keys(value, ("acc",), ("standard",), unused=("perf",)).get("acc", {})
    if isinstance(acc, str):
        acc = {acc: {}}
    if reader.upstream and isinstance(acc, dict):
        acc = _with_numbers(reader, acc)
    result = []
    for name, numbers in reader.keys(acc, tuple(COMPARATORS), ("standard", "acc")).items():
        if name in COMPARATORS:
            path: tuple[Any, ...] = ("standard", "acc", name)
            wanted = COMPARATORS[name].numbers
            if name == "single_bm":
                if isinstance(numbers, dict) and (reader.upstream or "type" in numbers):
                    nested = [mode for mode in _SINGLE_MODES if mode in numbers]
                    if not nested:
                        numbers = _flat_numbers(reader, numbers, path)
                        result.append(Standard(name, _by_dtype(reader, numbers, wanted, path)))
                        continue
                numbers = reader.keys(numbers, ("high_performance",), path).get("high_performance", {})
                path += ("high_performance",)
            result.append(Standard(name, _by_dtype(reader, numbers, wanted, path)))
    return tuple(result)


def _with_numbers(reader: CaseReader, acc: dict) -> dict:
    """Standards that say what they demand. The others have numbers of ATK's own, which are not published: a note, and
    the op's accuracy holds."""
    kept = {}
    for name, numbers in acc.items():
        given = numbers if isinstance(numbers, dict) else {}
        known = name in COMPARATORS
        if known and (not COMPARATORS[name].numbers or any(key != "type" for key in given)):
            kept[name] = numbers
        else:
            reader.unused.append(f"standard.acc.{name} (no numbers; the accuracy of the op holds)")
    return kept


def _flat_numbers(reader: CaseReader, numbers: dict, path: tuple[Any, ...]) -> dict[str, dict[str, Any]]:
    """``fp16_error``, ``fp16_eb``, .. beside ``type`` as numbers per dtype."""
    result: dict[str, dict[str, Any]] = {}
    for key, number in numbers.items():
        dtype, _, which = str(key).rpartition("_")
        if dtype in DTYPES and which in COMPARATORS["single_bm"].numbers:
            if isinstance(number, str) and _EXPONENT.fullmatch(number):  # YAML reads 1e-3 as text
                number = float(number)
            result.setdefault(dtype, {})[which] = reader.number(number, (*path, key)) or 0.0
        elif key == "type" and number in _SINGLE_MODES:
            continue
        else:
            accepted = f"type of {', '.join(_SINGLE_MODES)}, and fp32_error, fp32_eb, fp16_error, .."
            reader.bad((*path, key), f"{dotted((*path, key))} is {number!r}; accepted: {accepted}")
    return result


def _by_dtype(
    reader: CaseReader, value: Any, wanted: tuple[str, ...], path: tuple[Any, ...]
) -> dict[str, dict[str, float]]:
    section = {} if value is None else value
    if wanted and section == {}:
        reader.bad(path, f"{dotted(path)} has no numbers; accepted: {{fp32: {{{', '.join(wanted)}}}, ..}}")
    result: dict[str, dict[str, float]] = {}
    for dtype, numbers in reader.keys(section, tuple(DTYPES) if wanted else (), path).items():
        where = (*path, dtype)
        if dtype in DTYPES and wanted:
            found = reader.keys(numbers, wanted, where)
            read = {key: reader.number(found[key], (*where, key)) for key in wanted if key in found}
            for key in wanted:
                if found and key not in found:
                    reader.bad(where, f"{dotted(where)} has no {key}; accepted: {', '.join(wanted)}")
            result[DTYPES[dtype]] = {key: number for key, number in read.items() if number is not None}
    return result
