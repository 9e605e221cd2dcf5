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


MORE_SIZES = """
  platform_ascendc::PlatformAscendC chip(context->GetPlatformInfo());
  const ge::Shape shape({4, 100});
  uint32_t max = 0, min = 0, factor = 0;
  AscendC::GetSiluTmpSize(shape, 4, false, max, min);
  if (max != 1600 || min != 32) return ge::GRAPH_FAILED;
  AscendC::GetSwishTmpSize(shape, 2, false, max, min);
  if (max != 800) return ge::GRAPH_FAILED;
  AscendC::GetLog2MaxMinTmpSize(shape, 4, false, max, min);
  AscendC::GetLog10MaxMinTmpSize(shape, 4, false, max, min);
  AscendC::GetRintMaxMinTmpSize(shape, 4, false, max, min);
  AscendC::GetHypotMaxMinTmpSize(shape, 4, false, max, min);
  AscendC::GetAxpyMaxMinTmpSize(shape, 4, false, max, min);
  AscendC::GetMeanTmpBufferFactorSize(4, factor, min);
  AscendC::GetAscendQuantTmpBufferFactorSize(4, factor, min);
  AscendC::GetAscendDequantTmpBufferFactorSize(4, factor, min);
  if (max != 1600 || factor != 1) return ge::GRAPH_FAILED;
  AscendC::GetArithProgressionMaxMinTmpSize(max, min);
  AscendC::GetArangeMaxMinTmpSize(max, min);
  if (max || min || !AscendC::GetRmsNormMaxMinTmpSize(shape, 4, max, min) || max != 1600) return ge::GRAPH_FAILED;
  optiling::SoftMaxTiling blocks, others;
  AscendC::SoftMaxTilingFunc(ge::Shape({16, 128}), 4, 1 << 16, blocks);
  AscendC::SoftMaxTilingFunc(ge::Shape({16, 100}), 4, 1 << 16, others);
  if (!AscendC::IsBasicBlockInSoftMax(blocks) || AscendC::IsBasicBlockInSoftMax(others)) return ge::GRAPH_FAILED;
  if (context->InputIsView(0) || chip.CalcTschNumBlocks(9, 1, 2) != 5) return ge::GRAPH_FAILED;
  if (context->GetRequiredOutputShape(0)->GetStorageShape().GetDim(0) != 2) return ge::GRAPH_FAILED;
  if (context->GetDynamicOutputShape(0, 1) != nullptr) return ge::GRAPH_FAILED;
  context->SetNumBlocks(3);
  if (context->GetNumBlocks() != 3 || context->GetBlockDim() != 3) return ge::GRAPH_FAILED;
"""
SIMPLE = HOST[: HOST.index("  platform_ascendc")] + MORE_SIZES + HOST[HOST.index("  auto* sizes") :]
SIMPLE = SIMPLE.replace("made.get_baseM() == wanted.get_baseM() ? made.get_baseM() : -1", "LEAST")
SIMPLE = SIMPLE.replace("sizes->base_m = LEAST;", "sizes->base_m = 5;")
SIMPLE = SIMPLE.replace(".DataType({ge::DT_FLOAT})", ".Version(1).DataType({ge::DT_FLOAT})")


def asks(folder: Path, host: str = SIMPLE, kernel: str = ASKS, build: str | None = None) -> mco.ascendc.AscendcOp:
    for name in ("op_host", "op_kernel"):
        (folder / name).mkdir()
    written(folder / "op_host", host, "asks.cpp")
    written(folder / "op_kernel", kernel, "asks.cpp")
    if build is not None:
        written(folder / "op_kernel", build, "CMakeLists.txt")
    return mco.ascendc.load_project(folder, soc="Ascend910B1")["Asks"]


def test_sizes_of_library_functions_and_newer_names_of_contexts(tmp_path: Path) -> None:
    assert asks(tmp_path)(np.zeros(8, np.float32)).tolist() == [2, 5]


