// SPDX-License-Identifier: Apache-2.0
// The names under which host code logs.
#ifndef MCO_HOST_LOG_NAMES_H_
#define MCO_HOST_LOG_NAMES_H_

#include "mco_host/log.h"

#define ASC_CPU_LOG_ERROR(...) ::mco_host::Log(::mco_host::kError, __FILE__, __LINE__, __VA_ARGS__)
#define ASC_CPU_LOG_WARNING(...) ::mco_host::Log(::mco_host::kWarning, __FILE__, __LINE__, __VA_ARGS__)
#define ASC_CPU_LOG_INFO(...) ::mco_host::Log(::mco_host::kInfo, __FILE__, __LINE__, __VA_ARGS__)
#define ASC_CPU_LOG_DEBUG(...) ::mco_host::Log(::mco_host::kDebug, __FILE__, __LINE__, __VA_ARGS__)

#define dlog_error(module, ...) ::mco_host::Log(::mco_host::kError, __FILE__, __LINE__, __VA_ARGS__)
#define dlog_warn(module, ...) ::mco_host::Log(::mco_host::kWarning, __FILE__, __LINE__, __VA_ARGS__)
#define dlog_info(module, ...) ::mco_host::Log(::mco_host::kInfo, __FILE__, __LINE__, __VA_ARGS__)
#define dlog_debug(module, ...) ::mco_host::Log(::mco_host::kDebug, __FILE__, __LINE__, __VA_ARGS__)

#endif  // MCO_HOST_LOG_NAMES_H_
