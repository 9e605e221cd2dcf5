// SPDX-License-Identifier: Apache-2.0
// Library functions of single tensors: computed in double by the C library and rounded once. The chip uses polynomials,
// whose last bits are not known.
#pragma once

#include <cmath>

#include "mco/sort.h"

namespace mco_asc {

// `n` elements of a tensor as an array, checked as a whole.
template <class T>
inline T* array(const LocalTensor<T>& t, int64_t n, int how, const char* call, Where where) {
  const mco_asc_where here = where.of(call);
  return static_cast<T*>(mco_asc_touch(&here, t.mco_at(), t.mco_home(), n * int64_t(sizeof(T)),
                                       how | MCO_ASC_LIBRARY | int(sizeof(T)) << MCO_ASC_ELEMENT_SHIFT));
}

// The same for rows of which only the first `columns` elements of every `pitch` are read.
template <class T>
inline const T* rows_in(const LocalTensor<T>& t, int64_t rows, int64_t columns, int64_t pitch, const char* call,
                        Where where) {
  if (!mco_asc_this_core(call)->observed) return array(t, (rows - 1) * pitch + columns, 0, call, where);
  for (int64_t r = rows; r-- > 0;) array(t[uint32_t(r * pitch)], columns, 0, call, where);
  return static_cast<const T*>(t.mco_at());
}

inline double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x, double beta = 1) { return x / (1 + std::exp(-beta * x)); }
// The tanh form.
inline double gelu(double x) { return x * sigmoid(2 * 0.7978845608028654 * (x + 0.044715 * x * x * x)); }
inline double faster_gelu(double x) { return x / (1 + std::exp(-1.702 * x)); }
inline double digamma(double x) {
  if (x <= 0 && std::floor(x) == x) return NAN;
  double below = 0;
  if (x < 0) return digamma(1 - x) - 3.14159265358979323846 / std::tan(3.14159265358979323846 * x);
  for (; x < 10; x += 1) below -= 1 / x;
  const double f = 1 / (x * x);
  return below + std::log(x) - 0.5 / x -
         f * (1. / 12 - f * (1. / 120 - f * (1. / 252 - f * (1. / 240 - f * (1. / 132)))));
}

template <class T, class F>
inline void each(const char* call, Where where, const LocalTensor<T>& dst, const LocalTensor<T>& src, int64_t n, F f) {
  static_assert(one_of<T, half, float>, "AscendC: a library function takes half and float; the type is not accepted");
  if (n <= 0) return;
  const T* from = array(src, n, 0, call, where);
  T* to = array(dst, n, MCO_ASC_WRITE, call, where);
  for (int64_t i = 0; i < n; ++i) to[i] = T(f(double(float(from[i]))));
}

template <class T, class F>
inline void each(const char* call, Where where, const LocalTensor<T>& dst, const LocalTensor<T>& a,
                 const LocalTensor<T>& b, int64_t n, F f) {
  if (n <= 0) return;
  const T *x = array(a, n, 0, call, where), *y = array(b, n, 0, call, where);
  T* to = array(dst, n, MCO_ASC_WRITE, call, where);
  for (int64_t i = 0; i < n; ++i) to[i] = T(f(double(x[i]), double(y[i])));
}

}  // namespace mco_asc

