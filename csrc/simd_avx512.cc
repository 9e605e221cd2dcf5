// SPDX-License-Identifier: Apache-2.0
// Inner loops for x86-64 with avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c. Only called when the processor has
// them.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "simd/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

// In force until the end of this file: templates are instantiated there.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif
#pragma GCC diagnostic ignored "-Wpsabi"                // vector types never cross a call that is not inlined
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of "undefined" values in the headers of GCC 12

#define MCO_W 16
#include "simd/level.h"

namespace mco {

const Kernels* avx512_kernels() {
  static const Kernels kernels = make_kernels("avx512");
  return &kernels;
}

}  // namespace mco

#if defined(__clang__)
#pragma clang attribute pop
#endif

#else

namespace mco {

const Kernels* avx512_kernels() { return nullptr; }

}  // namespace mco

#endif
