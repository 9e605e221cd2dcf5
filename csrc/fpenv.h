// SPDX-License-Identifier: Apache-2.0
// Default floating-point rules while a program runs: other libraries in the process may have switched the thread to
// flushing of subnormals or to another rounding.
#pragma once

#include <cfenv>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace mco {

class FloatingPointDefaults {
 public:
  FloatingPointDefaults() {
#if defined(__SSE2__)
    saved_ = _mm_getcsr();
    _mm_setcsr(0x1f80);  // nearest even, all exceptions masked, subnormals kept
#else
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
#endif
  }
  ~FloatingPointDefaults() {
#if defined(__SSE2__)
    _mm_setcsr(saved_);
#else
    std::fesetenv(&saved_);
#endif
  }
  FloatingPointDefaults(const FloatingPointDefaults&) = delete;
  FloatingPointDefaults& operator=(const FloatingPointDefaults&) = delete;

 private:
#if defined(__SSE2__)
  unsigned saved_;
#else
  std::fenv_t saved_;
#endif
};

}  // namespace mco
