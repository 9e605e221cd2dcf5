// SPDX-License-Identifier: Apache-2.0
// Kernels whose modelled time is known: against the same instructions in TIK, with one and with two buffers, with cores
// that wait for each other.
#include "kernel_operator.h"
using namespace AscendC;

// As in_turn of test_ascendc_timed.py: a move in, `count` dependent additions, a move out.
template <int32_t count>
__aicore__ inline void in_turn(GM_ADDR x_, GM_ADDR y_) {
  GlobalTensor<half> x, y;
  x.SetGlobalBuffer((__gm__ half*)x_);
  y.SetGlobalBuffer((__gm__ half*)y_);
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 16384);
  LocalTensor<half> u = buffer.Get<half>();
  DataCopy(u, x, 8192);
  SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
  WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
  const UnaryRepeatParams rows(1, 1, 8, 8);
  for (int32_t i = 0; i < count; ++i) {
    Adds(u, u, half(1), 128, 64, rows);  // ADDS
    PipeBarrier<PIPE_V>();
  }
  SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
  DataCopy(y, u, 8192);
}

extern "C" __global__ __aicore__ void vector_only(GM_ADDR x, GM_ADDR y) { in_turn<6>(x, y); }

// Tiles through queues of `blocks` blocks.
template <int32_t blocks>
__aicore__ inline void tiles(GM_ADDR x_, GM_ADDR y_, int32_t count) {
  TPipe pipe;
  TQue<TPosition::VECIN, blocks> in;
  TQue<TPosition::VECOUT, blocks> out;
  pipe.InitBuffer(in, blocks, 16384);
  pipe.InitBuffer(out, blocks, 16384);
  GlobalTensor<half> x, y;
  x.SetGlobalBuffer((__gm__ half*)x_ + GetBlockIdx() * count * 8192);
  y.SetGlobalBuffer((__gm__ half*)y_ + GetBlockIdx() * count * 8192);
  for (int32_t i = 0; i < count; ++i) {
    LocalTensor<half> u = in.template AllocTensor<half>();
    DataCopy(u, x[i * 8192], 8192);
    in.EnQue(u);
    u = in.template DeQue<half>();
    LocalTensor<half> v = out.template AllocTensor<half>();
    Muls(v, u, half(2), 8192);
    for (int32_t k = 0; k < 3; ++k) {
      PipeBarrier<PIPE_V>();
      Muls(v, v, half(2), 8192);
    }
    out.EnQue(v);
    in.FreeTensor(u);
    v = out.template DeQue<half>();
    DataCopy(y[i * 8192], v, 8192);
    out.FreeTensor(v);
  }
}
extern "C" __global__ __aicore__ void one_buffer(GM_ADDR x, GM_ADDR y, int32_t count) { tiles<1>(x, y, count); }
extern "C" __global__ __aicore__ void two_buffers(GM_ADDR x, GM_ADDR y, int32_t count) { tiles<2>(x, y, count); }

// Core 0 works for long, the others wait for it; then each adds 1 to y.
extern "C" __global__ __aicore__ void unequal(GM_ADDR y_) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 16384);
  LocalTensor<float> u = buffer.Get<float>();
  GlobalTensor<float> y;
  y.SetGlobalBuffer((__gm__ float*)y_);
  Duplicate(u, 1.0f, 4096);
  for (int32_t i = 0; GetBlockIdx() == 0 && i < 50; ++i) {
    PipeBarrier<PIPE_V>();
    Muls(u, u, 1.0f, 4096);
  }
  SyncAll();
  SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
  SetAtomicAdd<float>();
  DataCopy(y, u, 8);
  SetAtomicNone();
}

// A value of the vector unit decides, and a function of the library computes.
extern "C" __global__ __aicore__ void scalars(GM_ADDR y_) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 16384);
  LocalTensor<float> u = buffer.Get<float>();
  GlobalTensor<float> y;
  y.SetGlobalBuffer((__gm__ float*)y_);
  Duplicate(u, 1.0f, 4096);
  const float first = u.GetValue(0);
  Sin(u, u, 4096);
  PipeBarrier<PIPE_ALL>();
  u.SetValue(0, first);
  DataCopy(y, u, 4096);
}
