// SPDX-License-Identifier: Apache-2.0
// Reductions: of a repeat, of blocks, of pairs, and of whole tensors.
#pragma once

#include <cmath>

#include "mco/vector.h"

namespace mco_asc {

template <class T>
inline void reduction(Op op, const char* name, Where where, const LocalTensor<T>& dst, const LocalTensor<T>& src,
                      const Lanes& lanes, int64_t dst_rep, int64_t src_blk, int64_t src_rep, bool has_index = false,
                      bool index_first = false, int32_t align = int32_t(sizeof(T))) {
  const mco_asc_operand operands[] = {operand(dst, align), operand(src)};
  const mco_asc_value args[] = {integer(dst_rep), integer(32 * src_blk), integer(32 * src_rep)};
  const int64_t attrs[] = {index_first};
  const mco_asc_call call = {where.of(name),          uint16_t(op), 2, 3, uint8_t(has_index), lanes.kind, 0,
                             {lanes.low, lanes.high}, lanes.repeat};
  mco_asc_issue(&call, operands, args, attrs);
}

// The scratch as a tensor, from byte `offset` on.
template <class T>
inline LocalTensor<T> scratch(int64_t offset, uint32_t elements) {
  const mco_asc_home* home = mco_asc_scratch();
  return LocalTensor<T>(moved(home->base, offset), home, elements);
}

// n elements, bit for bit, from a place in the scratch to where a result belongs. The mask register stays.
template <class T>
inline void deliver(const char* name, Where where, const LocalTensor<T>& dst, const LocalTensor<T>& from, int64_t n,
                    int32_t align = 32) {
  issue(Op::vcopy, where.of(name), Lanes{MCO_ASC_KEPT, uint64_t(n), 0, 1},
        {operand(dst, int32_t(sizeof(T))), operand(from, align)}, {integer(32), integer(256), integer(32), integer(256)});
}

// The headers read results in the scratch and leave there what they make of them: told to what looks on.
template <class T>
inline void tell(const char* name, Where where, const LocalTensor<T>& t, int64_t n, int how) {
  if (!mco_asc_this_core(name)->observed) return;
  const mco_asc_where here = where.of(name);
  mco_asc_touch(&here, t.mco_at(), t.mco_home(), n * int64_t(sizeof(T)),
                how | MCO_ASC_LIBRARY | int(sizeof(T)) << MCO_ASC_ELEMENT_SHIFT);
}

constexpr int64_t kResults = 8192;  // bytes of the scratch that hold the results of repeats

// Sum of each repeat as a tree, then the repeats one after another.
template <class T>
inline T sum_in_order(const char* name, Where where, const LocalTensor<T>& src, int64_t count) {
  constexpr int64_t lanes = 256 / int64_t(sizeof(T)), most = kResults / int64_t(sizeof(T));
  const LocalTensor<T> results = scratch<T>(0, uint32_t(most));
  const T* values = static_cast<const T*>(results.mco_at());
  T sum = T(0);
  bool first = true;
  for (int64_t done = 0; done < count; done += most * lanes) {
    const int64_t n = count - done < most * lanes ? count - done : most * lanes, repeats = (n + lanes - 1) / lanes;
    reduction(Op::vcadd, name, where, results, src[uint32_t(done)], count_of(n), int64_t(sizeof(T)), 1, 8);
    tell(name, where, results, repeats, 0);
    for (int64_t i = 0; i < repeats; ++i) {
      sum = first ? values[i] : T(float(sum) + float(values[i]));
      first = false;
    }
  }
  return sum;
}

// Sum as one tree: of the lanes of each repeat, then of the results.
template <class T>
inline T sum_in_tree(const char* name, Where where, const LocalTensor<T>& src, const Lanes& lanes, int64_t src_rep) {
  constexpr int64_t most = kResults / int64_t(sizeof(T));
  LocalTensor<T> results = scratch<T>(0, uint32_t(most)), next = scratch<T>(kResults, uint32_t(most / 2));
  reduction(Op::vcadd, name, where, results, src, lanes, int64_t(sizeof(T)), 1, src_rep);
  int64_t n = lanes.repeat;
  while (n > 1) {
    reduction(Op::vcadd, name, where, next, results, count_of(n), int64_t(sizeof(T)), 1, 8);
    const LocalTensor<T> swapped = results;
    results = next;
    next = swapped;
    n = (n + 256 / int64_t(sizeof(T)) - 1) / (256 / int64_t(sizeof(T)));
  }
  tell(name, where, results, 1, 0);
  return *static_cast<const T*>(results.mco_at());
}

template <class T>
struct Extreme {
  T value;
  int64_t index;
};

// A later value replaces an earlier one only if it is beyond it: ties keep the lowest index.
template <class T>
inline Extreme<T> extreme_of(Op op, const char* name, Where where, const LocalTensor<T>& src, const Lanes& lanes,
                             int64_t repeats, int64_t src_rep) {
  constexpr int64_t most = kResults / (2 * int64_t(sizeof(T)));
  using Index = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  const LocalTensor<T> results = scratch<T>(0, uint32_t(2 * most));
  const T* values = static_cast<const T*>(results.mco_at());
  const bool largest = op == Op::vcmax;
  Extreme<T> best{};
  bool first = true;
  for (int64_t done = 0; done < repeats; done += most) {
    const int64_t n = repeats - done < most ? repeats - done : most;
    Lanes part = lanes;
    if (part.kind == MCO_ASC_COUNT) {
      const int64_t start = done * (256 / int64_t(sizeof(T)));
      const int64_t left = int64_t(lanes.low) - start, room = n * (256 / int64_t(sizeof(T)));
      part = count_of(left < room ? left : room);
    } else {
      part.repeat = n;
    }
    const int64_t skipped = done * 32 * src_rep / int64_t(sizeof(T));
    reduction(op, name, where, results, src[uint32_t(skipped)], part, 2 * int64_t(sizeof(T)), 1, src_rep, true);
    tell(name, where, results, 2 * n, 0);
    for (int64_t i = 0; i < n; ++i) {
      const T value = values[2 * i];
      const float was = float(best.value), is = float(value);
      if (!first && !(largest ? is > was : is < was) && !(was != was && is == is)) continue;
      first = false;
      best.value = value;
      best.index = (done + i) * (8 * src_rep * 4 / int64_t(sizeof(T))) + int64_t(bits_as<Index>(values[2 * i + 1]));
    }
  }
  mco_asc_core* core = mco_asc_this_core(name);
  core->extreme_value = double(best.value);
  core->extreme_index = best.index;
  return best;
}

template <class T>
inline void deliver_sum(const char* name, Where where, const LocalTensor<T>& dst, T sum) {
  const LocalTensor<T> from = scratch<T>(0, 1);
  tell(name, where, from, 1, MCO_ASC_WRITE);
  *static_cast<T*>(from.mco_at()) = sum;
  mco_asc_this_core(name)->acc_value = double(sum);
  deliver(name, where, dst, from, 1);
}

template <class T>
inline void deliver_extreme(const char* name, Where where, const LocalTensor<T>& dst, const Extreme<T>& best,
                            bool index) {
  using Index = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  const LocalTensor<T> from = scratch<T>(0, 2);
  T* at = static_cast<T*>(from.mco_at());
  tell(name, where, from, 2, MCO_ASC_WRITE);
  at[0] = best.value;
  at[1] = bits_as<T>(Index(best.index));
  deliver(name, where, dst, from, index ? 2 : 1);
}

}  // namespace mco_asc

