// SPDX-License-Identifier: Apache-2.0
// What a Matmul is made of: types of its operands, configurations.
#pragma once

#include "kernel_tiling/kernel_tiling.h"
#include "mco/fixpipe.h"

namespace AscendC {

enum class LayoutMode { NONE, BSNGD, SBNGD, BNGS1S2, NORMAL };

template <TPosition POSITION, CubeFormat FORMAT, typename TYPE, bool ISTRANS = false,
          LayoutMode LAYOUT = LayoutMode::NONE, bool IBSHARE = false, TPosition SOURCE = TPosition::GM>
struct MatmulType {
  static constexpr TPosition pos = POSITION;
  static constexpr CubeFormat format = FORMAT;
  static constexpr bool isTrans = ISTRANS;
  static constexpr LayoutMode layout = LAYOUT;
  static constexpr bool ibShare = IBSHARE;
  static constexpr TPosition srcPos = SOURCE;
  using T = TYPE;
};

// Ways to order the same product. Of a configuration the numbers of GetMatmulApiTiling count here, and the schedule.
enum class BatchMode { NONE, BATCH_LESS_THAN_L1, BATCH_LARGE_THAN_L1, SINGLE_LARGE_THAN_L1 };
enum class IterateMode : uint8_t {
  ITERATE_MODE_NORMAL = 1,
  ITERATE_MODE_ALL = 2,
  ITERATE_MODE_BATCH = 4,
  ITERATE_MODE_N_BATCH = 8,
  ITERATE_MODE_DEFAULT = 255
};
enum class IterateOrder { ORDER_M, ORDER_N, UNDEF };
enum class ScheduleType { INNER_PRODUCT, OUTER_PRODUCT };
struct MatmulConfig {
  bool doNorm = true, doBasicBlock = false, doMultiDataLoad = false;
  uint32_t basicM = 0, basicN = 0, basicK = 0;
  bool intrinsicsCheck = false, isNBatch = false, enVecND2NZ = false, doSpecialBasicBlock = false;
  uint32_t doMTE2Preload = 0, singleCoreM = 0, singleCoreN = 0, singleCoreK = 0, stepM = 0, stepN = 0;
  uint32_t baseMN = 0, singleCoreMN = 0;
  bool enUnitFlag = false, isPerTensor = false, hasAntiQuantOffset = false, doIBShareNorm = false, doSpecialMDL = false,
       enableInit = true;
  BatchMode batchMode = BatchMode::NONE;
  bool enableEnd = true, enableGetTensorC = true, enableSetOrgShape = true, enableSetBias = true, enableSetTail = true,
       enableQuantVector = true, enableSetDefineData = true;
  IterateMode iterateMode = IterateMode::ITERATE_MODE_DEFAULT;
  bool enableReuse = true, enableUBReuse = true, enableL1CacheUB = false, intraBlockPartSum = false;
  IterateOrder iterateOrder = IterateOrder::UNDEF;
  ScheduleType scheduleType = ScheduleType::INNER_PRODUCT;
  bool enableDoubleCache = false, isBiasBatch = true, enableStaticPadZeros = false, isPartialOutput = false,
       enableMixDualMaster = false, isA2B2Shared = false, isEnableChannelSplit = false, enableKdimReorderLoad = false;
};
enum class BatchOutMode { SINGLE_BATCH };
constexpr MatmulConfig GetNormalConfig(bool intrinsicsLimit = false, bool batchLoop = false, bool isVecND2NZ = false,
                                       BatchMode bmmMode = BatchMode::BATCH_LESS_THAN_L1, bool isMsgReuse = true,
                                       IterateOrder iterateOrder = IterateOrder::UNDEF,
                                       ScheduleType scheduleType = ScheduleType::INNER_PRODUCT, bool enUnitFlag = true,
                                       bool enableMixDualMaster = false, BatchOutMode = BatchOutMode::SINGLE_BATCH) {
  MatmulConfig config;
  config.intrinsicsCheck = intrinsicsLimit, config.isNBatch = batchLoop, config.enVecND2NZ = isVecND2NZ;
  config.batchMode = bmmMode, config.enableReuse = isMsgReuse, config.iterateOrder = iterateOrder;
  config.scheduleType = scheduleType, config.enUnitFlag = enUnitFlag, config.enableMixDualMaster = enableMixDualMaster;
  return config;
}
constexpr MatmulConfig GetMDLConfig(bool intrinsicsLimit = false, bool batchLoop = false, uint32_t doMTE2Preload = 0,
                                    bool isVecND2NZ = false, bool isPerTensor = false, bool hasAntiQuantOffset = false,
                                    bool enUnitFlag = false, bool isMsgReuse = true, bool enableUBReuse = true,
                                    bool enableL1CacheUB = false, bool enableMixDualMaster = false,
                                    bool enableKdimReorderLoad = false) {
  MatmulConfig config;
  config.doNorm = false, config.doMultiDataLoad = true;
  config.intrinsicsCheck = intrinsicsLimit, config.isNBatch = batchLoop, config.doMTE2Preload = doMTE2Preload;
  config.enVecND2NZ = isVecND2NZ, config.isPerTensor = isPerTensor, config.hasAntiQuantOffset = hasAntiQuantOffset;
  config.enUnitFlag = enUnitFlag, config.enableReuse = isMsgReuse, config.enableUBReuse = enableUBReuse;
  config.enableL1CacheUB = enableL1CacheUB, config.enableMixDualMaster = enableMixDualMaster;
  config.enableKdimReorderLoad = enableKdimReorderLoad;
  return config;
}
constexpr MatmulConfig GetBasicConfig(uint32_t basicM, uint32_t basicN, uint32_t basicK, bool intrinsicsLimit = false,
                                      bool batchLoop = false, BatchMode bmmMode = BatchMode::BATCH_LESS_THAN_L1) {
  MatmulConfig config = GetNormalConfig(intrinsicsLimit, batchLoop, false, bmmMode);
  config.doNorm = false, config.doBasicBlock = true;
  config.basicM = basicM, config.basicN = basicN, config.basicK = basicK;
  return config;
}
constexpr MatmulConfig GetSpecialBasicConfig(uint32_t basicM, uint32_t basicN, uint32_t basicK, uint32_t singleCoreM,
                                             uint32_t singleCoreN, uint32_t singleCoreK, uint32_t stepM, uint32_t stepN,
                                             bool intrinsicsLimit = false, bool batchLoop = false,
                                             BatchMode bmmMode = BatchMode::BATCH_LESS_THAN_L1) {
  MatmulConfig config = GetBasicConfig(basicM, basicN, basicK, intrinsicsLimit, batchLoop, bmmMode);
  config.doBasicBlock = false, config.doSpecialBasicBlock = true;
  config.singleCoreM = singleCoreM, config.singleCoreN = singleCoreN, config.singleCoreK = singleCoreK;
  config.stepM = stepM, config.stepN = stepN;
  return config;
}
template <class... A>
constexpr MatmulConfig GetIBShareNormConfig(A...) {
  return MatmulConfig();
}
template <class... A>
constexpr MatmulConfig GetSpecialMDLConfig(A...) {
  return MatmulConfig();
}

// Parts of a configuration, in any order.
enum class MatmulConfigMode : uint32_t { CONFIG_NORM, CONFIG_MDL, CONFIG_SPECIALMDL, CONFIG_IBSHARE };
struct MatmulShapeParams {
  uint32_t singleCoreM = 0, singleCoreN = 0, singleCoreK = 0, basicM = 0, basicN = 0, basicK = 0;
};
struct MatmulQuantParams {
  bool isPerTensor = false, hasAntiQuantOffset = false;
};
struct MatmulBatchParams {
  bool isNBatch = false;
  BatchMode batchMode = BatchMode::NONE;
  bool isBiasBatch = true;
};
struct MatmulFuncParams {
  bool intrinsicsLimit = false, enVecND2NZ = false, enableDoubleCache = false, enableL1CacheUB = false;
  uint32_t doMTE2Preload = 0;
  IterateOrder iterateOrder = IterateOrder::UNDEF;
  ScheduleType scheduleType = ScheduleType::INNER_PRODUCT;
  bool enableReuse = true, enableUBReuse = true, isPartialOutput = false, isA2B2Shared = false,
       isEnableChannelSplit = false, enableKdimReorderLoad = false;
};
}  // namespace AscendC

