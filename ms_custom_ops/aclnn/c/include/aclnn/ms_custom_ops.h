// SPDX-License-Identifier: Apache-2.0
// What this library has beside CANN's interface.
#ifndef MCO_ACLNN_MS_CUSTOM_OPS_H_
#define MCO_ACLNN_MS_CUSTOM_OPS_H_

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Bytes that calls on this thread have copied between tensors and forms that kernels take, since the thread began. A call
// that adds nothing ran on the caller's memory.
ACL_FUNC_VISIBILITY uint64_t aclmcoCopiedBytes();

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNN_MS_CUSTOM_OPS_H_
