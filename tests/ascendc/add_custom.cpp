// SPDX-License-Identifier: Apache-2.0
// z = x + y in tiles, through queues with two blocks each.
#include "kernel_operator.h"

constexpr uint32_t kTile = 256;

class Adder {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t total) {
    length_ = total / AscendC::GetBlockNum();
    const uint32_t first = length_ * AscendC::GetBlockIdx();
    x_.SetGlobalBuffer((__gm__ half*)x + first, length_);
    y_.SetGlobalBuffer((__gm__ half*)y + first, length_);
    z_.SetGlobalBuffer((__gm__ half*)z + first, length_);
    pipe_.InitBuffer(in_x_, 2, kTile * sizeof(half));
    pipe_.InitBuffer(in_y_, 2, kTile * sizeof(half));
    pipe_.InitBuffer(out_, 2, kTile * sizeof(half));
  }
  __aicore__ inline void Process() {
    for (uint32_t at = 0; at < length_; at += kTile) {
      Load(at);
      Compute();
      Store(at);
    }
  }

 private:
  __aicore__ inline void Load(uint32_t at) {
    AscendC::LocalTensor<half> x = in_x_.AllocTensor<half>(), y = in_y_.AllocTensor<half>();
    AscendC::DataCopy(x, x_[at], kTile);
    AscendC::DataCopy(y, y_[at], kTile);
    in_x_.EnQue(x);
    in_y_.EnQue(y);
  }
  __aicore__ inline void Compute() {
    AscendC::LocalTensor<half> x = in_x_.DeQue<half>(), y = in_y_.DeQue<half>(), z = out_.AllocTensor<half>();
    AscendC::Add(z, x, y, kTile);
    out_.EnQue<half>(z);
    in_x_.FreeTensor(x);
    in_y_.FreeTensor(y);
  }
  __aicore__ inline void Store(uint32_t at) {
    AscendC::LocalTensor<half> z = out_.DeQue<half>();
    AscendC::DataCopy(z_[at], z, kTile);
    out_.FreeTensor(z);
  }

  AscendC::TPipe pipe_;
  AscendC::TQue<AscendC::QuePosition::VECIN, 2> in_x_, in_y_;
  AscendC::TQue<AscendC::QuePosition::VECOUT, 2> out_;
  AscendC::GlobalTensor<half> x_, y_, z_;
  uint32_t length_;
};

extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t total) {
  Adder op;
  op.Init(x, y, z, total);
  op.Process();
}
