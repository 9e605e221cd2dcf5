// SPDX-License-Identifier: Apache-2.0
// Sorting: 32 scores at a time, merges of sorted lists, whole tensors.
#pragma once

#include "mco/copy.h"
#include "mco/gather.h"

namespace AscendC {

template <class T>
struct MrgSortSrcList {
  MrgSortSrcList() = default;
  MrgSortSrcList(const LocalTensor<T>& a, const LocalTensor<T>& b, const LocalTensor<T>& c, const LocalTensor<T>& d)
      : src1(a), src2(b), src3(c), src4(d) {}
  LocalTensor<T> src1, src2, src3, src4;
};

struct MrgSort4Info {
  MrgSort4Info() = default;
  MrgSort4Info(const uint16_t lengths[4], bool suspends, uint16_t valid, uint16_t repeat)
      : ifExhaustedSuspension(suspends), validBit(valid), repeatTimes(uint8_t(repeat)) {
    for (int i = 0; i < 4; ++i) elementLengths[i] = lengths[i];
  }
  uint16_t elementLengths[4] = {};
  bool ifExhaustedSuspension = false;
  uint16_t validBit = 0;
  uint8_t repeatTimes = 1;
};

}  // namespace AscendC

namespace mco_asc {

constexpr int kMostList = 4095;

template <class T>
inline void merge(const char* name, Where where, const LocalTensor<T>& dst, const AscendC::MrgSortSrcList<T>& from,
                  const int64_t (&lengths)[4], bool suspends, uint16_t valid, int64_t repeat, bool records) {
  const mco_asc_where here = where.of(name);
  const int lists = valid == 15 ? 4 : valid == 7 ? 3 : valid == 3 ? 2 : valid == 1 ? 1 : 0;
  if (!lists) mco_asc_fault(&here, "validBit is %d; accepted: 3, 7, 15", int(valid));
  const LocalTensor<uint16_t> merged = scratch<uint16_t>(kMerged, 4);
  const LocalTensor<T>& first = from.src1;
  issue(Op::vmrgsort, here,
        {operand(dst), operand(first), operand(from.src2), operand(lists > 2 ? from.src3 : first),
         operand(lists > 3 ? from.src4 : first), operand(merged)},
        {integer(lengths[0]), integer(lengths[1]), integer(lists > 2 ? lengths[2] : 0),
         integer(lists > 3 ? lengths[3] : 0), integer(valid), integer(repeat)},
        {lists, suspends, records});
  const uint16_t* counts = static_cast<const uint16_t*>(merged.mco_at());
  for (int i = 0; i < 4; ++i) mco_asc_this_core(name)->merged[i] = counts[i];
}

}  // namespace mco_asc

namespace AscendC {

#define MCO_ASC_SORT_TYPES(NAME) MCO_ASC_NEED(NAME, half, float)

// Records of 8 bytes: the score first, its index in the last four.
template <class T>
inline void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& score, const LocalTensor<uint32_t>& index,
                   const int32_t repeat, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_SORT_TYPES(Sort32);
  mco_asc::issue(mco_asc::Op::vsort32, where.of("Sort32"),
                 {mco_asc::operand(dst), mco_asc::operand(score), mco_asc::operand(index)}, {mco_asc::integer(repeat)});
}

template <class T>
inline void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& lists, const MrgSort4Info& info,
                    mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_SORT_TYPES(MrgSort);
  int64_t lengths[4];
  for (int i = 0; i < 4; ++i) {
    lengths[i] = info.elementLengths[i];
    const mco_asc_where here = where.of("MrgSort");
    if (lengths[i] > mco_asc::kMostList) mco_asc_fault(&here, "a list of %d; accepted: 4095 at most", int(lengths[i]));
  }
  mco_asc::merge("MrgSort", where, dst, lists, lengths, info.ifExhaustedSuspension, info.validBit, info.repeatTimes,
                 true);
}
inline void GetMrgSortResult(uint16_t& a, uint16_t& b, uint16_t& c, uint16_t& d) {
  const mco_asc_core* core = mco_asc_this_core("GetMrgSortResult");
  a = core->merged[0];
  b = core->merged[1];
  c = core->merged[2];
  d = core->merged[3];
}

template <class T>
inline uint32_t GetSortOffset(const uint32_t elements) {
  return elements * (8 / sizeof(T));
}
template <class T>
inline uint32_t GetSortLen(const uint32_t elements) {
  return elements * (8 / sizeof(T));
}

