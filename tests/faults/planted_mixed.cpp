// SPDX-License-Identifier: Apache-2.0
// Planted faults of cube cores and of blocks of a cube and two vector cores. y [16, 16] = x [16, 16] @ x, by the cube.
#include "kernel_operator.h"
using namespace AscendC;

constexpr int32_t S = 16, N = S * S;

struct Cube {
  TPipe pipe;
  TBuf<TPosition::A1> l1;
  TBuf<TPosition::A2> l0a;
  TBuf<TPosition::B2> l0b;
  TBuf<TPosition::CO1> l0c;
  LocalTensor<half> a1, a2, b2;
  LocalTensor<float> c;

  __aicore__ inline void Init() {
    pipe.InitBuffer(l1, N * sizeof(half));
    pipe.InitBuffer(l0a, N * sizeof(half));
    pipe.InitBuffer(l0b, N * sizeof(half));
    pipe.InitBuffer(l0c, N * sizeof(float));
    a1 = l1.Get<half>(), a2 = l0a.Get<half>(), b2 = l0b.Get<half>(), c = l0c.Get<float>();
  }
};

#define LOAD(way, ...)                       \
  do {                                       \
    LoadData2DParams p;                      \
    p.repeatTimes = 1, p.ifTranspose = way;  \
    LoadData(__VA_ARGS__, p);                \
  } while (0)

extern "C" __global__ __aicore__ void mixed(GM_ADDR x_, GM_ADDR y_, int32_t which, int32_t bad, GM_ADDR workspace) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GlobalTensor<half> x;
  GlobalTensor<float> y, work;
  x.SetGlobalBuffer((__gm__ half*)x_);
  y.SetGlobalBuffer((__gm__ float*)y_);
  work.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(workspace));
  if ASCEND_IS_AIC {
    Cube k;
    k.Init();
    MmadParams product;
    product.m = product.n = product.k = S;
    FixpipeParamsV220 out;
    out.nSize = out.mSize = out.srcStride = out.dstStride = S;
    const bool unwritten = which == 0 && bad;
    DataCopy(k.a1, x, Nd2NzParams(1, unwritten ? S - 1 : S, S, 0, S, S, 1, 0));  // WITH 1
    if (!(which == 1 && bad)) {
      SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
      WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    }
    LOAD(false, k.a2, k.a1);  // AT 1
    LOAD(true, k.b2, k.a1);   // AT 0 WITH 2
    if (!(which == 2 && bad)) {
      SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
      WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    }
    Mmad(k.c, k.a2, k.b2, product);  // WITH 3 AT 2
    if (!(which == 3 && bad)) {
      SetFlag<HardEvent::M_FIX>(EVENT_ID0);
      WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
    }
    Fixpipe<float, float, CFG_ROW_MAJOR>(work, k.c, out);  // AT 3 WITH 4 WITH 5
    if (which == 5 && bad) {
      CrossCoreSetFlag<2, PIPE_MTE2>(1);
    } else {
      CrossCoreSetFlag<2, PIPE_FIX>(1);
    }
  }
  if ASCEND_IS_AIV {
    TPipe pipe;
    TQueBind<QuePosition::VECIN, QuePosition::VECOUT, 1> through;
    pipe.InitBuffer(through, 1, N / 2 * sizeof(float));
    const int32_t at = GetSubBlockIdx() * N / 2;
    if (!(which == 4 && bad)) CrossCoreWaitFlag(1);
    LocalTensor<float> t = through.AllocTensor<float>();
    DataCopy(t, work[at], N / 2);  // AT 4 AT 5
    through.EnQue(t);
    t = through.DeQue<float>();
    DataCopy(y[at], t, N / 2);
    through.FreeTensor(t);
    if (which == 4 && bad) CrossCoreWaitFlag(1);
  }
}
