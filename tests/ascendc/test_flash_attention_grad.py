# SPDX-License-Identifier: Apache-2.0
"""flash_attention_grad in Ascend C, on results of the forward kernel in Ascend C, against the golden."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from asc_cases import need_ascendc
from flash_ascendc import Case, bits, compiled, operands_of, run, run_ascendc
from flash_cases import LIMIT, run_golden, tensors_of, with_dtype

from ms_custom_ops.compile_launch import launch_of
from ms_custom_ops.errors import OpInfoError
from ms_custom_ops.testing import assert_rms

need_ascendc()

CASES = [
    Case(1, 1, 16),
    Case(15, 17, 40, "causal"),
    Case(63, 200, 64, "mask,lengths", batch=2, n1=4),
    Case(200, 72, 80, "mask_batch,causal", batch=2),
    Case(257, 511, 32, "dropout,causal", n1=4),
    Case(70, 90, 256, "alibi,causal,statistics"),
    Case(150, 290, 32, "shift,causal,dropout,statistics", batch=2),
    Case(200, 300, 16, "blocks", n1=3, n2=1),
]


def check(case: Case) -> None:
    t = tensors_of(case)
    actual, expected = run_ascendc(case, t), run_golden(case, t)
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        limit = 1e-3 if name.startswith("softmax") else LIMIT[case.dtype]
        value = value.astype(np.float64)
        if not expected[name].any():  # S2 = 1: the exact gradient is 0, so the error is measured against d_out
            assert np.sqrt(np.mean(value**2)) <= limit * np.sqrt(np.mean(t["d_out"].astype(np.float64) ** 2)), name
            continue
        assert_rms(name, value, expected[name], limit)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_float16(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", [CASES[1], CASES[6]], ids=lambda c: c.id)
def test_bfloat16(case: Case) -> None:
    check(with_dtype(case, "bfloat16"))


@pytest.mark.parametrize("op", ["flash_attention", "flash_attention_grad"])
def test_the_order_of_blocks_and_threads_does_not_change_a_bit(op: str) -> None:
    case = Case(150, 140, 64, "alibi,causal,dropout,statistics", batch=2, n1=6, n2=3)
    forward, gradient, attrs = operands_of(case, tensors_of(case))
    arrays = gradient if op == "flash_attention_grad" else forward
    assert len({bits(op, arrays, attrs, t, r) for t, r in itertools.product((1, 2), (False, True))}) == 1


def test_the_forward_may_be_the_tik_kernel() -> None:
    """Which key holds the maximum is a matter of the last bit of a score."""
    case = Case(70, 90, 80, "alibi,causal,statistics", n1=4)
    t = tensors_of(case)
    _, gradient, attrs = operands_of(case, t, "tik")
    found, expected = run("flash_attention_grad", gradient, attrs), run_golden(case, t)
    for name in ("d_query", "d_key", "d_value"):
        assert_rms(name, found[name].astype(np.float64), expected[name], LIMIT[case.dtype])


def test_the_gradient_of_a_bias_that_is_not_there_is_no_output() -> None:
    case = Case(15, 17, 16)
    call, found = compiled("flash_attention_grad", *operands_of(case, tensors_of(case))[1:])
    assert found.launch is not None
    assert len(found.launch.outputs) == len(call.outputs) == 3 and found.launch.slots[-1] is None
    with pytest.raises(OpInfoError, match=r"FlashAttentionGrad: shapes and dtypes of the outputs"):
        launch_of(replace(call, outputs=(*call.outputs[:2], ("d_value", (2, 2), "float16"))))


MODES = ("none", "causal", "band", "mask", "mask_batch", "shift", "alibi", "blocks", "dropout", "drop_mask", "lengths",
         "causal,lengths,dropout", "band,mask,shift,lengths", "causal,alibi,statistics")  # fmt: skip
GRID = ((1, 1), (17, 63), (128, 128), (200, 72), (257, 511), (1, 1000))


@pytest.mark.nightly
@pytest.mark.parametrize("heads", ((2, 2), (4, 2)), ids=lambda h: f"N{h[0]}g{h[1]}")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lengths", GRID, ids=lambda s: f"S{s[0]}x{s[1]}")
def test_grid(lengths: tuple[int, int], mode: str, heads: tuple[int, int]) -> None:
    for d, dtype in itertools.product((16, 40, 64, 80, 128, 160, 256), ("float16", "bfloat16")):
        check(Case(*lengths, d, mode, batch=2, n1=heads[0], n2=heads[1], dtype=dtype))
