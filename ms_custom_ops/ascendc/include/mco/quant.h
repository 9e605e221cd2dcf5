// SPDX-License-Identifier: Apache-2.0
// Numbers to and from int8 by scales and offsets.
#pragma once

#include "mco/topk.h"

namespace AscendC {

struct AscendQuantConfig {
  constexpr AscendQuantConfig(uint32_t calCount = 0, uint32_t offsetCount = 0, uint32_t scaleCount = 0,
                              uint32_t workLocalSize = 0)
      : calcCount(calCount), offsetCount(offsetCount), scaleCount(scaleCount), workLocalSize(workLocalSize) {}
  uint32_t calcCount, offsetCount, scaleCount, workLocalSize;
};
constexpr AscendQuantConfig ASCEND_QUANT_DEFAULT_CFG{};

enum class DeQuantMode { DEQUANT_WITH_SINGLE_ROW, DEQUANT_WITH_MULTI_ROW };

struct DequantParams {
  uint32_t m = 0;
  uint32_t n = 0;         // pitch of the source
  uint32_t calCount = 0;  // of each row
};

}  // namespace AscendC

namespace mco_asc {

inline half to_half(float x) { return half(x); }
inline half to_half(half x) { return x; }

// The chip works in half: a product, a sum, and the nearest int8, ties to even, within its range.
inline int8_t quantized(half x, half scale, half offset) {
  const half product = half(float(x) * float(scale)), sum = half(float(product) + float(offset));
  const float whole = std::nearbyint(float(sum));
  return whole != whole ? int8_t(0) : int8_t(whole < -128 ? -128 : whole > 127 ? 127 : whole);
}

// `scale_of` and `offset_of` give those of element i.
template <class T, class S, class O>
inline void quantize(Where where, const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, int64_t n, S scale_of,
                     O offset_of) {
  static_assert(one_of<T, half, float>, "AscendC::AscendQuant takes half and float; the type is not accepted");
  if (n <= 0) return;
  const T* from = array(src, n, 0, "AscendQuant", where);
  int8_t* to = array(dst, n, MCO_ASC_WRITE, "AscendQuant", where);
  for (int64_t i = 0; i < n; ++i) to[i] = quantized(to_half(from[i]), to_half(scale_of(i)), to_half(offset_of(i)));
}

inline void check_channels(Where where, const char* name, int64_t n, int64_t scales) {
  const mco_asc_where here = where.of(name);
  if (scales <= 0 || n % scales) {
    mco_asc_fault(&here, "%lld elements with scales of %lld columns; accepted: whole rows of as many columns",
                  (long long)n, (long long)scales);
  }
}

// The scale of a column: a word of 64 bits holds a float in its lower half.
template <class S>
inline float scale_value(S s) {
  if constexpr (std::is_integral<S>::value) {
    const uint32_t bits = uint32_t(s);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  } else {
    return float(s);
  }
}

// Rows of the destination begin at blocks.
template <class D, class F>
inline void dequantize(Where where, const LocalTensor<D>& dst, const LocalTensor<int32_t>& src,
                       const AscendC::DequantParams& p, F scale_of) {
  static_assert(one_of<D, half, bfloat16_t, float>,
                "AscendC::AscendDequant: the type of dst is not accepted; accepted: half, bfloat16_t, float");
  const mco_asc_where here = where.of("AscendDequant");
  if (p.calCount > p.n) mco_asc_fault(&here, "calCount is %u; accepted: 0 to n, which is %u", p.calCount, p.n);
  if (!p.m || !p.calCount) return;
  if (p.n * sizeof(int32_t) % AscendC::ONE_BLK_SIZE) {
    mco_asc_fault(&here, "n is %u; accepted: whole blocks of 32 bytes, 8 elements", p.n);
  }
  const int64_t rows = p.m, pitch = whole_blocks<D>(p.n);
  const int32_t* from = array(src, (rows - 1) * p.n + p.calCount, 0, "AscendDequant", where);
  D* to = array(dst, (rows - 1) * pitch + p.calCount, MCO_ASC_WRITE, "AscendDequant", where);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < p.calCount; ++c) to[r * pitch + c] = D(float(from[r * p.n + c]) * scale_of(c));
  }
}

// One row whose first columns are scaled is many rows of that many columns.
template <class D, AscendC::DeQuantMode mode>
inline AscendC::DequantParams rows_of(const AscendC::DequantParams& p) {
  const bool split = mode == AscendC::DeQuantMode::DEQUANT_WITH_SINGLE_ROW && p.m == 1 && p.calCount &&
                     p.calCount * sizeof(D) % AscendC::ONE_BLK_SIZE == 0 && p.n % p.calCount == 0;
  return split ? AscendC::DequantParams{p.n / p.calCount, p.calCount, p.calCount} : p;
}

}  // namespace mco_asc

