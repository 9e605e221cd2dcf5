// SPDX-License-Identifier: Apache-2.0
// Softmax and normalisations over rows, computed in float and double.
#pragma once

#include <vector>

#include "kernel_tiling/kernel_tiling.h"
#include "mco/library.h"

namespace AscendC {

struct SoftMaxShapeInfo {
  uint32_t srcM = 0;
  uint32_t srcK = 0;
  uint32_t oriSrcM = 0;
  uint32_t oriSrcK = 0;
};
struct SoftmaxConfig {
  bool isCheckTiling = true;
  uint32_t oriSrcM = 0;
  uint32_t oriSrcK = 0;
};
constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG{};

}  // namespace AscendC

namespace mco_asc {

struct Rows {
  int64_t rows, pitch, columns;  // of which only the first `columns` count
};

// As long as it lives, what looks on takes a library function's results row by row, the first columns of each.
class RowByRow {
 public:
  explicit RowByRow(const Rows& r) : observed_(mco_asc_this_core("rows")->observed != 0) {
    if (observed_) mco_asc_rows(r.rows, r.columns, r.pitch);
  }
  ~RowByRow() {
    if (observed_) mco_asc_rows(0, 0, 0);
  }
  RowByRow(const RowByRow&) = delete;
  RowByRow& operator=(const RowByRow&) = delete;

 private:
  const bool observed_;
};

inline Rows rows_of(const SoftMaxTiling& tiling, const AscendC::SoftMaxShapeInfo& shape, uint32_t size) {
  if (shape.srcM && shape.srcK) {
    return {shape.srcM, shape.srcK, shape.oriSrcK ? shape.oriSrcK : shape.srcK};
  }
  if (tiling.srcM && tiling.srcK) return {tiling.srcM, tiling.srcK, tiling.srcK};
  return {1, size, size};
}

// A value for each row, which fills a block of 32 bytes.
template <class S>
struct RowValues {
  S* at;
  static constexpr int64_t kEach = 32 / int64_t(sizeof(S));
  float get(int64_t row) const { return float(at[row * kEach]); }
  void set(int64_t row, float value) const {
    for (int64_t i = 0; i < kEach; ++i) at[row * kEach + i] = S(value);
  }
};
template <class S>
inline RowValues<S> row_values(const LocalTensor<S>& t, int64_t rows, int how, const char* call, Where where) {
  return {array(t, rows * RowValues<S>::kEach, how, call, where)};
}

template <class T>
inline float row_max(const T* row, int64_t n) {
  float most = float(row[0]);
  for (int64_t i = 1; i < n; ++i) most = float(row[i]) > most ? float(row[i]) : most;
  return most;
}

template <class T>
inline float row_exp(T* to, const T* from, int64_t n, float most, float scale) {
  double sum = 0;
  std::vector<float> e(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) sum += e[size_t(i)] = std::exp(float(from[i]) - most);
  for (int64_t i = 0; i < n; ++i) to[i] = T(scale == 0 ? e[size_t(i)] / float(sum) : e[size_t(i)] * scale);
  return float(sum);
}

}  // namespace mco_asc

namespace AscendC {

template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class S>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<S>& sum, const LocalTensor<S>& max,
                    const LocalTensor<T>& src, const LocalTensor<uint8_t>&, const SoftMaxTiling& tiling,
                    const SoftMaxShapeInfo& shape = {}, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(SoftMax, half, float);
  static_assert(!isDataFormatNZ, "AscendC::SoftMax: isDataFormatNZ is not there; accepted: ND rows");
  const mco_asc::Rows r = mco_asc::rows_of(tiling, shape, src.GetSize());
  const mco_asc::RowByRow seen(r);
  const T* from = mco_asc::array(src, r.rows * r.pitch, 0, "SoftMax", where);
  T* to = mco_asc::array(dst, r.rows * r.pitch, MCO_ASC_WRITE, "SoftMax", where);
  const auto sums = mco_asc::row_values(sum, r.rows, MCO_ASC_WRITE, "SoftMax", where);
  const auto most = mco_asc::row_values(max, r.rows, MCO_ASC_WRITE, "SoftMax", where);
  for (int64_t i = 0; i < r.rows; ++i) {
    const float m = mco_asc::row_max(from + i * r.pitch, r.columns);
    most.set(i, m);
    sums.set(i, mco_asc::row_exp(to + i * r.pitch, from + i * r.pitch, r.columns, m, 0));
  }
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class S>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<S>& sum, const LocalTensor<S>& max,
                    const LocalTensor<T>& src, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {},
                    mco_asc::Where where = mco_asc::Where::here()) {
  SoftMax<T, isReuseSource, isBasicBlock, isDataFormatNZ, config>(dst, sum, max, src, LocalTensor<uint8_t>(), tiling,
                                                                  shape, where);
}
// Without sums and maxima.
template <class T, bool isReuseSource = false, bool isBasicBlock = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&,
                    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {},
                    mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(SoftMax, half, float);
  const mco_asc::Rows r = mco_asc::rows_of(tiling, shape, src.GetSize());
  const mco_asc::RowByRow seen(r);
  const T* from = mco_asc::array(src, r.rows * r.pitch, 0, "SoftMax", where);
  T* to = mco_asc::array(dst, r.rows * r.pitch, MCO_ASC_WRITE, "SoftMax", where);
  for (int64_t i = 0; i < r.rows; ++i) {
    const float m = mco_asc::row_max(from + i * r.pitch, r.columns);
    mco_asc::row_exp(to + i * r.pitch, from + i * r.pitch, r.columns, m, 0);
  }
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>
inline void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SoftMaxTiling& tiling,
                    const SoftMaxShapeInfo& shape = {}, mco_asc::Where where = mco_asc::Where::here()) {
  SoftMax<T, isReuseSource, isBasicBlock, config>(dst, src, LocalTensor<uint8_t>(), tiling, shape, where);
}

