# SPDX-License-Identifier: Apache-2.0
"""The compare mask is moved by its own 16 bytes: masks of repeats lie back to back, as vcmpv_* writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops import tik
from ms_custom_ops.engine import run_checked
from ms_custom_ops.errors import EngineError, TikAlignError

LANES, ROWS = 128, 5
X = np.random.default_rng(21).standard_normal((ROWS, LANES)).astype(np.float16)


def kernel(choose: Callable[[tik.Tik, Any, Any, Any], None], inputs: int = 0) -> Callable[[], None]:
    """Rows of max(x, 0), by one mask of 16 bytes for each; ``choose`` gets the bits of all rows, and selects."""

    def probe() -> None:
        t = tik.Tik()
        x = t.Tensor("float16", (ROWS, LANES), tik.scope_gm, "x")
        y = t.Tensor("float16", (ROWS, LANES), tik.scope_gm, "y")
        scalars = [t.InputScalar("int32", f"n{k}") for k in range(inputs)]
        src = t.Tensor("float16", (ROWS, LANES), tik.scope_ubuf, "src")
        dst = t.Tensor("float16", (ROWS, LANES), tik.scope_ubuf, "dst")
        zero = t.Tensor("float16", (LANES,), tik.scope_ubuf, "zero")
        bits = t.Tensor("uint16", (ROWS * LANES // 16,), tik.scope_ubuf, "bits")
        t.data_move(src, x, 0, 1, ROWS * LANES // 16, 0, 0)
        t.vec_dup(LANES, zero, 0.0, 1, 8)
        t.vec_dup(LANES, dst, 0.0, ROWS, 8)
        t.vcmpv_gt(bits, src, zero, ROWS, 1, 1, 8, 0)

        def select(row: Any, at: Any) -> None:
            mask = t.mov_tensor_to_cmpmask(bits[at])
            t.vsel(LANES, 0, dst[row, 0], mask, src[row, 0], zero, 1, 1, 1, 1, 8, 8, 8)

        choose(t, select, bits, scalars)
        t.data_move(y, dst, 0, 1, ROWS * LANES // 16, 0, 0)
        t.BuildCCE("probe", [x], [y], flowtable=scalars)

    return probe


def every_row(t: tik.Tik, select: Any, _bits: Any, _scalars: Any) -> None:
    for row in range(ROWS):
        select(row, row * LANES // 16)


def every_row_while_running(t: tik.Tik, select: Any, _bits: Any, _scalars: Any) -> None:
    with t.for_range(0, ROWS) as row:
        select(row, row * (LANES // 16))


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910A", "Ascend310P3", "Ascend910B1"])
@pytest.mark.parametrize("choose", [every_row, every_row_while_running], ids=["constant", "running"])
def test_masks_of_repeats_are_taken_one_after_another(choose: Any, soc: str) -> None:
    program = mco.trace(kernel(choose), soc=soc)
    want = np.maximum(X, np.float16(0))
    np.testing.assert_array_equal(mco.run(program, [X])[0], want)
    report = run_checked(program, [X])
    assert not report.findings
    np.testing.assert_array_equal(report.outputs[0], want)
    np.testing.assert_array_equal(mco.run(program, [X], engine="reference")[0], want)


def test_the_mask_is_stored_at_a_multiple_of_its_width() -> None:
    def choose(t: tik.Tik, select: Any, bits: Any, _scalars: Any) -> None:
        mask = t.mov_tensor_to_cmpmask(bits[3 * 8])
        with t.for_range(0, ROWS) as row:
            t.mov_cmpmask_to_tensor(bits[row * 8], mask)
        every_row_while_running(t, select, bits, [])

    program = mco.trace(kernel(choose), soc="Ascend910A")
    want = np.where(X[3] > 0, X, np.float16(0))
    np.testing.assert_array_equal(mco.run(program, [X])[0], want)
    np.testing.assert_array_equal(mco.run(program, [X], engine="reference")[0], want)


def test_a_mask_off_its_grid_is_refused() -> None:
    with pytest.raises(
        TikAlignError,
        match=r"mov_tensor_to_cmpmask: start address of src .* is 8 bytes; accepted: multiples of 16 bytes",
    ):
        mco.trace(kernel(lambda t, select, bits, scalars: select(0, 4)), soc="Ascend910A")


def test_a_mask_off_its_grid_is_refused_while_running() -> None:
    program = mco.trace(kernel(lambda t, select, bits, scalars: select(0, scalars[0]), inputs=1), soc="Ascend910A")
    np.testing.assert_array_equal(mco.run(program, [X, 24])[0][0], np.where(X[3] > 0, X[0], np.float16(0)))
    for engine in ("native", "reference"):
        with pytest.raises(EngineError, match=r"the start of src is byte 8 of bits; accepted: multiples of 16 bytes"):
            mco.run(program, [X, 4], engine=engine)
    (finding,) = run_checked(program, [X, 4]).findings
    assert finding.kind == "misaligned" and "byte 8 of bits" in finding.text
    assert "multiples of 16 bytes" in finding.text
