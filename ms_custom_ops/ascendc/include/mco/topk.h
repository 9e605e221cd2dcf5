// SPDX-License-Identifier: Apache-2.0
// The first k of rows, and choices and sums along rows.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernel_tiling/kernel_tiling.h"
#include "mco/library.h"

namespace AscendC {

#ifndef MCO_TOPK_MODE  // a source may include the headers of host and kernel
#define MCO_TOPK_MODE
enum class TopKMode { TOPK_NORMAL, TOPK_NSMALL };
#endif

struct TopKInfo {
  int32_t outter = 1;
  int32_t inner = 0;  // pitch of rows
  int32_t n = 0;      // elements that count
};

struct SelectWithBytesMaskShapeInfo {
  uint32_t firstAxis = 0;
  uint32_t srcLastAxis = 0;
  uint32_t maskLastAxis = 0;
};

struct CumSumConfig {
  bool isLastAxis = true;
  bool isReuseSource = false;
  bool outputLastRow = true;
};
constexpr CumSumConfig defaultCumSumConfig{};

struct CumSumInfo {
  uint32_t outter = 0;
  uint32_t inner = 0;
};

}  // namespace AscendC

namespace mco_asc {

// Elements of a row so that rows begin at blocks.
template <class T>
constexpr int64_t whole_blocks(int64_t n) {
  return (n * int64_t(sizeof(T)) + AscendC::ONE_BLK_SIZE - 1) / AscendC::ONE_BLK_SIZE * AscendC::ONE_BLK_SIZE /
         int64_t(sizeof(T));
}

// Places of the first k of a row: descending or ascending, equal ones in their order, NaN last, as Sort32 has them.
template <class T>
inline void first_k(const T* row, int64_t n, int64_t k, bool largest, std::vector<int32_t>& order) {
  order.resize(size_t(n));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [row, largest](int32_t a, int32_t b) {
    const float x = float(row[a]), y = float(row[b]);
    const bool nan_x = x != x, nan_y = y != y;
    if (nan_x || nan_y) return nan_x == nan_y ? a < b : nan_y;
    return x == y ? a < b : largest ? x > y : x < y;
  };
  std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
}

inline void check_top(const mco_asc_where& here, const AscendC::TopKInfo& info, int64_t k, bool small) {
  if (info.outter < 1 || info.inner < 1 || info.inner % 32 || info.n < 1 || info.n > info.inner) {
    mco_asc_fault(
        &here, "outter, inner and n are %d, %d and %d; accepted: rows of a multiple of 32, of which 1 to inner count",
        info.outter, info.inner, info.n);
  }
  if (small && info.inner != 32) mco_asc_fault(&here, "inner is %d in mode TOPK_NSMALL; accepted: 32", info.inner);
  if (k < 1 || k > info.n) mco_asc_fault(&here, "k is %d; accepted: 1 to n, which is %d", int(k), info.n);
}

}  // namespace mco_asc

