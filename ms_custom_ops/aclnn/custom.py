# SPDX-License-Identifier: Apache-2.0
"""Ops of an Ascend C project through aclnn in C: their parameters, as CANN generates them, and plans of their calls.

Kernels are compiled and tiling is done here, at the first call of its kind; C launches what the plan names.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ms_custom_ops.aclnn.status import StatusError
from ms_custom_ops.aclnn.tensors import Shaped
from ms_custom_ops.ascendc import compile as compiler
from ms_custom_ops.ascendc import load_project
from ms_custom_ops.ascendc.arguments import descriptor_words
from ms_custom_ops.ascendc.definition import DYNAMIC, NUMBER
from ms_custom_ops.ascendc.definition import Attribute as AttributeDef
from ms_custom_ops.ascendc.definition import Param as ParamDef
from ms_custom_ops.ascendc.op import AscendcOp, Launch
from ms_custom_ops.ascendc.table import Places
from ms_custom_ops.engine import native
from ms_custom_ops.errors import AscendcError, describe

MARKS = (
    "kInput", "kOutput", "kInts", "kInt", "kFloat", "kBool", "kText", "kFloats", "kBools", "kInputs", "kOutputs",
)  # fmt: skip
"""Types of parameters, by their numbers in csrc/acl/ops.h."""
C_TYPES = {
    "kInput": "const aclTensor*", "kOutput": "const aclTensor*", "kInts": "const aclIntArray*", "kInt": "int64_t",
    "kFloat": "double", "kBool": "bool", "kText": "char*", "kFloats": "const aclFloatArray*",
    "kBools": "const aclBoolArray*", "kInputs": "const aclTensorList*", "kOutputs": "const aclTensorList*",
}  # fmt: skip
_ATTRIBUTES = ("kBool", "kInt", "kFloat", "kText", "kInts", "kFloats", "kBools")  # by kind; lists of lists have none
_SOURCES = (".cpp", ".cc", ".cxx", ".h", ".hpp", ".cce", ".inc")
_LIST_DTYPES = ("int64", "int32")


@dataclass(frozen=True)
class Parameter:
    """One parameter of the C function. ``source``: the input, attribute or output of the OpDef that it is."""

    name: str
    c_name: str
    mark: str
    optional: bool
    source: ParamDef | AttributeDef

    @property
    def c_type(self) -> str:
        """Its type in C; what is read and written is no const tensor."""
        written = self.c_name.endswith("Ref") and self.mark in ("kInput", "kInputs")
        return C_TYPES[self.mark].removeprefix("const ") if written else C_TYPES[self.mark]


def camel(name: str) -> str:
    """dst_x -> dstX."""
    head, *rest = [part for part in name.split("_") if part] or [name]
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def parameters(op: AscendcOp) -> tuple[Parameter, ...]:
    """Inputs, attributes, outputs; an output of an input's name is that parameter.

    Raises:
        AscendcError: lists of lists, or values that no array of C holds.
    """
    found: list[Parameter] = []
    changed = op.definition.in_place
    for p in op.inputs:
        if p.reads_values and not any(NUMBER[name] in p.dtypes for name in _LIST_DTYPES):
            raise _refused(op, f"input {p.name}", "read by the host, of other values than integers", "int32 or int64")
        name = camel(p.name) + ("Ref" if p.name in changed else "Optional" if p.optional else "")
        mark = "kInts" if p.reads_values else "kInputs" if p.option == DYNAMIC else "kInput"
        found.append(Parameter(p.name, name, mark, p.optional, p))
    for a in op.definition.attributes:
        if a.kind >= len(_ATTRIBUTES):
            raise _refused(op, f"attribute {a.name}", "a list of lists", "a number, a text, or a list of numbers")
        mark = _ATTRIBUTES[a.kind]
        listed = not a.required and mark in ("kText", "kInts", "kFloats", "kBools")
        found.append(Parameter(a.name, camel(a.name) + ("Optional" if listed else ""), mark, listed, a))
    outputs = [p for p in op.outputs if p.name not in changed]
    for p in outputs:
        name = "out" if len(op.outputs) == 1 else camel(p.name) + "Out"
        found.append(Parameter(p.name, name, "kOutputs" if p.option == DYNAMIC else "kOutput", False, p))
    return tuple(found)


def _refused(op: AscendcOp, what: str, given: str, accepted: str) -> AscendcError:
    at = f"{op.definition.file}:{op.definition.line}: "
    return AscendcError(at + describe(op.name, what, given, f"{accepted}; from Python it runs (docs/ascendc.md)"))


@functools.lru_cache(maxsize=64)
def op_of(project: str, soc: str, entry: str) -> AscendcOp:
    """The op of a project whose kernel is called ``entry``. Errors of :func:`ms_custom_ops.ascendc.load_project`."""
    ops = load_project(project, soc)
    for op in ops.all().values():
        if op.definition.entry == entry:
            return op
    raise AscendcError(describe("aclnn", "op", entry, ", ".join(op.definition.entry for op in ops.values())))


def plan_lines(op: AscendcOp, project: str, values: Sequence[Any]) -> list[str]:
    """Lines of the plan of a call, behind its status. Errors of the op, StatusError for outputs that do not fit."""
    params = parameters(op)
    given = {p.name: value for p, value in zip(params, values, strict=True)}
    tensors = [_tensor(p, given[p.name]) for p in op.inputs]
    arrays = [_values(p, given[p.name]) for p in op.inputs]
    named = {a.name: given[a.name] for a in op.definition.attributes if given[a.name] is not None}
    launch = op.launch(
        [_shapes(x) for x in tensors],
        [_dtypes(op, p, x) for p, x in zip(op.inputs, tensors, strict=True)],
        op.attribute_values(named),
        arrays if any(x is not None for x in arrays) else (),
        None if op.definition.infer_shape else _out_shapes(op, given),
    )
    if any(launch.init.values()):
        raise _refused(op, "InitValue", str(next(filter(None, launch.init.values()))), "outputs that start as zeros")
    places = _numbers(params, values)
    outputs = _outputs(op, launch, given)
    files = "\n".join(f"{digest} {path}" for path, digest in _files(Path(project))).encode()
    lines = [f"workspace {launch.tiling.workspace}", f"files {len(files)}", files.decode()]
    lines += _launch(launch, tensors)
    constants = 0
    for p, entry, array in zip(op.inputs, tensors, arrays, strict=True):
        for item, x in enumerate(_items(entry)):
            source = f"p{places[p.name] + item}"
            if array is not None:
                lines.append(" ".join(["constant", _shape(x), *map(str, array.tolist())]))
                source, constants = f"c{constants}", constants + 1
            lines.append(f"input {source} {_shape(x)} 0")
    for number, (name, item, x) in enumerate(outputs):
        lines += [f"result {_shape(x)}", f"output p{places[name] + item} r{number} {_shape(x)} 0"]
    return lines


def _items(entry: Any) -> list[Any]:
    """Tensors of an input or output: those of a list, one, or none."""
    return entry if isinstance(entry, list) else [] if entry is None else [entry]


def _numbers(params: Sequence[Parameter], values: Sequence[Any]) -> dict[str, int]:
    """Parameter -> its number in C, where each tensor of a list is one (csrc/acl/custom.cc)."""
    found, at = {}, 0
    for p, value in zip(params, values, strict=True):
        found[p.name] = at
        at += len(value) if p.mark in ("kInputs", "kOutputs") else 1
    return found


def _shapes(entry: Any) -> Any:
    return [x.shape for x in entry] if isinstance(entry, list) else None if entry is None else entry.shape


def _dtypes(op: AscendcOp, p: ParamDef, entry: Any) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(x.dtype for x in _items(entry)))
    if len(found) > 1:
        raise StatusError("invalid_parameter", describe(op.name, p.name, f"a list of {', '.join(found)}", "one dtype"))
    return found


def _out_shapes(op: AscendcOp, given: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """Of outputs whose shapes no function of the project tells."""
    for p in op.outputs:
        if p.option == DYNAMIC:
            raise _refused(op, f"output {p.name}", "a list without SetInferShape", "an op that infers shapes")
    return [given[p.name].shape for p in op.outputs]


def _tensor(p: ParamDef, value: Any) -> Any:
    """An input; integers that the host reads are a tensor of the first dtype that the OpDef has for them."""
    if value is None or not p.reads_values:
        return value
    return Shaped((len(value),), next(name for name in _LIST_DTYPES if NUMBER[name] in p.dtypes))


def _values(p: ParamDef, value: Any) -> np.ndarray | None:
    tensor = _tensor(p, value)
    return np.array(value, tensor.dtype) if p.reads_values and tensor is not None else None


def _outputs(op: AscendcOp, launch: Launch, given: Mapping[str, Any]) -> list[tuple[str, int, Shaped]]:
    """Parameter, place in its list and form of each output of a launch; StatusError where a tensor has another."""
    found = []
    forms = iter(launch.outputs)
    for p, group in zip(op.outputs, launch.groups, strict=True):
        tensors = _items(given[p.name])
        if len(tensors) != (group or 1):
            accepted = f"a list of {group}, as the first list of inputs"
            raise StatusError("invalid_parameter", describe(op.name, p.name, f"a list of {len(tensors)}", accepted))
        for item, x in enumerate(tensors):
            shape, dtype = next(forms)
            name = f"{p.name}[{item}]" if group else p.name
            if x.dtype != dtype:
                raise StatusError("invalid_parameter", describe(op.name, f"dtype of {name}", x.dtype, dtype))
            if x.shape != tuple(shape):
                raise StatusError("invalid_parameter", describe(op.name, name, f"of shape {x.shape}", tuple(shape)))
            found.append((p.name, item, Shaped(tuple(shape), dtype)))
    return found


def _shape(x: Shaped) -> str:
    return " ".join([x.dtype, str(len(x.shape)), *map(str, x.shape)])


def _launch(launch: Launch, tensors: Sequence[Any]) -> list[str]:
    """``launch <numbers> <bytes of tiling data in hex>``, the tiling data, the libraries, each behind its length."""
    there = [number for number, entry in enumerate(tensors) for _ in _items(entry)]
    places = Places(there, launch)
    slots = [(-1, range(0)) if slot is None else places.of(*slot) for slot in launch.slots]
    shapes = [x.shape for entry in tensors for x in _items(entry)] + [shape for shape, _ in launch.outputs]
    lists = []
    for at, items in slots:
        words = descriptor_words([shapes[at + item] for item in items]) if items else []
        lists += [len(items), len(words), *words]
    copies = [start for number in range(len(launch.groups)) for start in places.starts(number)]
    record = launch.kernel.record(launch.tiling.block_dim, launch.tiling.tiling_key)
    key, tiling = launch.tiling.tiling_key, launch.tiling.data.hex()
    scopes = [record.scope_bytes[i] for i in range(8)]
    chip = [record.saturate, record.split, record.arch, *scopes]
    counts = [launch.user_workspace, len(there), len(launch.outputs), len(slots), *(at for at, _ in slots)]
    numbers = [launch.tiling.block_dim, key >> 32, key & 0xFFFFFFFF, *chip, *counts, *copies, *lists, len(tiling)]
    libraries = [str(path) for path in launch.kernel.libraries]
    text = "launch " + " ".join(map(str, numbers)) + f"\n{tiling} {len(libraries)}"
    return [text + "".join(f" {len(path.encode())}\n{path}" for path in libraries)]


def _files(project: Path) -> list[tuple[Path, str]]:
    """Sources of the project, what compiles it and the engine, with their SHA-256."""
    package = Path(__file__).parents[1]
    paths = [path for path in sorted(project.rglob("*")) if path.suffix in _SOURCES and path.is_file()]
    paths += [path for room in ("aclnn", "ascendc") for path in sorted((package / room).glob("*.py"))]
    return [(path, hashlib.sha256(path.read_bytes()).hexdigest()) for path in [*paths, native.library_path()]]


def library_source(ops: Mapping[str, AscendcOp], project: Path) -> str:
    """C++ of ``libcust_opapi.so``: the tables of the ops and their functions."""
    lines = ["// SPDX-License-Identifier: Apache-2.0", "// generated by ms-custom-ops aclnn --project; do not edit",
             '#include "aclnn/ms_custom_ops.h"', ""]  # fmt: skip
    lines += [f'#include "aclnn_{op.definition.entry}.h"' for op in ops.values()]
    for name, op in ops.items():
        params = parameters(op)
        rows = [f'    {{"{p.name}", {MARKS.index(p.mark)}, {int(p.optional)}}},' for p in params]
        where = str(project).replace("\\", "\\\\").replace('"', '\\"')
        given = ", ".join(_argument(p) for p in params)
        lines += [
            "", f"static const aclmcoParam k{name}Params[] = {{", *rows, "};",
            f'static const aclmcoOp k{name} = {{sizeof(aclmcoOp), "{name}", "cust_{op.definition.entry}", "{where}", '
            f"k{name}Params, {len(params)}}};",
            'extern "C" {', first(name, params, " {"),
            f"  const aclmcoArgument arguments[] = {{{given}}};",
            f"  return aclmcoFirstPhase(&k{name}, arguments, workspaceSize, executor);", "}",
            second(name, " {"),
            f"  return aclmcoSecondPhase(&k{name}, workspace, workspaceSize, executor, stream);", "}",
            '}  // extern "C"',
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _argument(p: Parameter) -> str:
    if p.mark in ("kInt", "kBool"):
        return f"{{nullptr, {p.c_name}, 0}}"
    return f"{{nullptr, 0, {p.c_name}}}" if p.mark == "kFloat" else f"{{{p.c_name}, 0, 0}}"


def first(name: str, params: Sequence[Parameter], end: str = ";") -> str:
    """Prototype of the first phase."""
    own = [f"{p.c_type} {p.c_name}" for p in params]
    listed = ",\n    ".join([*own, "uint64_t* workspaceSize", "aclOpExecutor** executor"])
    return f"ACL_FUNC_VISIBILITY aclnnStatus aclnn{name}GetWorkspaceSize(\n    {listed}){end}"


def second(name: str, end: str = ";") -> str:
    """Prototype of the second phase."""
    return (
        f"ACL_FUNC_VISIBILITY aclnnStatus aclnn{name}(void* workspace, uint64_t workspaceSize, "
        f"aclOpExecutor* executor,\n    aclrtStream stream){end}"
    )


def library_header(op: AscendcOp) -> str:
    """``aclnn_<op>.h``."""
    guard = f"ACLNN_{op.definition.entry.upper()}_H_"
    return "\n".join(
        ["// generated by ms-custom-ops aclnn --project; do not edit", f"#ifndef {guard}", f"#define {guard}", "",
         '#include "aclnn/aclnn_base.h"', "", "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
         first(op.name, parameters(op)), second(op.name), "", "#ifdef __cplusplus", "}", "#endif", "",
         f"#endif  // {guard}"]
    ) + "\n"  # fmt: skip


def compile_library(source: Path, include: Path, root: Path, made: Path) -> None:
    """Builds ``made``. ``include``: headers of the ops; ``root``: the folder of acl and aclnn.

    Raises:
        AscendcBuildError: no compiler, or what it refuses.
    """
    command = [compiler.compiler(), "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", str(source),
               f"-I{include}", f"-I{root / 'include'}", f"-L{root / 'lib64'}", "-lascendcl",
               f"-Wl,-rpath,{root / 'lib64'}", "-Wl,-soname,libcust_opapi.so", "-o", str(made)]  # fmt: skip
    compiler.run(command, compiler.Unit("", source, (), "", (), ()))