namespace mco_asc {

constexpr void set_part(AscendC::MatmulConfig& config, const AscendC::MatmulShapeParams& part) {
  config.singleCoreM = part.singleCoreM, config.singleCoreN = part.singleCoreN, config.singleCoreK = part.singleCoreK;
  config.basicM = part.basicM, config.basicN = part.basicN, config.basicK = part.basicK;
}
constexpr void set_part(AscendC::MatmulConfig& config, const AscendC::MatmulQuantParams& part) {
  config.isPerTensor = part.isPerTensor, config.hasAntiQuantOffset = part.hasAntiQuantOffset;
}
constexpr void set_part(AscendC::MatmulConfig& config, const AscendC::MatmulBatchParams& part) {
  config.isNBatch = part.isNBatch, config.batchMode = part.batchMode, config.isBiasBatch = part.isBiasBatch;
}
constexpr void set_part(AscendC::MatmulConfig& config, const AscendC::MatmulFuncParams& part) {
  config.intrinsicsCheck = part.intrinsicsLimit, config.enVecND2NZ = part.enVecND2NZ;
  config.enableDoubleCache = part.enableDoubleCache, config.enableL1CacheUB = part.enableL1CacheUB;
  config.doMTE2Preload = part.doMTE2Preload, config.iterateOrder = part.iterateOrder;
  config.scheduleType = part.scheduleType, config.enableReuse = part.enableReuse;
  config.enableUBReuse = part.enableUBReuse, config.isPartialOutput = part.isPartialOutput;
  config.isA2B2Shared = part.isA2B2Shared, config.isEnableChannelSplit = part.isEnableChannelSplit;
  config.enableKdimReorderLoad = part.enableKdimReorderLoad;
}
template <class P>
constexpr bool is_part =
    std::is_same<P, AscendC::MatmulShapeParams>::value || std::is_same<P, AscendC::MatmulQuantParams>::value ||
    std::is_same<P, AscendC::MatmulBatchParams>::value || std::is_same<P, AscendC::MatmulFuncParams>::value;

}  // namespace mco_asc

