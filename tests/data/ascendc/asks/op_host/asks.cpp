// SPDX-License-Identifier: Apache-2.0
// An op that gives out what its tiling function was answered, a number for each question.
#include <vector>

#include "../op_kernel/asks_tiling.h"
#include "platform/soc_spec.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"

namespace optiling {
struct AsksInfo {
    uint32_t cores = 0;
};

static ge::graphStatus ParseAsks(gert::TilingParseContext* context)
{
    context->GetCompiledInfo<AsksInfo>()->cores =
        platform_ascendc::PlatformAscendC(context->GetPlatformInfo()).GetCoreNumAic();
    return ge::GRAPH_SUCCESS;
}

static void OfChip(const platform_ascendc::PlatformAscendC& platform, std::vector<float>& said)
{
    said.push_back(platform.GetCoreNum());
    said.push_back(platform.GetSocVersion() == platform_ascendc::SocVersion::ASCEND910B);
    said.push_back(platform.GetCurNpuArch() == NpuArch::DAV_2201);
    said.push_back(platform.CalcTschBlockDim(7, 24, 48));
    uint64_t l1 = 0;
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::L1, l1);
    said.push_back(l1);
}

static void OfCall(gert::TilingContext* context, std::vector<float>& said)
{
    said.push_back(std::string(context->GetNodeName()) == "Asks");
    said.push_back(context->GetOutputDesc(0)->GetDataType() == ge::DT_FLOAT);
    said.push_back(context->GetOptionalInputDesc(1) == nullptr);
    const gert::Tensor* sizes = context->GetOptionalInputTensor(2);
    said.push_back(sizes == nullptr ? -1 : sizes->GetData<int32_t>()[1]);
    said.push_back(context->GetInputShape(0)->GetOriginShape().GetDimNum());
    said.push_back(context->GetDeterministic());
    said.push_back(context->SetScheduleMode(1) == ge::GRAPH_SUCCESS &&
                   context->SetLocalMemorySize(1024) == ge::GRAPH_SUCCESS &&
                   context->SetNeedAtomic(true) == ge::GRAPH_SUCCESS);
}

static void OfLibrary(const platform_ascendc::PlatformAscendC& platform, std::vector<float>& said)
{
    const ge::Shape rows({4, 32}), layers({2, 3, 32});
    SoftMaxTiling softmax, flash;
    AscendC::SoftMaxTilingFunc(rows, 4, 4096, softmax);
    AscendC::SoftMaxFlashV2TilingFunc(rows, 4, 4, 4096, true, flash);
    said.push_back(softmax.get_srcM() * 100 + flash.get_srcK());
    said.push_back(AscendC::GetSoftMaxMinTmpSize(rows, 4, false) <= AscendC::GetSoftMaxMaxTmpSize(rows, 4, false));
    TopkTiling topk;
    uint32_t most = 0, least = 0;
    said.push_back(AscendC::TopKTilingFunc(platform, 64, 2, 8, 4, false, AscendC::TopKMode::TOPK_NORMAL, true, topk));
    AscendC::GetTopKMaxMinTmpSize(platform, 64, 2, false, false, AscendC::TopKMode::TOPK_NORMAL, true, 4, most, least);
    said.push_back(least > 0 && least <= most && topk.get_k() == 8);
    AscendC::GetLayerNormMaxMinTmpSize(layers, 4, false, most, least);
    said.push_back(least > 0 && least <= most);
    matmul_tiling::MatmulApiTiling product(platform);
    const auto half = matmul_tiling::DataType::DT_FLOAT16, whole = matmul_tiling::DataType::DT_FLOAT;
    const auto gm = matmul_tiling::TPosition::GM;
    const auto nd = matmul_tiling::CubeFormat::ND;
    product.SetAType(gm, nd, half), product.SetBType(gm, nd, half), product.SetCType(gm, nd, whole);
    product.SetBiasType(gm, nd, whole), product.EnableBias(true), product.SetShape(64, 96, 32);
    product.SetOrgShape(64, 96, 32), product.SetTraverse(matmul_tiling::MatrixTraverse::FIRSTN);
    product.SetBufferSpace(-1, -1, -1);
    TCubeTiling cube;
    said.push_back(product.GetTiling(cube) != -1 && cube.get_isBias() == 1 && cube.get_N() == 96);
}

static ge::graphStatus TilingAsks(gert::TilingContext* context)
{
    const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
    std::vector<float> said;
    OfChip(platform, said);
    said.push_back(context->GetCompileInfo<AsksInfo>()->cores);
    OfCall(context, said);
    OfLibrary(platform, said);
    AsksTilingData* tiling = context->GetTilingData<AsksTilingData>();
    tiling->count = said.size();
    std::copy(said.begin(), said.end(), tiling->numbers);
    context->SetBlockDim(1);
    return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(Asks).Tiling(TilingAsks).TilingParse<AsksInfo>(ParseAsks).TilingInputsDataDependency({2});
}  // namespace optiling

namespace ge {
static graphStatus Answers(gert::InferShapeContext* context)
{
    *context->GetOutputShape(0) = {32};
    return GRAPH_SUCCESS;
}
}  // namespace ge

namespace ops {
class Asks : public OpDef {
public:
    explicit Asks(const char* name) : OpDef(name)
    {
        this->Input("x")
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
            .Format({ge::FORMAT_ND, ge::FORMAT_ND})
            .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND})
            .AutoContiguous();
        this->Input("bias").ParamType(OPTIONAL).DataType({ge::DT_FLOAT, ge::DT_FLOAT16}).Follow("x");
        this->Input("sizes").ParamType(OPTIONAL).DataType({ge::DT_INT32, ge::DT_INT32}).ValueDepend(OPTIONAL);
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT}).InitValue(0);
        this->SetInferShape(ge::Answers);
        OpAICoreConfig config;
        config.DynamicCompileStaticFlag(true).DynamicFormatFlag(false).DynamicRankSupportFlag(true);
        this->AICore().AddConfig("ascend910b", config);
    }
};
OP_ADD(Asks);
}  // namespace ops
