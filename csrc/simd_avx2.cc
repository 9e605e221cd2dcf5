// SPDX-License-Identifier: Apache-2.0
// Inner loops for x86-64 with avx2,fma,f16c. Only called when the processor has them.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "simd/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

// In force until the end of this file: templates are instantiated there.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#pragma GCC diagnostic ignored "-Wpsabi"  // vector types never cross a call that is not inlined

#define MCO_W 8
#include "simd/level.h"

namespace mco {

const Kernels* avx2_kernels() {
  static const Kernels kernels = make_kernels("avx2");
  return &kernels;
}

}  // namespace mco

#if defined(__clang__)
#pragma clang attribute pop
#endif

#else

namespace mco {

const Kernels* avx2_kernels() { return nullptr; }

}  // namespace mco

#endif
