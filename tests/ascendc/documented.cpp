// SPDX-License-Identifier: Apache-2.0
// Forms of calls that the manual lists beside the usual ones, one for each number. x and y hold 512 floats, i 512 int32
// numbers; o takes 4 KiB, which are zeros at first.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
using namespace AscendC;

// Configurations of Matmul out of parts.
constexpr MatmulShapeParams kShape = {128, 128, 64, 64, 64, 32};
constexpr MatmulConfig kParts =
    GetMMConfig<MatmulConfigMode::CONFIG_MDL>(kShape, MatmulFuncParams{false, true}, MatmulBatchParams{false});
constexpr MatmulConfig kSpecial = GetSpecialMDLConfig();
using Side = matmul::MatmulType<TPosition::GM, CubeFormat::ND, half>;
static_assert(sizeof(matmul::Matmul<Side, Side, Side, Side, kParts>) == sizeof(Matmul<Side, Side, Side, Side, kSpecial>));

struct Memory {
  TPipe pipe;
  TBuf<> buffer;
  LocalTensor<float> x, y, f;
  LocalTensor<half> h, hx, hy;
  LocalTensor<int32_t> i, n;
  LocalTensor<int16_t> s, sx, sy;
  LocalTensor<int8_t> b;
  LocalTensor<uint8_t> tmp, bits;
  uint64_t mask[2] = {0x5555555555555555, 0xF};

  template <class T>
  __aicore__ inline void At(LocalTensor<T>& t, uint32_t kib, uint32_t size = 4096) {
    t = buffer.GetWithOffset<T>(size / sizeof(T), kib * 1024);
  }
  __aicore__ inline void Init(GM_ADDR gx, GM_ADDR gy, GM_ADDR gi) {
    pipe.InitBuffer(buffer, 65536);
    At(x, 0, 2048), At(y, 4, 2048), At(i, 8), At(hx, 12), At(hy, 16), At(sx, 20), At(sy, 24), At(tmp, 28), At(bits, 32);
    At(f, 40), At(h, 40), At(n, 40), At(s, 40), At(b, 40);
    GlobalTensor<float> from;
    from.SetGlobalBuffer((__gm__ float*)gx);
    DataCopy(x, from, 512);
    from.SetGlobalBuffer((__gm__ float*)gy);
    DataCopy(y, from, 512);
    GlobalTensor<int32_t> whole;
    whole.SetGlobalBuffer((__gm__ int32_t*)gi);
    DataCopy(i, whole, 512);
    PipeBarrier<PIPE_ALL>();
    Cast(hx, x, RoundMode::CAST_RINT, 512);
    Cast(hy, y, RoundMode::CAST_RINT, 512);
    Cast(sx, i, RoundMode::CAST_NONE, 512);
    Adds(sy, sx, 3, 512);
    Duplicate(f, 0.0f, 1024);
  }
  __aicore__ inline void Out(GM_ADDR o) {
    GlobalTensor<float> to;
    to.SetGlobalBuffer((__gm__ float*)o);
    PipeBarrier<PIPE_ALL>();
    DataCopy(to, f, 1024);
  }
};

