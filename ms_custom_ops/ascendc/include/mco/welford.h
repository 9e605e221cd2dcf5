// SPDX-License-Identifier: Apache-2.0
// Normalisation of rows that do not fit: means and variances part by part, and results by given ones.
#pragma once

#include "mco/norms.h"

namespace AscendC {

// One more part of a row, into means and sums of squares that are kept for each place in a part.
template <class T, class U, bool isReuseSource = false, const WelfordUpdateConfig& config = WFUPDATE_DEFAULT_CFG>
inline void WelfordUpdate(const LocalTensor<U>& outputMean, const LocalTensor<U>& outputVariance,
                          const LocalTensor<U>& inputMean, const LocalTensor<U>& inputVariance,
                          const LocalTensor<T>& inputX, const LocalTensor<uint8_t>&, const WelfordUpdateParam& para,
                          mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(WelfordUpdate, half, float);
  static_assert(std::is_same<U, float>::value,
                "AscendC::WelfordUpdate: the type of means and variances is not accepted; accepted: float");
  const char* name = "WelfordUpdate";
  const mco_asc_where here = where.of(name);
  if (para.rnLength != 1) mco_asc_fault(&here, "rnLength is %u; accepted: 1", para.rnLength);
  constexpr uint32_t kBlock = uint32_t(ONE_BLK_SIZE / sizeof(T));
  if (!para.abLength || para.abLength % kBlock) {
    mco_asc_fault(&here, "abLength is %u; accepted: multiples of %u", para.abLength, kBlock);
  }
  if (!para.abComputeLength || para.abComputeLength > para.abLength) {
    mco_asc_fault(&here, "abComputeLength is %u; accepted: 1 to abLength, which is %u", para.abComputeLength,
                  para.abLength);
  }
  const int64_t n = para.abComputeLength, all = config.isInplace ? para.abLength : para.abComputeLength;
  const T* x = mco_asc::array(inputX, n, 0, name, where);
  const float* mean = mco_asc::array(inputMean, all, 0, name, where);
  const float* variance = mco_asc::array(inputVariance, all, 0, name, where);
  float* to_mean = mco_asc::array(outputMean, all, MCO_ASC_WRITE, name, where);
  float* to_variance = mco_asc::array(outputVariance, all, MCO_ASC_WRITE, name, where);
  for (int64_t i = 0; i < n; ++i) {
    const double off = double(x[i]) - double(mean[i]), now = double(mean[i]) + off * double(para.nRec);
    to_variance[i] = float(double(variance[i]) + off * (double(x[i]) - now));
    to_mean[i] = float(now);
  }
  for (int64_t i = n; i < all; ++i) to_mean[i] = mean[i], to_variance[i] = variance[i];
}
template <class T, class U, bool isReuseSource = false, const WelfordUpdateConfig& config = WFUPDATE_DEFAULT_CFG>
inline void WelfordUpdate(const LocalTensor<U>& outputMean, const LocalTensor<U>& outputVariance,
                          const LocalTensor<U>& inputMean, const LocalTensor<U>& inputVariance,
                          const LocalTensor<T>& inputX, const WelfordUpdateParam& para,
                          mco_asc::Where where = mco_asc::Where::here()) {
  WelfordUpdate<T, U, isReuseSource, config>(outputMean, outputVariance, inputMean, inputVariance, inputX,
                                             LocalTensor<uint8_t>(), para, where);
}

}  // namespace AscendC

namespace mco_asc {

// One mean and one variance of those of the parts, of which `count_of` values each are made; the mean of all is the sum
// of means by their counts, times `reciprocal`.
template <class Count, class Weight>
inline void welford_finalize(Where where, const LocalTensor<float>& to_mean, const LocalTensor<float>& to_variance,
                             const LocalTensor<float>& means, const LocalTensor<float>& variances,
                             const AscendC::WelfordFinalizePara& para, Count count_of, Weight weight_of) {
  const char* name = "WelfordFinalize";
  const int64_t n = para.abLength;
  const float* mean = array(means, n, 0, name, where);
  const float* variance = array(variances, n, 0, name, where);
  double all = 0, sum = 0;
  for (int64_t i = 0; i < n; ++i) all += double(mean[i]) * weight_of(i);
  for (int64_t i = 0; i < n; ++i) {
    const double off = double(mean[i]) - all;
    sum += double(variance[i]) + count_of(i) * off * off;
  }
  *array(to_mean, 1, MCO_ASC_WRITE, name, where) = float(all);
  *array(to_variance, 1, MCO_ASC_WRITE, name, where) = float(sum * double(para.rRec));
}

inline void check_welford(Where where, const AscendC::WelfordFinalizePara& p) {
  const mco_asc_where here = where.of("WelfordFinalize");
  constexpr uint32_t kBlock = uint32_t(AscendC::ONE_BLK_SIZE / sizeof(float));
  if (!p.abLength || p.abLength % kBlock) {
    mco_asc_fault(&here, "abLength is %u; accepted: multiples of %u", p.abLength, kBlock);
  }
}

}  // namespace mco_asc

