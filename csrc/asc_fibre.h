// SPDX-License-Identifier: Apache-2.0
// A stack of its own on which a core runs, and the way between it and the thread that runs it.
#pragma once

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace mco::asc {

// Where a thread stands that has gone over to a fibre.
struct Shore {
  ucontext_t context;           // of the first step of a fibre, and of each under AddressSanitizer
  sigjmp_buf jump;              // of the others
  const void* stack = nullptr;  // of the thread, and its size, as AddressSanitizer sees them
  size_t stack_bytes = 0;
};

// What AddressSanitizer wants to know of a switch to another stack. A core may leave its stack in the middle, where
// the sanitizer has marked gaps between variables: those are cleared before another core begins on it.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MCO_ASC_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define MCO_ASC_ASAN 1
#endif

class Fibre {
 public:
  Fibre();  // throws Error where there is no memory for a stack
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  // From the thread: the next step begins in `enter`, which calls `arrive` first and never returns.
  void begin(void (*enter)());
  void step(Shore& shore);  // goes on in the fibre until it rests or leaves
  // From the fibre.
  void arrive(Shore& shore);
  void rest(Shore& shore);                // until the next step
  [[noreturn]] void leave(Shore& shore);  // for good

  bool holds(const void* address) const {
    const auto* at = static_cast<const uint8_t*>(address);
    return at >= stack_ && at < stack_ + bytes_;
  }

 private:
  ucontext_t context_;
  sigjmp_buf jump_;
  bool begun_ = false;
  void* fake_ = nullptr;      // of AddressSanitizer
  uint8_t* stack_ = nullptr;  // behind a page that no one may touch
  size_t bytes_ = 0;
};

}  // namespace mco::asc
