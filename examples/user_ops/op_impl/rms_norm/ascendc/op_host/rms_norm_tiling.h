// SPDX-License-Identifier: Apache-2.0
#ifndef RMS_NORM_TILING_H
#define RMS_NORM_TILING_H

#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(RmsNormTilingData)
TILING_DATA_FIELD_DEF(uint32_t, width);      // elements of a row
TILING_DATA_FIELD_DEF(uint32_t, rows);       // of all cores
TILING_DATA_FIELD_DEF(uint32_t, rowsOfCore); // of the cores below `longCores` one more
TILING_DATA_FIELD_DEF(uint32_t, longCores);
TILING_DATA_FIELD_DEF(uint32_t, rowsOfTile); // rows in UB at a time
TILING_DATA_FIELD_DEF(float, eps);
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(RmsNorm, RmsNormTilingData)
}  // namespace optiling

#endif  // RMS_NORM_TILING_H
