// SPDX-License-Identifier: Apache-2.0
// Forms of softmax beside SoftMax itself: by parts of the columns, gradients, rows without a valid element.
#pragma once

#include <cstring>

#include "mco/normal.h"

namespace AscendC {

// One step over columns whose result is divided by the sum so far; with isUpdate expMax is the factor of what earlier
// columns gave.
template <class T, bool isReuseSource = false, bool isBasicBlock = false, class S>
inline void SoftmaxFlash(const LocalTensor<T>& dst, const LocalTensor<S>& sum, const LocalTensor<S>& max,
                         const LocalTensor<T>& src, const LocalTensor<T>& expMax, const LocalTensor<S>& inExpSum,
                         const LocalTensor<S>& inMax, const LocalTensor<uint8_t>&, const SoftMaxTiling& tiling,
                         bool isUpdate = false, const SoftMaxShapeInfo& shape = {},
                         mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(SoftmaxFlash, half, float);
  const char* name = "SoftmaxFlash";
  if (!isUpdate) {
    return SoftMax<T, isReuseSource, isBasicBlock>(dst, sum, max, src, LocalTensor<uint8_t>(), tiling, shape, where);
  }
  const mco_asc::Rows r = mco_asc::rows_of(tiling, shape, src.GetSize());
  const T* from = mco_asc::array(src, r.rows * r.pitch, 0, name, where);
  T* to = mco_asc::array(dst, r.rows * r.pitch, MCO_ASC_WRITE, name, where);
  const auto old_sums = mco_asc::row_values(inExpSum, r.rows, 0, name, where);
  const auto old_most = mco_asc::row_values(inMax, r.rows, 0, name, where);
  const auto sums = mco_asc::row_values(sum, r.rows, MCO_ASC_WRITE, name, where);
  const auto most = mco_asc::row_values(max, r.rows, MCO_ASC_WRITE, name, where);
  const auto factors = mco_asc::row_values(expMax, r.rows, MCO_ASC_WRITE, name, where);
  for (int64_t i = 0; i < r.rows; ++i) {
    const T* row = from + i * r.pitch;
    const float was = old_most.get(i), here = mco_asc::row_max(row, r.columns), m = was > here ? was : here;
    double total = 0;
    for (int64_t c = 0; c < r.columns; ++c) total += double(std::exp(float(row[c]) - m));
    const float before = std::exp(was - m) * old_sums.get(i), now = before + float(total);
    mco_asc::row_exp(to + i * r.pitch, row, r.columns, m, 1 / now);
    factors.set(i, before / now);
    most.set(i, m);
    sums.set(i, now);
  }
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false, class S>
inline void SoftmaxFlash(const LocalTensor<T>& dst, const LocalTensor<S>& sum, const LocalTensor<S>& max,
                         const LocalTensor<T>& src, const LocalTensor<T>& expMax, const LocalTensor<S>& inExpSum,
                         const LocalTensor<S>& inMax, const SoftMaxTiling& tiling, bool isUpdate = false,
                         const SoftMaxShapeInfo& shape = {}, mco_asc::Where where = mco_asc::Where::here()) {
  SoftmaxFlash<T, isReuseSource, isBasicBlock>(dst, sum, max, src, expMax, inExpSum, inMax, LocalTensor<uint8_t>(),
                                               tiling, isUpdate, shape, where);
}

}  // namespace AscendC

namespace mco_asc {

// Sums of gradient times result over rows; dst gets them, or (grad - sum) * result.
template <class T>
inline void softmax_grad(const char* name, Where where, const LocalTensor<T>& dst, const LocalTensor<T>& grad,
                         const LocalTensor<T>& src, const SoftMaxTiling& tiling, const AscendC::SoftMaxShapeInfo& shape,
                         bool front) {
  static_assert(one_of<T, half, float>, "AscendC::SoftmaxGrad takes half and float; the type is not accepted");
  const Rows r = rows_of(tiling, shape, src.GetSize());
  const T *g = array(grad, r.rows * r.pitch, 0, name, where), *y = array(src, r.rows * r.pitch, 0, name, where);
  T* to = array(dst, r.rows * (front ? RowValues<T>::kEach : r.pitch), MCO_ASC_WRITE, name, where);
  for (int64_t i = 0; i < r.rows; ++i, g += r.pitch, y += r.pitch) {
    double sum = 0;
    for (int64_t c = 0; c < r.columns; ++c) sum += double(g[c]) * double(y[c]);
    if (front) {
      RowValues<T>{to}.set(i, float(sum));
      continue;
    }
    for (int64_t c = 0; c < r.columns; ++c) to[i * r.pitch + c] = T((float(g[c]) - float(sum)) * float(y[c]));
  }
}

}  // namespace mco_asc

namespace AscendC {

template <class T, bool isReuseSource = false, bool isDataFormatNZ = false>
inline void SoftmaxGrad(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,
                        const LocalTensor<uint8_t>&, const SoftMaxTiling& tiling, bool isFront = false,
                        const SoftMaxShapeInfo& shape = {}, mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(!isDataFormatNZ, "AscendC::SoftmaxGrad: isDataFormatNZ is not there; accepted: ND rows");
  mco_asc::softmax_grad("SoftmaxGrad", where, dst, grad, src, tiling, shape, isFront);
}
template <class T, bool isReuseSource = false, bool isDataFormatNZ = false>
inline void SoftmaxGrad(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,
                        const SoftMaxTiling& tiling, bool isFront = false, const SoftMaxShapeInfo& shape = {},
                        mco_asc::Where where = mco_asc::Where::here()) {
  SoftmaxGrad<T, isReuseSource, isDataFormatNZ>(dst, grad, src, LocalTensor<uint8_t>(), tiling, isFront, shape, where);
}
template <class T, bool isBasicBlock = false, bool isDataFormatNZ = false>
inline void SoftmaxGradFront(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,
                             const LocalTensor<uint8_t>&, const SoftMaxTiling& tiling,
                             const SoftMaxShapeInfo& shape = {}, mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(!isDataFormatNZ, "AscendC::SoftmaxGradFront: isDataFormatNZ is not there; accepted: ND rows");
  mco_asc::softmax_grad("SoftmaxGradFront", where, dst, grad, src, tiling, shape, true);
}
template <class T, bool isBasicBlock = false, bool isDataFormatNZ = false>
inline void SoftmaxGradFront(const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,
                             const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {},
                             mco_asc::Where where = mco_asc::Where::here()) {
  SoftmaxGradFront<T, isBasicBlock, isDataFormatNZ>(dst, grad, src, LocalTensor<uint8_t>(), tiling, shape, where);
}

// The decimal logarithm of softmax, as the manual has it.
template <class T, bool isReuseSource = false, bool isDataFormatNZ = false>
inline void LogSoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& sum, const LocalTensor<T>& max,
                       const LocalTensor<T>& src, const LocalTensor<uint8_t>&, const LogSoftMaxTiling& tiling,
                       const SoftMaxShapeInfo& shape = {}, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(LogSoftMax, half, float);
  static_assert(!isDataFormatNZ, "AscendC::LogSoftMax: isDataFormatNZ is not there; accepted: ND rows");
  const char* name = "LogSoftMax";
  SoftMaxTiling of_rows{};
  of_rows.srcM = tiling.srcM, of_rows.srcK = tiling.srcK;
  const mco_asc::Rows r = mco_asc::rows_of(of_rows, shape, src.GetSize());
  const mco_asc::RowByRow seen(r);
  const T* from = mco_asc::array(src, r.rows * r.pitch, 0, name, where);
  T* to = mco_asc::array(dst, r.rows * r.pitch, MCO_ASC_WRITE, name, where);
  const auto sums = mco_asc::row_values(sum, r.rows, MCO_ASC_WRITE, name, where);
  const auto most = mco_asc::row_values(max, r.rows, MCO_ASC_WRITE, name, where);
  const double to_decimal = std::log10(std::exp(1.0));
  for (int64_t i = 0; i < r.rows; ++i) {
    const T* row = from + i * r.pitch;
    const double m = double(mco_asc::row_max(row, r.columns));
    double total = 0;
    for (int64_t c = 0; c < r.columns; ++c) total += std::exp(double(row[c]) - m);
    for (int64_t c = 0; c < r.columns; ++c) {
      to[i * r.pitch + c] = T((double(row[c]) - m - std::log(total)) * to_decimal);
    }
    most.set(i, float(m));
    sums.set(i, float(total));
  }
}

// Rows whose maximum has the bits `from` become `to`; whether there was one.
template <class T1, class T2, bool isDataFormatNZ = false, uint8_t stepSizeMode = 0>
inline bool AdjustSoftMaxRes(const LocalTensor<T1>& res, const LocalTensor<T2>& max, const uint32_t from, const T1 to,
                             const SoftMaxShapeInfo& shape, mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(mco_asc::one_of<T1, half, float> && mco_asc::one_of<T2, half, float>,
                "AscendC::AdjustSoftMaxRes takes half and float; the type is not accepted");
  static_assert(!isDataFormatNZ, "AscendC::AdjustSoftMaxRes: isDataFormatNZ is not there; accepted: ND rows");
  const int64_t rows = shape.srcM, pitch = shape.srcK, step = stepSizeMode ? 1 : mco_asc::RowValues<T2>::kEach;
  if (!rows || !pitch) return false;
  T1* values = mco_asc::array(res, rows * pitch, MCO_ASC_WRITE, "AdjustSoftMaxRes", where);
  const T2* most = mco_asc::array(max, (rows - 1) * step + 1, 0, "AdjustSoftMaxRes", where);
  bool found = false;
  for (int64_t r = 0; r < rows; ++r) {
    uint32_t bits = 0;
    std::memcpy(&bits, most + r * step, sizeof(T2));
    if (bits != from) continue;
    for (int64_t c = 0; c < pitch; ++c) values[r * pitch + c] = to;
    found = true;
  }
  return found;
}

// The tiling that the host would make, for kernels that know the shape only while they run: what the functions here
// read.
inline SoftMaxTiling SoftMaxTilingFunc(const SoftMaxShapeInfo& shape, uint32_t type_size, uint32_t, uint32_t,
                                       bool = false, bool = false) {
  const uint32_t block = 32 / type_size;
  return {shape.srcM, shape.srcK, shape.srcM * shape.srcK,
          shape.srcM, block,      shape.srcM * block,
          shape.srcM, shape.srcK, shape.srcM * shape.srcK,
          shape.srcM, block,      shape.srcM * block,
          1,          0,          0,
          0};
}
#define MCO_ASC_SOFTMAX_TILING(form)                                                                               \
  inline SoftMaxTiling form(const SoftMaxShapeInfo& shape, uint32_t type_size, uint32_t other_size, uint32_t room, \
                            bool = false, bool = false, bool = false, bool = false) {                              \
    return SoftMaxTilingFunc(shape, type_size, other_size, room);                                                  \
  }
MCO_ASC_SOFTMAX_TILING(SoftMaxFlashTilingFunc)
MCO_ASC_SOFTMAX_TILING(SoftMaxFlashV2TilingFunc)
MCO_ASC_SOFTMAX_TILING(SoftMaxGradTilingFunc)
#undef MCO_ASC_SOFTMAX_TILING

}  // namespace AscendC
