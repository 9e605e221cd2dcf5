// SPDX-License-Identifier: Apache-2.0
// Element-wise vector instructions, in both forms: a count of elements, or mask, repeats and strides.
#pragma once

#include "mco/vector_forms.h"

namespace AscendC {

#define MCO_ASC_NEED(NAME, ...)                  \
  static_assert(mco_asc::one_of<T, __VA_ARGS__>, \
                "AscendC::" #NAME ": the type of the tensors is not accepted; accepted: " #__VA_ARGS__)

#define MCO_ASC_UNARY(NAME, OP, ...)                                                                             \
  template <class T, bool isSetMask = true>                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count,                   \
                   mco_asc::Where where = mco_asc::Where::here()) {                                              \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                             \
    mco_asc::unary(mco_asc::Op::OP, #NAME, where, dst, src, count);                                              \
  }                                                                                                              \
  template <class T, bool isSetMask = true>                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, uint8_t repeat,          \
                   const UnaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) {             \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                             \
    mco_asc::unary(mco_asc::Op::OP, #NAME, where, dst, src, mco_asc::lanes_of<isSetMask>(mask, repeat), params); \
  }                                                                                                              \
  template <class T, bool isSetMask = true>                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], uint8_t repeat,  \
                   const UnaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) {             \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                             \
    mco_asc::unary(mco_asc::Op::OP, #NAME, where, dst, src, mco_asc::lanes_of<isSetMask>(mask, repeat), params); \
  }

MCO_ASC_UNARY(Exp, vexp, half, float)
MCO_ASC_UNARY(Ln, vln, half, float)
MCO_ASC_UNARY(Abs, vabs, half, float)
MCO_ASC_UNARY(Reciprocal, vrec, half, float)
MCO_ASC_UNARY(Sqrt, vsqrt, half, float)
MCO_ASC_UNARY(Rsqrt, vrsqrt, half, float)
MCO_ASC_UNARY(Relu, vrelu, half, float, int32_t)
#undef MCO_ASC_UNARY

#define MCO_ASC_BINARY_MASKED(NAME, OP, ...)                                                                          \
  template <class T, bool isSetMask = true>                                                                           \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask,  \
                   uint8_t repeat, const BinaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) { \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                                  \
    mco_asc::binary(mco_asc::Op::OP, #NAME, where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat),       \
                    params);                                                                                          \
  }                                                                                                                   \
  template <class T, bool isSetMask = true>                                                                           \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                 \
                   const uint64_t mask[], uint8_t repeat, const BinaryRepeatParams& params,                           \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                   \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                                  \
    mco_asc::binary(mco_asc::Op::OP, #NAME, where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat),       \
                    params);                                                                                          \
  }

#define MCO_ASC_BINARY(NAME, OP, ...)                                                                 \
  template <class T, bool isSetMask = true>                                                           \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, \
                   const int32_t& count, mco_asc::Where where = mco_asc::Where::here()) {             \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                  \
    mco_asc::binary(mco_asc::Op::OP, #NAME, where, dst, src0, src1, count);                           \
  }                                                                                                   \
  MCO_ASC_BINARY_MASKED(NAME, OP, __VA_ARGS__)

MCO_ASC_BINARY(Add, vadd, int16_t, half, int32_t, float)
MCO_ASC_BINARY(Sub, vsub, int16_t, half, int32_t, float)
MCO_ASC_BINARY(Mul, vmul, int16_t, half, int32_t, float)
MCO_ASC_BINARY(Max, vmax, int16_t, half, int32_t, float)
MCO_ASC_BINARY(Min, vmin, int16_t, half, int32_t, float)
MCO_ASC_BINARY(Div, vdiv, half, float)
MCO_ASC_BINARY(FusedMulAdd, vmadd, half, float)
MCO_ASC_BINARY(FusedMulAddRelu, vmaddrelu, half, float)
MCO_ASC_BINARY(MulAddRelu, vmaddrelu, half, float)
MCO_ASC_BINARY(AddRelu, vaddrelu, half, float, int16_t)
MCO_ASC_BINARY(SubRelu, vsubrelu, half, float, int16_t)
#undef MCO_ASC_BINARY

// dst += src0 * src1, also of half into float.
template <class T, class U, bool isSetMask = true>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                      const int32_t& count, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(MulAddDst, half, float);
  mco_asc::binary(mco_asc::Op::vmla, "MulAddDst", where, dst, src0, src1, count);
}
template <class T, class U, bool isSetMask = true>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, uint64_t mask,
                      uint8_t repeat, const BinaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(MulAddDst, half, float);
  mco_asc::binary(mco_asc::Op::vmla, "MulAddDst", where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat),
                  params);
}
template <class T, class U, bool isSetMask = true>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                      const uint64_t mask[], uint8_t repeat, const BinaryRepeatParams& params,
                      mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(MulAddDst, half, float);
  mco_asc::binary(mco_asc::Op::vmla, "MulAddDst", where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat),
                  params);
}

