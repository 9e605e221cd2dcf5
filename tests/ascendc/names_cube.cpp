// SPDX-License-Identifier: Apache-2.0
// Names of the cube and of Matmul that no other test kernel calls.
#define ASCENDC_CUBE_ONLY
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
using namespace AscendC;

using A = matmul::MatmulType<TPosition::GM, CubeFormat::ND, int8_t>;
using B = matmul::MatmulType<TPosition::GM, CubeFormat::ND, int8_t, true>;
using C = matmul::MatmulType<TPosition::GM, CubeFormat::ND, half>;
using V = matmul::MatmulType<TPosition::GM, CubeFormat::ND, int32_t>;

// c = scale * a @ b, from the cube core alone; `vector`: a scale for each column.
extern "C" __global__ __cube__ void product(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR scales, GM_ADDR c, int vector,
                                            GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  GET_TILING_DATA_WITH_STRUCT(TCubeTiling, plan, tiling);
  GlobalTensor<int8_t> x, y;
  GlobalTensor<int32_t> v;
  GlobalTensor<uint64_t> words;
  GlobalTensor<half> z;
  x.SetGlobalBuffer((__gm__ int8_t*)a), y.SetGlobalBuffer((__gm__ int8_t*)b), v.SetGlobalBuffer((__gm__ int32_t*)bias);
  words.SetGlobalBuffer((__gm__ uint64_t*)scales), z.SetGlobalBuffer((__gm__ half*)c);
  TPipe pipe;
  MatmulImpl<A, B, C, V, CFG_NORM> norm;
  MatmulImpl<A, B, C, V, CFG_MDL> mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &plan);
  mm.SetSubBlockIdx(0), mm.SetHF32(false), mm.SetUserDefInfo(1), mm.SetSelfDefineData(2);
  mm.SetWorkspace(z), mm.SetLocalWorkspace(LocalTensor<uint8_t>());
  mm.SetSingleShape(plan.M, plan.N, plan.Ka);
  mm.SetTensorA(x), mm.SetTensorB(y, true), mm.SetBias(v), mm.ClearBias(), mm.SetBias(v), mm.DisableBias();
  if (vector) mm.SetQuantVector(words);
  else mm.SetQuantScalar(words.GetValue(0));
  mm.IterateAll(z);
  mm.WaitIterateAll(), mm.WaitGetTensorC();
  mm.End();
}

// A row of an image of 4 x 4 points out of L1 as LoadData in 3D reads it, by SetFmatrix, its border a number.
extern "C" __global__ __aicore__ void image(GM_ADDR from, GM_ADDR to) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  TPipe pipe;
  TBuf<TPosition::A1> l1;
  TBuf<TPosition::A2> left;
  TBuf<TPosition::B2> right;
  TBuf<TPosition::CO1> sums;
  pipe.InitBuffer(l1, 4096), pipe.InitBuffer(left, 4096), pipe.InitBuffer(right, 4096), pipe.InitBuffer(sums, 4096);
  GlobalTensor<half> x;
  GlobalTensor<float> y;
  x.SetGlobalBuffer((__gm__ half*)from), y.SetGlobalBuffer((__gm__ float*)to);
  const LocalTensor<half> in = l1.Get<half>(), ones = right.Get<half>();
  __cbuf__ half* unused = nullptr;
  (void)unused;
  DataCopy(in, x, 256);  // 16 points of 16 channels
  PipeBarrier<PIPE_ALL>();
  Fill(ones, InitConstValueParams<half>(1, 1, 0, half(1)));
  const uint8_t none[4] = {1, 1, 1, 1};
  SetFmatrix(4, 4, none, FmatrixMode::FMATRIX_LEFT);
  SetLoadDataPaddingValue(half(2)), SetLoadDataBoundary(0);
  LoadData3DParamsV2<half> v2;
  v2.l1H = 4, v2.l1W = 4, v2.channelSize = 16, v2.kExtension = 16, v2.mExtension = 16;
  v2.filterW = 3, v2.filterH = 3, v2.padList[0] = v2.padList[1] = v2.padList[2] = v2.padList[3] = 1;
  LoadData<half, IS_RESER_LOAD3D_DEFAULT_CONFIG>(left.Get<half>(), in, v2);
  LoadData3DParamsV1<half> v1;
  v1.l1H = 4, v1.l1W = 4, v1.repeatTime = 1, v1.padValue = half(0);
  LoadData(left.Get<half>()[512], in, v1);
  PipeBarrier<PIPE_ALL>();
  const LocalTensor<float> c = sums.Get<float>();
  MmadParams params;
  params.m = params.n = params.k = 16;
  constexpr FixpipeConfig rows = {CO2Layout::ROW_MAJOR};
  static_assert(rows.format == CFG_ROW_MAJOR.format, "the same");
  for (int i = 0; i < 2; ++i) {
    Mmad(c, left.Get<half>()[512 * i], ones, params);
    PipeBarrier<PIPE_ALL>();
    Fixpipe<float, float, CFG_ROW_MAJOR>(y[256 * i], c, FixpipeParamsV220(16, 16, 16, 16, false));
    PipeBarrier<PIPE_ALL>();
  }
}

// Proposals, of chips whose cores are one.
#if __NPU_ARCH__ == 2002
extern "C" __global__ __aicore__ void proposals(GM_ADDR from, GM_ADDR to) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, 16384);
  GlobalTensor<half> x, y;
  x.SetGlobalBuffer((__gm__ half*)from), y.SetGlobalBuffer((__gm__ half*)to);
  const auto at = [&](int kib) { return buffer.GetWithOffset<half>(1024, kib * 2048); };
  static_assert(TOTAL_UB_SIZE == 262144 && GetUBSizeInBytes() == 262144, "of this chip");
  DataCopy(at(0), x, 64);
  Duplicate(at(1), half(0), 1024);
  PipeBarrier<PIPE_ALL>();
  ProposalConcat(at(1), at(0), 4, 4);  // scores into 64 proposals
  RpSort16(at(2), at(1), 4);
  const uint16_t lengths[4] = {16, 16, 16, 16};
  MrgSort4(at(3), MrgSortSrcList<half>(at(2), at(2)[128], at(2)[256], at(2)[384]), MrgSort4Info(lengths, false, 15, 1));
  ProposalExtract(at(4), at(3), 4, 4);
  PipeBarrier<PIPE_ALL>();
  DataCopy(y, at(4), 64);
}
#endif
