// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_GRAD_H_
#define MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_GRAD_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of FlashAttentionScoreGrad, gives the bytes of its workspace and its executor.
//   query: as of the forward call
//   keyIn: as of the forward call
//   value: as of the forward call
//   dy: gradient of the output
//   pseShiftOptional (or null): (B,N1,S1,S2)
//   dropMaskOptional (or null): as of the forward call
//   paddingMaskOptional (or null): None
//   attenMaskOptional (or null): as of the forward call
//   softmaxMax: float32 (B,N1,S1,8), eight equal values; packed (T1,N1,8), which lie in memory as (N1,T1,8)
//   softmaxSum: float32 (B,N1,S1,8), eight equal values; packed (T1,N1,8), which lie in memory as (N1,T1,8)
//   softmaxInOptional (or null): None or empty
//   attentionIn: output of the forward call
//   prefixOptional (or null): None
//   scaleValue: factor on the scores
//   keepProb: probability that drop_mask was made with
//   preTokens: keys kept to the left of the diagonal
//   nextTokens: keys kept to the right of the diagonal
//   headNum: N1
//   inputLayout: BNSD, BSND, BSH, SBH
//   innerPrecise: reserved, without effect
//   sparseMode: 0 to 4, docs/flash_attention.md
//   dqOut, written: as query
//   dkOut, written: as key_in
//   dvOut, written: as value
//   dpseOut (or null), written: as pse_shift
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGradGetWorkspaceSize(const aclTensor* query,
    const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMax, const aclTensor* softmaxSum, const aclTensor* softmaxInOptional,
    const aclTensor* attentionIn, const aclIntArray* prefixOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionScoreGrad(void* workspace, uint64_t workspaceSize,
    aclOpExecutor* executor, aclrtStream stream);

// Checks a call of FlashAttentionUnpaddingScoreGrad, gives the bytes of its workspace and its executor.
//   query: as of the forward call
//   keyIn: as of the forward call
//   value: as of the forward call
//   dy: gradient of the output
//   pseShiftOptional (or null): (B,N1,S1,S2)
//   dropMaskOptional (or null): as of the forward call
//   paddingMaskOptional (or null): None
//   attenMaskOptional (or null): as of the forward call
//   softmaxMax: float32 (B,N1,S1,8), eight equal values; packed (T1,N1,8), which lie in memory as (N1,T1,8)
//   softmaxSum: float32 (B,N1,S1,8), eight equal values; packed (T1,N1,8), which lie in memory as (N1,T1,8)
//   softmaxInOptional (or null): None or empty
//   attentionIn: output of the forward call
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
//   dqOut, written: as query
//   dkOut, written: as key_in
//   dvOut, written: as value
//   dpseOut (or null), written: as pse_shift
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize(const aclTensor* query,
    const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy, const aclTensor* pseShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMax, const aclTensor* softmaxSum, const aclTensor* softmaxInOptional,
    const aclTensor* attentionIn, const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFlashAttentionUnpaddingScoreGrad(void* workspace, uint64_t workspaceSize,
    aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_FLASH_ATTENTION_SCORE_GRAD_H_
