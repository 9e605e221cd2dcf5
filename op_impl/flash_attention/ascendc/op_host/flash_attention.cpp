// SPDX-License-Identifier: Apache-2.0
// flash_attention for split cores: definition, shapes, tiling. What it leaves to the TIK kernel stands in the op_info
// file (impl: ascendc: when:) and is refused here.
#include "flash_attention_tiling.h"

#include <algorithm>
#include <utility>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {
namespace {
constexpr uint32_t TILE = 128;  // queries and keys of a tile
constexpr uint32_t TURN = 16;
constexpr size_t QUERY = 0, KEY = 1, ATTN_MASK = 3;
constexpr size_t OTHERS[] = {4, 5, 6, 7, 8, 9};  // optional inputs that the kernel does not know
constexpr size_t SCALE = 0, KEEP_PROB = 1, SPARSE_MODE = 3;
constexpr int64_t NONE = 0, CAUSAL = 3;

uint32_t Align(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }
}  // namespace

static ge::graphStatus TilingFunc(gert::TilingContext* context)
{
    const gert::Shape& q = context->GetRequiredInputShape(QUERY)->GetStorageShape();
    const gert::Shape& k = context->GetRequiredInputShape(KEY)->GetStorageShape();
    const gert::RuntimeAttrs* attrs = context->GetAttrs();
    const int64_t mode = *attrs->GetInt(SPARSE_MODE);
    for (size_t input : OTHERS) {
        if (context->GetOptionalInputShape(input) != nullptr) {
            return ge::GRAPH_FAILED;
        }
    }
    if (*attrs->GetFloat(KEEP_PROB) != 1.0f || (mode != NONE && mode != CAUSAL)) {
        return ge::GRAPH_FAILED;
    }

    FlashAttentionTilingData tiling;
    const uint32_t heads = q.GetDim(0) * q.GetDim(1);
    const uint32_t tiles = (q.GetDim(2) + TILE - 1) / TILE;
    tiling.set_heads(heads);
    tiling.set_headsOfBatch(q.GetDim(1));
    tiling.set_group(q.GetDim(1) / k.GetDim(1));
    tiling.set_queries(q.GetDim(2));
    tiling.set_keys(k.GetDim(2));
    tiling.set_width(q.GetDim(3));
    tiling.set_statsPitch(Align(q.GetDim(2), TURN));
    tiling.set_causal(mode == CAUSAL);
    tiling.set_tiles(tiles);
    tiling.set_scale(*attrs->GetFloat(SCALE));
    const gert::StorageShape* mask = context->GetOptionalInputShape(ATTN_MASK);
    tiling.set_maskPitch(mask ? mask->GetStorageShape().GetDim(3) : 0);
    tiling.set_maskBatches(mask ? mask->GetStorageShape().GetDim(0) : 1);
    tiling.set_maskHeads(mask ? mask->GetStorageShape().GetDim(1) : 1);
    tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
    context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());

    // Of each block twice: scores, weights, and a part of the output, which cube and vector cores hand each other.
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    const uint32_t blocks = std::min(heads * tiles, platform.GetCoreNumAic());
    const size_t handed = 2 * TILE * (TILE * (sizeof(float) + sizeof(uint16_t)) + q.GetDim(3) * sizeof(float));
    context->SetBlockDim(blocks);
    context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize() + blocks * handed;
    return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ge {
static graphStatus InferShape(gert::InferShapeContext* context)
{
    const gert::Shape& q = *context->GetRequiredInputShape(optiling::QUERY);
    *context->GetOutputShape(0) = q;
    for (size_t statistics : {1, 2}) {
        *context->GetOutputShape(statistics) = {q.GetDim(0), q.GetDim(1), optiling::Align(q.GetDim(2), optiling::TURN)};
    }
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context)
{
    context->SetOutputDataType(0, context->GetRequiredInputDataType(optiling::QUERY));
    context->SetOutputDataType(1, ge::DT_FLOAT);
    context->SetOutputDataType(2, ge::DT_FLOAT);
    return GRAPH_SUCCESS;
}
}  // namespace ge

namespace ops {
class FlashAttention : public OpDef {
public:
    explicit FlashAttention(const char* name) : OpDef(name)
    {
        const std::vector<ge::DataType> own = {ge::DT_FLOAT16, ge::DT_BF16};
        const std::vector<ge::DataType> half = {ge::DT_FLOAT16, ge::DT_FLOAT16};
        const std::vector<ge::DataType> numbers = {ge::DT_INT32, ge::DT_INT32};
        const std::vector<ge::DataType> floats = {ge::DT_FLOAT, ge::DT_FLOAT};
        const std::vector<ge::Format> formats = {ge::FORMAT_ND, ge::FORMAT_ND};
        for (const char* input : {"query", "key", "value"}) {
            this->Input(input).ParamType(REQUIRED).DataType(own).Format(formats);
        }
        const std::pair<const char*, std::vector<ge::DataType>> optional[] = {
            {"attn_mask", half},          {"real_shift", own},          {"drop_mask", half},    {"actual_seq_qlen", numbers},
            {"actual_seq_kvlen", numbers}, {"seed_words", numbers}, {"row_bounds", numbers}};
        for (const auto& input : optional) {
            this->Input(input.first).ParamType(OPTIONAL).DataType(input.second).Format(formats);
        }
        this->Output("attention_out").ParamType(REQUIRED).DataType(own).Format(formats);
        this->Output("softmax_max").ParamType(REQUIRED).DataType(floats).Format(formats);
        this->Output("softmax_sum").ParamType(REQUIRED).DataType(floats).Format(formats);
        this->Attr("scale_value").AttrType(OPTIONAL).Float(1.0);
        this->Attr("keep_prob").AttrType(OPTIONAL).Float(1.0);
        this->Attr("seed").AttrType(OPTIONAL).Int(0);
        this->Attr("sparse_mode").AttrType(OPTIONAL).Int(0);
        this->Attr("pre_tokens").AttrType(OPTIONAL).Int(2147483647);
        this->Attr("next_tokens").AttrType(OPTIONAL).Int(2147483647);
        this->Attr("prev_block_num").AttrType(OPTIONAL).Int(65536);
        this->Attr("next_block_num").AttrType(OPTIONAL).Int(65536);
        this->Attr("tiling_stgy_name").AttrType(OPTIONAL).String("auto");
        this->Attr("high_precision").AttrType(OPTIONAL).Bool(true);
        this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
        this->AICore().SetTiling(optiling::TilingFunc);
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend910_93");
    }
};

OP_ADD(FlashAttention);
}  // namespace ops
