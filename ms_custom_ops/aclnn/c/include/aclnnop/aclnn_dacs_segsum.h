// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_DACS_SEGSUM_H_
#define MCO_ACLNNOP_ACLNN_DACS_SEGSUM_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of DacsSegsum, gives the bytes of its workspace and its executor.
//   da: log-decay of each step, S a multiple of chunk_size
//   cuSeqlensOptional (or null): see docs/aclnn.md
//   chunkSize: steps per chunk, C
//   daCs, written: sums up to and with each step
//   daCsRev, written: sums after each step
//   segsum, written: sums between steps, indexed (query, key)
ACL_FUNC_VISIBILITY aclnnStatus aclnnDacsSegsumGetWorkspaceSize(const aclTensor* da,
    const aclIntArray* cuSeqlensOptional, int64_t chunkSize, const aclTensor* daCs, const aclTensor* daCsRev,
    const aclTensor* segsum, uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnDacsSegsum(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_DACS_SEGSUM_H_