namespace AscendC {

// Rows of k values, and their indices: of pitch k rounded up to a block, in mode TOPK_NSMALL one behind the other.
// Indices come from srcIndex (isInitIndex: one row for all, in mode TOPK_NSMALL one for each), else count from 0. Rows
// that are finished (isHasfinish) get the index n.
template <class T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          enum TopKMode topkMode = TopKMode::TOPK_NORMAL>
inline void TopK(const LocalTensor<T>& dstValue, const LocalTensor<int32_t>& dstIndex, const LocalTensor<T>& src,
                 const LocalTensor<int32_t>& srcIndex, const LocalTensor<bool>& finish, const LocalTensor<uint8_t>&,
                 const int32_t k, const TopkTiling&, const TopKInfo& info, const bool isLargest = true,
                 mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(TopK, half, float);
  constexpr bool small = topkMode == TopKMode::TOPK_NSMALL;
  static_assert(!small || !isHasfinish,
                "AscendC::TopK: isHasfinish in mode TOPK_NSMALL is not accepted; accepted: false");
  mco_asc::check_top(where.of("TopK"), info, k, small);
  const int64_t rows = info.outter, inner = info.inner;
  const int64_t value_pitch = small ? k : mco_asc::whole_blocks<T>(k);
  const int64_t index_pitch = small ? k : mco_asc::whole_blocks<int32_t>(k);
  const T* from = mco_asc::array(src, (rows - 1) * inner + info.n, 0, "TopK", where);
  const int32_t* given =
      isInitIndex ? mco_asc::array(srcIndex, small ? (rows - 1) * inner + info.n : info.n, 0, "TopK", where) : nullptr;
  const uint8_t* finished =
      isHasfinish ? mco_asc::array(finish.template ReinterpretCast<uint8_t>(), rows, 0, "TopK", where) : nullptr;
  T* to = mco_asc::array(dstValue, (rows - 1) * value_pitch + k, MCO_ASC_WRITE, "TopK", where);
  int32_t* places = mco_asc::array(dstIndex, (rows - 1) * index_pitch + k, MCO_ASC_WRITE, "TopK", where);
  std::vector<int32_t> order;
  std::vector<T> values(size_t(rows * k));
  std::vector<int32_t> indices(size_t(rows * k));
  for (int64_t r = 0; r < rows; ++r) {
    mco_asc::first_k(from + r * inner, info.n, k, isLargest, order);
    for (int64_t i = 0; i < k; ++i) {
      values[size_t(r * k + i)] = from[r * inner + order[size_t(i)]];
      const int32_t place = order[size_t(i)];
      indices[size_t(r * k + i)] = finished && finished[r] ? info.n
                                   : given                 ? given[(small ? r * inner : 0) + place]
                                                           : place;
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(values.begin() + r * k, k, to + r * value_pitch);
    std::copy_n(indices.begin() + r * k, k, places + r * index_pitch);
  }
}
template <class T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          enum TopKMode topkMode = TopKMode::TOPK_NORMAL>
inline void TopK(const LocalTensor<T>& dstValue, const LocalTensor<int32_t>& dstIndex, const LocalTensor<T>& src,
                 const LocalTensor<int32_t>& srcIndex, const LocalTensor<bool>& finish, const int32_t k,
                 const TopkTiling& tiling, const TopKInfo& info, const bool isLargest = true,
                 mco_asc::Where where = mco_asc::Where::here()) {
  TopK<T, isInitIndex, isHasfinish, isReuseSrc, topkMode>(dstValue, dstIndex, src, srcIndex, finish,
                                                          LocalTensor<uint8_t>(), k, tiling, info, isLargest, where);
}

}  // namespace AscendC

namespace mco_asc {

template <class T, class U>
inline void select_bytes(const char* name, Where where, const LocalTensor<T>& dst, const LocalTensor<T>& src, T number,
                         bool number_first, const LocalTensor<U>& mask,
                         const AscendC::SelectWithBytesMaskShapeInfo& p) {
  static_assert(one_of<T, half, float>, "AscendC::SelectWithBytesMask takes half and float; the type is not accepted");
  static_assert(one_of<U, bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t>,
                "AscendC::SelectWithBytesMask: the type of the mask is not accepted; accepted: bool, int8_t, uint8_t, "
                "int16_t, uint16_t, int32_t, uint32_t");
  const int64_t rows = p.firstAxis, columns = p.srcLastAxis;
  if (!rows || !columns) return;
  const mco_asc_where here = where.of(name);
  if (columns * int64_t(sizeof(T)) % AscendC::ONE_BLK_SIZE || p.maskLastAxis % 16 ||
      int64_t(p.maskLastAxis) * int64_t(sizeof(U)) % AscendC::ONE_BLK_SIZE || p.maskLastAxis < p.srcLastAxis) {
    mco_asc_fault(
        &here,
        "last axes of source and mask are %u and %u; accepted: multiples of 32 bytes, the mask's of 16 elements "
        "and not shorter",
        p.srcLastAxis, p.maskLastAxis);
  }
  const T* from = array(src, rows * columns, 0, name, where);
  using byte_or = std::conditional_t<std::is_same<U, bool>::value, uint8_t, U>;
  const byte_or* bits =
      array(mask.template ReinterpretCast<byte_or>(), (rows - 1) * int64_t(p.maskLastAxis) + columns, 0, name, where);
  T* to = array(dst, rows * columns, MCO_ASC_WRITE, name, where);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const bool second = bits[r * p.maskLastAxis + c] != 0;
      to[r * columns + c] = second != number_first ? number : from[r * columns + c];
    }
  }
}

}  // namespace mco_asc

