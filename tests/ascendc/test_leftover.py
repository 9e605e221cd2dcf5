# SPDX-License-Identifier: Apache-2.0
"""What a kernel finds in memory that nobody has written: bytes 0xFF, but for later runs of a compiled graph."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import ms_custom_ops as mco

ms = pytest.importorskip("mindspore")
from mindspore import Tensor, nn  # noqa: E402

LEFTOVER = Path(__file__).parents[1] / "data" / "ascendc" / "leftover"
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture(scope="module")
def op() -> mco.ascendc.AscendOp:
    return mco.ascendc.load_project(LEFTOVER, soc="Ascend910B1")["Leftover"]


class Net(nn.Cell):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def construct(self, x):
        return self.op(x)


def test_calls_find_nothing_of_the_last_one(op) -> None:
    for _ in range(3):
        assert all(np.isnan(found).all() for found in op(np.zeros(8, np.float32)))


def test_the_first_run_of_a_graph_shows_it(op) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net, x = Net(op.mindspore()), Tensor(np.zeros((2, 4), np.float32))
    assert all(np.isnan(found.asnumpy()).all() for found in net(x))
    for _ in range(3):  # whatever the memories hold
        assert [found.shape for found in net(x)] == [(2, 4), (2, 4)]
    assert all(np.isnan(found).all() for found in op(np.zeros(8, np.float32)))


def test_checked_runs_of_a_graph_name_it(op) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net, x = Net(op.mindspore()), Tensor(np.zeros((4, 2), np.float32))
    net(x)[0].asnumpy()
    mco.set_check(True)
    try:
        with pytest.raises(RuntimeError, match=r"VECCALC buffer .*never written.*\[0, 32\).*leftover\.cpp:22"):
            net(x)[0].asnumpy()
    finally:
        mco.set_check(False)