namespace AscendC {

template <class T, bool isSetMask = true>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                      const int32_t count, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(ReduceSum, half, float);
  (void)work;
  if (count <= 0) return;
  mco_asc::deliver_sum("ReduceSum", where, dst, mco_asc::sum_in_order("ReduceSum", where, src, count));
}
template <class T>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                      const int32_t mask, const int32_t repeat, const int32_t srcRepStride,
                      mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(ReduceSum, half, float);
  (void)work;
  if (repeat <= 0) return;
  mco_asc::deliver_sum(
      "ReduceSum", where, dst,
      mco_asc::sum_in_tree("ReduceSum", where, src, mco_asc::lanes_of<true>(uint64_t(mask), repeat), srcRepStride));
}
template <class T>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                      const uint64_t mask[], const int32_t repeat, const int32_t srcRepStride,
                      mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(ReduceSum, half, float);
  (void)work;
  if (repeat <= 0) return;
  mco_asc::deliver_sum(
      "ReduceSum", where, dst,
      mco_asc::sum_in_tree("ReduceSum", where, src, mco_asc::lanes_of<true>(mask, repeat), srcRepStride));
}

#define MCO_ASC_EXTREME(NAME, OP)                                                                                  \
  template <class T>                                                                                               \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,               \
                   const int32_t count, bool calIndex = false, mco_asc::Where where = mco_asc::Where::here()) {    \
    MCO_ASC_NEED(NAME, half, float);                                                                               \
    (void)work;                                                                                                    \
    if (count <= 0) return;                                                                                        \
    const int64_t lanes = 256 / int64_t(sizeof(T));                                                                \
    mco_asc::deliver_extreme(#NAME, where, dst,                                                                    \
                             mco_asc::extreme_of(mco_asc::Op::OP, #NAME, where, src, mco_asc::count_of(count),     \
                                                 (count + lanes - 1) / lanes, 8),                                  \
                             calIndex);                                                                            \
  }                                                                                                                \
  template <class T>                                                                                               \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,               \
                   const int32_t mask, const int32_t repeat, const int32_t srcRepStride, bool calIndex = false,    \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                \
    MCO_ASC_NEED(NAME, half, float);                                                                               \
    (void)work;                                                                                                    \
    if (repeat <= 0) return;                                                                                       \
    mco_asc::deliver_extreme(                                                                                      \
        #NAME, where, dst,                                                                                         \
        mco_asc::extreme_of(mco_asc::Op::OP, #NAME, where, src, mco_asc::lanes_of<true>(uint64_t(mask), repeat),   \
                            repeat, srcRepStride),                                                                 \
        calIndex);                                                                                                 \
  }                                                                                                                \
  template <class T>                                                                                               \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,               \
                   const uint64_t mask[], const int32_t repeat, const int32_t srcRepStride, bool calIndex = false, \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                \
    MCO_ASC_NEED(NAME, half, float);                                                                               \
    (void)work;                                                                                                    \
    if (repeat <= 0) return;                                                                                       \
    mco_asc::deliver_extreme(#NAME, where, dst,                                                                    \
                             mco_asc::extreme_of(mco_asc::Op::OP, #NAME, where, src,                               \
                                                 mco_asc::lanes_of<true>(mask, repeat), repeat, srcRepStride),     \
                             calIndex);                                                                            \
  }
