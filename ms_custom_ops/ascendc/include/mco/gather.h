// SPDX-License-Identifier: Apache-2.0
// Elements by pattern, by offsets; transposes.
#pragma once

#include "mco/select.h"

namespace AscendC {

struct GatherMaskParams {
  GatherMaskParams() = default;
  GatherMaskParams(uint8_t src0Block, uint16_t repeat, uint16_t src0Repeat, uint8_t src1Repeat)
      : src0BlockStride(src0Block), repeatTimes(repeat), src0RepeatStride(src0Repeat), src1RepeatStride(src1Repeat) {}
  uint8_t src0BlockStride = 1;
  uint16_t repeatTimes = 0;
  uint16_t src0RepeatStride = 8;  // kernels that set the number of repeats alone rely on it
  uint8_t src1RepeatStride = 0;
};
enum class GatherMaskMode : uint8_t { VERSION_V1, VERSION_V2 };
constexpr GatherMaskMode defaultGahterMaskMode = GatherMaskMode::VERSION_V2;
constexpr GatherMaskMode defaultGatherMaskMode = GatherMaskMode::VERSION_V2;

struct GatherRepeatParams {
  GatherRepeatParams() = default;
  GatherRepeatParams(uint8_t dstBlk, uint8_t dstRep) : dstBlkStride(dstBlk), dstRepStride(dstRep) {}
  uint32_t blockNumber = 8;
  uint8_t dstBlkStride = 1;
  uint8_t dstRepStride = 8;
};

struct TransDataTo5HDParams {
  TransDataTo5HDParams() = default;
  TransDataTo5HDParams(bool dstHigh, bool srcHigh, uint8_t repeat, uint16_t dstRep, uint16_t srcRep)
      : dstHighHalf(dstHigh), srcHighHalf(srcHigh), repeatTimes(repeat), dstRepStride(dstRep), srcRepStride(srcRep) {}
  bool dstHighHalf = false;
  bool srcHighHalf = false;
  uint8_t repeatTimes = 1;
  uint16_t dstRepStride = 0;
  uint16_t srcRepStride = 0;
};

}  // namespace AscendC

namespace mco_asc {

constexpr int64_t kKept = kCompareMask + 32;    // the count of the last GatherMask
constexpr int64_t kMerged = kCompareMask + 64;  // the counts of the last MrgSort

template <class T>
inline void gather_mask(Where where, const LocalTensor<T>& dst, const LocalTensor<T>& src, const mco_asc_operand& bits,
                        int64_t pattern, bool reduceMode, uint32_t mask, const AscendC::GatherMaskParams& p,
                        uint64_t& kept) {
  static_assert(
      one_of<T, half, bfloat16_t, int16_t, uint16_t, int32_t, uint32_t, float>,
      "AscendC::GatherMask: the type is not accepted; accepted: half, bfloat16_t, int16_t, uint16_t, int32_t, "
      "uint32_t, float");
  const mco_asc_where here = where.of("GatherMask");
  if (pattern < 0 || pattern > 7) mco_asc_fault(&here, "pattern is %d; accepted: 1 to 7, or a tensor", int(pattern));
  const LocalTensor<uint32_t> count = scratch<uint32_t>(kKept, 1);
  *static_cast<uint32_t*>(count.mco_at()) = 0;
  const int64_t kind = !reduceMode ? 0 : mco_asc_this_core("GatherMask")->split ? 3 : 2;
  issue(Op::vreduce, here, {operand(dst), operand(src), bits, operand(count)},
        {integer(mask), integer(p.repeatTimes), integer(32 * p.src0BlockStride), integer(32 * p.src0RepeatStride),
         integer(32 * p.src1RepeatStride)},
        {kind, pattern});
  kept = *static_cast<uint32_t*>(count.mco_at());
  mco_asc_this_core("GatherMask")->compacted = int64_t(kept);
}

}  // namespace mco_asc

namespace AscendC {

template <class T, class U = uint8_t, GatherMaskMode mode = defaultGatherMaskMode>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t pattern,
                       const bool reduceMode, const uint32_t mask, const GatherMaskParams& params, uint64_t& rsvdCnt,
                       mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::gather_mask(where, dst, src0, mco_asc::operand(mco_asc::scratch<uint32_t>(0, 1)), pattern, reduceMode, mask,
                       params, rsvdCnt);
}
template <class T, class U, GatherMaskMode mode = defaultGatherMaskMode>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& pattern,
                       const bool reduceMode, const uint32_t mask, const GatherMaskParams& params, uint64_t& rsvdCnt,
                       mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(
      sizeof(T) == sizeof(U) && mco_asc::one_of<U, uint16_t, uint32_t>,
      "AscendC::GatherMask: the type of the pattern is not accepted; accepted: uint16_t for 16 bits, uint32_t "
      "for 32");
  mco_asc::gather_mask(where, dst, src0, mco_asc::operand(pattern), 0, reduceMode, mask, params, rsvdCnt);
}
inline int64_t GetGatherMaskRemainCount() { return mco_asc_this_core("GetGatherMaskRemainCount")->compacted; }

