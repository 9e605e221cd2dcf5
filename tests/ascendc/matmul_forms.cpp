// SPDX-License-Identifier: Apache-2.0
// Rarer forms of Matmul: tilings of constants, partial sums, blocks through a workspace, batches of batches.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
using namespace AscendC;

enum Form { kWhole, kMixed, kPartial, kTwoSums, kAtomicBlocks, kWorkspace, kAsync, kBatches, kBatchesUb, kTaken };

constexpr uint32_t kM = 48, kN = 40, kK = 72;
using A = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using C = MatmulType<TPosition::GM, CubeFormat::ND, float>;
__aicore__ constexpr MatmulConfig constants(bool whole) {
  MatmulConfig config = GetNormalConfig(false, false, false, BatchMode::NONE, true, IterateOrder::ORDER_N);
  config.basicM = 32, config.basicN = 16, config.basicK = 32;
  if (whole) config.singleCoreM = kM, config.singleCoreN = kN, config.singleCoreK = kK;
  return config;
}
constexpr MatmulApiStaticTiling kAll = GetMatmulApiTiling<A, A, C, C>(constants(true));
constexpr MatmulApiStaticTiling kBase = GetMatmulApiTiling<A, A, C, C>(constants(false), 524288);
static_assert(kAll.baseN == 16 && kAll.singleCoreK == 72 && kAll.depthA1 == 3 && kBase.singleCoreM == -1);
constexpr auto kParts = GetMatmulApiTiling<A, A, C, C>(
    GetMMConfig<MatmulConfigMode::CONFIG_MDL>(MatmulShapeParams{kM, kN, kK, 16, 16, 16}, MatmulFuncParams{}));
static_assert(kParts.baseM == 16 && kParts.cfg.doMultiDataLoad);
static_assert(GetMDLConfig(true, false, 1).doMTE2Preload == 1 && GetBasicConfig(64, 32, 16).basicN == 32);
static_assert(GetSpecialBasicConfig(16, 16, 16, 64, 48, 32, 2, 1).singleCoreN == 48);

struct Operands {
  GlobalTensor<half> a, b;
  GlobalTensor<float> c, work;
  TCubeTiling cube;
  int32_t parts;
};

template <class M>
__aicore__ inline void partial(M& mm, Operands& o, bool twice) {
  const int32_t step = o.cube.Ka / o.parts;
  mm.SetSingleShape(o.cube.M, o.cube.N, step);
  for (int32_t i = 0; i < o.parts; ++i) {
    mm.SetTensorA(o.a[i * step]);
    mm.SetTensorB(o.b[i * step * o.cube.N]);
    mm.Iterate(i > 0 || twice);
  }
}

// Two objects whose sums grow in turn: each keeps its own.
__aicore__ inline void two_sums(TPipe* pipe, Operands& o) {
  Matmul<A, A, C> first, second;
  REGIST_MATMUL_OBJ(pipe, GetSysWorkSpacePtr(), first, &o.cube, second, &o.cube);
  const int32_t step = o.cube.Ka / o.parts;
  first.SetSingleShape(o.cube.M, o.cube.N, step), second.SetSingleShape(o.cube.M, o.cube.N, step);
  for (int32_t i = 0; i < o.parts; ++i) {
    first.SetTensorA(o.a[i * step]), first.SetTensorB(o.b[i * step * o.cube.N]);
    first.Iterate(i > 0);
    if (i + 1 == o.parts) break;
    second.SetTensorA(o.a[i * step]), second.SetTensorB(o.b[i * step * o.cube.N]);
    second.Iterate(i > 0);
  }
  first.GetTensorC(o.c);
  second.GetTensorC(o.c, 1);
}

template <class M>
__aicore__ inline void batches(TPipe* pipe, M& mm, Operands& o, bool to_ub) {
  const uint32_t each = 2, count = o.cube.M * o.cube.N * each;
  TBuf<> buffer;
  pipe->InitBuffer(buffer, count * sizeof(float));
  LocalTensor<float> ub = buffer.Get<float>();
  mm.SetWorkspace(o.work);
  mm.SetTensorA(o.a), mm.SetTensorB(o.b);
  mm.template IterateNBatch<false, false>(o.parts, each, 1, false);
  for (int32_t i = 0; i < o.parts; ++i) {
    if (to_ub) {
      if (i % 2) mm.template GetBatchC<false>(ub, each, 1);
      else mm.template GetBatchTensorC<false>(ub, each, 1);
    } else {
      GlobalTensor<float> part = i % 2 ? mm.template GetBatchC<false>(each, 1) : mm.template GetBatchTensorC<false>(each, 1);
      DataCopy(ub, part, count);
    }
    PipeBarrier<PIPE_ALL>();
    Muls(ub, ub, 2.0f, count);
    PipeBarrier<PIPE_ALL>();
    DataCopy(o.c[i * count], ub, count);
    PipeBarrier<PIPE_ALL>();
  }
}

