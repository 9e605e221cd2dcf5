// SPDX-License-Identifier: Apache-2.0
// Rows of a tensor made longer or shorter.
#pragma once

#include "mco/topk.h"

namespace AscendC {

struct PadParams {
  uint16_t leftPad = 0;
  uint16_t rightPad = 0;
  int32_t padValue = 0;
};
struct UnPadParams {
  uint16_t leftPad = 0;
  uint16_t rightPad = 0;
};

}  // namespace AscendC

namespace mco_asc {

// `least`: UnPad copies rows of which nothing is left out, as public kernels have it at widths of whole blocks.
template <class T>
inline void check_pad(const mco_asc_where& here, uint16_t left, uint16_t right, int least) {
  constexpr int block = int(AscendC::ONE_BLK_SIZE / int64_t(sizeof(T)));
  if (left) mco_asc_fault(&here, "leftPad is %d; accepted: 0", left);
  if (right < least || right >= block) {
    mco_asc_fault(&here, "rightPad is %d; accepted: %d to %d, less than a block of 32 bytes", right, least, block - 1);
  }
}

}  // namespace mco_asc

namespace AscendC {

#define MCO_ASC_PAD_TYPES(NAME) MCO_ASC_NEED(NAME, int16_t, uint16_t, half, int32_t, uint32_t, float)

// Rows of srcOriWidth elements, in rows of srcWidth, to rows of whole blocks: rightPad values behind each. The source
// begins its rows at no blocks, or in them with elements that do not count.
template <class T>
inline void Pad(const LocalTensor<T>& dst, const LocalTensor<T>& src, PadParams& params, const LocalTensor<uint8_t>&,
                PadTiling& tiling, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_PAD_TYPES(Pad);
  const mco_asc_where here = where.of("Pad");
  mco_asc::check_pad<T>(here, params.leftPad, params.rightPad, 1);
  const int64_t rows = tiling.srcHeight, pitch = tiling.srcWidth, width = tiling.srcOriWidth;
  const int64_t padded = width + params.rightPad;
  if (width > pitch || padded != mco_asc::whole_blocks<T>(pitch)) {
    mco_asc_fault(&here,
                  "rows of %lld elements, of which %lld count, with rightPad %d; accepted: a rightPad that ends at a "
                  "block of 32 bytes",
                  (long long)pitch, (long long)width, params.rightPad);
  }
  if (!rows) return;
  const T* from = mco_asc::array(src, (rows - 1) * pitch + width, 0, "Pad", where);
  T* to = mco_asc::array(dst, rows * padded, MCO_ASC_WRITE, "Pad", where);
  for (int64_t r = rows; r-- > 0;) {  // the last first, where dst is src
    std::copy_backward(from + r * pitch, from + r * pitch + width, to + r * padded + width);
    std::fill_n(to + r * padded + width, params.rightPad, T(params.padValue));
  }
}
template <class T>
inline void Pad(const LocalTensor<T>& dst, const LocalTensor<T>& src, PadParams& params, PadTiling& tiling,
                mco_asc::Where where = mco_asc::Where::here()) {
  Pad(dst, src, params, LocalTensor<uint8_t>(), tiling, where);
}

// Rows of whole blocks without their last rightPad elements, one behind the other.
template <class T>
inline void UnPad(const LocalTensor<T>& dst, const LocalTensor<T>& src, UnPadParams& params,
                  const LocalTensor<uint8_t>&, UnPadTiling& tiling, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_PAD_TYPES(UnPad);
  const mco_asc_where here = where.of("UnPad");
  mco_asc::check_pad<T>(here, params.leftPad, params.rightPad, 0);
  const int64_t rows = tiling.srcHeight, pitch = tiling.srcWidth, width = pitch - params.rightPad;
  if (!pitch || pitch != mco_asc::whole_blocks<T>(pitch)) {
    mco_asc_fault(&here, "rows of %lld elements; accepted: whole blocks of 32 bytes", (long long)pitch);
  }
  if (!rows) return;
  const T* from = mco_asc::array(src, (rows - 1) * pitch + width, 0, "UnPad", where);
  T* to = mco_asc::array(dst, rows * width, MCO_ASC_WRITE, "UnPad", where);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(from + r * pitch, width, to + r * width);
}
template <class T>
inline void UnPad(const LocalTensor<T>& dst, const LocalTensor<T>& src, UnPadParams& params, UnPadTiling& tiling,
                  mco_asc::Where where = mco_asc::Where::here()) {
  UnPad(dst, src, params, LocalTensor<uint8_t>(), tiling, where);
}
#undef MCO_ASC_PAD_TYPES

}  // namespace AscendC
