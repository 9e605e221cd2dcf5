// SPDX-License-Identifier: Apache-2.0
// Names of the API that no other test kernel calls. x and y hold 128 floats; o takes 128 floats, zeros at first.
#include "kernel_operator.h"
using namespace AscendC;

struct Memory {
  TPipe pipe;
  TBuf<> buffer;
  LocalTensor<float> x, y, o;
  LocalTensor<int16_t> s;
  LocalTensor<half> h;
  LocalTensor<uint8_t> tmp;

  template <class T>
  __aicore__ inline LocalTensor<T> At(uint32_t kib, uint32_t n) {
    return buffer.GetWithOffset<T>(n, kib * 1024);
  }
  __aicore__ inline void Init(GM_ADDR a, GM_ADDR b) {
    pipe.InitBuffer(buffer, 32768);
    x = At<float>(0, 128), y = At<float>(1, 128), o = At<float>(2, 128), s = At<int16_t>(3, 512);
    h = At<half>(4, 128), tmp = At<uint8_t>(6, 1024);
    GlobalTensor<float> from;
    from.SetGlobalBuffer((__gm__ float*)a);
    from.SetL2CacheHint<CacheRwMode::READ>(CacheMode::CACHE_MODE_DISABLE);
    DataCopy(x, from, 128);
    from.SetGlobalBuffer((__gm__ float*)b);
    DataCopyPad(y, from, {1, 512, 0, 0}, DataCopyPadParams{false, 0, 0, 0});
    PipeBarrier<PIPE_ALL>();
    Duplicate(o, 0.0f, 128);
  }
  __aicore__ inline void Out(GM_ADDR to) {
    GlobalTensor<float> gm;
    gm.SetGlobalBuffer((__gm__ float*)to);
    DataSyncBarrier<MemDsbT::ALL>();
    PipeBarrier<PIPE_ALL>();
    DataCopy(gm, o, 128);
  }
};

#define ONE(NUMBER, ...) \
  case NUMBER: {         \
    __VA_ARGS__;         \
    break;               \
  }
__aicore__ inline void functions(Memory& m, int which) {
  const uint32_t n = 100;
  const auto &o = m.o, &x = m.x, &y = m.y;
  const auto bits = m.s.ReinterpretCast<float>();
  switch (which) {
    ONE(0, Neg(o, x, m.tmp, n))
    ONE(1, Atan(o, x, n))
    ONE(2, Tan(o, x, n))
    ONE(3, Acos(o, x, n))
    ONE(4, Acosh(o, y, n))
    ONE(5, Asinh(o, x, n))
    ONE(6, Asin(o, x, n))
    ONE(7, Atanh(o, x, n))
    ONE(8, Cosh(o, x, n))
    ONE(9, Sinh(o, x, n))
    ONE(10, Log10(o, y, n))
    ONE(11, Log2(o, y, n))
    ONE(12, Frac(o, y, n))
    ONE(13, Prelu(o, x, y, m.tmp, n))
    ONE(14, ReGlu(o, x, y, m.tmp, n))
    ONE(15, GeGLU(o, x, y, n))
    ONE(16, Rint(o, y, n))
    ONE(17, Swish(o, x, 1.5f, n))
    ONE(18, Erfc(o, x, n))
    ONE(19, Digamma(o, y, n))
    ONE(20, Lgamma(o, y, m.tmp, n))
    ONE(21, FasterGeluV2(o, x, m.tmp, n))
    ONE(22, Hypot(o, x, y, n))
    ONE(23, x.SetValue(3, NAN), IsNan(o, x, n))
    ONE(24, x.SetValue(5, -INFINITY), IsInf(o, x, n))
    ONE(25, Clamp(o, x, -0.25f, 0.5f, n))
    ONE(26, Arange(o, 2.0f, 0.5f, n))
    ONE(27, Mean<float>(o, x, m.tmp, MeanParams{4, 32, 25}))
    ONE(28, const uint32_t to[] = {4, 32}, from[] = {4, 1}; Broadcast<float, 2, 1>(o, x, to, from))
    ONE(29, m.s.SetValue(0, 0x1234), m.s.SetValue(128, 0x00FF), Xor(m.s[256], m.s, m.s[128], m.tmp, 1),
        o.SetValue(0, float(m.s.GetValue(256))))
    ONE(30, SoftMaxTiling tiling{}; SoftMaxShapeInfo shape{4, 32, 4, 32};
        SoftMax<float>(y, bits, bits[32], x, m.tmp, tiling, shape);
        SimpleSoftMax<float>(o, bits, bits[32], x, m.tmp, tiling, shape))
  }
}

