// SPDX-License-Identifier: Apache-2.0
// A kernel, one that a macro stamps out, and launches of them for programs that know nothing of kernels.
#include "names.h"
#include "kernel_operator.h"

template <typename T>
__aicore__ inline void Times(GM_ADDR x, T by, uint32_t n) {
  AscendC::TPipe pipe;
  AscendC::TBuf<> buffer;
  pipe.InitBuffer(buffer, 1024);
  AscendC::GlobalTensor<T> gm;
  gm.SetGlobalBuffer((__gm__ T*)x + n * AscendC::GetBlockIdx(), n);
  const auto t = buffer.Get<T>();
  AscendC::DataCopy(t, gm, n);
  AscendC::Muls(t, t, by, n);
  AscendC::DataCopy(gm, t, n);
}

extern "C" __global__ __aicore__ void triple(GM_ADDR x, uint32_t n) { Times(x, float(kTriple), n); }

#define DEFINE_TIMES(KERNEL_NAME, TYPE) \
  __global__ __aicore__ void KERNEL_NAME(GM_ADDR x, int32_t by, size_t n) { Times(x, TYPE(by), uint32_t(n)); }
DEFINE_TIMES(times_int, int32_t)

#ifndef ASCENDC_CPU_DEBUG
extern "C" void triple_do(uint32_t blocks, void* stream, void* x, uint32_t n) {
  triple<<<blocks, nullptr, stream>>>(x, n);
}
void times_do(uint32_t blocks, void* stream, void* x, int by, size_t n) {
  times_int<<<blocks, nullptr, stream>>>(x, by, n);
}
#endif
