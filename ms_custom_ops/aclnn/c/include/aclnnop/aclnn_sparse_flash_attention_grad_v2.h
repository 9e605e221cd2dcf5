// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_SPARSE_FLASH_ATTENTION_GRAD_V2_H_
#define MCO_ACLNNOP_ACLNN_SPARSE_FLASH_ATTENTION_GRAD_V2_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of SparseFlashAttentionGradV2, gives the bytes of its workspace and its executor.
//   query: (B,S1,N1,D) or (T1,N1,D), float16 or bfloat16
//   key: (B,S2,N2,D) or (T2,N2,D)
//   valueOptional (or null): as key, None: key is the value
//   sparseIndices: int32 (B,S1,N2,K) or (T1,N2,K), ids of key blocks
//   dOut: gradient of out
//   out: output of the forward op
//   softmaxMax: output of the forward op, float32 (B,N2,S1,G) or (N2,T1,G)
//   softmaxSum: output of the forward op, float32 (B,N2,S1,G) or (N2,T1,G)
//   sinksOptional (or null): float32 (N1,)
//   actualSeqQOptional (or null): lengths of each sequence: TND tokens of each batch or inclusive prefix sums, BSND
//     counts or None
//   actualSeqKvOptional (or null): lengths of each sequence: TND tokens of each batch or inclusive prefix sums, BSND
//     counts or None
//   queryRopeOptional (or null): rotary part of query, with key_rope or not at all
//   keyRopeOptional (or null): rotary part of key
//   scaleValue: factor on the scores
//   sparseBlockSize: tokens that an index names
//   layoutOptional (or null): BSND or TND
//   sparseMode: 0 none, 3 causal aligned to the lower right
//   preTokens: this value or 2^63-1: no window
//   nextTokens: this value or 2^63-1: no window
//   deterministic: additions to a key have one order
//   dQuery, written: as query
//   dKey, written: as key
//   dValue (or null), written: as value
//   dQueryRope (or null), written: as query_rope
//   dKeyRope (or null), written: as key_rope
//   dSinks (or null), written: as sinks
ACL_FUNC_VISIBILITY aclnnStatus aclnnSparseFlashAttentionGradV2GetWorkspaceSize(const aclTensor* query,
    const aclTensor* key, const aclTensor* valueOptional, const aclTensor* sparseIndices, const aclTensor* dOut,
    const aclTensor* out, const aclTensor* softmaxMax, const aclTensor* softmaxSum, const aclTensor* sinksOptional,
    const aclTensor* actualSeqQOptional, const aclTensor* actualSeqKvOptional, const aclTensor* queryRopeOptional,
    const aclTensor* keyRopeOptional, double scaleValue, int64_t sparseBlockSize, char* layoutOptional,
    int64_t sparseMode, int64_t preTokens, int64_t nextTokens, bool deterministic, const aclTensor* dQuery,
    const aclTensor* dKey, const aclTensor* dValue, const aclTensor* dQueryRope, const aclTensor* dKeyRope,
    const aclTensor* dSinks, uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnSparseFlashAttentionGradV2(void* workspace, uint64_t workspaceSize,
    aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_SPARSE_FLASH_ATTENTION_GRAD_V2_H_
