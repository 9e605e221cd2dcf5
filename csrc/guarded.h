// SPDX-License-Identifier: Apache-2.0
// The edge of the C interface.
#pragma once

#include <cstdio>
#include <exception>
#include <new>

namespace mco {

// Runs `body`; whatever it throws becomes an error text and the result 1.
template <class F>
int guarded(char* err, size_t errlen, F body) noexcept {
  const auto set_error = [&](const char* text) {
    if (err && errlen) std::snprintf(err, errlen, "%s", text);
    return 1;
  };
  try {
    body();
    return 0;
  } catch (const std::bad_alloc&) {
    return set_error("out of memory");
  } catch (const std::exception& e) {
    return set_error(e.what());
  } catch (...) {
    return set_error("unknown error");
  }
}

}  // namespace mco
