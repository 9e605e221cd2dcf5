# SPDX-License-Identifier: Apache-2.0
"""Forms of flash_attention in Ascend C beyond those of test_implementations.py, against the golden."""

from __future__ import annotations

import numpy as np
import pytest
from asc_cases import need_ascendc

import ms_custom_ops as mco
from ms_custom_ops.compiler import compile_call, describe_call
from ms_custom_ops.lower.arrays import numpy_dtype
from ms_custom_ops.lower.run import run_primitive
from ms_custom_ops.op_impl.flash_attention.golden import flash_attention as golden
from ms_custom_ops.registry import get_op
from ms_custom_ops.testing import assert_rms

need_ascendc()

LENGTHS = np.array([40, 63] + [0] * 6, np.int32), np.array([100, 0] + [0] * 6, np.int32)
FORMS = {
    "causal": ((1, 2, 1, 150, 300, 48), {"sparse_mode": 3}),
    "lengths": ((2, 4, 2, 63, 200, 80), {"actual_seq_qlen": LENGTHS[0], "actual_seq_kvlen": LENGTHS[1]}),
    "band": ((1, 1, 1, 63, 100, 32), {"sparse_mode": 4, "pre_tokens": 40, "next_tokens": -20}),
    "wide": ((1, 1, 1, 70, 130, 256), {"sparse_mode": 3}),
    "dropout": ((1, 2, 2, 33, 140, 32), {"keep_prob": 0.75, "seed": (5 << 32) + 7}),
    "dropout_of_wide_heads": ((1, 1, 1, 130, 300, 128), {"keep_prob": 0.6, "seed": 3}),
    "several_tasks_of_a_head": ((2, 16, 4, 200, 140, 16), {}),  # keys and values stay in L1
}


def run(shape, given, dtype="float16") -> tuple[dict, tuple]:
    b, n1, n2, s1, s2, d = shape
    rng = np.random.default_rng(s1)
    sizes = {"query": (b, n1, s1, d), "key": (b, n2, s2, d), "value": (b, n2, s2, d)}
    arrays = {name: rng.standard_normal(size).astype(numpy_dtype(dtype)) for name, size in sizes.items()}
    arrays.update({name: x for name, x in given.items() if isinstance(x, np.ndarray)})
    attrs = {"scale_value": d**-0.5, **{name: x for name, x in given.items() if not isinstance(x, np.ndarray)}}
    with mco.use_impl("ascendc"):
        call = describe_call(
            get_op("flash_attention"),
            {name: x.shape for name, x in arrays.items()},
            {name: x.dtype.name for name, x in arrays.items()},
            attrs,
            "Ascend910B1",
        )
        compiled = compile_call(call)
    assert compiled.launch is not None
    exact = golden(**{name: x[:b] if "actual" in name else x for name, x in arrays.items()}, **attrs)
    return run_primitive(call, arrays, compiled=compiled), exact


@pytest.mark.parametrize("form", FORMS)
def test_forms_against_the_golden(form):
    shape, given = FORMS[form]
    out, exact = run(shape, given)
    assert_rms("attention_out", out["attention_out"], exact[0], 0.002)
    for name, expected in zip(("softmax_max", "softmax_sum"), exact[1:], strict=True):
        np.testing.assert_allclose(out[name][..., : shape[3]], expected, rtol=1e-4, atol=1e-5)


def test_nan_where_keys_stay_in_l1():
    """Tasks that are done again take the keys from L1, and values from the workspace."""
    shape = b, _, n2, _, s2, d = FORMS["several_tasks_of_a_head"][0]
    value = np.random.default_rng(1).standard_normal((b, n2, s2, d)).astype(np.float16)
    value[1, 2, 131, 3] = np.nan
    out, exact = run(shape, {"value": value})
    found, wanted = out["attention_out"].astype(np.float64), exact[0]
    assert np.isnan(wanted).sum() == 4 * shape[3] and (np.isnan(found) == np.isnan(wanted)).all()
    assert_rms("attention_out", np.nan_to_num(found), np.nan_to_num(wanted), 0.002)


@pytest.mark.nightly
@pytest.mark.parametrize("form", FORMS)
def test_bfloat16(form):
    out, exact = run(*FORMS[form], "bfloat16")
    assert_rms("attention_out", out["attention_out"], exact[0], 0.015)
