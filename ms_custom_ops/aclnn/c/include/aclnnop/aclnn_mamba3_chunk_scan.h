// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_MAMBA3_CHUNK_SCAN_H_
#define MCO_ACLNNOP_ACLNN_MAMBA3_CHUNK_SCAN_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of Mamba3ChunkScan, gives the bytes of its workspace and its executor.
//   q: queries
//   k: keys; head i uses group i // (H / G)
//   v: values; S counts (step, rank) pairs, rank fastest
//   da: log of the decay of each step, 0 for all ranks but the first
//   dt: see docs/aclnn.md
//   trap: see docs/aclnn.md
//   initialStatesOptional (or null): state before the first step
//   cuSeqlensOptional (or null): see docs/aclnn.md
//   chunkSize: rows per chunk; the result does not depend on it beyond rounding
//   o, written: outputs
//   finalStates, written: state after the last step
ACL_FUNC_VISIBILITY aclnnStatus aclnnMamba3ChunkScanGetWorkspaceSize(const aclTensor* q, const aclTensor* k,
    const aclTensor* v, const aclTensor* da, const aclTensor* dt, const aclTensor* trap,
    const aclTensor* initialStatesOptional, const aclIntArray* cuSeqlensOptional, int64_t chunkSize, const aclTensor* o,
    const aclTensor* finalStates, uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnMamba3ChunkScan(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_MAMBA3_CHUNK_SCAN_H_
