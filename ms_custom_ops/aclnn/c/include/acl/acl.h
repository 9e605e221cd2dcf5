// SPDX-License-Identifier: Apache-2.0
// acl: initialisation, runtime, errors. Models (acl_mdl) and operators by name (acl_op) are not part of this library;
// their headers are here so that old programs include them.
#ifndef MCO_ACL_ACL_H_
#define MCO_ACL_ACL_H_

#include "acl/acl_mdl.h"
#include "acl/acl_op.h"
#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 0
#define ACL_PATCH_VERSION 0

// `configPath`: null, or a file, which must be readable and is not read further.
ACL_FUNC_VISIBILITY aclError aclInit(const char* configPath);
ACL_FUNC_VISIBILITY aclError aclFinalize();
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion);
// The chip that kernels are modelled for: MS_CUSTOM_OPS_SOC, else Ascend910B1.
ACL_FUNC_VISIBILITY const char* aclrtGetSocName();
// What failed last on this thread, and forgets it: null when nothing did. Valid until the next call on this thread.
ACL_FUNC_VISIBILITY const char* aclGetRecentErrMsg();

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACL_ACL_H_