namespace AscendC {

template <MatmulConfigMode mode, class... A>
constexpr MatmulConfig GetMMConfig(A&&... parts) {
  static_assert((mco_asc::is_part<std::decay_t<A>> && ...),
                "AscendC::GetMMConfig: a part is not accepted; accepted: MatmulShapeParams, MatmulQuantParams, "
                "MatmulBatchParams, MatmulFuncParams");
  MatmulConfig config = mode == MatmulConfigMode::CONFIG_NORM ? GetNormalConfig() : GetMDLConfig();
  (mco_asc::set_part(config, parts), ...);
  return config;
}
inline constexpr MatmulConfig CFG_NORM = GetNormalConfig(), CFG_MDL = GetMDLConfig(), CFG_IBSHARE_NORM{}, MM_CFG_BB{};

template <void (*OUT)(const LocalTensor<int8_t>&, uint8_t*, const LocalTensor<uint8_t>&, uint32_t) = nullptr,
          void (*A1)(const LocalTensor<int8_t>&, const void*, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t,
                     uint64_t) = nullptr,
          void (*B1)(const LocalTensor<int8_t>&, const void*, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t,
                     uint64_t) = nullptr>
struct MatmulCallBackFunc {
  static_assert(OUT == nullptr && A1 == nullptr && B1 == nullptr,
                "AscendC::MatmulCallBackFunc: functions of the user's own are not accepted; accepted: nullptr");
};
struct MatmulPolicy {};

}  // namespace AscendC

namespace mco_asc {

// An operand of a product: where it lies, and how.
struct Source {
  void* at = nullptr;
  const mco_asc_home* home = nullptr;
  bool gm = false, transposed = false, nz = false;
  int64_t rows = 0, columns = 0;  // as it is stored, for the distance of rows (ND) or of columns of blocks (NZ)

  mco_asc_operand from(int64_t bytes, int32_t dtype, int32_t align) const {
    return {moved(at, bytes), home, dtype, align, gm};
  }
};

}  // namespace mco_asc
