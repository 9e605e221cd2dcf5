// SPDX-License-Identifier: Apache-2.0
// Kernels of published measurements whose figures depend on the queues of Ascend C.
#include "kernel_operator.h"
using namespace AscendC;

// `count` tiles of `n` elements on each core: z = x + y through queues of one block.
extern "C" __global__ __aicore__ void queued(GM_ADDR x_, GM_ADDR y_, GM_ADDR z_, int32_t count, int32_t n) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in_x, in_y;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(in_x, 1, n * sizeof(half));
  pipe.InitBuffer(in_y, 1, n * sizeof(half));
  pipe.InitBuffer(out, 1, n * sizeof(half));
  GlobalTensor<half> x, y, z;
  x.SetGlobalBuffer((__gm__ half*)x_ + GetBlockIdx() * count * n);
  y.SetGlobalBuffer((__gm__ half*)y_ + GetBlockIdx() * count * n);
  z.SetGlobalBuffer((__gm__ half*)z_ + GetBlockIdx() * count * n);
  for (int32_t i = 0; i < count; ++i) {
    LocalTensor<half> a = in_x.AllocTensor<half>(), b = in_y.AllocTensor<half>();
    DataCopy(a, x[i * n], n);
    DataCopy(b, y[i * n], n);
    in_x.EnQue(a);
    in_y.EnQue(b);
    a = in_x.DeQue<half>(), b = in_y.DeQue<half>();
    LocalTensor<half> c = out.AllocTensor<half>();
    Add(c, a, b, n);
    out.EnQue(c);
    in_x.FreeTensor(a);
    in_y.FreeTensor(b);
    c = out.DeQue<half>();
    DataCopy(z[i * n], c, n);
    out.FreeTensor(c);
  }
}