// Registers, records of tensors and queues, what has no effect: the first line that is not right, 0 where all are.
#define RIGHT(...) \
  if (!wrong && !(__VA_ARGS__)) wrong = __LINE__
__aicore__ inline int registers(Memory& m) {
  int wrong = 0;
  half value, index;
  Cast(m.h, m.x, RoundMode::CAST_RINT, 128);
  WholeReduceMax(m.h, m.h, 128, 1, 1, 1, 8);
  ReduceMax(m.h, m.h, m.h, 64, true);
  GetReduceMaxMinCount<half>(value, index);
  RIGHT(m.h.GetValue(0) == value);
  GetReduceRepeatMaxMinSpr<half>(value, index);
  RIGHT(m.h.GetValue(0) == value);
  ReduceSum(m.o, m.x, m.y, 64);
  RIGHT(GetReduceRepeatSumSpr<float>() == m.o.GetValue(0));
  Compare(m.x, m.x, CMPMODE::EQ, 64, BinaryRepeatParams(1, 1, 1, 8, 8, 8));
  GetCmpMask(m.tmp);
  RIGHT(m.tmp.GetValue(7) == 255);
  // Lanes by intrinsics.
  Duplicate(m.o, 0.0f, 128);
  set_mask_norm();
  set_vector_mask(0, 5);
  Adds<float, false>(m.o, m.o, 1.0f, MASK_PLACEHOLDER, 1, UnaryRepeatParams(1, 1, 8, 8));
  ResetMask();
  RIGHT(m.o.GetValue(0) == 1 && m.o.GetValue(1) == 0 && m.o.GetValue(2) == 1 && m.o.GetValue(3) == 0);
  SetCtrlSpr<60, 60>(0), ResetCtrlSpr<60, 60>(), ClearSpr<1>();
  RIGHT(GetCtrlSpr<60, 60>() == 0);
  SetHF32Mode(true), SetHF32TransMode(false), SetNextTaskStart(), WaitPreTaskEnd(), ICachePreLoad(1);
  RIGHT(GetSystemCycle() >= 0 && GetProgramCounter() >= 0);
  RIGHT(CountBitsCntSameAsSignBit(-1) == 63 && CountBitsCntSameAsSignBit(1) == 62);
  RIGHT(GetVecLen() == 256 && GetDataBlockSizeInBytes() == 32 && GetUBSizeInBytes() == TOTAL_UB_SIZE);
  DumpAccChkPoint(m.o, 1, 0, 8), PrintTimeStamp(3);
  pipe_t pipe = PIPE_ALL;
  pipe_barrier(pipe);
  RIGHT(ASCENDC_CPU_DEBUG == 1 && __CCE_KT_TEST__ == 1);
  return wrong;
}

__aicore__ inline uint32_t CeilDiv(uint32_t a, uint32_t b) { return (a + b - 1) / b; }  // as kernels define it

__aicore__ inline int records(Memory& m) {
  int wrong = 0;
  const uint32_t sizes[] = {4, 8};
  m.o.SetShapeInfo(ShapeInfo(2, sizes, DataFormat::NZ));
  const ShapeInfo shape = m.o.GetShapeInfo();
  RIGHT(shape.shapeDim == 2 && shape.shape[1] == 8 && shape.dataFormat == DataFormat::NZ);
  m.o.SetUserTag(7);
  RIGHT(m.o.GetUserTag() == 7 && m.o.GetLength() == 512 && m.o.GetPosition() == int32_t(TPosition::VECCALC));
  LocalTensor<float> part = m.o;
  part.SetBufferLen(16);
  RIGHT(part.GetSize() == 16);
  TQue<TPosition::VECIN, 2> queue;
  m.pipe.InitBuffer(queue, 2, 64);
  RIGHT(queue.HasIdleBuffer() && !queue.HasTensorInQue() && queue.VacantInQue());
  auto a = queue.AllocTensor<float>(), b = queue.AllocTensor<float>();
  queue.EnQue(a), queue.EnQue(b);
  RIGHT(queue.GetTensorCountInQue() == 2 && queue.HasTensorInQue() && !queue.HasIdleBuffer());
  a = queue.DeQue<float>(), b = queue.DeQue<float>();
  queue.FreeTensor(a), queue.FreeTensor(b), queue.FreeAllEvent();
  TBufPool<TPosition::VECCALC> pool;
  TBuf<TPosition::VECCALC> inside;
  m.pipe.InitBufPool(pool, 1024);
  pool.InitBuffer(inside, 512);
  RIGHT(inside.Get<float>().GetSize() == 128);
  pool.Reset();
  LocalTensor<float> rest;
  RIGHT(PopStackBuffer<float, TPosition::LCM>(rest) && rest.GetSize() > 1024);
  RIGHT(CeilDiv(9, 4) == 3 && AscendC::DivCeil(9, 4) == 3 && AlignUp(9, 4) == 12);
  m.x.Print(2);
  ascendc_assert(wrong >= 0);
  return wrong;
}

