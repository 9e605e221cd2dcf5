# SPDX-License-Identifier: Apache-2.0
"""The public segment-sum functions through MindSpore: the original's outputs, the shape table, gradients,
packing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ms = pytest.importorskip("mindspore")

from mindspore import Tensor, nn  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))

from segsum_cases import TOLERANCE  # noqa: E402
from segsum_nets import call, graph_mode, numpy, tensor  # noqa: E402, F401

from ms_custom_ops import soc  # noqa: E402
from ms_custom_ops.mindspore import segsum  # noqa: E402
from ms_custom_ops.op_impl.bwd_dadt_cumsum import golden as golden_cumsum  # noqa: E402
from ms_custom_ops.op_impl.bwd_dadt_fused import golden as golden_fused  # noqa: E402
from ms_custom_ops.op_impl.bwd_dtrap_ddt import golden as golden_trapezoid  # noqa: E402
from ms_custom_ops.op_impl.bwd_segsum_dadt import golden as golden_segsum  # noqa: E402
from ms_custom_ops.op_impl.dacs_segsum import golden as golden_dacs  # noqa: E402
from ms_custom_ops.op_impl.segsum.chunks import chunk_slots, pack, slot_count, slot_lengths, unpack  # noqa: E402
from ms_custom_ops.op_impl.segsum_decay import golden as golden_decay  # noqa: E402
from ms_custom_ops.testing import assert_ratio, assert_rms  # noqa: E402

ORACLE = Path(__file__).parents[1] / "data" / "segsum_triton_h200.npz"


@pytest.fixture(params=["GRAPH", "PYNATIVE"])
def mode(request):
    ms.set_context(mode=ms.GRAPH_MODE if request.param == "GRAPH" else ms.PYNATIVE_MODE)
    return request.param


def oracle():
    with np.load(ORACLE) as data:
        return {key: data[key] for key in data.files}


CASES = [key[: -len("_dSSdA")] for key in oracle() if key.startswith("segsum") and key.endswith("_dSSdA")]
on_both = pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B1"])


@pytest.mark.graph_at_night(*(f"{case}-Ascend910A" for case in CASES))
@on_both
@pytest.mark.parametrize("case", CASES)
def test_bwd_segsum_dadt_agrees_with_the_original_kernel(mode, case, chip):
    soc.set_soc(chip)
    data = oracle()
    operands = [data[f"{case}_{name}"] for name in ("dSSdA", "SSdA", "ddt_in")]
    (out,) = call(segsum.bwd_segsum_dadt, operands, operands[0].shape[-1])
    assert_rms(case, out, data[f"{case}_ddt_out"], 1e-5)


@on_both
def test_the_chain_agrees_with_the_original_kernels(chip):
    soc.set_soc(chip)
    d = {key.rpartition("16_")[2]: value for key, value in oracle().items() if key.startswith("chain")}
    for name, out in zip(("cs", "rev", "seg"), call(segsum.dacs_segsum, [d["da"]], 16), strict=True):
        assert_rms(name, out, d[name], 1e-5)
    fused = [d[name] for name in ("dSSdA", "seg", "ddA_cs", "ddA_cs_rev", "cs", "rev")]
    assert_rms("dadt", call(segsum.bwd_dadt_fused, fused, 16)[0], d["dadt"], 1e-5)
    parts = call(segsum.bwd_dadt_cumsum, fused[2:], 16)[0]
    assert_rms("dadt in two ops", call(segsum.bwd_segsum_dadt, [*fused[:2], parts], 16)[0], d["dadt"], 1e-5)
    trapezoid = [d[name] for name in ("trap", "dt", "dfactor", "dgamma_diag")]
    for name, out in zip(("ddt", "dtrap"), call(segsum.bwd_dtrap_ddt, trapezoid, 16), strict=True):
        assert_rms(name, out, d[name], 1e-5)


TABLE = [(1, 1, 1, 8), (1, 1, 1, 16), (1, 2, 2, 16), (2, 4, 4, 32), (1, 1, 2, 64), (1, 8, 1, 32)]
TABLE += [(1, 2, 2, c) for c in (1, 2, 3, 7, 24, 48, 100, 128, 256)]
SIXTEEN_BITS = [("float16", "Ascend910A"), ("bfloat16", "Ascend910B1")]


def named(shape):
    return "B{}-H{}-n{}-C{}".format(*shape)


@pytest.mark.graph_at_night(
    *("-".join((named(s), *kind)) for s in TABLE if s[3] not in (7, 64) for kind in SIXTEEN_BITS)
)
@pytest.mark.parametrize("dtype, chip", [("float32", "Ascend910A"), *SIXTEEN_BITS])
@pytest.mark.parametrize("shape", TABLE, ids=named)
def test_shape_table(mode, shape, dtype, chip):
    """randn operands, ddt not 0, garbage where nothing may be used; ddt in the operand dtype and in
    float32.
    """
    soc.set_soc(chip)
    b, h, n, c = shape
    rng = np.random.default_rng(4)
    unused = np.triu(np.ones((c, c), bool))
    s = np.where(unused, np.nan, rng.standard_normal((b, h, n, c, c)))
    d = np.where(unused.T, np.inf, rng.standard_normal((b, h, n, c, c)))
    t = rng.standard_normal((b, h, n * c))
    matrices, ddt_dtypes = [tensor(d, dtype), tensor(s, dtype)], sorted({dtype, "float32"})
    vectors = [tensor(t, ddt_dtype) for ddt_dtype in ddt_dtypes]
    wanted = [golden_segsum.bwd_segsum_dadt(*[numpy(x).copy() for x in (*matrices, ddt)]) for ddt in vectors]
    for ddt_dtype, out, expected in zip(ddt_dtypes, call(each_ddt, [*matrices, *vectors], c), wanted, strict=True):
        assert_ratio("ddt", out, expected, *TOLERANCE[ddt_dtype])


def each_ddt(d, s, *rest):
    """bwd_segsum_dadt of every vector, in one graph; the chunk size comes last."""
    found = ()
    for ddt in rest[:-1]:
        found = found + (segsum.bwd_segsum_dadt(d, s, ddt, rest[-1]),)
    return found


PACKED = [(50, 16, [0, 5, 5, 33, 50]), (64, 16, [0, 64]), (41, 7, [0, 7, 21, 40, 41]), (130, 64, [0, 65, 130])]


def packed_operands(steps, chunk, cu, vectors, seed=6):
    """dSSdA, SSdA with NaN beyond the end of every sequence, and (B, H, S) rows."""
    rng = np.random.default_rng(seed)
    slots = slot_count(steps, chunk, None if cu is None else len(cu) - 1)
    matrices = rng.standard_normal((2, 2, 3, slots, chunk, chunk)).astype(np.float32)
    for slot, length in enumerate(slot_lengths(steps, chunk, cu)):
        matrices[:, :, :, slot, length:] = np.nan
        matrices[:, :, :, slot, :, length:] = np.nan
    return list(matrices), list(rng.standard_normal((vectors, 2, 3, steps)).astype(np.float32))


@pytest.mark.parametrize("way", ["GRAPH-list", "GRAPH-tensor", "PYNATIVE-tensor"])
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if i == 0 else pytest.mark.nightly) for i, case in enumerate(PACKED)],
    ids=lambda v: str(v).replace(" ", ""),
)
def test_packed_sequences_are_the_single_ones(case, way):
    (steps, chunk, cu), as_tensor = case, way.endswith("tensor")
    ms.set_context(mode=ms.GRAPH_MODE if way.startswith("GRAPH") else ms.PYNATIVE_MODE)
    (d, s), (t, *rows) = packed_operands(steps, chunk, cu, 5)
    bounds = Tensor(np.array(cu, np.int32)) if as_tensor else cu
    lengths = slot_lengths(steps, chunk, cu)
    segment = unpack(golden_segsum.bwd_segsum_dadt(d, s, None, lengths, chunk), steps, chunk, cu)
    assert_rms("ddt", run_packed(segsum.bwd_segsum_dadt, [d, s, t.copy()], chunk, bounds)[0], t + segment, 1e-6)
    sums = unpack(golden_cumsum.bwd_dadt_cumsum(*[pack(x, chunk, cu) for x in rows], chunk), steps, chunk, cu)
    assert_rms("cumsum", run_packed(segsum.bwd_dadt_cumsum, rows, chunk, bounds)[0], sums, 1e-6)
    assert_rms("fused", run_packed(segsum.bwd_dadt_fused, [d, s, *rows], chunk, bounds)[0], sums + segment, 1e-6)
    found = run_packed(segsum.dacs_segsum, [t], chunk, bounds)
    cs, rev, matrix = golden_dacs.dacs_segsum(pack(t, chunk, cu), chunk)
    for name, got, want in zip(
        ("cs", "rev", "segsum"),
        found,
        (unpack(cs, steps, chunk, cu), unpack(rev, steps, chunk, cu), matrix),
        strict=True,
    ):
        assert_rms(name, got, want, 1e-6)
    found = run_packed(segsum.bwd_dtrap_ddt, rows, chunk, bounds)
    for name, got, want in zip(("ddt", "dtrap"), found, golden_trapezoid.bwd_dtrap_ddt(*rows, cu), strict=True):
        assert_rms(name, got, want, 1e-6)


def run_packed(function, arrays, chunk, bounds):
    class Packed(nn.Cell):
        def construct(self, cu, *tensors):
            return function(*tensors, chunk, cu)

    if isinstance(bounds, list):
        return call(function, arrays, chunk, bounds)
    out = Packed()(bounds, *[Tensor(x) for x in arrays])
    return [x.asnumpy() for x in (out if isinstance(out, tuple) else (out,))]


def test_packed_sequences_do_not_touch_each_other():
    cu, chunk = [0, 5, 5, 33, 50], 16
    (da,) = packed_operands(50, chunk, cu, 1)[1]
    alone = [
        call(segsum.dacs_segsum, [np.ascontiguousarray(da[..., a:b])], chunk) for a, b in ((0, 5), (5, 33), (33, 50))
    ]
    cs, rev, matrix = call(segsum.dacs_segsum, [da], chunk, cu)
    np.testing.assert_array_equal(cs, np.concatenate([x[0] for x in alone], -1))
    np.testing.assert_array_equal(rev, np.concatenate([x[1] for x in alone], -1))
    slots = [slot for slot, _, _ in chunk_slots(50, chunk, cu)]
    np.testing.assert_array_equal(matrix[:, :, slots], np.concatenate([x[2] for x in alone], 2))


@pytest.mark.parametrize(
    "steps, chunk",
    [
        (40, 16),
        pytest.param(17, 64, marks=pytest.mark.nightly),
        (5, 7),
        pytest.param(100, 24, marks=pytest.mark.nightly),
    ],
)
def test_last_chunk_that_is_not_full(mode, steps, chunk):
    (d, s), (t, *rows) = packed_operands(steps, chunk, None, 5)
    lengths = slot_lengths(steps, chunk)
    segment = unpack(golden_segsum.bwd_segsum_dadt(d, s, None, lengths, chunk), steps, chunk)
    assert_rms("ddt", call(segsum.bwd_segsum_dadt, [d, s, t.copy()], chunk)[0], t + segment, 1e-6)
    fused = golden_fused.bwd_dadt_fused(d, s, *[pack(x, chunk) for x in rows], lengths, chunk)
    assert_rms("fused", call(segsum.bwd_dadt_fused, [d, s, *rows], chunk)[0], unpack(fused, steps, chunk), 1e-6)
    cs, rev, matrix = golden_dacs.dacs_segsum(pack(t, chunk), chunk)
    for name, got, want in zip(
        ("cs", "rev", "segsum"),
        call(segsum.dacs_segsum, [t], chunk),
        (unpack(cs, steps, chunk), unpack(rev, steps, chunk), matrix),
        strict=True,
    ):
        assert_rms(name, got, want, 1e-6)


class DecayLoss(nn.Cell):
    def __init__(self, chunk, cu=None):
        super().__init__()
        self.chunk = chunk
        self.cu = cu

    def construct(self, da, weight):
        return (segsum.segsum_decay(da, self.chunk, self.cu) * weight).sum()


@pytest.mark.parametrize(
    "way",
    [
        "GRAPH-Ascend910A",
        pytest.param("GRAPH-Ascend910B1", marks=pytest.mark.nightly),
        pytest.param("PYNATIVE-Ascend910A", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize(
    "steps, chunk, cu",
    [
        (32, 16, None),
        (128, 64, None),
        (100, 50, None),
        (40, 16, None),
        (21, 7, None),
        (3, 1, None),
        (50, 16, [0, 5, 5, 33, 50]),
    ],
    ids=lambda v: str(v).replace(" ", ""),
)
def test_gradient_of_segsum_decay(steps, chunk, cu, way):
    mode, _, chip = way.partition("-")
    ms.set_context(mode=ms.GRAPH_MODE if mode == "GRAPH" else ms.PYNATIVE_MODE)
    soc.set_soc(chip)
    rng = np.random.default_rng(8)
    da = (-np.abs(rng.standard_normal((2, 3, steps))) / 4).astype(np.float32)
    slots = slot_count(steps, chunk, None if cu is None else len(cu) - 1)
    weight = rng.standard_normal((2, 3, slots, chunk, chunk)).astype(np.float32)
    decay, log_decay = golden_decay.segsum_decay(pack(da, chunk, cu), chunk)
    assert_rms("decay", call(segsum.segsum_decay, [da], chunk, cu)[0], decay, 1e-6)
    gradient = ms.grad(DecayLoss(chunk, cu))(Tensor(da), Tensor(weight)).asnumpy()
    expected = golden_segsum.bwd_segsum_dadt(weight, log_decay, None, None, chunk, "query_key")
    assert_rms("gradient", gradient, unpack(expected, steps, chunk, cu), 1e-5)


def test_the_gradient_of_segsum_decay_is_bwd_segsum_dadt():
    import ms_custom_ops as mco

    assert [rule.op for rule in mco.get_op("segsum_decay").bprop.rules] == ["bwd_segsum_dadt"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("steps", [32, 40])
def test_the_callers_tensor_is_updated_in_pynative_mode(steps, dtype):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    (d, s), (t,) = packed_operands(steps, 16, None, 1)
    ddt = tensor(t, dtype)
    out = segsum.bwd_segsum_dadt(tensor(d, dtype), tensor(s, dtype), ddt, 16)
    np.testing.assert_array_equal(numpy(out), numpy(ddt))
    assert (numpy(out) != tensor(t, dtype).asnumpy()).any()


def test_a_parameter_is_updated(mode):
    class Accumulator(nn.Cell):
        def __init__(self, start):
            super().__init__()
            self.ddt = ms.Parameter(Tensor(start), name="ddt")

        def construct(self, d, s):
            return segsum.bwd_segsum_dadt(d, s, self.ddt, 16)

    (d, s), (t,) = packed_operands(32, 16, None, 1)
    net = Accumulator(t)
    once, twice = (net(Tensor(d), Tensor(s)).asnumpy() for _ in range(2))
    added = golden_segsum.bwd_segsum_dadt(d, s)
    assert_rms("once", once, t + added, 1e-6)
    assert_rms("twice", twice, t + 2 * added, 1e-6)
    np.testing.assert_array_equal(net.ddt.asnumpy(), twice)


def test_a_plain_tensor_is_left_alone_in_graph_mode():
    (d, s), (t,) = packed_operands(32, 16, None, 1)
    ddt = Tensor(t.copy())
    call(segsum.bwd_segsum_dadt, [d, s, ddt], 16)
    np.testing.assert_array_equal(ddt.asnumpy(), t)


def test_inputs_that_are_views(mode):
    rng = np.random.default_rng(9)
    d, s = rng.standard_normal((2, 2, 2, 24, 24, 3)).astype(np.float32)
    t = rng.standard_normal((48, 2, 3)).astype(np.float32)
    views = [Tensor(d).transpose(4, 0, 1, 2, 3), Tensor(s).transpose(4, 0, 1, 2, 3), Tensor(t).transpose(2, 1, 0)]
    (out,) = call(segsum.bwd_segsum_dadt, views, 24)
    arrays = [np.moveaxis(d, -1, 0), np.moveaxis(s, -1, 0), t.transpose(2, 1, 0)]
    assert_rms("ddt", out, golden_segsum.bwd_segsum_dadt(*arrays), 1e-6)


def test_empty_batches(mode):
    empty, matrix = np.zeros((0, 2, 32), np.float32), np.zeros((0, 2, 2, 16, 16), np.float32)
    assert call(segsum.bwd_segsum_dadt, [matrix, matrix, empty], 16)[0].shape == (0, 2, 32)
    assert [x.shape for x in call(segsum.dacs_segsum, [empty], 16)] == [(0, 2, 32), (0, 2, 32), (0, 2, 2, 16, 16)]
    assert call(segsum.segsum_decay, [empty], 16)[0].shape == (0, 2, 2, 16, 16)
