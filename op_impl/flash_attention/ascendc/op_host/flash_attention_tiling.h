// SPDX-License-Identifier: Apache-2.0
#ifndef FLASH_ATTENTION_TILING_H
#define FLASH_ATTENTION_TILING_H

#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(FlashAttentionTilingData)
TILING_DATA_FIELD_DEF(uint32_t, heads);       // B * N1
TILING_DATA_FIELD_DEF(uint32_t, headsOfBatch);  // N1
TILING_DATA_FIELD_DEF(uint32_t, group);       // query heads that share keys
TILING_DATA_FIELD_DEF(uint32_t, queries);     // S1
TILING_DATA_FIELD_DEF(uint32_t, keys);        // S2
TILING_DATA_FIELD_DEF(uint32_t, width);       // D
TILING_DATA_FIELD_DEF(uint32_t, statsPitch);  // S1 rounded up, a row of softmax_max
TILING_DATA_FIELD_DEF(uint32_t, maskPitch);   // S2 rounded up, a row of attn_mask; 0 without one
TILING_DATA_FIELD_DEF(uint32_t, maskBatches); // matrices of attn_mask: 1, or one for each batch
TILING_DATA_FIELD_DEF(uint32_t, maskHeads);   // and 1, or one for each head
TILING_DATA_FIELD_DEF(uint32_t, causal);
TILING_DATA_FIELD_DEF(uint32_t, tiles);       // of 128 queries, of one head
TILING_DATA_FIELD_DEF(float, scale);
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(FlashAttention, FlashAttentionTilingData)
}  // namespace optiling

#endif  // FLASH_ATTENTION_TILING_H
