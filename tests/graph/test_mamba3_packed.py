# SPDX-License-Identifier: Apache-2.0
"""mamba3_chunk_scan with cu_seqlens in MindSpore: values and gradients, chips, no leak between sequences."""

from __future__ import annotations

import functools
from itertools import pairwise

import mindspore as ms
import numpy as np
import pytest
from attention_nets import OutputsAndGradients
from mamba_checks import LIMIT, Scan, check, wide
from mamba_inputs import Random, mamba3_inputs
from mindspore import Tensor, ops

from ms_custom_ops import soc
from ms_custom_ops.mindspore import computed, lowered
from ms_custom_ops.mindspore.ssd import mamba3_chunk_scan
from ms_custom_ops.op_impl.mamba3_chunk_scan import golden
from ms_custom_ops.op_impl.segsum.chunks import slot_count
from ms_custom_ops.op_impl.ssd_chunk_scan.public import packed_places
from ms_custom_ops.testing import assert_rms

NIGHTLY = functools.partial(pytest.param, marks=pytest.mark.nightly)  # each compiles a large graph of its own
CHIPS = ("Ascend910A", "Ascend910B1")


def given_as(bounds, kind):
    """cu_seqlens as the op gets it."""
    return bounds if kind == "list" else Tensor(bounds, getattr(ms, kind))


def check_packed(bounds, kind, rank, chunk, dtype=ms.float16, size=15, state=16, heads=2, groups=1):
    inputs = mamba3_inputs((1, bounds[-1], rank, heads, groups, size, state), dtype, len(bounds) - 1)

    def backward(d, d_final, **operands):
        return golden.mamba3_chunk_scan_grad(**operands, do=d, d_final=d_final, cu_seqlens=bounds)

    check(
        Scan(mamba3_chunk_scan, chunk, given_as(bounds, kind)),
        inputs,
        lambda **o: golden.mamba3_chunk_scan(**o, cu_seqlens=bounds),
        backward,
        LIMIT[dtype],
    )


@pytest.mark.graph_at_night("0_1-int64-16-1")
@pytest.mark.parametrize(
    "bounds, kind, rank, chunk",
    [
        ([0, 5, 5, 23], "int64", 4, 4),
        ([0, 1, 2, 3, 40], "list", 3, 16),
        ([0, 1], "int64", 16, 1),
        NIGHTLY([0, 23], "int32", 1, 16),
        NIGHTLY([0, 5, 5, 23], "list", 4, 4),
        NIGHTLY([0, 16, 32], "int32", 1, 16),
        NIGHTLY([0, 8, 24, 32], "list", 4, 8),
        NIGHTLY([0, 1, 2, 3, 40], "int32", 1, 8),
    ],
    ids=lambda v: "_".join(map(str, v)) if isinstance(v, list) else str(v),
)
def test_packed(mode, bounds, kind, rank, chunk):
    check_packed(bounds, kind, rank, chunk)


@pytest.mark.parametrize(
    "kind, rank, dtype",
    [
        ("list", 1, ms.bfloat16),
        ("int32", 4, ms.float16),
        NIGHTLY("list", 1, ms.float16),
        NIGHTLY("int32", 4, ms.bfloat16),
    ],
    ids=str,
)
def test_packed_on_910b1(kind, rank, dtype):
    soc.set_soc("Ascend910B1")
    check_packed([0, 7, 8, 23], kind, rank, 16, dtype, size=16, state=15)


@pytest.mark.parametrize("chip", CHIPS)
def test_heads_with_keys_of_their_own_and_wide_states(chip):
    soc.set_soc(chip)
    check_packed([0, 17, 63], "list", 4, 16, size=64, state=63, heads=2, groups=2)


