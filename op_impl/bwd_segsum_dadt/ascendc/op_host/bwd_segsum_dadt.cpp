// SPDX-License-Identifier: Apache-2.0
// bwd_segsum_dadt for split cores (Ascend910B, Ascend910_93): definition, shapes, tiling.
#include "bwd_segsum_dadt_tiling.h"

#include <algorithm>
#include <cstring>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {
namespace {
constexpr uint32_t TURN = 16;           // rows and columns of one transpose
constexpr uint32_t BLOCK = 32;          // bytes
constexpr uint32_t MAX_CHUNK = 256;
constexpr uint32_t MAX_REPEAT = 255;    // rows that one instruction folds
constexpr uint32_t BUFFERS = 2;
constexpr uint32_t ROWS_OF_SUMS = 5;    // carry, sums, ddt_out and ddt twice each at most, of float
constexpr size_t DSSDA = 0, SSDA = 1, DDT_OUT = 2, LENGTHS = 3;
constexpr size_t ATTR_CHUNK_SIZE = 0, ATTR_LAYOUT = 1;

uint32_t Align(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

// Bytes of UB for each element of a panel: both matrices twice, the one turned, and float copies of narrow ones.
uint32_t BytesOfElement(uint32_t size, bool queryMajor)
{
    const uint32_t turned = queryMajor ? 0 : size;
    return 2 * BUFFERS * size + turned + (size == sizeof(float) ? 0 : 2 * sizeof(float));
}
}  // namespace

static ge::graphStatus TilingFunc(gert::TilingContext* context)
{
    const gert::Shape& shape = context->GetInputShape(SSDA)->GetStorageShape();
    const uint32_t chunk = shape.GetDim(3);
    const char* layout = context->GetAttrs()->GetStr(ATTR_LAYOUT);
    const bool queryMajor = std::strcmp(layout, "query_key") == 0;
    const gert::StorageShape* lengths = context->GetOptionalInputShape(LENGTHS);
    if (shape.GetDimNum() != 5 || chunk < TURN || chunk > MAX_CHUNK) {
        return ge::GRAPH_FAILED;
    }

    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    uint64_t ub = 0;
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);
    const uint32_t size = ge::GetSizeByDataType(context->GetInputDesc(SSDA)->GetDataType());
    const uint32_t pitch = Align(chunk, TURN);
    const uint32_t slots = shape.GetDim(2);
    const uint32_t vectors = ROWS_OF_SUMS * 2 * pitch * sizeof(float) + (lengths ? Align(slots * 4, BLOCK) : 0);
    const uint64_t fits = vectors < ub ? (ub - vectors) / (pitch * BytesOfElement(size, queryMajor)) : 0;
    const uint32_t panel = std::min<uint64_t>({fits, pitch, MAX_REPEAT}) / TURN * TURN;
    if (panel == 0) {
        return ge::GRAPH_FAILED;
    }

    const uint32_t chunks = shape.GetShapeSize() / (chunk * chunk);
    const uint32_t cores = std::min(chunks, platform.GetCoreNumAiv());
    BwdSegsumDadtTilingData tiling;
    tiling.set_chunks(chunks);
    tiling.set_slots(slots);
    tiling.set_chunk(chunk);
    tiling.set_pitch(pitch);
    tiling.set_panel(panel);
    tiling.set_chunksOfCore(chunks / cores);
    tiling.set_longCores(chunks % cores);
    tiling.set_queryMajor(queryMajor);
    tiling.set_hasLengths(lengths != nullptr);
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
    *context->GetOutputShape(0) = *context->GetRequiredInputShape(optiling::DDT_OUT);
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context)
{
    return context->SetOutputDataType(0, context->GetRequiredInputDataType(optiling::DDT_OUT));
}
}  // namespace ge

namespace ops {
class BwdSegsumDadt : public OpDef {
public:
    explicit BwdSegsumDadt(const char* name) : OpDef(name)
    {
        const std::vector<ge::DataType> matrices = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_FLOAT16, ge::DT_BF16,
                                                    ge::DT_BF16};
        const std::vector<ge::DataType> vectors = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_FLOAT, ge::DT_BF16,
                                                   ge::DT_FLOAT};
        const std::vector<ge::Format> formats(matrices.size(), ge::FORMAT_ND);
        this->Input("dSSdA").ParamType(REQUIRED).DataType(matrices).Format(formats);
        this->Input("SSdA").ParamType(REQUIRED).DataType(matrices).Format(formats);
        this->Input("ddt_out").ParamType(REQUIRED).DataType(vectors).Format(formats);
        this->Input("lengths")
            .ParamType(OPTIONAL)
            .DataType(std::vector<ge::DataType>(matrices.size(), ge::DT_INT32))
            .Format(formats);
        this->Output("ddt").ParamType(REQUIRED).DataType(vectors).Format(formats);
        this->Attr("chunk_size").AttrType(REQUIRED).Int();
        this->Attr("layout").AttrType(OPTIONAL).String("key_query");
        this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
        this->AICore().SetTiling(optiling::TilingFunc);
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend910_93");
    }
};

OP_ADD(BwdSegsumDadt);
}  // namespace ops
