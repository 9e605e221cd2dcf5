// SPDX-License-Identifier: Apache-2.0
// flash_attention_grad for split cores (Ascend910B, Ascend910_93): definition, shapes, tiling.
#include "attention_host.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {
namespace {
enum Input { QUERY, KEY, VALUE, OUT, D_OUT, MAXIMUM, SUM, D_MAXIMUM, D_SUM, ATTN_MASK, REAL_SHIFT, DROP_MASK };
constexpr int64_t QUERY_BLOCK = 64;
constexpr int64_t KEY_SUMS = 128 * 64;  // elements of d_key of a block of keys: it and d_value stay in L0C
constexpr int64_t SLOTS = 2;            // of what cube and vector cores hand to each other
constexpr int64_t ROW_VALUES = 4 * 8;    // maximum, 1 / sum, delta, share of the maximum, each in a block of 32 bytes
constexpr int64_t VERDICT = 32;          // bytes, of a vector core on a task
}  // namespace

static ge::graphStatus GradTilingFunc(gert::TilingContext* context)
{
    FlashAttentionTilingData tiling;
    SetForm(tiling, context, {ATTN_MASK, REAL_SHIFT, DROP_MASK});
    const gert::Shape& query = context->GetInputShape(QUERY)->GetStorageShape();
    const gert::Shape& key = context->GetInputShape(KEY)->GetStorageShape();
    const int64_t depth = query.GetDim(3);
    const int64_t keyBlock = depth <= 64 ? 128 : depth <= 128 ? 64 : 32;
    const int64_t tasks = key.GetDim(0) * key.GetDim(1);
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    const int64_t cores = std::min<int64_t>(tasks, platform.GetCoreNumAic());
    tiling.set_tasks(tasks);
    tiling.set_queryBlock(QUERY_BLOCK);
    tiling.set_keyBlock(keyBlock);
    const int64_t tile = QUERY_BLOCK * keyBlock;
    // Two products, weights, gradients, sums of a block of keys. Where a task is done again: rows without what is not
    // finite, and two kinds of marks.
    const int64_t block = SLOTS * (tile * 2 * (sizeof(float) + sizeof(uint16_t)) + 2 * KEY_SUMS * sizeof(float)) +
                          (4 * QUERY_BLOCK + keyBlock) * depth * sizeof(uint16_t);
    tiling.set_blockBytes(block);
    Save(tiling, context);
    context->SetBlockDim(cores);
    const int64_t rows = query.GetDim(0) * query.GetDim(1) * CeilDiv(query.GetDim(2), QUERY_BLOCK) * QUERY_BLOCK;
    const int64_t shared = rows * (depth + ROW_VALUES) * sizeof(float) + tasks * 2 * VERDICT;
    context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize() + cores * block + shared;
    return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ge {
static graphStatus InferGradShape(gert::InferShapeContext* context)
{
    for (int i = 0; i < 3; ++i) {
        *context->GetOutputShape(i) = *context->GetInputShape(i);
    }
    const gert::Shape* shift = context->GetOptionalInputShape(optiling::REAL_SHIFT);
    gert::Shape* gradient = context->GetOutputShape(3);
    if (shift != nullptr) {
        *gradient = *shift;
    } else {
        gradient->SetDimNum(1);
        gradient->SetDim(0, 0);
    }
    return GRAPH_SUCCESS;
}

static graphStatus InferGradDataType(gert::InferDataTypeContext* context)
{
    for (int i = 0; i < 3; ++i) {
        context->SetOutputDataType(i, context->GetInputDataType(i));
    }
    return context->SetOutputDataType(3, ge::DT_FLOAT);
}
}  // namespace ge

namespace ops {
class FlashAttentionGrad : public AttentionDef {
public:
    explicit FlashAttentionGrad(const char* name) : AttentionDef(name)
    {
        Values({"query", "key", "value", "attention_out", "d_attention_out"});
        for (const char* input : {"softmax_max", "softmax_sum", "d_softmax_max", "d_softmax_sum"}) {
            this->Input(input).ParamType(REQUIRED).DataType(floats).Format(formats);
        }
        OptionalInputs();
        for (const char* output : {"d_query", "d_key", "d_value"}) {
            this->Output(output).ParamType(REQUIRED).DataType(values).Format(formats);
        }
        this->Output("d_real_shift").ParamType(OPTIONAL).DataType(floats).Format(formats).InitValue(0);
        Attributes();
        this->SetInferShape(ge::InferGradShape).SetInferDataType(ge::InferGradDataType);
        this->AICore().SetTiling(optiling::GradTilingFunc);
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend910_93");
    }
};

OP_ADD(FlashAttentionGrad);
}  // namespace ops
