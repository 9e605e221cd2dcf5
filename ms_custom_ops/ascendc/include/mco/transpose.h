// SPDX-License-Identifier: Apache-2.0
// Library transposes: between NZ and ND with axes exchanged, split or merged, of a matrix, between NCHW and NHWC.
#pragma once

#include <vector>

#include "kernel_tiling/kernel_tiling.h"
#include "mco/library.h"

namespace AscendC {

struct TransposeParamsExt {
  TransposeParamsExt() = default;
  TransposeParamsExt(uint16_t n, uint16_t c, uint16_t h, uint16_t w, TransposeType type)
      : nSize(n), cSize(c), hSize(h), wSize(w), transposeType(type) {}
  uint16_t nSize = 0;
  uint16_t cSize = 0;
  uint16_t hSize = 0;
  uint16_t wSize = 0;
  TransposeType transposeType = TransposeType::TRANSPOSE_ND2ND_B16;
};

}  // namespace AscendC

namespace mco_asc {

using AscendC::TransposeType;

// The axes [B, N, S, D] of a transpose, in NZ in fractals of 16 x 16.
struct Transposed {
  int64_t b, n, s, d;

  static int64_t fractals(int64_t size) { return (size + 15) / 16; }
  int64_t merged() const { return n * d; }
  static int64_t in_nz(int64_t matrix, int64_t rows, int64_t columns, int64_t row, int64_t column) {
    return ((matrix * fractals(columns) + column / 16) * fractals(rows) + row / 16) * 256 + row % 16 * 16 + column % 16;
  }
  static int64_t nz_size(int64_t matrices, int64_t rows, int64_t columns) {
    return matrices * fractals(columns) * fractals(rows) * 256;
  }
};

// `to(place)` and `from(place)` give the offset of element (b, n, s, d) on either side. The source is read as a whole
// first: it may be the destination.
template <class T, class To, class From>
inline void transpose(const char* call, Where where, const LocalTensor<T>& dst, int64_t dst_size,
                      const LocalTensor<T>& src, int64_t src_size, const Transposed& axes, To to, From from) {
  if (!(axes.b * axes.n * axes.s * axes.d)) return;
  const T* source = array(src, src_size, 0, call, where);
  T* target = array(dst, dst_size, MCO_ASC_WRITE, call, where);
  const std::vector<T> values(source, source + src_size);
  for (int64_t b = 0; b < axes.b; ++b) {
    for (int64_t n = 0; n < axes.n; ++n) {
      for (int64_t s = 0; s < axes.s; ++s) {
        for (int64_t d = 0; d < axes.d; ++d) target[to(b, n, s, d)] = values[size_t(from(b, n, s, d))];
      }
    }
  }
}

template <class T>
inline void confuse(const char* call, Where where, const LocalTensor<T>& dst, const LocalTensor<T>& src,
                    TransposeType type, const ConfusionTransposeTiling& tiling) {
  static_assert(
      one_of<T, half, bfloat16_t, int16_t, uint16_t, int32_t, uint32_t, float>,
      "AscendC::Transpose: the type is not accepted; accepted: half, bfloat16_t, int16_t, uint16_t, int32_t, uint32_t, "
      "float");
  using M = Transposed;
  const mco_asc_where here = where.of(call);
  const M a = {tiling.b, tiling.n, tiling.s, tiling.d};
  for (int64_t size : {a.b, a.n, a.s, a.d}) {
    if (size > 1 << 15) {
      mco_asc_fault(&here, "tiling of [%lld, %lld, %lld, %lld]; accepted: that of GetTransposeTilingInfo",
                    (long long)a.b, (long long)a.n, (long long)a.s, (long long)a.d);
    }
  }
  const int64_t nd = a.b * a.n * a.s * a.d, by_head = M::nz_size(a.b * a.n, a.s, a.d);
  const int64_t merged = M::nz_size(a.b, a.s, a.merged()), by_row = M::nz_size(a.b * a.s, a.n, a.d);
  const auto head = [a](int64_t b, int64_t n, int64_t s, int64_t d) { return M::in_nz(b * a.n + n, a.s, a.d, s, d); };
  const auto whole = [a](int64_t b, int64_t n, int64_t s, int64_t d) {
    return M::in_nz(b, a.s, a.merged(), s, n * a.d + d);
  };
  const auto row = [a](int64_t b, int64_t n, int64_t s, int64_t d) { return M::in_nz(b * a.s + s, a.n, a.d, n, d); };
  const auto bsnd = [a](int64_t b, int64_t n, int64_t s, int64_t d) { return ((b * a.s + s) * a.n + n) * a.d + d; };
  const auto bnsd = [a](int64_t b, int64_t n, int64_t s, int64_t d) { return ((b * a.n + n) * a.s + s) * a.d + d; };
  switch (type) {
    case TransposeType::TRANSPOSE_NZ2ND_0213:
    case TransposeType::TRANSPOSE_NZ2ND_012_WITHOUT_N:  // [B, S, N, D] is [B, S, H] in ND
      return transpose(call, where, dst, nd, src, by_head, a, bsnd, head);
    case TransposeType::TRANSPOSE_NZ2NZ_0213:
      return transpose(call, where, dst, by_row, src, by_head, a, row, head);
    case TransposeType::TRANSPOSE_NZ2NZ_012_WITH_N:
      return transpose(call, where, dst, by_head, src, merged, a, head, whole);
    case TransposeType::TRANSPOSE_NZ2ND_012_WITH_N:
      return transpose(call, where, dst, nd, src, merged, a, bnsd, whole);
    case TransposeType::TRANSPOSE_NZ2NZ_012_WITHOUT_N:
      return transpose(call, where, dst, merged, src, by_head, a, whole, head);
    case TransposeType::TRANSPOSE_ND2ND_ONLY:  // the tiling of [H, W] is [1, 1, H, W]
      return transpose(call, where, dst, nd, src, nd, a, [a](int64_t, int64_t, int64_t s, int64_t d) {
        return d * a.s + s;
      }, bnsd);
    default:
      mco_asc_fault(&here, "transposeType is %d; accepted: TRANSPOSE_NZ2ND_0213 to TRANSPOSE_ND2ND_ONLY", int(type));
  }
}

}  // namespace mco_asc

