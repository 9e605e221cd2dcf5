// SPDX-License-Identifier: Apache-2.0
// Operators on whole tensors: `dst = a + b` computes as many elements as dst has.
#pragma once

#include "mco/select.h"

namespace mco_asc {

template <class R, class T, class F>
struct Expression {
  using Result = R;
  const LocalTensor<T>&a, &b;
  F function;
  void compute(const LocalTensor<R>& dst) const { function(dst, a, b); }
};

template <class R, class T, class F>
inline Expression<R, T, F> expression(const LocalTensor<T>& a, const LocalTensor<T>& b, F function) {
  return {a, b, function};
}

}  // namespace mco_asc

namespace AscendC {

#define MCO_ASC_OPERATOR(SYMBOL, CALL)                                                                              \
  template <class T>                                                                                                \
  inline auto operator SYMBOL(const LocalTensor<T>& a, const LocalTensor<T>& b) {                                   \
    return mco_asc::expression<T>(a, b,                                                                             \
                                  [](const LocalTensor<T>& dst, const LocalTensor<T>& x, const LocalTensor<T>& y) { \
                                    CALL(dst, x, y, int32_t(dst.GetSize()));                                        \
                                  });                                                                               \
  }
MCO_ASC_OPERATOR(+, Add)
MCO_ASC_OPERATOR(-, Sub)
MCO_ASC_OPERATOR(*, Mul)
MCO_ASC_OPERATOR(/, Div)
MCO_ASC_OPERATOR(&, And)
MCO_ASC_OPERATOR(|, Or)
#undef MCO_ASC_OPERATOR

#define MCO_ASC_OPERATOR(SYMBOL, MODE)                                                                \
  template <class T>                                                                                  \
  inline auto operator SYMBOL(const LocalTensor<T>& a, const LocalTensor<T>& b) {                     \
    return mco_asc::expression<uint8_t>(                                                              \
        a, b, [](const LocalTensor<uint8_t>& dst, const LocalTensor<T>& x, const LocalTensor<T>& y) { \
          Compare(dst, x, y, CMPMODE::MODE, x.GetSize());                                             \
        });                                                                                           \
  }
MCO_ASC_OPERATOR(<, LT)
MCO_ASC_OPERATOR(>, GT)
MCO_ASC_OPERATOR(==, EQ)
MCO_ASC_OPERATOR(<=, LE)
MCO_ASC_OPERATOR(>=, GE)
MCO_ASC_OPERATOR(!=, NE)
#undef MCO_ASC_OPERATOR

}  // namespace AscendC