MCO_ASC_EXTREME(ReduceMax, vcmax)
MCO_ASC_EXTREME(ReduceMin, vcmin)
#undef MCO_ASC_EXTREME

#define MCO_ASC_WHOLE_SUM(MASK)                                                                                     \
  template <class T, bool isSetMask = true>                                                                         \
  inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, MASK, const int32_t repeat,      \
                             const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,    \
                             mco_asc::Where where = mco_asc::Where::here()) {                                       \
    MCO_ASC_NEED(WholeReduceSum, half, float);                                                                      \
    mco_asc::reduction(mco_asc::Op::vcadd, "WholeReduceSum", where, dst, src,                                       \
                       mco_asc::lanes_of<isSetMask>(mask, repeat), int64_t(sizeof(T)) * dstRepStride, srcBlkStride, \
                       srcRepStride);                                                                               \
    if (repeat > 0 && dst.mco_home() && dst.mco_home()->hi) {                                                       \
      mco_asc_this_core("WholeReduceSum")->acc_value = double(dst.GetValue(uint32_t((repeat - 1) * dstRepStride))); \
    }                                                                                                               \
  }                                                                                                                 \
  template <class T, bool isSetMask = true>                                                                         \
  inline void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeat, MASK,     \
                              const int32_t dstBlkStride, const int32_t srcBlkStride, const int32_t dstRepStride,   \
                              const int32_t srcRepStride, mco_asc::Where where = mco_asc::Where::here()) {          \
    MCO_ASC_NEED(RepeatReduceSum, half, float);                                                                     \
    (void)dstBlkStride;                                                                                             \
    mco_asc::reduction(mco_asc::Op::vcadd, "RepeatReduceSum", where, dst, src,                                      \
                       mco_asc::lanes_of<isSetMask>(mask, repeat), int64_t(sizeof(T)) * dstRepStride, srcBlkStride, \
                       srcRepStride);                                                                               \
  }
MCO_ASC_WHOLE_SUM(const uint64_t mask)
MCO_ASC_WHOLE_SUM(const uint64_t mask[])
#undef MCO_ASC_WHOLE_SUM

}  // namespace AscendC

