// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_BWD_DADT_FUSED_H_
#define MCO_ACLNNOP_ACLNN_BWD_DADT_FUSED_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of BwdDadtFused, gives the bytes of its workspace and its executor.
//   dSSdA: gradient of exp(SSdA), indexed (key, query)
//   SSdA: segment sums, indexed (query, key)
//   ddACs: gradient of exp(dA_cs)
//   ddACsRev: gradient of exp(dA_cs_rev)
//   dACs: sums of da up to and with each step
//   dACsRev: sums of da after each step
//   cuSeqlensOptional (or null): see docs/aclnn.md
//   chunkSize: steps per chunk, C
//   dadt, written: gradient of da
ACL_FUNC_VISIBILITY aclnnStatus aclnnBwdDadtFusedGetWorkspaceSize(const aclTensor* dSSdA, const aclTensor* SSdA,
    const aclTensor* ddACs, const aclTensor* ddACsRev, const aclTensor* dACs, const aclTensor* dACsRev,
    const aclIntArray* cuSeqlensOptional, int64_t chunkSize, const aclTensor* dadt, uint64_t* workspaceSize,
    aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnBwdDadtFused(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_BWD_DADT_FUSED_H_
