// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_H_
#define MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of FlashAttention, gives the bytes of its workspace and its executor.
//   query: queries
//   key: keys; N1 is a multiple of N2 (grouped heads)
//   value: values
//   attnMaskOptional (or null): 1 = masked, 0 = kept
//   realShiftOptional (or null): added to the scaled scores (ALiBi, relative positions)
//   dropMaskOptional (or null): 1 = kept, 0 = dropped; takes the place of seed
//   actualSeqQlenOptional (or null): query length of each batch, padded to BP with anything
//   actualSeqKvlenOptional (or null): key length of each batch, padded to BP with anything
//   seedWordsOptional (or null): low and high word of a 64-bit seed, row and column of the first query and key among
//     those of a longer sequence, then padding; takes the place of seed
//   scaleValue: factor on the scores; None means D^-0.5
//   keepProb: probability to keep a weight; kept ones are divided by it
//   seed: seed of the counter-based dropout
//   sparseMode: 0 none, 3 causal aligned to the lower right, 4 band of pre_tokens and next_tokens
//   preTokens: mode 4: keys kept to the left of the diagonal
//   nextTokens: mode 4: keys kept to the right of the diagonal
//   prevBlockNum: blocks of 128 keys kept before the query's block
//   nextBlockNum: blocks of 128 keys kept after the query's block
//   tilingStgyNameOptional (or null): block sizes: auto, sparse, wukong or xunfei
//   highPrecision: exponent, sum and output accumulate in float32
//   layoutOptional (or null): see docs/aclnn.md
//   attentionOut, written: the attention output
//   softmaxMax, written: row maximum of the scaled scores
//   softmaxSum, written: row sum of exp(score - maximum)
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* value, const aclTensor* attnMaskOptional, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclIntArray* actualSeqQlenOptional,
    const aclIntArray* actualSeqKvlenOptional, const aclTensor* seedWordsOptional, double scaleValue, double keepProb,
    int64_t seed, int64_t sparseMode, int64_t preTokens, int64_t nextTokens, int64_t prevBlockNum, int64_t nextBlockNum,
    char* tilingStgyNameOptional, bool highPrecision, char* layoutOptional, const aclTensor* attentionOut,
    const aclTensor* softmaxMax, const aclTensor* softmaxSum, uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttention(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_H_