// Moves and copies with their parameters, member by member.
__aicore__ inline void moves(Memory& m, GM_ADDR b, int which) {
  GlobalTensor<float> gm;
  gm.SetGlobalBuffer((__gm__ float*)b);
  DataCachePreload(gm.ReinterpretCast<uint64_t>(), 0);
  dcci(b, 0);
  switch (which) {
    case 0: {  // the smaller of what is there and of x
      SetAtomicMin<float>();
      DataCopy(gm, m.x, 128);
      DisableDmaAtomic();
      break;
    }
    case 1: {  // the sum, of a type that is set again
      SetAtomicAdd<half>();
      SetAtomicType<float>();
      DataCopy(gm, m.x, 128);
      SetAtomicNone();
      break;
    }
    case 2: {  // every other block
      CopyRepeatParams params;
      params.dstStride = 1, params.srcStride = 2, params.dstRepeatSize = 8, params.srcRepeatSize = 0;
      Copy(m.o, m.x, 64, 1, params);
      break;
    }
    case 3: {
      BrcbRepeatParams params;
      params.dstBlkStride = 2, params.dstRepStride = 0;
      Brcb(m.o, m.x, 1, params);
      break;
    }
    case 4: {
      GatherMaskParams params;
      params.src0BlockStride = 1, params.repeatTimes = 2, params.src0RepeatStride = 8, params.src1RepeatStride = 0;
      uint64_t kept = 0;
      GatherMask(m.o, m.x, uint8_t(2), false, 0, params, kept);
      m.o.SetValue(127, float(kept));
      break;
    }
    case 5: {
      const auto places = m.tmp.ReinterpretCast<uint32_t>();
      for (uint32_t i = 0; i < 8; ++i) places.SetValue(i, (7 - i) * 32);
      GatherRepeatParams params;
      params.dstBlkStride = 1, params.dstRepStride = 8;
      Gatherb(m.o, m.x, places, 1, params);
      break;
    }
    case 6: {  // rows of 8 words to columns: 16 rows make two blocks of each word
      TransDataTo5HDParams params;
      params.repeatTimes = 1, params.dstRepStride = 0, params.srcRepStride = 0;
      LocalTensor<float> to[16], from[16];
      for (int i = 0; i < 16; ++i) to[i] = m.o[i * 8], from[i] = m.x[i * 8];
      TransDataTo5HD<float>(to, from, params);
      break;
    }
  }
}

extern "C" __global__ __vector__ void names(GM_ADDR x, GM_ADDR y, GM_ADDR o, int group, int which) {
  KERNEL_TASK_TYPE(7, KERNEL_TYPE_MIX_AIV_1_0);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  TILING_KEY_LIST(0, 7);
  InitSocState();
  Memory m;
  m.Init(x, y);
  if (group == 0) functions(m, which);
  if (group == 1) {
    const int wrong = which ? records(m) : registers(m);
    m.o.SetValue(0, float(wrong));
  }
  if (group == 2) moves(m, y, which);
  m.Out(o);
  m.pipe.Destroy();
  LocalMemAllocator<Hardware::UB> places;
  auto after = places.Alloc<TPosition::VECCALC, float>(16);
  after.SetValue(0, 1.0f);
  if (which == 99) Trap();
}

struct Pair {
  int32_t first;
  float second[3];
};
extern "C" __global__ __aicore__ void tilings(GM_ADDR o, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(Pair);
  REGISTER_TILING_FOR_TILINGKEY("TILING_KEY_VAR == 9", Pair);
  GET_TILING_DATA_PTR_WITH_STRUCT(Pair, there, tiling);
  Pair copy;
  COPY_TILING_WITH_STRUCT(Pair, there, &copy);
  float numbers[3];
  COPY_TILING_WITH_ARRAY(float, 3, there->second, numbers);
  __gm__ float* to = (__gm__ float*)o;
  to[0] = float(copy.first), to[1] = numbers[2], to[2] = TILING_KEY_VAR;
#ifdef ORIG_DTYPE_X
  to[3] = ORIG_DTYPE_X;
#endif
}