// exp(x - max) / sum of given maxima and sums.
template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class S>
inline void SimpleSoftMax(const LocalTensor<T>& dst, const LocalTensor<S>& sum, const LocalTensor<S>& max,
                          const LocalTensor<T>& src, const LocalTensor<uint8_t>&, const SoftMaxTiling& tiling,
                          const SoftMaxShapeInfo& shape = {}, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(SimpleSoftMax, half, float);
  const mco_asc::Rows r = mco_asc::rows_of(tiling, shape, src.GetSize());
  const mco_asc::RowByRow seen(r);
  const T* from = mco_asc::array(src, r.rows * r.pitch, 0, "SimpleSoftMax", where);
  T* to = mco_asc::array(dst, r.rows * r.pitch, MCO_ASC_WRITE, "SimpleSoftMax", where);
  const auto sums = mco_asc::row_values(sum, r.rows, 0, "SimpleSoftMax", where);
  const auto most = mco_asc::row_values(max, r.rows, 0, "SimpleSoftMax", where);
  for (int64_t i = 0; i < r.rows; ++i) {
    mco_asc::row_exp(to + i * r.pitch, from + i * r.pitch, r.columns, most.get(i), 1 / sums.get(i));
  }
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class S>
inline void SimpleSoftMax(const LocalTensor<T>& dst, const LocalTensor<S>& sum, const LocalTensor<S>& max,
                          const LocalTensor<T>& src, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {},
                          mco_asc::Where where = mco_asc::Where::here()) {
  SimpleSoftMax<T, isReuseSource, isBasicBlock, isDataFormatNZ, config>(dst, sum, max, src, LocalTensor<uint8_t>(),
                                                                        tiling, shape, where);
}

// One step over columns: with isUpdate, of maxima and sums that earlier columns gave. dst is not divided by the sum.
template <class T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,
          bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class S>
inline void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<S>& expSum, const LocalTensor<S>& max,
                           const LocalTensor<T>& src, const LocalTensor<T>& expMax, const LocalTensor<S>& inExpSum,
                           const LocalTensor<S>& inMax, const LocalTensor<uint8_t>&, const SoftMaxTiling& tiling,
                           const SoftMaxShapeInfo& shape = {}, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(SoftmaxFlashV2, half, float);
  const char* name = "SoftmaxFlashV2";
  const mco_asc::Rows r = mco_asc::rows_of(tiling, shape, src.GetSize());
  const mco_asc::RowByRow seen(r);
  const T* from = mco_asc::array(src, r.rows * r.pitch, 0, name, where);
  T* to = mco_asc::array(dst, r.rows * r.pitch, MCO_ASC_WRITE, name, where);
  const auto sums = mco_asc::row_values(expSum, r.rows, MCO_ASC_WRITE, name, where);
  const auto most = mco_asc::row_values(max, r.rows, MCO_ASC_WRITE, name, where);
  for (int64_t i = 0; i < r.rows; ++i) {
    float m = mco_asc::row_max(from + i * r.pitch, r.columns);
    if (!isUpdate) {
      most.set(i, m);
      sums.set(i, mco_asc::row_exp(to + i * r.pitch, from + i * r.pitch, r.columns, m, 1));
      continue;
    }
    const auto old_sums = mco_asc::row_values(inExpSum, r.rows, 0, name, where);
    const auto old_most = mco_asc::row_values(inMax, r.rows, 0, name, where);
    const auto factors = mco_asc::row_values(expMax, r.rows, MCO_ASC_WRITE, name, where);
    const float was = old_most.get(i), old_sum = old_sums.get(i);
    m = was > m ? was : m;
    const float factor = std::exp(was - m);
    factors.set(i, factor);
    most.set(i, m);
    sums.set(i, factor * old_sum + mco_asc::row_exp(to + i * r.pitch, from + i * r.pitch, r.columns, m, 1));
  }
}
template <class T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,
          bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class S>
