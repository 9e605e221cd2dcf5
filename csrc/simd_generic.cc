// SPDX-License-Identifier: Apache-2.0
// Inner loops for any processor.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "simd/kernels.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vector types never cross a call that is not inlined
#define MCO_W 4
#include "simd/level.h"

namespace mco {

const Kernels* generic_kernels() {
  static const Kernels kernels = make_kernels("generic");
  return &kernels;
}

}  // namespace mco
