// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_SSD_CHUNK_SCAN_GRAD_H_
#define MCO_ACLNNOP_ACLNN_SSD_CHUNK_SCAN_GRAD_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of SsdChunkScanGrad, gives the bytes of its workspace and its executor.
//   x: inputs (dt * x of the model)
//   da: log of the decay of each step
//   b: input projections; head i uses group i // (H / G)
//   c: output projections
//   initialStates: state before the first step
//   dy: gradient of y
//   dFinalStates: gradient of final_states
//   firstChunksOptional (or null): packed batch: first chunk of each of the NS sequences and the number of chunks;
//     padded with anything
//   chunkSize: steps per chunk; the result does not depend on it beyond rounding
//   dX, written: gradient of x
//   dDa, written: gradient of da
//   dB, written: gradient of b
//   dC, written: gradient of c
//   dInitialStates, written: gradient of initial_states
ACL_FUNC_VISIBILITY aclnnStatus aclnnSsdChunkScanGradGetWorkspaceSize(const aclTensor* x, const aclTensor* da,
    const aclTensor* b, const aclTensor* c, const aclTensor* initialStates, const aclTensor* dy,
    const aclTensor* dFinalStates, const aclTensor* firstChunksOptional, int64_t chunkSize, const aclTensor* dX,
    const aclTensor* dDa, const aclTensor* dB, const aclTensor* dC, const aclTensor* dInitialStates,
    uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnSsdChunkScanGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_SSD_CHUNK_SCAN_GRAD_H_
