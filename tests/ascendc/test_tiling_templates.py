# SPDX-License-Identifier: Apache-2.0
"""Kernels that a tiling key chooses: template arguments, structures by key, what the preprocessor asks."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from asc_cases import need_ascendc

import ms_custom_ops as mco
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()

KEYS = """#pragma once
#include "ascendc/host_api/tiling/template_argument.h"
#define BY_ROWS 3
ASCENDC_TPL_ARGS_DECL(PowerSum,
    ASCENDC_TPL_DATATYPE_DECL(T, C_DT_FLOAT, C_DT_FLOAT16, C_DT_BF16, ASCENDC_TPL_INPUT(0)),
    ASCENDC_TPL_DTYPE_DECL(WAY, 1, BY_ROWS),
    ASCENDC_TPL_FORMAT_DECL(FORMAT, C_FORMAT_ND, C_FORMAT_NCHW),
    ASCENDC_TPL_UINT_DECL(POWER, ASCENDC_TPL_4_BW, ASCENDC_TPL_UI_MIX, 2, 0, 2, 5, 6, 100, 20),
    ASCENDC_TPL_BOOL_DECL(NEGATE, 0, 1),
);
ASCENDC_TPL_SEL(
    ASCENDC_TPL_ARGS_SEL(
        ASCENDC_TPL_KERNEL_TYPE_SEL(ASCENDC_TPL_AIV_ONLY),
        ASCENDC_TPL_DATATYPE_SEL(T, C_DT_FLOAT, C_DT_FLOAT16),
        ASCENDC_TPL_DTYPE_SEL(WAY, 1, BY_ROWS),
        ASCENDC_TPL_FORMAT_SEL(FORMAT, C_FORMAT_ND),
        ASCENDC_TPL_UINT_SEL(POWER, ASCENDC_TPL_UI_RANGE, 1, 0, 6),
        ASCENDC_TPL_BOOL_SEL(NEGATE, 0, 1),
        ASCENDC_TPL_TILING_STRUCT_SEL(Plain)),
    ASCENDC_TPL_ARGS_SEL(
        ASCENDC_TPL_DATATYPE_SEL(T, C_DT_FLOAT),
        ASCENDC_TPL_DTYPE_SEL(WAY, 1),
        ASCENDC_TPL_FORMAT_SEL(FORMAT, C_FORMAT_NCHW),
        ASCENDC_TPL_UINT_SEL(POWER, ASCENDC_TPL_UI_LIST, 20, 100),
        ASCENDC_TPL_BOOL_SEL(NEGATE, 1),
        ASCENDC_TPL_TILING_STRUCT_SEL(Far)),
);
"""
STRUCTS = """#pragma once
#include <cstdint>
struct Plain { uint32_t count; float add; };
struct Far { double pad; float add; uint32_t count; };
"""
HOST = """#include "register/op_def_registry.h"
#include "../op_kernel/power_sum_key.h"
#include "../op_kernel/power_sum_tiling.h"
static ge::graphStatus Tile(gert::TilingContext* context) {
  const auto* attrs = context->GetAttrs();
  const int64_t power = *attrs->GetInt(0), format = *attrs->GetInt(2);
  const bool negate = *attrs->GetBool(1);
  const uint32_t count = context->GetInputShape(0)->GetStorageShape().GetShapeSize();
  const auto type = static_cast<uint32_t>(context->GetInputDesc(0)->GetDataType());
  if (power >= 20) {
    auto* far = context->GetTilingData<Far>();
    far->count = count, far->add = 0.5f;
    context->SetTilingKey(GET_TPL_TILING_KEY(type, 1, format, power, negate));
  } else {
    auto* plain = context->GetTilingData<Plain>();
    plain->count = count, plain->add = 0.25f;
    ASCENDC_TPL_SEL_PARAM(context, type, count > 64 ? BY_ROWS : 1, format, power, negate);
  }
  context->SetBlockDim(1);
  return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Shape(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = {4};
  return ge::GRAPH_SUCCESS;
}
namespace ops {
class PowerSum : public OpDef {
 public:
  explicit PowerSum(const char* name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND, ge::FORMAT_ND});
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT, ge::DT_FLOAT})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND, ge::FORMAT_ND});
    this->Attr("power").AttrType(OPTIONAL).Int(2);
    this->Attr("negate").AttrType(OPTIONAL).Bool(false);
    this->Attr("format").AttrType(OPTIONAL).Int(C_FORMAT_ND);
    this->SetInferShape(Shape);
    this->AICore().SetTiling(Tile).AddConfig("ascend910b");
  }
};
OP_ADD(PowerSum);
}  // namespace ops
"""
KERNEL = """#include "kernel_operator.h"
#include "power_sum_key.h"
#include "power_sum_tiling.h"
template <typename T, int WAY, int FORMAT, int POWER, bool NEGATE>
__global__ __aicore__ void power_sum(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(Plain);
  GET_TILING_DATA(data, tiling);
  float sum = data.add;
  for (uint32_t i = 0; i < data.count; ++i) {
    float one = 1;
    for (int power = POWER; power > 0; --power) one *= float(reinterpret_cast<__gm__ T*>(x)[i]);
    sum += one;
  }
  auto* out = reinterpret_cast<__gm__ float*>(y);
  out[0] = NEGATE ? -sum : sum;
  out[1] = WAY;
  out[2] = FORMAT;
  out[3] = sizeof(T);
}
"""
FILES = {
    "op_host/power_sum.cpp": HOST, "op_kernel/power_sum.cpp": KERNEL, "op_kernel/power_sum_key.h": KEYS,
    "op_kernel/power_sum_tiling.h": STRUCTS,
}  # fmt: skip


def project(folder: Path, files: dict[str, str] = FILES, **changes: tuple[str, str]) -> mco.ascendc.Project:
    """Written to ``folder``, with a text of a file changed: ``key=(old, new)`` where the file's name has ``key``."""
    for name, text in files.items():
        for part, (old, new) in changes.items():
            if part in name:
                assert old in text
                text = text.replace(old, new)
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return mco.ascendc.load_project(folder, soc="Ascend910B1")