inline void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<S>& expSum, const LocalTensor<S>& max,
                           const LocalTensor<T>& src, const LocalTensor<T>& expMax, const LocalTensor<S>& inExpSum,
                           const LocalTensor<S>& inMax, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape = {},
                           mco_asc::Where where = mco_asc::Where::here()) {
  SoftmaxFlashV2<T, isUpdate, isReuseSource, isBasicBlock, isDataFormatNZ, config>(
      dst, expSum, max, src, expMax, inExpSum, inMax, LocalTensor<uint8_t>(), tiling, shape, where);
}

}  // namespace AscendC

namespace mco_asc {

struct Moments {
  double mean, variance;  // the biased one
};
// Of one row; without gamma or beta where they are null.
template <class T, class X, class U>
inline Moments layer_norm_row(T* to, const X* row, const U* gamma, const U* beta, int64_t n, double epsilon) {
  const double m = row_sum(row, n) / double(n);
  double v = 0;
  for (int64_t i = 0; i < n; ++i) v += (double(row[i]) - m) * (double(row[i]) - m);
  v /= double(n);
  const double scale = 1 / std::sqrt(v + epsilon);
  for (int64_t i = 0; i < n; ++i) {
    const double normal = (double(row[i]) - m) * scale;
    to[i] = T(normal * (gamma ? double(gamma[i]) : 1) + (beta ? double(beta[i]) : 0));
  }
  return {m, v};
}

}  // namespace mco_asc

