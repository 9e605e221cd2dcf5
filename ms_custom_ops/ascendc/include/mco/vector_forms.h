// SPDX-License-Identifier: Apache-2.0
// Forms of vector calls: parameters of their strides, and calls with a count or with masks as instructions.
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
  BinaryRepeatParams(uint8_t dstBlk, uint8_t src0Blk, uint8_t src1Blk, uint8_t dstRep, uint8_t src0Rep, uint8_t src1Rep)
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
  const mco_asc_call call = {
      where,       uint16_t(op), 2, 5, uint8_t(shift_right), lanes.kind, uint16_t(floats), {lanes.low, lanes.high},
      lanes.repeat};
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
