# SPDX-License-Identifier: Apache-2.0
"""ssd_chunk_scan and mamba3_chunk_scan in MindSpore: values and gradients against the goldens, packing,
messages."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mamba_checks import LIMIT, Scan, check, wide
from mamba_inputs import mamba3_inputs, ssd_inputs
from mindspore import Tensor, ops

from ms_custom_ops import soc
from ms_custom_ops.mindspore.ssd import mamba3_chunk_scan, ssd_chunk_scan
from ms_custom_ops.op_impl.mamba3_chunk_scan import golden as golden3
from ms_custom_ops.op_impl.segsum.chunks import slot_count
from ms_custom_ops.op_impl.ssd_chunk_scan import golden
from ms_custom_ops.op_impl.ssd_chunk_scan.public import packed_places
from ms_custom_ops.testing import assert_rms


def check_ssd(sizes, chunk, dtype=ms.float16, cu=None, cut=None):
    """``cut``: cu_seqlens as the op gets it."""
    inputs = ssd_inputs(sizes, dtype, None if cu is None else len(cu) - 1)

    def backward(d, d_final, **operands):
        return golden.ssd_chunk_scan_grad(**operands, dy=d, d_final=d_final, cu_seqlens=cu)

    check(
        Scan(ssd_chunk_scan, chunk, cut),
        inputs,
        lambda **o: golden.ssd_chunk_scan(**o, cu_seqlens=cu),
        backward,
        LIMIT[dtype],
    )


@pytest.mark.graph_at_night("S1-P1-N1", "S200-P64-N63-C64")
@pytest.mark.parametrize(
    "sizes, chunk",
    [((1, 1, 1, 1, 1, 1), 1), ((2, 63, 2, 1, 15, 17), 24), ((1, 200, 4, 2, 64, 63), 64), ((2, 17, 3, 3, 16, 16), 256)],
    ids=["S1-P1-N1", "S63-P15-N17-C24", "S200-P64-N63-C64", "S17-P16-N16-C256"],
)
def test_ssd(mode, sizes, chunk):
    check_ssd(sizes, chunk)


def test_ssd_bfloat16(mode):
    soc.set_soc("Ascend910B1")
    check_ssd((2, 33, 2, 1, 15, 17), 16, ms.bfloat16)


@pytest.mark.graph_at_night("0_23-int32", "0_16_32-int32", "0_1_2_3_40-list")
@pytest.mark.parametrize(
    "bounds, given",
    [
        ([0, 23], "int32"),
        ([0, 5, 5, 23], "list"),
        ([0, 5, 5, 23], "int64"),
        ([0, 16, 32], "int32"),
        ([0, 1, 2, 3, 40], "list"),
    ],
    ids=lambda v: v if isinstance(v, str) else "_".join(map(str, v)),
)
def test_ssd_packed(mode, bounds, given):
    cut = bounds if given == "list" else Tensor(bounds, getattr(ms, given))
    check_ssd((1, bounds[-1], 2, 1, 15, 16), 16, cu=bounds, cut=cut)


def test_ssd_packed_bfloat16():
    soc.set_soc("Ascend910B1")
    check_ssd((1, 23, 2, 1, 16, 15), 16, ms.bfloat16, [0, 7, 23], Tensor([0, 7, 23], ms.int32))


@pytest.mark.graph_at_night("23")
@pytest.mark.parametrize("steps", [23, 100])
def test_steps_behind_the_last_sequence_are_zero(mode, steps):
    """Of 100 steps, chunks behind those of the last sequence are written by nobody."""
    inputs = ssd_inputs((1, steps, 2, 1, 16, 16), owners=2)
    y, final = Scan(ssd_chunk_scan, 16, Tensor([0, 7, 19], ms.int32))(*inputs.values())
    operands = {name: wide(x) for name, x in inputs.items()}
    for name, axis in (("x", 1), ("da", 2), ("B", 1), ("C", 1)):
        operands[name] = np.take(operands[name], range(19), axis)
    expected, states = golden.ssd_chunk_scan(**operands, cu_seqlens=[0, 7, 19])
    assert_rms("y", wide(y)[:, :19], expected, 2e-3)
    assert_rms("final_states", wide(final), states, 2e-3)
    assert not wide(y)[:, 19:].any()


def test_ssd_continues_from_its_final_states():
    ms.set_context(mode=ms.PYNATIVE_MODE)  # every length would be a graph of its own
    inputs = ssd_inputs((1, 48, 2, 1, 16, 16))
    net = Scan(ssd_chunk_scan, 16)
    whole, last = net(*inputs.values())

    def part(a, b, states):
        return net(inputs["x"][:, a:b], inputs["da"][:, :, a:b], inputs["B"][:, a:b], inputs["C"][:, a:b], states)

    first, states = part(0, 32, inputs["initial_states"])
    second, states = part(32, 48, states)
    np.testing.assert_array_equal(np.concatenate([first.asnumpy(), second.asnumpy()], 1), whole.asnumpy())
    np.testing.assert_array_equal(states.asnumpy(), last.asnumpy())


def test_chunk_size_changes_rounding_only():
    ms.set_context(mode=ms.PYNATIVE_MODE)  # every size would be a graph of its own
    inputs = ssd_inputs((1, 100, 2, 1, 16, 16))
    results = [wide(Scan(ssd_chunk_scan, chunk)(*inputs.values())[0]) for chunk in (16, 50, 128)]
    for other in results[1:]:
        assert_rms("y", other, results[0], 1e-3)


def test_no_initial_states_means_zeros():
    inputs = ssd_inputs((1, 20, 1, 1, 16, 16))
    zeros = inputs | {"initial_states": ops.zeros_like(inputs["initial_states"])}
    y, final = Scan(ssd_chunk_scan, 16)(*zeros.values())
    y_none, final_none = ssd_chunk_scan(inputs["x"], inputs["da"], inputs["B"], inputs["C"], 16)
    np.testing.assert_array_equal(y.asnumpy(), y_none.asnumpy())
    np.testing.assert_array_equal(final.asnumpy(), final_none.asnumpy())


def test_no_steps_return_the_initial_states(mode):
    inputs = ssd_inputs((2, 0, 2, 1, 3, 4))
    y, final = ssd_chunk_scan(*list(inputs.values())[:4], 16, inputs["initial_states"])
    assert y.shape == (2, 0, 2, 3)
    np.testing.assert_array_equal(final.asnumpy(), inputs["initial_states"].asnumpy())


@pytest.mark.graph_at_night("S1-R1", "S63-R1-C8", "S17-R16-C256")
@pytest.mark.parametrize(
    "sizes, chunk",
    [
        ((1, 1, 1, 1, 1, 1, 1), 1),
        ((2, 19, 3, 2, 1, 16, 17), 4),
        ((1, 63, 1, 4, 2, 15, 16), 8),
        ((1, 40, 4, 2, 2, 64, 64), 16),
        ((1, 17, 16, 1, 1, 16, 16), 256),
    ],
    ids=["S1-R1", "S19-R3-C4", "S63-R1-C8", "S40-R4-C16", "S17-R16-C256"],
)
def test_mamba3(mode, sizes, chunk):
    def backward(d, d_final, **operands):
        return golden3.mamba3_chunk_scan_grad(**operands, do=d, d_final=d_final)

    check(
        Scan(mamba3_chunk_scan, chunk), mamba3_inputs(sizes), lambda **o: golden3.mamba3_chunk_scan(**o), backward, 2e-3
    )


def test_mamba3_bfloat16(mode):
    soc.set_soc("Ascend910B1")

    def backward(d, d_final, **operands):
        return golden3.mamba3_chunk_scan_grad(**operands, do=d, d_final=d_final)

    check(
        Scan(mamba3_chunk_scan, 8),
        mamba3_inputs((1, 21, 3, 2, 1, 15, 17), ms.bfloat16),
        lambda **o: golden3.mamba3_chunk_scan(**o),
        backward,
        1.5e-2,
    )


def test_mamba3_continues_with_the_last_product_in_the_state():
    """kv[-1] is folded into the state, as the docstring says."""
    t = {name: wide(x) for name, x in mamba3_inputs((1, 12, 2, 1, 1, 3, 4)).items()}
    whole, last = golden3.mamba3_chunk_scan(**t)
    first = {n: x if n == "initial_states" else np.take(x, range(7), 1 if x.ndim == 5 else 2) for n, x in t.items()}
    rest = {n: np.take(x, range(7, 12), 1 if x.ndim == 5 else 2) for n, x in t.items() if n != "initial_states"}
    _, states = golden3.mamba3_chunk_scan(**first)
    kv = np.einsum("brhp,brgn->bhpn", first["v"][:, -1], first["k"][:, -1])
    weight = (1 - 1 / (1 + np.exp(-rest["trap"][..., 0]))) * rest["dt"][..., 0]
    o, end = golden3.mamba3_chunk_scan(**rest, initial_states=states + weight[..., None, None] * kv)
    np.testing.assert_allclose(o, whole[:, 7:], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(end, last, rtol=1e-12, atol=1e-12)


def test_packed_positions_are_each_others_inverse():
    bounds = [0, 1, 1, 18, 63]
    source, target, first, _ = packed_places(bounds, 63, 16, slot_count(63, 16, 4) * 16, 4)
    np.testing.assert_array_equal(source[target], np.arange(63))
    assert (np.sort(source[source < 63]) == np.arange(63)).all() and len(source) % 16 == 0
    np.testing.assert_array_equal(first[:5], [0, 1, 2, 4, 7])