namespace AscendC {

template <bool isReuseSource = false>
inline void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                            const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                            const LocalTensor<uint8_t>&, const WelfordFinalizePara& para,
                            mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::check_welford(where, para);
  const mco_asc_where here = where.of("WelfordFinalize");
  if (uint64_t(para.headCountLength) + para.tailCountLength != para.abLength) {
    mco_asc_fault(&here, "headCountLength is %u and tailCountLength %u; accepted: together abLength, which is %u",
                  para.headCountLength, para.tailCountLength, para.abLength);
  }
  if (!para.tailCount && para.tailCountLength) {
    mco_asc_fault(&here, "tailCountLength is %u and tailCount 0; accepted: 0 with it", para.tailCountLength);
  }
  if (!para.tailCountLength) {
    const double parts = para.rnLength, each = double(para.abRec);
    return mco_asc::welford_finalize(
        where, outputMean, outputVariance, inputMean, inputVariance, para, [parts](int64_t) { return parts; },
        [each](int64_t) { return each; });
  }
  const auto count = [&para](int64_t i) { return double(i < para.headCountLength ? para.headCount : para.tailCount); };
  mco_asc::welford_finalize(where, outputMean, outputVariance, inputMean, inputVariance, para, count,
                            [&para, count](int64_t i) { return count(i) * double(para.rRec); });
}
template <bool isReuseSource = false>
inline void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                            const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                            const WelfordFinalizePara& para, mco_asc::Where where = mco_asc::Where::here()) {
  WelfordFinalize<isReuseSource>(outputMean, outputVariance, inputMean, inputVariance, LocalTensor<uint8_t>(), para,
                                 where);
}
template <bool isReuseSource = false>
inline void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                            const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                            const LocalTensor<int32_t>& counts, const LocalTensor<uint8_t>&,
                            const WelfordFinalizePara& para, mco_asc::Where where = mco_asc::Where::here()) {
  mco_asc::check_welford(where, para);
  const int32_t* count = mco_asc::array(counts, para.abLength, 0, "WelfordFinalize", where);
  mco_asc::welford_finalize(
      where, outputMean, outputVariance, inputMean, inputVariance, para,
      [count](int64_t i) { return double(count[i]); },
      [count, &para](int64_t i) { return double(count[i]) * double(para.rRec); });
}
template <bool isReuseSource = false>
inline void WelfordFinalize(const LocalTensor<float>& outputMean, const LocalTensor<float>& outputVariance,
                            const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                            const LocalTensor<int32_t>& counts, const WelfordFinalizePara& para,
                            mco_asc::Where where = mco_asc::Where::here()) {
  WelfordFinalize<isReuseSource>(outputMean, outputVariance, inputMean, inputVariance, counts, LocalTensor<uint8_t>(),
                                 para, where);
}

// Over the last axis of [A, R] by means and variances that are known; rows lie rLengthWithPadding elements apart.
template <class U, class T, bool isReuseSource = false, const NormalizeConfig& config = NLCFG_NORM>
inline void Normalize(const LocalTensor<T>& output, const LocalTensor<float>& outputRstd,
                      const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                      const LocalTensor<T>& inputX, const LocalTensor<U>& gamma, const LocalTensor<U>& beta,
                      const LocalTensor<uint8_t>&, const float epsilon, const NormalizePara& para,
                      mco_asc::Where where = mco_asc::Where::here()) {
  MCO_ASC_NEED(Normalize, half, float);
  static_assert(mco_asc::one_of<U, half, float> && sizeof(U) >= sizeof(T),
                "AscendC::Normalize: the type of gamma and beta is not accepted; accepted: float, or half with half");
  static_assert(
      config.reducePattern == ReducePattern::AR && !config.isOnlyOutput,
      "AscendC::Normalize: the configuration is not accepted; accepted: ReducePattern::AR, isOnlyOutput false");
  const char* name = "Normalize";
  if (config.aLength != -1 && uint32_t(config.aLength) != para.aLength) {
    const mco_asc_where here = where.of(name);
    mco_asc_fault(&here, "aLength is %u; accepted: that of the configuration, %d", para.aLength, config.aLength);
  }
  const int64_t rows = para.aLength, n = para.rLength;
  const int64_t pitch = para.rLengthWithPadding ? para.rLengthWithPadding : n;
  if (!rows || !n) return;
  const mco_asc::RowByRow seen({rows, pitch, n});
  const T* x = mco_asc::array(inputX, rows * pitch, 0, name, where);
  const float* mean = mco_asc::array(inputMean, rows, 0, name, where);
  const float* variance = mco_asc::array(inputVariance, rows, 0, name, where);
  const U* g = config.isNoGamma ? nullptr : mco_asc::array(gamma, n, 0, name, where);
  const U* b = config.isNoBeta ? nullptr : mco_asc::array(beta, n, 0, name, where);
  T* to = mco_asc::array(output, rows * pitch, MCO_ASC_WRITE, name, where);
  float* reciprocals = mco_asc::array(outputRstd, rows, MCO_ASC_WRITE, name, where);
  for (int64_t r = 0; r < rows; ++r) {
    const double scale = 1 / std::sqrt(double(variance[r]) + double(epsilon));
    for (int64_t i = 0; i < n; ++i) {
      const double normal = (double(x[r * pitch + i]) - double(mean[r])) * scale;
      to[r * pitch + i] = T(normal * (g ? double(g[i]) : 1) + (b ? double(b[i]) : 0));
    }
    reciprocals[r] = float(scale);
  }
}
template <class U, class T, bool isReuseSource = false, const NormalizeConfig& config = NLCFG_NORM>
inline void Normalize(const LocalTensor<T>& output, const LocalTensor<float>& outputRstd,
                      const LocalTensor<float>& inputMean, const LocalTensor<float>& inputVariance,
                      const LocalTensor<T>& inputX, const LocalTensor<U>& gamma, const LocalTensor<U>& beta,
                      const float epsilon, const NormalizePara& para, mco_asc::Where where = mco_asc::Where::here()) {
  Normalize<U, T, isReuseSource, config>(output, outputRstd, inputMean, inputVariance, inputX, gamma, beta,
                                         LocalTensor<uint8_t>(), epsilon, para, where);
}

}  // namespace AscendC