namespace AscendC {

// Over the last axis of [B, S, H].
template <class T, bool isReuseSource = false>
inline void LayerNorm(const LocalTensor<T>& out, const LocalTensor<T>& mean, const LocalTensor<T>& variance,
                      const LocalTensor<T>& x, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
                      const LocalTensor<uint8_t>&, const T epsilon, const LayerNormTiling& tiling,
                      mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(LayerNorm, half, float);
  const int64_t rows = int64_t(tiling.bLength) * tiling.sLength, h = tiling.hLength;
  const int64_t columns = tiling.originalHLength ? tiling.originalHLength : h;
  const mco_asc::RowByRow seen({rows, h, columns});
  const T* from = mco_asc::array(x, rows * h, 0, "LayerNorm", where);
  const T* g = mco_asc::array(gamma, columns, 0, "LayerNorm", where);
  const T* b = mco_asc::array(beta, columns, 0, "LayerNorm", where);
  T* to = mco_asc::array(out, rows * h, MCO_ASC_WRITE, "LayerNorm", where);
  T* means = mco_asc::array(mean, rows, MCO_ASC_WRITE, "LayerNorm", where);
  T* variances = mco_asc::array(variance, rows, MCO_ASC_WRITE, "LayerNorm", where);
  for (int64_t r = 0; r < rows; ++r) {
    const auto [m, v] = mco_asc::layer_norm_row(to + r * h, from + r * h, g, b, columns, double(epsilon));
    means[r] = T(m);
    variances[r] = T(v);
  }
}
template <class T, bool isReuseSource = false>
inline void LayerNorm(const LocalTensor<T>& out, const LocalTensor<T>& mean, const LocalTensor<T>& variance,
                      const LocalTensor<T>& x, const LocalTensor<T>& gamma, const LocalTensor<T>& beta, const T epsilon,
                      const LayerNormTiling& tiling, mco_asc::Where where = mco_asc::Where::here()) {
  LayerNorm<T, isReuseSource>(out, mean, variance, x, gamma, beta, LocalTensor<uint8_t>(), epsilon, tiling, where);
}
template <bool isReuseSource, class T, class... Rest>
inline void LayerNorm(const LocalTensor<T>& out, const LocalTensor<T>& mean, const LocalTensor<T>& variance,
                      const LocalTensor<T>& x, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
                      const Rest&... rest) {
  LayerNorm<T, isReuseSource>(out, mean, variance, x, gamma, beta, rest...);
}

// Over the last axis of [A, R], with means and reciprocals of standard deviations in float. Rows lie
// rLengthWithPadding elements apart.
struct LayerNormPara {
  uint32_t aLength = 0, rLength = 0, rLengthWithPadding = 0;
};
struct LayerNormConfig {
  bool isNoBeta = false, isNoGamma = false, isOnlyOutput = false;
};
inline constexpr LayerNormConfig LNCFG_NORM{}, LNCFG_NOBETA{true, false, false}, LNCFG_NOGAMMA{false, true, false};
template <class U, class T, bool isReuseSource = false, const LayerNormConfig& config = LNCFG_NORM>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<float>& mean, const LocalTensor<float>& rstd,
                      const LocalTensor<T>& x, const LocalTensor<U>& gamma, const LocalTensor<U>& beta,
                      const LocalTensor<uint8_t>&, const float epsilon, const LayerNormPara& para,
                      const LayerNormSeparateTiling&, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(LayerNorm, half, float, bfloat16_t);
  const int64_t rows = para.aLength, columns = para.rLength;
  const int64_t pitch = para.rLengthWithPadding ? para.rLengthWithPadding : columns;
  const mco_asc::RowByRow seen({rows, pitch, columns});
  const T* from = mco_asc::array(x, rows * pitch, 0, "LayerNorm", where);
  const U* g = config.isNoGamma ? nullptr : mco_asc::array(gamma, columns, 0, "LayerNorm", where);
  const U* b = config.isNoBeta ? nullptr : mco_asc::array(beta, columns, 0, "LayerNorm", where);
  T* to = mco_asc::array(output, rows * pitch, MCO_ASC_WRITE, "LayerNorm", where);
  float *means = nullptr, *reciprocals = nullptr;
  if (!config.isOnlyOutput) {
    means = mco_asc::array(mean, rows, MCO_ASC_WRITE, "LayerNorm", where);
    reciprocals = mco_asc::array(rstd, rows, MCO_ASC_WRITE, "LayerNorm", where);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const auto [m, v] = mco_asc::layer_norm_row(to + r * pitch, from + r * pitch, g, b, columns, double(epsilon));
    if (means) means[r] = float(m), reciprocals[r] = float(1 / std::sqrt(v + double(epsilon)));
  }
}
template <class U, class T, bool isReuseSource = false, const LayerNormConfig& config = LNCFG_NORM>
inline void LayerNorm(const LocalTensor<T>& output, const LocalTensor<float>& mean, const LocalTensor<float>& rstd,
                      const LocalTensor<T>& x, const LocalTensor<U>& gamma, const LocalTensor<U>& beta,
                      const float epsilon, const LayerNormPara& para, const LayerNormSeparateTiling& tiling,
                      mco_asc::Where where = mco_asc::Where::here()) {
  LayerNorm<U, T, isReuseSource, config>(output, mean, rstd, x, gamma, beta, LocalTensor<uint8_t>(), epsilon, para,
                                         tiling, where);
}

template <class T, bool isBasicBlock = false>
inline void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma,
                    const LocalTensor<uint8_t>&, const T epsilon, const RmsNormTiling& tiling,
                    mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(RmsNorm, half, float);
  const int64_t rows = int64_t(tiling.bLength) * tiling.sLength, h = tiling.hLength;
  const int64_t columns = tiling.originalHLength ? tiling.originalHLength : h;
  const mco_asc::RowByRow seen({rows, h, columns});
  const T* from = mco_asc::array(src, rows * h, 0, "RmsNorm", where);
  const T* g = mco_asc::array(gamma, columns, 0, "RmsNorm", where);
  T* to = mco_asc::array(dst, rows * h, MCO_ASC_WRITE, "RmsNorm", where);
  for (int64_t r = 0; r < rows; ++r) {
    double square = 0;
    for (int64_t i = 0; i < columns; ++i) square += double(from[r * h + i]) * double(from[r * h + i]);
    const double scale = 1 / std::sqrt(square / double(columns) + double(epsilon));
    for (int64_t i = 0; i < columns; ++i) to[r * h + i] = T(double(from[r * h + i]) * scale * double(g[i]));
  }
}
template <class T, bool isBasicBlock = false>
inline void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma, const T epsilon,
                    const RmsNormTiling& tiling, mco_asc::Where where = mco_asc::Where::here()) {
  RmsNorm<T, isBasicBlock>(dst, src, gamma, LocalTensor<uint8_t>(), epsilon, tiling, where);
}

}  // namespace AscendC
