# SPDX-License-Identifier: Apache-2.0
"""The golden of packed Mamba-3 sequences: each as if alone, other formulas, finite differences, messages."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scan_inputs import check_finite_differences, mamba3_inputs, ssd_inputs

from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.op_impl.bwd_dtrap_ddt.golden import bwd_dtrap_ddt
from ms_custom_ops.op_impl.mamba3_chunk_scan.golden import AXES, mamba3_chunk_scan, mamba3_chunk_scan_grad, trapezoid
from ms_custom_ops.op_impl.ssd_chunk_scan.golden import ssd_chunk_scan

BOUNDS = [[0, 17], [0, 1, 2, 17], [0, 5, 5, 16, 17]]
every_bounds = pytest.mark.parametrize("bounds", BOUNDS, ids=lambda b: "_".join(map(str, b)))
every_rank = pytest.mark.parametrize("rank", [1, 4], ids=lambda r: f"R{r}")


def packed_inputs(bounds, rank):
    return mamba3_inputs((1, bounds[-1], rank, 2, 1, 3, 4, 4), owners=len(bounds) - 1)


def cotangents(outputs):
    rng = np.random.default_rng(7)
    return [rng.standard_normal(x.shape) for x in outputs]


def one_sequence(arrays, i, start, stop):
    """Sequence i of arguments or of gradients."""
    at = {0: np.s_[i : i + 1], 1: np.s_[:, start:stop], 2: np.s_[:, :, start:stop]}
    return {name: x[at[AXES[name]]] for name, x in arrays.items()}


@every_rank
@every_bounds
def test_each_sequence_is_computed_as_if_alone(bounds, rank):
    t = packed_inputs(bounds, rank)
    o, final = mamba3_chunk_scan(**t, cu_seqlens=bounds)
    d = dict(zip(("do", "d_final"), cotangents((o, final)), strict=True))
    gradients = mamba3_chunk_scan_grad(**t, **d, cu_seqlens=bounds)
    for i, (start, stop) in enumerate(pairwise(bounds)):
        o_alone, final_alone = mamba3_chunk_scan(**one_sequence(t, i, start, stop))
        np.testing.assert_array_equal(o[:, start:stop], o_alone)
        np.testing.assert_array_equal(final[i : i + 1], final_alone)
        alone = mamba3_chunk_scan_grad(**one_sequence(t | d, i, start, stop))
        for name, value in one_sequence(gradients, i, start, stop).items():
            np.testing.assert_array_equal(value, alone[name], err_msg=name)
        if start == stop:
            np.testing.assert_array_equal(final[i], t["initial_states"][i])


@every_rank
@every_bounds
def test_gradient_against_finite_differences(bounds, rank):
    t = packed_inputs(bounds, rank)

    def forward(**arguments):
        return mamba3_chunk_scan(**arguments, cu_seqlens=bounds)

    do, d_final = cotangents(forward(**t))
    gradients = mamba3_chunk_scan_grad(**t, do=do, d_final=d_final, cu_seqlens=bounds)
    check_finite_differences(forward, t, gradients, (do, d_final))


@every_rank
@every_bounds
def test_packing_equals_one_sequence_that_forgets_at_every_start(bounds, rank):
    """exp(da) = 0 at a first step ends the state and the previous product; then there are no initial states."""
    t = packed_inputs(bounds, rank)
    t["initial_states"] = np.zeros_like(t["initial_states"])
    starts = [a for a, b in pairwise(bounds) if a < b]
    dense = t | {"da": t["da"].copy(), "initial_states": None}
    dense["da"][..., starts] = -1e4
    o, _ = mamba3_chunk_scan(**t, cu_seqlens=bounds)
    o_dense, _ = mamba3_chunk_scan(**dense)
    np.testing.assert_allclose(o, o_dense, rtol=1e-12, atol=1e-12)
    do = cotangents((o,))[0]
    gradients = mamba3_chunk_scan_grad(**t, do=do, cu_seqlens=bounds)
    for name, value in mamba3_chunk_scan_grad(**dense, do=do).items():
        if name != "initial_states":
            np.testing.assert_allclose(gradients[name], value, rtol=1e-11, atol=1e-11, err_msg=name)


@every_bounds
def test_scans_with_the_packed_factor_give_the_same(bounds):
    """Rank 1: a packed Mamba-2 scan of factor * v, and the step's own term with gamma in place of factor."""
    t = packed_inputs(bounds, 1)
    factor, gamma = trapezoid(t["dt"], t["trap"], bounds)
    q, k, v = (t[name][:, :, 0] for name in ("q", "k", "v"))
    by_step = [np.moveaxis(x, 1, 2)[..., None] for x in (factor, gamma)]
    y, final = ssd_chunk_scan(v * by_step[0], t["da"], k, q, initial_states=t["initial_states"], cu_seqlens=bounds)
    y = y + (by_step[1] - by_step[0]) * np.sum(q * k, -1, keepdims=True) * v
    o, states = mamba3_chunk_scan(**t, cu_seqlens=bounds)
    np.testing.assert_allclose(o[:, :, 0], y, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(states, final, rtol=1e-11, atol=1e-11)


@every_bounds
def test_trapezoid_gradient_is_bwd_dtrap_ddt(bounds):
    rng = np.random.default_rng(3)
    given = {name: rng.standard_normal((1, 2, bounds[-1])) for name in ("dt", "trap")}
    d = [rng.standard_normal((1, 2, bounds[-1])) for _ in range(2)]

    def forward(dt, trap):
        return trapezoid(dt, trap, bounds)

    ddt, dtrap = bwd_dtrap_ddt(given["trap"], given["dt"], *d, bounds)
    check_finite_differences(forward, given, {"dt": ddt, "trap": dtrap}, d)


def test_last_steps_have_no_next_one():
    factor, gamma = trapezoid(np.array([[[1.0, 2.0, 4.0, 8.0]]]), np.zeros((1, 1, 4)), [0, 0, 1, 3, 4])
    np.testing.assert_array_equal(gamma, [[[0.5, 1.0, 2.0, 4.0]]])
    np.testing.assert_array_equal(factor, [[[0.5, 3.0, 2.0, 4.0]]])


MESSAGES = {
    "not_covered": ([0, 3], {}, "cu_seqlens is [0, 3] with v of shape (1, 4, 2, 2, 3)"),
    "falling": ([0, 3, 2, 4], {}, "accepted: sums of lengths from 0 to S, with a batch of 1"),
    "one_bound": ([0], {}, "cu_seqlens is [0] with v"),
    "batch": ([0, 4], {"v": (2, 4, 2, 2, 3)}, "accepted: sums of lengths from 0 to S, with a batch of 1"),
    "states": ([0, 4], {"initial_states": (2, 2, 3, 4)}, "initial_states is of shape (2, 2, 3, 4); accepted: 1 rows"),
    "dt": ([0, 4], {"dt": (1, 2, 5)}, "dt is of shape (1, 2, 5); accepted: S = 4 steps along axis 2"),
}


@pytest.mark.parametrize("case", MESSAGES.values(), ids=MESSAGES.keys())
def test_refuses(case):
    bounds, wrong, text = case
    t = mamba3_inputs((1, 4, 2, 2, 1, 3, 4, 4)) | {name: np.zeros(shape) for name, shape in wrong.items()}
    with pytest.raises(OpArgumentError, match=r"^mamba3_chunk_scan: ") as caught:
        mamba3_chunk_scan(**t, cu_seqlens=bounds)
    assert text in str(caught.value)


def test_packed_mamba2_golden_refuses_states_of_another_count():
    t = ssd_inputs((1, 4, 2, 1, 3, 4, 4))
    with pytest.raises(OpArgumentError, match=r"^ssd_chunk_scan: initial_states .*accepted: 2 rows"):
        ssd_chunk_scan(**t, cu_seqlens=[0, 2, 4])
