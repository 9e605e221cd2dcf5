// SPDX-License-Identifier: Apache-2.0
// Kernels of one source that are of different kinds, calls made again with other numbers, and what a launch finds in
// memory that earlier launches used.
#include "kernel_operator.h"

using namespace AscendC;

// A product that only switches the cube on: its blocks are smaller than what Mmad takes.
class SmallProduct {
 public:
  __aicore__ inline void Process() {
    TPipe pipe;
    TQue<QuePosition::A2, 1> a;
    TQue<QuePosition::B2, 1> b;
    TQue<QuePosition::CO1, 1> c;
    pipe.InitBuffer(a, 1, 64);
    pipe.InitBuffer(b, 1, 64);
    pipe.InitBuffer(c, 1, 128);
    LocalTensor<half> left = a.AllocTensor<half>(), right = b.AllocTensor<half>();
    LocalTensor<float> out = c.AllocTensor<float>();
    MmadParams params;
    params.m = params.n = params.k = 32;
    Mmad(out, left, right, params);
  }
};

// A product whose left operand would run into the block behind its own.
extern "C" __global__ __aicore__ void crowded(GM_ADDR cores) {
  TPipe pipe;
  TQue<QuePosition::A2, 1> a, behind;
  TQue<QuePosition::B2, 1> b;
  TQue<QuePosition::CO1, 1> c;
  pipe.InitBuffer(a, 1, 64);
  pipe.InitBuffer(behind, 1, 64);
  pipe.InitBuffer(b, 1, 2048);
  pipe.InitBuffer(c, 1, 4096);
  LocalTensor<half> left = a.AllocTensor<half>(), right = b.AllocTensor<half>();
  LocalTensor<float> out = c.AllocTensor<float>();
  MmadParams params;
  params.m = params.n = params.k = 32;
  Mmad(out, left, right, params);
}

__aicore__ inline void Tell(GM_ADDR cores) {
  if ASCEND_IS_AIV {
    reinterpret_cast<__gm__ int32_t*>(cores)[GetBlockIdx()] = int32_t(GetTaskRatio());
  }
}

extern "C" __global__ __aicore__ void vector_only(GM_ADDR cores) { Tell(cores); }

extern "C" __global__ __aicore__ void mixed(GM_ADDR cores) {
  if ASCEND_IS_AIC {
    SmallProduct product;
    product.Process();
  }
  Tell(cores);
}

// Row i of out: x + i in the first 16 + i % 3 elements; behind it, 2 * x where bit j <= i % 5 of the mask is on.
extern "C" __global__ __aicore__ void again(GM_ADDR x, GM_ADDR out, int32_t rows) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, 1024);
  LocalTensor<half> in = buffer.Get<half>(), row = in[128];
  GlobalTensor<half> from, to;
  from.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x));
  to.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(out));
  DataCopy(in, from, 128);
  for (int32_t i = 0; i < rows; i++) {
    Duplicate(row, half(0), 256);
    Adds(row, in, half(i), 16 + i % 3);
    SetVectorMask<half>(0, (uint64_t(2) << i % 5) - 1);
    Muls<half, false>(row[128], in, half(2), MASK_PLACEHOLDER, 1, {1, 1, 8, 8});
    DataCopy(to[i * 256], row, 256);
  }
}

// What it finds in UB and in its workspace, before it writes to both.
extern "C" __global__ __aicore__ void finds(GM_ADDR out, GM_ADDR workspace) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, 64 * 1024);
  LocalTensor<int32_t> t = buffer.Get<int32_t>();
  GlobalTensor<int32_t> found, user;
  found.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(out));
  user.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(GetUserWorkspace(workspace)));
  found.SetValue(2 * GetBlockIdx(), t.GetValue(16000));
  found.SetValue(2 * GetBlockIdx() + 1, user.GetValue(GetBlockIdx()));
  Duplicate(t, int32_t(7), 16384);
  user.SetValue(GetBlockIdx(), 7);
}

// Cores of each kind meet those of their own: how many vector cores each of them has seen in both rounds.
extern "C" __global__ __aicore__ void meets(GM_ADDR slots, GM_ADDR seen) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GlobalTensor<int32_t> words, out;
  words.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(slots));
  out.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(seen));
  int32_t found = 0;
  for (int32_t round = 1; round <= 2; round++) {
    if ASCEND_IS_AIV {
      words.SetValue(GetBlockIdx(), round);
    }
    SyncAll<true>();
    if ASCEND_IS_AIV {
      for (int32_t i = 0; i < 2 * GetBlockNum(); i++) {
        found += words.GetValue(i) == round;
      }
    }
    SyncAll();
  }
  if ASCEND_IS_AIV {
    out.SetValue(GetBlockIdx(), found);
  }
}