#define MCO_ASC_SCALAR(NAME, OP, ...)                                                                                 \
  template <class T, bool isSetMask = true>                                                                           \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar,                   \
                   const int32_t& count, mco_asc::Where where = mco_asc::Where::here()) {                             \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                                  \
    mco_asc::with_scalar(mco_asc::Op::OP, #NAME, where, dst, src, scalar, count);                                     \
  }                                                                                                                   \
  template <class T, bool isSetMask = true>                                                                           \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar, uint64_t mask,    \
                   uint8_t repeat, const UnaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) {  \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                                  \
    mco_asc::with_scalar(mco_asc::Op::OP, #NAME, where, dst, src, scalar, mco_asc::lanes_of<isSetMask>(mask, repeat), \
                         params);                                                                                     \
  }                                                                                                                   \
  template <class T, bool isSetMask = true>                                                                           \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar,                   \
                   const uint64_t mask[], uint8_t repeat, const UnaryRepeatParams& params,                            \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                   \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                                  \
    mco_asc::with_scalar(mco_asc::Op::OP, #NAME, where, dst, src, scalar, mco_asc::lanes_of<isSetMask>(mask, repeat), \
                         params);                                                                                     \
  }

MCO_ASC_SCALAR(Adds, vadds, int16_t, half, int32_t, float)
MCO_ASC_SCALAR(Muls, vmuls, int16_t, half, int32_t, float)
MCO_ASC_SCALAR(Maxs, vmaxs, int16_t, half, int32_t, float)
MCO_ASC_SCALAR(Mins, vmins, int16_t, half, int32_t, float)
MCO_ASC_SCALAR(LeakyRelu, vlrelu, half, float)
MCO_ASC_SCALAR(ShiftLeft, vshl, uint16_t, int16_t, uint32_t, int32_t)
#undef MCO_ASC_SCALAR

template <class T, bool isSetMask = true>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar,
                       const int32_t& count, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(ShiftRight, uint16_t, int16_t, uint32_t, int32_t);
  mco_asc::with_scalar(mco_asc::Op::vshr, "ShiftRight", where, dst, src, scalar, count);
}
template <class T, bool isSetMask = true>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar, uint64_t mask,
                       uint8_t repeat, const UnaryRepeatParams& params, bool roundEn = false,
                       mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(ShiftRight, uint16_t, int16_t, uint32_t, int32_t);
  mco_asc::with_scalar(mco_asc::Op::vshr, "ShiftRight", where, dst, src, scalar,
                       mco_asc::lanes_of<isSetMask>(mask, repeat), params, roundEn);
}
template <class T, bool isSetMask = true>
inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar,
                       const uint64_t mask[], uint8_t repeat, const UnaryRepeatParams& params, bool roundEn = false,
                       mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(ShiftRight, uint16_t, int16_t, uint32_t, int32_t);
  mco_asc::with_scalar(mco_asc::Op::vshr, "ShiftRight", where, dst, src, scalar,
                       mco_asc::lanes_of<isSetMask>(mask, repeat), params, roundEn);
}

