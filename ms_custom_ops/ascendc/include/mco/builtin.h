// SPDX-License-Identifier: Apache-2.0
// What kernels call without a namespace and without defining it. A kernel's own function of the name is taken before
// these, which are less specialised.
#pragma once

#include "mco/misc.h"

namespace mco_builtin {

template <class A, class B>
using mco_number =
    std::enable_if_t<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value, std::common_type_t<A, B>>;
template <class A, class B>
using mco_integer =
    std::enable_if_t<(std::is_integral<A>::value || std::is_enum<A>::value) && std::is_integral<B>::value,
                     std::common_type_t<A, B>>;

template <class A, class B>
constexpr mco_number<A, B> min(const A& a, const B& b) {
  return std::common_type_t<A, B>(b) < std::common_type_t<A, B>(a) ? b : a;
}
template <class A, class B>
constexpr mco_number<A, B> max(const A& a, const B& b) {
  return std::common_type_t<A, B>(a) < std::common_type_t<A, B>(b) ? b : a;
}
// Beside the C library's abs of int, which cuts numbers to integers. The pack, always empty, keeps it behind a kernel's
// own template.
template <class A>
using mco_magnitude = std::enable_if_t<std::is_signed<A>::value || mco_asc::one_of<A, half, bfloat16_t>,
                                       std::conditional_t<std::is_integral<A>::value, decltype(+A()), A>>;
template <class A, class... None>
constexpr std::enable_if_t<sizeof...(None) == 0, mco_magnitude<A>> abs(const A& a, const None&...) {
  if constexpr (std::is_integral<A>::value) {
    return a < 0 ? -a : +a;
  } else if constexpr (std::is_floating_point<A>::value) {
    return A(__builtin_fabs(a));
  } else {
    return A(__builtin_fabsf(float(a)));
  }
}
// A word with one bit cleared or set.
constexpr uint64_t sbitset0(uint64_t word, int64_t bit) { return word & ~(uint64_t(1) << (bit & 63)); }
constexpr uint64_t sbitset1(uint64_t word, int64_t bit) { return word | uint64_t(1) << (bit & 63); }
constexpr bool likely(bool condition) { return condition; }
constexpr bool unlikely(bool condition) { return condition; }

template <class>
struct mco_never;
// Templates that kernels call with template arguments and find by their arguments alone: C++17 wants to know first that
// the names are templates.
#define MCO_ASC_TEMPLATE(NAME) \
  template <class T>           \
  void NAME(mco_never<T>&)
MCO_ASC_TEMPLATE(ReduceSum);
MCO_ASC_TEMPLATE(ReduceMax);
MCO_ASC_TEMPLATE(ReduceMin);
MCO_ASC_TEMPLATE(WholeReduceSum);
MCO_ASC_TEMPLATE(WholeReduceMax);
MCO_ASC_TEMPLATE(BlockReduceSum);
MCO_ASC_TEMPLATE(PairReduceSum);
MCO_ASC_TEMPLATE(Adds);
MCO_ASC_TEMPLATE(Muls);
MCO_ASC_TEMPLATE(Maxs);
MCO_ASC_TEMPLATE(Mins);
MCO_ASC_TEMPLATE(Duplicate);
MCO_ASC_TEMPLATE(DataCopy);
MCO_ASC_TEMPLATE(DataCopyPad);
MCO_ASC_TEMPLATE(CompareScalar);
MCO_ASC_TEMPLATE(GatherMask);
MCO_ASC_TEMPLATE(ArithProgression);
MCO_ASC_TEMPLATE(CreateVecIndex);
#ifdef MCO_ASC_TEMPLATES  // further ones, as build() finds that a source calls them so
MCO_ASC_TEMPLATES
#endif
#undef MCO_ASC_TEMPLATE

}  // namespace mco_builtin

using namespace mco_builtin;

namespace AscendC {

// Numbers, not tensors.
template <class A, class B>
constexpr mco_builtin::mco_integer<A, B> Ceil(const A& a, const B& b) {
  return b ? (a + b - 1) / b : a;
}
template <class A, class B>
constexpr mco_builtin::mco_integer<A, B> DivCeil(const A& a, const B& b) {
  return b ? (a + b - 1) / b : a;
}
template <class A, class B>
constexpr mco_builtin::mco_integer<A, B> CeilDivision(const A& a, const B& b) {
  return b ? (a + b - 1) / b : 0;
}
template <class A, class B>
constexpr mco_builtin::mco_integer<A, B> AlignUp(const A& a, const B& b) {
  return b ? (a + b - 1) / b * b : a;
}

// Every element of a tensor in GM, from this core.
template <class T>
inline void InitGlobalMemory(const GlobalTensor<T>& gm, const uint64_t count, const mco_asc::same_t<T> value,
                             mco_asc::Where where = mco_asc::Where::here()) {
  if (!count) return;
  const mco_asc_where here = where.of("InitGlobalMemory");
  T* to = static_cast<T*>(mco_asc_touch(&here, gm.mco_at(), gm.mco_home(), int64_t(count * sizeof(T)),
                                        MCO_ASC_GM | MCO_ASC_WRITE | MCO_ASC_LIBRARY));
  for (uint64_t i = 0; i < count; ++i) to[i] = value;
}
template <class T>
inline void InitOutput(const GlobalTensor<T>& gm, uint32_t count, mco_asc::same_t<T> value = 0,
                       mco_asc::Where where = mco_asc::Where::here()) {
  InitGlobalMemory(gm, count, value, where);
}
template <class T>
inline void Fill(const GlobalTensor<T>& gm, const uint64_t count, const mco_asc::same_t<T> value,
                 mco_asc::Where where = mco_asc::Where::here()) {
  InitGlobalMemory(gm, count, value, where);
}

// 910A, from which 2023 kernels come: where the part of this block begins.
template <class T>
inline GM_ADDR ParamOffset(GM_ADDR at, uint64_t elements) {
  return at + elements * sizeof(T) * uint64_t(GetBlockIdx());
}

}  // namespace AscendC