namespace AscendC {

// Where the mask is 0 from the first source, elsewhere from the second; one of them is a number. Rows of the mask may
// be longer than those of the tensor.
#define MCO_ASC_SELECT_BYTES(NAME)                                                                                    \
  template <class T, class U, bool isReuseMask = true>                                                                \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, mco_asc::same_t<T> src1,                    \
                   const LocalTensor<U>& mask, const LocalTensor<uint8_t>&, const SelectWithBytesMaskShapeInfo& info, \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                   \
    mco_asc::select_bytes(#NAME, where, dst, src0, src1, false, mask, info);                                          \
  }                                                                                                                   \
  template <class T, class U, bool isReuseMask = true>                                                                \
  inline void NAME(const LocalTensor<T>& dst, mco_asc::same_t<T> src0, const LocalTensor<T>& src1,                    \
                   const LocalTensor<U>& mask, const LocalTensor<uint8_t>&, const SelectWithBytesMaskShapeInfo& info, \
                   mco_asc::Where where = mco_asc::Where::here()) {                                                   \
    mco_asc::select_bytes(#NAME, where, dst, src1, src0, true, mask, info);                                           \
  }
MCO_ASC_SELECT_BYTES(SelectWithBytesMask)
MCO_ASC_SELECT_BYTES(Select)
#undef MCO_ASC_SELECT_BYTES

// Sums of an element and all before it, along rows (isLastAxis) or down columns, in float; lastRow gets the last row.
template <class T, const CumSumConfig& config = defaultCumSumConfig>
inline void CumSum(const LocalTensor<T>& dst, const LocalTensor<T>& lastRow, const LocalTensor<T>& src,
                   const LocalTensor<uint8_t>&, const CumSumInfo& info, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(CumSum, half, float);
  const mco_asc_where here = where.of("CumSum");
  const int64_t rows = info.outter, inner = info.inner;
  if (!rows || !inner) return;
  if (inner * int64_t(sizeof(T)) % ONE_BLK_SIZE) {
    mco_asc_fault(&here, "inner is %d; accepted: whole blocks of 32 bytes", int(inner));
  }
  const T* from = mco_asc::array(src, rows * inner, 0, "CumSum", where);
  T* to = mco_asc::array(dst, rows * inner, MCO_ASC_WRITE, "CumSum", where);
  T* last = config.outputLastRow ? mco_asc::array(lastRow, inner, MCO_ASC_WRITE, "CumSum", where) : nullptr;
  std::vector<float> sums(size_t(config.isLastAxis ? rows : inner));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < inner; ++c) {
      float& sum = sums[size_t(config.isLastAxis ? r : c)];
      sum += float(from[r * inner + c]);
      to[r * inner + c] = T(sum);
    }
  }
  if (last) std::copy_n(to + (rows - 1) * inner, inner, last);
}
template <class T, const CumSumConfig& config = defaultCumSumConfig>
inline void CumSum(const LocalTensor<T>& dst, const LocalTensor<T>& lastRow, const LocalTensor<T>& src,
                   const CumSumInfo& info, mco_asc::Where where = mco_asc::Where::here()) {
  CumSum<T, config>(dst, lastRow, src, LocalTensor<uint8_t>(), info, where);
}

}  // namespace AscendC
