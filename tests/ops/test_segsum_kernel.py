# SPDX-License-Identifier: Apache-2.0
"""The segment-sum kernels against their float64 goldens, without MindSpore, on three chips and both
engines.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ms_custom_ops.errors import BudgetError, TilingError
from ms_custom_ops.op_impl.bwd_dadt_cumsum import golden as golden_cumsum
from ms_custom_ops.op_impl.bwd_dadt_fused import golden as golden_fused
from ms_custom_ops.op_impl.bwd_dtrap_ddt import golden as golden_trapezoid
from ms_custom_ops.op_impl.bwd_segsum_dadt import golden as golden_segsum
from ms_custom_ops.op_impl.dacs_segsum import golden as golden_dacs
from ms_custom_ops.op_impl.segsum_decay import golden as golden_decay
from ms_custom_ops.soc import get_soc
from ms_custom_ops.testing import assert_ratio, assert_rms
from ms_custom_ops.tiling.budget import fits
from ms_custom_ops.tiling.segsum import SegsumProblem, plan_backward, plan_forward
from ms_custom_ops.tiling.segsum_dtrap import DtrapProblem, plan_dtrap
from ms_custom_ops.tiling.segsum_moves import Window, triangle_runs

sys.path.insert(0, str(Path(__file__).parent))
from kernel_trace import traced
from segsum_cases import NUMPY, SOCS, TOLERANCE, run_kernel

SHAPES = [
    (1, 1, 1, 16),
    (1, 2, 2, 17),
    (2, 4, 4, 32),
    (1, 2, 3, 24),
    (2, 3, 17, 16),
    (1, 1, 2, 64),
    (1, 1, 3, 63),
    (1, 1, 5, 48),
    (1, 2, 9, 100),
    (1, 1, 1, 128),
    (1, 1, 2, 200),
    (1, 1, 1, 250),
    (1, 1, 2, 256),
]
SMALL = [(1, 2, 2, 17), (1, 3, 11, 16), (1, 1, 2, 64), (1, 1, 1, 100)]
on_socs = pytest.mark.parametrize("soc", SOCS)
all_shapes = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "B{}-H{}-n{}-C{}".format(*s))
small_shapes = pytest.mark.parametrize("shape", SMALL, ids=lambda s: "B{}-H{}-n{}-C{}".format(*s))


def matrices(shape, dtype="float32", layout="key_query", garbage=True, seed=1):
    """dSSdA and SSdA; entries that must not be used are inf, -inf and NaN."""
    b, h, n, c = shape
    rng = np.random.default_rng(seed)
    d, s = (rng.standard_normal((b, h, n, c, c)).astype(NUMPY[dtype]) for _ in range(2))
    if garbage:
        unused = np.triu(np.ones((c, c), bool))
        bad = np.array([np.inf, np.nan, -np.inf]).astype(NUMPY[dtype])
        s[..., unused] = bad[np.arange(unused.sum()) % 3]
        d[..., unused if layout == "query_key" else unused.T] = bad[np.arange(unused.sum()) % 3]
    return d, s


def vectors(shape, count, dtype="float32", seed=2):
    b, h, n, c = shape
    return list(np.random.default_rng(seed).standard_normal((count, b, h, n * c)).astype(NUMPY[dtype]))


def padded(lengths):
    out = np.full(-(-len(lengths) // 8) * 8, 7, np.int32)
    out[: len(lengths)] = lengths
    return out


def check_backward(shape, soc, dtype="float32", vector="float32", layout="key_query", lengths=None, engine="native"):
    d, s = matrices(shape, dtype, layout)
    (ddt,) = vectors(shape, 1, vector)
    filled = None if lengths is None else padded(lengths)
    (out,) = run_kernel(
        "bwd_segsum_dadt",
        [d, s, ddt, filled],
        {"ddt": (ddt.shape, vector)},
        {"chunk_size": shape[3], "layout": layout},
        soc,
        engine,
    )
    expected = golden_segsum.bwd_segsum_dadt(d, s, ddt, filled, shape[3], layout)
    if vector == "float32":
        assert_rms("ddt", out, expected, 1e-6)
    assert_ratio("ddt", out, expected, *TOLERANCE[vector])


@on_socs
@all_shapes
def test_bwd_segsum_dadt_float32(shape, soc):
    check_backward(shape, soc)


@all_shapes
@pytest.mark.parametrize("vector", ["float32", "same"])
@pytest.mark.parametrize(
    "dtype, soc", [("float16", "Ascend910A"), ("float16", "Ascend910B1"), ("bfloat16", "Ascend910B1")]
)
def test_bwd_segsum_dadt_16_bit(shape, dtype, soc, vector):
    check_backward(shape, soc, dtype, dtype if vector == "same" else vector)


@on_socs
@all_shapes
def test_bwd_segsum_dadt_query_major(shape, soc):
    check_backward(shape, soc, layout="query_key")


@pytest.mark.parametrize("layout", golden_segsum.LAYOUTS)
@pytest.mark.parametrize(
    "shape, lengths",
    [
        ((1, 2, 3, 24), [3, 24, 0]),
        ((2, 1, 4, 64), [64, 63, 1, 33]),
        ((1, 2, 3, 100), [70, 99, 100]),
        ((1, 1, 2, 256), [255, 17]),
    ],
    ids=lambda v: str(v).replace(" ", ""),
)
def test_bwd_segsum_dadt_of_short_chunks(shape, lengths, layout):
    for soc, dtype in (("Ascend910A", "float32"), ("Ascend910B1", "bfloat16")):
        check_backward(shape, soc, dtype, layout=layout, lengths=lengths)


@pytest.mark.parametrize("shape", [(1, 2, 2, 17), (1, 1, 2, 64), (1, 1, 3, 24)], ids=str)
def test_bwd_segsum_dadt_on_the_reference_engine(shape):
    check_backward(shape, "Ascend910A", engine="reference")
    check_backward(shape, "Ascend910B1", "bfloat16", "bfloat16", engine="reference")
    check_backward(shape, "Ascend910A", layout="query_key", lengths=[shape[3] - 3] * shape[2], engine="reference")


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bwd_segsum_dadt_does_not_depend_on_threads(threads):
    import ms_custom_ops as mco

    d, s = matrices((1, 3, 17, 16), garbage=False)
    (ddt,) = vectors((1, 3, 17, 16), 1)
    program = traced("bwd_segsum_dadt", [d, s, ddt], {"chunk_size": 16, "layout": "key_query"}, "Ascend910A")
    one, many = (mco.run(program, [d, s, ddt], threads=t)[0] for t in (1, threads))
    np.testing.assert_array_equal(one.view(np.int32), many.view(np.int32))


@on_socs
@all_shapes
def test_bwd_dadt_fused(shape, soc):
    d, s = matrices(shape)
    rows = vectors(shape, 4)
    (out,) = run_kernel(
        "bwd_dadt_fused", [d, s, *rows, None], {"dadt": (rows[0].shape, "float32")}, {"chunk_size": shape[3]}, soc
    )
    assert_rms("dadt", out, golden_fused.bwd_dadt_fused(d, s, *rows, None, shape[3]), 1e-6)


@on_socs
@all_shapes
def test_bwd_dadt_cumsum(shape, soc):
    rows = vectors(shape, 4)
    (out,) = run_kernel("bwd_dadt_cumsum", rows, {"dadt": (rows[0].shape, "float32")}, {"chunk_size": shape[3]}, soc)
    assert_rms("dadt", out, golden_cumsum.bwd_dadt_cumsum(*rows, shape[3]), 1e-6)


def forward_outputs(shape, names):
    b, h, n, c = shape
    sizes = {"da_cs": (b, h, n * c), "da_cs_rev": (b, h, n * c)}
    return {name: (sizes.get(name, (b, h, n, c, c)), "float32") for name in names}


@on_socs
@all_shapes
def test_dacs_segsum(shape, soc):
    da = vectors(shape, 1)[0] * 0.3 - 0.2  # some sums are positive: the clamp works
    outputs = forward_outputs(shape, ("da_cs", "da_cs_rev", "segsum"))
    found = run_kernel("dacs_segsum", [da], outputs, {"chunk_size": shape[3]}, soc)
    for name, got, want in zip(outputs, found, golden_dacs.dacs_segsum(da, shape[3]), strict=True):
        assert_rms(name, got, want, 1e-6)


@on_socs
@all_shapes
def test_segsum_decay(shape, soc):
    da = vectors(shape, 1)[0] * 0.3 - 0.2
    outputs = forward_outputs(shape, ("decay", "segsum"))
    found = run_kernel("segsum_decay", [da], outputs, {"chunk_size": shape[3]}, soc)
    for name, got, want in zip(outputs, found, golden_decay.segsum_decay(da, shape[3]), strict=True):
        assert_rms(name, got, want, 1e-6)


@small_shapes
def test_forward_and_sums_on_the_reference_engine(shape):
    da = -np.abs(vectors(shape, 1)[0])
    outputs = forward_outputs(shape, ("da_cs", "da_cs_rev", "segsum"))
    attrs = {"chunk_size": shape[3]}
    for got, want in zip(
        run_kernel("dacs_segsum", [da], outputs, attrs, "Ascend910A", "reference"),
        run_kernel("dacs_segsum", [da], outputs, attrs, "Ascend910A"),
        strict=True,
    ):
        np.testing.assert_array_equal(got, want)
    rows = vectors(shape, 4)
    outputs = {"dadt": (rows[0].shape, "float32")}
    (got,), (want,) = (
        run_kernel("bwd_dadt_cumsum", rows, outputs, attrs, "Ascend910B1", e) for e in ("reference", "native")
    )
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


TRAPEZOIDS = [
    ((1, 1, 8), None),
    ((1, 1, 9), None),
    ((2, 3, 5), None),
    ((2, 3, 200), None),
    ((3, 5, 1000), None),
    ((1, 2, 31), [0, 4, 4, 20, 31]),
    ((2, 8, 300), [0, 1, 77, 300, 300]),
    ((1, 64, 2048), None),
]


@on_socs
@pytest.mark.parametrize("shape, cu_seqlens", TRAPEZOIDS, ids=lambda v: str(v).replace(" ", ""))
def test_bwd_dtrap_ddt(shape, cu_seqlens, soc):
    rng = np.random.default_rng(3)
    rows = list(rng.standard_normal((4, *shape)).astype(np.float32))
    rows[0] *= 30  # both ends of the sigmoid
    bounds = None if cu_seqlens is None else np.array(cu_seqlens + [0] * (-len(cu_seqlens) % 8), np.int32)
    tensors = [*rows, bounds]
    outputs = {"ddt": (shape, "float32"), "dtrap": (shape, "float32")}
    program = traced("bwd_dtrap_ddt", tensors, {}, soc)
    import ms_custom_ops as mco

    found = mco.run(program, rows if bounds is None else [*rows, bounds])
    for name, got, want in zip(outputs, found, golden_trapezoid.bwd_dtrap_ddt(*rows, cu_seqlens), strict=True):
        assert_rms(name, got.reshape(shape), want, 1e-6)


def moved_bytes(monkeypatch, shape, dtype, layout="key_query"):
    """Bytes that bwd_segsum_dadt moves from and to each GM tensor, counted while the reference engine runs
    it.
    """
    from ms_custom_ops.engine.reference import DEFINITIONS

    moved = dict.fromkeys(("dSSdA", "SSdA", "ddt_out", "ddt"), 0)
    move = DEFINITIONS["data_move"]

    def counting(call):
        for operand in (call["dst"], call["src"]):
            if operand.tensor in moved:
                moved[operand.tensor] += int(call.args["nburst"]) * int(call.args["burst"])
        move(call)

    monkeypatch.setitem(DEFINITIONS, "data_move", counting)
    check_backward(shape, "Ascend910A", dtype, layout=layout, engine="reference")
    return moved


def triangle_bytes(chunk, itemsize):
    """32-byte blocks that the strictly lower triangle touches, row by row from the start of each row."""
    per_block = 32 // itemsize
    return 32 * sum(-(-row // per_block) for row in range(1, chunk))


@pytest.mark.parametrize("layout", golden_segsum.LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("chunk", [16, 32, 64, 128, 256])
def test_moves_carry_the_triangles_only(monkeypatch, chunk, dtype, layout):
    """The cost formula of the whole matrices is 2*e*C^2 + 8*C bytes per chunk; half of its first term is the
    triangles, which whole 32-byte blocks exceed by no more than a block per row and matrix.
    """
    shape = (1, 2, 2, chunk)
    e, chunks = np.dtype(NUMPY[dtype]).itemsize, 4
    moved = moved_bytes(monkeypatch, shape, dtype, layout)
    assert moved["dSSdA"] == moved["SSdA"] == chunks * triangle_bytes(chunk, e)
    assert chunks * e * chunk * (chunk - 1) / 2 <= moved["SSdA"] <= chunks * (e * chunk**2 / 2 + 16 * chunk)
    assert moved["ddt_out"] + moved["ddt"] == chunks * 8 * chunk


@pytest.mark.parametrize("chunk", [17, 50, 100, 250])
def test_moves_of_rows_that_are_no_whole_blocks(monkeypatch, chunk):
    """Nothing is filled up: a row costs less than two blocks more, one at each end; what lies twice in a
    group's rows is moved twice.
    """
    moved = moved_bytes(monkeypatch, (1, 1, 3, chunk), "float32")
    assert max(moved["dSSdA"], moved["SSdA"]) <= 3 * (2 * chunk**2 + 2 * 32 * chunk)
    assert moved["ddt_out"] + moved["ddt"] == 3 * 8 * (chunk // 16 * 16 + 16)


def test_runs_are_minimal_and_cover_the_triangle():
    for lower in (True, False):
        window = Window(16, 16, 0 if lower else 16, 32 if lower else 24, lower)
        seen = np.zeros((16, window.columns), bool)
        for run in triangle_runs(window, 40, 8):
            seen[run.row : run.row + run.rows, run.block * 8 : (run.block + run.blocks) * 8] = True
        rows, columns = np.arange(16)[:, None] + 16, np.arange(window.columns)[None] + window.column
        wanted = (columns < rows if lower else (columns > rows) & (columns < 40)) & (rows < 40)
        assert seen[wanted].all()
        blocks = wanted.reshape(16, -1, 8).any(-1)
        assert seen.reshape(16, -1, 8).all(-1).sum() == blocks.sum()


@on_socs
@pytest.mark.parametrize("chunk", [16, 24, 63, 64, 65, 100, 128, 200, 255, 256])
def test_plans_fit_every_chip(chunk, soc):
    row = get_soc(soc)
    for dtype in ("float32", "float16"):
        for chunks in (1, 7, 100, 5000):
            for lengths in (False, True):
                problem = SegsumProblem(chunks, min(chunks, 50), chunk, dtype, dtype, False, lengths)
                for plan in (plan_backward(problem, row), plan_forward(problem, row, True)):
                    assert fits(plan.buffers, row)
                    assert plan.split.total * plan.group >= chunks > (plan.split.total - 1) * plan.group


@pytest.mark.parametrize(
    "make, error, text",
    [
        (
            lambda soc: plan_backward(SegsumProblem(1, 1, 15, "float32"), soc),
            TilingError,
            "chunk_size is 15; accepted: 16 to 256",
        ),
        (lambda soc: plan_backward(SegsumProblem(1, 1, 257, "float32"), soc), TilingError, "chunk_size is 257"),
        (
            lambda soc: plan_backward(SegsumProblem(9, 10**6, 256, "float32", has_lengths=True), soc),
            BudgetError,
            "chunk_size 256 does not fit Ascend910A",
        ),
        (lambda soc: plan_dtrap(DtrapProblem(1, 7), soc), TilingError, "B*H*S is 7; accepted: at least 8"),
        (lambda soc: plan_dtrap(DtrapProblem(1, 100, 10**6), soc), BudgetError, "cu_seqlens of 1000000 entries"),
    ],
    ids=["chunk_15", "chunk_257", "lengths", "tiny", "bounds"],
)
def test_plans_refuse_by_name(make, error, text):
    with pytest.raises(error) as caught:
        make(get_soc("Ascend910A"))
    assert text in str(caught.value)