// One block after another by way of UB.
template <class M>
__aicore__ inline void blocks(TPipe* pipe, M& mm, Operands& o, int form) {
  const int32_t count = o.cube.baseM * o.cube.baseN, number = o.cube.M / o.cube.baseM * (o.cube.N / o.cube.baseN);
  TBuf<> buffer;
  pipe->InitBuffer(buffer, count * sizeof(float));
  LocalTensor<float> ub = buffer.Get<float>();
  mm.SetWorkspace((__gm__ const float*)o.work.GetPhyAddr(), o.cube.M * o.cube.N);
  mm.SetTensorA(o.a), mm.SetTensorB(o.b);
  mm.template Iterate<false>();
  for (int32_t i = 0; i < number; ++i) {
    if (form == kAsync) mm.AsyncGetTensorC(ub);
    else DataCopy(ub, mm.template GetTensorC<false>(), count);
    mm.WaitGetTensorC();
    PipeBarrier<PIPE_ALL>();
    DataCopy(o.c[i * count], ub, count);
    PipeBarrier<PIPE_ALL>();
  }
}

extern "C" __global__ __aicore__ void forms(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR work, GM_ADDR tiling, int form) {
  TPipe pipe;
  Operands o;
  o.cube = *(__gm__ TCubeTiling*)tiling, o.parts = *(__gm__ int32_t*)(tiling + sizeof(TCubeTiling));
  o.a.SetGlobalBuffer((__gm__ half*)a), o.b.SetGlobalBuffer((__gm__ half*)b);
  o.c.SetGlobalBuffer((__gm__ float*)c), o.work.SetGlobalBuffer((__gm__ float*)work);
  if (form == kWhole) {
    Matmul<A, A, C, C, kAll> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, (TCubeTiling*)nullptr);
    if (matmul::GetBlockIdx()) return;
    mm.SetTensorA(o.a), mm.SetTensorB(o.b);
    return mm.IterateAll(o.c);
  }
  if (form == kMixed) {
    Matmul<A, A, C, C, kBase> mm;
    matmul::MatmulImpl<A, A, C, C, kAll> unused;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &o.cube, unused, nullptr);
    if (GetBlockIdx()) return;
    mm.SetTensorA(o.a), mm.SetTensorB(o.b);
    while (mm.Iterate()) mm.GetTensorC(o.c, 0, true);
    return;
  }
  if (form == kTwoSums) return two_sums(&pipe, o);
  Matmul<A, A, C> mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &o.cube);
  if (GetBlockIdx()) return;
  if (form == kPartial) {
    partial(mm, o, false);
    mm.GetTensorC(o.c);
  } else if (form == kTaken) {  // what A and B were when Iterate was called counts
    mm.SetTensorA(o.a), mm.SetTensorB(o.b);
    mm.Iterate();
    for (int32_t i = 0; i < o.cube.M * o.cube.Ka; ++i) o.a.SetValue(i, half(0));
    mm.GetTensorC(o.c);
  } else if (form == kAtomicBlocks) {
    mm.SetTensorA(o.a), mm.SetTensorB(o.b);
    while (mm.Iterate()) mm.GetTensorC(o.c, 1);
  } else if (form == kBatches || form == kBatchesUb) {
    batches(&pipe, mm, o, form == kBatchesUb);
  } else if (form == kWorkspace || form == kAsync) {
    blocks(&pipe, mm, o, form);
  } else {  // refusals
    if (form == 20) mm.Init(nullptr);
    if (form == 21) partial(mm, o, true);
    if (form == 24) mm.GetTensorC();
    mm.SetTensorA(o.a), mm.SetTensorB(o.b);
    mm.Iterate(false);
    if (form == 22) mm.Iterate<false>(true);
    if (form == 23) mm.SetSingleShape(o.cube.M + 1, o.cube.N, 16), mm.Iterate(true);
    if (form == 25) mm.SetBias(o.work), mm.Iterate(true);
    if (form == 26) mm.SetSingleShape(o.cube.M - 1, o.cube.N, 16), mm.Iterate(true);
    if (form == 27) {
      TBuf<> buffer;
      pipe.InitBuffer(buffer, 4096);
      mm.SetWorkspace(o.work), mm.IterateNBatch(1, 1, 1, false);
      mm.GetBatchTensorC(buffer.Get<float>(), 1, 1);
    }
  }
}
