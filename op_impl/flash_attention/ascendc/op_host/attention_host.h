// SPDX-License-Identifier: Apache-2.0
// What the forward pass and the gradient say alike: the form of a call, and their optional inputs and attributes.
#ifndef ATTENTION_HOST_H
#define ATTENTION_HOST_H

#include <algorithm>

#include "flash_attention_tiling.h"
#include "register/op_def_registry.h"

namespace optiling {
// Numbers of the optional inputs.
struct OptionalInputs {
    int attnMask, realShift, dropMask;
};

inline int64_t CeilDiv(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

// Everything but the blocks and the tasks.
inline void SetForm(FlashAttentionTilingData& tiling, gert::TilingContext* context, const OptionalInputs& inputs)
{
    enum Attribute { SCALE, KEEP_PROB, SEED, SPARSE_MODE, PRE_TOKENS, NEXT_TOKENS, PREV_BLOCKS, NEXT_BLOCKS };
    constexpr int64_t NONE = 0, CAUSAL = 3, BAND = 4;
    constexpr int64_t WINDOW = 128;  // rows and columns of a block of prev_block_num and next_block_num
    constexpr int64_t QUERY = 0, KEY = 1;
    const gert::Shape& query = context->GetInputShape(QUERY)->GetStorageShape();
    const gert::Shape& key = context->GetInputShape(KEY)->GetStorageShape();
    const gert::RuntimeAttrs* attrs = context->GetAttrs();
    tiling.set_queryHeads(query.GetDim(1));
    tiling.set_keyHeads(key.GetDim(1));
    tiling.set_queries(query.GetDim(2));
    tiling.set_keys(key.GetDim(2));
    tiling.set_headDim(query.GetDim(3));
    tiling.set_scale(*attrs->GetFloat(SCALE));
    const double keep = *attrs->GetFloat(KEEP_PROB);
    const bool dropMask = context->GetOptionalInputShape(inputs.dropMask) != nullptr;
    const bool seeded = !dropMask && keep < 1;
    tiling.set_keepScale(dropMask || seeded ? 1.0 / keep : 1.0);
    tiling.set_seeded(seeded);
    tiling.set_keepThreshold(keep * 4294967296.0 - 2147483648.0);
    tiling.set_seed(*attrs->GetInt(SEED));
    const int64_t mode = *attrs->GetInt(SPARSE_MODE);
    tiling.set_hasUpper(mode != NONE);
    tiling.set_hasLower(mode == BAND);
    tiling.set_upper(mode == CAUSAL ? 0 : *attrs->GetInt(NEXT_TOKENS));
    tiling.set_lower(*attrs->GetInt(PRE_TOKENS));
    const int64_t blocks = CeilDiv(std::max(query.GetDim(2), key.GetDim(2)), WINDOW);
    const int64_t before = *attrs->GetInt(PREV_BLOCKS), after = *attrs->GetInt(NEXT_BLOCKS);
    tiling.set_hasWindow(before < blocks || after < blocks);
    tiling.set_previousBlocks(std::min(before, blocks));
    tiling.set_nextBlocks(std::min(after, blocks));
    const gert::StorageShape* mask = context->GetOptionalInputShape(inputs.attnMask);
    tiling.set_maskBatches(mask ? mask->GetStorageShape().GetDim(0) : 0);
    tiling.set_maskHeads(mask ? mask->GetStorageShape().GetDim(1) : 0);
    const gert::StorageShape* shift = context->GetOptionalInputShape(inputs.realShift);
    tiling.set_shiftRows(shift ? shift->GetStorageShape().GetDim(2) : 0);
}

inline void Save(FlashAttentionTilingData& tiling, gert::TilingContext* context)
{
    tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
    context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
}
}  // namespace optiling

namespace ops {
// What both definitions share; the order of the calls is the order of the inputs.
class AttentionDef : public OpDef {
protected:
    explicit AttentionDef(const char* name) : OpDef(name) {}

    void Values(std::initializer_list<const char*> inputs)
    {
        for (const char* input : inputs) {
            this->Input(input).ParamType(REQUIRED).DataType(values).Format(formats);
        }
    }
    void OptionalInputs()
    {
        const std::vector<ge::DataType> masks(2, ge::DT_FLOAT16), integers(2, ge::DT_INT32);
        this->Input("attn_mask").ParamType(OPTIONAL).DataType(masks).Format(formats);
        this->Input("real_shift").ParamType(OPTIONAL).DataType(values).Format(formats);
        this->Input("drop_mask").ParamType(OPTIONAL).DataType(masks).Format(formats);
        for (const char* input : {"actual_seq_qlen", "actual_seq_kvlen", "seed_words", "row_bounds"}) {
            this->Input(input).ParamType(OPTIONAL).DataType(integers).Format(formats);
        }
    }
    void Attributes()
    {
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
    }
    const std::vector<ge::DataType> values = {ge::DT_FLOAT16, ge::DT_BF16};
    const std::vector<ge::DataType> floats = std::vector<ge::DataType>(2, ge::DT_FLOAT);
    const std::vector<ge::Format> formats = std::vector<ge::Format>(2, ge::FORMAT_ND);
};
}  // namespace ops

#endif  // ATTENTION_HOST_H
