// SPDX-License-Identifier: Apache-2.0
// Normalisations beside LayerNorm and RmsNorm, and the gradient of LayerNorm: computed in double, rounded once.
#pragma once

#include "mco/norm_params.h"
#include "mco/normal.h"
#include "mco/pad.h"

namespace mco_asc {

#define MCO_ASC_REUSE(NAME, FLAG)                       \
  static_assert(!FLAG || std::is_same<T, float>::value, \
                "AscendC::" #NAME ": " #FLAG " is not accepted for this type; accepted: float")

// Rows of [B, S, H], of which the columns before padding count.
template <class Tiling>
inline Rows rows_of_tiling(const Tiling& t) {
  return {int64_t(t.bLength) * t.sLength, t.hLength, t.originalHLength ? t.originalHLength : t.hLength};
}

struct Sums {
  double variance, mean;
};
// What a row's gradient has for its variance and for its mean.
template <class T>
inline Sums gradient_sums(const T* dy, const T* x, const T* gamma, int64_t n, double mean, double reciprocal) {
  double by_variance = 0, by_mean = 0, off = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double g = double(dy[i]) * double(gamma[i]), from_mean = double(x[i]) - mean;
    by_variance -= 0.5 * g * from_mean;
    by_mean -= g;
    off -= 2 * from_mean;
  }
  by_variance *= reciprocal * reciprocal * reciprocal;
  return {by_variance, by_mean * reciprocal + by_variance / double(n) * off};
}

}  // namespace mco_asc

