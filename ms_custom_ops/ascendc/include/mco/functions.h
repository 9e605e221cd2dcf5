// SPDX-License-Identifier: Apache-2.0
// Library functions with forms of their own: numbers beside tensors, flags of precision, whole numbers.
#pragma once

#include <limits>

#include "mco/library.h"

namespace mco_asc {

// A number as an element: whole ones towards zero and within their range, as Cast does it.
template <class T>
inline T settled(double x) {
  if constexpr (std::is_integral<T>::value) {
    using Limits = std::numeric_limits<T>;
    if (x != x) return 0;
    return x >= double(Limits::max()) ? Limits::max() : x <= double(Limits::min()) ? Limits::min() : T(x);
  } else {
    return T(x);
  }
}

// Powers of elements that `base` and `exponent` give for each place.
template <class T, class X, class Y>
inline void power(Where where, const LocalTensor<T>& dst, int64_t n, X base, Y exponent) {
  static_assert(one_of<T, half, float, int32_t>,
                "AscendC::Power: the type of the tensors is not accepted; accepted: half, float, int32_t");
  if (n <= 0) return;
  T* to = array(dst, n, MCO_ASC_WRITE, "Power", where);
  for (int64_t i = 0; i < n; ++i) to[i] = settled<T>(std::pow(base(i), exponent(i)));
}
template <class T>
inline auto powers_of(Where where, const LocalTensor<T>& t, int64_t n) {
  const T* from = n > 0 ? array(t, n, 0, "Power", where) : nullptr;
  return [from](int64_t i) { return double(from[i]); };
}
inline auto power_of(double value) {
  return [value](int64_t) { return value; };
}

}  // namespace mco_asc

namespace AscendC {

// With a tensor on both sides, or a number on one; with and without a temporary buffer, with and without a count.
#define MCO_ASC_POWER(BASE, EXPONENT, X, Y, SIZE)                                                            \
  template <class T, bool isReuseSource = false>                                                             \
  inline void Power(const LocalTensor<T>& dst, BASE, EXPONENT, const LocalTensor<uint8_t>&, uint32_t count,  \
                    mco_asc::Where where = mco_asc::Where::here()) {                                         \
    mco_asc::power(where, dst, count, X(count), Y(count));                                                   \
  }                                                                                                          \
  template <class T, bool isReuseSource = false>                                                             \
  inline void Power(const LocalTensor<T>& dst, BASE, EXPONENT, const LocalTensor<uint8_t>&,                  \
                    mco_asc::Where where = mco_asc::Where::here()) {                                         \
    const int64_t count = SIZE.GetSize();                                                                    \
    mco_asc::power(where, dst, count, X(count), Y(count));                                                   \
  }                                                                                                          \
  template <class T, bool isReuseSource = false>                                                             \
  inline void Power(const LocalTensor<T>& dst, BASE, EXPONENT, uint32_t count,                               \
                    mco_asc::Where where = mco_asc::Where::here()) {                                         \
    mco_asc::power(where, dst, count, X(count), Y(count));                                                   \
  }                                                                                                          \
  template <class T, bool isReuseSource = false>                                                             \
  inline void Power(const LocalTensor<T>& dst, BASE, EXPONENT, mco_asc::Where where = mco_asc::Where::here()) { \
    const int64_t count = SIZE.GetSize();                                                                    \
    mco_asc::power(where, dst, count, X(count), Y(count));                                                   \
  }
#define MCO_ASC_BASES(count) mco_asc::powers_of(where, src0, count)
#define MCO_ASC_EXPONENTS(count) mco_asc::powers_of(where, src1, count)
#define MCO_ASC_BASE(count) mco_asc::power_of(double(base))
#define MCO_ASC_EXPONENT(count) mco_asc::power_of(double(exponent))
MCO_ASC_POWER(const LocalTensor<T>& src0, const LocalTensor<T>& src1, MCO_ASC_BASES, MCO_ASC_EXPONENTS, src0)
MCO_ASC_POWER(const LocalTensor<T>& src0, mco_asc::same_t<T> exponent, MCO_ASC_BASES, MCO_ASC_EXPONENT, src0)
MCO_ASC_POWER(mco_asc::same_t<T> base, const LocalTensor<T>& src1, MCO_ASC_BASE, MCO_ASC_EXPONENTS, src1)
#undef MCO_ASC_BASES
#undef MCO_ASC_EXPONENTS
#undef MCO_ASC_BASE
#undef MCO_ASC_EXPONENT
#undef MCO_ASC_POWER

// By a Taylor series of that many terms on the chip. With a bool in place of the number it is the instruction.
template <class T, auto taylorExpandLevel, bool isReuseSource = false,
          std::enable_if_t<!std::is_same<decltype(taylorExpandLevel), bool>::value, int> = 0>
inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
                mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::each("Exp", where, dst, src, count, [](double x) { return std::exp(x); });
}
template <class T, uint8_t taylorExpandLevel, bool isReuseSource = false>
inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&, const uint32_t count,
                mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::each("Exp", where, dst, src, count, [](double x) { return std::exp(x); });
}

// A product, rounded, and a sum.
template <class T, class U, bool isReuseSource = false>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const mco_asc::same_t<U> scalar,
                 const LocalTensor<uint8_t>&, const uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(mco_asc::one_of<T, half, float> && (std::is_same<T, U>::value || std::is_same<U, half>::value),
                "AscendC::Axpy: these types are not accepted; accepted: half or float, and half into float");
  if (!count) return;
  const U* from = mco_asc::array(src, count, 0, "Axpy", where);
  T* to = mco_asc::array(dst, count, MCO_ASC_EITHER, "Axpy", where);
  for (uint32_t i = 0; i < count; ++i) to[i] = T(float(T(float(from[i]) * float(scalar))) + float(to[i]));
}

// The flags choose how the chip computes it.
#define MCO_ASC_FUNCTION_FLAGS(NAME)                                                                       \
  template <class T, bool highPrecision, bool highPerformance>                                             \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& tmp,  \
                   const uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {                  \
    NAME<T>(dst, src, tmp, count, where);                                                                  \
  }                                                                                                        \
  template <class T, bool highPrecision, bool highPerformance>                                             \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,             \
                   mco_asc::Where where = mco_asc::Where::here()) {                                        \
    NAME<T>(dst, src, count, where);                                                                       \
  }
MCO_ASC_FUNCTION_FLAGS(Gelu)
MCO_ASC_FUNCTION_FLAGS(FasterGelu)
MCO_ASC_FUNCTION_FLAGS(FasterGeluV2)
#undef MCO_ASC_FUNCTION_FLAGS

}  // namespace AscendC