SHAPES = {
    "no number of dims": (
        "SetDim(0, 2);",
        r"output 0 with a size for dim 0 of 0; accepted: SetDimNum, AppendDim, or out_",
    ),
    "too few": ("SetDimNum(1), y->SetDim(1, 2);", r"output 0 with a size for dim 1 of 1; accepted"),
    "none": ("SetDimNum(1), y->SetDim(0, 2);", ""),
    "a number later": ("SetDim(0, 2), y->SetDim(1, 3), y->SetDimNum(1);", ""),
    "another shape later": ("SetDim(3, 2), *y = {2};", ""),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_whose_number_of_dims_is_missing(tmp_path: Path, name: str) -> None:
    text, said = SHAPES[name]
    shape = SIMPLE[
        SIMPLE.index("  context->GetOutputShape(0)->SetDimNum(0)") : SIMPLE.index(
            "  return ge::GRAPH_SUCCESS;\n}\nnamespace ops"
        )
    ]
    op = asks(tmp_path, SIMPLE.replace(shape, f"  auto* y = context->GetOutputShape(0);\n  y->{text}\n"))
    if not said:
        assert op(np.zeros(8, np.float32)).shape == (2,)
        return
    with pytest.raises(AscendcError, match="Asks: result of shape inference is " + said):
        op(np.zeros(8, np.float32))
    assert op(np.zeros(8, np.float32), out_shapes=[(2,)]).tolist() == [2, 5]


BUILDS = {
    "of all ops": ("add_ops_compile_options(ALL OPTIONS -O2 -DMORE=3)", 3),
    "of this one": ("add_ops_compile_options(OP_NAME Asks OPTIONS\n  -Wno-error -DMORE=4 -I${DIR})", 4),
    "of another one": ("add_ops_compile_options(Other OPTIONS -DMORE=4)", 1),
    "in a comment": ("# add_ops_compile_options(ALL OPTIONS -DMORE=4)", 1),
    "of some builds": (
        'if ("${CMAKE_BUILD_TYPE}x" STREQUAL "Debugx")\n add_ops_compile_options(ALL OPTIONS -DMORE=4)\nendif()\n',
        1,
    ),
    "of a variable": ("add_ops_compile_options(ALL OPTIONS -DMORE=${N})", 1),
}


@pytest.mark.parametrize("name", BUILDS)
def test_a_kernel_has_the_defines_of_its_build_file(tmp_path: Path, name: str) -> None:
    build, more = BUILDS[name]
    kernel = ASKS.replace("= sizes.base_m", "= MORE").replace(
        "struct Sizes", "#ifndef MORE\n#define MORE 1\n#endif\nstruct Sizes"
    )
    op = asks(tmp_path, kernel=kernel, build=build)
    assert op(np.zeros(8, np.float32)).tolist() == [2, more]
    if name != "of this one":
        return
    given = mco.ascendc.load_project(tmp_path, soc="Ascend910B1", defines=["MORE=9"])["Asks"]
    assert given(np.zeros(8, np.float32)).tolist() == [2, 9]


def test_a_kernel_makes_the_tiling_of_a_softmax_itself(tmp_path: Path) -> None:
    forms = "SoftMaxTilingFunc SoftMaxFlashTilingFunc SoftMaxFlashV2TilingFunc SoftMaxGradTilingFunc".split()
    same = "".join(f"  if ({form}(shape, 4, 4, 1024, true, false).srcM != rows) return;\n" for form in forms)
    text = (
        '#include "kernel_operator.h"\n#include "lib/activation/softmax.h"\nusing namespace AscendC;\n'
        'extern "C" __global__ __aicore__ void rows_of(GM_ADDR x, uint32_t rows, uint32_t columns) {\n'
        "  TPipe pipe;\n  TBuf<> buffer;\n  pipe.InitBuffer(buffer, 8192);\n"
        "  LocalTensor<float> t = buffer.GetWithOffset<float>(1024, 0), top = buffer.GetWithOffset<float>(128, 4096),\n"
        "                     sums = buffer.GetWithOffset<float>(128, 4608);\n"
        "  GlobalTensor<float> gm;\n  gm.SetGlobalBuffer((__gm__ float*)x);\n  DataCopy(t, gm, rows * columns);\n"
        "  const SoftMaxShapeInfo shape = {rows, columns, rows, columns};\n"
        f"{same}"
        "  const SoftMaxTiling tiling = SoftMaxTilingFunc(shape, sizeof(float), sizeof(float), 1024, false);\n"
        "  SoftMax<float>(t, sums, top, t, tiling);\n  DataCopy(gm, t, rows * columns);\n}\n"
    )
    x = np.random.default_rng(3).normal(size=(5, 24)).astype(np.float32)
    powers = np.exp(x - x.max(1, keepdims=True))
    mco.ascendc.build(written(tmp_path, text), soc="Ascend910B1")(1, x, 5, 24)
    np.testing.assert_allclose(x, powers / powers.sum(1, keepdims=True), rtol=1e-6)


def test_an_op_host_relies_on_what_its_headers_bring_along(tmp_path: Path) -> None:
    for number, (check, said) in enumerate(
        {"context->GetInputShape(0)": "", "context->GetInputShape(4)": "Asks: context"}.items()
    ):
        more = (
            f"  {{\n    using namespace ge;\n    const string name = context->GetNodeName();\n"
            f"    OPS_CHECK_NULL_WITH_CONTEXT(context, {check});\n    uint32_t most = 0, least = 0;\n"
            "    const Shape shape({2, 8});\n"
            "    AscendC::GetAscendAntiQuantMaxMinTmpSize(shape, shape, false, DT_INT8, DT_FLOAT16, most, least);\n"
            f'    if (name != "Asks" || most != 32) return GRAPH_FAILED;\n  }}\n'
        )
        (tmp_path / str(number)).mkdir()
        op = asks(tmp_path / str(number), SIMPLE.replace("  auto* sizes", more + "  auto* sizes", 1))
        if not said:
            assert op(np.zeros(8, np.float32)).tolist() == [2, 5]
            continue
        with pytest.raises(AscendcError, match=r"asks\.cpp:\d+: Asks: context->GetInputShape\(4\) is nullptr"):
            op(np.zeros(8, np.float32))


@pytest.mark.parametrize("checkout", [True, False])
def test_headers_of_a_checkout_are_found_from_its_top(tmp_path: Path, checkout: bool) -> None:
    project, shared = tmp_path / "top" / "csrc" / "attention" / "asks", tmp_path / "top" / "csrc" / "common" / "include"
    for folder in (project, shared):
        folder.mkdir(parents=True)
    written(shared, "#define SHARED 1\n", "shared_names.h")
    if checkout:
        (tmp_path / "top" / ".git").mkdir()
    (tmp_path / "top" / "include").mkdir()
    written(tmp_path / "top" / "include", "#define TOP 1\n", "top_names.h")
    host = '#include "shared_names.h"\n#include "top_names.h"\n' + SIMPLE
    if checkout:
        assert asks(project, host)(np.zeros(8, np.float32)).tolist() == [2, 5]
        return
    with pytest.raises(AscendcBuildError, match=r"asks\.cpp:2: top_names\.h: No such file"):
        asks(project, host)
