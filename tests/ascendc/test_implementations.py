# SPDX-License-Identifier: Apache-2.0
"""``set_impl``: the Ascend C kernel of an op beside its TIK kernel, both against the golden, and what a key tells."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest

import ms_custom_ops as mco
from ms_custom_ops.compiler import compile_call, describe_call
from ms_custom_ops.errors import OpArgumentError, OpInfoError
from ms_custom_ops.lower.arrays import numpy_dtype
from ms_custom_ops.lower.run import run_primitive
from ms_custom_ops.registry import get_op

USER_OPS = Path(__file__).parents[2] / "examples" / "user_ops"
SOC = "Ascend910B1"
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture(scope="module")
def rms_norm():
    mco.load(USER_OPS)
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