namespace AscendC {

// The gradient of x over the last axis of [B, S, H], and (x - mean) / deviation for LayerNormGradBeta. Results may lie
// where operands do.
template <class T, bool isReuseSource = false>
inline void LayerNormGrad(const LocalTensor<T>& outputPdX, const LocalTensor<T>& resForGamma,
                          const LocalTensor<T>& inputDy, const LocalTensor<T>& inputX,
                          const LocalTensor<T>& inputVariance, const LocalTensor<T>& inputMean,
                          const LocalTensor<T>& inputGamma, const LocalTensor<uint8_t>&, const T epsilon,
                          const LayerNormGradTiling& tiling, const LayerNormGradShapeInfo& shape = {},
                          mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(LayerNormGrad, half, float);
  MCO_ASC_REUSE(LayerNormGrad, isReuseSource);
  const char* name = "LayerNormGrad";
  if (shape.dataFormat != DataFormat::ND) {
    const mco_asc_where here = where.of(name);
    mco_asc_fault(&here, "dataFormat is %d; accepted: DataFormat::ND", int(shape.dataFormat));
  }
  const mco_asc::Rows r = mco_asc::rows_of_tiling(tiling);
  if (!r.rows || !r.columns) return;
  const mco_asc::RowByRow seen(r);
  const T* dy = mco_asc::array(inputDy, r.rows * r.pitch, 0, name, where);
  const T* x = mco_asc::array(inputX, r.rows * r.pitch, 0, name, where);
  const T* variance = mco_asc::array(inputVariance, r.rows, 0, name, where);
  const T* mean = mco_asc::array(inputMean, r.rows, 0, name, where);
  const T* gamma = mco_asc::array(inputGamma, r.columns, 0, name, where);
  T* to = mco_asc::array(outputPdX, r.rows * r.pitch, MCO_ASC_WRITE, name, where);
  T* normal = mco_asc::array(resForGamma, r.rows * r.pitch, MCO_ASC_WRITE, name, where);
  const double n = double(r.columns);
  for (int64_t row = 0; row < r.rows; ++row) {
    const int64_t at = row * r.pitch;
    const double m = double(mean[row]), scale = 1 / std::sqrt(double(variance[row]) + double(epsilon));
    const mco_asc::Sums sums = mco_asc::gradient_sums(dy + at, x + at, gamma, r.columns, m, scale);
    for (int64_t i = 0; i < r.columns; ++i) {
      const double from_mean = double(x[at + i]) - m, g = double(dy[at + i]) * double(gamma[i]);
      to[at + i] = T(g * scale + sums.variance * 2 / n * from_mean + sums.mean / n);
      normal[at + i] = T(from_mean * scale);
    }
  }
}
template <class T, bool isReuseSource = false>
inline void LayerNormGrad(const LocalTensor<T>& outputPdX, const LocalTensor<T>& resForGamma,
                          const LocalTensor<T>& inputDy, const LocalTensor<T>& inputX,
                          const LocalTensor<T>& inputVariance, const LocalTensor<T>& inputMean,
                          const LocalTensor<T>& inputGamma, const T epsilon, const LayerNormGradTiling& tiling,
                          const LayerNormGradShapeInfo& shape = {}, mco_asc::Where where = mco_asc::Where::here()) {
  LayerNormGrad<T, isReuseSource>(outputPdX, resForGamma, inputDy, inputX, inputVariance, inputMean, inputGamma,
                                  LocalTensor<uint8_t>(), epsilon, tiling, shape, where);
}

// The gradients of gamma and beta, over all rows.
template <class T, bool isReuseSource = false>
inline void LayerNormGradBeta(const LocalTensor<T>& outputPdGamma, const LocalTensor<T>& outputPdBeta,
                              const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,
                              const LocalTensor<uint8_t>&, const LayerNormGradBetaTiling& tiling,
                              mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(LayerNormGradBeta, half, float);
  MCO_ASC_REUSE(LayerNormGradBeta, isReuseSource);
  const char* name = "LayerNormGradBeta";
  const mco_asc::Rows r = mco_asc::rows_of_tiling(tiling);
  if (!r.rows || !r.columns) return;
  const mco_asc::RowByRow seen(r);
  const T* normal = mco_asc::array(resForGamma, r.rows * r.pitch, 0, name, where);
  const T* dy = mco_asc::array(inputDy, r.rows * r.pitch, 0, name, where);
  std::vector<double> gamma(size_t(r.columns)), beta(size_t(r.columns));
  for (int64_t row = 0; row < r.rows; ++row) {
    for (int64_t i = 0; i < r.columns; ++i) {
      gamma[size_t(i)] += double(normal[row * r.pitch + i]) * double(dy[row * r.pitch + i]);
      beta[size_t(i)] += double(dy[row * r.pitch + i]);
    }
  }
  T* to_gamma = mco_asc::array(outputPdGamma, r.columns, MCO_ASC_WRITE, name, where);
  T* to_beta = mco_asc::array(outputPdBeta, r.columns, MCO_ASC_WRITE, name, where);
  for (int64_t i = 0; i < r.columns; ++i) to_gamma[i] = T(gamma[size_t(i)]), to_beta[i] = T(beta[size_t(i)]);
}
template <class T, bool isReuseSource = false>
inline void LayerNormGradBeta(const LocalTensor<T>& outputPdGamma, const LocalTensor<T>& outputPdBeta,
                              const LocalTensor<T>& resForGamma, const LocalTensor<T>& inputDy,
                              const LayerNormGradBetaTiling& tiling, mco_asc::Where where = mco_asc::Where::here()) {
  LayerNormGradBeta<T, isReuseSource>(outputPdGamma, outputPdBeta, resForGamma, inputDy, LocalTensor<uint8_t>(), tiling,
                                      where);
}

// Over each group of channels of [N, C, H, W]. H * W numbers of a channel lie at the begin of whole blocks.
template <class T, bool isReuseSource = false>
inline void GroupNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean,
                      const LocalTensor<T>& outputVariance, const LocalTensor<T>& inputX, const LocalTensor<T>& gamma,
                      const LocalTensor<T>& beta, const LocalTensor<uint8_t>&, const T epsilon,
                      const GroupNormTiling& tiling, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(GroupNorm, half, float);
  MCO_ASC_REUSE(GroupNorm, isReuseSource);
  const char* name = "GroupNorm";
  const int64_t groups = tiling.g, channels = tiling.c, size = tiling.hw, each = groups ? channels / groups : 0;
  if (!groups || channels % groups) {
    const mco_asc_where here = where.of(name);
    mco_asc_fault(&here, "%lld channels in %lld groups; accepted: groups of as many channels", (long long)channels,
                  (long long)groups);
  }
  const int64_t pitch = mco_asc::whole_blocks<T>(size), rows = int64_t(tiling.n) * channels;
  if (!rows || !size) return;
  const mco_asc::RowByRow seen({rows, pitch, size});
  const T* from = mco_asc::array(inputX, rows * pitch, 0, name, where);
  const T* g = mco_asc::array(gamma, channels, 0, name, where);
  const T* b = mco_asc::array(beta, channels, 0, name, where);
  T* to = mco_asc::array(output, rows * pitch, MCO_ASC_WRITE, name, where);
  T* means = mco_asc::array(outputMean, tiling.n * groups, MCO_ASC_WRITE, name, where);
  T* variances = mco_asc::array(outputVariance, tiling.n * groups, MCO_ASC_WRITE, name, where);
  const double count = double(each * size);
  for (int64_t group = 0; group < tiling.n * groups; ++group) {
    const T* x = from + group * each * pitch;
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < each; ++c) mean += mco_asc::row_sum(x + c * pitch, size);
    mean /= count;
    for (int64_t c = 0; c < each; ++c) {
      for (int64_t i = 0; i < size; ++i) {
        const double off = double(x[c * pitch + i]) - mean;
        variance += off * off;
      }
    }
    variance /= count;
    const double scale = 1 / std::sqrt(variance + double(epsilon));
    for (int64_t c = 0; c < each; ++c) {
      const int64_t at = (group * each + c) * pitch, channel = group % groups * each + c;
      for (int64_t i = 0; i < size; ++i) {
        to[at + i] = T((double(from[at + i]) - mean) * scale * double(g[channel]) + double(b[channel]));
      }
    }
    means[group] = T(mean), variances[group] = T(variance);
  }
}
template <class T, bool isReuseSource = false>
inline void GroupNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean,
                      const LocalTensor<T>& outputVariance, const LocalTensor<T>& inputX, const LocalTensor<T>& gamma,
                      const LocalTensor<T>& beta, const T epsilon, const GroupNormTiling& tiling,
                      mco_asc::Where where = mco_asc::Where::here()) {
  GroupNorm<T, isReuseSource>(output, outputMean, outputVariance, inputX, gamma, beta, LocalTensor<uint8_t>(), epsilon,
                              tiling, where);
}
// For kernels that know the shape only while they run.
inline void GetGroupNormNDTillingInfo(const ShapeInfo& shape, const uint32_t, const uint32_t type_size, const bool,
                                      const uint32_t groups, GroupNormTiling& tiling) {
  const uint32_t size = shape.shape[2] * shape.shape[3], block = type_size ? ONE_BLK_SIZE / type_size : 1;
  tiling = {};
  tiling.n = shape.shape[0], tiling.c = shape.shape[1], tiling.hw = size, tiling.g = groups;
  tiling.d = groups ? tiling.c / groups : 0, tiling.hwAlignSize = (size + block - 1) / block * block;
  tiling.dhwAlignSize = tiling.d * tiling.hwAlignSize;
}

