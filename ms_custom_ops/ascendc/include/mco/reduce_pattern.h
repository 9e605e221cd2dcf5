// SPDX-License-Identifier: Apache-2.0
// Library reductions of a matrix along one axis: A is an axis that stays, R one that goes. Computed in double and
// rounded once.
#pragma once

#include "mco/library.h"

namespace AscendC {
namespace Pattern {
namespace Reduce {
struct AR {
  static constexpr bool mco_last = true;
};
struct RA {
  static constexpr bool mco_last = false;
};
}  // namespace Reduce
}  // namespace Pattern
}  // namespace AscendC

namespace mco_asc {

template <class P>
constexpr bool is_pattern = one_of<P, AscendC::Pattern::Reduce::AR, AscendC::Pattern::Reduce::RA>;

// Every value that stays, of those that go: `f` of what there is so far, from `first` on. Rows are padded to whole
// blocks, or not. The destination may be the source: what is overwritten has been read.
template <class T, class P, class F, class Last>
inline void reduce_axis(const char* call, Where where, const LocalTensor<T>& dst, const LocalTensor<T>& src,
                        const uint32_t shape[], bool padded, double first, F f, Last last) {
  constexpr int64_t block = 32 / int64_t(sizeof(T));
  const int64_t rows = shape[0], columns = shape[1], pitch = padded ? (columns + block - 1) / block * block : columns;
  if (!rows || !columns) return;
  const int64_t kept = P::mco_last ? rows : columns, gone = P::mco_last ? columns : rows;
  const T* from = rows_in(src, rows, columns, pitch, call, where);
  T* to = array(dst, kept, MCO_ASC_WRITE, call, where);
  for (int64_t i = 0; i < kept; ++i) {
    double value = first;
    for (int64_t j = 0; j < gone; ++j) value = f(value, double(from[P::mco_last ? i * pitch + j : j * pitch + i]));
    to[i] = T(last(value, double(gone)));
  }
}

inline double as_it_is(double value, double) { return value; }

}  // namespace mco_asc

namespace AscendC {

#define MCO_ASC_REDUCE_AXIS(NAME, FIRST, VALUE, LAST, ...)                                                         \
  template <class T, class pattern, bool isReuseSource = false>                                                    \
  inline std::enable_if_t<mco_asc::is_pattern<pattern>> NAME(                                                      \
      const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t srcShape[], bool srcInnerPad,           \
      mco_asc::Where where = mco_asc::Where::here()) {                                                             \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                               \
    mco_asc::reduce_axis<T, pattern>(                                                                              \
        #NAME, where, dst, src, srcShape, srcInnerPad, FIRST, [](double a, double b) { return double(VALUE); },    \
        LAST);                                                                                                     \
  }                                                                                                                \
  template <class T, class pattern, bool isReuseSource = false>                                                    \
  inline std::enable_if_t<mco_asc::is_pattern<pattern>> NAME(                                                      \
      const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&,                           \
      const uint32_t srcShape[], bool srcInnerPad, mco_asc::Where where = mco_asc::Where::here()) {                \
    NAME<T, pattern, isReuseSource>(dst, src, srcShape, srcInnerPad, where);                                       \
  }

MCO_ASC_REDUCE_AXIS(ReduceSum, 0, a + b, mco_asc::as_it_is, half, float)
MCO_ASC_REDUCE_AXIS(ReduceMean, 0, a + b, [](double sum, double n) { return sum / n; }, half, float)
MCO_ASC_REDUCE_AXIS(ReduceProd, 1, a * b, mco_asc::as_it_is, half, float)
// NaN stays.
MCO_ASC_REDUCE_AXIS(ReduceMax, -INFINITY, (a != a || a > b ? a : b), mco_asc::as_it_is, half, bfloat16_t, float)
MCO_ASC_REDUCE_AXIS(ReduceMin, INFINITY, (a != a || a < b ? a : b), mco_asc::as_it_is, half, bfloat16_t, float)
// 0 or 1.
MCO_ASC_REDUCE_AXIS(ReduceAny, 0, (a != 0 || b != 0), mco_asc::as_it_is, uint8_t, float)
MCO_ASC_REDUCE_AXIS(ReduceAll, 1, (a != 0 && b != 0), mco_asc::as_it_is, uint8_t, float)
#undef MCO_ASC_REDUCE_AXIS

// The sum of src0 ^ src1.
template <class T, bool isReuseSource = false>
inline void ReduceXorSum(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                         const uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(ReduceXorSum, int16_t);
  if (!count) return;
  const T* a = mco_asc::array(src0, count, 0, "ReduceXorSum", where);
  const T* b = mco_asc::array(src1, count, 0, "ReduceXorSum", where);
  T* to = mco_asc::array(dst, 1, MCO_ASC_WRITE, "ReduceXorSum", where);
  int64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) sum += T(a[i] ^ b[i]);
  *to = T(sum < INT16_MIN ? INT16_MIN : sum > INT16_MAX ? INT16_MAX : sum);
}
template <class T, bool isReuseSource = false>
inline void ReduceXorSum(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                         const LocalTensor<uint8_t>&, const uint32_t count,
                         mco_asc::Where where = mco_asc::Where::here()) {
  ReduceXorSum<T, isReuseSource>(dst, src0, src1, count, where);
}

}  // namespace AscendC