namespace AscendC {

// dst = round(src * scale + offset): numbers for the whole tensor, or tensors with one for each column.
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&,
                        const float scale, const float offset, const uint32_t calCount,
                        mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::quantize(
      where, dst, src, calCount, [scale](int64_t) { return scale; }, [offset](int64_t) { return offset; });
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,
                        const float scale, const float offset, mco_asc::Where where = mco_asc::Where::here()) {
  AscendQuant<T, isReuseSource, config>(dst, src, tmp, scale, offset, src.GetSize(), where);
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const float scale,
                        const float offset, const uint32_t calCount, mco_asc::Where where = mco_asc::Where::here()) {
  AscendQuant<T, isReuseSource, config>(dst, src, LocalTensor<uint8_t>(), scale, offset, calCount, where);
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const float scale,
                        const float offset, mco_asc::Where where = mco_asc::Where::here()) {
  AscendQuant<T, isReuseSource, config>(dst, src, LocalTensor<uint8_t>(), scale, offset, src.GetSize(), where);
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&,
                        const LocalTensor<T>& scale, const T offset, const uint32_t scaleCount, const uint32_t calCount,
                        mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::check_channels(where, "AscendQuant", calCount, scaleCount);
  const T* scales = mco_asc::array(scale, scaleCount, 0, "AscendQuant", where);
  mco_asc::quantize(
      where, dst, src, calCount, [=](int64_t i) { return scales[i % scaleCount]; },
      [offset](int64_t) { return offset; });
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<T>& scale,
                        const T offset, const uint32_t scaleCount, const uint32_t calCount,
                        mco_asc::Where where = mco_asc::Where::here()) {
  AscendQuant<T, isReuseSource, config>(dst, src, LocalTensor<uint8_t>(), scale, offset, scaleCount, calCount, where);
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&,
                        const LocalTensor<T>& scale, const LocalTensor<T>& offset, const uint32_t scaleCount,
                        const uint32_t offsetCount, const uint32_t calCount,
                        mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::check_channels(where, "AscendQuant", calCount, scaleCount);
  mco_asc::check_channels(where, "AscendQuant", calCount, offsetCount);
  const T* scales = mco_asc::array(scale, scaleCount, 0, "AscendQuant", where);
  const T* offsets = mco_asc::array(offset, offsetCount, 0, "AscendQuant", where);
  mco_asc::quantize(
      where, dst, src, calCount, [=](int64_t i) { return scales[i % scaleCount]; },
      [=](int64_t i) { return offsets[i % offsetCount]; });
}
template <class T, bool isReuseSource = false, const AscendQuantConfig& config = ASCEND_QUANT_DEFAULT_CFG>
inline void AscendQuant(const LocalTensor<int8_t>& dst, const LocalTensor<T>& src, const LocalTensor<T>& scale,
                        const LocalTensor<T>& offset, const uint32_t scaleCount, const uint32_t offsetCount,
                        const uint32_t calCount, mco_asc::Where where = mco_asc::Where::here()) {
  AscendQuant<T, isReuseSource, config>(dst, src, LocalTensor<uint8_t>(), scale, offset, scaleCount, offsetCount,
                                        calCount, where);
}

// dst = src * scale in float, rounded once: a scale for each column (uint64_t: a float in the lower half), or one.
template <class D, class S, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>
inline void AscendDequant(const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, const LocalTensor<S>& scale,
                          const LocalTensor<uint8_t>&, DequantParams params,
                          mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(
      mco_asc::one_of<S, uint64_t, unsigned long long, float, bfloat16_t>,
      "AscendC::AscendDequant: the type of the scales is not accepted; accepted: uint64_t, float, bfloat16_t");
  const DequantParams p = mco_asc::rows_of<D, mode>(params);
  const S* scales = mco_asc::array(scale, p.calCount, 0, "AscendDequant", where);
  mco_asc::dequantize(where, dst, src, p, [scales](int64_t c) { return mco_asc::scale_value(scales[c]); });
}
template <class D, class S, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>
inline void AscendDequant(const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, const LocalTensor<S>& scale,
                          DequantParams params, mco_asc::Where where = mco_asc::Where::here()) {
  AscendDequant<D, S, mode>(dst, src, scale, LocalTensor<uint8_t>(), params, where);
}
template <class D, class S, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>
inline std::enable_if_t<mco_asc::one_of<S, float, bfloat16_t>> AscendDequant(
    const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, const S scale, const LocalTensor<uint8_t>&,
    DequantParams params, mco_asc::Where where = mco_asc::Where::here()) {
  const float by = float(scale);
  mco_asc::dequantize(where, dst, src, mco_asc::rows_of<D, mode>(params), [by](int64_t) { return by; });
}
template <class D, class S, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>
inline std::enable_if_t<mco_asc::one_of<S, float, bfloat16_t>> AscendDequant(
    const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, const S scale, DequantParams params,
    mco_asc::Where where = mco_asc::Where::here()) {
  AscendDequant<D, S, mode>(dst, src, scale, LocalTensor<uint8_t>(), params, where);
}
// Rows of as many columns as there are scales.
template <class D, class S>
inline void AscendDequant(const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, const LocalTensor<S>& scale,
                          const LocalTensor<uint8_t>& tmp, const uint32_t calCount,
                          mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::check_channels(where, "AscendDequant", calCount, scale.GetSize());
  AscendDequant<D, S, DeQuantMode::DEQUANT_WITH_MULTI_ROW>(
      dst, src, scale, tmp, {calCount / scale.GetSize(), scale.GetSize(), scale.GetSize()}, where);
}
template <class D, class S>
inline void AscendDequant(const LocalTensor<D>& dst, const LocalTensor<int32_t>& src, const LocalTensor<S>& scale,
                          const uint32_t calCount, mco_asc::Where where = mco_asc::Where::here()) {
  AscendDequant<D, S>(dst, src, scale, LocalTensor<uint8_t>(), calCount, where);
}

}  // namespace AscendC