@pytest.fixture(scope="module")
def op(tmp_path_factory) -> mco.ascendc.AscendcOp:
    return project(tmp_path_factory.mktemp("templates"))["PowerSum"]


@pytest.mark.parametrize("count", [5, 70])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("power", "negate"), [(0, False), (2, True), (5, False), (6, True)])
def test_the_kernel_is_the_one_of_the_arguments(op, power, negate, dtype, count) -> None:
    x = np.random.default_rng(power).uniform(-1, 1, count).astype(dtype)
    sum_ = 0.25 + (x.astype(np.float64) ** power).sum()
    got = op(x, power=power, negate=negate)
    np.testing.assert_allclose(got[0], -sum_ if negate else sum_, rtol=1e-4)
    assert got[1:].tolist() == [1 if count == 5 else 3, 2, x.itemsize]


@pytest.mark.parametrize("power", [20, 100])
def test_a_choice_has_its_own_structure_and_a_list_its_own_numbers(op, power: int) -> None:
    x = np.array([1, 1, -1], np.float32)
    assert op(x, power=power, negate=True, format=0).tolist() == [-3.5, 1, 0, 4]


REFUSED = {
    "a value that is not declared": (dict(power=3), r"POWER is 3; accepted: 0, 1, 2, 5, 6, 100, 20"),
    "a choice that is not there": (dict(power=2, format=0), r"arguments is 0, 1, 0, 2, 0; accepted: those that one"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_are_not_there(op, name: str) -> None:
    attributes, said = REFUSED[name]
    with pytest.raises(AscendcError, match="PowerSum: GET_TPL_TILING_KEY: " + said):
        op(np.ones(3, np.float32), **attributes)


def test_a_dtype_without_a_choice(op) -> None:
    with pytest.raises(AscendcError, match=r"arguments is 27, 1, 2, 2, 0; accepted: those"):
        op(np.ones(3, ml_dtypes.bfloat16))


WRONG = {
    "too few bits": (("_4_BW", "_2_BW"), r"POWER: 7 values are declared; accepted: as many as 2 bits count"),
    "no such list": (("UI_MIX, 2, 0, 2, 5, 6, 100, 20", "UI_RANGE, 2, 0, 2, 5"), r"POWER: numbers are 0, 2, 0, 2, 5"),
    "a range that turns": (("UI_MIX, 2, 0, 2, 5", "UI_MIX, 2, 2, 0, 5"), r"POWER: numbers are 2, 2, 2, 0, 5"),
    "another number of arguments": (
        ("ASCENDC_TPL_BOOL_DECL(NEGATE, 0, 1),\n", ""),
        r"number of arguments is 5; acc.* 4",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_declarations_that_cannot_be_meant(tmp_path: Path, name: str) -> None:
    change, said = WRONG[name]
    with pytest.raises(AscendcError, match=said):
        project(tmp_path, key=change)["PowerSum"](np.ones(3, np.float32))


PLAIN_HOST = re.sub(r"ASCENDC_TPL_SEL_PARAM\(.*\);", "context->SetTilingKey(power);", HOST)
PLAIN_HOST = re.sub(r"GET_TPL_TILING_KEY\(.*\)\)", "power)", PLAIN_HOST).replace(
    '#include "../op_kernel/power_sum_key.h"\n', ""
)
PLAIN_HOST = PLAIN_HOST.replace("BY_ROWS", "3").replace("C_FORMAT_ND", "2")
BY_KEY = """#include "kernel_operator.h"
#include "power_sum_tiling.h"
#if TILING_KEY_VAR == 100
#define ANSWER 5
#else
#define ANSWER 4
#endif
extern "C" __global__ __aicore__ void power_sum(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(Plain);
  REGISTER_TILING_FOR_TILINGKEY("CONDITION", Far);
  GET_TILING_DATA(data, tiling);
  auto* out = reinterpret_cast<__gm__ float*>(y);
  out[0] = data.add;
  out[1] = data.count;
  out[2] = ANSWER;
  out[3] = TILING_KEY_IS(2) ? 1 : 0;
}
"""
PLAIN = {
    "op_host/power_sum.cpp": PLAIN_HOST, "op_kernel/power_sum.cpp": BY_KEY, "op_kernel/power_sum_tiling.h": STRUCTS,
}  # fmt: skip
CONDITIONS = [
    "TILING_KEY_VAR >= 20",
    "(TILING_KEY_VAR == 0x14UL) || TILING_KEY_VAR / 10 == 10",
    "!(TILING_KEY_VAR < 7)",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_key_has_its_structure_and_its_preprocessor(tmp_path: Path, condition: str) -> None:
    files = PLAIN | {"op_kernel/power_sum.cpp": BY_KEY.replace("CONDITION", condition)}
    op, x = project(tmp_path, files)["PowerSum"], np.ones(3, np.float32)
    assert op(x, power=2).tolist() == [0.25, 3, 4, 1]
    assert op(x, power=20).tolist() == [0.5, 3, 4, 0]
    assert op(x, power=100).tolist() == [0.5, 3, 5, 0]


@pytest.mark.parametrize("condition", ["OTHER == 1", "TILING_KEY_VAR ==", "f(TILING_KEY_VAR)"])
def test_a_condition_that_is_none(tmp_path: Path, condition: str) -> None:
    files = PLAIN | {"op_kernel/power_sum.cpp": BY_KEY.replace("CONDITION", condition)}
    said = f"REGISTER_TILING_FOR_TILINGKEY is '{re.escape(condition)}'; accepted: comparisons of TILING_KEY_VAR"
    with pytest.raises(AscendcBuildError, match=said):
        project(tmp_path, files)["PowerSum"](np.ones(3, np.float32))


ALONE = """#include "kernel_operator.h"
struct Near { int32_t a, b; };
struct Far { float c, d; };
extern "C" __global__ __aicore__ void alone(GM_ADDR y, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(Near);
  REGISTER_TILING_FOR_TILINGKEY("TILING_KEY_VAR >= 4", Far);
  GET_TILING_DATA(data, tiling);
  *reinterpret_cast<__gm__ float*>(y) = sizeof(data) + (std::is_same_v<decltype(data), Far> ? 100 : 0);
}
"""


@pytest.mark.parametrize("key, wanted", [("3", 8), ("4", 108), ("0x10UL", 108)])
def test_a_build_without_a_project_is_for_a_key(tmp_path: Path, key: str, wanted: int) -> None:
    (tmp_path / "alone.cpp").write_text(ALONE)
    kernel = mco.ascendc.build(tmp_path / "alone.cpp", defines=f"TILING_KEY_VAR={key}")
    y = np.zeros(1, np.float32)
    kernel(1, y, tiling=bytes(8), tiling_key=int(key.rstrip("UL"), 0))
    assert y[0] == wanted


def test_a_build_without_a_project_and_without_a_key(tmp_path: Path) -> None:
    (tmp_path / "alone.cpp").write_text(ALONE)
    said = 'REGISTER_TILING_FOR_TILINGKEY is Far by key, in a build for no key; accepted: defines="TILING_KEY_VAR=1"'
    with pytest.raises(AscendcBuildError, match=said):
        mco.ascendc.build(tmp_path / "alone.cpp")


def test_a_graph_cannot_choose_a_kernel_by_values_it_does_not_know(tmp_path: Path) -> None:
    depends = ("DT_BF16})", "DT_BF16}).ValueDepend(REQUIRED)")
    op = project(tmp_path, FILES | {"op_host/power_sum.cpp": HOST.replace(*depends)})["PowerSum"]
    assert op(np.ones(3, np.float32))[0] == 3.25
    with pytest.raises(
        AscendcError, match="tiling is of values, with kernels by tiling key; accepted: one kernel and one"
    ):
        op.launch([(3,)], [["float32"]], [2, False, 2])
