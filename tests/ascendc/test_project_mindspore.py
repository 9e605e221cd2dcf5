# SPDX-License-Identifier: Apache-2.0
"""Ops of a project as MindSpore operators, in both modes, with a gradient."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops.errors import AscendcError

ms = pytest.importorskip("mindspore")
from mindspore import Tensor, nn, ops  # noqa: E402

MIXED = Path(__file__).parents[1] / "data" / "ascendc" / "mixed"
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture(scope="module")
def project() -> mco.ascendc.Project:
    return mco.ascendc.load_project(MIXED, soc="Ascend910B1")


def scale_add_bprop(x, y, out, dout):
    return dout * 0.5, dout


class Net(nn.Cell):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def construct(self, *tensors):
        return self.op(*tensors)


@pytest.fixture(params=[ms.GRAPH_MODE, ms.PYNATIVE_MODE], ids=["graph", "pynative"])
def mode(request):
    before = ms.get_context("mode")
    ms.set_context(mode=request.param)
    yield request.param
    ms.set_context(mode=before)


def test_an_operator_runs_and_trains(project, mode) -> None:
    op = project["ScaleAdd"].mindspore(inputs=["x", "y"], bprop=scale_add_bprop, scale=0.5)
    x, y = (np.random.default_rng(seed).standard_normal((3, 37)).astype(np.float32) for seed in (0, 1))
    net = Net(op)
    assert (net(Tensor(x), Tensor(y)).asnumpy() == np.float32(0.5) * x + y).all()
    total = lambda a, b: (net(a, b) * a).sum()  # noqa: E731
    da, db = ms.grad(total, grad_position=(0, 1))(Tensor(x), Tensor(y))
    np.testing.assert_allclose(da.asnumpy(), x * 0.5 + (0.5 * x + y), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(db.asnumpy(), x, rtol=1e-6)


def test_in_place_outputs_leave_the_input_as_it_is(project, mode) -> None:
    acc, x = Tensor(np.arange(5, dtype=np.float32)), Tensor(np.ones(5, np.float32))
    assert (Net(project["AddInto"].mindspore())(acc, x).asnumpy() == np.arange(5) + 1).all()
    assert (acc.asnumpy() == np.arange(5)).all()


def test_values_are_read_at_each_run(project, mode) -> None:
    net = Net(project["TakeFirst"].mindspore())
    x = Tensor(np.arange(1, 7, dtype=np.float32))
    for count in (2, 5):
        y = net(x, Tensor(np.array([count], np.int64))).asnumpy()
        assert (y == np.where(np.arange(6) < count, np.arange(1, 7), 0)).all()


def test_tensors_can_be_given_to_the_op_itself(project) -> None:
    x = Tensor(np.ones((2, 8), np.float16))
    z = project["ScaleAdd"](x, x, scale=3.0)
    assert z.dtype == ms.float16 and (z.asnumpy() == 4).all()


def test_errors_of_the_project_reach_the_caller(project, mode) -> None:
    x = Tensor(np.ones(4, np.float32))
    with pytest.raises(AscendcError, match="result of the tiling function is SIGFPE"):
        Net(project["Fails"].mindspore(how="divide"))(x)
    with pytest.raises(AscendcError, match="tensors is 1; accepted: 3: x, y, bias"):
        Net(project["ScaleAdd"].mindspore())(x)
    with pytest.raises(AscendcError, match="input y is left out; accepted: one that is OPTIONAL"):
        project["ScaleAdd"].mindspore(inputs=["x"])
    assert ops.ones((2,), ms.float32).sum() == 2
