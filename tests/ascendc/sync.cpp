// SPDX-License-Identifier: Apache-2.0
// Order between cores: each writes a row of 8 numbers and reads those of others.
#include "kernel_operator.h"
using namespace AscendC;

__aicore__ inline void put(const LocalTensor<int32_t>& t, const GlobalTensor<int32_t>& gm, int32_t row, int32_t value) {
  PipeBarrier<PIPE_ALL>();
  Duplicate(t, value, 8);
  PipeBarrier<PIPE_ALL>();
  DataCopy(gm[row * 8], t, 8);
}

__aicore__ inline int32_t get(const LocalTensor<int32_t>& t, const GlobalTensor<int32_t>& gm, int32_t row) {
  PipeBarrier<PIPE_ALL>();
  DataCopy(t, gm[row * 8], 8);
  return t.GetValue(0);
}

extern "C" __global__ __aicore__ void synced(GM_ADDR o, GM_ADDR flags, int32_t which) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 1024);
  LocalTensor<int32_t> t = buffer.Get<int32_t>(8), u = buffer.GetWithOffset<int32_t>(64, 512);
  GlobalTensor<int32_t> out, gm;
  out.SetGlobalBuffer((__gm__ int32_t*)o);
  gm.SetGlobalBuffer((__gm__ int32_t*)flags);
  const int32_t n = GetBlockNum(), me = GetBlockIdx();
  switch (which) {
    case 0:
    case 1:  // a ring, twice around: what the neighbour wrote before the barrier
      put(t, out, me, me + 1);
      for (int round = 0; round < 2; ++round) {
        which ? SyncAll(gm, u) : SyncAll();
        const int32_t left = get(t, out, (me + n - 1) % n);
        which ? SyncAll(gm, u) : SyncAll();
        put(t, out, me, left + 100);
      }
      break;
    case 2:  // a chain: each adds to what the core before it gave
      if (me > 0) IBWait(gm, u, me - 1, 0);
      put(t, out, me, (me > 0 ? get(t, out, me - 1) : 0) + 1);
      if (me + 1 < n) IBSet(gm, u, me, 0);
      break;
    case 3:  // the same in the other direction, so that the first core waits for the last
      if (me + 1 < n) IBWait(gm, u, me + 1, 0);
      put(t, out, me, (me + 1 < n ? get(t, out, me + 1) : 0) + 1);
      if (me > 0) IBSet(gm, u, me, 0);
      break;
    case 4:  // all vector cores by a flag
      put(t, out, me, me);
      CrossCoreSetFlag<0, PIPE_MTE3>(3);
      CrossCoreWaitFlag(3);
      put(t, out, n + me, get(t, out, n - 1 - me));
      break;
    case 5:  // a loop that looks at GM
      if (me == 0) {
        while (gm.GetValue(0) != n - 1) DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(gm);
        put(t, out, 0, 7);
      } else {
        Duplicate(u, 0, 8);
        u.SetValue(0, 1);
        SetAtomicAdd<int32_t>();
        DataCopy(gm, u, 8);
        SetAtomicNone();
      }
      break;
    case 6:  // floats, which any order but one rounds otherwise
      for (int i = 0; i < 3; ++i) {
        const auto f = u.ReinterpretCast<float>();
        PipeBarrier<PIPE_ALL>();
        Duplicate(f, 1.0f + float(me) * 1e-7f * float(1 << (me % 20)), 8);
        PipeBarrier<PIPE_ALL>();
        SetAtomicAdd<float>();
        DataCopy(out.ReinterpretCast<float>(), f, 8);
        SetAtomicNone();
      }
      break;
    default:
      InitDetermineComputeWorkspace(gm, u);
      WaitPreBlock(gm, u);
      put(t, out, me, (me > 0 ? get(t, out, me - 1) : 0) + 2);
      NotifyNextBlock(gm, u);
  }
}

// One cube core and two vector cores in each block.
extern "C" __global__ __aicore__ void mixed(GM_ADDR o) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GlobalTensor<int32_t> out;
  out.SetGlobalBuffer((__gm__ int32_t*)o);
  const int32_t blocks = GetBlockNum();
  if ASCEND_IS_AIC {
    CrossCoreWaitFlag(0);  // both vector cores
    out.SetValue(GetBlockIdx(), out.GetValue(blocks + 2 * GetBlockIdx()) + out.GetValue(blocks + 2 * GetBlockIdx() + 1));
    CrossCoreSetFlag<2, PIPE_FIX>(1);
  }
  if ASCEND_IS_AIV {
    out.SetValue(blocks + GetBlockIdx(), 10 * GetBlockIdx() + GetSubBlockIdx());
    CrossCoreSetFlag<2, PIPE_MTE3>(0);
    CrossCoreWaitFlag(1);
    out.SetValue(3 * blocks + GetBlockIdx(), out.GetValue(GetBlockIdx() / 2) + int32_t(GetTaskRatio() + GetSubBlockNum()));
  }
  SyncAll<false>();
}