// dst += scalar * src, also of half into float.
template <class T, class U, bool isSetMask = true>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, mco_asc::same_t<U> scalar, const int32_t& count,
                 mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(Axpy, half, float);
  mco_asc::with_scalar(mco_asc::Op::vaxpy, "Axpy", where, dst, src, scalar, count);
}
template <class T, class U, bool isSetMask = true>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, mco_asc::same_t<U> scalar, uint64_t mask,
                 uint8_t repeat, const UnaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(Axpy, half, float);
  mco_asc::with_scalar(mco_asc::Op::vaxpy, "Axpy", where, dst, src, scalar, mco_asc::lanes_of<isSetMask>(mask, repeat),
                       params);
}
template <class T, class U, bool isSetMask = true>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, mco_asc::same_t<U> scalar, const uint64_t mask[],
                 uint8_t repeat, const UnaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(Axpy, half, float);
  mco_asc::with_scalar(mco_asc::Op::vaxpy, "Axpy", where, dst, src, scalar, mco_asc::lanes_of<isSetMask>(mask, repeat),
                       params);
}

// Bitwise. Elements of 8 or 32 bits are taken as the 16-bit words that they are made of, as long as no mask counts
// them.
#define MCO_ASC_BITWISE_TYPES(NAME) MCO_ASC_NEED(NAME, int16_t, uint16_t, int8_t, uint8_t, int32_t, uint32_t)

template <class T>
inline LocalTensor<uint16_t> mco_words(const LocalTensor<T>& t) {
  return t.template ReinterpretCast<uint16_t>();
}
template <class T>
constexpr int32_t mco_word_count(int32_t count) {
  return int32_t((int64_t(count) * int64_t(sizeof(T)) + 1) / 2);
}

#define MCO_ASC_BITWISE(NAME, OP)                                                                     \
  template <class T, bool isSetMask = true>                                                           \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, \
                   const int32_t& count, mco_asc::Where where = mco_asc::Where::here()) {             \
    MCO_ASC_BITWISE_TYPES(NAME);                                                                      \
    mco_asc::binary(mco_asc::Op::OP, #NAME, where, mco_words(dst), mco_words(src0), mco_words(src1),  \
                    mco_word_count<T>(count));                                                        \
  }                                                                                                   \
  MCO_ASC_BINARY_MASKED(NAME, OP, int16_t, uint16_t)
MCO_ASC_BITWISE(And, vand)
MCO_ASC_BITWISE(Or, vor)
#undef MCO_ASC_BITWISE
#undef MCO_ASC_BINARY_MASKED

template <class T, bool isSetMask = true>
inline void Not(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count,
                mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_BITWISE_TYPES(Not);
  mco_asc::unary(mco_asc::Op::vnot, "Not", where, mco_words(dst), mco_words(src), mco_word_count<T>(count));
}
template <class T, bool isSetMask = true>
inline void Not(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, uint8_t repeat,
                const UnaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(Not, int16_t, uint16_t);
  mco_asc::unary(mco_asc::Op::vnot, "Not", where, dst, src, mco_asc::lanes_of<isSetMask>(mask, repeat), params);
}
template <class T, bool isSetMask = true>
inline void Not(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], uint8_t repeat,
                const UnaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(Not, int16_t, uint16_t);
  mco_asc::unary(mco_asc::Op::vnot, "Not", where, dst, src, mco_asc::lanes_of<isSetMask>(mask, repeat), params);
}

