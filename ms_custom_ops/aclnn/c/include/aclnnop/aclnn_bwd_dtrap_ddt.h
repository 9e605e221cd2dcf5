// SPDX-License-Identifier: Apache-2.0
// generated from op_info/*.yaml by ms-custom-ops gen; do not edit
#ifndef MCO_ACLNNOP_ACLNN_BWD_DTRAP_DDT_H_
#define MCO_ACLNNOP_ACLNN_BWD_DTRAP_DDT_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks a call of BwdDtrapDdt, gives the bytes of its workspace and its executor.
//   trap: trapezoid weight before the sigmoid
//   dt: step sizes
//   dfactor: gradient of gamma[t] + (1-s[t+1])*dt[t+1], gamma = s*dt
//   dgammaDiag: gradient of gamma on the diagonal
//   cuSeqlensOptional (or null): first steps of packed sequences and S at the end, padded with 0
//   ddt, written: gradient of dt
//   dtrap, written: gradient of trap
ACL_FUNC_VISIBILITY aclnnStatus aclnnBwdDtrapDdtGetWorkspaceSize(const aclTensor* trap, const aclTensor* dt,
    const aclTensor* dfactor, const aclTensor* dgammaDiag, const aclIntArray* cuSeqlensOptional, const aclTensor* ddt,
    const aclTensor* dtrap, uint64_t* workspaceSize, aclOpExecutor** executor);
// Runs an executor on the stream.
ACL_FUNC_VISIBILITY aclnnStatus aclnnBwdDtrapDdt(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACLNNOP_ACLNN_BWD_DTRAP_DDT_H_
