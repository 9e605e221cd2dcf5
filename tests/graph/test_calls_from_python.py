# SPDX-License-Identifier: Apache-2.0
"""What a call from Python passes on to MindSpore: the tensors that are there, of what is known already."""

from __future__ import annotations

from collections.abc import Iterator

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

import ms_custom_ops as mco
from ms_custom_ops import mco_generated_ops
from ms_custom_ops.errors import OpArgumentError, OpDtypeError
from ms_custom_ops.mco_generated_ops_primitives import FlashAttention
from ms_custom_ops.mindspore import custom, lowered
from ms_custom_ops.mindspore.custom import ABSENT

RNG = np.random.RandomState(4)
OPTIONAL = 7


def tensors(queries: int = 17, keys: int = 33) -> list[Tensor]:
    shapes = ((1, 2, queries, 16), (1, 2, keys, 16), (1, 2, keys, 16))
    return [Tensor(RNG.standard_normal(shape).astype(np.float16)) for shape in shapes]


@pytest.fixture()
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many tensors MindSpore asked about, call by call."""
    calls: list[int] = []
    infer = custom.TikCustom.__infer__

    def counted(self, *args):
        calls.append(len(args))
        return infer(self, *args)

    monkeypatch.setattr(custom.TikCustom, "__infer__", counted)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield calls


@pytest.mark.parametrize("mask", [False, True], ids=["no mask", "mask"])
def test_absent_tensors_are_not_passed(asked: list[int], mask: bool) -> None:
    q, k, v = tensors()
    flags = Tensor(RNG.rand(17, 33) < 0.3) if mask else None
    out = mco.ops.flash_attention(q, k, v, flags)
    assert asked == [4 if mask else 3]
    assert out[0].shape == q.shape and out[1].shape == (1, 2, 17)


def test_a_primitive_gives_what_it_gives_with_every_tensor() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    q, k, v = tensors(16, 32)
    primitive = FlashAttention((False,) * OPTIONAL, 0.25)
    every = (q, k, v, *[ABSENT] * OPTIONAL)
    short = primitive(*every)
    whole = super(custom.OpPrimitive, primitive).__call__(*every)
    for x, y in zip(short, whole, strict=True):
        np.testing.assert_array_equal(x.asnumpy(), y.asnumpy())


def test_a_middle_tensor_keeps_its_place(asked: list[int]) -> None:
    """A bias behind an absent mask, in the call and in its gradient."""
    q, k, v = tensors(16, 16)
    bias = Tensor(RNG.standard_normal((1, 2, 16, 16)).astype(np.float16))

    def loss(q, k, v, bias):
        return mco.ops.flash_attention(q, k, v, real_shift=bias)[0].astype(ms.float32).sum()

    found = [g.asnumpy() for g in ms.grad(loss, (0, 1, 2, 3))(q, k, v, bias)]
    assert asked[0] == 4
    ms.set_context(mode=ms.GRAPH_MODE)
    wanted = [g.asnumpy() for g in ms.grad(loss, (0, 1, 2, 3))(q, k, v, bias)]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def test_no_tensor_in_the_place_of_an_absent_one_is_refused() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    primitive = FlashAttention((False,) * OPTIONAL, 0.25)
    with pytest.raises(OpArgumentError, match="flash_attention: attn_mask is None; accepted: a tensor"):
        primitive(*tensors(16, 16), None, *[ABSENT] * (OPTIONAL - 1))


def test_a_primitive_with_too_few_tensors_is_refused() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    primitive = FlashAttention((False,) * OPTIONAL, 0.25)
    with pytest.raises(ValueError, match="shorter|longer"):
        primitive(*tensors(16, 16))


def test_a_known_call_is_not_described_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    described: list[str] = []
    plans: list[str] = []
    for module, name, made in ((custom.compiler, "describe_call", described), (lowered, "_new_plan", plans)):
        own = getattr(module, name)
        monkeypatch.setattr(module, name, lambda what, *rest, own=own, made=made: made.append(what) or own(what, *rest))
    for sizes in ((23, 41), (23, 41), (24, 41), (23, 41)):
        mco.ops.flash_attention(*tensors(*sizes), scale_value=0.125)
    assert (len(plans), len(described)) == (2, 2)


def test_attributes_that_are_equal_but_not_the_same_have_plans_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowered, "_plans", {})
    ms.set_context(mode=ms.PYNATIVE_MODE)
    for scale in (1.0, 0.0, -0.0, 1.0):
        mco.ops.flash_attention(*tensors(16, 16), scale_value=scale)
    assert len(lowered._plans) == 3
    with pytest.raises(OpArgumentError, match="high_precision"):
        mco.ops.flash_attention(*tensors(16, 16), high_precision=1)


def test_lists_are_known_by_their_values() -> None:
    assert lowered._known_by(lowered.about([16, 32])) != lowered._known_by(lowered.about([16, 31]))
    assert lowered._known_by(lowered.about([1])) != lowered._known_by(lowered.about([True]))
    assert lowered._known_by(lowered.about(None)) is None


def test_set_soc_between_calls_is_followed_by_the_short_call() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    q, k, v = tensors(16, 16)
    first = mco_generated_ops.flash_attention(q, k, v)
    mco.set_soc("Ascend310P3")
    second = mco_generated_ops.flash_attention(q, k, v)
    assert first[0].shape == second[0].shape
    wide = [x.astype(ms.bfloat16) for x in (q, k, v)]
    with pytest.raises(OpDtypeError, match="bfloat16"):
        mco_generated_ops.flash_attention(*wide)


class Net(nn.Cell):
    def construct(self, q, k, v):
        return mco.ops.flash_attention(q, k, v)[0]


def test_graphs_keep_every_tensor(asked: list[int]) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    Net()(*tensors(16, 16))
    assert set(asked) == {3 + OPTIONAL}
