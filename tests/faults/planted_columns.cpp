// SPDX-License-Identifier: Apache-2.0
// x [16, 16] @ k^T of 16 keys of 64, of which the others were never loaded; a vector core takes 16 of the 64 columns.
#include "kernel_operator.h"
using namespace AscendC;

constexpr int32_t S = 16, KEYS = 64, N = S * S;

extern "C" __global__ __aicore__ void columns(GM_ADDR x_, GM_ADDR k_, GM_ADDR y_, int32_t rows, int32_t panel,
                                              GM_ADDR workspace) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
  GlobalTensor<half> x, keys;
  GlobalTensor<float> y, work;
  x.SetGlobalBuffer((__gm__ half*)x_);
  keys.SetGlobalBuffer((__gm__ half*)k_);
  y.SetGlobalBuffer((__gm__ float*)y_);
  work.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(workspace));
  TPipe pipe;
  if ASCEND_IS_AIC {
    TBuf<TPosition::A1> l1x, l1k;
    TBuf<TPosition::A2> l0a;
    TBuf<TPosition::B2> l0b;
    TBuf<TPosition::CO1> l0c;
    pipe.InitBuffer(l1x, N * sizeof(half));
    pipe.InitBuffer(l1k, KEYS * S * sizeof(half));
    pipe.InitBuffer(l0a, N * sizeof(half));
    pipe.InitBuffer(l0b, KEYS * S * sizeof(half));
    pipe.InitBuffer(l0c, KEYS * S * sizeof(float));
    DataCopy(l1x.Get<half>(), x, Nd2NzParams(1, S, S, 0, S, S, 1, 0));
    DataCopy(l1k.Get<half>(), keys, Nd2NzParams(1, S, S, 0, S, KEYS, 1, 0));
    SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    LoadData(l0a.Get<half>(), l1x.Get<half>(), LoadData2DParams(0, 1, 1, 0, 0, false, 0));
    LoadData(l0b.Get<half>(), l1k.Get<half>(), LoadData2DParams(0, KEYS / S, 1, 0, 0, false, 0));  // AT
    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    Mmad(l0c.Get<float>(), l0a.Get<half>(), l0b.Get<half>(), MmadParams(S, KEYS, S, 0, false, true));
    SetFlag<HardEvent::M_FIX>(EVENT_ID0);
    WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
    if (rows) {
      Fixpipe<float, float, CFG_ROW_MAJOR>(work, l0c.Get<float>(), FixpipeParamsV220(KEYS, S, S, KEYS, false));
    } else {
      Fixpipe<float, float, CFG_NZ>(work, l0c.Get<float>(), FixpipeParamsV220(KEYS, S, S, 2 * S, false));
    }
    CrossCoreSetFlag<2, PIPE_FIX>(1);
  }
  if ASCEND_IS_AIV {
    TQueBind<QuePosition::VECIN, QuePosition::VECOUT, 1> through;
    pipe.InitBuffer(through, 1, N * sizeof(float));
    CrossCoreWaitFlag(1);
    LocalTensor<float> t = through.AllocTensor<float>();
    if (rows) {
      DataCopy(t, work[panel * S], DataCopyParams(S, 2, (KEYS - S) / 8, 0));
    } else {
      DataCopy(t, work[panel * N], N);
    }
    through.EnQue(t);
    t = through.DeQue<float>();
    DataCopy(y, t, N);
    through.FreeTensor(t);
  }
}
