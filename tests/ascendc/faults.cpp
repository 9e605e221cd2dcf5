// SPDX-License-Identifier: Apache-2.0
// One fault for each number; `// fault <number>` stands on the line that an error has to name.
#include <cassert>

#include "kernel_operator.h"
using namespace AscendC;

__aicore__ inline void run(GM_ADDR x, int32_t which, int32_t zero) {
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> in;
  TQue<QuePosition::VECOUT, 1> out;
  TBuf<> buffer;
  GlobalTensor<float> gm;
  gm.SetGlobalBuffer((__gm__ float*)x);
  pipe.InitBuffer(in, 1, 256);
  pipe.InitBuffer(out, 1, 256);
  if (which == 0) {
    pipe.InitBuffer(buffer, 200000);  // fault 0
  }
  pipe.InitBuffer(buffer, 1024);
  LocalTensor<float> t = in.AllocTensor<float>();
  LocalTensor<float> b = buffer.Get<float>();
  switch (which) {
    case 1:
      in.DeQue<float>();  // fault 1
      break;
    case 2:
      in.FreeTensor(t);
      in.FreeTensor(t);  // fault 2
      break;
    case 3:
      out.EnQue(t);  // fault 3
      break;
    case 4:
      in.AllocTensor<float>();  // fault 4
      break;
    case 5:
      Adds(t, t, 1.0f, 65);  // fault 5
      break;
    case 6:
      DataCopy(b, gm[48], 64);  // fault 6
      break;
    case 7:
      Adds(b[3], b, 1.0f, 8);  // fault 7
      break;
    case 8:
      b.SetValue(256, 1.0f);  // fault 8
      break;
    case 9:
      gm.SetValue(64, 1.0f);  // fault 9
      break;
    case 10:
      b.SetValue(0, float(which / zero));  // fault 10
      break;
    case 11:
      *((volatile int32_t*)nullptr + zero) = 1;  // fault 11
      break;
    case 12:
      if (GetBlockIdx() != 1) SyncAll();  // fault 12
      break;
    case 13:
      WaitFlag<HardEvent::V_S>(2);  // fault 13
      break;
    case 14:
      WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID1);  // fault 14
      break;
    case 15:
      assert(zero == 1);  // fault 15
      break;
    case 16:
      in.EnQue(t);
      in.EnQue(t);  // fault 16
      break;
    case 17:
      buffer.GetWithOffset<float>(256, 32);  // fault 17
      break;
    case 18:
      for (int64_t i = 0; i < (int64_t(1) << 40); ++i) Adds(b, b, 1.0f, 8);  // fault 18
      break;
    case 19: {
      TQue<QuePosition::VECIN, 1> never;
      never.AllocTensor<float>();  // fault 19
      break;
    }
    case 20:
      DataCopyPad(b, gm, {1, 6, 0, 0}, {false, 0, 0, 0});  // fault 20
      break;
    case 21: {
      volatile int32_t never = zero;
      while (!never) {}  // fault 21
      break;
    }
    default:
      DataCopy(b, gm, 64);
      Adds(b, b, 1.0f, 64);
      DataCopy(gm, b, 64);
  }
}

extern "C" __global__ __aicore__ void faults(GM_ADDR x, int32_t which, int32_t zero) { run(x, which, zero); }