// Fill.
#define MCO_ASC_FILL_TYPES MCO_ASC_NEED(Duplicate, half, bfloat16_t, int16_t, uint16_t, int32_t, uint32_t, float)
template <class T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const mco_asc::same_t<T>& scalar, const int32_t& count,
                      mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_FILL_TYPES;
  mco_asc::issue(mco_asc::Op::vector_dup, where.of("Duplicate"), mco_asc::count_of(count), {mco_asc::operand(dst)},
                 {mco_asc::scalar(scalar), mco_asc::integer(32), mco_asc::integer(256)}, {}, mco_asc::is_real<T>);
}
template <class T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const mco_asc::same_t<T>& scalar, uint64_t mask, uint8_t repeat,
                      uint16_t dstBlkStride, uint8_t dstRepStride, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_FILL_TYPES;
  mco_asc::issue(mco_asc::Op::vector_dup, where.of("Duplicate"), mco_asc::lanes_of<isSetMask>(mask, repeat),
                 {mco_asc::operand(dst)},
                 {mco_asc::scalar(scalar), mco_asc::integer(32 * dstBlkStride), mco_asc::integer(32 * dstRepStride)},
                 {}, mco_asc::is_real<T>);
}
template <class T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const mco_asc::same_t<T>& scalar, const uint64_t mask[],
                      uint8_t repeat, uint16_t dstBlkStride, uint8_t dstRepStride,
                      mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_FILL_TYPES;
  mco_asc::issue(mco_asc::Op::vector_dup, where.of("Duplicate"), mco_asc::lanes_of<isSetMask>(mask, repeat),
                 {mco_asc::operand(dst)},
                 {mco_asc::scalar(scalar), mco_asc::integer(32 * dstBlkStride), mco_asc::integer(32 * dstRepStride)},
                 {}, mco_asc::is_real<T>);
}

// Element i of each 8 fills block i.
template <class T>
inline void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint8_t repeat, const BrcbRepeatParams& params,
                 mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(Brcb, half, bfloat16_t, int16_t, uint16_t, int32_t, uint32_t, float);
  const int64_t block = params.dstBlkStride ? params.dstBlkStride : 1;
  mco_asc::issue(mco_asc::Op::vbcb, where.of("Brcb"), {mco_asc::operand(dst), mco_asc::operand(src)},
                 {mco_asc::integer(repeat), mco_asc::integer(32 * block), mco_asc::integer(32 * params.dstRepStride)});
}

// first, first + 1, ...
template <class T>
inline void CreateVecIndex(const LocalTensor<T>& dst, mco_asc::same_t<T> first, uint32_t count,
                           mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(CreateVecIndex, int16_t, half, int32_t, float);
  mco_asc::issue(mco_asc::Op::vci, where.of("CreateVecIndex"), mco_asc::count_of(count), {mco_asc::operand(dst)},
                 {mco_asc::scalar(first), mco_asc::integer(32), mco_asc::integer(256)}, {}, mco_asc::is_real<T>);
}
template <class T>
inline void CreateVecIndex(const LocalTensor<T>& dst, mco_asc::same_t<T> first, uint64_t mask, uint8_t repeat,
                           uint16_t dstBlkStride, uint8_t dstRepStride, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(CreateVecIndex, int16_t, half, int32_t, float);
  mco_asc::issue(mco_asc::Op::vci, where.of("CreateVecIndex"), mco_asc::lanes_of<true>(mask, repeat),
                 {mco_asc::operand(dst)},
                 {mco_asc::scalar(first), mco_asc::integer(32 * dstBlkStride), mco_asc::integer(32 * dstRepStride)}, {},
                 mco_asc::is_real<T>);
}
template <class T>
inline void CreateVecIndex(const LocalTensor<T>& dst, mco_asc::same_t<T> first, const uint64_t mask[], uint8_t repeat,
                           uint16_t dstBlkStride, uint8_t dstRepStride, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(CreateVecIndex, int16_t, half, int32_t, float);
  mco_asc::issue(mco_asc::Op::vci, where.of("CreateVecIndex"), mco_asc::lanes_of<true>(mask, repeat),
                 {mco_asc::operand(dst)},
                 {mco_asc::scalar(first), mco_asc::integer(32 * dstBlkStride), mco_asc::integer(32 * dstRepStride)}, {},
                 mco_asc::is_real<T>);
}

}  // namespace AscendC
