# SPDX-License-Identifier: Apache-2.0
"""What sources of others rely on beside the names of the API: namespaces of their own, entries by a define, headers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from asc_cases import need_ascendc

import ms_custom_ops as mco
from ms_custom_ops.ascendc.program import build_program
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()
KERNEL = (
    '#include "kernel_operator.h"\n'
    'extern "C" __global__ __aicore__ void NAME(GM_ADDR x) { reinterpret_cast<__gm__ int32_t*>(x)[0] = 7; }\n'
)


def written(folder: Path, text: str, name: str = "kernel.cpp") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_an_entry_may_be_named_by_a_define(tmp_path: Path) -> None:
    source, x = written(tmp_path, KERNEL), np.zeros(1, np.int32)
    mco.ascendc.build(source, entry="seven", soc="Ascend910B1", defines=["NAME=seven"])(1, x)
    assert x[0] == 7
    with pytest.raises(AscendcBuildError, match=r"entry is 'seven'; accepted: one of \['NAME'\]"):
        mco.ascendc.build(source, entry="seven", soc="Ascend910B1", defines=["NAME=eight"])


def test_a_source_may_open_the_namespace_of_its_time(tmp_path: Path) -> None:
    text = (
        '#include "kernel_operator.h"\n'
        "namespace tik2 {\n"
        "class Fills {\n public:\n  __aicore__ void Run(GM_ADDR x) {\n"
        "    TPipe pipe;\n    TBuf<QuePosition::VECCALC> buffer;\n    pipe.InitBuffer(buffer, 32);\n"
        "    LocalTensor<float> t = buffer.Get<float>();\n    Duplicate(t, 2.5f, 8);\n"
        "    GlobalTensor<float> gm;\n    gm.SetGlobalBuffer((__gm__ float*)x);\n    DataCopy(gm, t, 8);\n  }\n};\n"
        "}  // namespace tik2\n"
        'extern "C" __global__ __aicore__ void fills(GM_ADDR x) {\n'
        "  using namespace tik2;\n  tik2::Fills f;\n  f.Run(x);\n}\n"
    )
    x = np.zeros(8, np.float32)
    mco.ascendc.build(written(tmp_path, text), soc="Ascend910B1")(1, x)
    assert (x == 2.5).all()


def test_a_source_that_prints_need_not_include_the_stream(tmp_path: Path, capfd) -> None:
    text = KERNEL.replace("{ reinterpret", '{\n  std::cout << "here " << 1 << std::endl;\n  reinterpret')
    mco.ascendc.build(written(tmp_path, text.replace("NAME", "says")), soc="Ascend910B1")(1, np.zeros(1, np.int32))
    assert capfd.readouterr().out == "here 1\n"


LAUNCHES = (
    KERNEL.replace("NAME", "seven") + "int main() {\n  TYPE* x = static_cast<TYPE*>(AscendC::GmAlloc(4));\n"
    "  seven<<<1, nullptr, nullptr>>>(x);\n  return reinterpret_cast<int32_t*>(x)[0] - 7;\n}\n"
)


def test_a_launch_takes_a_void_pointer_and_no_other_one(tmp_path: Path) -> None:
    program = build_program([written(tmp_path, LAUNCHES.replace("TYPE", "void"))], tmp_path / "program")
    assert subprocess.run([program]).returncode == 0
    with pytest.raises(AscendcBuildError, match=r"other\.cpp:5: no match for call"):
        build_program([written(tmp_path, LAUNCHES.replace("TYPE", "float"), "other.cpp")], tmp_path / "other")


HOST = """#include "base/err_msg.h"
#include "common/util/error_manager/error_manager.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"

struct Sizes {
  int64_t half_bytes;
  int32_t base_m;
};
static ge::graphStatus Tile(gert::TilingContext* context) {
  if (context->GetInputShape(0)->GetStorageShape().GetDim(0) > 8) {
    REPORT_INNER_ERR_MSG("E89999", "%s has more than %d", context->GetNodeName(), 8);
    return ge::GRAPH_FAILED;
  }
  platform_ascendc::PlatformAscendC chip(context->GetPlatformInfo());
  matmul_tiling::PlatformInfo info;
  info.socVersion = chip.GetSocVersion();
  chip.GetCoreMemSize(platform_ascendc::CoreMemType::L1, info.l1Size);
  chip.GetCoreMemSize(platform_ascendc::CoreMemType::L0_A, info.l0ASize);
  chip.GetCoreMemSize(platform_ascendc::CoreMemType::L0_B, info.l0BSize);
  chip.GetCoreMemSize(platform_ascendc::CoreMemType::L0_C, info.l0CSize);
  matmul_tiling::MatmulApiTiling product(info), same(chip);
  optiling::TCubeTiling made, wanted;
  for (auto* one : {&product, &same}) {
    one->SetShape(64, 128, 32);
    one->SetOrgShape(64, 128, 32);
    if (one->GetTiling(one == &product ? made : wanted) != 0) return ge::GRAPH_FAILED;
  }
  auto* sizes = context->GetTilingData<Sizes>();
  sizes->half_bytes = sizeof(half);
  sizes->base_m = made.get_baseM() == wanted.get_baseM() ? made.get_baseM() : -1;
  context->SetBlockDim(1);
  return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Shape(gert::InferShapeContext* context) {
  context->GetOutputShape(0)->SetDimNum(0);
  context->GetOutputShape(0)->AppendDim(2);
  return ge::GRAPH_SUCCESS;
}
namespace ops {
class Asks : public OpDef {
 public:
  explicit Asks(const char* name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_INT64}).Format({ge::FORMAT_ND});
    this->SetInferShape(Shape);
    this->AICore().SetTiling(Tile).AddConfig("ascend910b");
  }
};
OP_ADD(Asks);
}  // namespace ops
"""
ASKS = """#include "kernel_operator.h"
struct Sizes {
  int64_t half_bytes;
  int32_t base_m;
};
extern "C" __global__ __aicore__ void asks(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA_WITH_STRUCT(Sizes, sizes, tiling);
  reinterpret_cast<__gm__ int64_t*>(y)[0] = sizes.half_bytes;
  reinterpret_cast<__gm__ int64_t*>(y)[1] = sizes.base_m;
}
"""


def test_an_op_host_asks_for_sizes_and_reports_by_number(tmp_path: Path) -> None:
    (tmp_path / "op_host").mkdir()
    (tmp_path / "op_kernel").mkdir()
    host = written(tmp_path / "op_host", HOST, "asks.cpp")
    written(tmp_path / "op_kernel", ASKS, "asks.cpp")
    op = mco.ascendc.load_project(tmp_path, soc="Ascend910B1")["Asks"]
    half_bytes, base_m = op(np.zeros(8, np.float32))
    assert half_bytes == 2 and base_m > 0 and base_m % 16 == 0
    line = 1 + HOST.splitlines().index(
        '    REPORT_INNER_ERR_MSG("E89999", "%s has more than %d", context->GetNodeName(), 8);'
    )
    with pytest.raises(AscendcError, match=rf"{host}:{line}: E89999: Asks has more than 8"):
        op(np.zeros(9, np.float32))
    host.write_text(HOST.replace("sizeof(half)", "half(1.5f) * 2"))
    with pytest.raises(AscendcBuildError, match=r"asks\.cpp:31: "):
        mco.ascendc.load_project(tmp_path, soc="Ascend910B1")["Asks"]
