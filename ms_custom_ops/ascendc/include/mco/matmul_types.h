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

// Ways to order the same product; here they all are one.
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
template <class... A>
constexpr MatmulConfig GetNormalConfig(A...) {
  return MatmulConfig();
}
template <class... A>
constexpr MatmulConfig GetMDLConfig(A...) {
  return MatmulConfig();
}
template <class... A>
constexpr MatmulConfig GetBasicConfig(A...) {
  return MatmulConfig();
}
template <class... A>
constexpr MatmulConfig GetSpecialBasicConfig(A...) {
  return MatmulConfig();
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
template <MatmulConfigMode mode, class... A>
constexpr MatmulConfig GetMMConfig(A&&...) {
  constexpr auto part = [](auto* p) {
    using P = std::remove_cv_t<std::remove_pointer_t<decltype(p)>>;
    return std::is_same<P, MatmulShapeParams>::value || std::is_same<P, MatmulQuantParams>::value ||
           std::is_same<P, MatmulBatchParams>::value || std::is_same<P, MatmulFuncParams>::value;
  };
  static_assert((part(static_cast<std::decay_t<A>*>(nullptr)) && ...),
                "AscendC::GetMMConfig: a part is not accepted; accepted: MatmulShapeParams, MatmulQuantParams, "
                "MatmulBatchParams, MatmulFuncParams");
  return MatmulConfig();
}
inline constexpr MatmulConfig CFG_NORM{}, CFG_MDL{}, CFG_IBSHARE_NORM{}, MM_CFG_BB{};

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
