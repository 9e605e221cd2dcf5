// SPDX-License-Identifier: Apache-2.0
// An op that gives what nobody has written: of UB, and of the workspace.
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {
static ge::graphStatus LeftoverTiling(gert::TilingContext* context)
{
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    context->SetBlockDim(1);
    context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize() + 64;
    return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ops {
class Leftover : public OpDef {
public:
    explicit Leftover(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        for (const char* output : {"of_ub", "of_workspace"}) {
            this->Output(output).ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        }
        this->SetInferShape([](gert::InferShapeContext* context) -> ge::graphStatus {
            *context->GetOutputShape(0) = *context->GetOutputShape(1) = *context->GetInputShape(0);
            return ge::GRAPH_SUCCESS;
        });
        this->SetInferDataType([](gert::InferDataTypeContext* context) -> ge::graphStatus {
            context->SetOutputDataType(0, ge::DT_FLOAT);
            return context->SetOutputDataType(1, ge::DT_FLOAT);
        });
        this->AICore().SetTiling(optiling::LeftoverTiling);
        this->AICore().AddConfig("ascend910b");
    }
};
OP_ADD(Leftover);
}  // namespace ops
