// SPDX-License-Identifier: Apache-2.0
// Library functions over rows: x holds float or half, y float or bytes, i int32; o and p are outputs.
#include "rows.h"

using Memory = RowMemory<1024>;

struct Sizes {
  uint32_t rows, inner, n, k, mode, group;
};

template <class T>
__aicore__ inline void top(Memory& m, GM_ADDR x, GM_ADDR i, GM_ADDR o, GM_ADDR p, const Sizes& s) {
  const auto from = m.at<T>(0, 4096), values = m.at<T>(16, 4096);
  const auto given = m.at<int32_t>(32, 4096), places = m.at<int32_t>(48, 4096);
  const auto finish = m.at<bool>(64, 64);
  TopkTiling tiling{};
  const TopKInfo info{int32_t(s.rows), int32_t(s.inner), int32_t(s.n)};
  load(from, x, s.rows * s.inner);
  load(given, i, s.rows * s.inner);
  for (uint32_t r = 0; r < s.rows; ++r) finish.SetValue(r, r == 1);
  Duplicate(values, T(0), 4096);
  Duplicate(places, 0, 4096);
  const auto tmp = m.at<uint8_t>(80, 1024);
  switch (s.mode) {
    case 0:
      TopK<T>(values, places, from, given, finish, s.k, tiling, info);
      break;
    case 1:
      TopK<T, true, true>(values, places, from, given, finish, tmp, s.k, tiling, info, false);
      break;
    default:
      TopK<T, true, false, false, TopKMode::TOPK_NSMALL>(values, places, from, given, finish, s.k, tiling, info);
  }
  store(o, values, 1024);
  store(p, places, 1024);
}

constexpr CumSumConfig kDown{false, false, true};

// Rows of `inner`: sums, choices by bytes, pads.
template <class T>
__aicore__ inline void rows(Memory& m, GM_ADDR x, GM_ADDR b, GM_ADDR o, const Sizes& s) {
  auto from = m.at<T>(0, 4096), to = m.at<T>(32, 4096), last = m.at<T>(64, 1024);
  const auto bytes = m.at<uint8_t>(80, 4096);
  auto tmp = m.at<uint8_t>(96, 1024);
  load(from, x, s.rows * s.inner);
  Duplicate(to, T(0), 4096);
  switch (s.mode) {
    case 0:
      CumSum(to, last, from, tmp, {s.rows, s.inner});
      DataCopy(to[s.rows * s.inner], last, s.inner);
      break;
    case 1:
      CumSum<T, kDown>(to, last, from, {s.rows, s.inner});
      DataCopy(to[s.rows * s.inner], last, s.inner);
      break;
    case 2:
      load(bytes, b, s.rows * s.k);
      SelectWithBytesMask<T, uint8_t>(to, from, T(-3), bytes, tmp, {s.rows, s.inner, s.k});
      break;
    case 3:
      load(bytes, b, s.rows * s.k);
      Select<T, bool>(to, T(-3), from, bytes.ReinterpretCast<bool>(), tmp, {s.rows, s.inner, s.k});
      break;
    case 4: {  // rows of n one behind the other
      PadParams params{0, uint16_t(s.inner - s.n), -7};
      PadTiling tiling{s.rows, s.n, s.n};
      Pad(to, from, params, tmp, tiling);
      break;
    }
    case 5: {  // rows of inner, of which n count
      PadParams params{0, uint16_t(s.inner - s.n), -7};
      PadTiling tiling{s.rows, s.inner, s.n};
      Pad(from, from, params, tiling);
      DataCopy(to, from, s.rows * s.inner);
      break;
    }
    default: {
      UnPadParams params{0, uint16_t(s.inner - s.n)};
      UnPadTiling tiling{s.rows, s.inner};
      UnPad(to, from, params, tmp, tiling);
    }
  }
  store(o, to, s.rows * s.inner + s.inner);
}

// Softmax by parts, its gradient, rows that have no maximum.
__aicore__ inline void softmaxes(Memory& m, GM_ADDR x, GM_ADDR y, GM_ADDR o, const Sizes& s) {
  const auto a = m.at<float>(0, 4096), b = m.at<float>(16, 4096), sum = m.at<float>(32, 512),
             max = m.at<float>(34, 512), factor = m.at<float>(36, 512), to = m.at<float>(48, 4096);
  const uint32_t count = s.rows * s.inner;
  const SoftMaxTiling tiling{};
  const SoftMaxShapeInfo shape{s.rows, s.inner, s.rows, s.n};
  load(a, x, count);
  load(b, y, count);
  Duplicate(to, 0.0f, 4096);
  switch (s.mode) {
    case 0: {  // x, then y: results, sums, factors
      SoftmaxFlash<float>(a, sum, max, a, factor, sum, max, tiling, false, shape);
      SoftmaxFlash<float>(b, sum, max, b, factor, sum, max, m.at<uint8_t>(64, 32), tiling, true, shape);
      for (uint32_t r = 0; r < s.rows; ++r) {
        Muls(to[r * 2 * s.inner], a[r * s.inner], factor.GetValue(8 * r), s.inner);
        DataCopy(to[(r * 2 + 1) * s.inner], b[r * s.inner], s.inner);
      }
      break;
    }
    case 1:
      SoftmaxGrad<float>(to, a, b, m.at<uint8_t>(64, 32), tiling, false, shape);
      break;
    case 2:
      SoftmaxGradFront<float>(to, a, b, tiling, shape);
      break;
    case 3:
      SoftmaxGrad<float>(to, a, b, tiling, true, shape);
      break;
    default: {
      Duplicate(max, 1.0f, 512);
      max.SetValue(8, -2.0f);
      const bool found = AdjustSoftMaxRes<float, float>(a, max, 0xC0000000, 5.0f, shape);
      DataCopy(to, a, count);
      to.SetValue(2 * count, found ? 1.0f : 0.0f);
    }
  }
  store(o, to, 2 * count + 1);
}