def test_int32_int64_and_list_agree_bit_for_bit(mode):
    bounds = [0, 7, 7, 23]
    inputs = mamba3_inputs((1, 23, 2, 2, 1, 16, 16), owners=3)
    results = [
        Scan(mamba3_chunk_scan, 8, given_as(bounds, kind))(*inputs.values()) for kind in ("list", "int32", "int64")
    ]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_no_initial_states_means_zeros(mode):
    inputs = mamba3_inputs((1, 20, 4, 1, 1, 16, 16), owners=2)
    zeros = inputs | {"initial_states": ops.zeros_like(inputs["initial_states"])}
    with_zeros = Scan(mamba3_chunk_scan, 8, [0, 9, 20])(*zeros.values())
    without = mamba3_chunk_scan(*list(inputs.values())[:6], 8, None, [0, 9, 20])
    for a, b in zip(with_zeros, without, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_no_steps_return_the_initial_states(mode):
    inputs = mamba3_inputs((1, 0, 2, 2, 1, 3, 4), owners=2)
    o, final = mamba3_chunk_scan(*list(inputs.values())[:6], 16, inputs["initial_states"], [0, 0, 0])
    assert o.shape == (1, 0, 2, 2, 3)
    np.testing.assert_array_equal(final.asnumpy(), inputs["initial_states"].asnumpy())


AXES = {"q": 1, "k": 1, "v": 1, "da": 2, "dt": 2, "trap": 2, "initial_states": 0, "o": 1, "final_states": 0}


def part(name, value, bounds, i):
    """Sequence i of an argument, an output or a gradient."""
    value = value.asnumpy()
    if AXES[name] == 0:
        return value[i]
    return value.take(np.arange(bounds[i], bounds[i + 1]), AXES[name])


def replaced(name, tensor, bounds, i, value):
    """``tensor`` with sequence i overwritten."""
    if name == "trap" and np.isnan(value):
        value = np.inf  # of a tensor with a NaN, MindSpore's CPU sigmoid rounds all values differently
    array = tensor.asnumpy().copy()
    at = i if AXES[name] == 0 else np.arange(bounds[i], bounds[i + 1])
    np.moveaxis(array, AXES[name], 0)[at] = value
    return Tensor(array)


@pytest.mark.graph_at_night("0_16_31-list-1-Ascend910A")
@pytest.mark.parametrize(
    "bounds, kind, rank, chip",
    [
        ([0, 16, 31], "list", 1, "Ascend910A"),
        ([0, 13, 31], "int32", 4, "Ascend910B1"),
        NIGHTLY([0, 16, 31], "list", 1, "Ascend910B1"),
        NIGHTLY([0, 13, 31], "int32", 4, "Ascend910A"),
        *(NIGHTLY([0, 16, 31], "list", 4, chip) for chip in CHIPS),
    ],
    ids=lambda v: "_".join(map(str, v)) if isinstance(v, list) else str(v),
)
def test_no_sequence_sees_another(mode, bounds, kind, rank, chip):
    """Whatever one of two sequences holds, arguments and gradients, the bits of the other one stay."""
    soc.set_soc(chip)
    net = OutputsAndGradients(Scan(mamba3_chunk_scan, 16, given_as(bounds, kind)))
    inputs = mamba3_inputs((1, 31, rank, 2, 1, 16, 16), owners=2)
    r = Random(seed=7)
    d = dict(o=r.operand(1, 31, rank, 2, 16), final_states=r.float32(2, 2, 16, 16))

    def run(inputs, d):
        outputs, gradients = net(*inputs.values(), ms.mutable(tuple(d.values())))  # one graph for all values
        return [*zip(d, outputs, strict=True), *zip(inputs, gradients, strict=True)]

    before = run(inputs, d)
    for changed in (0, 1):
        for value in (3.0, np.nan, -np.inf):
            given = [{n: replaced(n, x, bounds, changed, value) for n, x in t.items()} for t in (inputs, d)]
            for (name, old), (_, new) in zip(before, run(*given), strict=True):
                text = f"{name} with {value} in sequence {changed}"
                mine, other = ([part(name, x, bounds, i) for x in (old, new)] for i in (changed, 1 - changed))
                assert not np.array_equal(*mine), text
                np.testing.assert_array_equal(*other, err_msg=text)


@pytest.mark.graph_at_night("0_0")
@pytest.mark.parametrize("bounds", [[0, 7, 19], [0, 0], NIGHTLY([0, 96])], ids=lambda b: "_".join(map(str, b)))
def test_steps_behind_the_last_sequence_are_zero(mode, bounds):
    """100 steps: chunks behind those of the last sequence are written by nobody."""
    inputs = mamba3_inputs((1, 100, 2, 2, 1, 16, 16), owners=len(bounds) - 1)
    net, stop = Scan(mamba3_chunk_scan, 16, Tensor(bounds, ms.int32)), bounds[-1]
    d = (ops.ones_like(inputs["v"]), ops.ones_like(inputs["initial_states"]))
    (o, final), gradients = OutputsAndGradients(net)(*inputs.values(), d)
    operands = {n: wide(x) for n, x in inputs.items()}
    held = {n: x if AXES[n] == 0 else x.take(np.arange(stop), AXES[n]) for n, x in operands.items()}
    expected, states = golden.mamba3_chunk_scan(**held, cu_seqlens=bounds)
    assert_rms("final_states", wide(final), states, 2e-3)
    assert not wide(o)[:, stop:].any()
    if stop:
        assert_rms("o", wide(o)[:, :stop], expected, 2e-3)
    for name, gradient in zip(inputs, gradients, strict=True):
        behind = wide(gradient).take(np.arange(stop, 100), AXES[name]) if AXES[name] else np.zeros(1)
        assert np.isfinite(wide(gradient)).all() and not behind.any(), name


def test_what_nobody_wrote_does_not_reach_the_result():
    y = Tensor(np.array([1, 2, np.nan, np.inf], np.float16).reshape(1, 4, 1, 1))
    tensors = (y, Tensor([1, 0, 2, 3], ms.int32), Tensor([True, True, False, False]))
    found = lowered.made(("given", 0, (("take", 1, 1), ("keep", 2, 1))), tensors)
    np.testing.assert_array_equal(found.asnumpy().ravel(), [2, 1, 0, 0])


def random_bounds(rng):
    lengths = rng.integers(0, 20, rng.integers(1, 6))
    return [0, *np.cumsum(lengths).tolist()]


def places(bounds, steps, chunk):
    sequences = len(bounds) - 1
    return packed_places(bounds, steps, chunk, slot_count(steps, chunk, sequences) * chunk, sequences)


@pytest.mark.parametrize("chunk", [1, 4, 16])
def test_a_place_without_a_step_follows_every_sequence(chunk):
    """The shift of the trapezoid by one step relies on it."""
    rng = np.random.default_rng(chunk)
    for _ in range(200):
        bounds = random_bounds(rng)
        source, target, _, _ = places(bounds, bounds[-1], chunk)
        for start, stop in pairwise(bounds):
            if start < stop:
                assert source[target[stop - 1] + 1] == bounds[-1], bounds


def test_positions_of_a_tensor_are_those_of_a_list():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    rng = np.random.default_rng(1)
    for _ in range(10):
        bounds = [*random_bounds(rng), 100]
        expected = places(bounds, 100, 4)
        sizes = (100, 4, len(expected[0]), len(bounds) - 1)
        found = computed.compute("packed_places", (Tensor(bounds, ms.int32),), (0,), sizes)
        for a, b in zip(expected, found, strict=False):
            np.testing.assert_array_equal(a, b.asnumpy())
        assert found[3].asnumpy().all()
