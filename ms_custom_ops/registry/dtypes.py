# SPDX-License-Identifier: Apache-2.0
"""Dtype codes of op_info YAML files and the full names used everywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CODE_TO_NAME: Mapping[str, str] = MappingProxyType(
    {
        "F16": "float16",
        "BF16": "bfloat16",
        "F32": "float32",
        "I8": "int8",
        "U8": "uint8",
        "I16": "int16",
        "U16": "uint16",
        "I32": "int32",
        "U32": "uint32",
        "I64": "int64",
        "BOOL": "bool",
    }
)
NAME_TO_CODE: Mapping[str, str] = MappingProxyType({name: code for code, name in CODE_TO_NAME.items()})
