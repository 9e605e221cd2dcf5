// SPDX-License-Identifier: Apache-2.0
// Small integers to half and bfloat16: (src + offset) * scale.
#pragma once

#include "mco/quant.h"

namespace AscendC {

struct AntiQuantShapeInfo {
  uint32_t offsetHeight{0}, offsetWidth{0}, scaleHeight{0}, scaleWidth{0};
};

}  // namespace AscendC

namespace mco_asc {

// Shape of a tensor of scales or offsets. Along K as many rows (columns of a transposed source) share one.
struct Shared {
  int64_t height, width, group;
};

template <bool isTranspose>
inline Shared shared(const mco_asc_where& here, const char* what, uint32_t height, uint32_t width,
                     const AscendC::ShapeInfo& shape, int64_t n, int64_t k) {
  if (!height || !width) height = shape.shape[0], width = shape.shape[1];
  const int64_t along = isTranspose ? width : height, across = isTranspose ? height : width;
  if (!along || k % along || across != n) {
    mco_asc_fault(&here,
                  "%s of [%u, %u]; accepted: %s, given by shapeInfo or SetShapeInfo, for K of %lld and N of %lld", what,
                  height, width, isTranspose ? "[N, groups of K]" : "[groups of K, N]", (long long)k, (long long)n);
  }
  return {height, width, k / along};
}

inline int element_of(const int8_t* at, int64_t i) { return at[i]; }
inline int element_of(const int4b_t* at, int64_t i) {  // bytes of two elements, the first in the lower half
  const int bits = at[i / 2].bits >> (i % 2 ? 4 : 0) & 15;
  return bits < 8 ? bits : bits - 16;
}

// The chip works in half, for bfloat16_t in float.
inline half anti_quantized(int x, half offset, half scale) {
  return half(float(half(float(x) + float(offset))) * float(scale));
}
inline bfloat16_t anti_quantized(int x, bfloat16_t offset, bfloat16_t scale) {
  return bfloat16_t((float(x) + float(offset)) * float(scale));
}

struct Matrix {
  int64_t rows, columns;
};
template <class S>
inline Matrix matrix_of(Where where, const LocalTensor<S>& src, uint32_t k, bool transposed) {
  const mco_asc_where here = where.of("AscendAntiQuant");
  if (!k || src.GetSize() % k) {
    mco_asc_fault(&here, "%u elements with k of %u; accepted: whole matrices of [K, N], or [N, K]", src.GetSize(), k);
  }
  const int64_t n = src.GetSize() / k;
  return transposed ? Matrix{n, k} : Matrix{k, n};
}

// `offset_of` and `scale_of` give those of row and column.
template <class S, class D, class O, class F>
inline void anti_quantize(Where where, const LocalTensor<D>& dst, const LocalTensor<S>& src, Matrix m, O offset_of,
                          F scale_of) {
  static_assert(one_of<S, int8_t, int4b_t>,
                "AscendC::AscendAntiQuant: the type of src is not accepted; accepted: int8_t, int4b_t");
  static_assert(one_of<D, half, bfloat16_t>,
                "AscendC::AscendAntiQuant: the type of dst is not accepted; accepted: half, bfloat16_t");
  const int64_t n = m.rows * m.columns;
  const S* from = array(src, bytes_for<S>(n), 0, "AscendAntiQuant", where);
  D* to = array(dst, n, MCO_ASC_WRITE, "AscendAntiQuant", where);
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.columns; ++c) {
      const int64_t i = r * m.columns + c;
      to[i] = anti_quantized(element_of(from, i), offset_of(r, c), scale_of(r, c));
    }
  }
}

// Of tensors; without an offset where `offset` is null.
template <class S, class D, bool isTranspose>
inline void anti_quantize_channels(Where where, const LocalTensor<D>& dst, const LocalTensor<S>& src,
                                   const LocalTensor<D>* offset, const LocalTensor<D>& scale, uint32_t k,
                                   const AscendC::AntiQuantShapeInfo& shape) {
  const char* name = "AscendAntiQuant";
  const mco_asc_where here = where.of(name);
  const Matrix m = matrix_of(where, src, k, isTranspose);
  const int64_t n = isTranspose ? m.rows : m.columns;
  const auto place = [](const Shared& s, int64_t r, int64_t c) {
    return isTranspose ? r * s.width + c / s.group : r / s.group * s.width + c;
  };
  const Shared scales =
      shared<isTranspose>(here, "scale", shape.scaleHeight, shape.scaleWidth, scale.GetShapeInfo(), n, k);
  const D* by = array(scale, scales.height * scales.width, 0, name, where);
  const auto scale_of = [=](int64_t r, int64_t c) { return by[place(scales, r, c)]; };
  if (!offset) return anti_quantize(where, dst, src, m, [](int64_t, int64_t) { return D(0.0f); }, scale_of);
  const Shared offsets =
      shared<isTranspose>(here, "offset", shape.offsetHeight, shape.offsetWidth, offset->GetShapeInfo(), n, k);
  const D* more = array(*offset, offsets.height * offsets.width, 0, name, where);
  anti_quantize(where, dst, src, m, [=](int64_t r, int64_t c) { return more[place(offsets, r, c)]; }, scale_of);
}

}  // namespace mco_asc

namespace AscendC {

template <class S, class D, bool isTranspose>
inline void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const LocalTensor<D>& offset,
                            const LocalTensor<D>& scale, const LocalTensor<uint8_t>&, const uint32_t k,
                            const AntiQuantShapeInfo& shape = {}, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::anti_quantize_channels<S, D, isTranspose>(where, dst, src, &offset, scale, k, shape);
}
template <class S, class D, bool isTranspose>
inline void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const LocalTensor<D>& offset,
                            const LocalTensor<D>& scale, const uint32_t k, const AntiQuantShapeInfo& shape = {},
                            mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::anti_quantize_channels<S, D, isTranspose>(where, dst, src, &offset, scale, k, shape);
}
template <class S, class D, bool isTranspose>
inline void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const LocalTensor<D>& scale,
                            const LocalTensor<uint8_t>&, const uint32_t k, const AntiQuantShapeInfo& shape = {},
                            mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::anti_quantize_channels<S, D, isTranspose>(where, dst, src, nullptr, scale, k, shape);
}
template <class S, class D, bool isTranspose>
inline void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const D offset, const D scale,
                            const LocalTensor<uint8_t>&, const uint32_t k, const AntiQuantShapeInfo& = {},
                            mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::anti_quantize(
      where, dst, src, mco_asc::matrix_of(where, src, k, isTranspose), [offset](int64_t, int64_t) { return offset; },
      [scale](int64_t, int64_t) { return scale; });
}
template <class S, class D, bool isTranspose>
inline void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const D offset, const D scale,
                            const uint32_t k, const AntiQuantShapeInfo& shape = {},
                            mco_asc::Where where = mco_asc::Where::here()) {
  AscendAntiQuant<S, D, isTranspose>(dst, src, offset, scale, LocalTensor<uint8_t>(), k, shape, where);
}
template <class S, class D, bool isTranspose>
inline void AscendAntiQuant(const LocalTensor<D>& dst, const LocalTensor<S>& src, const D scale,
                            const LocalTensor<uint8_t>& tmp, const uint32_t k, const AntiQuantShapeInfo& shape = {},
                            mco_asc::Where where = mco_asc::Where::here()) {
  AscendAntiQuant<S, D, isTranspose>(dst, src, D(0.0f), scale, tmp, k, shape, where);
}

}  // namespace AscendC
