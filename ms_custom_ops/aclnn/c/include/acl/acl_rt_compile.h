// SPDX-License-Identifier: Apache-2.0
// Compilation of Ascend C at run time, by the C++ compiler of this machine (docs/aclnn_c.md).
#ifndef MCO_ACL_ACL_RT_COMPILE_H_
#define MCO_ACL_ACL_RT_COMPILE_H_

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void* aclrtcProg;

static const int ACL_ERROR_RTC_INVALID_PROG = 176000;
static const int ACL_ERROR_RTC_INVALID_INPUT = 176001;
static const int ACL_ERROR_RTC_INVALID_OPTION = 176002;
static const int ACL_ERROR_RTC_COMPILATION = 176003;
static const int ACL_ERROR_RTC_LINKING = 176004;
static const int ACL_ERROR_RTC_NO_NAME_EXPR_AFTER_COMPILATION = 176005;
static const int ACL_ERROR_RTC_NO_LOWERED_NAMES_BEFORE_COMPILATION = 176006;
static const int ACL_ERROR_RTC_NAME_EXPR_NOT_VALID = 176007;
static const int ACL_ERROR_RTC_OUT_OF_MEMORY = 276001;
static const int ACL_ERROR_RTC_FAILURE = 576000;

// `headers`: texts of what `src` includes under `includeNames`. An empty or null `name` is "default_program".
ACL_FUNC_VISIBILITY aclError aclrtcCreateProg(aclrtcProg* prog, const char* src, const char* name, int numHeaders,
                                              const char** headers, const char** includeNames);
// A kernel that is a template, with its arguments, such as "add<float>": before the compilation. Afterwards the second
// function gives its name in the binary, which lives as long as `prog`.
ACL_FUNC_VISIBILITY aclError aclrtcAddNameExpr(aclrtcProg prog, const char* const nameExpression);
ACL_FUNC_VISIBILITY aclError aclrtcGetLoweredName(aclrtcProg prog, const char* nameExpression,
                                                  const char** loweredName);
ACL_FUNC_VISIBILITY aclError aclrtcCompileProg(aclrtcProg prog, int numOptions, const char** options);
ACL_FUNC_VISIBILITY aclError aclrtcGetBinDataSize(aclrtcProg prog, size_t* binDataSizeRet);
ACL_FUNC_VISIBILITY aclError aclrtcGetBinData(aclrtcProg prog, char* binData);
// Bytes of the log, the zero at its end among them.
ACL_FUNC_VISIBILITY aclError aclrtcGetCompileLogSize(aclrtcProg prog, size_t* logSizeRet);
ACL_FUNC_VISIBILITY aclError aclrtcGetCompileLog(aclrtcProg prog, char* log);
ACL_FUNC_VISIBILITY aclError aclrtcDestroyProg(aclrtcProg* prog);

#ifdef __cplusplus
}
#endif

#endif  // MCO_ACL_ACL_RT_COMPILE_H_