// Proposals of 310P: 8 elements each, of which element 4 is the score.
template <class T>
inline void ProposalConcat(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeat,
                           const int32_t field, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::issue(mco_asc::Op::vconcat, where.of("ProposalConcat"), {mco_asc::operand(dst), mco_asc::operand(src)},
                 {mco_asc::integer(repeat), mco_asc::integer(field)});
}
template <class T>
inline void ProposalExtract(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeat,
                            const int32_t field, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::issue(mco_asc::Op::vextract, where.of("ProposalExtract"), {mco_asc::operand(dst), mco_asc::operand(src)},
                 {mco_asc::integer(repeat), mco_asc::integer(field)});
}
template <class T>
inline void RpSort16(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeat,
                     mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::issue(mco_asc::Op::vrpsort16, where.of("RpSort16"), {mco_asc::operand(dst), mco_asc::operand(src)},
                 {mco_asc::integer(repeat)});
}
template <class T>
inline void MrgSort4(const LocalTensor<T>& dst, const MrgSortSrcList<T>& lists, const MrgSort4Info& info,
                     mco_asc::Where where = mco_asc::Where::here()) {
  const int64_t lengths[4] = {info.elementLengths[0], info.elementLengths[1], info.elementLengths[2],
                              info.elementLengths[3]};
  mco_asc::merge("MrgSort4", where, dst, lists, lengths, info.ifExhaustedSuspension, info.validBit, info.repeatTimes,
                 false);
}

// Whole tensors. On 910B scores and indices stay apart until they are sorted, so that Concat has nothing to do.
template <class T>
inline void Concat(LocalTensor<T>& concat, const LocalTensor<T>& src, const LocalTensor<T>&, const int32_t repeat,
                   mco_asc::Where where = mco_asc::Where::here()) {
  if (mco_asc_this_core("Concat")->split) {
    concat = src;
  } else {
    ProposalConcat(concat, src, repeat, 4, where);
  }
}

// Groups of 32, then (isFullSort) merges of four lists until one is left.
template <class T, bool isFullSort>
inline void Sort(const LocalTensor<T>& dst, const LocalTensor<T>& concat, const LocalTensor<uint32_t>& index,
                 LocalTensor<T>& tmp, const int32_t repeat, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_SORT_TYPES(Sort);
  constexpr int64_t record = 8 / int64_t(sizeof(T));
  if (repeat <= 0) return;
  Sort32(dst, concat, index, repeat, where);
  if (!isFullSort || repeat == 1) return;
  const int64_t total = 32 * int64_t(repeat);
  LocalTensor<T> from = dst, to = tmp;
  bool swapped = false;
  for (int64_t width = 32; width < total; width *= 4) {
    for (int64_t at = 0; at < total; at += 4 * width) {
      int64_t lengths[4] = {};
      int lists = 0;
      for (int64_t start = at; lists < 4 && start < total; start += width) {
        lengths[lists++] = total - start < width ? total - start : width;
      }
      const auto list = [&](int i) { return from[uint32_t((at + i * width) * record)]; };
      const auto target = to[uint32_t(at * record)];
      if (lists == 1) {
        DataCopy(target, list(0), uint32_t(lengths[0] * record), where);
        continue;
      }
      const MrgSortSrcList<T> sources(list(0), list(1), lists > 2 ? list(2) : list(0), lists > 3 ? list(3) : list(0));
      mco_asc::merge("Sort", where, target, sources, lengths, false, uint16_t((1 << lists) - 1), 1, true);
    }
    const LocalTensor<T> other = from;
    from = to;
    to = other;
    swapped = !swapped;
  }
  if (swapped) DataCopy(dst, from, uint32_t(total * record), where);
}

// Scores and indices of sorted records.
template <class T>
inline void Extract(const LocalTensor<T>& value, const LocalTensor<uint32_t>& index, const LocalTensor<T>& sorted,
                    const int32_t repeat, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_SORT_TYPES(Extract);
  uint64_t kept = 0;
  const GatherMaskParams all(1, uint16_t(repeat), 8, 0);
  if (std::is_same<T, float>::value) {
    GatherMask(value, sorted, uint8_t(1), false, 0, all, kept, where);
  } else {
    GatherMask(value, sorted, uint8_t(3), false, 0, all, kept, where);
  }
  GatherMask(index, sorted.template ReinterpretCast<uint32_t>(), uint8_t(2), false, 0, all, kept, where);
}

template <class T, bool isExhausted = false>
inline void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& lists, const uint16_t lengths[4],
                    uint32_t sorted[4], uint16_t valid, const int32_t repeat,
                    mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_SORT_TYPES(MrgSort);
  const int64_t sizes[4] = {lengths[0], lengths[1], lengths[2], lengths[3]};
  mco_asc::merge("MrgSort", where, dst, lists, sizes, isExhausted, valid, repeat, true);
  for (int i = 0; i < 4; ++i) sorted[i] = mco_asc_this_core("MrgSort")->merged[i];
}

}  // namespace AscendC
