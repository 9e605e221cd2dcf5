# SPDX-License-Identifier: Apache-2.0
"""Tensors without a TPipe: the fields of their addresses, set by the kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

from ms_custom_ops import ascendc
from ms_custom_ops.errors import AscendcError

need_ascendc()


@pytest.fixture(scope="module")
def addresses():
    return ascendc.build(Path(__file__).with_name("addresses.cpp"), entry="addresses")


def test_addresses_in_ub(addresses):
    x = np.arange(64, dtype=np.float32)
    wanted = x + 1
    wanted[8:16], wanted[28] = 2 * x[8:16], x[8]
    y = np.zeros_like(x)
    addresses(1, x, y, 0)
    assert np.array_equal(y, wanted)
    report = addresses.check(1, x, y, 0, outputs=[y])
    assert report.ok, str(report)


def test_addresses_in_the_memories_of_the_cube(addresses):
    x = np.random.default_rng(3).integers(-4, 5, (2, 16, 16)).astype(np.float16)
    y = np.zeros((16, 16), np.float32)
    addresses(1, x, y, 1)
    assert np.array_equal(y, x[0].astype(np.float32) @ x[1].astype(np.float32))


@pytest.mark.parametrize(
    ("which", "text"),
    [
        (2, r"LocalTensor: position is CO2; accepted: one on the chip"),
        (3, r"Duplicate: dst needs bytes \[196576, 196832\) of UB, it has 196608 .*addresses\.cpp:\d+"),
        (4, r"Duplicate: dst is memory that no argument of the kernel holds; accepted: memory in GM of the launch"),
    ],
)
def test_what_is_refused(addresses, which, text):
    with pytest.raises(AscendcError, match=text):
        addresses(1, np.zeros(64, np.float32), np.zeros(64, np.float32), which)
