// SPDX-License-Identifier: Apache-2.0
#ifndef RMS_NORM_GRAD_TILING_H
#define RMS_NORM_GRAD_TILING_H

#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(RmsNormGradTilingData)
TILING_DATA_FIELD_DEF(uint32_t, width);       // elements of a row
TILING_DATA_FIELD_DEF(uint32_t, rows);        // of all cores
TILING_DATA_FIELD_DEF(uint32_t, rowsOfCore);  // of the cores below `longCores` one more
TILING_DATA_FIELD_DEF(uint32_t, longCores);
TILING_DATA_FIELD_DEF(uint32_t, rowsOfTile);  // rows in UB at a time
TILING_DATA_FIELD_DEF(uint32_t, buffers);     // of a queue: 2, or 1 where rows are long
TILING_DATA_FIELD_DEF(uint32_t, piece);       // columns of a product
TILING_DATA_FIELD_DEF(uint32_t, part);        // columns of dweight that a core adds up at a time
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(RmsNormGrad, RmsNormGradTilingData)
}  // namespace optiling

#endif  // RMS_NORM_GRAD_TILING_H
