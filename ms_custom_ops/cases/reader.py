# SPDX-License-Identifier: Apache-2.0
"""Reads a case file in the form of ATK, the operator test tool of the CANN ecosystem, and what we add to it.

Everything that is wrong with a file is collected and raised as one error, each finding with file:line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ms_custom_ops.cases.base import case_data
from ms_custom_ops.cases.compare import COMPARATORS
from ms_custom_ops.cases.model import CaseFile, CaseFileError, InputCases, Standard
from ms_custom_ops.registry import Registry, load_registry
from ms_custom_ops.registry.spec import OpSpec
from ms_custom_ops.registry.yaml_source import Findings, Source, TooManyFindings, nearest, read_source

#: ATK's names of dtypes, and the full ones.
DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
DTYPES.update({name: name for name in (*DTYPES.values(), "int8", "uint8", "int16", "uint16", "int32", "uint32",
                                       "int64", "bool")})  # fmt: skip
TOP = ("api", "name", "dtype_numbers", "generate", "standard", "inputs")
#: Keys of ATK that say how ATK calls an op or what else it measures.
TOP_UNUSED = ("api_type", "aclnn_api_type", "version", "aclnn_name", "extra_numbers")
FORMS = ("function", "primitive")
_GENERATE = ("symbols", "shapes", "random")
_MAX_BYTES = 1 << 20  # files of ATK list their values


class CaseReader:
    """Values of one file at key paths; what is wrong goes to ``findings``, reading goes on."""

    def __init__(self, source: Source, findings: Findings):
        self.source, self.findings = source, findings
        self.unused: list[str] = []

    def bad(self, path: tuple[Any, ...], text: str) -> None:
        self.findings.add(self.source.where(*path), f"cases: {text}")

    def keys(self, value: Any, known: Sequence[str], path: tuple[Any, ...], unused: Sequence[str] = ()) -> dict:
        """``value`` if it is a mapping, else {} and a finding; unknown keys are findings."""
        if not isinstance(value, dict):
            self.bad(path, f"{dotted(path)} is {value!r}; accepted: a mapping with the keys {', '.join(known)}")
            return {}
        for key in value:
            if key in unused:
                self.unused.append(dotted((*path, key)))
            elif key not in known:
                self.bad((*path, key), f"unknown key '{key}' in {dotted(path)}; {nearest(key, (*known, *unused))}")
        return value

    def items(self, value: Any, path: tuple[Any, ...], accepted: str) -> list:
        """``value`` if it is a list, else [] and a finding."""
        if isinstance(value, list):
            return value
        self.bad(path, f"{dotted(path)} is {value!r}; accepted: a list of {accepted}")
        return []

    def values(self, value: Any, path: tuple[Any, ...], accepted: str) -> list:
        """The list under ``values``, ATK's form of a choice."""
        section = self.keys(value, ("values",), path, unused=("weights",))
        if isinstance(value, dict) and "values" not in section:
            self.bad(path, f"{dotted(path)} has no values; accepted: a list of {accepted}")
        return self.items(section["values"], (*path, "values"), accepted) if "values" in section else []

    def whole(self, value: Any, path: tuple[Any, ...], low: int) -> int | None:
        """An int of at least ``low``."""
        if isinstance(value, int) and not isinstance(value, bool) and value >= low:
            return value
        self.bad(path, f"{dotted(path)} is {value!r}; accepted: an int of {low} or more")
        return None

    def number(self, value: Any, path: tuple[Any, ...]) -> float | None:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        self.bad(path, f"{dotted(path)} is {value!r}; accepted: a number (YAML wants 1.0e-3, not 1e-3)")
        return None

    def dtype(self, value: Any, path: tuple[Any, ...]) -> str | None:
        if isinstance(value, str) and value in DTYPES:
            return DTYPES[value]
        self.bad(path, f"dtype {value!r}; {nearest(str(value), DTYPES)}")
        return None


def dotted(path: tuple[Any, ...]) -> str:
    """Key path as text."""
    return ".".join(map(str, path)) or "the file"


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
    from ms_custom_ops.cases.reader_inputs import read_inputs

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
    symbols, shapes, candidates = _generate(reader, data.get("generate", "default"), op, inputs)
    count = reader.whole(data.get("dtype_numbers", 0), ("dtype_numbers",), 0) or 0
    standards = _standards(reader, data.get("standard", {}))
    if not shapes and not count:
        reader.bad(("generate",), "no case: give generate.shapes, or dtype_numbers of 1 or more")
    if findings.items:
        raise _error(path, findings)
    return CaseFile(str(path), op, form, inputs, symbols, shapes, candidates, count, standards, tuple(reader.unused))


def _error(path: str | Path, findings: Findings) -> CaseFileError:
    return CaseFileError(f"cases: {len(findings.items)} finding(s) in {path}\n" + "\n".join(findings.items))


def _op(reader: CaseReader, name: Any, registry: Registry) -> OpSpec | None:
    if name not in registry.ops:
        reader.bad(("name",), f"name is {name!r}; accepted: an op, {nearest(str(name), registry.ops)}")
        return None
    return registry.ops[name]


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
    if value == "default":
        return known, (), {}
    if isinstance(value, str):
        reader.bad(("generate",), f"generate is '{value}', Python code of ATK; accepted: default, or a mapping with "
                   f"the keys {', '.join(_GENERATE)}")  # fmt: skip
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
    result = []
    for name, numbers in reader.keys(acc, tuple(COMPARATORS), ("standard", "acc")).items():
        if name in COMPARATORS:
            path: tuple[Any, ...] = ("standard", "acc", name)
            wanted = COMPARATORS[name].numbers
            if name == "single_bm":
                numbers = reader.keys(numbers, ("high_performance",), path).get("high_performance", {})
                path += ("high_performance",)
            result.append(Standard(name, _by_dtype(reader, numbers, wanted, path)))
    return tuple(result)


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
