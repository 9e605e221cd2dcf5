// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_LIGHTNING_INDEXER_H_
#define MCO_ACLNNOP_ACLNN_LIGHTNING_INDEXER_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of LightningIndexer, gives the bytes of its workspace and its executor.
//   query: index queries; TND: one batch entry of T1 rows
//   key: index keys, likewise; paged: (blocks, block_size, 1, D)
//   weights: weight of each head, padded to NP with anything
//   actualSeqLengthsQueryOptional (or null): BSND: tokens of each sequence; TND: inclusive prefix sums, padded by
//     repeating the last
//   actualSeqLengthsKeyOptional (or null): likewise; always tokens of each sequence for paged keys
//   blockTableOptional (or null): pages of each sequence; rows padded to a multiple of 8 with anything
//   layoutQueryOptional (or null): BSND or TND
//   layoutKeyOptional (or null): layout_query, or PA_BSND
//   sparseCount: keys to select
//   sparseMode: 0 none, 3 causal aligned to the lower right
//   preTokens: see docs/aclnn.md
//   nextTokens: see docs/aclnn.md
//   returnValue: see docs/aclnn.md
//   sparseIndices, written: tokens, best first, equal scores by ascending token; then -1
//   sparseValues (or null), written: their scores; then 0
ACL_FUNC_VISIBILITY aclnnStatus aclnnLightningIndexerGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* weights, const aclIntArray* actualSeqLengthsQueryOptional,
    const aclIntArray* actualSeqLengthsKeyOptional, const aclTensor* blockTableOptional, char* layoutQueryOptional,
    char* layoutKeyOptional, int64_t sparseCount, int64_t sparseMode, int64_t preTokens, int64_t nextTokens,
    bool returnValue, const aclTensor* sparseIndices, const aclTensor* sparseValues, uint64_t* workspaceSize,
    aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnLightningIndexer(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_LIGHTNING_INDEXER_H_
