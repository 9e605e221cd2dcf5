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


def scale_all_bprop(a, b, c, out, dout):
    return dout[0] * 2, dout[1] * 2, dout[2] * 2


def test_a_list_of_tensors_runs_and_trains(project, mode) -> None:
    xs = [np.arange(1, size + 1, dtype=np.float32) for size in (3, 40, 1)]
    net = Net(project["ScaleAll"].mindspore(bprop=scale_all_bprop, lists={"x": 3}, scale=2.0))
    tensors = [Tensor(x) for x in xs]
    assert [y.asnumpy().tolist() for y in net(*tensors)] == [(x * 2).tolist() for x in xs]

    def total(*given):
        first, second, third = net(*given)
        return (first * first).sum() + second.sum() + third.sum()

    gradients = ms.grad(total, grad_position=(0, 1, 2))(*tensors)
    for gradient, wanted in zip(gradients, (8 * xs[0], np.full(40, 2), np.full(1, 2)), strict=True):
        np.testing.assert_array_equal(gradient.asnumpy(), wanted)


def test_attributes_of_every_kind_and_a_value_behind_a_list(project, mode) -> None:
    given = {"flag": True, "number": -7, "ratio": 1.5, "word": "seven77", "numbers": [9], "ratios": [2.5],
             "flags": [True, False], "rows": [[5, 6]]}  # fmt: skip
    net = Net(project["Answers"].mindspore(lists={"x": 2}, **given))
    a, b = Tensor(np.ones(17, np.float32)), Tensor(np.full(63, 2, np.float32))
    for shift in (200, -1):
        y = net(a, b, Tensor(np.array([shift], np.int64))).asnumpy()
        assert y.tolist() == [1, -7, 1.5, 7, 9, 2.5, 0, 5, shift, 1, 2]


def test_lists_of_tensors_go_to_the_op_itself(project) -> None:
    xs = [Tensor(np.full(size, size, np.float32)) for size in (1, 15)]
    assert [y.asnumpy().tolist() for y in project["ScaleAll"](xs, scale=2.0)] == [[2.0], [30.0] * 15]
    assert project["Answers"](xs, Tensor(np.array([5], np.int64))).asnumpy()[8:].tolist() == [5, 1, 15]


def test_what_a_list_may_not_be(project) -> None:
    scale_all = project["ScaleAll"]
    for lists, given in (({}, None), ({"x": 0}, 0), ({"x": True}, True)):
        text = rf'ScaleAll: lists of x is {given}; accepted: lists=\{{"x": N\}} with at least 1: the input is DYNAMIC'
        with pytest.raises(AscendcError, match=text):
            scale_all.mindspore(lists=lists)
    with pytest.raises(AscendcError, match="AddInto: lists of acc is 2; accepted: an input that is DYNAMIC"):
        project["AddInto"].mindspore(lists={"acc": 2})
    with pytest.raises(AscendcError, match="ScaleAll: inputs is z; accepted: x"):
        scale_all.mindspore(lists={"z": 2})
    floats, integers = Tensor(np.ones(2, np.float32)), Tensor(np.ones(2, np.int32))
    with pytest.raises(AscendcError, match="input x is a list of float32, int32; accepted: one dtype"):
        scale_all.mindspore(lists={"x": 2})(floats, integers)


def test_errors_of_the_project_reach_the_caller(project, mode) -> None:
    x = Tensor(np.ones(4, np.float32))
    with pytest.raises(AscendcError, match="result of the tiling function is SIGFPE"):
        Net(project["Fails"].mindspore(how="divide"))(x)
    with pytest.raises(AscendcError, match="tensors is 1; accepted: 3: x, y, bias"):
        Net(project["ScaleAdd"].mindspore())(x)
    with pytest.raises(AscendcError, match="input y is left out; accepted: one that is OPTIONAL"):
        project["ScaleAdd"].mindspore(inputs=["x"])
    assert ops.ones((2,), ms.float32).sum() == 2
