# SPDX-License-Identifier: Apache-2.0
"""Names of dtypes in case files."""

from __future__ import annotations

from typing import Any

#: ATK's names of dtypes, and the full ones.
DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
DTYPES.update({name: name for name in (*DTYPES.values(), "int8", "uint8", "int16", "uint16", "int32", "uint32",
                                       "int64", "bool")})  # fmt: skip
#: Names of dtypes in C and Python that such files use too.
C_DTYPES = {**{f"{name}_t": name for name in DTYPES.values() if "int" in name}, "float": "float32", "double": "float64",
            "half": "float16", "int": "int32"}  # fmt: skip


def full_dtype(name: Any) -> str | None:
    """Full name of a dtype by one of its names in case files, None for no dtype."""
    return DTYPES.get(name, C_DTYPES.get(name)) if isinstance(name, str) else None


def short_dtype(name: str | None) -> str:
    """ATK's name of a dtype, "" for None."""
    return next((short for short, full in DTYPES.items() if full == name), "")
