// SPDX-License-Identifier: Apache-2.0
// Instructions that convert what they compute, scalars of one operand, and names of later versions.
#pragma once

#include "mco/cast.h"
#include "mco/library.h"

namespace AscendC {

// A product of halves, rounded, then converted.
template <class D, class S, bool isSetMask = true>
inline void MulCast(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1, uint32_t count,
                    mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(std::is_same<S, half>::value && mco_asc::one_of<D, int8_t, uint8_t>,
                "AscendC::MulCast: these types are not accepted; accepted: half to int8_t, uint8_t");
  mco_asc::binary(mco_asc::Op::vmulconv, "MulCast", where, dst, src0, src1, int64_t(count));
}
template <class D, class S, bool isSetMask = true>
inline void MulCast(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1, uint64_t mask,
                    uint8_t repeat, const BinaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(std::is_same<S, half>::value && mco_asc::one_of<D, int8_t, uint8_t>,
                "AscendC::MulCast: these types are not accepted; accepted: half to int8_t, uint8_t");
  mco_asc::binary(mco_asc::Op::vmulconv, "MulCast", where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat),
                  params);
}

}  // namespace AscendC

namespace mco_asc {

constexpr int64_t kCastParts = 2048;  // elements at a time, of up to 4 bytes: within the scratch before its counts

// relu(a + b) or relu(a - b), then the cast; int16_t goes to int8_t through half.
template <class D, class S>
inline void relu_cast(Op op, const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<S>& src0,
                      const LocalTensor<S>& src1, uint32_t count) {
  static_assert(
      (std::is_same<S, float>::value && std::is_same<D, half>::value) ||
          (one_of<S, half, int16_t> && std::is_same<D, int8_t>::value),
      "AscendC::AddReluCast, SubReluCast: these types are not accepted; accepted: float to half, half to int8_t, "
      "int16_t to int8_t");
  const LocalTensor<S> sums = scratch<S>(0, uint32_t(kCastParts));
  for (uint32_t at = 0; at < count; at += uint32_t(kCastParts)) {
    const uint32_t n = count - at < uint32_t(kCastParts) ? count - at : uint32_t(kCastParts);
    binary(op, name, where, sums, src0[at], src1[at], int64_t(n));
    if constexpr (std::is_same<S, int16_t>::value) {
      const LocalTensor<half> halves = sums.template ReinterpretCast<half>();
      AscendC::Cast(halves, sums, AscendC::RoundMode::CAST_NONE, n, where);
      AscendC::Cast(dst[at], halves, AscendC::RoundMode::CAST_NONE, n, where);
    } else {
      AscendC::Cast(dst[at], sums, AscendC::RoundMode::CAST_NONE, n, where);
    }
  }
}

}  // namespace mco_asc

