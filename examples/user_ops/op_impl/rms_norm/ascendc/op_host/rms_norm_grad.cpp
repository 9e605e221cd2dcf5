// SPDX-License-Identifier: Apache-2.0
// rms_norm_grad: definition, shapes, tiling.
#include "rms_norm_grad_tiling.h"

#include <algorithm>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {
namespace {
constexpr uint32_t RSTD_BYTES = 32;   // of a row
constexpr uint32_t PIECE = 1024;      // columns
constexpr uint32_t MAX_PART = 512;    // columns
constexpr uint32_t FLOATS = 8;        // of a block
constexpr uint32_t RESERVED = 1024;   // bytes of UB for what does not grow
constexpr uint32_t MAX_ROWS = 64;
}  // namespace

static ge::graphStatus GradTilingFunc(gert::TilingContext* context)
{
    const gert::Shape& shape = context->GetInputShape(0)->GetStorageShape();
    const uint32_t rows = shape.GetDim(0), width = shape.GetDim(1);
    const uint32_t size = ge::GetSizeByDataType(context->GetInputDesc(0)->GetDataType());
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    uint64_t ub = 0;
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);

    // Of each row: x, dy and dx, and rstd; float copies of x and dy where they are narrow. Once: weight, the sum of
    // dweight, a piece of a product, parts of other cores' sums.
    const uint32_t wide = size == sizeof(float) ? 0 : 2 * width * sizeof(float);
    const uint32_t once = RESERVED + (2 * width + PIECE + 2 * MAX_PART) * sizeof(float);
    const auto ofRow = [&](uint32_t buffers) { return buffers * (3 * width * size + RSTD_BYTES) + wide; };
    const uint32_t buffers = once + ofRow(2) <= ub ? 2 : 1;
    if (once + ofRow(buffers) > ub) {
        return ge::GRAPH_FAILED;
    }
    const uint32_t cores = std::min(rows, platform.GetCoreNumAiv());
    const uint32_t most = (rows + cores - 1) / cores;

    RmsNormGradTilingData tiling;
    tiling.set_width(width);
    tiling.set_rows(rows);
    tiling.set_rowsOfCore(rows / cores);
    tiling.set_longCores(rows % cores);
    tiling.set_rowsOfTile(std::min<uint64_t>({(ub - once) / ofRow(buffers), most, MAX_ROWS}));
    tiling.set_buffers(buffers);
    tiling.set_piece(PIECE);
    tiling.set_part(std::min((width + cores - 1) / cores + FLOATS - 1, MAX_PART) / FLOATS * FLOATS);
    tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
    context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
    context->SetBlockDim(cores);
    context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize() + uint64_t(cores) * width * sizeof(float);
    return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ge {
static graphStatus InferGradShape(gert::InferShapeContext* context)
{
    *context->GetOutputShape(0) = *context->GetInputShape(0);
    *context->GetOutputShape(1) = *context->GetInputShape(1);
    return GRAPH_SUCCESS;
}

static graphStatus InferGradDataType(gert::InferDataTypeContext* context)
{
    context->SetOutputDataType(0, context->GetInputDataType(0));
    context->SetOutputDataType(1, ge::DT_FLOAT);
    return GRAPH_SUCCESS;
}
}  // namespace ge

namespace ops {
class RmsNormGrad : public OpDef {
public:
    explicit RmsNormGrad(const char* name) : OpDef(name)
    {
        const std::vector<ge::DataType> types = {ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT};
        const std::vector<ge::DataType> floats(types.size(), ge::DT_FLOAT);
        const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
        for (const char* input : {"x", "weight", "dy"}) {
            this->Input(input).ParamType(REQUIRED).DataType(types).Format(formats);
        }
        this->Input("rstd").ParamType(REQUIRED).DataType(floats).Format(formats);
        this->Output("dx").ParamType(REQUIRED).DataType(types).Format(formats);
        this->Output("dweight").ParamType(REQUIRED).DataType(floats).Format(formats);
        this->SetInferShape(ge::InferGradShape).SetInferDataType(ge::InferGradDataType);
        this->AICore().SetTiling(optiling::GradTilingFunc);
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend910_93");
    }
};

OP_ADD(RmsNormGrad);
}  // namespace ops
