// SPDX-License-Identifier: Apache-2.0
// The way of the chip and that of the CPU twin, as sources choose between them.
#include <cstdio>
#ifndef ASCENDC_CPU_DEBUG
#include "acl/acl.h"
#include "aclrtlaunch_triple.h"
extern "C" void triple_do(uint32_t blocks, void* stream, void* x, uint32_t n);
void times_do(uint32_t blocks, void* stream, void* x, int by, size_t n);
#else
#include "tikicpulib.h"
extern "C" __global__ __aicore__ void triple(GM_ADDR x, uint32_t n);
#endif

int main() {
#ifdef ASCENDC_CPU_DEBUG
  auto* x = static_cast<uint8_t*>(AscendC::GmAlloc(64));
  for (int i = 0; i < 16; ++i) reinterpret_cast<float*>(x)[i] = float(i);
  AscendC::SetKernelMode(KernelMode::AIV_MODE);
  ICPU_RUN_KF(triple, 2, x, 8u);
  std::printf("%g %g\n", reinterpret_cast<float*>(x)[1], reinterpret_cast<float*>(x)[15]);
  AscendC::GmFree(x);
#else
  float host[16];
  for (int i = 0; i < 16; ++i) host[i] = float(i);
  void* x = nullptr;
  aclrtStream stream = nullptr;
  aclrtEvent begin, end;
  if (aclInit(nullptr) || aclrtSetDevice(0) || aclrtCreateStream(&stream) || aclrtCreateEvent(&begin) ||
      aclrtCreateEvent(&end) || aclrtMalloc(&x, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST))
    return 1;
  aclrtMemcpy(x, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE);
  aclrtRecordEvent(begin, stream);
  ACLRT_LAUNCH_KERNEL(triple)(2, stream, x, 8);
  triple_do(2, stream, x, 8);
  aclrtRecordEvent(end, stream);
  aclrtSynchronizeStream(stream);
  float spent = -1;
  aclrtEventElapsedTime(&spent, begin, end);
  aclrtMemcpy(host, sizeof host, x, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST);
  int32_t whole[16];
  for (int i = 0; i < 16; ++i) whole[i] = i;
  aclrtMemcpy(x, sizeof whole, whole, sizeof whole, ACL_MEMCPY_HOST_TO_DEVICE);
  times_do(2, stream, x, 5, 8);
  aclrtMemcpy(whole, sizeof whole, x, sizeof whole, ACL_MEMCPY_DEVICE_TO_HOST);
  std::printf("%g %g %d %d\n", host[1], host[15], whole[15], spent >= 0);
  aclrtDestroyEvent(begin);
  aclrtDestroyEvent(end);
  aclrtFree(x);
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
  aclFinalize();
#endif
}
