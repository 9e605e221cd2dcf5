// SPDX-License-Identifier: Apache-2.0
// Tensors without a TPipe: the fields of their addresses set by the kernel, as numbers and as what other tensors have.
#include "kernel_operator.h"
using namespace AscendC;

template <class T>
__aicore__ inline LocalTensor<T> at(TPosition position, uint64_t address) {
  LocalTensor<T> tensor;
  tensor.address_.logicPos = static_cast<uint8_t>(position);
  tensor.address_.bufferAddr = address;
  return tensor;
}

__aicore__ inline void vectors(GM_ADDR x, GM_ADDR y) {
  GlobalTensor<float> from, to;
  from.SetGlobalBuffer((__gm__ float*)x), to.SetGlobalBuffer((__gm__ float*)y);
  LocalTensor<float> a = at<float>(TPosition::VECIN, 1024), b, c, d;
  a.address_.dataLen = 256;
  TBuffAddr address;
  address.bufferAddr = 4096, address.dataLen = 128, address.logicPos = uint8_t(TPosition::VECOUT);
  b.SetAddr(address);
  ASSERT(a.GetSize() == 64 && a.GetLength() == 256 && b.GetSize() == 32 && b.address_.dataLen == 128);
  ASSERT(a.GetPosition() == int(TPosition::VECIN) && b.address_.logicPos == uint8_t(TPosition::VECOUT));
  DataCopyPad(a, from, DataCopyExtParams(1, 256, 0, 0, 0), DataCopyPadExtParams<float>());
  PipeBarrier<PIPE_ALL>();
  c.address_.bufferAddr = reinterpret_cast<uint64_t>(a.GetPhyAddr(8));  // 8 elements on
  d.address_.bufferAddr = b.address_.bufferAddr + 32;
  Adds(b, a, 1.0f, 64), Muls(d, c, 2.0f, 8);  // d are elements 8 to 15 of b
  d.SetValue(20, c.GetValue(0));
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(to, b, DataCopyExtParams(1, 256, 0, 0, 0));
}

// Memories of the cube; of one the position comes after the number.
__aicore__ inline void product(GM_ADDR x, GM_ADDR y) {
  GlobalTensor<half> from;
  GlobalTensor<float> to;
  from.SetGlobalBuffer((__gm__ half*)x), to.SetGlobalBuffer((__gm__ float*)y);
  LocalTensor<half> a1 = at<half>(TPosition::A1, 0), b1, a2 = at<half>(TPosition::A2, 1024), b2 = at<half>(TPosition::B2, 0);
  b1.address_.bufferAddr = 512;
  b1.address_.logicPos = uint8_t(TPosition::B1);
  LocalTensor<float> sum = at<float>(TPosition::CO1, 2048);
  DataCopy(a1, from, 256), DataCopy(b1, from[256], 256);
  PipeBarrier<PIPE_ALL>();
  LoadData(a2, a1, LoadData2DParams(0, 1, 0, 0, 0, false, 0)), LoadData(b2, b1, LoadData2DParams(0, 1, 0, 0, 0, true, 0));
  PipeBarrier<PIPE_ALL>();
  MmadParams p;
  p.m = p.n = p.k = 16, p.cmatrixInitVal = true;
  Mmad(sum, a2, b2, p);
  PipeBarrier<PIPE_ALL>();
  Fixpipe<float, float, CFG_ROW_MAJOR>(to, sum, FixpipeParamsV220(16, 16, 16, 16, false));
}

extern "C" __global__ __aicore__ void addresses(GM_ADDR x, GM_ADDR y, int which) {
  if (which == 1) {
    if ASCEND_IS_AIC product(x, y);
    return;
  }
  if ASCEND_IS_AIV {
    if (GetSubBlockIdx()) return;
    if (which == 0) vectors(x, y);
    if (which == 2) at<float>(TPosition::CO2, 0);
    if (which == 3) Duplicate(at<float>(TPosition::VECIN, 196608 - 32), 0.0f, 64);
    if (which == 4) Duplicate(at<float>(TPosition::VECIN, uint64_t(1) << 40), 0.0f, 64);
  }
}
