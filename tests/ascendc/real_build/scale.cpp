// SPDX-License-Identifier: Apache-2.0
// A kernel that programs of two kinds launch.
#include "kernel_operator.h"

extern "C" __global__ __aicore__ void scale(GM_ADDR x, float by, uint32_t n) {
  AscendC::TPipe pipe;
  AscendC::TBuf<> buffer;
  pipe.InitBuffer(buffer, 1024);
  AscendC::GlobalTensor<float> gm;
  gm.SetGlobalBuffer((__gm__ float*)x + n * AscendC::GetBlockIdx(), n);
  const auto t = buffer.Get<float>();
  AscendC::DataCopy(t, gm, n);
  AscendC::Muls(t, t, by, n);
  AscendC::DataCopy(gm, t, n);
}