// LayerNorm(alpha * x + gx). What the manual calls rstd it describes as the variance, which this is.
template <class T, bool isReuseSrc = false, bool isBasicBlock = false>
inline void DeepNorm(const LocalTensor<T>& dst, const LocalTensor<T>& mean, const LocalTensor<T>& rstd,
                     const LocalTensor<T>& src, const LocalTensor<T>& gx, const LocalTensor<T>& beta,
                     const LocalTensor<T>& gamma, const LocalTensor<uint8_t>&, const T alpha, const T epsilon,
                     const DeepNormTiling& tiling, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(DeepNorm, half, float);
  MCO_ASC_REUSE(DeepNorm, isReuseSrc);
  constexpr uint32_t kLongest = 2040;
  const char* name = "DeepNorm";
  if (tiling.hLength > kLongest) {
    const mco_asc_where here = where.of(name);
    mco_asc_fault(&here, "rows of %u; accepted: up to %u", tiling.hLength, kLongest);
  }
  const mco_asc::Rows r = mco_asc::rows_of_tiling(tiling);
  if (!r.rows || !r.columns) return;
  const mco_asc::RowByRow seen(r);
  const T* x = mco_asc::array(src, r.rows * r.pitch, 0, name, where);
  const T* more = mco_asc::array(gx, r.rows * r.pitch, 0, name, where);
  const T* b = mco_asc::array(beta, r.columns, 0, name, where);
  const T* g = mco_asc::array(gamma, r.columns, 0, name, where);
  T* to = mco_asc::array(dst, r.rows * r.pitch, MCO_ASC_WRITE, name, where);
  T* means = mco_asc::array(mean, r.rows, MCO_ASC_WRITE, name, where);
  T* variances = mco_asc::array(rstd, r.rows, MCO_ASC_WRITE, name, where);
  std::vector<double> sum(static_cast<size_t>(r.columns));
  for (int64_t row = 0; row < r.rows; ++row) {
    const int64_t at = row * r.pitch;
    for (int64_t i = 0; i < r.columns; ++i) sum[size_t(i)] = double(alpha) * double(x[at + i]) + double(more[at + i]);
    const auto [m, v] = mco_asc::layer_norm_row(to + at, sum.data(), g, b, r.columns, double(epsilon));
    means[row] = T(m), variances[row] = T(v);
  }
}
template <class T, bool isReuseSrc = false, bool isBasicBlock = false>
inline void DeepNorm(const LocalTensor<T>& dst, const LocalTensor<T>& mean, const LocalTensor<T>& rstd,
                     const LocalTensor<T>& src, const LocalTensor<T>& gx, const LocalTensor<T>& beta,
                     const LocalTensor<T>& gamma, const T alpha, const T epsilon, const DeepNormTiling& tiling,
                     mco_asc::Where where = mco_asc::Where::here()) {
  DeepNorm<T, isReuseSrc, isBasicBlock>(dst, mean, rstd, src, gx, beta, gamma, LocalTensor<uint8_t>(), alpha, epsilon,
                                        tiling, where);
}

