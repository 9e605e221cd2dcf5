# SPDX-License-Identifier: Apache-2.0
"""The order of atomic moves of several cores: what has one, and the mode that fixes it for sums of floats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcError

need_ascendc()

BLOCKS, ROUNDS, COLUMNS = 23, 3, 72
ADD, MAX, NONE = range(3)
DTYPES = {"float32": np.float32, "float16": np.float16, "int32": np.int32}
WAYS = ({}, {"threads": 1}, {"threads": 2}, {"threads": 2, "reverse": True}, {"threads": 1, "reverse": True})


@pytest.fixture(scope="module")
def kernel():
    return ascendc.build(Path(__file__).with_name("atomics.cpp"), entry="atomics")


def data(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    scale = 1 if dtype == "float16" else 100  # no sum overflows
    return (scale * rng.normal(size=(BLOCKS, ROUNDS, COLUMNS)) * 10.0 ** rng.integers(-2, 3, COLUMNS)).astype(
        DTYPES[dtype]
    )


def call(kernel, x: np.ndarray, mode: int, **how) -> np.ndarray:
    out = np.zeros(x.shape if mode == NONE else COLUMNS, x.dtype)
    kernel(BLOCKS, x, out, ROUNDS, mode, [np.dtype(t) for t in DTYPES.values()].index(x.dtype), **how)
    return out


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_deterministic_sums_are_those_of_the_cores_in_their_order(kernel, dtype):
    x = data(dtype)
    wanted = np.zeros(COLUMNS, DTYPES[dtype])
    for block in range(BLOCKS):
        wanted = wanted + x[block, 0]
    first = call(kernel, x, ADD, deterministic=True)
    for _ in range(5):
        np.testing.assert_array_equal(call(kernel, x, ADD, deterministic=True), first)
    np.testing.assert_array_equal(call(kernel, x, ADD, threads=1), first)
    one_round = np.zeros(COLUMNS, DTYPES[dtype])
    kernel(BLOCKS, np.ascontiguousarray(x[:, 0]), one_round, 1, ADD, list(DTYPES).index(dtype), deterministic=True)
    np.testing.assert_array_equal(one_round, wanted)


@pytest.mark.parametrize(
    ("dtype", "mode"),
    [("int32", ADD), ("float32", MAX), ("float16", MAX), ("float32", NONE), ("float16", NONE)],
    ids=["int32_sum", "float32_max", "float16_max", "float32_without", "float16_without"],
)
def test_the_same_bits_on_threads_and_from_the_last_block_on(kernel, dtype, mode):
    x = data(dtype)
    total = {ADD: lambda: x.sum((0, 1), dtype=x.dtype), MAX: lambda: np.maximum(x.max((0, 1)), 0), NONE: lambda: x + x}
    for way in WAYS:
        np.testing.assert_array_equal(call(kernel, x, mode, **way), total[mode](), err_msg=str(way))


@pytest.mark.parametrize(("how", "given"), [({"reverse": True}, "reverse=True"), ({"threads": 2}, "threads=2")])
def test_deterministic_fixes_the_order(kernel, how, given):
    with pytest.raises(AscendcError, match=f"^atomics: deterministic is True with {given}; accepted: neither"):
        call(kernel, data("float32"), ADD, deterministic=True, **how)
