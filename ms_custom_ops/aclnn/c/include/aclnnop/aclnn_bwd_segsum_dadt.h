// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_BWD_SEGSUM_DADT_H_
#define MCO_ACLNNOP_ACLNN_BWD_SEGSUM_DADT_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of BwdSegsumDadt, gives the bytes of its workspace and its executor.
//   dSSdA: gradient of exp(SSdA), indexed (key, query), or as layout says
//   SSdA: segment sums (logarithm of the decay), indexed (query, key)
//   ddtOut: what the gradient is added to
//   cuSeqlensOptional (or null): see docs/aclnn.md
//   chunkSize: steps per chunk, C
//   ddt, written: ddt_out plus the gradient
ACL_FUNC_VISIBILITY aclnnStatus aclnnBwdSegsumDadtGetWorkspaceSize(const aclTensor* dSSdA, const aclTensor* SSdA,
    const aclTensor* ddtOut, const aclIntArray* cuSeqlensOptional, int64_t chunkSize, const aclTensor* ddt,
    uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnBwdSegsumDadt(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_BWD_SEGSUM_DADT_H_
