# SPDX-License-Identifier: Apache-2.0
"""What lies behind the last sequence of a tensor cu_seqlens is no step: NaN there gives the bits that zeros give."""

from __future__ import annotations

import functools

import mindspore as ms
import numpy as np
import pytest
from attention_nets import OutputsAndGradients
from mamba_checks import wide
from mamba_inputs import mamba3_inputs, ssd_inputs
from mindspore import Tensor, nn, ops

from ms_custom_ops import soc
from ms_custom_ops.mindspore import segsum
from ms_custom_ops.mindspore.ssd import mamba3_chunk_scan, ssd_chunk_scan

END, STEPS = 19, 41
AXES = dict(x=1, da=2, B=1, C=1, q=1, k=1, v=1, dt=2, trap=2)

NIGHTLY = functools.partial(pytest.param, marks=pytest.mark.nightly)  # each compiles a large graph of its own


class Run(nn.Cell):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def construct(self, cu, *args):
        y, final = self.function(*args[:-1], 16, args[-1], cu)
        return ops.cast(y, ms.float32), final


def planted(inputs, value):
    """The inputs with ``value`` behind END."""
    out = []
    for name, x in inputs.items():
        array = x.asnumpy().copy()
        if name in AXES:
            array[(slice(None),) * AXES[name] + (slice(END, None),)] = value
        out.append(Tensor(array))
    return out


@pytest.mark.parametrize(
    "function, chip",
    [(ssd_chunk_scan, "Ascend910B1"), NIGHTLY(mamba3_chunk_scan, "Ascend910B1")]
    + [NIGHTLY(ssd_chunk_scan, "Ascend910A"), NIGHTLY(mamba3_chunk_scan, "Ascend910A")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_scans_and_all_their_gradients(mode, function, chip):
    soc.set_soc(chip)
    if function is ssd_chunk_scan:
        inputs = ssd_inputs((1, STEPS, 2, 1, 15, 17), owners=2)
    else:
        inputs = mamba3_inputs((1, STEPS, 3, 2, 1, 15, 17), owners=2)
    cu, rng = Tensor([0, 7, END], ms.int32), np.random.default_rng(3)
    outputs = inputs["v" if function is mamba3_chunk_scan else "x"], inputs["initial_states"]
    d = tuple(Tensor(rng.standard_normal(x.shape).astype(np.float32)) for x in outputs)
    net, results = OutputsAndGradients(Run(function)), []  # one graph for all values
    for value in (0.0, np.nan, np.inf):
        found, (_, *grads) = net(cu, *planted(inputs, value), d)
        assert len(grads) == len(inputs)
        results.append([wide(x) for x in (*found, *grads)])
    assert not results[0][0][:, END:].any()
    names = ("y", "final", *inputs)
    for other in results[1:]:
        for name, zeros, nans in zip(names, results[0], other, strict=True):
            np.testing.assert_array_equal(nans, zeros, err_msg=name)


FUNCTIONS = [("dacs_segsum", 1), ("segsum_decay", 1), ("bwd_dadt_cumsum", 4), ("bwd_dtrap_ddt", 4)]


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B1"])
@pytest.mark.parametrize("name, count", FUNCTIONS + [("bwd_segsum_dadt", 1), ("bwd_dadt_fused", 4)])
def test_segment_sums(mode, name, count, chip):
    soc.set_soc(chip)
    rng, cu, chunk = np.random.default_rng(2), Tensor([0, 7, END], ms.int32), 16
    slots = STEPS // chunk + 2
    matrices = 2 if name in ("bwd_segsum_dadt", "bwd_dadt_fused") else 0
    vectors = rng.standard_normal((count, 1, 2, STEPS)).astype(np.float32)
    squares = rng.standard_normal((matrices, 1, 2, slots, chunk, chunk)).astype(np.float32)
    lengths = {0: 7, 1: 12}
    results = []
    for value in (0.0, np.nan, np.inf):
        vectors[..., END:] = value
        for slot in range(slots):
            length = lengths.get(slot, 0)
            squares[:, :, :, slot, length:] = value
            squares[:, :, :, slot, :, length:] = value
        out = getattr(segsum, name)(*[Tensor(x.copy()) for x in (*squares, *vectors)], chunk, cu)
        results.append([x.asnumpy() for x in (out if isinstance(out, tuple) else (out,))])
    for other in results[1:]:
        for zeros, nans in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(nans, zeros)
