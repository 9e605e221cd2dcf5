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
#define MCO_ASC_MUL_CAST(MASK)                                                                                         \
  template <class D, class S, bool isSetMask = true>                                                                   \
  inline void MulCast(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1, MASK,         \
                      uint8_t repeat, const BinaryRepeatParams& params,                                                \
                      mco_asc::Where where = mco_asc::Where::here()) {                                                 \
    static_assert(std::is_same<S, half>::value && mco_asc::one_of<D, int8_t, uint8_t>,                                 \
                  "AscendC::MulCast: these types are not accepted; accepted: half to int8_t, uint8_t");                \
    mco_asc::binary(mco_asc::Op::vmulconv, "MulCast", where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat), \
                    params);                                                                                           \
  }
MCO_ASC_MUL_CAST(uint64_t mask)
MCO_ASC_MUL_CAST(const uint64_t mask[])
#undef MCO_ASC_MUL_CAST

}  // namespace AscendC

namespace mco_asc {

constexpr int64_t kCastParts = 2048;  // elements at a time, of up to 4 bytes: within the scratch before its counts

template <class D, class S>
constexpr bool can_relu_cast = (std::is_same<S, float>::value && std::is_same<D, half>::value) ||
                               (one_of<S, half, int16_t> && std::is_same<D, int8_t>::value);
#define MCO_ASC_RELU_CAST_TYPES                                                                                   \
  static_assert(can_relu_cast<D, S>,                                                                              \
                "AscendC::AddReluCast, SubReluCast: these types are not accepted; accepted: float to half, half " \
                "to int8_t, int16_t to int8_t")

// relu(a + b) or relu(a - b), then the cast; int16_t goes to int8_t through half.
template <class D, class S>
inline void relu_cast(Op op, const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<S>& src0,
                      const LocalTensor<S>& src1, uint32_t count) {
  MCO_ASC_RELU_CAST_TYPES;
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

// The same by masks: one repeat after the other, its lanes those of the mask wherever the sums lie.
template <class D, class S>
inline void relu_cast(Op op, const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<S>& src0,
                      const LocalTensor<S>& src1, Lanes lanes, const BinaryRepeatParams& p) {
  MCO_ASC_RELU_CAST_TYPES;
  const int64_t repeats = lanes.repeat, block = 32;
  const auto later = [block](const auto& t, int64_t stride, int64_t r) {
    return std::decay_t<decltype(t)>(moved(t.mco_at(), block * stride * r), t.mco_home(), t.GetSize());
  };
  lanes.repeat = 1;
  const LocalTensor<S> sums = scratch<S>(0, 256 / sizeof(S));
  const int64_t halves = std::is_same<D, half>::value ? 4 : 8;  // blocks of a repeat on the way
  for (int64_t r = 0; r < repeats; ++r) {
    binary(op, name, where, sums, later(src0, p.src0RepStride, r), later(src1, p.src1RepStride, r), lanes,
           {1, p.src0BlkStride, p.src1BlkStride, 8, 8, 8});
    LocalTensor<D> to = later(dst, p.dstRepStride, r);
    if constexpr (std::is_same<S, int16_t>::value) {
      const LocalTensor<half> in_place = sums.template ReinterpretCast<half>();
      cast(name, where, in_place, sums, AscendC::RoundMode::CAST_NONE, lanes, block, 256, block, 256);
      cast(name, where, to, in_place, AscendC::RoundMode::CAST_NONE, lanes, block * p.dstBlkStride, 256, block, 256);
    } else {
      cast(name, where, to, sums, AscendC::RoundMode::CAST_NONE, lanes, block * p.dstBlkStride, block * halves, block,
           256);
    }
  }
}

}  // namespace mco_asc

namespace AscendC {

#define MCO_ASC_RELU_CAST_MASKED(NAME, OP, MASK)                                                                  \
  template <class D, class S, bool isSetMask = true>                                                              \
  inline void NAME(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1, MASK,       \
                   const uint8_t repeat, const BinaryRepeatParams& params,                                        \
                   mco_asc::Where where = mco_asc::Where::here()) {                                               \
    mco_asc::relu_cast(mco_asc::Op::OP, #NAME, where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat), \
                       params);                                                                                   \
  }
#define MCO_ASC_RELU_CAST(NAME, OP)                                                                   \
  template <class D, class S, bool isSetMask = true>                                                  \
  inline void NAME(const LocalTensor<D>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1, \
                   const uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {             \
    mco_asc::relu_cast(mco_asc::Op::OP, #NAME, where, dst, src0, src1, count);                        \
  }                                                                                                   \
  MCO_ASC_RELU_CAST_MASKED(NAME, OP, const uint64_t mask)                                             \
  MCO_ASC_RELU_CAST_MASKED(NAME, OP, const uint64_t mask[])
MCO_ASC_RELU_CAST(AddReluCast, vaddrelu)
MCO_ASC_RELU_CAST(SubReluCast, vsubrelu)
#undef MCO_ASC_RELU_CAST
#undef MCO_ASC_RELU_CAST_MASKED
#undef MCO_ASC_RELU_CAST_TYPES

}  // namespace AscendC

namespace mco_asc {

// max(a + b, 0) of int32 by the scale of SetDeqScale; strides in blocks.
inline void add_deq_relu(Where where, const LocalTensor<half>& dst, const LocalTensor<int32_t>& src0,
                         const LocalTensor<int32_t>& src1, const Lanes& lanes, const BinaryRepeatParams& p) {
  issue(Op::vadddeqrelu, where.of("AddDeqRelu"), lanes, {operand(dst), operand(src0), operand(src1)},
        {real(mco_asc_this_core("AddDeqRelu")->deq_scale), integer(32 * p.dstBlkStride), integer(32 * p.dstRepStride),
         integer(32 * p.src0BlkStride), integer(32 * p.src0RepStride), integer(32 * p.src1BlkStride),
         integer(32 * p.src1RepStride)},
        {}, 1);
}

}  // namespace mco_asc

namespace AscendC {

template <bool isSetMask = true>
inline void AddDeqRelu(const LocalTensor<half>& dst, const LocalTensor<int32_t>& src0, const LocalTensor<int32_t>& src1,
                       const int32_t& count, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::add_deq_relu(where, dst, src0, src1, mco_asc::count_of(count), {1, 1, 1, 4, 8, 8});
}
#define MCO_ASC_ADD_DEQ_RELU(MASK)                                                                                    \
  template <bool isSetMask = true>                                                                                    \
  inline void AddDeqRelu(const LocalTensor<half>& dst, const LocalTensor<int32_t>& src0,                              \
                         const LocalTensor<int32_t>& src1, MASK, const uint8_t repeat, const BinaryRepeatParams& params, \
                         mco_asc::Where where = mco_asc::Where::here()) {                                             \
    mco_asc::add_deq_relu(where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat), params);                \
  }
MCO_ASC_ADD_DEQ_RELU(uint64_t mask)
MCO_ASC_ADD_DEQ_RELU(const uint64_t mask[])
#undef MCO_ASC_ADD_DEQ_RELU

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
