// SPDX-License-Identifier: Apache-2.0
// Calls of the API, one group for each number: f and h hold 512 float and half inputs, i int32 ones; o is the output.
#include "kernel_operator.h"
using namespace AscendC;

struct Memory {
  TPipe pipe;
  TBuf<> buffer;
  __aicore__ inline Memory() { pipe.InitBuffer(buffer, 65536); }
  template <class T>
  __aicore__ inline LocalTensor<T> at(uint32_t kib, uint32_t n = 512) {
    return buffer.GetWithOffset<T>(n, kib * 1024);
  }
};

template <class T>
__aicore__ inline void load(const LocalTensor<T>& to, GM_ADDR from, uint32_t n) {
  GlobalTensor<T> gm;
  gm.SetGlobalBuffer((__gm__ T*)from);
  DataCopy(to, gm, n);
}
template <class T>
__aicore__ inline void store(GM_ADDR to, const LocalTensor<T>& from, uint32_t n) {
  GlobalTensor<T> gm;
  gm.SetGlobalBuffer((__gm__ T*)to);
  DataCopyPad(gm, from, {1, uint32_t(n * sizeof(T)), 0, 0, 0});
}

// Reductions of float: the results one after the other in o, from 64 elements on in steps of 64.
__aicore__ inline void reductions(Memory& m, GM_ADDR f, GM_ADDR o) {
  const LocalTensor<float> x = m.at<float>(0), r = m.at<float>(8, 1024), w = m.at<float>(16);
  load(x, f, 512);
  Duplicate(r, 0.0f, 1024);
  ReduceSum(r, x, w, 300);
  ReduceSum(r[64], x, w, 33, 5, 8);
  ReduceMax(r[128], x, w, 300, true);
  ReduceMin(r[192], x, w, 64, 8, 8, true);
  WholeReduceSum(r[256], x, 40, 4, 1, 1, 8);
  WholeReduceMax(r[320], x, 64, 4, 1, 1, 8);
  WholeReduceMin(r[384], x, 64, 4, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  BlockReduceSum(r[448], x, 2, 64, 1, 1, 8);
  BlockReduceMax(r[512], x, 2, 64, 1, 1, 8);
  BlockReduceMin(r[576], x, 2, 64, 1, 1, 8);
  PairReduceSum(r[640], x, 2, 64, 1, 1, 8);
  RepeatReduceSum(r[704], x, 4, 64, 0, 1, 1, 8);
  WholeReduceMax(r[768], x, 64, 4, 1, 1, 8, ReduceOrder::ORDER_INDEX_VALUE);
  WholeReduceMax(r[832], x, 64, 4, 1, 1, 8, ReduceOrder::ORDER_ONLY_INDEX);
  r.SetValue(896, GetAccVal<float>());
  ReduceSum<float>(x, x, x, 512);  // dst, src and work are one
  DataCopy(r[960], x, 8);
  store(o, r, 1024);
}

// Compare and select.
__aicore__ inline void selections(Memory& m, GM_ADDR f, GM_ADDR o) {
  const LocalTensor<float> x = m.at<float>(0), y = m.at<float>(2), r = m.at<float>(8, 2048);
  const LocalTensor<uint8_t> bits = m.at<uint8_t>(24, 64);
  load(x, f, 512);
  Muls(y, x, -1.0f, 512);
  Compare(bits, x, y, CMPMODE::LT, 512);
  Select(r, bits, x, y, SELMODE::VSEL_TENSOR_TENSOR_MODE, 512);
  CompareScalar(bits, x, 0.5f, CMPMODE::GE, 512);
  Select(r[512], bits, x, 7.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 500);
  Select(r[1024], bits, x, y, SELMODE::VSEL_CMPMASK_SPR, 64, 8, {1, 1, 1, 8, 8, 8});
  Compare(x, y, CMPMODE::GT, uint64_t(64), BinaryRepeatParams());
  Select<float, SELMODE::VSEL_CMPMASK_SPR>(r[1536], x, y, 1, BinaryRepeatParams());
  Duplicate(r[1600], 0.0f, 448);
  Compare(bits, x, y, CMPMODE::LT, 100);  // not whole repeats
  Select(r[1600], bits, x, y, SELMODE::VSEL_TENSOR_TENSOR_MODE, 100);
  Compares(bits, x, 0.5f, CMPMODE::GE, 100);
  Select(r[1728], bits, x, 7.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 100);
  store(o, r, 2048);
}

// Gathers, masks of elements, transposes.
__aicore__ inline void gathers(Memory& m, GM_ADDR f, GM_ADDR h, GM_ADDR o) {
  const LocalTensor<float> x = m.at<float>(0), r = m.at<float>(8, 2048);
  const LocalTensor<half> v = m.at<half>(4), t = m.at<half>(5);
  const LocalTensor<int32_t> index = m.at<int32_t>(24);
  load(x, f, 512);
  load(v, h, 512);
  Duplicate(r, 0.0f, 2048);
  CreateVecIndex(index, int32_t(0), 512);
  Muls(index, index, int32_t(-4), 512);
  Adds(index, index, int32_t(4 * 511), 512);
  const LocalTensor<uint32_t> offsets = index.ReinterpretCast<uint32_t>();
  Gather(r, x, offsets, 0, 512);
  uint64_t kept = 0;
  GatherMask(r[512], x, 2, false, 0, {1, 8, 8, 0}, kept);
  r.SetValue(768, float(kept));
  const LocalTensor<uint32_t> pattern = m.at<uint32_t>(32, 64);
  Duplicate(pattern, uint32_t(0x11111111), 64);
  GatherMask(r[776], x, pattern, true, 50, {1, 4, 8, 1}, kept);
  r.SetValue(1000, float(kept));
  Transpose(t, v);
  Cast(r[1024], t, RoundMode::CAST_NONE, 256);
  LocalTensor<half> from[16], to[16];
  for (int i = 0; i < 16; ++i) {
    from[i] = v[16 * i];
    to[i] = t[16 * i];
  }
  TransDataTo5HD<half>(to, from, {false, false, 1, 0, 0});
  Cast(r[1280], t, RoundMode::CAST_NONE, 256);
  Brcb(r[1536], x, 2, {1, 8});
  const LocalTensor<uint32_t> blocks = m.at<uint32_t>(34, 16);
  for (int i = 0; i < 8; ++i) blocks.SetValue(i, 32 * (7 - i));
  Gatherb(r[1664], x, blocks, 1, {1, 8});
  store(o, r, 2048);
}

// Sorts: scores then indices.
__aicore__ inline void sorts(Memory& m, GM_ADDR f, GM_ADDR o) {
  const LocalTensor<float> x = m.at<float>(0), r = m.at<float>(8, 2048), sorted = m.at<float>(16, 1024);
  LocalTensor<float> tmp = m.at<float>(24, 1024), concat;
  const LocalTensor<uint32_t> index = m.at<uint32_t>(32);
  load(x, f, 512);
  CreateVecIndex(index.ReinterpretCast<int32_t>(), int32_t(0), 512);
  Concat(concat, x, tmp, 32);
  Sort<float, true>(sorted, concat, index, tmp, 512 / 32);
  Extract(r, r[512].ReinterpretCast<uint32_t>(), sorted, 512 / 32);
  Sort32(sorted, x, index, 4);
  const uint16_t lengths[4] = {32, 32, 32, 32};
  uint32_t merged[4];
  MrgSort<float>(tmp, {sorted, sorted[64], sorted[128], sorted[192]}, lengths, merged, 15, 1);
  Extract(r[1024], r[1152].ReinterpretCast<uint32_t>(), tmp, 4);
  r.SetValue(1280, float(merged[0] + merged[3]));
  MrgSort(tmp, MrgSortSrcList<float>(sorted, sorted[64], sorted[128], sorted[192]), MrgSort4Info(lengths, true, 3, 1));
  uint16_t a, b, c, d;
  GetMrgSortResult(a, b, c, d);
  r.SetValue(1281, float(a == 32 || b == 32));
  r.SetValue(1282, float(GetSortLen<float>(32) + GetSortOffset<half>(32)));
  store(o, r, 2048);
}

// Library functions of one tensor, 512 results each.
__aicore__ inline void functions(Memory& m, GM_ADDR f, GM_ADDR o, int32_t which) {
  const LocalTensor<float> x = m.at<float>(0), r = m.at<float>(8);
  const LocalTensor<uint8_t> tmp = m.at<uint8_t>(16, 4096);
  load(x, f, 512);
  const auto y = m.at<float>(2);
  Abs(y, x, 512);
  Adds(y, y, 1.0f, 512);
  switch (which) {
    case 0: Sin(r, x, 512); break;
    case 1: Cos(r, x, tmp, 512); break;
    case 2: Tanh(r, x); break;
    case 3: Log(r, y, 512); break;
    case 4: Floor(r, x, 512); break;
    case 5: Ceil(r, x, tmp); break;
    case 6: Round(r, x, 512); break;
    case 7: Sigmoid(r, x, 512); break;
    case 8: Silu(r, x, 512); break;
    case 9: Gelu(r, x, 512); break;
    case 10: Erf(r, x, 512); break;
    case 11: Power(r, y, x, 512); break;
    case 12: Power(r, y, 2.0f); break;
    case 13: ClampMax(r, x, tmp, 0.25f, 512); break;
    case 14: ClampMin(r, x, tmp, 0.25f, 512); break;
    case 15: SwiGLU(r, x, y, 1.0f, 512); break;
    case 16: Sign(r, x, 512); break;
    case 17: Trunc(r, x, 512); break;
    case 18: Fmod(r, x, y, tmp, 512); break;
    case 19: ArithProgression(r, 1.5f, 0.5f, 512); break;
    case 20: Sum(r, x, tmp, SumParams{4, 128, 100}); Duplicate(r[8], 0.0f, 504); break;
    case 21: {
      const uint32_t to[2] = {16, 32}, from[2] = {16, 1};
      BroadCast<float, 2, 1>(r, x, to, from);
      break;
    }
    case 22: {
      const uint32_t to[2] = {16, 32}, from[2] = {1, 32};
      LocalTensor<uint8_t> t = tmp;
      BroadCast<float, 2, 0>(r, x, to, from, t);
      break;
    }
    case 23: {
      SoftMaxTiling tiling{};
      SoftMax<float>(r, m.at<float>(20, 64), m.at<float>(21, 64), x, tmp, tiling, {8, 64, 8, 50});
      break;
    }
    case 24: {
      LayerNormTiling tiling{2, 4, 64, 64};
      const auto one = m.at<float>(20, 64), zero = m.at<float>(21, 64);
      Duplicate(one, 1.0f, 64);
      Duplicate(zero, 0.5f, 64);
      LayerNorm(r, m.at<float>(22, 8), m.at<float>(23, 8), x, one, zero, tmp, 1e-5f, tiling);
      break;
    }
    case 25: {
      RmsNormTiling tiling{2, 4, 64, 64};
      const auto one = m.at<float>(20, 64);
      Duplicate(one, 2.0f, 64);
      RmsNorm(r, x, one, 1e-5f, tiling);
      break;
    }
    case 26: {  // two halves of each row, the second with what the first gave
      SoftMaxTiling tiling{};
      const SoftMaxShapeInfo shape{8, 32, 8, 32};
      const auto first = m.at<float>(24, 256), second = m.at<float>(25, 256), sum = m.at<float>(26, 64),
                 max = m.at<float>(27, 64), factor = m.at<float>(28, 64), none = m.at<float>(29, 64);
      DataCopy(first, x, {8, 4, 4, 0});
      DataCopy(second, x[32], {8, 4, 4, 0});
      SoftmaxFlashV2<float, false>(first, sum, max, first, factor, none, none, tmp, tiling, shape);
      SoftmaxFlashV2<float, true>(second, sum, max, second, factor, sum, max, tmp, tiling, shape);
      Duplicate(r, 0.0f, 512);
      for (int i = 0; i < 8; ++i) {
        for (int k = 0; k < 32; ++k) {
          r.SetValue(64 * i + k, first.GetValue(32 * i + k) * factor.GetValue(8 * i) / sum.GetValue(8 * i));
          r.SetValue(64 * i + 32 + k, second.GetValue(32 * i + k) / sum.GetValue(8 * i));
        }
      }
      break;
    }
    case 27: {
      const auto h = m.at<half>(20), q = m.at<half>(21);
      const auto b = m.at<int8_t>(22);
      const auto n = m.at<int32_t>(23);
      Duplicate(h, half(3), 256);
      Duplicate(q, half(-2.5f), 256);
      MulCast(b, h, q, 256);  // -7.5 to the nearest even
      Cast(h, b, RoundMode::CAST_NONE, 256);
      Cast(r, h, RoundMode::CAST_NONE, 64);
      Duplicate(n, 21, 64);
      SetDeqScale(half(0.5f));
      AddDeqRelu(h, n, n, 64);
      Cast(r[64], h, RoundMode::CAST_NONE, 64);
      Subs(r[128], x, 0.5f, 128);
      Divs(r[256], x, 3.0f, 128);
      ReduceDataBlock<ReduceType::MAX>(y, x, 64, 2, 1, 1, 8);
      DataCopy(r[384], y, 16);
      Compare<float, uint8_t>(tmp, x, y, CMPMODE::LT, 64);
      IsFinite(r[400], x, 112);
      break;
    }
    default: Truncate<float, RoundMode::CAST_FLOOR>(r, x, 512);
  }
  store(o, r, 512);
}

// Moves, registers, scalars.
__aicore__ inline void rest(Memory& m, GM_ADDR f, GM_ADDR h, GM_ADDR i, GM_ADDR o) {
  const LocalTensor<float> x = m.at<float>(0), r = m.at<float>(8, 2048);
  load(x, f, 512);
  Duplicate(r, 0.0f, 2048);
  GlobalTensor<float> gm;
  gm.SetGlobalBuffer((__gm__ float*)f, 512);
  DataCopyPad(r, gm, {3, 20, 12, 0}, {false, 0, 0, 0});                              // rows of 5 of 8, dummies behind
  DataCopyPad(r[64], gm, {2, 24, 8, 1, 0}, {true, 1, 1, -1.0f});                     // a gap of one block in UB
  Copy(r[128], x, 64, 2, {1, 1, 8, 16});                                             // every other repeat
  DataCopy(r[256], x, {4, 1, 1, 2});
  SetMaskCount();
  SetVectorMask<float, MaskMode::COUNTER>(70);
  Adds<float, false>(r[384], x, 1.0f, MASK_PLACEHOLDER, 1, {1, 1, 8, 8});
  SetMaskNorm();
  SetVectorMask<float, MaskMode::NORMAL>(0, 0xF0F0);
  Adds<float, false>(r[512], x, 1.0f, MASK_PLACEHOLDER, 1, {1, 1, 8, 8});
  ResetMask();
  uint64_t mask[2] = {0x8000000000000001ull, 0};
  Muls(r[576], x, 2.0f, mask, 1, {1, 1, 8, 8});
  const LocalTensor<half> v = m.at<half>(4);
  const LocalTensor<int32_t> n = m.at<int32_t>(5, 64);
  load(n, i, 64);
  SetDeqScale(half(0.5f));
  Cast(v, n, RoundMode::CAST_NONE, 64);
  Cast(r[640], v, RoundMode::CAST_NONE, 64);
  const LocalTensor<int4b_t> nibbles = m.at<int4b_t>(6, 64);
  Cast(nibbles, v, RoundMode::CAST_RINT, 64);
  Cast(v, nibbles, RoundMode::CAST_NONE, 64);
  Cast(r[704], v, RoundMode::CAST_TRUNC, 64);                                       // widening with a mode of no meaning
  LocalTensor<float> sum = m.at<float>(7, 64);
  sum = x + x[64];
  DataCopy(r[768], sum, 64);
  r.SetValue(832, float(ScalarGetCountOfValue<1>(0xFF0F)));
  r.SetValue(833, float(ScalarCountLeadingZero(1)));
  r.SetValue(834, float(ScalarGetSFFValue<0>(7)));
  r.SetValue(835, float(ScalarCast<float, int32_t, RoundMode::CAST_CEIL>(1.25f)));
  r.SetValue(836, float(half(1.5f) + half(0.25f)));
  r.SetValue(837, ToFloat(ToBfloat16(1.0f)));
  r.SetValue(838, float(CeilDivision(7, 2)));
  load(v, h, 512);
  MulAddDst(r[896], v, v[64], 64);                                                  // half into float
  Axpy(r[960], v, half(2.0f), 64);
  And(n.ReinterpretCast<int8_t>(), n.ReinterpretCast<int8_t>(), n.ReinterpretCast<int8_t>(), 64);
  SetAtomicAdd<float>();
  store(o, r, 1024);
  store(o, r, 1024);
  SetAtomicNone();
  SetAtomicMax<float>();
  store(o + 4096, x, 512);
  SetAtomicNone();
}

extern "C" __global__ __aicore__ void cases(GM_ADDR f, GM_ADDR h, GM_ADDR i, GM_ADDR o, int32_t group, int32_t which) {
  Memory m;
  switch (group) {
    case 0: return reductions(m, f, o);
    case 1: return selections(m, f, o);
    case 2: return gathers(m, f, h, o);
    case 3: return sorts(m, f, o);
    case 4: return functions(m, f, o, which);
    default: return rest(m, f, h, i, o);
  }
}
