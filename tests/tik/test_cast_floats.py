# SPDX-License-Identifier: Apache-2.0
"""mco_cast_floats: every pair of float dtypes at every SIMD level and length, and what it refuses."""

from __future__ import annotations

import ctypes
import itertools

import ml_dtypes
import numpy as np
import pytest
from engine_cases import LEVELS

from ms_custom_ops.engine import native
from ms_custom_ops.errors import EngineError

FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32)  # by code
GUARD = 64  # elements behind a result


@pytest.fixture
def cast() -> ctypes._NamedFuncPointer:
    function = ctypes.CDLL(str(native.library_path())).mco_cast_floats
    function.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64]
    return function


def pattern(x: np.ndarray) -> np.ndarray:
    """Bits, every NaN the same."""
    found = x.view(np.uint16 if x.itemsize == 2 else np.uint32).copy()
    found[np.isnan(x.astype(np.float32))] = 1
    return found


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("dst", "src"), list(itertools.product(range(3), repeat=2)))
def test_values(cast, level: str, dst: int, src: int) -> None:
    try:
        native.set_isa(level)
    except EngineError:
        pytest.skip(f"this processor has no {level}")
    try:
        rng = np.random.default_rng(3 * dst + src)
        for n in (*range(67), 2047, 2048, 2049, 4096 + 63):
            x = rng.integers(0, 256, n * np.dtype(FLOATS[src]).itemsize, np.uint8).view(FLOATS[src])
            out = np.full(n + GUARD, 7, FLOATS[dst])
            assert cast(out.ctypes.data, dst, x.ctypes.data, src, n) == 0
            with np.errstate(all="ignore"):
                expected = x.astype(np.float32).astype(FLOATS[dst])
            assert (pattern(out[:n]) == pattern(expected)).all(), n
            assert (out[n:] == 7).all(), n
    finally:
        native.set_isa("auto")


def test_refusals(cast) -> None:
    x = np.full(4, 7, np.float32)
    at = x.ctypes.data
    assert cast(at, 2, at, 3, 1) == cast(at, 3, at, 2, 1) == cast(at, -1, at, 2, 1) == 1
    assert cast(at, 2, at, 2, -1) == cast(None, 2, at, 2, 1) == cast(at, 2, None, 2, 1) == 1
    assert cast(None, 2, None, 2, 0) == 0 and (x == 7).all()
