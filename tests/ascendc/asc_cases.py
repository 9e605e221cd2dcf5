# SPDX-License-Identifier: Apache-2.0
"""What tests of Ascend C share."""

from __future__ import annotations

import shutil

import pytest

from ms_custom_ops.engine import native
from ms_custom_ops.errors import EngineMissingError


def need_ascendc() -> None:
    """Skip the module without the native engine or a C++ compiler."""
    try:
        native.library_path()
    except EngineMissingError:
        pytest.skip("no native engine", allow_module_level=True)
    if not any(map(shutil.which, ("g++", "c++", "clang++"))):
        pytest.skip("no C++ compiler", allow_module_level=True)


_FLOAT_OP = """static ge::graphStatus Shape(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = SHAPE;
  return ge::GRAPH_SUCCESS;
}
}  // namespace optiling
namespace ops {
class NAME : public OpDef {
 public:
  explicit NAME(const char* name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->SetInferShape(optiling::Shape);
    this->AICore().SetTiling(optiling::Tile).AddConfig("ascend910b");
  }
};
OP_ADD(NAME);
}  // namespace ops
"""


def float_op(name: str, shape: str) -> str:
    """The end of an op_host behind its tiling function ``Tile``: an op of a float tensor, its result of ``shape``."""
    return _FLOAT_OP.replace("NAME", name).replace("SHAPE", "{" + shape + "}")
