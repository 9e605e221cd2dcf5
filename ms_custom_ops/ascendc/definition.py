# SPDX-License-Identifier: Apache-2.0
"""What the op_host of a project says about an op: its OpDef, its tiling structures."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ms_custom_ops.errors import OpDtypeError, describe

# Number of ge::DataType -> our name, name in kernels, name in the manual.
DTYPES = {
    0: ("float32", "float", "DT_FLOAT"),
    1: ("float16", "half", "DT_FLOAT16"),
    2: ("int8", "int8_t", "DT_INT8"),
    3: ("int32", "int32_t", "DT_INT32"),
    4: ("uint8", "uint8_t", "DT_UINT8"),
    6: ("int16", "int16_t", "DT_INT16"),
    7: ("uint16", "uint16_t", "DT_UINT16"),
    8: ("uint32", "uint32_t", "DT_UINT32"),
    9: ("int64", "int64_t", "DT_INT64"),
    10: ("uint64", "uint64_t", "DT_UINT64"),
    12: ("bool", "bool", "DT_BOOL"),
    27: ("bfloat16", "bfloat16_t", "DT_BF16"),
}
NUMBER = {name: number for number, (name, _, _) in DTYPES.items()}
FORMAT_ND = 2
REQUIRED, DYNAMIC = 2, 3  # ops::Option
KINDS = ("bool", "int", "float", "str", "list of int", "list of float", "list of bool", "list of lists of int")


def config_name(family: str) -> str:
    """What AddConfig calls a chip family."""
    return "ascend910" if family == "910A" else f"ascend{family.lower()}"


def snake_case(op: str) -> str:
    """File and function name of an op type: AddCustom add_custom, Conv2DCustom conv2_d_custom."""
    return re.sub(r"(?<=[^A-Z_])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", op).lower()


@dataclass(frozen=True)
class Param:
    """An input or output. ``dtypes``: numbers, one for each combination (of any combination where ``listed``)."""

    name: str
    option: int
    reads_values: bool
    dtypes: tuple[int, ...]
    formats: tuple[int, ...]
    listed: bool
    follows: str
    init: int | None
    depends_on_compute: bool

    @property
    def optional(self) -> bool:
        return self.option not in (REQUIRED, DYNAMIC)


@dataclass(frozen=True)
class Attribute:
    name: str
    kind: int  # index of KINDS
    required: bool
    default: Any


@dataclass(frozen=True)
class TilingStruct:
    """A structure that a tiling function fills. ``op``: the op, or the op and a tiling key (``Name_17``)."""

    op: str
    layout: Mapping[str, Any]


@dataclass(frozen=True)
class Definition:
    """One op. ``infer_shape``, ``infer_dtype``, ``tiling``: where the functions are in the library, 0 for none."""

    name: str
    file: str
    line: int
    inputs: tuple[Param, ...]
    outputs: tuple[Param, ...]
    attributes: tuple[Attribute, ...]
    configs: Mapping[str, tuple[Mapping[str, Param], Mapping[str, Param]]]
    infer_shape: int
    infer_dtype: int
    same_as_first: bool
    tiling: int

    @property
    def entry(self) -> str:
        """Name of the kernel function, and of its file."""
        return snake_case(self.name)

    @property
    def in_place(self) -> dict[str, int]:
        """Outputs that are inputs, by the number of the input."""
        names = [param.name for param in self.inputs]
        return {param.name: names.index(param.name) for param in self.outputs if param.name in names}

    def for_soc(self, family: str) -> tuple[tuple[Param, ...], tuple[Param, ...]]:
        """Inputs and outputs as the definition has them on a chip family."""
        inputs, outputs = self.configs.get(config_name(family), ({}, {}))
        return (
            tuple(inputs.get(param.name, param) for param in self.inputs),
            tuple(outputs.get(param.name, param) for param in self.outputs),
        )


def read(described: Mapping[str, Any]) -> tuple[dict[str, Definition], list[TilingStruct]]:
    """Definitions and structures out of what the library tells."""
    ops = {}
    for op in described["ops"]:
        depends = set(op["depends"])
        params = _params(op["inputs"], depends)
        ops[op["name"]] = Definition(
            name=op["name"],
            file=op["file"],
            line=op["line"],
            inputs=params,
            outputs=_params(op["outputs"]),
            attributes=tuple(Attribute(a["name"], a["kind"], a["required"], a["default"]) for a in op["attributes"]),
            configs={soc: (_named(c["inputs"]), _named(c["outputs"])) for soc, c in op["configs"].items()},
            infer_shape=op["infer_shape"],
            infer_dtype=op["infer_data_type"],
            same_as_first=op["same_as_first"],
            tiling=op["tiling"],
        )
    return ops, [TilingStruct(item["op"], item["layout"]) for item in described["classes"]]


def _named(listed: Sequence[Mapping[str, Any]]) -> dict[str, Param]:
    return {param.name: param for param in _params(listed)}


def _params(listed: Sequence[Mapping[str, Any]], depends: Collection[int] = ()) -> tuple[Param, ...]:
    return tuple(
        Param(
            name=p["name"],
            option=p["option"],
            reads_values=bool(p["depend"]) or number in depends,
            dtypes=tuple(p["dtypes"]),
            formats=tuple(p["formats"]),
            listed=p["listed"],
            follows=p["follows"],
            init=p["init"] if p["has_init"] else None,
            depends_on_compute=p["depends_on_compute"],
        )
        for number, p in enumerate(listed)
    )


def _list_of(param: Param, others: Mapping[str, Param]) -> Param:
    """The parameter whose dtypes count: the one that is followed, if any."""
    seen = {param.name}
    while param.follows in others and param.follows not in seen:
        seen.add(param.follows)
        param = others[param.follows]
    return param


def combination(
    op: Definition, inputs: Sequence[Param], outputs: Sequence[Param], given: Sequence[Sequence[str]]
) -> tuple[list[list[str]], list[str], list[str]]:
    """dtypes of inputs and outputs for the dtypes ``given`` (names; several where uint16 may stand for bfloat16), and
    one for each input, absent ones too: a kernel is built for a combination, whichever optional inputs a call has.

    Raises OpDtypeError with the combinations that the definition has.
    """
    by_name = {param.name: param for param in (*outputs, *inputs)}
    sides = [[_list_of(param, by_name) for param in side] for side in (inputs, outputs)]
    count = max((len(p.dtypes) for side in sides for p in side if not p.listed), default=1)
    for row in range(count):
        chosen = []
        for param, names in zip(sides[0], given, strict=True):
            allowed = param.dtypes if param.listed else param.dtypes[row : row + 1]
            fitting = [name for name in names if NUMBER.get(name) in allowed or not param.dtypes]
            if names and not fitting:
                break
            chosen.append(fitting)
        else:
            rows = [[p.dtypes[row if row < len(p.dtypes) else 0] if p.dtypes else -1 for p in side] for side in sides]
            ins, outs = ([DTYPES[n][0] if n in DTYPES else "" for n in side] for side in rows)
            return chosen, outs, [names[0] if names else name for names, name in zip(chosen, ins, strict=True)]
    shown = "; ".join(
        ", ".join(f"{p.name} {_dtype_text(sides[0][i], row)}" for i, p in enumerate(inputs)) for row in range(count)
    )
    what = ", ".join(f"{p.name} {'/'.join(names) or 'absent'}" for p, names in zip(inputs, given, strict=True))
    raise OpDtypeError(describe(op.name, "dtypes", what, f"{shown} ({op.file}:{op.line})"))


def _dtype_text(param: Param, row: int) -> str:
    numbers = param.dtypes if param.listed else param.dtypes[row : row + 1]
    return "/".join(DTYPES[n][0] if n in DTYPES else f"DataType {n}" for n in numbers) or "any"


def kernel_header(op: Definition, dtypes: Mapping[str, str], structs: Sequence[TilingStruct], key: int) -> str:
    """What the build for the chip tells a kernel: DTYPE_X, ORIG_DTYPE_X, FORMAT_X, and the tiling structures."""
    lines = ["#pragma once", '#include "kernel_operator.h"', '#include "kernel_tiling/kernel_tiling.h"']
    for name, dtype in dtypes.items():
        upper = name.upper()
        if dtype:
            number = NUMBER[dtype]
            lines += [
                f"#define DTYPE_{upper} {DTYPES[number][1]}",
                f"#define ORIG_DTYPE_{upper} {number}",
                f"#define FORMAT_{upper} FORMAT_ND",
            ]
    lines += [f"#ifndef {text}\n#define {text} {number}\n#endif" for number, (_, _, text) in DTYPES.items()]
    written: set[str] = set()
    mine = struct_of(op, structs, key)
    for struct in structs:
        if struct is not mine:
            continue
        lines += _struct(struct.layout, written)
        name = struct.layout["name"]
        lines += [f"namespace optiling {{ using ::{name}; }}", f"using {DEFAULT_STRUCT} = ::{name};"]
    return "\n".join(lines) + "\n"


DEFAULT_STRUCT = "TILING_STRUCT_OF_A_HOST_HEADER_GIVEN_TO_BUILD"


def struct_of(op: Definition, structs: Sequence[TilingStruct], key: int) -> TilingStruct | None:
    """The structure that the tiling key of an op stands for."""
    by_op = {struct.op: struct for struct in structs}
    return by_op.get(f"{op.name}_{key}") or by_op.get(op.name)


def keyed(op: Definition, structs: Sequence[TilingStruct]) -> bool:
    """Whether tiling keys of an op have structures of their own."""
    return any(re.fullmatch(rf"{re.escape(op.name)}_\d+", struct.op) for struct in structs)


def _struct(layout: Mapping[str, Any], written: set[str]) -> list[str]:
    """A plain struct and those inside of it, with the host's layout checked."""
    name = layout["name"]
    if name in written:
        return []
    written.add(name)
    before: list[str] = []
    lines = [f"struct alignas(8) {name} {{"]
    checks = []
    for field in layout["fields"]:
        kind = field["type"].split("::")[-1] if field["nested"] else field["type"]
        if field["nested"] and field["nested"]["name"] not in LIBRARY_STRUCTS:
            before += _struct(field["nested"], written)
        align = "alignas(8) " if field["nested"] else ""
        count = f"[{field['count']}]" if field["count"] else ""
        lines.append(f"  {align}{kind} {field['name']}{count};")
        checks.append(f'static_assert(offsetof({name}, {field["name"]}) == {field["offset"]}, "layout of the host");')
    return [*before, *lines, "};", *checks, f'static_assert(sizeof({name}) == {layout["size"]}, "layout of the host");']


LIBRARY_STRUCTS = set(
    "TCubeTiling SoftMaxTiling LayerNormTiling LayerNormSeparateTiling RmsNormTiling TopkTiling "
    "ConfusionTransposeTiling PadTiling UnPadTiling LayerNormGradTiling LayerNormGradBetaTiling DeepNormTiling "
    "GroupNormTiling BatchNormTiling LogSoftMaxTiling".split()
)
"""Structures of the library that the kernel's headers define themselves."""
