# SPDX-License-Identifier: Apache-2.0
"""Tiling structures whose values lie in memory of the caller's, and what sources ask of shapes beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asc_cases import float_op, need_ascendc

import ms_custom_ops as mco
from ms_custom_ops.errors import AscendcBuildError, AscendcError

need_ascendc()

HOST = """#include "register/op_def_registry.h"
#include "register/tilingdata_base.h"
namespace optiling {
BEGIN_TILING_DATA_DEF(Inner)
TILING_DATA_FIELD_DEF(uint8_t, small);
TILING_DATA_FIELD_DEF_ARR(int64_t, 2, pair);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(InnerOp, Inner)
BEGIN_TILING_DATA_DEF(Outer)
TILING_DATA_FIELD_DEF(float, scale);
TILING_DATA_FIELD_DEF_STRUCT(Inner, inner);
TILING_DATA_FIELD_DEF(int32_t, last);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Placed, Outer)

static uint64_t Elements(const ge::Shape& shape) { return shape.GetShapeSize(); }
static ge::graphStatus Tile(gert::TilingContext* context) {
  Outer tiling, copy;
  auto* raw = context->GetRawTilingData();
  PLACE
  int64_t pair[] = {7, int64_t(Elements(ge::Shape({2, 3})))};
  tiling.set_scale(1.5f);
  tiling.inner.set_small(200);
  tiling.inner.set_pair(pair);
  tiling.set_last(-4);
  if (tiling.get_scale() != 1.5f || tiling.inner.get_pair()[1] != 6) return ge::GRAPH_FAILED;
  SAVE
  raw->SetDataSize(tiling.GetDataSize());
  context->SetBlockDim(1);
  return ge::GRAPH_SUCCESS;
}
"""
HOST += float_op("Placed", "5")
KERNEL = """#include "kernel_operator.h"
#include "lib/matmul_intf.h"
extern "C" __global__ __aicore__ void placed(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(data, tiling);
  auto* out = reinterpret_cast<__gm__ float*>(y);
  out[0] = data.scale;
  out[1] = data.inner.small;
  out[2] = float(matmul::CeilDiv(data.inner.pair[0], 2) * 10 + matmul::CeilDiv(data.inner.pair[0], 0));
  out[3] = float(data.inner.pair[1]);
  out[4] = float(data.last);
}
"""
WAYS = {
    "saved": ("", "tiling.SaveToBuffer(raw->GetData(), raw->GetCapacity());"),
    "in place": ("tiling.SetDataPtr(raw->GetData());", ""),
    "in place and saved": (
        "tiling.SetDataPtr(raw->GetData());",
        "tiling.SaveToBuffer(raw->GetData(), raw->GetCapacity());",
    ),
    "elsewhere and saved": (
        "std::vector<uint8_t> room(tiling.GetDataSize()); tiling.SetDataPtr(room.data());",
        "tiling.SaveToBuffer(raw->GetData(), raw->GetCapacity());",
    ),
    "in place no longer": (
        "tiling.SetDataPtr(raw->GetData()); tiling.set_last(9); tiling.SetDataPtr(nullptr);",
        "tiling.SaveToBuffer(raw->GetData(), raw->GetCapacity());",
    ),
    "loaded": (
        "",
        "tiling.SaveToBuffer(raw->GetData(), raw->GetCapacity()); copy.LoadFromBuffer(raw->GetData(), "
        "copy.GetDataSize()); copy.SaveToBuffer(raw->GetData(), raw->GetCapacity());",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_values_are_those_that_were_set(tmp_path: Path, way: str) -> None:
    place, save = WAYS[way]
    for name, text in (
        ("op_host/placed.cpp", HOST.replace("PLACE", place).replace("SAVE", save)),
        ("op_kernel/placed.cpp", KERNEL),
    ):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    op = mco.ascendc.load_project(tmp_path, soc="Ascend910B1")["Placed"]
    assert op(np.zeros(1, np.float32)).tolist() == [1.5, 200, 40, 6, -4]


SAVED = HOST.replace("PLACE", WAYS["saved"][0]).replace("SAVE", WAYS["saved"][1])


@pytest.mark.parametrize(
    "places", [("placed_host.cpp", "placed_kernel.cpp"), ("op_host/all.cpp", "op_kernel/some.cpp")]
)
def test_a_kernel_is_found_by_its_function_too(tmp_path: Path, places: tuple[str, str]) -> None:
    for name, text in zip(places, (SAVED, KERNEL), strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cpp").write_text("int main() { not a source of the ops }\n")
    ops = mco.ascendc.load_project(tmp_path, soc="Ascend910B1")
    assert list(ops) == ["Placed"] and ops["Placed"](np.zeros(1, np.float32)).tolist() == [1.5, 200, 40, 6, -4]


def test_a_folder_without_ops_is_none(tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").write_text("// OP_ADD(Nothing)\n" + KERNEL)
    with pytest.raises(AscendcBuildError, match="accepted: a folder with op_host/.* or with sources that have OP_ADD"):
        mco.ascendc.load_project(tmp_path, soc="Ascend910B1")


STARTS = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void placed(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  auto* out = reinterpret_cast<__gm__ float*>(y);
  for (int i = 0; i < 3; ++i) out[i] = out[i] > i ? out[i] : i;
}
"""


def test_an_output_starts_as_it_is_given(tmp_path: Path) -> None:
    for name, text in (("op_host/placed.cpp", SAVED), ("op_kernel/placed.cpp", STARTS)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    op, x = mco.ascendc.load_project(tmp_path, soc="Ascend910B1")["Placed"], np.zeros(1, np.float32)
    start = np.array([-1, 5, -1, 7, 8], np.float32)
    assert op(x).tolist() == [0, 1, 2, 0, 0]
    assert op(x, out_values={"y": start}).tolist() == [0, 5, 2, 7, 8] and start[0] == -1
    report = op.check(x, out_values={"y": start})
    assert not report.findings and report.outputs[0].tolist() == [0, 5, 2, 7, 8]
    assert op.check(x).findings  # the first three are read before anybody has written them
    assert op.profile(x, out_values={"y": start}).cycles > 0
    for given, said in (
        ({"z": start}, "name in out_values is 'z'; accepted: y"),
        ({"y": start[:2]}, r"out_values of y is float32\[2\]; accepted: float32\[5\]"),
        ({"y": start.astype(np.float16)}, r"out_values of y is float16\[5\]; accepted: float32\[5\]"),
    ):
        with pytest.raises(AscendcError, match="Placed: " + said):
            op(x, out_values=given)


def test_an_output_that_is_an_input_or_a_list_starts_as_nothing_else() -> None:
    ops = mco.ascendc.load_project(Path(__file__).parents[1] / "data" / "ascendc" / "mixed", soc="Ascend910B1")
    x = np.ones((2, 8), np.float32)
    into = ops["AddInto"]
    names = [param.name for param in into.outputs]
    arrays = [np.ones((2, 8), np.float32) for _ in into.inputs]
    with pytest.raises(AscendcError, match="AddInto: name in out_values is .*; accepted: no output is free"):
        into(*arrays, out_values={names[0]: x})
