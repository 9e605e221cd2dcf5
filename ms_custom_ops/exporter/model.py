# SPDX-License-Identifier: Apache-2.0
"""What is exported: an op, its cases, and their names on the side of Ascend C."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ms_custom_ops.errors import ExportError
from ms_custom_ops.exporter.scopes import identifier
from ms_custom_ops.program import ir

DATA_TYPE = {
    "float16": "ge::DT_FLOAT16", "bfloat16": "ge::DT_BF16", "float32": "ge::DT_FLOAT", "int8": "ge::DT_INT8",
    "uint8": "ge::DT_UINT8", "int16": "ge::DT_INT16", "uint16": "ge::DT_UINT16", "int32": "ge::DT_INT32",
    "uint32": "ge::DT_UINT32", "int64": "ge::DT_INT64", "uint64": "ge::DT_UINT64", "bool": "ge::DT_BOOL",
}  # fmt: skip
CONFIG = {"910B": "ascend910b", "910_93": "ascend910_93", "310P": "ascend310p"}
"""Name of AddConfig by chip family."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a case."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Case:
    """A traced case. ``inputs`` and ``outputs`` are those that are there, in the Program's order."""

    name: str
    program: ir.Program
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Parameter:
    """An input or output of the OpDef."""

    name: str
    optional: bool = False


@dataclass(frozen=True)
class Attribute:
    """An attribute of the OpDef: "int", "float", "bool" or "str". ``runtime``: an InputScalar, any value of which fits
    every case."""

    name: str
    kind: str
    default: Any = None
    has_default: bool = False
    runtime: bool = False


@dataclass(frozen=True)
class Subject:
    """An op to export, for one chip. ``rows``: dtypes of inputs and outputs, by name, of every combination; ``origin``
    is what it was made from, for the README."""

    name: str
    soc: str
    family: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: tuple[Attribute, ...]
    rows: tuple[dict[str, str], ...]
    cases: tuple[Case, ...]
    origin: str
    op: str = ""
    """Name in the registry, "" of a kernel that is no op."""

    @property
    def type(self) -> str:
        """OpType."""
        return "".join(part[:1].upper() + part[1:] for part in identifier(self.name).split("_") if part)

    @property
    def in_place(self) -> tuple[str, ...]:
        """Outputs that are inputs too: one memory, which aclnn takes once."""
        names = [p.name for p in self.inputs]
        return tuple(p.name for p in self.outputs if p.name in names)

    @property
    def entry(self) -> str:
        """Name of the kernel and of its files, as msopgen makes it of the OpType."""
        return snake(self.type)


def snake(name: str) -> str:
    """``AddCustom`` as ``add_custom``, by the rule of msopgen."""
    found = re.sub(r"(?<=[^A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return found.lower()


def check(subject: Subject) -> None:
    """ExportError for a chip that has no Ascend C, for tensors whose size is not known, and for data that a kernel
    reaches by addresses."""
    if subject.family not in CONFIG:
        raise ExportError(f"{subject.name}: chip is {subject.soc}; accepted: a chip of {', '.join(CONFIG)}")
    for case in subject.cases:
        if ir.MEMORY_META in case.program.meta:
            raise ExportError(f"{subject.name}: moves at addresses of a TensorAddrList; accepted: arguments of the "
                              "kernel, one for each tensor")  # fmt: skip
        for tensor in (*case.inputs, *case.outputs):
            if any(d < 0 for d in tensor.shape):
                raise ExportError(f"{subject.name}: shape of {tensor.name} is {list(tensor.shape)}; accepted: known "
                                  "while tracing, one trace for each shape")  # fmt: skip
