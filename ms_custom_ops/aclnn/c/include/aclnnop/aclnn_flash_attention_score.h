// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_H_
#define MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of FlashAttentionScore, gives the bytes of its workspace and its executor.
//   query: in the layout of input_layout, float16 or bfloat16
//   key: as query, N2 heads
//   value: as key
//   realShiftOptional (or null): (B or 1,N1,S1,S2), added to the scaled scores
//   dropMaskOptional (or null): uint8, one bit per position, 1 = kept; with keep_prob below 1
//   paddingMaskOptional (or null): None
//   attenMaskOptional (or null): bool or uint8, 1 = masked
//   prefixOptional (or null): None
//   scaleValue: factor on the scores
//   keepProb: probability that drop_mask was made with
//   preTokens: keys kept to the left of the diagonal
//   nextTokens: keys kept to the right of the diagonal
//   headNum: N1
//   inputLayout: BNSD, BSND, BSH, SBH
//   innerPrecise: reserved, without effect
//   sparseMode: 0 to 4, docs/flash_attention.md
//   softmaxMaxOut, written: float32 (B,N1,S1,8), eight equal values; packed (T1,N1,8), which lie in memory as (N1,T1,8)
//   softmaxSumOut, written: float32 (B,N1,S1,8), eight equal values; packed (T1,N1,8), which lie in memory as (N1,T1,8)
//   softmaxOutOut (or null), written: None or empty
//   attentionOutOut, written: as query
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(const aclTensor* query, const aclTensor* key,
    const aclTensor* value, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclIntArray* prefixOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScore(void* workspace, uint64_t workspaceSize,
    aclOpExecutor* executor, aclrtStream stream);

// Checks a call of FlashAttentionVarLenScore, gives the bytes of its workspace and its executor.
//   query: in the layout of input_layout, float16 or bfloat16
//   key: as query, N2 heads
//   value: as key
//   realShiftOptional (or null): (B or 1,N1,S1,S2), added to the scaled scores
//   dropMaskOptional (or null): uint8, one bit per position, 1 = kept; with keep_prob below 1
//   paddingMaskOptional (or null): None
//   attenMaskOptional (or null): bool or uint8, 1 = masked
//   prefixOptional (or null): None
//   actualSeqQLenOptional (or null): inclusive prefix sums of the lengths of the sequences
//   actualSeqKvLenOptional (or null): inclusive prefix sums of the lengths of the sequences
//   scaleValue: factor on the scores
//   keepProb: probability that drop_mask was made with
//   preTokens: keys kept to the left of the diagonal
//   nextTokens: keys kept to the right of the diagonal
//   headNum: N1
//   inputLayout: TND
//   innerPrecise: reserved, without effect
//   sparseMode: 0 to 4, docs/flash_attention.md
//   softmaxMaxOut, written: float32 (B,N1,S1,8), eight equal values; packed (T1,N1,8), which lie in memory as (N1,T1,8)
//   softmaxSumOut, written: float32 (B,N1,S1,8), eight equal values; packed (T1,N1,8), which lie in memory as (N1,T1,8)
//   softmaxOutOut (or null), written: None or empty
//   attentionOutOut, written: as query
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScoreGetWorkspaceSize(const aclTensor* query,
    const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionVarLenScore(void* workspace, uint64_t workspaceSize,
    aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_H_