__aicore__ inline void functions(Memory& m, GM_ADDR gi, int which) {
  switch (which) {
    case 0: Exp<float, 10, true>(m.f, m.x, m.tmp, 500); break;
    case 1: Exp<float, 10>(m.f, m.x, uint32_t(500)); break;
    case 2: Exp<float, false>(m.f, m.x, uint32_t(500)); break;  // the instruction
    case 3: Power(m.f, 2.0f, m.x, m.tmp, 500); break;
    case 4: Power<float, true>(m.f, 2.0f, m.x, m.tmp); break;
    case 5: Power(m.f, 2.0f, m.x); break;
    case 6: Power(m.f, m.y, 3.0f, m.tmp); break;
    case 7: Power(m.n, m.i, 3, m.tmp, 500); break;
    case 8: Power<int32_t>(m.n, -2, m.i, 500); break;
    case 9: Axpy<float, half, false>(m.f, m.hx, half(0.3), m.tmp, 500); break;
    case 10: Gelu<float, true, false>(m.f, m.x, m.tmp, 500); break;
    case 11: FasterGelu<float, false, true>(m.f, m.x, 500); break;
    case 12:
    case 13: {
      LayerNormTiling tiling{2, 4, 64, 64};
      Duplicate(m.y, 1.0f, 64), Duplicate(m.y[64], 0.0f, 64);
      if (which == 12) LayerNorm<float, false>(m.f, m.y[128], m.y[136], m.x, m.y, m.y[64], m.tmp, 1e-5f, tiling);
      else LayerNorm<false>(m.f, m.y[128], m.y[136], m.x, m.y, m.y[64], m.tmp, 1e-5f, tiling);
      break;
    }
    case 14: {  // rows of 60 in 64; behind them means and reciprocals of standard deviations
      const LayerNormSeparateTiling tiling{8, 60};
      LayerNorm<float, float>(m.f, m.f[512], m.f[520], m.x, m.y, m.y[64], m.tmp, 1e-5f, LayerNormPara{8, 60, 64}, tiling);
      break;
    }
    case 15: {
      const LayerNormPara para{8, 64, 0};
      LayerNorm<float, half, false, LNCFG_NOBETA>(m.h, m.f[512], m.f[520], m.hx, m.y, m.y, 1e-5f, para, {});
      LocalTensor<half> z = m.sx.ReinterpretCast<half>();
      LayerNorm<half, half, false, LNCFG_NOGAMMA>(z, m.f[528], m.f[536], m.hx, m.hy, m.hy, 1e-5f, para, {});
      Cast(m.x, m.h, RoundMode::CAST_NONE, 512), Adds(m.f, m.x, 0.0f, 512), Cast(m.x, z, RoundMode::CAST_NONE, 512);
      Adds(m.f[544], m.x, 0.0f, 64);  // of the second its first row
      break;
    }
    case 17:
    case 18: {  // rows of 24 bytes of two elements, 40 bytes apart, into rows of 32
      GlobalTensor<int4b_t> from;
      from.SetGlobalBuffer((__gm__ int4b_t*)gi, 16384);
      const LocalTensor<int4b_t> t = m.tmp.ReinterpretCast<int4b_t>();
      DataCopyPad(t, from[16], DataCopyExtParams(4, 24, 16, 0, 0), DataCopyPadExtParams<int4b_t>{which == 18, 0, 0, 0});
      PipeBarrier<PIPE_ALL>();
      Cast(m.hx, t, RoundMode::CAST_NONE, 256), Cast(m.f, m.hx, RoundMode::CAST_NONE, 256);
      break;
    }
    case 16: {
      uint32_t version = 0;
      GetArchVersion(version);
      m.f.SetValue(0, float(version));
      break;
    }
  }
}

