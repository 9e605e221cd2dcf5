// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_GRAD_H_
#define MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_GRAD_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of FlashAttentionGrad, gives the bytes of its workspace and its executor.
//   query: queries
//   key: keys; N1 is a multiple of N2 (grouped heads)
//   value: values
//   attentionOut: attention_out of the forward call
//   dAttentionOut: gradient of attention_out
//   softmaxMax: softmax_max of the forward call
//   softmaxSum: softmax_sum of the forward call
//   dSoftmaxMax: gradient of softmax_max
//   dSoftmaxSum: gradient of softmax_sum
//   attnMaskOptional (or null): 1 = masked, 0 = kept
//   realShiftOptional (or null): added to the scaled scores (ALiBi, relative positions)
//   dropMaskOptional (or null): 1 = kept, 0 = dropped; takes the place of seed
//   actualSeqQlenOptional (or null): query length of each batch, padded to BP with anything
//   actualSeqKvlenOptional (or null): key length of each batch, padded to BP with anything
//   seedWordsOptional (or null): low and high word of a 64-bit seed, row and column of the first query and key among
//     those of a longer sequence, then padding; takes the place of seed
//   rowBoundsOptional (or null): first and one past the last key that each row sees, both non-decreasing along the
//     rows; of all batches
//   scaleValue: factor on the scores, applied inside
//   keepProb: probability to keep a weight; kept ones are divided by it
//   seed: seed of the counter-based dropout
//   sparseMode: 0 none, 3 causal aligned to the lower right, 4 band of pre_tokens and next_tokens
//   preTokens: mode 4: keys kept to the left of the diagonal
//   nextTokens: mode 4: keys kept to the right of the diagonal
//   prevBlockNum: blocks of 128 keys kept before the query's block
//   nextBlockNum: blocks of 128 keys kept after the query's block
//   tilingStgyNameOptional (or null): block sizes: auto, sparse, wukong or xunfei
//   highPrecision: exponent, sum and output accumulate in float32
//   dQuery, written: gradient of query
//   dKey, written: gradient of key
//   dValue, written: gradient of value
//   dRealShift (or null), written: gradient of real_shift
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionGradGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* value, const aclTensor* attentionOut, const aclTensor* dAttentionOut, const aclTensor* softmaxMax,
    const aclTensor* softmaxSum, const aclTensor* dSoftmaxMax, const aclTensor* dSoftmaxSum,
    const aclTensor* attnMaskOptional, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* actualSeqQlenOptional, const aclTensor* actualSeqKvlenOptional, const aclTensor* seedWordsOptional,
    const aclTensor* rowBoundsOptional, double scaleValue, double keepProb, int64_t seed, int64_t sparseMode,
    int64_t preTokens, int64_t nextTokens, int64_t prevBlockNum, int64_t nextBlockNum, char* tilingStgyNameOptional,
    bool highPrecision, const aclTensor* dQuery, const aclTensor* dKey, const aclTensor* dValue,
    const aclTensor* dRealShift, uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionGrad(void* workspace, uint64_t workspaceSize,
    aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_GRAD_H_
