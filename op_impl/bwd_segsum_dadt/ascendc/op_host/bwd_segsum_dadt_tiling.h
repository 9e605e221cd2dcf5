// SPDX-License-Identifier: Apache-2.0
#ifndef BWD_SEGSUM_DADT_TILING_H
#define BWD_SEGSUM_DADT_TILING_H

#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(BwdSegsumDadtTilingData)
TILING_DATA_FIELD_DEF(uint32_t, chunks);       // of all batches and heads
TILING_DATA_FIELD_DEF(uint32_t, slots);        // chunks of one sequence
TILING_DATA_FIELD_DEF(uint32_t, chunk);        // steps of one chunk
TILING_DATA_FIELD_DEF(uint32_t, pitch);        // length of a row in UB
TILING_DATA_FIELD_DEF(uint32_t, panel);        // rows of a matrix that are in UB at a time
TILING_DATA_FIELD_DEF(uint32_t, chunksOfCore); // of the cores below `longCores` one more
TILING_DATA_FIELD_DEF(uint32_t, longCores);
TILING_DATA_FIELD_DEF(uint32_t, queryMajor);   // both matrices have queries as rows
TILING_DATA_FIELD_DEF(uint32_t, hasLengths);
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(BwdSegsumDadt, BwdSegsumDadtTilingData)
}  // namespace optiling

#endif  // BWD_SEGSUM_DADT_TILING_H