namespace mco_asc {

template <class T>
inline void scatter(Where where, const Lanes& lanes, const LocalTensor<T>& dst, const LocalTensor<T>& src,
                    const LocalTensor<uint32_t>& offset, uint32_t base, int64_t repeat_stride) {
  static_assert(
      one_of<T, half, int16_t, uint16_t, int32_t, uint32_t, float>,
      "AscendC::Scatter: the type is not accepted; accepted: half, int16_t, uint16_t, int32_t, uint32_t, float");
  static_assert(__NPU_ARCH__ != 2201 || sizeof(T) == 0,
                "AscendC::Scatter is not there on 910B and 910_93; accepted: Ascend310P, or SetValue and moves to GM");
  issue(Op::vscatter, where.of("Scatter"), lanes, {operand(dst), operand(src), operand(offset)},
        {integer(base), integer(32), integer(32 * repeat_stride)});
}

}  // namespace mco_asc

namespace AscendC {

// Elements to places given by byte offsets.
template <class T>
inline void Scatter(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                    const uint32_t base, const uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::scatter(where, mco_asc::count_of(count), dst, src, offset, base, DEFAULT_REPEAT_STRIDE);
}
template <class T>
inline void Scatter(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                    const uint32_t base, const uint64_t mask, const uint8_t repeat, const uint8_t srcRepStride,
                    mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::scatter(where, mco_asc::lanes_of<true>(mask, repeat), dst, src, offset, base, srcRepStride);
}
template <class T>
inline void Scatter(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                    const uint32_t base, const uint64_t mask[], const uint8_t repeat, const uint8_t srcRepStride,
                    mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::scatter(where, mco_asc::lanes_of<true>(mask, repeat), dst, src, offset, base, srcRepStride);
}

template <class A, class B>
struct IsSameType {
  static constexpr bool value = std::is_same<A, B>::value;
};
struct AscendCUtils {
  static constexpr int32_t GetBitSize(int32_t bytes) { return bytes * 8; }
  static constexpr int32_t GetC0Size() { return 32; }
  // The mask register, for calls that do not set it.
  template <class T, bool isSetMask = true>
  static void SetMask(const uint64_t& maskHigh, const uint64_t& maskLow) {
    if constexpr (isSetMask) SetVectorMask<T>(maskHigh, maskLow);
  }
  template <class T, bool isSetMask = true>
  static void SetMask(int32_t length) {
    if constexpr (isSetMask) SetVectorMask<T>(length);
  }
  static void ResetMask() { AscendC::ResetMask(); }
};

constexpr float PI = 3.14159265358979323846f;
constexpr int32_t TWO = 2;
constexpr uint64_t FULL_MASK = ~uint64_t(0);
constexpr uint8_t BRCB_BROADCAST_NUMBER = 8;
constexpr int32_t B8_DATA_NUM_PER_BLOCK = 32;
constexpr int32_t B16_DATA_NUM_PER_BLOCK = 16;
constexpr int32_t B32_DATA_NUM_PER_BLOCK = 8;
constexpr int32_t B64_DATA_NUM_PER_BLOCK = 4;
constexpr int32_t B8_DATA_NUM_PER_REPEAT = 256;
constexpr int32_t B16_DATA_NUM_PER_REPEAT = 128;
constexpr int32_t B32_DATA_NUM_PER_REPEAT = 64;
constexpr int32_t B64_DATA_NUM_PER_REPEAT = 32;
constexpr int32_t B8_BYTE_SIZE = 1;
constexpr int32_t B16_BYTE_SIZE = 2;
constexpr int32_t B32_BYTE_SIZE = 4;
constexpr int32_t B64_BYTE_SIZE = 8;
constexpr int32_t ONE_REPEAT_FLOAT_SIZE = 64;
constexpr int32_t ONE_REPEAT_HALF_SIZE = 128;
constexpr int32_t ONE_BLK_FLOAT_NUM = 8;
constexpr int32_t ONE_BLK_HALF_NUM = 16;

}  // namespace AscendC
