// SPDX-License-Identifier: Apache-2.0
#ifndef FLASH_ATTENTION_TILING_H
#define FLASH_ATTENTION_TILING_H

#include "register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(FlashAttentionTilingData)
TILING_DATA_FIELD_DEF(int32_t, queryHeads);
TILING_DATA_FIELD_DEF(int32_t, keyHeads);
TILING_DATA_FIELD_DEF(int32_t, queries);
TILING_DATA_FIELD_DEF(int32_t, keys);
TILING_DATA_FIELD_DEF(int32_t, headDim);
TILING_DATA_FIELD_DEF(int32_t, tasks);          // blocks of queries of all heads
TILING_DATA_FIELD_DEF(int32_t, queryBlock);     // queries of a task, half of them for each vector core
TILING_DATA_FIELD_DEF(int32_t, keyBlock);       // keys of a step
TILING_DATA_FIELD_DEF(float, scale);
TILING_DATA_FIELD_DEF(float, keepScale);        // on the output: 1 / keep_prob
TILING_DATA_FIELD_DEF(int32_t, hasUpper);       // a query sees keys up to its diagonal + upper
TILING_DATA_FIELD_DEF(int32_t, hasLower);       // and from its diagonal - lower
TILING_DATA_FIELD_DEF(int32_t, upper);
TILING_DATA_FIELD_DEF(int32_t, lower);
TILING_DATA_FIELD_DEF(int32_t, hasWindow);      // of blocks of 128
TILING_DATA_FIELD_DEF(int32_t, previousBlocks);
TILING_DATA_FIELD_DEF(int32_t, nextBlocks);
TILING_DATA_FIELD_DEF(int32_t, maskBatches);    // 0: there is no mask
TILING_DATA_FIELD_DEF(int32_t, maskHeads);
TILING_DATA_FIELD_DEF(int32_t, shiftRows);      // 0: there is no real_shift
TILING_DATA_FIELD_DEF(int32_t, seeded);         // dropout by a counter
TILING_DATA_FIELD_DEF(float, keepThreshold);    // words below it keep their weight
TILING_DATA_FIELD_DEF(int64_t, seed);
TILING_DATA_FIELD_DEF(int64_t, blockBytes);     // gradient: of the tiles of a block in the workspace
TILING_DATA_FIELD_DEF(int32_t, rounds);         // forward: tasks of a core
TILING_DATA_FIELD_DEF(int32_t, heldBlocks);     // forward: of keys, all of a head, which stay in L1; 0: none stay
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(FlashAttention, FlashAttentionTilingData)
REGISTER_TILING_DATA_CLASS(FlashAttentionGrad, FlashAttentionTilingData)
}  // namespace optiling

#endif  // FLASH_ATTENTION_TILING_H
