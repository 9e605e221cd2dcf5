# SPDX-License-Identifier: Apache-2.0
"""The scans against outputs and gradients of the original GPU kernels, which lie beside the checkout."""

from __future__ import annotations

from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from attention_nets import OutputsAndGradients
from mindspore import Tensor, nn, ops

from ms_custom_ops import soc
from ms_custom_ops.mindspore.ssd import mamba3_chunk_scan, ssd_chunk_scan
from ms_custom_ops.testing import assert_rms

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "oracle"
on_both = pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B1"])


def oracle(name: str, case: str) -> dict[str, np.ndarray]:
    """Arrays of one case."""
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"no {name} in {FOLDER}")
    with np.load(path) as data:
        return {key.partition("/")[2]: data[key] for key in data.files if key.startswith(f"{case}/")}


class Mamba2Scan(nn.Cell):
    """Of the layer's x, dt (B, S, H), A (H,), B, C and initial states."""

    def __init__(self, cu):
        super().__init__()
        self.cu = cu

    def construct(self, x, dt, a, b, c, states):
        da = ops.transpose(dt * a, (0, 2, 1))
        x, b, c = [ops.cast(v, ms.float16) for v in (x * ops.expand_dims(dt, -1), b, c)]
        y, final = ssd_chunk_scan(x, da, b, c, 64, states, self.cu)
        return ops.cast(y, ms.float32), final


class Mamba3Scan(nn.Cell):
    """Of rank 1."""

    def __init__(self, cu):
        super().__init__()
        self.cu = cu

    def construct(self, q, k, v, da, dt, trap):
        q, k, v = [ops.cast(ops.expand_dims(x, 2), ms.float16) for x in (q, k, v)]
        y, _ = mamba3_chunk_scan(q, k, v, da, dt, trap, 64, None, self.cu)
        return ops.cast(y[:, :, 0], ms.float32)


def bounds(data):
    return [int(v) for v in data["cu"]] if "cu" in data else None


MAMBA2, MAMBA3 = ["base", "groups", "init", "packed"], ["base", "packed"]


@pytest.mark.graph_at_night(*(f"{case}-Ascend910A" for case in MAMBA2))
@on_both
@pytest.mark.parametrize("case", MAMBA2)
def test_mamba2(mode, case, chip):
    data = oracle("mamba2_triton_h200.npz", case)
    soc.set_soc(chip)
    cu = bounds(data)
    batch, _, heads, size = data["x"].shape
    shape = (len(cu) - 1 if cu else batch, heads, size, data["B"].shape[3])
    args = [Tensor(data[name]) for name in ("x", "dt", "A", "B", "C")]
    args.append(Tensor(data.get("h0", np.zeros(shape, np.float32))))
    d = (Tensor(data["dy"]), Tensor(np.zeros(shape, np.float32)))
    (y, final), found = OutputsAndGradients(Mamba2Scan(cu))(*args, d)
    assert_rms("y", y.asnumpy(), data["y"], 2e-3)
    assert_rms("final", final.asnumpy()[-len(data["final"]) :], data["final"], 2e-3)
    for name, value in zip(("dx", "ddt", "dA", "dB", "dC", "dh0"), found, strict=True):
        if name in data:
            assert_rms(name, value.asnumpy(), data[name], 2e-3)


@pytest.mark.graph_at_night(*(f"{case}-Ascend910A" for case in MAMBA3))
@on_both
@pytest.mark.parametrize("case", MAMBA3)
def test_mamba3(mode, case, chip):
    """The original rounds to bfloat16 inside."""
    data = oracle("mamba3_triton_h200.npz", case)
    soc.set_soc(chip)
    names = ("q", "k", "v", "da", "dt", "trap")
    args = [Tensor(data[name]) for name in (*names, "dy")]
    y, found = OutputsAndGradients(Mamba3Scan(bounds(data)))(*args)
    assert_rms("y", y.asnumpy(), data["y"], 4e-3)
    for name, value in zip(names, found, strict=True):
        assert_rms(f"d{name}", value.asnumpy(), data[f"d{name}"], 4e-3)
