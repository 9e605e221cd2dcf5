// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_SEGSUM_DECAY_H_
#define MCO_ACLNNOP_ACLNN_SEGSUM_DECAY_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of SegsumDecay, gives the bytes of its workspace and its executor.
//   da: log-decay of each step, S a multiple of chunk_size
//   cuSeqlensOptional (or null): see docs/aclnn.md
//   chunkSize: steps per chunk, C
//   decay, written: decay from key to query, strictly lower
ACL_FUNC_VISIBILITY aclnnStatus aclnnSegsumDecayGetWorkspaceSize(const aclTensor* da,
    const aclIntArray* cuSeqlensOptional, int64_t chunkSize, const aclTensor* decay, uint64_t* workspaceSize,
    aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnSegsumDecay(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_SEGSUM_DECAY_H_
