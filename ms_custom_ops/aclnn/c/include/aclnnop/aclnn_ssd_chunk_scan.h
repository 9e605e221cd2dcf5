// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_SSD_CHUNK_SCAN_H_
#define MCO_ACLNNOP_ACLNN_SSD_CHUNK_SCAN_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of SsdChunkScan, gives the bytes of its workspace and its executor.
//   x: inputs (dt * x of the model)
//   da: log of the decay of each step
//   B: see docs/aclnn.md
//   C: see docs/aclnn.md
//   initialStatesOptional (or null): state before the first step
//   cuSeqlensOptional (or null): see docs/aclnn.md
//   chunkSize: steps per chunk; the result does not depend on it beyond rounding
//   y, written: outputs
//   finalStates, written: state after the last step
ACL_FUNC_VISIBILITY aclnnStatus aclnnSsdChunkScanGetWorkspaceSize(const aclTensor* x, const aclTensor* da,
    const aclTensor* B, const aclTensor* C, const aclTensor* initialStatesOptional,
    const aclIntArray* cuSeqlensOptional, int64_t chunkSize, const aclTensor* y, const aclTensor* finalStates,
    uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnSsdChunkScan(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_SSD_CHUNK_SCAN_H_
