// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(Share)
TILING_DATA_FIELD_DEF(uint8_t, longCores);
TILING_DATA_FIELD_DEF(uint32_t, ofCore);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ShareOp, Share)

BEGIN_TILING_DATA_DEF(ScaleAddTilingData)
TILING_DATA_FIELD_DEF(bool, hasBias);
TILING_DATA_FIELD_DEF_ARR(int64_t, 3, dims);
TILING_DATA_FIELD_DEF_STRUCT(Share, share);
TILING_DATA_FIELD_DEF(float, scale);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ScaleAdd, ScaleAddTilingData)
}  // namespace optiling
