// SPDX-License-Identifier: Apache-2.0
// What host code logs: kept for the message when the call it belongs to fails, else shown on stderr.
#ifndef MCO_HOST_LOG_H_
#define MCO_HOST_LOG_H_

#include <cstdarg>
#include <cstdio>
#include <string>

namespace mco_host {

enum LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

struct LogOfCall {
  bool kept = false;
  std::string text;
};
inline LogOfCall& CurrentLog() {
  static thread_local LogOfCall log;
  return log;
}

// `format` is not checked against its arguments: public code passes 64-bit numbers for %d.
inline void Log(LogLevel level, const char* file, int line, const char* format, ...) {
  if (level < kWarning) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  const std::string entry = std::string(file) + ":" + std::to_string(line) + ": " + text;
  LogOfCall& log = CurrentLog();
  if (!log.kept) {
    std::fprintf(stderr, "%s\n", entry.c_str());
  } else if (log.text.size() < 4096) {
    log.text += (log.text.empty() ? "" : "; ") + entry;
  }
}

}  // namespace mco_host

#endif  // MCO_HOST_LOG_H_
