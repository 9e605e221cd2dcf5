// SPDX-License-Identifier: Apache-2.0
#include "base.h"

#include <cstdarg>
#include <cstdio>

namespace mco {

namespace {

std::string vformat(const char* text, va_list args) {
  char buffer[1024];
  const int n = vsnprintf(buffer, sizeof buffer, text, args);
  return n < 0 ? std::string(text) : std::string(buffer);
}

}  // namespace

std::string format(const char* text, ...) {
  va_list args;
  va_start(args, text);
  std::string out = vformat(text, args);
  va_end(args);
  return out;
}

void fail(const char* text, ...) {
  va_list args;
  va_start(args, text);
  std::string out = vformat(text, args);
  va_end(args);
  throw Error(out);
}

}  // namespace mco
