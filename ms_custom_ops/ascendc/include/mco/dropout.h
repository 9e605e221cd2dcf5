// SPDX-License-Identifier: Apache-2.0
// Elements that a mask keeps, divided by the share of those that are kept.
#pragma once

#include "mco/library.h"

namespace AscendC {

struct DropOutShapeInfo {
  uint32_t firstAxis = 0;
  uint32_t srcLastAxis = 0;
  uint32_t maskLastAxis = 0;  // bytes of a row of the mask, padding among them
};

}  // namespace AscendC

namespace mco_asc {

// Which elements a mask keeps. Rows of the mask lie `pitch` bytes apart, or all of it is one row.
struct DropOutMask {
  const uint8_t* at;
  bool bits, one_row;
  int64_t pitch, columns;
  bool keeps(int64_t row, int64_t column) const {
    const int64_t i = one_row ? row * columns + column : column;
    const uint8_t* from = at + (one_row ? 0 : row * pitch);
    return bits ? from[i / 8] >> i % 8 & 1 : from[i] != 0;
  }
};

}  // namespace mco_asc

namespace AscendC {

// dropOutMode: 1 and 2 a byte for an element, 3 and 4 a bit, as Select takes them: the lowest of a byte is the first
// element's. In 1 and 4 rows of the mask are padded; 0 takes rows of maskLastAxis bytes, bits where they are fewer than
// elements.
template <class T, bool isInitBitMode = false, uint32_t dropOutMode = 0>
inline void DropOut(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& mask,
                    const LocalTensor<uint8_t>&, const float keepProb, const DropOutShapeInfo& info,
                    mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(DropOut, half, float);
  static_assert(dropOutMode <= 4, "AscendC::DropOut: dropOutMode is not accepted; accepted: 0 to 4");
  const mco_asc_where here = where.of("DropOut");
  if (!(keepProb > 0 && keepProb <= 1)) mco_asc_fault(&here, "keepProb is %g; accepted: above 0, to 1", keepProb);
  const int64_t rows = info.firstAxis, columns = info.srcLastAxis;
  if (!rows || !columns) return;
  const bool bits = dropOutMode >= 3 || (dropOutMode == 0 && info.maskLastAxis < info.srcLastAxis);
  const bool one_row = dropOutMode == 2 || dropOutMode == 3;
  const int64_t needed = bits ? (columns + 7) / 8 : columns, all = rows * columns;
  if (!one_row && info.maskLastAxis < needed) {
    mco_asc_fault(&here, "maskLastAxis is %u; accepted: at least %lld, for rows of %u elements", info.maskLastAxis,
                  (long long)needed, info.srcLastAxis);
  }
  const int64_t in_one = bits ? (all + 7) / 8 : all;
  const uint8_t* bytes = one_row ? mco_asc::array(mask, in_one, 0, "DropOut", where)
                                 : mco_asc::rows_in(mask, rows, needed, int64_t(info.maskLastAxis), "DropOut", where);
  const mco_asc::DropOutMask kept{bytes, bits, one_row, int64_t(info.maskLastAxis), columns};
  const T* from = mco_asc::array(src, all, 0, "DropOut", where);
  T* to = mco_asc::array(dst, all, MCO_ASC_WRITE, "DropOut", where);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const double value = double(from[r * columns + c]) / double(keepProb);
      to[r * columns + c] = kept.keeps(r, c) ? T(value) : T(0);
    }
  }
}
template <class T, bool isInitBitMode = false, uint32_t dropOutMode = 0>
inline void DropOut(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& mask,
                    const float keepProb, const DropOutShapeInfo& info, mco_asc::Where where = mco_asc::Where::here()) {
  DropOut<T, isInitBitMode, dropOutMode>(dst, src, mask, LocalTensor<uint8_t>(), keepProb, info, where);
}

}  // namespace AscendC
