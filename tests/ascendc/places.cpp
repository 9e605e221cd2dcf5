// SPDX-License-Identifier: Apache-2.0
// Calls on tensors of a memory that their unit does not reach, and queues in pools.
#include "kernel_operator.h"
using namespace AscendC;

extern "C" __global__ __aicore__ void misplaced(GM_ADDR x, int32_t which) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  TPipe pipe;
  GlobalTensor<half> g;
  g.SetGlobalBuffer((__gm__ half*)x);
  TBuf<TPosition::A1> l1;
  TBuf<TPosition::A2> l0a;
  TBuf<TPosition::B2> l0b;
  TBuf<TPosition::CO1> l0c;
  pipe.InitBuffer(l1, 1024);
  pipe.InitBuffer(l0a, 1024);
  pipe.InitBuffer(l0b, 1024);
  pipe.InitBuffer(l0c, 1024);
  auto a1 = l1.Get<half>(), a2 = l0a.Get<half>(), b2 = l0b.Get<half>();
  auto c = l0c.Get<float>();
  LoadData2DParams load;
  load.repeatTimes = 1;
  LoadData2dTransposeParams square;
  square.repeatTimes = 1;
  LoadData3DParamsV2<half> image;
  MmadParams p;
  p.m = p.n = p.k = 16;
  const FixpipeParamsV220 out(16, 16, 16, 16, false);
  switch (which) {
    case 0:
      return DataCopy(a2, g, 64);
    case 1:
      return DataCopy(g, a2, DataCopyParams(1, 4, 0, 0));
    case 2:
      return DataCopy(b2, a1, DataCopyParams(1, 4, 0, 0));
    case 3:
      return Add(a1, a1, a1, 64);
    case 4:
      return Mmad(c, b2, b2, p);
    case 5:
      return Mmad(c, a2, a2, p);
    case 6:
      return Mmad(a1.ReinterpretCast<float>(), a2, b2, p);
    case 7:
      return LoadData(c.ReinterpretCast<half>(), a1, load);
    case 8:
      return LoadData(c.ReinterpretCast<half>(), g, load);
    case 9:
      return LoadData(a2, b2, load);
    case 10:
      return LoadDataWithTranspose(a1, a1, square);
    case 11:
      return LoadDataWithTranspose(b2, a2, square);
    case 12:
      return LoadData(a2, b2, image);
    case 13:
      return Fixpipe<float, float, CFG_ROW_MAJOR>(GlobalTensor<float>(), a1.ReinterpretCast<float>(), out);
  }
}

// y = x + 1 and 2 x, through queues of a pool and of a pool within it.
extern "C" __global__ __aicore__ void pooled(GM_ADDR x, GM_ADDR y, int32_t flagged) {
  constexpr int32_t N = 128;
  TPipe pipe;
  TBufPool<TPosition::VECCALC> pool, inner;
  pipe.InitBufPool(pool, 8192);
  pool.InitBufPool(inner, 4096);
  TQue<TPosition::VECIN, 2> in;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> both;
  TQue<TPosition::VECOUT, 2> out;
  TBuf<TPosition::VECCALC> work;
  pool.InitBuffer(in, 2, N * sizeof(float));
  inner.InitBuffer(out, 2, N * sizeof(float));
  inner.InitBuffer(both, 1, N * sizeof(float));
  inner.InitBuffer(work, N * sizeof(float));
  GlobalTensor<float> from, to;
  from.SetGlobalBuffer((__gm__ float*)x + GetBlockIdx() * 2 * N);
  to.SetGlobalBuffer((__gm__ float*)y + GetBlockIdx() * 4 * N);
  auto w = work.Get<float>();
  for (int32_t i = 0; i < 2; ++i) {
    auto a = in.AllocTensor<float>();
    DataCopy(a, from[i * N], N);
    if (flagged) {
      in.EnQue(a);
      a = in.DeQue<float>();
    }
    Adds(w, a, 1.0f, N);
    auto b = out.AllocTensor<float>();
    Adds(b, w, 0.0f, N);
    in.FreeTensor(a);
    out.EnQue(b);
    b = out.DeQue<float>();
    DataCopy(to[i * N], b, N);
    out.FreeTensor(b);
    auto c = both.AllocTensor<float>();
    DataCopy(c, from[i * N], N);
    both.EnQue(c);
    c = both.DeQue<float>();
    DataCopy(to[(2 + i) * N], c, N);
    both.FreeTensor(c);
  }
}

// y = x + 1 by a pool, and then by another that has its memory.
extern "C" __global__ __aicore__ void shared(GM_ADDR x, GM_ADDR y, int32_t reset) {
  constexpr int32_t N = 128;
  TPipe pipe;
  TBufPool<TPosition::VECCALC> pool, first, second;
  pipe.InitBufPool(pool, 4096);
  pool.InitBufPool(first, 1024);
  pool.InitBufPool(second, 1024, first);
  GlobalTensor<float> from, to;
  from.SetGlobalBuffer((__gm__ float*)x);
  to.SetGlobalBuffer((__gm__ float*)y);
  for (int32_t i = 0; i < 2; ++i) {
    auto& own = i ? second : first;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    own.InitBuffer(in, 1, N * sizeof(float));
    own.InitBuffer(out, 1, N * sizeof(float));
    auto a = in.AllocTensor<float>();
    DataCopy(a, from[i * N], N);
    in.EnQue(a);
    a = in.DeQue<float>();
    auto b = out.AllocTensor<float>();
    Adds(b, a, 1.0f, N);
    in.FreeTensor(a);
    out.EnQue(b);
    b = out.DeQue<float>();
    DataCopy(to[i * N], b, N);
    out.FreeTensor(b);
    if (reset) own.Reset();
  }
}
