// SPDX-License-Identifier: Apache-2.0
// The CPU twin's way to launch.
#include <cstdio>

#include "tikicpulib.h"

extern "C" __global__ __aicore__ void scale(GM_ADDR x, float by, uint32_t n);

int main() {
  auto* x = static_cast<float*>(AscendC::GmAlloc(64));
  for (int i = 0; i < 16; ++i) x[i] = float(i);
  ICPU_RUN_KF(scale, 2, reinterpret_cast<uint8_t*>(x), 2.0f, 8u);
  std::printf("%g %g\n", x[1], x[15]);
  AscendC::GmFree(x);
}
