# SPDX-License-Identifier: Apache-2.0
"""What op_host asks for normalisations, DropOut and LogSoftMax, and kernels that take it from their tiling data."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from asc_cases import float_op, need_ascendc

import ms_custom_ops as mco

need_ascendc()

HOST = """#include "register/op_def_registry.h"
#include "tiling/tiling_api.h"
namespace optiling {
BEGIN_TILING_DATA_DEF(NormedTilingData)
TILING_DATA_FIELD_DEF_STRUCT(LayerNormGradTiling, grad);
TILING_DATA_FIELD_DEF_STRUCT(LayerNormGradBetaTiling, beta);
TILING_DATA_FIELD_DEF_STRUCT(GroupNormTiling, group);
TILING_DATA_FIELD_DEF_STRUCT(BatchNormTiling, batch);
TILING_DATA_FIELD_DEF_STRUCT(DeepNormTiling, deep);
TILING_DATA_FIELD_DEF_STRUCT(LogSoftMaxTiling, log);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Normed, NormedTilingData)

static bool Fits(uint32_t max, uint32_t min, uint32_t bytes) { return min && min <= max && max >= bytes; }
static ge::graphStatus Tile(gert::TilingContext* context) {
  using namespace AscendC;
  NormedTilingData tiling;
  uint32_t max = 0, min = 0;
  bool good = true;
  const ge::Shape rows({2, 3, 16, 15}), plain({2, 3, 16}), original({2, 3, 15}), image({1, 4, 3, 5});
  GetLayerNormGradMaxMinTmpSize(rows, 4, false, max, min), good &= Fits(max, min, 384) && max < 1000;
  GetLayerNormGradNDTilingInfo(rows, min, 4, false, tiling.grad);
  GetLayerNormGradBetaMaxMinTmpSize(rows, 4, false, max, min), good &= Fits(max, min, 384);
  GetLayerNormGradBetaNDTilingInfo(rows, min, 4, false, tiling.beta);
  GetLayerNormMaxMinTmpSize(rows, 4, false, max, min), good &= Fits(max, min, 384) && max < 1000;
  GetGroupNormMaxMinTmpSize(image, 4, false, 2, max, min), good &= Fits(max, min, 240);
  GetGroupNormNDTilingInfo(image, max, 4, false, 2, tiling.group);
  good &= GetBatchNormMaxMinTmpSize(plain, original, 4, false, max, min, false) && Fits(max, min, 384);
  good &= GetBatchNormNDTilingInfo(plain, original, min, 4, false, tiling.batch, false);
  good &= !GetBatchNormNDTilingInfo(ge::Shape({2, 3, 5}), original, min, 4, false, tiling.batch);  // no whole blocks
  good &= GetDeepNormMaxMinTmpSize(plain, 4, false, false, max, min) && Fits(max, min, 384);
  good &= GetDeepNormTilingInfo(plain, original, min, 4, false, false, tiling.deep);
  GetNormalizeMaxMinTmpSize(ge::Shape({6, 16}), 4, 4, false, true, false, max, min), good &= Fits(max, min, 384);
  GetWelfordUpdateMaxMinTmpSize(ge::Shape({1, 16}), 2, 4, false, false, max, min), good &= Fits(max, min, 64);
  GetWelfordFinalizeMaxMinTmpSize(ge::Shape({16}), 4, false, max, min), good &= Fits(max, min, 64);
  GetDropOutMaxMinTmpSize(plain, 2, false, max, min), good &= Fits(max, min, 192);
  good &= Fits(GetDropOutMaxTmpSize(plain, 2, false), GetDropOutMinTmpSize(plain, 2, false), 192);
  min = GetLogSoftMaxMinTmpSize(plain, 4, false);
  good &= Fits(GetLogSoftMaxMaxTmpSize(plain, 4, false), min, 384);
  LogSoftMaxTilingFunc(plain, 4, min, tiling.log);
  good &= tiling.group.get_d() == 2 && tiling.group.get_factor() == 1.0f / 30 && tiling.group.get_oneTmpSize();
  if (!good) return ge::GRAPH_FAILED;
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->SetBlockDim(1);
  return ge::GRAPH_SUCCESS;
}
"""
HOST += float_op("Normed", "7, 96")
KERNEL = """#include "kernel_operator.h"
#include "lib/normalization/layernormgrad.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void normed(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(data, tiling);
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 16384);
  const auto a = buffer.GetWithOffset<float>(96, 0), one = buffer.GetWithOffset<float>(96, 512),
             zero = buffer.GetWithOffset<float>(96, 1024), out = buffer.GetWithOffset<float>(672, 2048),
             mean = buffer.GetWithOffset<float>(96, 8192), other = buffer.GetWithOffset<float>(96, 8704);
  auto tmp = buffer.GetWithOffset<uint8_t>(64, 9216);
  GlobalTensor<float> from, to;
  from.SetGlobalBuffer((__gm__ float*)x), to.SetGlobalBuffer((__gm__ float*)y);
  DataCopy(a, from, 96);
  Duplicate(one, 1.0f, 96), Duplicate(zero, 0.0f, 96), Duplicate(out, 0.0f, 672);
  LayerNormGrad(out, out[96], a, a, one, zero, one, 0.5f, data.grad);
  LayerNormGradBeta(out[192], out[288], out[96], a, data.beta);
  GroupNorm(out[384], mean, other, a, one, zero, 0.5f, data.group);
  DeepNorm(out[480], mean, other, a, one, zero, one, 2.0f, 0.5f, data.deep);
  LogSoftMax<float>(out[576], mean, other, a, tmp, data.log);
  DataCopy(to, out, 672);
  BatchNorm(out, mean, other, a, one, zero, 0.5f, data.batch);
}
"""


def normal(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 0.5)


def test_kernels_take_tilings_of_the_host(tmp_path: Path) -> None:
    for name, text in (("op_host/normed.cpp", HOST), ("op_kernel/normed.cpp", KERNEL)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    x = np.random.default_rng(31).normal(size=96).astype(np.float32)
    got = mco.ascendc.load_project(tmp_path, soc="Ascend910B1")["Normed"](x).astype(np.float64)
    wide, scale = x.astype(np.float64), 1.5**-0.5
    rows = wide.reshape(6, 16)[:, :15]
    variance = np.sum(-0.5 * rows * rows * scale**3, 1, keepdims=True)
    mean = np.sum(-rows * scale, 1, keepdims=True) + variance / 15 * np.sum(-2 * rows, 1, keepdims=True)
    wanted = {
        0: (rows * scale + variance * 2 / 15 * rows + mean / 15, (6, 16), 15),
        1: (rows * scale, (6, 16), 15),
        2: ((rows * rows * scale).sum(0)[None], (1, 16), 15),
        3: (rows.sum(0)[None], (1, 16), 15),
        4: (normal(wide[:64].reshape(2, 2, 16)[:, :, :15], (1, 2)).reshape(4, 15), (4, 16), 15),
        5: (normal(2 * rows + 1, (1,)), (6, 16), 15),
        6: (np.log10(np.exp(wide.reshape(6, 16)) / np.exp(wide.reshape(6, 16)).sum(1, keepdims=True)), (6, 16), 16),
    }
    for part, (values, shape, columns) in wanted.items():
        here = got[part, : shape[0] * shape[1]].reshape(shape)
        np.testing.assert_allclose(here[:, :columns], values, rtol=3e-6, atol=3e-6)
        assert not here[:, columns:].any()


PLAIN = r"""#include "tiling/tiling_api.h"
#include "kernel_tiling/kernel_tiling.h"
#include <cstdio>
#include <cstring>
// What both structures of a library hold.
template <class Full, class Plain>
static void Show(const char* name, Full& full, Plain& plain, int status = 1) {
  Plain copy;
  const bool sizes = full.GetDataSize() == sizeof(Plain);
  full.SaveToBuffer(&copy, sizeof copy);
  printf("%s %d%d\n", name, status, sizes && !memcmp(&copy, &plain, sizeof copy));
}
#define BOTH(NAME, ...)                        \
  {                                            \
    optiling::NAME full;                       \
    NAME plain;                                \
    memset(&plain, 0xFF, sizeof plain);        \
    int status = 1;                            \
    for (int i = 0; i < 2; ++i) {              \
      if (i) { NAME& tiling = plain; __VA_ARGS__; } \
      else { optiling::NAME& tiling = full; __VA_ARGS__; } \
    }                                          \
    Show(#NAME, full, plain, status);          \
  }
int main() {
  using namespace AscendC;
  const auto& platform = *platform_ascendc::PlatformAscendCManager::GetInstance("Ascend910B1");
  const ge::Shape rows({2, 3, 16, 15}), plain_rows({2, 3, 16}), original({2, 3, 15}), image({1, 4, 3, 5});
  BOTH(SoftMaxTiling, SoftMaxTilingFunc(plain_rows, 4, 1024, tiling))
  BOTH(SoftMaxTiling, SoftMaxFlashV2TilingFunc(plain_rows, 2, 4, 1024, tiling, true, false))
  BOTH(SoftMaxTiling, SoftMaxFlashTilingFunc(plain_rows, 4, 1024, tiling, true))
  BOTH(SoftMaxTiling, SoftMaxGradTilingFunc(plain_rows, 4, 1024, tiling, false))
  BOTH(LogSoftMaxTiling, LogSoftMaxTilingFunc(plain_rows, 4, 1024, tiling))
  BOTH(LayerNormTiling, GetLayerNormNDTilingInfo(plain_rows, 1024, 4, false, tiling))
  BOTH(LayerNormTiling, GetLayerNormNDTillingInfo(plain_rows, 1024, 4, false, tiling))
  BOTH(LayerNormSeparateTiling, GetLayerNormNDTilingInfo(plain_rows, 1024, 4, false, true, tiling))
  BOTH(LayerNormGradTiling, GetLayerNormGradNDTilingInfo(rows, 1024, 4, false, tiling))
  BOTH(LayerNormGradBetaTiling, GetLayerNormGradBetaNDTilingInfo(rows, 1024, 4, false, tiling))
  BOTH(RmsNormTiling, status &= GetRmsNormTilingInfo(plain_rows, original, 1024, 4, tiling, false))
  BOTH(DeepNormTiling, status &= GetDeepNormTilingInfo(plain_rows, original, 1024, 4, false, false, tiling))
  BOTH(GroupNormTiling, GetGroupNormNDTilingInfo(image, 1024, 4, false, 2, tiling))
  BOTH(BatchNormTiling, status &= GetBatchNormNDTilingInfo(plain_rows, original, 1024, 4, false, tiling, false))
  BOTH(TopkTiling, status &= TopKTilingFunc(platform, 32, 3, 5, 4, true, TopKMode::TOPK_NORMAL, true, tiling))
  BOTH(ConfusionTransposeTiling, GetConfusionTransposeTilingInfo(image, 1024, 2, 1, tiling))
  BOTH(ConfusionTransposeTiling, GetTransposeTilingInfo(image, 1024, 2, 1, tiling))
  BOTH(ConfusionTransposeTiling, GetConfusionTransposeOnlyTilingInfo(image, 1024, 2, tiling))
  BOTH(PadTiling, PadTilingFunc(plain_rows, original, 1024, 4, tiling))
  BOTH(UnPadTiling, UnPadTilingFunc(plain_rows, 1024, 4, tiling))
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_hosts_of_launches_fill_the_structures_of_kernels(tmp_path: Path) -> None:
    source, program = tmp_path / "host.cpp", tmp_path / "host"
    source.write_text(PLAIN)
    include = f"-I{mco.ascendc.host_include_folder()}"
    subprocess.run(["g++", "-std=c++17", "-w", include, str(source), "-o", str(program)], check=True)
    lines = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 20 and all(line.endswith(" 11") for line in lines), lines


FILLED = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void filled(GM_ADDR x, GM_ADDR y, uint32_t n, uint32_t c, uint32_t g, uint32_t hw) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 16384);
  const auto a = buffer.GetWithOffset<float>(512, 0), one = buffer.GetWithOffset<float>(64, 2048),
             zero = buffer.GetWithOffset<float>(64, 2560), out = buffer.GetWithOffset<float>(512, 4096),
             mean = buffer.GetWithOffset<float>(64, 8192), other = buffer.GetWithOffset<float>(64, 8704);
  GlobalTensor<float> from, to;
  from.SetGlobalBuffer((__gm__ float*)x), to.SetGlobalBuffer((__gm__ float*)y);
  DataCopy(a, from, 512);
  Duplicate(one, 1.0f, 64), Duplicate(zero, 0.0f, 64);
  AscendC::tiling::GroupNormTiling group{};
  group.n = n, group.c = c, group.g = g, group.d = c / g, group.hw = hw, group.hwAlignSize = hw;
  group.dhwAlignSize = c / g * hw, group.oneTmpSize = 256, group.factor = 1.0f / (c / g * hw), group.smallShape = true;
  GroupNorm<float>(out, mean, other, a, one, zero, 0.5f, group);
  AscendC::tiling::LayerNormTiling rows{};
  rows.bLength = 1, rows.sLength = 8, rows.hLength = 32, rows.originalHLength = 32, rows.inputXSize = 256;
  rows.meanVarSize = 8, rows.numberOfTmpBuf = 3, rows.loopRound = 1, rows.bsCurLength = 8, rows.bshCurLength = 256;
  rows.lastDimValueBack = 1.0f / 32;
  LayerNorm<float>(out[256], mean, other, a[256], one, zero, 0.5f, rows);
  DataCopy(to, out, 512);
}
"""


def test_kernels_fill_tilings_themselves(tmp_path: Path) -> None:
    source = tmp_path / "filled.cpp"
    source.write_text(FILLED)
    x, y = np.random.default_rng(33).normal(size=512).astype(np.float32), np.zeros(512, np.float32)
    mco.ascendc.build(source, entry="filled", soc="Ascend910B1")(1, x, y, 2, 4, 2, 32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y[:256], normal(wide[:256].reshape(4, 64), (1,)).ravel(), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(y[256:], normal(wide[256:].reshape(8, 32), (1,)).ravel(), rtol=2e-6, atol=2e-6)
