// SPDX-License-Identifier: Apache-2.0
// The names under which host code reports errors by number; what is reported is logged with the number first.
#ifndef MCO_HOST_REPORT_NAMES_H_
#define MCO_HOST_REPORT_NAMES_H_

#include <string>

#include "mco_host/log.h"

namespace mco_host {

template <class... A>
void Report(const char* file, int line, const std::string& code, const std::string& format, A... values) {
  Log(kError, file, line, (code + ": " + format).c_str(), values...);
}

}  // namespace mco_host

#define REPORT_INNER_ERR_MSG(code, ...) ::mco_host::Report(__FILE__, __LINE__, code, __VA_ARGS__)
#define REPORT_INNER_ERROR(code, ...) ::mco_host::Report(__FILE__, __LINE__, code, __VA_ARGS__)
#define REPORT_CALL_ERROR(code, ...) ::mco_host::Report(__FILE__, __LINE__, code, __VA_ARGS__)

#endif  // MCO_HOST_REPORT_NAMES_H_
