// SPDX-License-Identifier: Apache-2.0
// Tiling structs of library functions. Their layout is that of this project: host and kernel of one build share it.
#pragma once

#include <cstdint>

struct alignas(8) SoftMaxTiling {
  uint32_t srcM, srcK, srcSize, outMaxM, outMaxK, outMaxSize, splitM, splitK, splitSize, reduceM, reduceK, reduceSize,
      rangeM, tailM, tailSplitSize, tailReduceSize;
};
struct alignas(8) LayerNormTiling {
  uint32_t bLength, sLength, hLength, originalHLength;
};
struct alignas(8) RmsNormTiling {
  uint32_t bLength, sLength, hLength, originalHLength;
};
struct alignas(8) TopkTiling {
  uint32_t tmpLocalSize, allDataSize, innerDataSize, outter, k;
};
struct alignas(8) UnPadTiling {
  uint32_t srcHeight, srcWidth;
};

namespace AscendC {
namespace tiling {
using ::LayerNormTiling;
using ::RmsNormTiling;
using ::SoftMaxTiling;
using ::TopkTiling;
using ::UnPadTiling;
}  // namespace tiling
}  // namespace AscendC
