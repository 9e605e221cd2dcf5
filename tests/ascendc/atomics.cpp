// SPDX-License-Identifier: Apache-2.0
// Every block adds its rows of x to the one row of o, with a barrier between rounds; with mode 1 the largest stays,
// mode 2 has no atomic move and writes each row times two to its own place.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t kColumns = 72;

template <class T>
__aicore__ inline void run(GM_ADDR x, GM_ADDR o, uint32_t rounds, uint32_t mode) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 1024);
  const LocalTensor<T> t = buffer.Get<T>();
  GlobalTensor<T> from, to;
  from.SetGlobalBuffer((__gm__ T*)x);
  to.SetGlobalBuffer((__gm__ T*)o);
  const DataCopyExtParams row{1, uint32_t(kColumns * sizeof(T)), 0, 0, 0};
  for (uint32_t r = 0; r < rounds; ++r) {
    const uint64_t at = (uint64_t(GetBlockIdx()) * rounds + r) * kColumns;
    DataCopyPad(t, from[at], row, {false, 0, 0, T(0)});
    if (mode == 0) SetAtomicAdd<T>();
    if (mode == 1) SetAtomicMax<T>();
    if (mode == 2) Add(t, t, t, kColumns);
    DataCopyPad(mode == 2 ? to[at] : to, t, row);
    SetAtomicNone();
    SyncAll();
  }
}

extern "C" __global__ __aicore__ void atomics(GM_ADDR x, GM_ADDR o, uint32_t rounds, uint32_t mode, uint32_t type) {
  switch (type) {
    case 0:
      return run<float>(x, o, rounds, mode);
    case 1:
      return run<half>(x, o, rounds, mode);
    default:
      return run<int32_t>(x, o, rounds, mode);
  }
}
