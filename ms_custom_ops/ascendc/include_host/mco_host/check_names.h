// SPDX-License-Identifier: Apache-2.0
// The names under which host code of operator repositories logs and checks: what is logged begins with the op's name.
#ifndef MCO_HOST_CHECK_NAMES_H_
#define MCO_HOST_CHECK_NAMES_H_

#include <string>
#include <type_traits>

#include "graph/ge_error_codes.h"
#include "mco_host/log_names.h"

namespace mco_host {

// The op: its name, or a context that has it.
template <class T>
std::string OpNameOf(const T& op) {
  if constexpr (std::is_convertible_v<T, std::string>) {
    if constexpr (std::is_pointer_v<T>) {
      if (!op) return "nil";
    }
    return op;
  } else if constexpr (std::is_pointer_v<T>) {
    return op ? OpNameOf(*op) : "nil";
  } else {
    return OpNameOf(op.GetNodeName());
  }
}

template <class T, class... A>
void LogOf(LogLevel level, const char* file, int line, const T& op, const char* format, A... values) {
  if (level >= kWarning) Log(level, file, line, (OpNameOf(op) + ": " + format).c_str(), values...);
}

}  // namespace mco_host

#define MCO_HOST_LOG_OF(level, op, ...) ::mco_host::LogOf(::mco_host::level, __FILE__, __LINE__, op, __VA_ARGS__)
#define MCO_HOST_IF(condition, log, leave) \
  do {                                     \
    if (condition) {                       \
      log;                                 \
      leave;                               \
    }                                      \
  } while (0)

#ifndef OP_LOGE
#define OP_LOGE(op, ...) MCO_HOST_LOG_OF(kError, op, __VA_ARGS__)
#define OP_LOGW(op, ...) MCO_HOST_LOG_OF(kWarning, op, __VA_ARGS__)
#define OP_LOGI(op, ...) MCO_HOST_LOG_OF(kInfo, op, __VA_ARGS__)
#define OP_LOGD(op, ...) MCO_HOST_LOG_OF(kDebug, op, __VA_ARGS__)
#endif
#ifndef OPS_LOG_E
#define OPS_LOG_E(op, ...) MCO_HOST_LOG_OF(kError, op, __VA_ARGS__)
#define OPS_LOG_W(op, ...) MCO_HOST_LOG_OF(kWarning, op, __VA_ARGS__)
#define OPS_LOG_I(op, ...) MCO_HOST_LOG_OF(kInfo, op, __VA_ARGS__)
#define OPS_LOG_D(op, ...) MCO_HOST_LOG_OF(kDebug, op, __VA_ARGS__)
#endif
#ifndef OPS_REPORT_VECTOR_INNER_ERR
#define OPS_REPORT_VECTOR_INNER_ERR(op, ...) MCO_HOST_LOG_OF(kError, op, __VA_ARGS__)
#define OPS_REPORT_CUBE_INNER_ERR(op, ...) MCO_HOST_LOG_OF(kError, op, __VA_ARGS__)
#endif
#ifndef VECTOR_INNER_ERR_REPORT_TILIING
#define VECTOR_INNER_ERR_REPORT_TILIING(op, ...) MCO_HOST_LOG_OF(kError, op, __VA_ARGS__)
#endif
#ifndef OP_CHECK_IF
#define OP_CHECK_IF(condition, log, leave) MCO_HOST_IF(condition, log, leave)
#endif
#ifndef OP_CHECK
#define OP_CHECK(condition, log, leave) MCO_HOST_IF(condition, log, leave)
#endif
#ifndef OPS_CHECK
#define OPS_CHECK(condition, log, leave) MCO_HOST_IF(condition, log, leave)
#endif
#ifndef OP_TILING_CHECK
#define OP_TILING_CHECK(condition, log, leave) MCO_HOST_IF(condition, log, leave)
#endif
#ifndef OPS_ERR_IF
#define OPS_ERR_IF(condition, log, leave) MCO_HOST_IF(condition, log, leave)
#endif
#ifndef OP_CHECK_NULL_WITH_CONTEXT
#define OP_CHECK_NULL_WITH_CONTEXT(context, pointer) \
  MCO_HOST_IF((pointer) == nullptr, OP_LOGE(context, "%s is nullptr", #pointer), return ge::GRAPH_FAILED)
#endif
#ifndef OPS_CHECK_NULL_WITH_CONTEXT
#define OPS_CHECK_NULL_WITH_CONTEXT(context, pointer) OP_CHECK_NULL_WITH_CONTEXT(context, pointer)
#endif
#ifndef OPS_LOG_E_IF_NULL
#define OPS_LOG_E_IF_NULL(context, pointer, leave) \
  MCO_HOST_IF((pointer) == nullptr, OPS_LOG_E(context, "%s is nullptr", #pointer), leave)
#endif

#endif  // MCO_HOST_CHECK_NAMES_H_
