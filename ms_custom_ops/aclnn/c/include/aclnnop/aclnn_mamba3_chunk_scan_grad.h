// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_MAMBA3_CHUNK_SCAN_GRAD_H_
#define MCO_ACLNNOP_ACLNN_MAMBA3_CHUNK_SCAN_GRAD_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of Mamba3ChunkScanGrad, gives the bytes of its workspace and its executor.
//   v: values; S counts (step, rank) pairs, rank fastest
//   da: log of the decay of each step, 0 for all ranks but the first
//   factor: weight with which a row reaches later steps
//   gamma: weight with which a row reaches its own step
//   k: keys; head i uses group i // (H / G)
//   q: queries
//   initialStates: state before the first step
//   dO: gradient of o
//   dFinalStates: gradient of final_states
//   firstChunksOptional (or null): packed batch: first chunk of each of the NS sequences and the number of chunks;
//     padded with anything
//   chunkSize: rows per chunk; the result does not depend on it beyond rounding
//   rank: rows per step
//   dV, written: gradient of v
//   dDa, written: gradient of da
//   dFactor, written: gradient of factor
//   dGamma, written: gradient of gamma
//   dK, written: gradient of k
//   dQ, written: gradient of q
//   dInitialStates, written: gradient of initial_states
ACL_FUNC_VISIBILITY aclnnStatus aclnnMamba3ChunkScanGradGetWorkspaceSize(const aclTensor* v, const aclTensor* da,
    const aclTensor* factor, const aclTensor* gamma, const aclTensor* k, const aclTensor* q,
    const aclTensor* initialStates, const aclTensor* dO, const aclTensor* dFinalStates,
    const aclTensor* firstChunksOptional, int64_t chunkSize, int64_t rank, const aclTensor* dV, const aclTensor* dDa,
    const aclTensor* dFactor, const aclTensor* dGamma, const aclTensor* dK, const aclTensor* dQ,
    const aclTensor* dInitialStates, uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnMamba3ChunkScanGrad(void* workspace, uint64_t workspaceSize,
    aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_MAMBA3_CHUNK_SCAN_GRAD_H_
