# SPDX-License-Identifier: Apache-2.0
"""do_bench: how often it calls, and what it returns."""

from __future__ import annotations

import time

import pytest

from ms_custom_ops.errors import OpArgumentError
from ms_custom_ops.testing import do_bench


def test_times_of_a_function():
    calls = []

    def fn():
        calls.append(1)
        time.sleep(0.002)

    assert do_bench(fn, warmup=4, rep=10, return_mode="min") >= 2
    assert 8 <= len(calls) <= 14
    low, high = do_bench(fn, warmup=1, rep=10, quantiles=(0.1, 0.9))
    assert 2 <= low <= high
    assert isinstance(do_bench(fn, warmup=1, rep=4, quantiles=(0.5,)), float)
    assert all(t >= 2 for t in do_bench(fn, warmup=1, rep=10, return_mode="all"))
    assert do_bench(fn, warmup=1, rep=0) >= 2


def test_another_mode_is_refused():
    with pytest.raises(OpArgumentError, match="return_mode is 'best'; accepted: mean, median, min, max, all"):
        do_bench(lambda: None, return_mode="best")
