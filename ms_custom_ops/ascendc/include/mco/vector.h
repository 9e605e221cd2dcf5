// SPDX-License-Identifier: Apache-2.0
// Element-wise vector instructions, in both forms: a count of elements, or mask, repeats and strides.
#pragma once

#include "mco/issue.h"

namespace AscendC {

struct UnaryRepeatParams {
  UnaryRepeatParams() = default;
  UnaryRepeatParams(uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep)
      : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep) {}
  UnaryRepeatParams(uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep, bool half)
      : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep), halfBlock(half) {}
  uint32_t blockNumber = 8;
  uint16_t dstBlkStride = 1;
  uint16_t srcBlkStride = 1;
  uint8_t dstRepStride = 8;
  uint8_t srcRepStride = 8;
  bool repeatStrideMode = false;
  bool strideSizeMode = false;
  bool halfBlock = false;
};

struct BinaryRepeatParams {
  BinaryRepeatParams() = default;
  BinaryRepeatParams(uint8_t dstBlk, uint8_t src0Blk, uint8_t src1Blk, uint8_t dstRep, uint8_t src0Rep,
                     uint8_t src1Rep)
      : dstBlkStride(dstBlk),
        src0BlkStride(src0Blk),
        src1BlkStride(src1Blk),
        dstRepStride(dstRep),
        src0RepStride(src0Rep),
        src1RepStride(src1Rep) {}
  uint32_t blockNumber = 8;
  uint8_t dstBlkStride = 1;
  uint8_t src0BlkStride = 1;
  uint8_t src1BlkStride = 1;
  uint8_t dstRepStride = 8;
  uint8_t src0RepStride = 8;
  uint8_t src1RepStride = 8;
  bool repeatStrideMode = false;
  bool strideSizeMode = false;
};

struct CopyRepeatParams {
  CopyRepeatParams() = default;
  CopyRepeatParams(uint16_t dst, uint16_t src, uint16_t dstRep, uint16_t srcRep)
      : dstStride(dst), srcStride(src), dstRepeatSize(dstRep), srcRepeatSize(srcRep) {}
  uint16_t dstStride = 0;
  uint16_t srcStride = 0;
  uint16_t dstRepeatSize = 0;
  uint16_t srcRepeatSize = 0;
};

struct BrcbRepeatParams {
  BrcbRepeatParams() = default;
  BrcbRepeatParams(uint16_t dstBlk, uint16_t dstRep) : dstBlkStride(dstBlk), dstRepStride(dstRep) {}
  uint32_t blockNumber = 8;
  uint16_t dstBlkStride = 1;
  uint16_t dstRepStride = 8;
};

}  // namespace AscendC

namespace mco_asc {

using AscendC::BinaryRepeatParams;
using AscendC::GlobalTensor;
using AscendC::LocalTensor;
using AscendC::UnaryRepeatParams;

// Strides in bytes of operands that follow each other without a gap, in repeats of 256 bytes of the widest.
template <class D, class S>
constexpr int64_t widest = sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S);
template <class T, class W>
constexpr int64_t dense_repeat = 256 / int64_t(sizeof(W)) * int64_t(sizeof(T));

template <class D, class S>
using wider_t = std::conditional_t<(sizeof(D) > sizeof(S)), D, S>;

template <class D, class S>
inline void unary(Op op, const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<S>& src,
                  int64_t count) {
  using W = wider_t<D, S>;
  issue(op, where.of(name), count_of(count), {operand(dst), operand(src)},
        {integer(32), integer(dense_repeat<D, W>), integer(32), integer(dense_repeat<S, W>)});
}

template <class D, class S>
inline void unary(Op op, const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<S>& src,
                  const Lanes& lanes, int64_t dst_blk, int64_t dst_rep, int64_t src_blk, int64_t src_rep) {
  issue(op, where.of(name), lanes, {operand(dst), operand(src)},
        {integer(32 * dst_blk), integer(32 * dst_rep), integer(32 * src_blk), integer(32 * src_rep)});
}

template <class D, class S>
inline void unary(Op op, const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<S>& src,
                  const Lanes& lanes, const UnaryRepeatParams& p) {
  unary(op, name, where, dst, src, lanes, p.dstBlkStride, p.dstRepStride, p.srcBlkStride, p.srcRepStride);
}

template <class D, class S>
inline void binary(Op op, const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<S>& a,
                   const LocalTensor<S>& b, int64_t count) {
  using W = wider_t<D, S>;
  issue(op, where.of(name), count_of(count), {operand(dst), operand(a), operand(b)},
        {integer(32), integer(dense_repeat<D, W>), integer(32), integer(dense_repeat<S, W>), integer(32),
         integer(dense_repeat<S, W>)});
}