namespace AscendC {

template <class D, class S, bool isSetMask = true>
inline void AddReluCast(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1,
                        const uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::relu_cast(mco_asc::Op::vaddrelu, "AddReluCast", where, dst, src0, src1, count);
}
template <class D, class S, bool isSetMask = true>
inline void SubReluCast(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1,
                        const uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::relu_cast(mco_asc::Op::vsubrelu, "SubReluCast", where, dst, src0, src1, count);
}

// max(a + b, 0) of int32 by the scale of SetDeqScale.
template <bool isSetMask = true>
inline void AddDeqRelu(const LocalTensor<half>& dst, const LocalTensor<int32_t>& src0, const LocalTensor<int32_t>& src1,
                       const int32_t& count, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::issue(
      mco_asc::Op::vadddeqrelu, where.of("AddDeqRelu"), mco_asc::count_of(count),
      {mco_asc::operand(dst), mco_asc::operand(src0), mco_asc::operand(src1)},
      {mco_asc::real(mco_asc_this_core("AddDeqRelu")->deq_scale), mco_asc::integer(32), mco_asc::integer(128),
       mco_asc::integer(32), mco_asc::integer(256), mco_asc::integer(32), mco_asc::integer(256)},
      {}, 1);
}

// Numbers on one side.
template <class T, bool isSetMask = true>
inline void Subs(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar, const int32_t& count,
                 mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(Subs, int16_t, half, int32_t, float);
  Adds(dst, src, T(-scalar), count, where);
}
template <class T, bool isSetMask = true>
inline void Divs(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar, const int32_t& count,
                 mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(Divs, half, float);
  const double by = double(scalar);
  mco_asc::each("Divs", where, dst, src, count, [by](double x) { return x / by; });
}

// Reductions by the names of later versions, the mask before the repeats.
template <ReduceType type, bool isSetMask = true, class T>
inline void ReduceDataBlock(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,
                            const int32_t repeat, const int32_t dstRepStride, const int32_t srcBlkStride,
                            const int32_t srcRepStride, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(ReduceDataBlock, half, float);
  const mco_asc::Op op = type == ReduceType::SUM   ? mco_asc::Op::vcgadd
                         : type == ReduceType::MAX ? mco_asc::Op::vcgmax
                                                   : mco_asc::Op::vcgmin;
  mco_asc::reduction(op, "ReduceDataBlock", where, dst, src, mco_asc::lanes_of<isSetMask>(uint64_t(mask), repeat),
                     8 * int64_t(sizeof(T)) * dstRepStride, srcBlkStride, srcRepStride);
}

#define MCO_ASC_REDUCE_REPEAT(MASK)                                                                                 \
  template <ReduceType type, bool isSetMask = true, class T>                                                        \
  inline void ReduceRepeat(const LocalTensor<T>& dst, const LocalTensor<T>& src, MASK, const int32_t repeat,        \
                           const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,      \
                           ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,                                      \
                           mco_asc::Where where = mco_asc::Where::here()) {                                         \
    if constexpr (type == ReduceType::SUM) {                                                                        \
      WholeReduceSum<T, isSetMask>(dst, src, mask, repeat, dstRepStride, srcBlkStride, srcRepStride, where);        \
    } else if constexpr (type == ReduceType::MAX) {                                                                 \
      WholeReduceMax<T, isSetMask>(dst, src, mask, repeat, dstRepStride, srcBlkStride, srcRepStride, order, where); \
    } else {                                                                                                        \
      static_assert(type == ReduceType::MIN,                                                                        \
                    "AscendC::ReduceRepeat: the type is not accepted; accepted: SUM, MAX, MIN");                    \
      WholeReduceMin<T, isSetMask>(dst, src, mask, repeat, dstRepStride, srcBlkStride, srcRepStride, order, where); \
    }                                                                                                               \
  }                                                                                                                 \
  template <ReduceType type, bool isSetMask = true, class T>                                                        \
  inline void ReducePairElem(const LocalTensor<T>& dst, const LocalTensor<T>& src, MASK, const int32_t repeat,      \
                             const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,    \
                             mco_asc::Where where = mco_asc::Where::here()) {                                       \
    static_assert(type == ReduceType::SUM, "AscendC::ReducePairElem: the type is not accepted; accepted: SUM");     \
    PairReduceSum<T, isSetMask>(dst, src, repeat, mask, dstRepStride, srcBlkStride, srcRepStride, where);           \
  }
MCO_ASC_REDUCE_REPEAT(const int32_t mask)
MCO_ASC_REDUCE_REPEAT(const uint64_t mask[])
#undef MCO_ASC_REDUCE_REPEAT

// 0 or 1 for each element.
template <class T, bool isReuseSource = false>
inline void IsNan(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count,
                  mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::each("IsNan", where, dst, src, count, [](double x) { return double(x != x); });
}
template <class T, bool isReuseSource = false>
inline void IsInf(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count,
                  mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::each("IsInf", where, dst, src, count, [](double x) { return double(std::isinf(x)); });
}
template <class T, bool isReuseSource = false>
inline void IsFinite(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::each("IsFinite", where, dst, src, count, [](double x) { return double(std::isfinite(x)); });
}

}  // namespace AscendC
