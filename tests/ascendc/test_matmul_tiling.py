# SPDX-License-Identifier: Apache-2.0
"""Tiling of Matmul on the host: base blocks fit the chip's buffers, shares of cores cover the product."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ms_custom_ops as mco

PROGRAM = r"""
#include "tiling/tiling_api.h"
using namespace matmul_tiling;

struct Plain {
#define MCO_CUBE_FIELD(name) int32_t name;
#include "mco_host/cube_tiling_fields.inc"
#undef MCO_CUBE_FIELD
};

template <typename T>
void Show(T& tiling, int m, int n, int k, DataType type, int cores, int fixed) {
  auto* platform = platform_ascendc::PlatformAscendCManager::GetInstance("Ascend910B1");
  optiling::TCubeTiling data;
  Plain plain;
  tiling.SetAType(TPosition::GM, CubeFormat::ND, type);
  tiling.SetBType(TPosition::GM, CubeFormat::ND, type);
  tiling.SetCType(TPosition::GM, CubeFormat::ND, DataType::DT_FLOAT);
  tiling.SetShape(m, n, k);
  tiling.SetOrgShape(m, n, k);
  tiling.SetBias(false);
  tiling.SetBufferSpace(-1, -1, -1);
  if (fixed) tiling.SetFixSplit(fixed, fixed, -1);
  const long status = tiling.GetTiling(data), again = tiling.GetTiling(plain);
  Plain copy;
  if (data.GetDataSize() != sizeof(copy)) std::abort();
  data.SaveToBuffer(&copy, sizeof(copy));
  const bool same = again == status && !memcmp(&copy, &plain, sizeof(copy));
  printf("{\"status\": %ld, \"same\": %d, \"cores\": %d", status, same, cores);
#define MCO_CUBE_FIELD(name) printf(", \"" #name "\": %d", plain.name);
#include "mco_host/cube_tiling_fields.inc"
#undef MCO_CUBE_FIELD
  printf(", \"size\": %d}\n", ge::GetSizeByDataType(static_cast<ge::DataType>(type)));
}

int main() {
  auto* platform = platform_ascendc::PlatformAscendCManager::GetInstance("Ascend910B1");
  const int shapes[][3] = {{16, 16, 16}, {1, 1, 1}, {1024, 640, 256}, {100, 4096, 33}, {5000, 48, 8192}};
  for (auto& s : shapes) {
    for (DataType type : {DataType::DT_FLOAT16, DataType::DT_FLOAT, DataType::DT_INT8}) {
      MatmulApiTiling one(*platform);
      Show(one, s[0], s[1], s[2], type, 1, 0);
      for (int cores : {2, 24, 48}) {
        MultiCoreMatmulTiling many(*platform);
        many.SetDim(cores);
        Show(many, s[0], s[1], s[2], type, cores, cores == 2 ? 128 : 0);
      }
    }
  }
  MatmulApiTiling wrong(*platform);
  Show(wrong, -1, 16, 16, DataType::DT_FLOAT16, 1, 0);
}
"""


def told(folder: Path, text: str) -> list[str]:
    """Lines that a program of host functions prints."""
    source, program = folder / "host.cpp", folder / "host"
    source.write_text(text)
    command = ["g++", "-std=c++17", "-w", f"-I{mco.ascendc.host_include_folder()}", str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_plans_fit_and_cover(tmp_path: Path) -> None:
    plans = [json.loads(line) for line in told(tmp_path, PROGRAM)]
    assert plans.pop()["status"] == -1 and len(plans) == 60
    for p in (p for p in plans if (p["M"], p["N"]) == (1024, 640) and p["cores"] > 2):  # no core has a tail
        assert p["M"] % p["singleCoreM"] == p["N"] % p["singleCoreN"] == 0
        assert p["singleCoreM"] % p["baseM"] == p["singleCoreN"] % p["baseN"] == 0
    for p in plans:
        assert p["status"] == 0 and p["same"], p
        a, b = (p["base" + axis] * p["baseK"] * p["size"] for axis in "MN")
        assert a * p["dbL0A"] <= 65536 and b * p["dbL0B"] <= 65536 and p["baseM"] * p["baseN"] * 4 <= 131072, p
        assert p["depthA1"] * a + p["depthB1"] * b == p["shareL1Size"] <= 524288, p
        assert p["baseM"] % 16 == p["baseN"] % 16 == 0 and p["baseK"] % (32 // p["size"]) == 0 and p["baseK"] > 0, p
        parts = [-(-p[axis] // p["singleCore" + axis]) for axis in "MN"]
        assert p["usedCoreNum"] == parts[0] * parts[1] <= p["cores"] and p["singleCoreK"] == p["Ka"] == p["Kb"], p
        if p["M"] * p["N"] >= 16 * 16 * 4 * p["cores"]:
            assert p["usedCoreNum"] * 2 > p["cores"], p  # most cores work


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_source_asks_for_the_chip_it_is_built_for(tmp_path: Path) -> None:
    source = tmp_path / "cores.cpp"
    source.write_text("""