namespace AscendC {

#define MCO_ASC_CONFUSE(NAME)                                                                                     \
  template <class T>                                                                                              \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&,             \
                   TransposeType type, ConfusionTransposeTiling& tiling,                                          \
                   mco_asc::Where where = mco_asc::Where::here()) {                                               \
    mco_asc::confuse(#NAME, where, dst, src, type, tiling);                                                       \
  }                                                                                                               \
  template <class T>                                                                                              \
  inline void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, TransposeType type,                      \
                   ConfusionTransposeTiling& tiling, mco_asc::Where where = mco_asc::Where::here()) {             \
    mco_asc::confuse(#NAME, where, dst, src, type, tiling);                                                       \
  }
MCO_ASC_CONFUSE(Transpose)
MCO_ASC_CONFUSE(ConfusionTranspose)
#undef MCO_ASC_CONFUSE

// 16 x 16 elements of 16 bits, or [N, C, H, W] to [N, H, W, C] and back.
template <class T>
inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&,
                      const TransposeParamsExt& params, mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(mco_asc::one_of<T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>,
                "AscendC::Transpose: the type is not accepted; accepted: int8_t, uint8_t, int16_t, uint16_t, half, "
                "int32_t, uint32_t, float");
  const mco_asc_where here = where.of("Transpose");
  const int64_t c = params.cSize, h = params.hSize, w = params.wSize;
  const auto channels_first = [c, w, h](int64_t n, int64_t i, int64_t y, int64_t x) {
    return ((n * c + i) * h + y) * w + x;
  };
  const auto channels_last = [c, w, h](int64_t n, int64_t i, int64_t y, int64_t x) {
    return ((n * h + y) * w + x) * c + i;
  };
  switch (params.transposeType) {
    case TransposeType::TRANSPOSE_ND2ND_B16:
      if constexpr (sizeof(T) == 2) {
        return Transpose(dst.template ReinterpretCast<uint16_t>(), src.template ReinterpretCast<uint16_t>(), where);
      } else {
        mco_asc_fault(&here, "TRANSPOSE_ND2ND_B16 of elements of %d bytes; accepted: 2 bytes", int(sizeof(T)));
      }
    case TransposeType::TRANSPOSE_NCHW2NHWC:
    case TransposeType::TRANSPOSE_NHWC2NCHW: {
      if (c > 4095) mco_asc_fault(&here, "cSize is %lld; accepted: 0 to 4095", (long long)c);
      const int64_t size = params.nSize * c * h * w;
      const mco_asc::Transposed axes = {params.nSize, c, h, w};
      if (params.transposeType == TransposeType::TRANSPOSE_NCHW2NHWC) {
        mco_asc::transpose("Transpose", where, dst, size, src, size, axes, channels_last, channels_first);
      } else {
        mco_asc::transpose("Transpose", where, dst, size, src, size, axes, channels_first, channels_last);
      }
      return;
    }
    default:
      mco_asc_fault(&here,
                    "transposeType is %d; accepted: TRANSPOSE_ND2ND_B16, TRANSPOSE_NCHW2NHWC, TRANSPOSE_NHWC2NCHW",
                    int(params.transposeType));
  }
}

}  // namespace AscendC
