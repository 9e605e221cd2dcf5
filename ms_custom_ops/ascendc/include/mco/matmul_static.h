// SPDX-License-Identifier: Apache-2.0
// A Matmul's tiling out of constants of its configuration.
#pragma once

#include "mco/matmul_types.h"

namespace AscendC {

// TCubeTiling with -1 where the one that is given at run time counts.
struct MatmulApiStaticTiling {
  int32_t usedCoreNum = -1, M = -1, N = -1, Ka = -1, Kb = -1, singleCoreM = -1, singleCoreN = -1, singleCoreK = -1,
          baseM = -1, baseN = -1, baseK = -1, depthA1 = -1, depthB1 = -1, stepM = -1, stepN = -1, stepKa = -1,
          stepKb = -1, isBias = -1, transLength = -1, iterateOrder = -1, dbL0A = -1, dbL0B = -1, dbL0C = -1,
          shareMode = -1, shareL1Size = -1, shareL0CSize = -1, shareUbSize = -1, batchM = -1, batchN = -1,
          singleBatchM = -1, singleBatchN = -1;
  MatmulConfig cfg{};
};

// Of the constants that are there: base blocks, and with them this core's part, which is then the whole product unless
// a tiling says more. Depths and steps are those of L1 split in halves; results do not depend on them.
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE>
constexpr MatmulApiStaticTiling GetMatmulApiTiling(const MatmulConfig& config, int32_t l1Size = TOTAL_L1_SIZE) {
  MatmulApiStaticTiling tiling;
  tiling.cfg = config;
  if (config.iterateOrder != IterateOrder::UNDEF) tiling.iterateOrder = config.iterateOrder == IterateOrder::ORDER_N;
  if (!config.basicM || !config.basicN || !config.basicK) return tiling;
  tiling.baseM = int32_t(config.basicM), tiling.baseN = int32_t(config.basicN), tiling.baseK = int32_t(config.basicK);
  const auto depth = [&](int32_t base, size_t bytes) {
    const int64_t fits = l1Size / 2 / (int64_t(base) * tiling.baseK * int64_t(bytes));
    const int64_t blocks = config.singleCoreK ? (config.singleCoreK + config.basicK - 1) / config.basicK : 1;
    return int32_t(fits < 1 ? 1 : fits < blocks ? fits : blocks);
  };
  tiling.depthA1 = tiling.stepKa = depth(tiling.baseM, sizeof(typename A_TYPE::T));
  tiling.depthB1 = tiling.stepKb = depth(tiling.baseN, sizeof(typename B_TYPE::T));
  tiling.stepM = tiling.stepN = 1;
  if (!config.singleCoreM || !config.singleCoreN || !config.singleCoreK) return tiling;
  tiling.singleCoreM = int32_t(config.singleCoreM), tiling.singleCoreN = int32_t(config.singleCoreN);
  tiling.singleCoreK = int32_t(config.singleCoreK);
  return tiling;
}

}  // namespace AscendC

namespace mco_asc {

constexpr auto& config_of(const AscendC::MatmulConfig& config) { return config; }
constexpr auto& config_of(const AscendC::MatmulApiStaticTiling& tiling) { return tiling.cfg; }

// Whether a product can do without a tiling at run time.
constexpr bool complete(const AscendC::MatmulConfig&) { return false; }
constexpr bool complete(const AscendC::MatmulApiStaticTiling& tiling) {
  return tiling.baseM > 0 && tiling.baseN > 0 && tiling.baseK > 0 && tiling.singleCoreM > 0 && tiling.singleCoreN > 0 &&
         tiling.singleCoreK > 0;
}

// The constants over the tiling given at run time, which may be null where they are complete.
inline void set_constants(TCubeTiling&, const TCubeTiling*, const AscendC::MatmulConfig&) {}
inline void set_constants(TCubeTiling& to, const TCubeTiling* given, const AscendC::MatmulApiStaticTiling& tiling) {
  const auto set = [](int32_t& field, int32_t value) { field = value == -1 ? field : value; };
  set(to.singleCoreM, tiling.singleCoreM), set(to.singleCoreN, tiling.singleCoreN);
  set(to.singleCoreK, tiling.singleCoreK), set(to.iterateOrder, tiling.iterateOrder);
  set(to.baseM, tiling.baseM), set(to.baseN, tiling.baseN), set(to.baseK, tiling.baseK);
  if (!given) to.M = to.singleCoreM, to.N = to.singleCoreN, to.Ka = to.Kb = to.singleCoreK;
  set(to.M, tiling.M), set(to.N, tiling.N), set(to.Ka, tiling.Ka), set(to.Kb, tiling.Kb);
}

}  // namespace mco_asc