#define MCO_ASC_GATHER_TYPES MCO_ASC_NEED(Gather, half, bfloat16_t, int16_t, uint16_t, int32_t, uint32_t, float)

// Offsets are in bytes.
template <class T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                   const uint32_t base, const uint32_t count, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_GATHER_TYPES;
  mco_asc::issue(mco_asc::Op::vgather, where.of("Gather"), mco_asc::count_of(count),
                 {mco_asc::operand(dst), mco_asc::operand(src), mco_asc::operand(offset)},
                 {mco_asc::integer(base), mco_asc::integer(32), mco_asc::integer(256)});
}
template <class T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                   const uint32_t base, const uint64_t mask, const uint8_t repeat, const uint16_t dstRepStride,
                   mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_GATHER_TYPES;
  mco_asc::issue(mco_asc::Op::vgather, where.of("Gather"), mco_asc::lanes_of<true>(mask, repeat),
                 {mco_asc::operand(dst), mco_asc::operand(src), mco_asc::operand(offset)},
                 {mco_asc::integer(base), mco_asc::integer(32), mco_asc::integer(32 * dstRepStride)});
}
template <class T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                   const uint32_t base, const uint64_t mask[], const uint8_t repeat, const uint16_t dstRepStride,
                   mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_GATHER_TYPES;
  mco_asc::issue(mco_asc::Op::vgather, where.of("Gather"), mco_asc::lanes_of<true>(mask, repeat),
                 {mco_asc::operand(dst), mco_asc::operand(src), mco_asc::operand(offset)},
                 {mco_asc::integer(base), mco_asc::integer(32), mco_asc::integer(32 * dstRepStride)});
}
// Whole blocks by their byte offsets, eight in each repeat.
template <class T>
inline void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset,
                    const uint8_t repeat, const GatherRepeatParams& p, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::issue(
      mco_asc::Op::vgatherb, where.of("Gatherb"),
      {mco_asc::operand(dst), mco_asc::operand(src), mco_asc::operand(offset)},
      {mco_asc::integer(repeat), mco_asc::integer(32 * p.dstBlkStride), mco_asc::integer(32 * p.dstRepStride)});
}

// 16 rows of 16 elements of 16 bits.
template <class T>
inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(mco_asc::one_of<T, half, int16_t, uint16_t>,
                "AscendC::Transpose: the type is not accepted; accepted: half, int16_t, uint16_t");
  mco_asc::issue(mco_asc::Op::vtranspose, where.of("Transpose"), {mco_asc::operand(dst), mco_asc::operand(src)}, {});
}

}  // namespace AscendC

namespace mco_asc {

inline void to_5hd(Where where, const mco_asc_operand (&operands)[32], const AscendC::TransDataTo5HDParams& p) {
  const mco_asc_value args[] = {integer(p.repeatTimes), integer(32 * p.dstRepStride), integer(32 * p.srcRepStride)};
  const int64_t attrs[] = {p.dstHighHalf, p.srcHighHalf};
  const mco_asc_call call = {
      where.of("TransDataTo5HD"), uint16_t(Op::vnchwconv), 32, 3, 2, MCO_ASC_NO_MASK, 0, {0, 0}, 1};
  mco_asc_issue(&call, operands, args, attrs);
}

}  // namespace mco_asc

namespace AscendC {

template <class T>
inline void TransDataTo5HD(const LocalTensor<T> (&dst)[16], const LocalTensor<T> (&src)[16],
                           const TransDataTo5HDParams& params, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc_operand operands[32];
  for (int i = 0; i < 16; ++i) {
    operands[i] = mco_asc::operand(dst[i]);
    operands[16 + i] = mco_asc::operand(src[i]);
  }
  mco_asc::to_5hd(where, operands, params);
}
// Lists of addresses, as GetPhyAddr gives them.
template <class T>
inline void TransDataTo5HD(uint64_t dst[16], uint64_t src[16], const TransDataTo5HDParams& params,
                           mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc_operand operands[32];
  for (int i = 0; i < 16; ++i) {
    operands[i] = {reinterpret_cast<void*>(dst[i]), nullptr, mco_asc::dtype_of<T>::value, 32, 0};
    operands[16 + i] = {reinterpret_cast<void*>(src[i]), nullptr, mco_asc::dtype_of<T>::value, 32, 0};
  }
  mco_asc::to_5hd(where, operands, params);
}

// The same lists on the chip.
template <class T>
inline void TransDataTo5HD(const LocalTensor<uint64_t>& dst, const LocalTensor<uint64_t>& src,
                           const TransDataTo5HDParams& params, mco_asc::Where where = mco_asc::Where::here()) {
  uint64_t lists[2][16];
  for (uint32_t i = 0; i < 16; ++i) lists[0][i] = dst.GetValue(i, where), lists[1][i] = src.GetValue(i, where);
  TransDataTo5HD<T>(lists[0], lists[1], params, where);
}

}  // namespace AscendC
