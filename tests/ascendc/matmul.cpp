// SPDX-License-Identifier: Apache-2.0
// Products by Matmul: from GM and UB, into GM and UB, transposed, with bias, in batches.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
using namespace matmul;

struct Plan {
  TCubeTiling cube;
  int32_t mode, transposeA, transposeB, batch;
};

enum Mode { kAll, kBlocks, kFromUb, kBatch, kAtomic, kAsync, kNever, kBatchNumber };

template <class T, class C, class V, CubeFormat FORMAT = CubeFormat::ND>
class Product {
 public:
  Matmul<MatmulType<TPosition::GM, CubeFormat::ND, T, true>, MatmulType<TPosition::GM, CubeFormat::ND, T, true>,
         MatmulType<TPosition::GM, FORMAT, C>, MatmulType<TPosition::GM, CubeFormat::ND, V>>
      mm;

  __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, const Plan& plan, TPipe* pipe) {
    plan_ = plan, pipe_ = pipe;
    const TCubeTiling& t = plan_.cube;
    const int32_t across = (t.N + t.singleCoreN - 1) / t.singleCoreN;
    row_ = GetBlockIdx() / across * t.singleCoreM, column_ = GetBlockIdx() % across * t.singleCoreN;
    a_.SetGlobalBuffer((__gm__ T*)a), b_.SetGlobalBuffer((__gm__ T*)b), c_.SetGlobalBuffer((__gm__ C*)c);
    bias_.SetGlobalBuffer((__gm__ V*)bias);
    has_bias_ = bias != nullptr;
  }

  __aicore__ inline void Process() {
    const TCubeTiling& t = plan_.cube;
    if (row_ >= t.M || column_ >= t.N) return;
    mm.SetTail(t.M - row_ < t.singleCoreM ? t.M - row_ : -1, t.N - column_ < t.singleCoreN ? t.N - column_ : -1);
    mm.SetTensorA(a_[plan_.transposeA ? row_ : row_ * t.Ka], plan_.transposeA);
    mm.SetTensorB(b_[plan_.transposeB ? column_ * t.Kb : column_], plan_.transposeB);
    if (has_bias_) mm.SetBias(bias_[column_]);
    const auto c = c_[row_ * t.N + column_];
    switch (plan_.mode) {
      case kBlocks:
        return Blocks();
      case kBatch:
        return mm.IterateBatch(c_, plan_.batch, 1);
      case kBatchNumber:
        mm.SetBatchNum(plan_.batch, 1);
        return mm.IterateBatch(c_, 1, 1);
      case kAtomic:
        mm.IterateAll(c);
        return mm.IterateAll(c, 1);
      case kAsync:
        return Async();
      case kNever:
        return CrossCoreWaitFlag(5);
      default:
        mm.IterateAll(c);
        mm.End();
    }
  }

 private:
  // Each base block comes to UB, is doubled there, and goes out by the vector core.
  __aicore__ inline void Blocks() {
    const TCubeTiling& t = plan_.cube;
    TQue<TPosition::VECIN, 1> in;
    pipe_->InitBuffer(in, 2, t.baseM * t.baseN * sizeof(C));
    int32_t block = 0;
    const int32_t down = (Rows() + t.baseM - 1) / t.baseM;
    while (mm.template Iterate<true>()) {
      LocalTensor<C> ub = in.template AllocTensor<C>();
      mm.template GetTensorC<true>(ub, false, true);
      in.EnQue(ub);
      ub = in.template DeQue<C>();
      const int32_t r = block % down * t.baseM, c = block / down * t.baseN;
      const int32_t m = min(t.baseM, Rows() - r), n = min(t.baseN, Columns() - c);
      if constexpr (std::is_same<C, float>::value) Add(ub, ub, ub, t.baseM * t.baseN);
      const uint32_t gap = (t.baseN - n) * sizeof(C) / 32;
      DataCopyPad(c_[(row_ + r) * t.N + column_ + c], ub,
                  DataCopyExtParams(m, n * sizeof(C), gap, (t.N - n) * sizeof(C), 0));
      in.FreeTensor(ub);
      ++block;
    }
  }
  __aicore__ inline void Async() {
    const TCubeTiling& t = plan_.cube;
    mm.template Iterate<false>();
    for (int32_t i = 0; i < Rows() / t.baseM * (Columns() / t.baseN); ++i) {
      mm.template GetTensorC<false>(c_, 0, true);
    }
  }
  __aicore__ inline int32_t min(int32_t a, int32_t b) { return a < b ? a : b; }
  __aicore__ inline int32_t Rows() { return min(plan_.cube.singleCoreM, plan_.cube.M - row_); }
  __aicore__ inline int32_t Columns() { return min(plan_.cube.singleCoreN, plan_.cube.N - column_); }

  GlobalTensor<T> a_, b_;
  GlobalTensor<C> c_;
  GlobalTensor<V> bias_;
  Plan plan_;
  TPipe* pipe_ = nullptr;
  int32_t row_ = 0, column_ = 0;
  bool has_bias_ = false;
};

// A comes from UB, where it was squared.
__aicore__ inline void from_ub(GM_ADDR a, GM_ADDR b, GM_ADDR c, const Plan& plan) {
  TPipe pipe;
  Matmul<MatmulType<TPosition::VECCALC, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
         MatmulType<TPosition::VECIN, CubeFormat::ND, float>>
      mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm);
  const TCubeTiling& t = plan.cube;
  if (GetBlockIdx() >= t.usedCoreNum) return;
  mm.Init(&plan.cube);
  TBuf<> in, out;
  pipe.InitBuffer(in, t.M * t.Ka * sizeof(half));
  pipe.InitBuffer(out, t.M * t.N * sizeof(float));
  GlobalTensor<half> ga, gb;
  GlobalTensor<float> gc;
  ga.SetGlobalBuffer((__gm__ half*)a), gb.SetGlobalBuffer((__gm__ half*)b), gc.SetGlobalBuffer((__gm__ float*)c);
  LocalTensor<half> x = in.Get<half>();
  LocalTensor<float> y = out.Get<float>();
  DataCopy(x, ga, t.M * t.Ka);
  PipeBarrier<PIPE_ALL>();
  Mul(x, x, x, t.M * t.Ka);
  mm.SetTensorA(x);
  mm.SetTensorB(gb);
  mm.IterateAll(y);
  DataCopy(gc, y, t.M * t.N);
}

template <class T, class C, class V>
__aicore__ inline void product(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, const Plan& plan) {
  TPipe pipe;
  Product<T, C, V> op;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), op.mm, &plan.cube);
  op.Init(a, b, bias, c, plan, &pipe);
  op.Process();
}

extern "C" __global__ __aicore__ void mm(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR workspace,
                                         GM_ADDR tiling) {
  if (GetSysWorkSpacePtr() == nullptr || GetUserWorkspace(workspace) <= GetSysWorkSpacePtr()) return;
  const Plan plan = *(__gm__ Plan*)tiling;
  if (plan.mode == kFromUb) {
    from_ub(a, b, c, plan);
  } else if (TILING_KEY_IS(0)) {
    product<half, float, float>(a, b, bias, c, plan);
  } else if (TILING_KEY_IS(1)) {
    product<half, half, half>(a, b, bias, c, plan);
  } else if (TILING_KEY_IS(2)) {
    product<bfloat16_t, bfloat16_t, float>(a, b, bias, c, plan);
  } else if (TILING_KEY_IS(3)) {
    product<float, float, float>(a, b, bias, c, plan);
  } else if (TILING_KEY_IS(4)) {
    product<int8_t, int32_t, int32_t>(a, b, bias, c, plan);
  }
}
