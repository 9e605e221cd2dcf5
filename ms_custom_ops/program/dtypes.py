# SPDX-License-Identifier: Apache-2.0
"""Data types of the TIK language: codes of the binary Program, sizes and NumPy counterparts."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DType:
    """One data type. ``code`` is its number in the binary Program and never changes."""

    name: str
    code: int
    size_bytes: int
    numpy: np.dtype
    kind: str  # "f" float, "i" signed, "u" unsigned


def _table() -> dict[str, DType]:
    rows = [
        ("float16", np.float16, "f"),
        ("bfloat16", ml_dtypes.bfloat16, "f"),
        ("float32", np.float32, "f"),
        ("int8", np.int8, "i"),
        ("uint8", np.uint8, "u"),
        ("int16", np.int16, "i"),
        ("uint16", np.uint16, "u"),
        ("int32", np.int32, "i"),
        ("uint32", np.uint32, "u"),
        ("int64", np.int64, "i"),
        ("uint64", np.uint64, "u"),
        ("bool", np.bool_, "u"),
    ]
    return {
        name: DType(name, code, np.dtype(np_type).itemsize, np.dtype(np_type), kind)
        for code, (name, np_type, kind) in enumerate(rows)
    }


DTYPES: dict[str, DType] = _table()
BY_CODE: tuple[DType, ...] = tuple(sorted(DTYPES.values(), key=lambda d: d.code))
SIZE: dict[str, int] = {name: d.size_bytes for name, d in DTYPES.items()}
INT_RANGE: dict[str, tuple[int, int]] = {
    name: (int(np.iinfo(d.numpy).min), int(np.iinfo(d.numpy).max))
    for name, d in DTYPES.items()
    if d.kind in "iu" and name != "bool"
}
FLOATS = frozenset(name for name, d in DTYPES.items() if d.kind == "f")


def numpy_dtype(name: str) -> np.dtype:
    """NumPy dtype of a TIK dtype name; ``bfloat16`` maps to ``ml_dtypes.bfloat16``."""
    return DTYPES[name].numpy


def round_to(value: float, dtype: str) -> float:
    """``value`` rounded to nearest even in a float dtype (float16 immediates clamp to +-65504)."""
    if dtype == "float16":
        limit = float(np.finfo(np.float16).max)
        if abs(value) > limit and not np.isinf(value):
            return limit if value > 0 else -limit
    return float(np.asarray(value, dtype=np.float64).astype(DTYPES[dtype].numpy))
