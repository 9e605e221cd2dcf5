// SPDX-License-Identifier: Apache-2.0
// UB of kernels over rows, by KiB, and rows from GM and back.
#pragma once

#include "kernel_operator.h"
using namespace AscendC;

// `Count`: elements of a tensor for which nothing else is said.
template <uint32_t Count>
struct RowMemory {
  TPipe pipe;
  TBuf<> buffer;
  __aicore__ inline RowMemory() { pipe.InitBuffer(buffer, 131072); }
  template <class T>
  __aicore__ inline LocalTensor<T> at(uint32_t kib, uint32_t n = Count) {
    return buffer.GetWithOffset<T>(n, kib * 1024);
  }
};
template <class T>
__aicore__ inline LocalTensor<T> load(const LocalTensor<T>& to, GM_ADDR from, uint32_t n) {
  GlobalTensor<T> gm;
  gm.SetGlobalBuffer((__gm__ T*)from);
  if (n) DataCopyPad(to, gm, {1, uint32_t(n * sizeof(T)), 0, 0, 0}, {false, 0, 0, 0});
  return to;
}
template <class T>
__aicore__ inline void store(GM_ADDR to, const LocalTensor<T>& from, uint32_t n) {
  GlobalTensor<T> gm;
  gm.SetGlobalBuffer((__gm__ T*)to);
  DataCopyPad(gm, from, {1, uint32_t(n * sizeof(T)), 0, 0, 0});
}
