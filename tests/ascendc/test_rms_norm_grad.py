# SPDX-License-Identifier: Apache-2.0
"""rms_norm_grad of examples/user_ops in Ascend C against its golden; the order of the cores changes no bit."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from asc_cases import need_ascendc
from flash_ascendc import bits, run

from ms_custom_ops.lower.arrays import numpy_dtype
from ms_custom_ops.registry import get_op

need_ascendc()
SHAPES = ((1, 16), (37, 208), (3, 8192), (101, 48))
LATER = [pytest.param(dtype, marks=pytest.mark.nightly) for dtype in ("float16", "bfloat16")]


@pytest.fixture(scope="module")
def golden(example_ops):
    module = importlib.import_module(get_op("rms_norm_grad").impl.golden.split(":")[0])
    return module.rms_norm, module.rms_norm_grad


def arrays_of(golden, rows: int, width: int, dtype: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    x, dy = (rng.standard_normal((rows, width)).astype(numpy_dtype(dtype)) for _ in range(2))
    weight = rng.standard_normal(width).astype(numpy_dtype(dtype))
    rstd = golden[0](x.astype(np.float64), weight.astype(np.float64))[1]
    return {"x": x, "weight": weight, "dy": dy, "rstd": rstd.astype(np.float32)}


@pytest.mark.parametrize("dtype", ["float32", *LATER])
def test_against_the_golden(golden, dtype: str) -> None:
    tolerance = get_op("rms_norm_grad").tolerance(dtype)
    for rows, width in SHAPES:
        arrays = arrays_of(golden, rows, width, dtype)
        out = run("rms_norm_grad", arrays, {})
        wanted = golden[1](*(x.astype(np.float64) for x in arrays.values()))
        for name, exact in zip(("dx", "dweight"), wanted, strict=True):
            atol = tolerance.atol * max(np.sqrt(np.mean(exact**2)), 1)
            found = out[name].astype(np.float64)
            np.testing.assert_allclose(found, exact, rtol=tolerance.rtol, atol=atol, err_msg=name)


def test_the_order_of_cores_and_threads_does_not_change_a_bit(golden) -> None:
    arrays = arrays_of(golden, 101, 208, "float32")
    runs = {bits("rms_norm_grad", arrays, {}, threads, back) for threads in (1, 2) for back in (False, True)}
    assert len(runs) == 1