__aicore__ inline void conversions(Memory& m, int which) {
  const BinaryRepeatParams spread = {1, 1, 1, 4, 8, 16};  // of the second source every other repeat
  switch (which) {
    case 0: AddReluCast(m.h, m.x, m.y, 40, 3, spread); break;
    case 1: SubReluCast(m.h, m.x, m.y, m.mask, 3, spread); break;
    case 2: AddReluCast(m.b, m.hx, m.hy, 100, 2, {1, 1, 1, 4, 8, 8}); break;
    case 3: SubReluCast(m.b, m.sx, m.sy, m.mask, 2, {1, 1, 1, 4, 8, 8}); break;
    case 4: SetVectorMask<half>(0, 0xFF), AddReluCast<int8_t, half, false>(m.b, m.hx, m.hy, MASK_PLACEHOLDER, 1, spread);
      ResetMask();
      break;
    case 5: SetDeqScale(half(0.5)), AddDeqRelu(m.h, m.i, m.i, 40, 3, {1, 1, 1, 4, 8, 8}); break;
    case 6: SetDeqScale(half(0.5)), AddDeqRelu(m.h, m.i, m.i, m.mask, 3, {1, 1, 1, 4, 8, 8}); break;
    case 7: SetDeqScale(half(0.5)), CastDeq<half, int32_t, true, false>(m.h, m.i, 500); break;
    case 8: SetDeqScale(half(0.5)), CastDequant(m.h, m.i, m.mask, 3, {1, 1, 4, 8}); break;
    case 9: MulCast(m.b, m.hx, m.hy, m.mask, 2, {1, 1, 1, 4, 8, 8}); break;
    case 10:
      SetSaturationFlag<SaturationMode::CAST>(false);
      Cast(m.s, m.i, RoundMode::CAST_NONE, 500);
      m.n.SetValue(1023, GetSaturationFlag<SaturationMode::CAST>());
      SetSaturationFlag<SaturationMode::CAST>(true);
      Cast(m.s[512], m.i, RoundMode::CAST_NONE, 500);
      break;
    case 11:
      Muls(m.h, m.hx, half(60000), 500);
      SetSaturationFlag<SaturationMode::FLOAT>(true);
      Muls(m.h[512], m.hx, half(60000), 500);
      m.n.SetValue(1023, GetSaturationFlag<SaturationMode::FLOAT>());
      SetSaturationFlag<SaturationMode::FLOAT>(false);
      Muls(m.h[1024], m.hx, half(60000), 500);
      break;
  }
}

__aicore__ inline void selections(Memory& m, int which) {
  Compare(m.bits, m.x, m.y, CMPMODE::LT, 512);
  SetVectorMask<float>(0, (uint64_t(1) << 40) - 1);
  const BinaryRepeatParams p = {1, 1, 1, 8, 8, 8};
  const LocalTensor<int64_t> where = m.tmp.ReinterpretCast<int64_t>();
  switch (which) {
    case 0: SetCmpMask(m.bits), Select<float, SELMODE::VSEL_CMPMASK_SPR>(m.f, m.x, m.y, 4, p); break;
    case 1:
      where.SetValue(0, reinterpret_cast<int64_t>(reinterpret_cast<__ubuf__ int64_t*>(m.bits.GetPhyAddr())));
      SetCmpMask(where);
      Select<float, SELMODE::VSEL_TENSOR_TENSOR_MODE>(m.f, m.x, m.y, 4, p);
      break;
    case 2: SetCmpMask(m.y), Select(m.f, m.bits, m.x, 4, p); break;
  }
  ResetMask();
}

__aicore__ inline void moves(Memory& m, GM_ADDR o, int which) {
  GlobalTensor<half> to;
  to.SetGlobalBuffer((__gm__ half*)o);
  TQueSync<PIPE_V, PIPE_MTE3> sync;
  sync.SetFlag(2), sync.WaitFlag(2);
  SetPadValue(0.5f), SetPadValue<half>(half(1)), SetPadValue<half, TPosition::MAX>(half(1));
  PipeBarrier<PIPE_ALL>();
  for (int64_t core = block_idx; core < 1; core += block_num) {  // two matrices of 8 x 16 out of columns of 16
    DataCopy(to, m.hx, Nz2NdParamsFull(2, 4, 32, 1, 8, 40, 400));
  }
}

extern "C" __global__ __aicore__ void documented(GM_ADDR x, GM_ADDR y, GM_ADDR i, GM_ADDR o, int group, int which) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  PRELOAD(2);
  Memory m;
  m.Init(x, y, i);
  assert(group >= 0);
  if (group == 0) functions(m, i, which);
  if (group == 1) conversions(m, which);
  if (group == 2) selections(m, which);
  if (group == 3) return moves(m, o, which);
  m.Out(o);
}