#include "kernel_operator.h"
#include "tiling/tiling_api.h"
extern "C" __global__ __aicore__ void cores(GM_ADDR out) {
  *(__gm__ int32_t*)out = platform_ascendc::PlatformAscendCManager::GetInstance()->GetCoreNumAiv();
}
""")
    found = np.zeros(8, np.int32)
    mco.ascendc.build(source, "cores", "Ascend910B3")(1, found)
    assert found[0] == 40


SIZES = r"""
#include "graph/utils/type_utils.h"
#include "tiling/tiling_api.h"

int main() {
  const auto& platform = *platform_ascendc::PlatformAscendCManager::GetInstance("Ascend910B1");
  uint32_t length = 77, max = 0, min = 0;
  for (ge::DataType type : {ge::DT_FLOAT16, ge::DT_INT64, ge::DT_BOOL}) {
    printf("%d ", ge::TypeUtils::GetDataTypeLength(type, length) ? int(length) : -1);
  }
  printf("%d\n", ge::TypeUtils::GetDataTypeLength(ge::DT_INT4, length) || length != 1);
  matmul_tiling::MatmulApiTiling plain, named(platform);
  optiling::TCubeTiling first, second;
  for (auto pair : {std::make_pair(&plain, &first), std::make_pair(&named, &second)}) {
    pair.first->SetShape(100, 200, 300);
    pair.first->SetOrgShape(100, 200, 300);
    if (pair.first->GetTiling(*pair.second) == -1) return 1;
  }
  printf("%d\n", first.get_baseM() > 0 && first.get_baseM() == second.get_baseM() &&
                     first.get_baseN() == second.get_baseN() && first.get_baseK() == second.get_baseK());
  const ge::Shape row({1, 33}), whole({7, 33});
  AscendC::GetBroadCastMaxMinTmpSize(platform, row, whole, 4, false, max, min);
  printf("%d\n", max >= 7 * 33 * 4 && min && min <= max);
  AscendC::GetSwiGLUMaxMinTmpSize(whole, 2, max, min, false);
  printf("%d\n", max >= 7 * 33 * 2 && min && min <= max);
  AscendC::GetSumMaxMinTmpSize(33, 2, false, max, min);
  printf("%d\n", max >= 66 && min == max);
  AscendC::GetMeanMaxMinTmpSize(33, 2, 4, false, max, min);
  printf("%d\n", max >= 132 && min == max);
  printf("%d\n", AscendC::GetSelectWithBytesMaskMinTmpSize(whole, row, 4, whole, 1, false) <=
                     AscendC::GetSelectWithBytesMaskMaxTmpSize(whole, row, 4, whole, 1, false));
  optiling::SoftMaxTiling tiling;
  AscendC::SoftMaxGradTilingFunc(whole, 4, AscendC::GetSoftMaxGradMinTmpSize(whole, 4, false, false), tiling);
  printf("%d\n", tiling.get_srcM() == 7 && tiling.get_srcK() == 33 &&
                     AscendC::GetSoftMaxGradMaxTmpSize(whole, 4, false, false) >= 7 * 33 * 4);
  AscendC::GetReduceSumMaxMinTmpSize(whole, ge::DT_FLOAT, AscendC::ReducePattern::AR, true, false, max, min);
  printf("%d\n", max >= 7 * 33 * 4 && min && min <= max);
  optiling::ConfusionTransposeTiling turn;
  AscendC::GetTransposeTilingInfo(ge::Shape({2, 3, 32, 16}), 1024, 2, 1, turn);
  printf("%u %u %u %u\n", turn.get_b(), turn.get_n(), turn.get_s(), turn.get_d());
  AscendC::GetConfusionTransposeOnlyTilingInfo(ge::Shape({48, 16}), 1024, 2, turn);
  printf("%u %u %u %u\n", turn.get_b(), turn.get_n(), turn.get_s(), turn.get_d());
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_sizes_that_host_sources_ask_for(tmp_path: Path) -> None:
    assert told(tmp_path, SIZES) == ["2 8 1 0", *["1"] * 8, "2 3 32 16", "1 1 48 16"]
