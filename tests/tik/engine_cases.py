# SPDX-License-Identifier: Apache-2.0
"""Programs for the tests of the native engine, and the SIMD levels of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from programs import Builder, ref, same_bits, vector_args

from ms_custom_ops.engine import native as engine
from ms_custom_ops.errors import EngineError, EngineMissingError
from ms_custom_ops.program import ir
from ms_custom_ops.program.dtypes import DTYPES, SIZE
from ms_custom_ops.program.expr import Expr

LEVELS = ("generic", "avx2", "avx512")


def need_engine() -> None:
    """Skip where no compiler built the native engine."""
    try:
        engine.library_path()
    except EngineMissingError as error:
        pytest.skip(str(error), allow_module_level=True)


@contextlib.contextmanager
def level(name: str) -> Iterator[None]:
    """A SIMD level for a while; skips when this machine does not have it."""
    before = engine.isa()
    try:
        engine.set_isa(name)
    except EngineError as error:
        pytest.skip(str(error))
    try:
        yield
    finally:
        engine.set_isa(before)


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """A number of threads for a while."""
    before = engine.get_num_threads()
    engine.set_num_threads(count)
    try:
        yield
    finally:
        engine.set_num_threads(before)


def vector_program(op: str, dtype: str, count: int, **scalar: Any) -> ir.Program:
    """``op`` on whole tensors of ``count`` elements (a multiple of a repeat): inputs x (and y), output z."""
    b = Builder(scope_bytes={"ub": 1 << 20})
    names = ["src"] if op in UNARY or scalar else ["src0", "src1"]
    local = {}
    for gm, name in zip("xy", names, strict=False):
        local[name] = b.local(name, "ub", dtype, count)
        b.move(local[name], b.gm(gm, dtype, count, "input"))
    local["dst"] = b.local("dst", "ub", dtype, count)
    lanes = 256 // SIZE[dtype]
    sizes = {name: SIZE[dtype] for name in local}
    b.instr(op, {n: ref(t) for n, t in local.items()}, **vector_args(op, lanes, count // lanes, sizes, **scalar))
    b.move(b.gm("z", dtype, count, "output"), local["dst"])
    return b.program


UNARY = ("vabs", "vrelu", "vexp", "vln", "vrec", "vsqrt", "vrsqrt", "vnot")


def every_16_bit(dtype: str) -> np.ndarray:
    """All 65536 values of a 16-bit dtype."""
    return np.arange(1 << 16, dtype=np.uint16).view(DTYPES[dtype].numpy)


def assign(b: Builder, register: int, value: Expr) -> None:
    """Append ``register = value``."""
    b.body.append(ir.Assign(register, value, b.loc()))


def assert_same_bits(got: np.ndarray, want: np.ndarray, dtype: str, what: str) -> None:
    """Equal bits, NaN payloads apart."""
    same = same_bits(got, want, dtype)
    assert same.all(), (
        f"{what}: {np.count_nonzero(~same)} of {same.size} elements differ, first at {np.flatnonzero(~same)[0]}"
    )
