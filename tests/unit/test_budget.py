# SPDX-License-Identifier: Apache-2.0
"""Who occupies the on-chip memories: the report, its picture, the error of a tensor that does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ms_custom_ops as mco
from ms_custom_ops import tik
from ms_custom_ops.errors import TikCapacityError


def kernel(extra: int = 0) -> Any:
    """Two tensors, then two others in their place, one of them twice."""
    t = tik.Tik()
    x = t.Tensor("float16", (1024,), tik.scope_gm, "x")
    y = t.Tensor("float16", (1024,), tik.scope_gm, "y")
    with t.new_stmt_scope():
        a = t.Tensor("float16", (1024,), tik.scope_ubuf, "a")
        t.Tensor("float16", (16,), tik.scope_cbuf, "small")
        t.data_move(a, x, 0, 1, 64, 0, 0)
        t.data_move(y, a, 0, 1, 64, 0, 0)
    b = t.Tensor("float32", (32, 32), tik.scope_ubuf, "b")
    with t.for_range(0, 2, thread_num=2):
        t.Tensor("float16", (8 + extra, 16), tik.scope_ubuf, "c")
    t.vec_dup(64, b, 0.0, 1, 8)
    t.BuildCCE("tenants", [x], [y])
    return t


def test_the_worst_moment_of_each_memory() -> None:
    report = mco.budget(kernel, "Ascend910A")
    peak = report.peaks["ub"]
    assert (peak.total, peak.capacity) == (4096 + 2 * 256, 262144)
    assert [(t.name, t.bytes) for t in peak.tenants] == [("b", 4096), ("c", 512)]
    assert report.peaks["l1"].total == 32 and report.peaks["l0c"].total == 0
    lines = str(report).splitlines()
    assert lines[0] == "tenants on Ascend910A" and lines[1].startswith("ub: 4608 of 262144 bytes (2 %) at ")
    assert "4096 b float32[32x32] " in lines[2] and f"{Path(__file__).name}:" in lines[2]
    a, b = (next(t for t in report.tenants if t.name == n) for n in "ab")
    assert a.address == b.address and a.last <= b.first <= report.statements


def test_a_picture_of_it(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    mco.budget(kernel, "Ascend910A").picture(tmp_path / "occupancy.png")
    assert (tmp_path / "occupancy.png").read_bytes()[:4] == b"\x89PNG"


def test_what_would_fit_comes_first() -> None:
    with pytest.raises(TikCapacityError) as caught:
        mco.budget(lambda: kernel(10000), "Ascend910A")
    first, second, third = str(caught.value).splitlines()[:3]
    assert "accepted: at most 258048 bytes free of 262144 on Ascend910A" in first
    assert "shape (4032, 16) in the place of (10008, 16)" in first
    assert f"{Path(__file__).name}:" in first and second == "live tensors: 1 with 4096 bytes"
    assert third.split()[:3] == ["4096", "b", "float32[32x32]"]
