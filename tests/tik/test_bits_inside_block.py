# SPDX-License-Identifier: Apache-2.0
"""Bits of a comparison that start inside a 32-byte block, at a place known only while running: one repeat at a time."""

from __future__ import annotations

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import tik

REPEATS = 3


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_selection_of_one_repeat_at_a_time(dtype: str, engine: str) -> None:
    lanes = 256 // np.dtype(dtype).itemsize
    count, per_repeat = lanes * REPEATS, lanes // 8

    def kernel() -> None:
        t = tik.Tik()
        x, y = (t.Tensor(dtype, (count,), tik.scope_gm, n) for n in "xy")
        src, dst, zero = (t.Tensor(dtype, (count,), tik.scope_ubuf, n) for n in ("src", "dst", "zero"))
        bits = t.Tensor("uint8", (128,), tik.scope_ubuf, "bits")
        t.data_move(src, x, 0, 1, REPEATS * 8, 0, 0)
        t.vec_dup(lanes, zero, 0.0, REPEATS, 8)
        t.vcmpv_gt(bits, src, zero, REPEATS, 1, 1, 8, 8)
        with t.for_range(0, REPEATS) as i:
            t.vsel(lanes, 2, dst[i * lanes], bits[i * per_repeat], src[i * lanes], zero, 1, 1, 1, 1, 8, 8, 8)
        t.data_move(y, dst, 0, 1, REPEATS * 8, 0, 0)
        t.BuildCCE("probe", [x], [y])

    x = np.random.default_rng(1).standard_normal(count).astype(dtype)
    program = mco.trace(kernel, soc="Ascend310P3")
    assert np.array_equal(mco.run(program, [x], engine=engine)[0], np.maximum(x, 0))
    assert mco.check(program, [x]).ok