template <class D, class S>
inline void binary(Op op, const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<S>& a,
                   const LocalTensor<S>& b, const Lanes& lanes, const BinaryRepeatParams& p) {
  issue(op, where.of(name), lanes, {operand(dst), operand(a), operand(b)},
        {integer(32 * p.dstBlkStride), integer(32 * p.dstRepStride), integer(32 * p.src0BlkStride),
         integer(32 * p.src0RepStride), integer(32 * p.src1BlkStride), integer(32 * p.src1RepStride)});
}

inline void with_scalar_args(Op op, const mco_asc_where& where, const Lanes& lanes, mco_asc_operand dst,
                             mco_asc_operand src, const mco_asc_value (&args)[5], bool floats, int64_t round) {
  const mco_asc_operand operands[] = {dst, src};
  const bool shift_right = op == Op::vshr;
  const mco_asc_call call = {where, uint16_t(op), 2, 5, uint8_t(shift_right), lanes.kind, uint16_t(floats),
                             {lanes.low, lanes.high}, lanes.repeat};
  mco_asc_issue(&call, operands, args, &round);
}

// With a scalar, and round_en of a shift.
template <class D, class S, class V>
inline void with_scalar(Op op, const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<S>& src,
                        V value, int64_t count) {
  using W = wider_t<D, S>;
  const mco_asc_value args[] = {scalar(value), integer(32), integer(dense_repeat<D, W>), integer(32),
                                integer(dense_repeat<S, W>)};
  with_scalar_args(op, where.of(name), count_of(count), operand(dst), operand(src), args, is_real<V>, 0);
}

template <class D, class S, class V>
inline void with_scalar(Op op, const char* name, Where where, const LocalTensor<D>& dst, const LocalTensor<S>& src,
                        V value, const Lanes& lanes, const UnaryRepeatParams& p, bool round = false) {
  const mco_asc_value args[] = {scalar(value), integer(32 * p.dstBlkStride), integer(32 * p.dstRepStride),
                                integer(32 * p.srcBlkStride), integer(32 * p.srcRepStride)};
  with_scalar_args(op, where.of(name), lanes, operand(dst), operand(src), args, is_real<V>, round);
}

}  // namespace mco_asc

