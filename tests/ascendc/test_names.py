# SPDX-License-Identifier: Apache-2.0
"""Names of the API that no other test calls, each with what it gives."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc
from test_matmul import plan

import ms_custom_ops as mco
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()
HERE = Path(__file__).parent
RNG = np.random.default_rng(43)
X, Y = RNG.uniform(-0.9, 0.9, 128).astype(np.float32), RNG.uniform(1.1, 4, 128).astype(np.float32)
WX, WY = X.astype(np.float64), Y.astype(np.float64)


@pytest.fixture(scope="module")
def run():
    kernel = mco.ascendc.build(HERE / "names.cpp", entry="names", soc="Ascend910B1")

    def run(group: int, which: int, x: np.ndarray = X, y: np.ndarray = Y, key: int = 0) -> np.ndarray:
        out = np.zeros(128, np.float32)
        kernel(1, x, y, out, group, which, tiling_key=key)
        return out

    return run


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def digamma(x: float) -> float:
    return (math.lgamma(x + 1e-5) - math.lgamma(x - 1e-5)) / 2e-5


EXP = np.exp(WX.reshape(4, 32))
FUNCTIONS = {
    "Neg": -WX,
    "Atan": np.arctan(WX),
    "Tan": np.tan(WX),
    "Acos": np.arccos(WX),
    "Acosh": np.arccosh(WY),
    "Asinh": np.arcsinh(WX),
    "Asin": np.arcsin(WX),
    "Atanh": np.arctanh(WX),
    "Cosh": np.cosh(WX),
    "Sinh": np.sinh(WX),
    "Log10": np.log10(WY),
    "Log2": np.log2(WY),
    "Frac": WY - np.trunc(WY),
    "Prelu": np.where(WX >= 0, WX, WX * WY),
    "ReGlu": WX * np.maximum(WY, 0),
    "GeGLU": WX * WY * sigmoid(2 * math.sqrt(2 / math.pi) * (WY + 0.044715 * WY**3)),
    "Rint": np.rint(WY),
    "Swish": WX * sigmoid(1.5 * WX),
    "Erfc": np.vectorize(math.erfc)(WX),
    "Digamma": np.vectorize(digamma)(WY),
    "Lgamma": np.vectorize(math.lgamma)(WY),
    "FasterGeluV2": WX * sigmoid(1.702 * WX),
    "Hypot": np.hypot(WX, WY),
    "IsNan": np.arange(128) == 3,
    "IsInf": np.arange(128) == 5,
    "Clamp": np.clip(WX, -0.25, 0.5),
    "Arange": 2 + 0.5 * np.arange(128),
    "Mean": np.concatenate([WX.reshape(4, 32)[:, :25].mean(1), np.zeros(124)]),
    "Broadcast": np.repeat(WX[:4], 32),
    "Xor": np.where(np.arange(128) == 0, 0x1234 ^ 0xFF, 0),
    "SimpleSoftMax": (EXP / EXP.sum(1, keepdims=True)).ravel(),
}


@pytest.mark.parametrize("which", range(len(FUNCTIONS)), ids=list(FUNCTIONS))
def test_library_functions(run, which):
    got, wanted = run(0, which), list(FUNCTIONS.values())[which]
    np.testing.assert_allclose(got[:100], wanted[:100], 2e-6, 1e-6)


def test_registers_and_what_has_no_effect(run):
    assert run(1, 0)[0] == 0


def test_records_of_tensors_and_queues(run, capfd):
    assert run(1, 1)[0] == 0
    assert capfd.readouterr().out.startswith("LocalTensor [")


def test_moves_and_their_parameters(run):
    y = Y.copy()
    run(2, 0, y=y)
    np.testing.assert_array_equal(y, np.minimum(X, Y))
    y = Y.copy()
    run(2, 1, y=y)
    np.testing.assert_array_equal(y, Y + X)
    blocks = X.reshape(16, 8)
    np.testing.assert_array_equal(run(2, 2)[:64], blocks[::2].ravel())
    np.testing.assert_array_equal(run(2, 3).reshape(8, 16)[:, :8], np.repeat(X[:8], 8).reshape(8, 8))
    gathered = run(2, 4)
    np.testing.assert_array_equal(gathered[:64], X[1::2])
    assert gathered[127] == 64
    np.testing.assert_array_equal(run(2, 5)[:64], blocks[:8][::-1].ravel())
    np.testing.assert_array_equal(run(2, 6), X.reshape(16, 8).T.ravel())


def test_a_kind_of_kernel_for_a_key_and_a_trap(run):
    np.testing.assert_allclose(run(0, 0, key=7)[:100], -X[:100])
    with pytest.raises(AscendcError, match=r"core 0: Trap: called by the kernel \[.*names\.cpp:\d+\]"):
        run(3, 99)


def test_tiling_data_by_its_macros():
    kernel = mco.ascendc.build(HERE / "names.cpp", entry="tilings", defines="ORIG_DTYPE_X=27", soc="Ascend910B1")
    out = np.zeros(4, np.float32)
    kernel(1, out, tiling=struct.pack("i3f", 5, 1.5, 2.5, 3.5), tiling_key=9)
    np.testing.assert_array_equal(out, [5, 3.5, 9, 27])


@pytest.fixture(scope="module")
def cube():
    return lambda entry, soc="Ascend910B1": mco.ascendc.build(HERE / "names_cube.cpp", entry=entry, soc=soc)


@pytest.mark.parametrize("vector", [0, 1], ids=["one scale", "a scale for each column"])
def test_a_product_from_the_cube_core_alone(cube, vector):
    m, n, k = 32, 64, 64
    a, b = RNG.integers(-4, 5, (m, k)).astype(np.int8), RNG.integers(-4, 5, (n, k)).astype(np.int8)
    scales = (0.25 * np.arange(1, n + 1)).astype(np.float32)
    out = np.zeros((m, n), np.float16)
    bias = np.ones(n, np.int32)  # set, and taken back
    words = scales.view(np.uint32).astype(np.uint64)
    cube("product")(1, a, b, bias, words, out, vector, tiling=plan(m, n, k))
    wanted = (a.astype(np.int64) @ b.T.astype(np.int64)) * (scales if vector else scales[0])
    np.testing.assert_array_equal(out, wanted.astype(np.float16))


def test_an_image_out_of_l1(cube):
    x = RNG.integers(-3, 4, (4, 4, 16)).astype(np.float16)
    out = np.zeros((2, 16, 16), np.float32)
    cube("image")(1, x, out)
    padded = np.full((6, 6, 16), 0, np.float32)
    padded[1:5, 1:5] = x
    first = padded[:4, :4].reshape(16, 16).sum(1)  # the upper left point of each filter
    border = np.zeros((6, 6), bool)
    border[1:5, 1:5] = True
    first += np.where(border[:4, :4].ravel(), 0, out[0, 0, 0])  # whatever the border is, the same everywhere
    np.testing.assert_array_equal(out[0], np.repeat(first[:, None], 16, 1))
    np.testing.assert_array_equal(out[1], np.repeat(x.reshape(16, 16).astype(np.float32).sum(1)[:, None], 16, 1))


def test_proposals_of_310p(cube):
    x = RNG.permutation(64).astype(np.float16)
    out = np.zeros(64, np.float16)
    cube("proposals", "Ascend310P3")(1, x, out)
    np.testing.assert_array_equal(out, np.sort(x)[::-1])


SPLIT = """
#include "kernel_operator.h"
#ifdef __DAV_C220_CUBE__
extern "C" __global__ __mix__(1, 2) void split(__gm__ float* o) { o[0] = 1; }
#elif defined(__DAV_C220_VEC__)
extern "C" __global__ __mix__(1, 2) __inout_pipe__(V) void split(__gm__ float* o) {
  __ca__ float* a = nullptr;
  __cb__ float* b = nullptr;
  __cc__ float* c = nullptr;
  __fbuf__ float* f = nullptr;
  o[1 + AscendC::GetBlockIdx()] = a == b && c == f ? 2 : 3;
}
#endif
"""


def test_a_source_for_each_kind_of_core(tmp_path):
    (tmp_path / "split.cpp").write_text(SPLIT)
    out = np.zeros(4, np.float32)
    mco.ascendc.build(tmp_path / "split.cpp", entry="split", soc="Ascend910B1")(1, out)
    np.testing.assert_array_equal(out[:2], [1, 2])


CORES = """
#include "kernel_operator.h"
extern "C" %s void which(__gm__ float* o) {
  const bool cube = AscendC::g_coreType == AscendC::AIC;
  o[cube ? 0 : 1 + AscendC::GetBlockIdx()] = cube ? 9 : 1 + AscendC::GetSubBlockNum();
}
"""


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        ("__global__ __vector__", [0, 2, 2, 0, 0]),
        ("__global__ __aicore__ __cube__", [9, 0, 0, 0, 0]),
        ("__mix__(1, 1) __global__", [9, 2, 2, 0, 0]),
        ("__global__ __mix__(1,2) __aicore__", [9, 3, 3, 3, 3]),
        ("__global__ __mix__(0, 1)", [0, 2, 2, 0, 0]),
        ("__global__ __mix__(1, 0)", [9, 0, 0, 0, 0]),
    ],
)
def test_a_kernel_runs_on_the_cores_that_it_is_declared_for(tmp_path, declared, wanted):
    (tmp_path / "which.cpp").write_text(CORES % declared)
    out = np.zeros(5, np.float32)
    mco.ascendc.build(tmp_path / "which.cpp", soc="Ascend910B1")(2, out)
    np.testing.assert_array_equal(out, wanted)


def test_a_mix_that_is_none_is_refused(tmp_path):
    (tmp_path / "which.cpp").write_text(CORES % "__global__ __mix__(2, 1)")
    with pytest.raises(AscendcBuildError, match=r"declaration of which is __mix__\(2, 1\); accepted: __mix__\(1, 0\),"):
        mco.ascendc.build(tmp_path / "which.cpp")


ASKS = HERE.parent / "data" / "ascendc" / "asks"
SAID = {
    "GetCoreNum": 48, "GetSocVersion": 1, "GetCurNpuArch": 1, "CalcTschBlockDim": 4, "GetCoreMemSize": 524288,
    "GetCoreNumAic, in TilingParse": 24, "GetNodeName": 1, "GetOutputDesc": 1, "GetOptionalInputDesc": 1,
    "GetOptionalInputTensor": 11, "GetOriginShape": 3, "GetDeterministic": 0, "SetScheduleMode": 1,
    "SoftMaxTilingFunc": 432, "GetSoftMaxMinTmpSize": 1, "TopKTilingFunc": 1, "GetTopKMaxMinTmpSize": 1,
    "GetLayerNormMaxMinTmpSize": 1, "SetBiasType": 1,
}  # fmt: skip


def test_what_a_tiling_function_is_answered():
    ops = mco.ascendc.load_project(ASKS, soc="Ascend910B1")
    x = np.zeros((2, 3, 4), np.float16)
    said = ops["Asks"](x, sizes=np.array([7, 11], np.int32))
    assert dict(zip(SAID, said.tolist(), strict=False)) == SAID
    assert not said[len(SAID) :].any()


def test_bandwidths_are_refused(tmp_path):
    for folder in ("op_host", "op_kernel"):
        (tmp_path / folder).mkdir()
        for path in (ASKS / folder).iterdir():
            text = path.read_text().replace("GetCoreMemSize(platform_ascendc::CoreMemType::L1", "GetCoreMemBw({}")
            (tmp_path / folder / path.name).write_text(text)
    with pytest.raises(AscendcBuildError, match=r"asks\.cpp:\d+: use of deleted function .*GetCoreMemBw"):
        mco.ascendc.load_project(tmp_path, soc="Ascend910B1")
