// SPDX-License-Identifier: Apache-2.0
// flash_attention for split cores (Ascend910B, Ascend910_93): definition, shapes, tiling.
#include "attention_host.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {
namespace {
enum Input { QUERY, KEY, VALUE, ATTN_MASK, REAL_SHIFT, DROP_MASK, QUERY_LENGTHS, KEY_LENGTHS, SEED_WORDS, ROW_BOUNDS };
constexpr int64_t WIDE_HEAD = 128;  // beyond it half as many queries and keys at a time
constexpr int64_t SLOTS = 2;        // of what cube and vector cores hand to each other
constexpr int64_t GROUP = 2;        // tiles of scores in each
constexpr int64_t VERDICT = 32;      // bytes, of a vector core on a task

// Blocks of keys of a head where all of them, and of its values, fit L1 beside what passes through it, else 0. Queries
// that see not all keys are dealt out instead, so that every core gets some that see many.
int64_t HeldBlocks(FlashAttentionTilingData& tiling, gert::TilingContext* context, bool bounds)
{
    constexpr int64_t MOST = 64, BUFFERS = 2, BYTES = sizeof(uint16_t);
    const int64_t queries = tiling.get_queryBlock(), keys = tiling.get_keyBlock(), depth = tiling.get_headDim();
    const bool partly = tiling.get_hasUpper() || tiling.get_hasLower() || tiling.get_hasWindow() || bounds;
    if (tiling.get_rounds() == 1 || partly) {
        return 0;
    }
    const int64_t blocks = CeilDiv(tiling.get_keys(), keys);
    const int64_t passing = queries * (depth + keys) + BUFFERS * keys * depth;
    uint64_t room = 0;
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::L1, room);
    const bool fits = (passing + 2 * blocks * keys * depth) * BYTES <= static_cast<int64_t>(room);
    return blocks <= MOST && fits ? blocks : 0;
}
}  // namespace

static ge::graphStatus TilingFunc(gert::TilingContext* context)
{
    FlashAttentionTilingData tiling;
    SetForm(tiling, context, {ATTN_MASK, REAL_SHIFT, DROP_MASK});
    const gert::Shape& query = context->GetInputShape(QUERY)->GetStorageShape();
    const int64_t depth = query.GetDim(3);
    const bool wide = depth > WIDE_HEAD;
    const int64_t queryBlock = wide ? 64 : 128, keyBlock = wide ? 64 : 128;
    const int64_t tasks = query.GetDim(0) * query.GetDim(1) * CeilDiv(query.GetDim(2), queryBlock);
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    // No more cores than it takes to end after as many tasks of one.
    const int64_t rounds = std::max<int64_t>(CeilDiv(tasks, platform.GetCoreNumAic()), 1);
    const int64_t cores = CeilDiv(tasks, rounds);
    tiling.set_tasks(tasks);
    tiling.set_queryBlock(queryBlock);
    tiling.set_keyBlock(keyBlock);
    tiling.set_rounds(rounds);
    tiling.set_heldBlocks(HeldBlocks(tiling, context, context->GetOptionalInputShape(ROW_BOUNDS) != nullptr));
    Save(tiling, context);
    context->SetBlockDim(cores);
    // Weights lie where their scores were.
    const int64_t slot = queryBlock * (GROUP * keyBlock + depth) * sizeof(float);
    // Where a task is done again: counts of what is not finite, values without it, two kinds of marks.
    const int64_t isolated = depth * (queryBlock * sizeof(float) + 3 * keyBlock * sizeof(uint16_t));
    const int64_t verdicts = tasks * 2 * VERDICT;
    context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize() + cores * (SLOTS * slot + isolated) + verdicts;
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
class FlashAttention : public AttentionDef {
public:
    explicit FlashAttention(const char* name) : AttentionDef(name)
    {
        Values({"query", "key", "value"});
        OptionalInputs();
        this->Output("attention_out").ParamType(REQUIRED).DataType(values).Format(formats);
        this->Output("softmax_max").ParamType(REQUIRED).DataType(floats).Format(formats);
        this->Output("softmax_sum").ParamType(REQUIRED).DataType(floats).Format(formats);
        Attributes();
        this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
        this->AICore().SetTiling(optiling::TilingFunc);
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend910_93");
    }
};

OP_ADD(FlashAttention);
}  // namespace ops
