# SPDX-License-Identifier: Apache-2.0
"""``set_impl``: the Ascend C kernel of an op beside its TIK kernel, both against the golden, and what a key tells."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ms_custom_ops as mco
from ms_custom_ops.cli import main
from ms_custom_ops.compile_launch import op_of
from ms_custom_ops.compiler import compile_call, describe_call
from ms_custom_ops.errors import OpArgumentError, OpInfoError
from ms_custom_ops.lower.arrays import numpy_dtype
from ms_custom_ops.lower.run import run_primitive
from ms_custom_ops.op_impl.bwd_segsum_dadt.golden import bwd_segsum_dadt as golden_segsum
from ms_custom_ops.op_impl.flash_attention.golden import flash_attention as golden_attention
from ms_custom_ops.registry import get_op
from ms_custom_ops.registry.loader import load_folder
from ms_custom_ops.testing import assert_rms

USER_OPS = Path(__file__).parents[2] / "examples" / "user_ops"
SOC = "Ascend910B1"
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture(scope="module")
def rms_norm(example_ops):
    return get_op("rms_norm")


def call_of(spec, arrays: dict[str, np.ndarray], attrs: dict, soc: str = SOC):
    shapes = {name: x.shape for name, x in arrays.items()}
    return describe_call(spec, shapes, {name: x.dtype.name for name, x in arrays.items()}, attrs, soc)


def test_the_name_is_checked() -> None:
    with pytest.raises(OpArgumentError, match="set_impl: name is 'cuda'; accepted: tik, ascendc"):
        mco.set_impl("cuda")


def test_the_choice_is_part_of_the_key_where_there_is_one(rms_norm) -> None:
    x = {"x": np.ones((2, 16), np.float16), "weight": np.ones(16, np.float16)}
    keys = {}
    for impl in ("tik", "ascendc"):
        with mco.use_impl(impl):
            keys[impl] = call_of(rms_norm, x, {}).key
            other = call_of(rms_norm, x, {}, "Ascend910A")  # no kernel for this chip
        assert other.impl == "tik"
    assert keys["tik"] != keys["ascendc"] and call_of(rms_norm, x, {}).key == keys["tik"]
    mco.set_impl("ascendc")
    try:
        assert call_of(rms_norm, x, {}).key == keys["ascendc"]
    finally:
        mco.set_impl("tik")


GIVEN = '{project: "op_impl.rms_norm.ascendc", op: RmsNorm, soc: [Ascend910B, Ascend910_93]}'
WRONG = {
    "form": ("RmsNorm", "accepted: a mapping with the keys project, op, soc"),
    "project": (
        '{project: "a/b", op: RmsNorm, soc: [Ascend910B]}',
        "impl.ascendc.project is 'a/b'; accepted: \"package",
    ),
    "op": ('{project: "a.b", op: "Rms Norm", soc: [Ascend910B]}', "'Rms Norm'"),
    "soc": ('{project: "a.b", op: RmsNorm, soc: [Ascend910C]}', "impl.ascendc.soc names 'Ascend910C'"),
    "name": ('{project: "a.b", op: RmsNorm, soc: [Ascend910B], when: "M > 2"}', "uses the unknown name 'M'"),
    "dtype": ('{project: "a.b", op: RmsNorm, soc: [Ascend910B], when: "dtype(x) == 1"}', "uses the unknown tensor 'x'"),
    "key": ('{project: "a.b", op: RmsNorm, soc: [Ascend910B], chips: 3}', "unknown key 'chips'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_op_info_says_of_an_ascendc_kernel_is_checked(tmp_path: Path, what: str) -> None:
    value, message = WRONG[what]
    text = (USER_OPS / "op_info" / "rms_norm.yaml").read_text()
    assert GIVEN in text
    (tmp_path / "rms_norm.yaml").write_text(text.replace(GIVEN, value))
    with pytest.raises(OpInfoError) as error:
        load_folder(tmp_path)
    assert message in str(error.value)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("impl", ["tik", "ascendc"])
def test_rms_norm_against_its_golden(rms_norm, impl: str, dtype: str) -> None:
    golden = importlib.import_module(rms_norm.impl.golden.split(":")[0]).rms_norm
    rng = np.random.default_rng(1)
    for rows, width in ((1, 16), (37, 208), (3, 8192), (101, 48)):
        x, weight = (rng.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in ((rows, width), (width,)))
        with mco.use_impl(impl):
            call = call_of(rms_norm, {"x": x, "weight": weight}, {"eps": 1e-5})
            assert (compile_call(call).launch is not None) == (impl == "ascendc")
            out = run_primitive(call, {"x": x, "weight": weight})
        y, rstd = golden(x.astype(np.float64), weight.astype(np.float64), 1e-5)
        tolerance = rms_norm.tolerance(dtype)
        np.testing.assert_allclose(out["y"].astype(np.float64), y, rtol=tolerance.rtol, atol=tolerance.atol)
        np.testing.assert_allclose(out["rstd"], rstd, rtol=1e-5)


def segsum_arrays(shape: tuple[int, ...], matrix: str, vector: str, layout: str, lengths: list[int] | None) -> dict:
    """Inputs of bwd_segsum_dadt; entries that must not be used are infinite or NaN."""
    b, h, n, c = shape
    rng = np.random.default_rng(3)
    d, s = (rng.standard_normal((b, h, n, c, c)).astype(numpy_dtype(matrix)) for _ in range(2))
    unused = np.triu(np.ones((c, c), bool))
    s[..., unused] = np.nan
    d[..., unused if layout == "query_key" else unused.T] = np.inf
    arrays = {"dSSdA": d, "SSdA": s, "ddt_out": rng.standard_normal((b, h, n * c)).astype(numpy_dtype(vector))}
    if lengths is not None:
        arrays["lengths"] = np.resize(np.array(lengths, np.int32), -(-n // 8) * 8)
    return arrays


SEGSUM = [  # of the TIK kernel's tests: (B, H, N, C), lengths
    ((1, 1, 1, 16), None),
    ((1, 2, 2, 17), None),
    ((2, 3, 17, 16), None),
    ((1, 1, 3, 63), None),
    ((1, 2, 9, 100), None),
    ((1, 1, 2, 200), None),
    ((1, 1, 2, 256), [255, 17]),
    ((1, 2, 3, 24), [3, 24, 0]),
]
ROWS = [
    ("float32", "float32"),
    ("float16", "float16"),
    ("bfloat16", "bfloat16"),
    pytest.param("float16", "float32", marks=pytest.mark.nightly),
    pytest.param("bfloat16", "float32", marks=pytest.mark.nightly),
]


@needs_compiler
@pytest.mark.parametrize(("matrix", "vector"), ROWS)
def test_bwd_segsum_dadt_against_its_golden(matrix: str, vector: str) -> None:
    spec = get_op("bwd_segsum_dadt")
    with mco.use_impl("ascendc"):
        for layout in ("key_query", "query_key"):
            for shape, lengths in SEGSUM:
                arrays = segsum_arrays(shape, matrix, vector, layout, lengths)
                call = call_of(spec, arrays, {"chunk_size": shape[3], "layout": layout})
                assert call.impl == "ascendc"
                out = run_primitive(call, arrays)["ddt"].astype(np.float64)
                want = golden_segsum(*arrays.values(), **({} if lengths else {"lengths": None}), layout=layout)
                assert np.isfinite(out).all()
                assert_rms(f"{shape} {layout}", out, want, {"float32": 1e-6}.get(vector, spec.tolerance(vector).rms))


@needs_compiler
def test_the_order_of_blocks_and_threads_does_not_change_a_bit() -> None:
    arrays = segsum_arrays((2, 3, 17, 16), "float32", "float32", "key_query", None)
    with mco.use_impl("ascendc"):
        call = call_of(get_op("bwd_segsum_dadt"), arrays, {"chunk_size": 16})
        launch = compile_call(call).launch
    op = op_of(call.spec, SOC)
    runs = [
        op.run(launch, [*arrays.values(), None], threads=threads, reverse=reverse).tobytes()
        for threads, reverse in ((1, False), (2, False), (1, True), (2, True))
    ]
    assert len(set(runs)) == 1 and launch.tiling.block_dim == 48


ATTENTION = [  # (B, N1, N2, S1, S2, D), sparse_mode, with attn_mask
    ((1, 1, 1, 1, 1, 16), 0, False),
    ((1, 2, 1, 63, 200, 80), 0, False),
    ((2, 2, 2, 130, 130, 64), 3, False),
    ((1, 1, 1, 257, 100, 128), 3, False),  # rows that see no key, a tile of one row
    ((1, 1, 1, 40, 300, 256), 0, True),
    ((2, 4, 2, 15, 17, 48), 3, True),
]


@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_flash_attention_against_its_golden(dtype: str) -> None:
    spec, rng = get_op("flash_attention"), np.random.default_rng(5)
    for (b, n1, n2, s1, s2, d), mode, masked in ATTENTION:
        shapes = {"query": (b, n1, s1, d), "key": (b, n2, s2, d), "value": (b, n2, s2, d)}
        arrays = {name: rng.standard_normal(shape).astype(numpy_dtype(dtype)) for name, shape in shapes.items()}
        mask = None
        if masked:
            mask = np.zeros((b, 1, s1, -(-s2 // 16) * 16), np.float16)
            mask[..., :s2] = rng.random((b, 1, s1, s2)) < 0.3
            mask[0, 0, s1 // 2] = 1  # a row that sees no key
            arrays["attn_mask"] = mask
        with mco.use_impl("ascendc"):
            call = call_of(spec, arrays, {"scale_value": d**-0.5, "sparse_mode": mode})
            assert call.impl == "ascendc"
            launch = compile_call(call).launch
            out = run_primitive(call, arrays)
        given = None if mask is None else mask[..., :s2]
        want = golden_attention(*list(arrays.values())[:3], given, scale_value=d**-0.5, sparse_mode=mode)
        assert_rms("attention_out", out["attention_out"].astype(np.float64), want[0], spec.tolerance(dtype).rms or 4e-3)
        np.testing.assert_allclose(out["softmax_max"][..., :s1], want[1], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(out["softmax_sum"][..., :s1], want[2], rtol=1e-5, atol=1e-5)
    op, last = op_of(spec, SOC), [*arrays.values(), *[None] * 6]
    runs = {op.run(launch, last, threads=t, reverse=r)[0].tobytes() for t, r in ((1, False), (2, False), (2, True))}
    assert len(runs) == 1


def test_calls_that_the_ascendc_kernel_does_not_take_stay_with_tik() -> None:
    q = {name: np.zeros((1, 1, 16, 16), np.float16) for name in ("query", "key", "value")}
    with mco.use_impl("ascendc"):
        for attrs, impl in (({}, "ascendc"), ({"keep_prob": 0.5}, "ascendc"), ({"high_precision": False}, "tik")):
            assert call_of(get_op("flash_attention"), q, attrs).impl == impl


@needs_compiler
def test_the_cases_of_an_op_run_on_its_ascendc_kernel() -> None:
    runner = CliRunner()
    told = runner.invoke(main, ["test", "bwd_segsum_dadt", "--engine", "ascendc", "--case", "one_chunk"])
    assert told.exit_code == 0 and "2 case(s): 2 passed" in told.output and "  ascendc  " in told.output, told.output
    refused = runner.invoke(main, ["test", "segsum_decay", "--engine", "ascendc"])
    assert refused.exit_code == 1 and "segsum_decay: there is no Ascend C kernel" in refused.output


@needs_compiler
def test_a_project_that_is_another_op_is_refused(rms_norm, monkeypatch: pytest.MonkeyPatch) -> None:
    import ms_custom_ops.compile_launch as compile_launch

    mixed = Path(__file__).parents[1] / "data" / "ascendc" / "mixed"
    wrong = mco.ascendc.load_project(mixed, soc=SOC)["ScaleAdd"]
    monkeypatch.setattr(compile_launch, "op_of", lambda spec, soc: wrong)
    with mco.use_impl("ascendc"):
        call = call_of(rms_norm, {"x": np.ones((5, 16), np.float16), "weight": np.ones(16, np.float16)}, {})
        with pytest.raises(OpInfoError, match="ScaleAdd: inputs is x, y, bias; accepted: x, weight"):
            compile_call(call)
