// SPDX-License-Identifier: Apache-2.0
// The runtime's way: a header that the build makes, memory and copies of acl.
#include <cstdio>

#include "acl/acl.h"
#if __has_include("aclrtlaunch_scale.h")
#include "aclrtlaunch_scale.h"
#else  // a build by flags alone
extern "C" __global__ __aicore__ void scale(GM_ADDR x, float by, uint32_t n);
#endif

int main() {
  aclInit(nullptr);
  aclrtSetDevice(0);
  aclrtStream stream = nullptr;
  aclrtCreateStream(&stream);
  float host[16];
  for (int i = 0; i < 16; ++i) host[i] = float(i);
  void* x = nullptr;
  aclrtMalloc(&x, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMemcpy(x, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE);
  ACLRT_LAUNCH_KERNEL(scale)(2, stream, x, 3.0f, 8);
  aclrtSynchronizeStream(stream);
  aclrtMemcpy(host, sizeof host, x, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST);
  std::printf("%g %g\n", host[1], host[15]);
  aclrtFree(x);
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
  aclFinalize();
}
