// SPDX-License-Identifier: Apache-2.0
// What op_host sources take from the runtime's header: its log.
#pragma once

#include "mco_host/log.h"

enum aclLogLevel { ACL_DEBUG = 0, ACL_INFO = 1, ACL_WARNING = 2, ACL_ERROR = 3 };

#define aclAppLog(level, file, function, line, ...) \
  ::mco_host::Log(static_cast<::mco_host::LogLevel>(level), file, static_cast<int>(line), __VA_ARGS__)
