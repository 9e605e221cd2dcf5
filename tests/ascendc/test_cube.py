# SPDX-License-Identifier: Apache-2.0
"""The cube: ways into L0A and L0B, products, bias, what leaves L0C."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcError

need_ascendc()

HERE = Path(__file__).parent
LOAD2D, LOAD3D, TRANSPOSED, SQUARE, OLD, COPY = range(6)
HALF, BFLOAT = np.float16, ml_dtypes.bfloat16
TYPES = ((HALF, np.float32), (HALF, HALF), (BFLOAT, BFLOAT), (np.float32, np.float32), (np.int8, np.int32),
         (np.int8, HALF), (np.int8, np.int8), (HALF, np.int8))  # fmt: skip


@pytest.fixture(scope="module")
def cube():
    return ascendc.build(HERE / "cube.cpp", entry="cube")


def operands(types: int, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Small integers: every sum is exact."""
    rng = np.random.default_rng(types)
    return tuple(rng.integers(-8, 9, size=s).astype(TYPES[types][0]) for s in ((m, k), (k, n)))


def word(scale: float, offset: int = 0) -> int:
    return int(np.float32(scale).view(np.uint32)) | (offset & 511) << 37


def run(kernel, types, m, k, n, way, bias=None, scales=None, deq=0):
    a, b = operands(types, m, k, n)
    c = np.zeros((m, n), TYPES[types][1])
    given = np.ascontiguousarray(b.T) if way == TRANSPOSED else b
    kernel(1, a, given, c, bias, scales, m, k, n, types, way, deq)
    wide = np.int64 if types in (4, 5, 6) else np.float32
    return c, a.astype(wide) @ b.astype(wide)


@pytest.mark.parametrize("way", (LOAD2D, LOAD3D, TRANSPOSED, SQUARE, OLD))
@pytest.mark.parametrize("types", range(5))
def test_products(cube, types, way):
    if types == 4 and way == LOAD3D:  # LoadData3D brings int8 into L0A alone
        way = SQUARE
    c, exact = run(cube, types, 48, 64, 32, way)
    exact = {LOAD3D: np.maximum(exact, 0), OLD: exact * 2}.get(way, exact)
    assert np.array_equal(c, exact.astype(c.dtype))


@pytest.mark.parametrize("m, k, n", ((1, 16, 16), (17, 40, 35), (33, 7, 50), (16, 100, 1)))
def test_sizes_that_are_no_fractals(cube, m, k, n):
    for types, way in ((0, LOAD2D), (2, TRANSPOSED), (0, LOAD3D)):
        c, exact = run(cube, types, m, k, n, way)
        exact = np.maximum(exact, 0) if way == LOAD3D else exact
        assert np.array_equal(c, exact.astype(c.dtype))


def test_bias(cube):
    for types, dtype in ((0, np.float32), (4, np.int32)):
        bias = np.arange(64).astype(dtype)
        c, exact = run(cube, types, 20, 32, 64, LOAD2D, bias=bias)
        assert np.array_equal(c, exact + bias)


def test_quantization(cube):
    scales = np.array([word(0.25 * (i + 1), i - 8) for i in range(32)], np.uint64)
    factors, offsets = 0.25 * np.arange(1, 33), np.arange(32) - 8
    for types in (5, 6, 7):
        for vector, way in ((False, LOAD2D), (True, LOAD2D), (False, COPY), (True, COPY)):
            c, exact = run(cube, types, 16, 32, 32, way, scales=scales if vector else None, deq=word(0.125, 3))
            scaled = exact * (factors if vector else 0.125)
            if TYPES[types][1] is HALF:
                expected = scaled.astype(HALF)
            else:
                expected = np.clip(np.rint(scaled) + (offsets if vector else 3), -128, 127).astype(np.int8)
            assert np.array_equal(c, expected), (types, vector, way)


def test_a_kernel_of_vector_cores(tmp_path):
    source = tmp_path / "kernel.cpp"
    source.write_text(
        '#include "kernel_operator.h"\nusing namespace AscendC;\n'
        'extern "C" __global__ __aicore__ void k(GM_ADDR x, int32_t type) {\n'
        "  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);\n"
        "  GlobalTensor<half> g;\n  g.SetGlobalBuffer((__gm__ half*)x);\n"
        "  LocalTensor<half> t(TPosition::A1, 0, 256);\n  LocalTensor<half> to(TPosition::A2, 0, 256);\n"
        "  if (type == 0) DataCopy(t, g, 256);\n"
        "  LocalTensor<half> u(TPosition::VECCALC, 0, 256);\n  LocalTensor<float> c(TPosition::CO1, 0, 256);\n"
        "  if (type == 1) Fixpipe(g, c, FixpipeParamsV220(16, 16, 16, 16, false));\n"
        "  if (type < 2) return;\n"
        "  static const __gm__ half table[16] = {5, 6, 7, 8};\n"
        "  GlobalTensor<half> constants;\n  constants.SetGlobalBuffer((__gm__ half*)table);\n"
        "  DataCopy(u, constants, 16);\n"
        "  ffts_cross_core_sync(PIPE_MTE3, 1 | 1 << 4 | 3 << 8);\n  wait_flag_dev(3);\n"
        "  ASCENDC_ASSERT(type == 2, { x[0] = 1; });\n"
        "  DataCopy(g, u, 16);\n"
        "}\n"
    )
    kernel = ascendc.build(source)
    x = np.zeros(256, HALF)
    with pytest.raises(
        AscendcError,
        match=r"AIV core 0: DataCopy: A1 tensor at 0 is memory of cube cores, this is a vector core; accepted: such a "
        r"call under ASCEND_IS_AIC \[.*kernel\.cpp:9\]",
    ):
        kernel(1, x, 0)
    with pytest.raises(AscendcError, match=r"Fixpipe: quantPre is 0 for these types; accepted: NoQuant for equal"):
        kernel(1, x, 1)
    kernel(1, x, 2)  # constants of the kernel are memory in GM
    assert np.array_equal(x[:5], [5, 6, 7, 8, 0])
    with pytest.raises(AscendcError, match=r"ASSERT: type == 2 does not hold \[.*kernel\.cpp:20\]"):
        kernel(1, x, 3)
