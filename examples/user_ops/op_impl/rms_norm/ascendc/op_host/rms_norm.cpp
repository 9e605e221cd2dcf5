// SPDX-License-Identifier: Apache-2.0
// rms_norm: definition, shapes, tiling.
#include "rms_norm_tiling.h"

#include <algorithm>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {
namespace {
constexpr uint32_t RSTD_COLUMNS = 8;
constexpr uint32_t BUFFERS = 2;
constexpr uint32_t RESERVED = 1024;  // bytes of UB for what does not grow with the rows
constexpr uint32_t MAX_ROWS = 128;
}  // namespace

static ge::graphStatus TilingFunc(gert::TilingContext* context)
{
    const gert::Shape& shape = context->GetInputShape(0)->GetStorageShape();
    const uint32_t width = shape.GetDim(1);
    const uint32_t rows = shape.GetDim(0);
    const uint32_t size = ge::GetSizeByDataType(context->GetInputDesc(0)->GetDataType());
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    uint64_t ub = 0;
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);

    // Of each row: x and y twice, rstd twice, a float copy where x is narrow. Once: weight, and squares of one row.
    const uint32_t ofRow = 2 * BUFFERS * width * size + BUFFERS * RSTD_COLUMNS * sizeof(float) +
                           (size == sizeof(float) ? 0 : width * sizeof(float));
    const uint32_t once = RESERVED + width * sizeof(float) + (size == sizeof(float) ? 0 : width * sizeof(float));
    if (once + ofRow > ub) {
        return ge::GRAPH_FAILED;
    }
    const uint32_t cores = std::min(rows, platform.GetCoreNumAiv());
    const uint32_t most = (rows + cores - 1) / cores;

    RmsNormTilingData tiling;
    tiling.set_width(width);
    tiling.set_rows(rows);
    tiling.set_rowsOfCore(rows / cores);
    tiling.set_longCores(rows % cores);
    tiling.set_rowsOfTile(std::min<uint64_t>({(ub - once) / ofRow, most, MAX_ROWS}));
    tiling.set_eps(*context->GetAttrs()->GetFloat(0));
    tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
    context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
    context->SetBlockDim(cores);
    context->GetWorkspaceSizes(1)[0] = 0;
    return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ge {
static graphStatus InferShape(gert::InferShapeContext* context)
{
    const gert::Shape* x = context->GetInputShape(0);
    *context->GetOutputShape(0) = *x;
    *context->GetOutputShape(1) = {x->GetDim(0), optiling::RSTD_COLUMNS};
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context)
{
    context->SetOutputDataType(0, context->GetInputDataType(0));
    context->SetOutputDataType(1, ge::DT_FLOAT);
    return GRAPH_SUCCESS;
}
}  // namespace ge

namespace ops {
class RmsNorm : public OpDef {
public:
    explicit RmsNorm(const char* name) : OpDef(name)
    {
        const std::vector<ge::DataType> types = {ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT};
        const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
        this->Input("x").ParamType(REQUIRED).DataType(types).Format(formats);
        this->Input("weight").ParamType(REQUIRED).DataType(types).Format(formats);
        this->Output("y").ParamType(REQUIRED).DataType(types).Format(formats);
        this->Output("rstd")
            .ParamType(REQUIRED)
            .DataType(std::vector<ge::DataType>(types.size(), ge::DT_FLOAT))
            .Format(formats);
        this->Attr("eps").AttrType(OPTIONAL).Float(1e-6);
        this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
        this->AICore().SetTiling(optiling::TilingFunc);
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend910_93");
    }
};

OP_ADD(RmsNorm);
}  // namespace ops
