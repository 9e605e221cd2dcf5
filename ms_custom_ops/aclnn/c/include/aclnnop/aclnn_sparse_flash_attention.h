// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_SPARSE_FLASH_ATTENTION_H_
#define MCO_ACLNNOP_ACLNN_SPARSE_FLASH_ATTENTION_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of SparseFlashAttention, gives the bytes of its workspace and its executor.
//   query: queries; TND: one batch entry of T1 rows
//   key: keys, likewise; paged: (blocks, block_size, N2, D)
//   valueOptional (or null): values
//   sparseIndices: ids of key blocks within the sequence; the first negative one ends the row
//   blockTableOptional (or null): pages of each sequence; rows padded to a multiple of 8 with anything
//   actualSeqLengthsQueryOptional (or null): BSND: tokens of each sequence; TND: inclusive prefix sums, padded by
//     repeating the last
//   actualSeqLengthsKvOptional (or null): likewise; always tokens of each sequence for paged keys
//   queryRopeOptional (or null): rotary part of the queries
//   keyRopeOptional (or null): rotary part of the keys
//   sinksOptional (or null): a score per head without a value, as in the statistics
//   scaleValue: factor on the scores
//   sparseBlockSize: tokens that an index names
//   layoutQueryOptional (or null): BSND or TND
//   layoutKvOptional (or null): layout_query, or PA_BSND
//   sparseMode: 0 none, 3 causal aligned to the lower right
//   preTokens: only this value, no window (2147483647 is taken for it)
//   nextTokens: only this value, no window (2147483647 is taken for it)
//   attentionMode: 0 and 2 are the same: absorbed multi-head latent attention
//   deterministic: of the gradient: one core per sequence, the additions to a key have one order
//   returnSoftmaxLse: see docs/aclnn.md
//   attentionOut, written: the attention output
//   softmaxMax (or null), written: row maximum of the scaled scores
//   softmaxSum (or null), written: row sum of exp(score - maximum)
ACL_FUNC_VISIBILITY aclnnStatus aclnnSparseFlashAttentionGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* valueOptional, const aclTensor* sparseIndices, const aclTensor* blockTableOptional,
    const aclIntArray* actualSeqLengthsQueryOptional, const aclIntArray* actualSeqLengthsKvOptional,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional, const aclTensor* sinksOptional,
    double scaleValue, int64_t sparseBlockSize, char* layoutQueryOptional, char* layoutKvOptional, int64_t sparseMode,
    int64_t preTokens, int64_t nextTokens, int64_t attentionMode, bool deterministic, bool returnSoftmaxLse,
    const aclTensor* attentionOut, const aclTensor* softmaxMax, const aclTensor* softmaxSum, uint64_t* workspaceSize,
    aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnSparseFlashAttention(void* workspace, uint64_t workspaceSize,
    aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_SPARSE_FLASH_ATTENTION_H_
