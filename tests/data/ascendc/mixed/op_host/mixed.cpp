// SPDX-License-Identifier: Apache-2.0
// Ops for tests: one of the usual kind, one in place with a plain tiling struct, one whose tiling reads values, and one
// whose host functions fail as it is told.
#include "error/ops_error.h"
#include "log/log.h"
#include "mixed_tiling.h"
#include "../op_kernel/add_into_tiling.h"
#include "../op_kernel/answers_tiling.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "utils/log/asc_cpu_log.h"
#include <cstring>

namespace optiling {
static ge::graphStatus ScaleAddTiling(gert::TilingContext* context)
{
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    const gert::StorageShape* x = context->GetInputShape(0);
    const uint32_t blocks = (x->GetStorageShape().GetShapeSize() + 15) / 16;
    const uint32_t cores = std::min(blocks, platform.GetCoreNumAiv());
    int64_t dims[3] = {x->GetStorageShape().GetShapeSize(), 16, context->GetInputDesc(0)->GetDataType()};
    ScaleAddTilingData tiling;
    tiling.set_hasBias(context->GetOptionalInputShape(2) != nullptr);
    tiling.set_dims(dims);
    tiling.share.set_longCores(blocks % cores);
    tiling.share.set_ofCore(blocks / cores);
    tiling.set_scale(*context->GetAttrs()->GetFloat(0));
    tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
    context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
    context->SetTilingKey(tiling.get_hasBias() ? 2 : 1);
    context->SetBlockDim(cores);
    context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize() + 64;
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus AddIntoTiling(gert::TilingContext* context)
{
    AddIntoTilingData* tiling = context->GetTilingData<AddIntoTilingData>();
    tiling->count = context->GetInputTensor(0)->GetShapeSize();
    context->SetBlockDim(1);
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus TakeFirstTiling(gert::TilingContext* context)
{
    AddIntoTilingData* tiling = context->GetTilingData<AddIntoTilingData>();
    const int64_t* count = context->GetInputTensor(1)->GetData<int64_t>();
    tiling->count = count[0];
    context->SetBlockDim(1);
    return ge::GRAPH_SUCCESS;
}

struct ScaleAllInfo {
    uint32_t most = 8;
};

static ge::graphStatus ScaleAllTiling(gert::TilingContext* context)
{
    float* scale = context->GetTilingData<float>();
    *scale = *context->GetAttrs()->GetFloat(0);
    const uint32_t tensors = context->GetIrInputInstanceInfo(0)->GetInstanceNum();
    if (context->GetDynamicInputShape(0, tensors - 1) == nullptr || context->GetDynamicInputShape(0, tensors)) {
        return ge::GRAPH_FAILED;
    }
    context->SetBlockDim(std::min(tensors, context->GetCompileInfo<ScaleAllInfo>()->most));
    return ge::GRAPH_SUCCESS;
}

// A number of every attribute, and of a value behind a list of tensors.
static ge::graphStatus AnswersTiling(gert::TilingContext* context)
{
    const gert::RuntimeAttrs* attrs = context->GetAttrs();
    AnswersTilingData* tiling = context->GetTilingData<AnswersTilingData>();
    const auto* rows = attrs->GetListListInt(7);
    const float numbers[] = {
        *attrs->GetBool(0) ? 1.0f : 0.0f,
        static_cast<float>(*attrs->GetInt(1)),
        *attrs->GetFloat(2),
        static_cast<float>(std::strlen(attrs->GetStr(3))),
        static_cast<float>(attrs->GetListInt(4)->GetData()[attrs->GetListInt(4)->GetSize() - 1]),
        attrs->GetListFloat(5)->GetData()[0],
        attrs->GetListBool(6)->GetData()[1] ? 1.0f : 0.0f,
        static_cast<float>(static_cast<const int64_t*>(rows->Get(rows->GetSize() - 1)->GetData())[0]),
    };
    const size_t tensors = context->GetIrInputInstanceInfo(0)->GetInstanceNum();
    std::copy(numbers, numbers + 8, tiling->numbers);
    tiling->numbers[8] = context->GetInputTensor(tensors)->GetData<int64_t>()[0];
    context->SetBlockDim(1);
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus FailsTiling(gert::TilingContext* context)
{
    const std::string how = context->GetAttrs()->GetStr(0);
    const int64_t dim = context->GetInputShape(0)->GetStorageShape().GetDim(0);
    if (how == "status") {
        ASC_CPU_LOG_ERROR("%ld rows are too few", dim);
        return ge::GRAPH_FAILED;
    }
    OP_CHECK_IF(how == "checked", OP_LOGE(context, "%ld rows are checked", dim), return ge::GRAPH_FAILED);
    if (how == "absent") {
        OP_CHECK_NULL_WITH_CONTEXT(context, context->GetInputDesc(7));
    }
    OP_TILING_CHECK(how == "reported", VECTOR_INNER_ERR_REPORT_TILIING("op", "rows"), return ge::GRAPH_FAILED);
    OPS_ERR_IF(how == "logged", OPS_LOG_E(std::string("op"), "%s of rows", "much"), return ge::GRAPH_FAILED);
    if (how == "divide") {
        context->SetBlockDim(8 / (dim - dim));
    }
    if (how == "null") {
        context->SetBlockDim(context->GetInputShape(7)->GetStorageShape().GetDim(0));
    }
    if (how == "throw") {
        std::vector<int>().at(3);
    }
    if (how == "abort") {
        std::abort();
    }
    if (how == "large") {
        context->SetBlockDim(1);
        context->GetRawTilingData()->SetDataSize(1 << 20);
    }
    return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ge {
static graphStatus SameShape(gert::InferShapeContext* context)
{
    *context->GetOutputShape(0) = *context->GetInputShape(0);
    return GRAPH_SUCCESS;
}

static graphStatus SameShapes(gert::InferShapeContext* context)
{
    for (size_t i = 0; i < context->GetComputeNodeInputNum(); i++) {
        *context->GetOutputShape(i) = *context->GetDynamicInputShape(0, i);
    }
    return GRAPH_SUCCESS;
}

static graphStatus AnswersShape(gert::InferShapeContext* context)
{
    *context->GetOutputShape(0) = gert::Shape{static_cast<int64_t>(8 + context->GetComputeNodeInputNum())};
    return GRAPH_SUCCESS;
}

static graphStatus SameType(gert::InferDataTypeContext* context)
{
    return context->SetOutputDataType(0, context->GetInputDataType(0));
}

static graphStatus ListShape(gert::InferShapeContext* context)
{
    const gert::RuntimeAttrs* attrs = context->GetAttrs();
    gert::Shape* shape = context->GetOutputShape(0);
    for (size_t i = 0; i < attrs->GetListInt(0)->GetSize(); i++) {
        shape->AppendDim(attrs->GetListInt(0)->GetData()[i]);
    }
    shape->AppendDim(*attrs->GetAttrPointer<int32_t>(1));
    shape->AppendDim(*attrs->GetBool(2) ? 7 : 8);
    shape->AppendDim(attrs->GetListFloat(3)->GetData()[1] * 4);
    const auto* rows = attrs->GetListListInt(4);
    shape->AppendDim(static_cast<const int64_t*>(rows->Get(1)->GetData())[0]);
    shape->AppendDim(attrs->GetListBool(5)->GetData()[0] ? 1 : 2);
    return GRAPH_SUCCESS;
}
}  // namespace ge

namespace ops {
class ScaleAdd : public OpDef {
public:
    explicit ScaleAdd(const char* name) : OpDef(name)
    {
        for (const char* input : {"x", "y", "bias"}) {
            this->Input(input)
                .ParamType(std::string(input) == "bias" ? OPTIONAL : REQUIRED)
                .DataType({ge::DT_FLOAT16, ge::DT_FLOAT})
                .Format({ge::FORMAT_ND, ge::FORMAT_ND});
        }
        this->Output("z").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT});
        this->Attr("scale").AttrType(OPTIONAL).Float(1.0);
        this->SetInferShape(ge::SameShape).SetInferDataType(ge::SameType);
        this->AICore().SetTiling(optiling::ScaleAddTiling);
        this->AICore().AddConfig("ascend910b").AddConfig("ascend910_93");
    }
};
OP_ADD(ScaleAdd);

class AddInto : public OpDef {
public:
    explicit AddInto(const char* name) : OpDef(name)
    {
        this->Input("acc").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
        this->Output("acc").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
        this->SetInferShape(ge::SameShape);
        this->AICore().AddConfig("ascend910b");
    }
};
OP_ADD(AddInto);
IMPL_OP_OPTILING(AddInto).Tiling(optiling::AddIntoTiling);

class TakeFirst : public OpDef {
public:
    explicit TakeFirst(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
        this->Input("count").ParamType(REQUIRED).DataType({ge::DT_INT64}).ValueDepend(OPTIONAL);
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
        this->AICore().SetTiling(optiling::TakeFirstTiling).AddConfig("ascend910b");
    }
};
OP_ADD(TakeFirst);
IMPL_OP_INFERSHAPE(TakeFirst).InferShape(ge::SameShape).InferDataType(ge::SameType);

class Fails : public OpDef {
public:
    explicit Fails(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
        this->Attr("how").AttrType(REQUIRED).String();
        this->SetInferShape(ge::SameShape);
        this->AICore().SetTiling(optiling::FailsTiling).AddConfig("ascend910b");
    }
};
OP_ADD(Fails);

class Lists : public OpDef {
public:
    explicit Lists(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(REQUIRED).DataTypeList({ge::DT_FLOAT, ge::DT_BF16});
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_INT32});
        this->Attr("sizes").AttrType(REQUIRED).ListInt();
        this->Attr("size").Int(5);
        this->Attr("seven").Bool(true);
        this->Attr("parts").ListFloat({0.5f, 0.25f});
        this->Attr("rows").ListListInt({{1, 2}, {3}});
        this->Attr("flags").ListBool({true, false});
        this->SetInferShape(ge::ListShape);
        this->AICore().AddConfig("ascend910b");
    }
};
OP_ADD(Lists);

class ScaleAll : public OpDef {
public:
    explicit ScaleAll(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(DYNAMIC).DataType({ge::DT_FLOAT});
        this->Output("y").ParamType(DYNAMIC).DataType({ge::DT_FLOAT});
        this->Attr("scale").Float(1.0);
        this->SetInferShape(ge::SameShapes);
        this->AICore().SetTiling(optiling::ScaleAllTiling).AddConfig("ascend910b");
    }
};
OP_ADD(ScaleAll, optiling::ScaleAllInfo);

class Answers : public OpDef {
public:
    explicit Answers(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(DYNAMIC).DataType({ge::DT_FLOAT});
        this->Input("shift").ParamType(REQUIRED).DataType({ge::DT_INT64}).ValueDepend(REQUIRED);
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
        this->Attr("flag").Bool(false);
        this->Attr("number").Int(3);
        this->Attr("ratio").Float(0.5);
        this->Attr("word").String("four");
        this->Attr("numbers").ListInt({1, 2});
        this->Attr("ratios").ListFloat({0.25f});
        this->Attr("flags").ListBool({false, true});
        this->Attr("rows").ListListInt({{1, 2}, {3}});
        this->SetInferShape(ge::AnswersShape);
        this->AICore().SetTiling(optiling::AnswersTiling).AddConfig("ascend910b");
    }
};
OP_ADD(Answers);
}  // namespace ops