namespace AscendC {

#define MCO_ASC_NEED(NAME, ...)                                 \
  static_assert(mco_asc::one_of<T, __VA_ARGS__>, "AscendC::" #NAME \
                ": the type of the tensors is not accepted; accepted: " #__VA_ARGS__)

#define MCO_ASC_UNARY(NAME, OP, ...)                                                                            \
  template <class T, bool isSetMask = true>                                                                     \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count,                   \
                   mco_asc::Where where = mco_asc::Where::here()) {                                             \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                            \
    mco_asc::unary(mco_asc::Op::OP, #NAME, where, dst, src, count);                                             \
  }                                                                                                             \
  template <class T, bool isSetMask = true>                                                                     \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, uint8_t repeat,         \
                   const UnaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) {            \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                            \
    mco_asc::unary(mco_asc::Op::OP, #NAME, where, dst, src, mco_asc::lanes_of<isSetMask>(mask, repeat), params); \
  }                                                                                                             \
  template <class T, bool isSetMask = true>                                                                     \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], uint8_t repeat, \
                   const UnaryRepeatParams& params, mco_asc::Where where = mco_asc::Where::here()) {            \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                            \
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

#define MCO_ASC_BINARY(NAME, OP, ...)                                                                            \
  template <class T, bool isSetMask = true>                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,            \
                   const int32_t& count, mco_asc::Where where = mco_asc::Where::here()) {                        \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                             \
    mco_asc::binary(mco_asc::Op::OP, #NAME, where, dst, src0, src1, count);                                      \
  }                                                                                                              \
  template <class T, bool isSetMask = true>                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,            \
                   uint64_t mask, uint8_t repeat, const BinaryRepeatParams& params,                              \
                   mco_asc::Where where = mco_asc::Where::here()) {                                              \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                             \
    mco_asc::binary(mco_asc::Op::OP, #NAME, where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat),  \
                    params);                                                                                     \
  }                                                                                                              \
  template <class T, bool isSetMask = true>                                                                      \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,            \
                   const uint64_t mask[], uint8_t repeat, const BinaryRepeatParams& params,                      \
                   mco_asc::Where where = mco_asc::Where::here()) {                                              \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                             \
    mco_asc::binary(mco_asc::Op::OP, #NAME, where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat),  \
                    params);                                                                                     \
  }

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
                      uint8_t repeat, const BinaryRepeatParams& params,
                      mco_asc::Where where = mco_asc::Where::here()) {
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

#define MCO_ASC_SCALAR(NAME, OP, ...)                                                                              \
  template <class T, bool isSetMask = true>                                                                        \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar,                \
                   const int32_t& count, mco_asc::Where where = mco_asc::Where::here()) {                          \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                               \
    mco_asc::with_scalar(mco_asc::Op::OP, #NAME, where, dst, src, scalar, count);                                  \
  }                                                                                                                \
  template <class T, bool isSetMask = true>                                                                        \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar, uint64_t mask, \
                   uint8_t repeat, const UnaryRepeatParams& params,                                                \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                               \
    mco_asc::with_scalar(mco_asc::Op::OP, #NAME, where, dst, src, scalar,                                          \
                         mco_asc::lanes_of<isSetMask>(mask, repeat), params);                                      \
  }                                                                                                                \
  template <class T, bool isSetMask = true>                                                                        \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, mco_asc::same_t<T> scalar,                \
                   const uint64_t mask[], uint8_t repeat, const UnaryRepeatParams& params,                         \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                \
    MCO_ASC_NEED(NAME, __VA_ARGS__);                                                                               \
    mco_asc::with_scalar(mco_asc::Op::OP, #NAME, where, dst, src, scalar,                                          \
                         mco_asc::lanes_of<isSetMask>(mask, repeat), params);                                      \
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
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, mco_asc::same_t<U> scalar,
                 const int32_t& count, mco_asc::Where where = mco_asc::Where::here()) {
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

// Bitwise. Elements of 8 or 32 bits are taken as the 16-bit words that they are made of, as long as no mask counts them.
#define MCO_ASC_BITWISE_TYPES(NAME) \
  MCO_ASC_NEED(NAME, int16_t, uint16_t, int8_t, uint8_t, int32_t, uint32_t)

template <class T>
inline LocalTensor<uint16_t> mco_words(const LocalTensor<T>& t) { return t.template ReinterpretCast<uint16_t>(); }
template <class T>
constexpr int32_t mco_word_count(int32_t count) { return int32_t((int64_t(count) * int64_t(sizeof(T)) + 1) / 2); }

#define MCO_ASC_BITWISE(NAME, OP)                                                                                   \
  template <class T, bool isSetMask = true>                                                                         \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,               \
                   const int32_t& count, mco_asc::Where where = mco_asc::Where::here()) {                           \
    MCO_ASC_BITWISE_TYPES(NAME);                                                                                    \
    mco_asc::binary(mco_asc::Op::OP, #NAME, where, mco_words(dst), mco_words(src0), mco_words(src1),                \
                    mco_word_count<T>(count));                                                                      \
  }                                                                                                                 \
  template <class T, bool isSetMask = true>                                                                         \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask, \
                   uint8_t repeat, const BinaryRepeatParams& params,                                                \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                 \
    MCO_ASC_NEED(NAME, int16_t, uint16_t);                                                                          \
    mco_asc::binary(mco_asc::Op::OP, #NAME, where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat),     \
                    params);                                                                                        \
  }                                                                                                                 \
  template <class T, bool isSetMask = true>                                                                         \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,               \
                   const uint64_t mask[], uint8_t repeat, const BinaryRepeatParams& params,                         \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                 \
    MCO_ASC_NEED(NAME, int16_t, uint16_t);                                                                          \
    mco_asc::binary(mco_asc::Op::OP, #NAME, where, dst, src0, src1, mco_asc::lanes_of<isSetMask>(mask, repeat),     \
                    params);                                                                                        \
  }
MCO_ASC_BITWISE(And, vand)
MCO_ASC_BITWISE(Or, vor)
#undef MCO_ASC_BITWISE

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
                           uint16_t dstBlkStride, uint8_t dstRepStride,
                           mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(CreateVecIndex, int16_t, half, int32_t, float);
  mco_asc::issue(mco_asc::Op::vci, where.of("CreateVecIndex"), mco_asc::lanes_of<true>(mask, repeat),
                 {mco_asc::operand(dst)},
                 {mco_asc::scalar(first), mco_asc::integer(32 * dstBlkStride), mco_asc::integer(32 * dstRepStride)},
                 {}, mco_asc::is_real<T>);
}
template <class T>
inline void CreateVecIndex(const LocalTensor<T>& dst, mco_asc::same_t<T> first, const uint64_t mask[], uint8_t repeat,
                           uint16_t dstBlkStride, uint8_t dstRepStride,
                           mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(CreateVecIndex, int16_t, half, int32_t, float);
  mco_asc::issue(mco_asc::Op::vci, where.of("CreateVecIndex"), mco_asc::lanes_of<true>(mask, repeat),
                 {mco_asc::operand(dst)},
                 {mco_asc::scalar(first), mco_asc::integer(32 * dstBlkStride), mco_asc::integer(32 * dstRepStride)},
                 {}, mco_asc::is_real<T>);
}

}  // namespace AscendC