// Over the first axis of [B, S, H]; gamma and beta have a number for each of B.
template <class T, bool isReuseSource = false, bool isBasicBlock = false>
inline void BatchNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean,
                      const LocalTensor<T>& outputVariance, const LocalTensor<T>& inputX, const LocalTensor<T>& gamma,
                      const LocalTensor<T>& beta, const LocalTensor<uint8_t>&, const T epsilon,
                      const BatchNormTiling& tiling, mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(BatchNorm, half, float);
  static_assert(!isReuseSource, "AscendC::BatchNorm: isReuseSource is not accepted; accepted: false");
  const char* name = "BatchNorm";
  const int64_t rows = tiling.originalBLength, size = tiling.meanVarSize;
  if (!rows || !size) return;
  const mco_asc::RowByRow seen({rows, size, size});
  const T* from = mco_asc::array(inputX, rows * size, 0, name, where);
  const T* g = mco_asc::array(gamma, rows, 0, name, where);
  const T* b = mco_asc::array(beta, rows, 0, name, where);
  T* to = mco_asc::array(output, rows * size, MCO_ASC_WRITE, name, where);
  T* means = mco_asc::array(outputMean, size, MCO_ASC_WRITE, name, where);
  T* variances = mco_asc::array(outputVariance, size, MCO_ASC_WRITE, name, where);
  for (int64_t i = 0; i < size; ++i) {
    double mean = 0, variance = 0;
    for (int64_t row = 0; row < rows; ++row) mean += double(from[row * size + i]);
    mean /= double(rows);
    for (int64_t row = 0; row < rows; ++row) {
      const double off = double(from[row * size + i]) - mean;
      variance += off * off;
    }
    variance /= double(rows);
    const double scale = 1 / std::sqrt(variance + double(epsilon));
    for (int64_t row = 0; row < rows; ++row) {
      to[row * size + i] = T((double(from[row * size + i]) - mean) * scale * double(g[row]) + double(b[row]));
    }
    means[i] = T(mean), variances[i] = T(variance);
  }
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false>
inline void BatchNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean,
                      const LocalTensor<T>& outputVariance, const LocalTensor<T>& inputX, const LocalTensor<T>& gamma,
                      const LocalTensor<T>& beta, const T epsilon, const BatchNormTiling& tiling,
                      mco_asc::Where where = mco_asc::Where::here()) {
  BatchNorm<T, isReuseSource, isBasicBlock>(output, outputMean, outputVariance, inputX, gamma, beta,
                                            LocalTensor<uint8_t>(), epsilon, tiling, where);
}

}  // namespace AscendC
