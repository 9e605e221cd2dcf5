# SPDX-License-Identifier: Apache-2.0
"""Values of a checked run where an instruction is refused while running: nothing is known of its operands then, which a
sanitized engine shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import Builder

import ms_custom_ops as mco
from ms_custom_ops import tik
from ms_custom_ops.engine import run_checked


def kernel() -> None:
    """x + x in n repeats, after an instruction with one operand."""
    t = tik.Tik()
    n = t.InputScalar("int32", "n")
    x, y = (t.Tensor("float32", (64,), tik.scope_gm, name) for name in "xy")
    a, b = (t.Tensor("float32", (64,), tik.scope_ubuf, name) for name in "ab")
    t.data_move(a, x, 0, 1, 8, 0, 0)
    t.vec_dup(64, b, 0.0, 1, 8)
    t.vec_add(64, b, a, a, n, 0, 0, 0)
    t.data_move(y, b, 0, 1, 8, 0, 0)
    t.BuildCCE("kernel", [x], [y], flowtable=[n])


def checked(n: int) -> Any:
    x = np.arange(64, dtype=np.float32)
    return run_checked(mco.trace(kernel, soc="Ascend910B1"), [x, n], values=True)


def test_no_repeat_is_no_finding() -> None:
    report = checked(0)
    assert not report.findings
    np.testing.assert_array_equal(report.outputs[0], np.zeros(64, np.float32))


@pytest.mark.parametrize("n", [-1, 2**31 - 1])
def test_a_refused_repeat_is_the_only_finding(n: int) -> None:
    (finding,) = checked(n).findings
    assert f"repeat is {n}; accepted: 0" in finding.text


def test_an_empty_tensor_in_a_memory_without_bytes() -> None:
    b = Builder(scope_bytes={"ub": 1 << 16})
    b.local("none", "l1", "float16", 0)
    x = b.local("x", "ub", "float32", 64)
    b.move(x, b.gm("given", "float32", 64, "input"))
    b.move(b.gm("out", "float32", 64, "output"), x)
    given = np.arange(64, dtype=np.float32)
    report = run_checked(b.program, [given])
    assert not report.findings
    np.testing.assert_array_equal(report.outputs[0], given)
