// SPDX-License-Identifier: Apache-2.0
// Inner loops for aarch64, whose every processor has NEON with fused multiply-adds and conversions of float16.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "simd/neon_level.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#pragma GCC diagnostic ignored "-Wpsabi"  // vector types never cross a call that is not inlined
#define MCO_W 4
#define MCO_NEON
#include "simd/level.h"

namespace mco {

const Kernels* neon_kernels() {
  static const Kernels kernels = make_kernels("neon");
  return &kernels;
}

}  // namespace mco

#else

namespace mco {

const Kernels* neon_kernels() { return nullptr; }

}  // namespace mco

#endif