namespace mco_asc {

// Value and index of each repeat, or one of them.
template <class T>
inline void whole_extreme(Op op, const char* name, Where where, const LocalTensor<T>& dst, const LocalTensor<T>& src,
                          const Lanes& lanes, int64_t dst_rep, int64_t src_blk, int64_t src_rep,
                          AscendC::ReduceOrder order) {
  using AscendC::ReduceOrder;
  const int64_t size = int64_t(sizeof(T)), repeats = lanes.repeat;
  if (order == ReduceOrder::ORDER_VALUE_INDEX || order == ReduceOrder::ORDER_INDEX_VALUE) {
    reduction(op, name, where, dst, src, lanes, 2 * size * dst_rep, src_blk, src_rep, true,
              order == ReduceOrder::ORDER_INDEX_VALUE);
    return;
  }
  using Index = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  const LocalTensor<T> pairs = scratch<T>(0, uint32_t(2 * repeats));
  reduction(op, name, where, pairs, src, lanes, 2 * size, src_blk, src_rep, true);
  tell(name, where, pairs, 2 * repeats, 0);
  const T* found = static_cast<const T*>(pairs.mco_at());
  const LocalTensor<T> one = scratch<T>(kResults, 8);
  for (int64_t i = 0; i < repeats; ++i) {
    tell(name, where, one, 4 / size, MCO_ASC_WRITE);  // a value, or an index of 32 bits
    if (order == ReduceOrder::ORDER_ONLY_VALUE) {
      *static_cast<T*>(one.mco_at()) = found[2 * i];
      deliver(name, where, dst[uint32_t(i * dst_rep)], one, 1);
    } else {
      *static_cast<uint32_t*>(one.mco_at()) = bits_as<Index>(found[2 * i + 1]);
      deliver(name, where, dst.template ReinterpretCast<uint32_t>()[uint32_t(i * dst_rep)],
              one.template ReinterpretCast<uint32_t>(), 1);
    }
  }
}

}  // namespace mco_asc

namespace AscendC {

#define MCO_ASC_WHOLE(NAME, OP, MASK)                                                                           \
  template <class T, bool isSetMask = true>                                                                     \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, MASK, const int32_t repeat,            \
                   const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,          \
                   ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,                                          \
                   mco_asc::Where where = mco_asc::Where::here()) {                                             \
    MCO_ASC_NEED(NAME, half, float);                                                                            \
    mco_asc::whole_extreme(mco_asc::Op::OP, #NAME, where, dst, src, mco_asc::lanes_of<isSetMask>(mask, repeat), \
                           dstRepStride, srcBlkStride, srcRepStride, order);                                    \
  }
MCO_ASC_WHOLE(WholeReduceMax, vcmax, const uint64_t mask)
MCO_ASC_WHOLE(WholeReduceMax, vcmax, const uint64_t mask[])
MCO_ASC_WHOLE(WholeReduceMin, vcmin, const uint64_t mask)
MCO_ASC_WHOLE(WholeReduceMin, vcmin, const uint64_t mask[])
#undef MCO_ASC_WHOLE

#define MCO_ASC_PARTS(NAME, OP, UNIT, MASK)                                                                 \
  template <class T, bool isSetMask = true>                                                                 \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeat, MASK,        \
                   const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,      \
                   mco_asc::Where where = mco_asc::Where::here()) {                                         \
    MCO_ASC_NEED(NAME, half, float);                                                                        \
    mco_asc::reduction(mco_asc::Op::OP, #NAME, where, dst, src, mco_asc::lanes_of<isSetMask>(mask, repeat), \
                       int64_t(UNIT) * dstRepStride, srcBlkStride, srcRepStride);                           \
  }
MCO_ASC_PARTS(BlockReduceSum, vcgadd, 8 * sizeof(T), const uint64_t mask)
MCO_ASC_PARTS(BlockReduceSum, vcgadd, 8 * sizeof(T), const uint64_t mask[])
MCO_ASC_PARTS(BlockReduceMax, vcgmax, 8 * sizeof(T), const uint64_t mask)
MCO_ASC_PARTS(BlockReduceMax, vcgmax, 8 * sizeof(T), const uint64_t mask[])
MCO_ASC_PARTS(BlockReduceMin, vcgmin, 8 * sizeof(T), const uint64_t mask)
MCO_ASC_PARTS(BlockReduceMin, vcgmin, 8 * sizeof(T), const uint64_t mask[])
MCO_ASC_PARTS(PairReduceSum, vcpadd, 128, const uint64_t mask)
MCO_ASC_PARTS(PairReduceSum, vcpadd, 128, const uint64_t mask[])
#undef MCO_ASC_PARTS

template <class T>
inline T GetAccVal() {
  return T(mco_asc_this_core("GetAccVal")->acc_value);
}
template <class T>
inline T GetReduceRepeatSumSpr() {
  return GetAccVal<T>();
}
template <class T>
inline void GetReduceMaxMinCount(T& value, T& index) {
  using Index = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  const mco_asc_core* core = mco_asc_this_core("GetReduceMaxMinCount");
  value = T(core->extreme_value);
  index = mco_asc::bits_as<T>(Index(core->extreme_index));
}
template <class T>
inline void GetReduceMaxMinCount(T& value) {
  value = T(mco_asc_this_core("GetReduceMaxMinCount")->extreme_value);
}
template <class T>
inline void GetReduceRepeatMaxMinSpr(T& value, T& index) {
  GetReduceMaxMinCount(value, index);
}

}  // namespace AscendC