namespace AscendC {

// With and without a temporary buffer, with and without a count.
#define MCO_ASC_FUNCTION(NAME, VALUE)                                                                 \
  template <class T, bool isReuseSource = false>                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&, \
                   const uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {             \
    mco_asc::each(#NAME, where, dst, src, count, [](double x) { return VALUE; });                     \
  }                                                                                                   \
  template <class T, bool isReuseSource = false>                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&, \
                   mco_asc::Where where = mco_asc::Where::here()) {                                   \
    mco_asc::each(#NAME, where, dst, src, src.GetSize(), [](double x) { return VALUE; });             \
  }                                                                                                   \
  template <class T, bool isReuseSource = false>                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,        \
                   mco_asc::Where where = mco_asc::Where::here()) {                                   \
    mco_asc::each(#NAME, where, dst, src, count, [](double x) { return VALUE; });                     \
  }                                                                                                   \
  template <class T, bool isReuseSource = false>                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src,                              \
                   mco_asc::Where where = mco_asc::Where::here()) {                                   \
    mco_asc::each(#NAME, where, dst, src, src.GetSize(), [](double x) { return VALUE; });             \
  }

MCO_ASC_FUNCTION(Sin, std::sin(x))
MCO_ASC_FUNCTION(Cos, std::cos(x))
MCO_ASC_FUNCTION(Tan, std::tan(x))
MCO_ASC_FUNCTION(Asin, std::asin(x))
MCO_ASC_FUNCTION(Acos, std::acos(x))
MCO_ASC_FUNCTION(Atan, std::atan(x))
MCO_ASC_FUNCTION(Sinh, std::sinh(x))
MCO_ASC_FUNCTION(Cosh, std::cosh(x))
MCO_ASC_FUNCTION(Tanh, std::tanh(x))
MCO_ASC_FUNCTION(Asinh, std::asinh(x))
MCO_ASC_FUNCTION(Acosh, std::acosh(x))
MCO_ASC_FUNCTION(Atanh, std::atanh(x))
MCO_ASC_FUNCTION(Log, std::log(x))
MCO_ASC_FUNCTION(Log2, std::log2(x))
MCO_ASC_FUNCTION(Log10, std::log10(x))
MCO_ASC_FUNCTION(Sign, mco_asc::sign(x))
MCO_ASC_FUNCTION(Floor, std::floor(x))
MCO_ASC_FUNCTION(Ceil, std::ceil(x))
MCO_ASC_FUNCTION(Round, std::nearbyint(x))
MCO_ASC_FUNCTION(Rint, std::nearbyint(x))
MCO_ASC_FUNCTION(Trunc, std::trunc(x))
MCO_ASC_FUNCTION(Frac, x - std::trunc(x))
MCO_ASC_FUNCTION(Erf, std::erf(x))
MCO_ASC_FUNCTION(Erfc, std::erfc(x))
MCO_ASC_FUNCTION(Lgamma, std::lgamma(x))
MCO_ASC_FUNCTION(Digamma, mco_asc::digamma(x))
MCO_ASC_FUNCTION(Sigmoid, mco_asc::sigmoid(x))
MCO_ASC_FUNCTION(Silu, mco_asc::silu(x))
MCO_ASC_FUNCTION(Gelu, mco_asc::gelu(x))
MCO_ASC_FUNCTION(FasterGelu, mco_asc::faster_gelu(x))
MCO_ASC_FUNCTION(FasterGeluV2, mco_asc::faster_gelu(x))
MCO_ASC_FUNCTION(Neg, -x)
#undef MCO_ASC_FUNCTION

#define MCO_ASC_FUNCTION2(NAME, VALUE)                                                                                \
  template <class T, bool isReuseSource = false>                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                 \
                   const LocalTensor<uint8_t>&, uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {      \
    mco_asc::each(#NAME, where, dst, src0, src1, count, [](double x, double y) { return VALUE; });                    \
  }                                                                                                                   \
  template <class T, bool isReuseSource = false>                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                 \
                   const LocalTensor<uint8_t>&, mco_asc::Where where = mco_asc::Where::here()) {                      \
    mco_asc::each(#NAME, where, dst, src0, src1, src0.GetSize(), [](double x, double y) { return VALUE; });           \
  }                                                                                                                   \
  template <class T, bool isReuseSource = false>                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint32_t count, \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                   \
    mco_asc::each(#NAME, where, dst, src0, src1, count, [](double x, double y) { return VALUE; });                    \
  }                                                                                                                   \
  template <class T, bool isReuseSource = false>                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                 \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                   \
    mco_asc::each(#NAME, where, dst, src0, src1, src0.GetSize(), [](double x, double y) { return VALUE; });           \
  }
MCO_ASC_FUNCTION2(Fmod, std::fmod(x, y))
MCO_ASC_FUNCTION2(Hypot, std::hypot(x, y))
MCO_ASC_FUNCTION2(Xor, double(int64_t(x) ^ int64_t(y)))
MCO_ASC_FUNCTION2(GeGLU, x* mco_asc::gelu(y))
MCO_ASC_FUNCTION2(ReGlu, x*(y > 0 ? y : 0))
MCO_ASC_FUNCTION2(Prelu, x >= 0 ? x : x * y)
#undef MCO_ASC_FUNCTION2

#define MCO_ASC_FUNCTION_SCALAR(NAME, VALUE)                                                                        \
  template <class T, bool isReuseSource = false>                                                                    \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&,               \
                   mco_asc::same_t<T> scalar, uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {      \
    const double y = double(scalar);                                                                                \
    mco_asc::each(#NAME, where, dst, src, count, [y](double x) { return VALUE; });                                  \
  }                                                                                                                 \
  template <class T, bool isReuseSource = false>                                                                    \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar, uint32_t count, \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                 \
    const double y = double(scalar);                                                                                \
    mco_asc::each(#NAME, where, dst, src, count, [y](double x) { return VALUE; });                                  \
  }
MCO_ASC_FUNCTION_SCALAR(ClampMax, x > y ? y : x)
MCO_ASC_FUNCTION_SCALAR(ClampMin, x < y ? y : x)
MCO_ASC_FUNCTION_SCALAR(Swish, mco_asc::silu(x, y))
#undef MCO_ASC_FUNCTION_SCALAR

template <class T, bool isReuseSource = false>
inline void Clamp(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> low, mco_asc::same_t<T> high,
                  uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {
  const double a = double(low), b = double(high);
  mco_asc::each("Clamp", where, dst, src, count, [a, b](double x) { return x < a ? a : x > b ? b : x; });
}

// x * silu_beta(y)
template <class T, bool isReuseSource = false>
inline void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& beta,
                   const LocalTensor<uint8_t>&, uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {
  const double b = double(beta);
  mco_asc::each("SwiGLU", where, dst, src0, src1, count, [b](double x, double y) { return x * mco_asc::silu(y, b); });
}
template <class T, bool isReuseSource = false>
inline void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& beta,
                   uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {
  SwiGLU<T, isReuseSource>(dst, src0, src1, beta, LocalTensor<uint8_t>(), count, where);
}

// To an integral value in the same type.
template <class T, RoundMode mode = RoundMode::CAST_NONE>
inline void Truncate(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::each("Truncate", where, dst, src, count, [](double x) {
    return mode == RoundMode::CAST_FLOOR   ? std::floor(x)
           : mode == RoundMode::CAST_CEIL  ? std::ceil(x)
           : mode == RoundMode::CAST_ROUND ? std::round(x)
           : mode == RoundMode::CAST_RINT  ? std::nearbyint(x)
                                           : std::trunc(x);
  });
}

// Index sequences.
template <class T>
inline void ArithProgression(const LocalTensor<T>& dst, const T first, const T difference, const int32_t count,
                             mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(mco_asc::one_of<T, int16_t, half, int32_t, float>,
                "AscendC::ArithProgression: the type is not accepted; accepted: int16_t, half, int32_t, float");
  if (count <= 0) return;
  T* to = mco_asc::array(dst, count, MCO_ASC_WRITE, "ArithProgression", where);
  for (int32_t i = 0; i < count; ++i) to[i] = T(double(first) + double(difference) * i);
}
template <class T>
inline void Arange(const LocalTensor<T>& dst, const T first, const T difference, const int32_t count,
                   mco_asc::Where where = mco_asc::Where::here()) {
  ArithProgression(dst, first, difference, count, where);
}

// Rows of sums.
struct SumParams {
  uint32_t outter = 1;
  uint32_t inner = 0;
  uint32_t n = 0;
};
struct MeanParams {
  uint32_t outter = 1;
  uint32_t inner = 0;
  uint32_t n = 0;
};

}  // namespace AscendC

namespace mco_asc {

template <class T>
inline double row_sum(const T* row, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double(row[i]);
  return sum;
}

}  // namespace mco_asc

namespace AscendC {

template <class T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
inline void Sum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&, const SumParams& p,
                mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(Sum, half, float);
  if (!p.outter || !p.n) return;
  const T* from = mco_asc::rows_in(src, p.outter, p.n, p.inner, "Sum", where);
  T* to = mco_asc::array(dst, p.outter, MCO_ASC_WRITE, "Sum", where);
  for (uint32_t r = 0; r < p.outter; ++r) to[r] = T(mco_asc::row_sum(from + int64_t(r) * p.inner, p.n));
}
template <class T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
inline void Sum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SumParams& p,
                mco_asc::Where where = mco_asc::Where::here()) {
  Sum<T, reduceDim, isReuseSource, isBasicBlock>(dst, src, LocalTensor<uint8_t>(), p, where);
}
template <class T, class A = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>
inline void Mean(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&, const MeanParams& p,
                 mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(Mean, half, float);
  if (!p.outter || !p.n) return;
  const T* from = mco_asc::rows_in(src, p.outter, p.n, p.inner, "Mean", where);
  T* to = mco_asc::array(dst, p.outter, MCO_ASC_WRITE, "Mean", where);
  for (uint32_t r = 0; r < p.outter; ++r) to[r] = T(mco_asc::row_sum(from + int64_t(r) * p.inner, p.n) / p.n);
}
template <class T, class A = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>
inline void Mean(const LocalTensor<T>& dst, const LocalTensor<T>& src, const MeanParams& p,
                 mco_asc::Where where = mco_asc::Where::here()) {
  Mean<T, A, isReuseSource, isBasicBlock, reduceDim>(dst, src, LocalTensor<uint8_t>(), p, where);
}

// A tensor of one or two axes, repeated along those of size 1.
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
                      const uint32_t srcShape[dim], const LocalTensor<uint8_t>&,
                      mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(dim == 1 || dim == 2, "AscendC::BroadCast: this number of axes is not accepted; accepted: 1, 2");
  const mco_asc_where here = where.of("BroadCast");
  const int64_t rows = dim == 2 ? dstShape[0] : 1, columns = dstShape[dim - 1];
  const int64_t src_rows = dim == 2 ? srcShape[0] : 1, src_columns = srcShape[dim - 1];
  if ((src_rows != rows && src_rows != 1) || (src_columns != columns && src_columns != 1)) {
    mco_asc_fault(&here, "a source of [%lld, %lld] for [%lld, %lld]; accepted: equal sizes, or 1", (long long)src_rows,
                  (long long)src_columns, (long long)rows, (long long)columns);
  }
  if (!rows || !columns) return;
  const T* from = mco_asc::array(src, src_rows * src_columns, 0, "BroadCast", where);
  T* to = mco_asc::array(dst, rows * columns, MCO_ASC_WRITE, "BroadCast", where);
  for (int64_t r = rows; r-- > 0;) {
    for (int64_t c = columns; c-- > 0;) {
      to[r * columns + c] = from[(src_rows == 1 ? 0 : r) * src_columns + (src_columns == 1 ? 0 : c)];
    }
  }
}
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
                      const uint32_t srcShape[dim], mco_asc::Where where = mco_asc::Where::here()) {
  BroadCast<T, dim, axis, isReuseSource>(dst, src, dstShape, srcShape, LocalTensor<uint8_t>(), where);
}
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void Broadcast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
                      const uint32_t srcShape[dim], const LocalTensor<uint8_t>& tmp,
                      mco_asc::Where where = mco_asc::Where::here()) {
  BroadCast<T, dim, axis, isReuseSource>(dst, src, dstShape, srcShape, tmp, where);
}
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void Broadcast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
                      const uint32_t srcShape[dim], mco_asc::Where where = mco_asc::Where::here()) {
  BroadCast<T, dim, axis, isReuseSource>(dst, src, dstShape, srcShape, where);
}

}  // namespace AscendC