// To int8 and back.
__aicore__ inline void quants(Memory& m, GM_ADDR x, GM_ADDR i, GM_ADDR scales, GM_ADDR o, GM_ADDR q, const Sizes& s) {
  auto scale = m.at<float>(16, 512);
  const auto a = m.at<float>(0, 4096), offset = m.at<float>(18, 512), to = m.at<float>(32, 4096);
  const auto h = m.at<half>(48, 4096);
  const auto ints = m.at<int32_t>(64, 4096);
  const auto bytes = m.at<int8_t>(80, 4096);
  const auto words = m.at<uint64_t>(100, 256);
  const auto tmp = m.at<uint8_t>(104, 32);
  const uint32_t count = s.rows * s.inner;
  load(a, x, count);
  load(ints, i, count);
  load(scale, scales, s.inner);
  Duplicate(to, 0.0f, 4096);
  Duplicate(bytes.ReinterpretCast<int16_t>(), int16_t(0), 2048);
  Muls(offset, scale, 0.5f, s.inner);
  for (uint32_t c = 0; c < s.inner; ++c) words.SetValue(c, scale.ReinterpretCast<uint32_t>().GetValue(c));
  switch (s.mode) {
    case 0:
      AscendQuant(bytes, a, tmp, 20.0f, 1.5f, count);
      break;
    case 1:
      AscendQuant(bytes, a, scale, 1.5f, s.inner, count);
      break;
    case 2:
      AscendQuant(bytes, a, tmp, scale, offset, s.inner, s.inner, count);
      break;
    case 3:
      AscendDequant(to, ints, scale, DequantParams{s.rows, s.inner, s.n});
      break;
    case 4:
      Duplicate(h, half(0), 4096);
      AscendDequant(h, ints, words, tmp, DequantParams{s.rows, s.inner, s.n});
      Cast(to, h, RoundMode::CAST_NONE, 2048);
      break;
    case 5:
      AscendDequant(to, ints, 0.25f, DequantParams{s.rows, s.inner, s.n});
      break;
    default:
      scale.SetSize(8);
      AscendDequant(to, ints, scale, count / 8 * 8);
  }
  store(o, to, 2048);
  store(q, bytes, 2048);
}

// Names of later versions, and results that are converted.
__aicore__ inline void names(Memory& m, GM_ADDR x, GM_ADDR y, GM_ADDR o, const Sizes& s) {
  const auto a = m.at<float>(0), b = m.at<float>(8), to = m.at<float>(16, 4096);
  const auto h = m.at<half>(40, 4096), g = m.at<half>(48, 4096);
  const auto w = m.at<int16_t>(56, 4096), v = m.at<int16_t>(64, 4096);
  const auto bytes = m.at<int8_t>(72, 4096);
  load(a, x, 512);
  load(b, y, 512);
  Duplicate(to, 0.0f, 4096);
  ReduceRepeat<ReduceType::SUM>(to, a, 40, 4, 1, 1, 8);
  ReduceRepeat<ReduceType::MAX>(to[64], a, 64, 4, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  ReduceRepeat<ReduceType::MIN>(to[128], a, 64, 4, 1, 1, 8);
  ReducePairElem<ReduceType::SUM>(to[192], a, 64, 2, 1, 1, 8);
  AddReluCast(h, a, b, s.n);
  Cast(to[512], h, RoundMode::CAST_NONE, s.n);
  Muls(a, a, 60.0f, 512);
  Cast(h, a, RoundMode::CAST_NONE, 512);
  Cast(g, b, RoundMode::CAST_NONE, 512);
  SubReluCast(bytes, h, g, s.n);
  Cast(h, bytes, RoundMode::CAST_NONE, s.n);
  Cast(to[1024], h, RoundMode::CAST_NONE, s.n);
  Cast(w, a, RoundMode::CAST_RINT, 512);
  Cast(v, b, RoundMode::CAST_RINT, 512);
  AddReluCast(bytes, w, v, s.n);
  Cast(h, bytes, RoundMode::CAST_NONE, s.n);
  Cast(to[1536], h, RoundMode::CAST_NONE, s.n);
  GlobalTensor<float> given;
  given.SetGlobalBuffer((__gm__ float*)x);
  DataCopy(to[256], given, DataCopyParams(1, 8, 0, 0), {});  // braces are parameters, whatever comes after them
  to.SetValue(320, float(sbitset1(sbitset0(0xF, 2), 5)));
  store(o, to, 2048);
}

extern "C" __global__ __aicore__ void library(GM_ADDR x, GM_ADDR y, GM_ADDR i, GM_ADDR o, GM_ADDR p, Sizes s) {
  Memory m;
  switch (s.group) {
    case 0:
      return top<float>(m, x, i, o, p, s);
    case 1:
      return top<half>(m, x, i, o, p, s);
    case 2:
      return rows<float>(m, x, y, o, s);
    case 3:
      return rows<half>(m, x, y, o, s);
    case 4:
      return softmaxes(m, x, y, o, s);
    case 5:
      return quants(m, x, i, y, o, p, s);
    default:
      return names(m, x, y, o, s);
  }
}
