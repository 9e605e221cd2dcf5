// SPDX-License-Identifier: Apache-2.0
// How often LoadData with LoadData3DParamsV2 goes on by itself.
#pragma once

#include "mco/cube.h"

namespace AscendC {

struct LoadDataRepeatParam {
  LoadDataRepeatParam() = default;
  LoadDataRepeatParam(uint16_t stride, uint8_t times, uint8_t mode)
      : repeatStride(stride), repeatTime(times), repeatMode(mode) {}
  uint16_t repeatStride = 0;
  uint8_t repeatTime = 1, repeatMode = 0;
};

// Once is what LoadData does; of more the manual does not say where the results lie.
inline void SetLoadDataRepeat(const LoadDataRepeatParam& p, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("SetLoadDataRepeat");
  if (p.repeatTime != 1) mco_asc_fault(&here, "repeatTime is %u; accepted: 1", p.repeatTime);
  if (p.repeatMode > 1) mco_asc_fault(&here, "repeatMode is %u; accepted: 0 and 1", p.repeatMode);
}

}  // namespace AscendC
