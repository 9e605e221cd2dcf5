// SPDX-License-Identifier: Apache-2.0
// A program that launches kernels in each of the three ways.
#include <cstdio>

#include "acl/acl.h"
#include "tikicpulib.h"

extern "C" __global__ __aicore__ void shift(GM_ADDR x, float by, uint32_t n) {
  AscendC::TPipe pipe;
  AscendC::TBuf<> buffer;
  pipe.InitBuffer(buffer, 1024);
  AscendC::GlobalTensor<float> gm;
  gm.SetGlobalBuffer((__gm__ float*)x + n * AscendC::GetBlockIdx(), n);
  auto t = buffer.Get<float>();
  AscendC::DataCopy(t, gm, n);
  AscendC::Adds(t, t, by, n);
  if (TILING_KEY_IS(7)) AscendC::Muls(t, t, 2.0f, n);
  AscendC::DataCopy(gm, t, n);
}

template <typename T>
__global__ __aicore__ void fill(GM_ADDR x, T value) {
  AscendC::TPipe pipe;
  AscendC::TBuf<> buffer;
  pipe.InitBuffer(buffer, 256);
  AscendC::GlobalTensor<T> gm;
  gm.SetGlobalBuffer((__gm__ T*)x);
  AscendC::Duplicate(buffer.Get<T>(), value, 8);
  AscendC::DataCopy(gm, buffer.Get<T>(), 8);
}

int main(int argc, char** argv) {
  auto* x = static_cast<float*>(AscendC::GmAlloc(64));
  for (int i = 0; i < 16; ++i) x[i] = float(i);
  AscendC::SetKernelMode(KernelMode::AIV_MODE);
  ICPU_SET_TILING_KEY(7);
  ICPU_RUN_KF(shift, 2, reinterpret_cast<uint8_t*>(x), 1.0f, 8u);
  ICPU_SET_TILING_KEY(0);
  aclrtStream stream = nullptr;
  shift<<<1, nullptr, stream>>>(reinterpret_cast<uint8_t*>(x), 0.5f, 8);
  ACLRT_LAUNCH_KERNEL(shift)(1, stream, x + 8, -1, 8);
  std::printf("%g %g %g %g\n", x[0], x[7], x[8], x[15]);
  fill<float><<<1, nullptr, stream>>>(reinterpret_cast<uint8_t*>(x), 3.0f);
  std::printf("%g %g\n", x[0], x[8]);
  const char* text = "no <<<launch>>> here";
  std::printf("%s\n", text);
  if (argc > 1) shift<<<4, nullptr, stream>>>(reinterpret_cast<uint8_t*>(x), 0, 8);
  AscendC::GmFree(x);
  return 0;
}
