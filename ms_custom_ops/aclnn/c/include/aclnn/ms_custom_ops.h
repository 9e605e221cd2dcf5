// SPDX-License-Identifier: Apache-2.0
// What this library has beside CANN's interface.
#ifndef MCO_ACLNN_MS_CUSTOM_OPS_H_
#define MCO_ACLNN_MS_CUSTOM_OPS_H_

#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

// Bytes that calls on this thread have copied between tensors and forms that kernels take, since the thread began. A call
// that adds nothing ran on the caller's memory.
ACL_FUNC_VISIBILITY uint64_t aclmcoCopiedBytes();

// An op of a library of its own, as `ms-custom-ops aclnn --project` writes it. Types: 0 input, 1 output, 2 integers,
// 3 integer, 4 float, 5 bool, 6 text, 7 floats, 8 bools, 9 a list of inputs, 10 a list of outputs.
typedef struct aclmcoParam {
  const char* name;
  int32_t type;
  int32_t optional;
} aclmcoParam;
typedef struct aclmcoOp {
  uint64_t size;  // of this struct
  const char* name;
  const char* op;
  const char* project;
  const aclmcoParam* params;
  int32_t count;
} aclmcoOp;
typedef struct aclmcoArgument {
  const void* handle;
  int64_t i;
  double f;
} aclmcoArgument;
ACL_FUNC_VISIBILITY aclnnStatus aclmcoFirstPhase(const aclmcoOp* op, const aclmcoArgument* arguments,
                                                 uint64_t* workspaceSize, aclOpExecutor** executor);
ACL_FUNC_VISIBILITY aclnnStatus aclmcoSecondPhase(const aclmcoOp* op, void* workspace, uint64_t workspaceSize,
                                                  aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNN_MS_CUSTOM_OPS_H_
