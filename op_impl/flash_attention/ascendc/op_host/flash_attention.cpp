// SPDX-License-Identifier: Apache-2.0
// flash_attention for split cores (Ascend910B, Ascend910_93): definition, shapes, tiling.
#include "flash_attention_tiling.h"

#include <algorithm>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {
namespace {
enum Input { QUERY, KEY, VALUE, ATTN_MASK, REAL_SHIFT, DROP_MASK, QUERY_LENGTHS, KEY_LENGTHS, SEED_WORDS, ROW_BOUNDS };
enum Attribute { SCALE, KEEP_PROB, SEED, SPARSE_MODE, PRE_TOKENS, NEXT_TOKENS, PREV_BLOCKS, NEXT_BLOCKS };
constexpr int64_t NONE = 0, CAUSAL = 3, BAND = 4;
constexpr int64_t WINDOW = 128;      // rows and columns of a block of prev_block_num and next_block_num
constexpr int64_t WIDE_HEAD = 128;   // beyond it half as many queries and keys at a time
constexpr int64_t SLOTS = 2;         // of what cube and vector cores hand to each other
}  // namespace

static ge::graphStatus TilingFunc(gert::TilingContext* context)
{
    const gert::Shape& query = context->GetInputShape(QUERY)->GetStorageShape();
    const gert::Shape& key = context->GetInputShape(KEY)->GetStorageShape();
    const gert::RuntimeAttrs* attrs = context->GetAttrs();
    const double keep = *attrs->GetFloat(KEEP_PROB);
    const bool dropMask = context->GetOptionalInputShape(DROP_MASK) != nullptr;
    const bool seeded = !dropMask && keep < 1;
    const int64_t batch = query.GetDim(0), heads = query.GetDim(1), queries = query.GetDim(2), depth = query.GetDim(3);
    const bool wide = depth > WIDE_HEAD;
    const int64_t queryBlock = wide ? 64 : 128, keyBlock = wide ? 64 : 128;
    const int64_t tasks = batch * heads * ((queries + queryBlock - 1) / queryBlock);
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    const int64_t cores = std::min<int64_t>(tasks, platform.GetCoreNumAic());

    FlashAttentionTilingData tiling;
    tiling.set_queryHeads(heads);
    tiling.set_keyHeads(key.GetDim(1));
    tiling.set_queries(queries);
    tiling.set_keys(key.GetDim(2));
    tiling.set_headDim(depth);
    tiling.set_tasks(tasks);
    tiling.set_queryBlock(queryBlock);
    tiling.set_keyBlock(keyBlock);
    tiling.set_productBuffers(depth > WIDE_HEAD / 2 ? 1 : 2);
    tiling.set_scale(*attrs->GetFloat(SCALE));
    tiling.set_keepScale(dropMask || seeded ? 1.0 / keep : 1.0);
    tiling.set_seeded(seeded);
    tiling.set_keepThreshold(keep * 4294967296.0 - 2147483648.0);
    tiling.set_seed(*attrs->GetInt(SEED));
    const int64_t mode = *attrs->GetInt(SPARSE_MODE);
    tiling.set_hasUpper(mode != NONE);
    tiling.set_hasLower(mode == BAND);
    tiling.set_upper(mode == CAUSAL ? 0 : *attrs->GetInt(NEXT_TOKENS));
    tiling.set_lower(*attrs->GetInt(PRE_TOKENS));
    const int64_t blocks = (std::max(queries, key.GetDim(2)) + WINDOW - 1) / WINDOW;
    const int64_t before = *attrs->GetInt(PREV_BLOCKS), after = *attrs->GetInt(NEXT_BLOCKS);
    tiling.set_hasWindow(before < blocks || after < blocks);
    tiling.set_previousBlocks(std::min(before, blocks));
    tiling.set_nextBlocks(std::min(after, blocks));
    const gert::StorageShape* mask = context->GetOptionalInputShape(ATTN_MASK);
    tiling.set_maskBatches(mask ? mask->GetStorageShape().GetDim(0) : 0);
    tiling.set_maskHeads(mask ? mask->GetStorageShape().GetDim(1) : 0);
    const gert::StorageShape* shift = context->GetOptionalInputShape(REAL_SHIFT);
    tiling.set_shiftRows(shift ? shift->GetStorageShape().GetDim(2) : 0);
    tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
    context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
    context->SetBlockDim(cores);
    const int64_t tile = queryBlock * (keyBlock * (sizeof(float) + sizeof(uint16_t)) + depth * sizeof(float));
    context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize() + cores * SLOTS * tile;
    return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ge {
static graphStatus InferShape(gert::InferShapeContext* context)
{
    const gert::Shape* query = context->GetInputShape(0);
    *context->GetOutputShape(0) = *query;
    for (int i = 1; i <= 2; ++i) {
        gert::Shape* statistics = context->GetOutputShape(i);
        statistics->SetDimNum(3);
        statistics->SetDim(0, query->GetDim(0));
        statistics->SetDim(1, query->GetDim(1));
        statistics->SetDim(2, (query->GetDim(2) + 15) / 16 * 16);
    }
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context)
{
    context->SetOutputDataType(0, context->GetInputDataType(0));
    context->SetOutputDataType(1, ge::DT_FLOAT);
    return context->SetOutputDataType(2, ge::DT_FLOAT);
}
}  // namespace ge

namespace ops {
class FlashAttention : public OpDef {
public:
    explicit FlashAttention(const char* name) : OpDef(name)
    {
        const std::vector<ge::DataType> values = {ge::DT_FLOAT16, ge::DT_BF16};
        const std::vector<ge::DataType> masks(2, ge::DT_FLOAT16), integers(2, ge::DT_INT32), floats(2, ge::DT_FLOAT);
        const std::vector<ge::Format> formats(2, ge::FORMAT_ND);
        for (const char* input : {"query", "key", "value"}) {
            this->Input(input).ParamType(REQUIRED).DataType(values).Format(formats);
        }
        this->Input("attn_mask").ParamType(OPTIONAL).DataType(masks).Format(formats);
        this->Input("real_shift").ParamType(OPTIONAL).DataType(values).Format(formats);
        this->Input("drop_mask").ParamType(OPTIONAL).DataType(masks).Format(formats);
        for (const char* input : {"actual_seq_qlen", "actual_seq_kvlen", "seed_words", "row_bounds"}) {
            this->Input(input).ParamType(OPTIONAL).DataType(integers).Format(formats);
        }
        this->Output("attention_out").ParamType(REQUIRED).DataType(values).Format(formats);
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
