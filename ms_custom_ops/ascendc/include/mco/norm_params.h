// SPDX-License-Identifier: Apache-2.0
// Parameters of normalisations.
#pragma once

#include "mco/types.h"

namespace AscendC {

struct LayerNormGradShapeInfo {
  DataFormat dataFormat = DataFormat::ND;
};

#ifndef MCO_REDUCE_PATTERN  // a source may include the headers of host and kernel
#define MCO_REDUCE_PATTERN
enum class ReducePattern : uint32_t { AR, RA };
#endif
struct NormalizeConfig {
  ReducePattern reducePattern = ReducePattern::AR;
  int32_t aLength = -1;  // -1: that of NormalizePara
  bool isNoBeta = false, isNoGamma = false, isOnlyOutput = false;
};
inline constexpr NormalizeConfig NLCFG_NORM{};
inline constexpr NormalizeConfig NLCFG_NOBETA{ReducePattern::AR, -1, true, false, false};
inline constexpr NormalizeConfig NLCFG_NOGAMMA{ReducePattern::AR, -1, false, true, false};
inline constexpr NormalizeConfig NLCFG_NOOPT{ReducePattern::AR, -1, true, true, false};
struct NormalizePara {
  NormalizePara() = default;
  NormalizePara(uint32_t a, uint32_t r, uint32_t padded) : aLength(a), rLength(r), rLengthWithPadding(padded) {}
  uint32_t aLength = 0, rLength = 0, rLengthWithPadding = 0;
};

struct WelfordUpdateConfig {
  bool isInplace = false;  // what lies behind abComputeLength is copied from the operands
};
inline constexpr WelfordUpdateConfig WFUPDATE_DEFAULT_CFG{};
struct WelfordUpdateParam {
  uint32_t rnLength, abLength, abComputeLength;
  float nRec;
};
struct WelfordFinalizePara {
  uint32_t rnLength, abLength, headCount, headCountLength, tailCount, tailCountLength;
  float abRec, rRec;
};

}  // namespace AscendC
