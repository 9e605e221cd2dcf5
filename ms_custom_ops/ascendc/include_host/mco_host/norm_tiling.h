// SPDX-License-Identifier: Apache-2.0
// Tilings and temporary buffers of normalisations, DropOut and LogSoftMax. Included by library_tiling.h.
#ifndef MCO_HOST_NORM_TILING_H_
#define MCO_HOST_NORM_TILING_H_

#include "mco_host/library_tiling.h"

namespace AscendC {

namespace mco_host_detail {
constexpr size_t kSizes = 4;  // of [B, S, H as stored, H], and of [N, C, H, W]
inline void Sizes(const ge::Shape& shape, uint32_t type_size, uint32_t& max, uint32_t& min) {
  max = Bytes(shape, type_size), min = kBlock;
}
inline uint32_t At(const ge::Shape& shape, size_t axis) {
  return axis < shape.GetDimNum() ? static_cast<uint32_t>(shape.GetDim(axis)) : 1;
}
template <typename T>
void GradTiling(const ge::Shape& shape, T& tiling) {
  tiling.set_bLength(At(shape, 0)), tiling.set_sLength(At(shape, 1)), tiling.set_hLength(At(shape, 2));
  tiling.set_originalHLength(At(shape, shape.GetDimNum() < kSizes ? 2 : 3));
}
}  // namespace mco_host_detail

// The shape is [B, S, H as stored, H].
#define MCO_HOST_GRAD(name)                                                                                         \
  inline void Get##name##MaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool, uint32_t& max, \
                                       uint32_t& min) {                                                             \
    const ge::Shape rows(                                                                                           \
        {mco_host_detail::At(shape, 0), mco_host_detail::At(shape, 1), mco_host_detail::At(shape, 2)});             \
    mco_host_detail::Sizes(rows, type_size, max, min);                                                              \
  }                                                                                                                 \
  inline void Get##name##NDTilingInfo(const ge::Shape& shape, const uint32_t, const uint32_t, const bool,           \
                                      optiling::name##Tiling& tiling) {                                             \
    mco_host_detail::GradTiling(shape, tiling);                                                                     \
  }
MCO_HOST_GRAD(LayerNormGrad)
MCO_HOST_GRAD(LayerNormGradBeta)
#undef MCO_HOST_GRAD

// The shape is [N, C, H, W].
inline void GetGroupNormMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool, const uint32_t,
                                      uint32_t& max, uint32_t& min) {
  mco_host_detail::Sizes(shape, type_size, max, min);
}
inline void GetGroupNormNDTilingInfo(const ge::Shape& shape, const uint32_t, const uint32_t type_size, const bool,
                                     const uint32_t groups, optiling::GroupNormTiling& tiling) {
  const uint32_t size = mco_host_detail::At(shape, 2) * mco_host_detail::At(shape, 3);
  const uint32_t padded = type_size ? mco_host_detail::Bytes({size}, type_size) / type_size : 0;
  const uint32_t each = groups ? mco_host_detail::At(shape, 1) / groups : 0;
  tiling.set_n(mco_host_detail::At(shape, 0)), tiling.set_c(mco_host_detail::At(shape, 1)), tiling.set_hw(size);
  tiling.set_g(groups), tiling.set_d(each), tiling.set_hwAlignSize(padded), tiling.set_dhwAlignSize(each * padded);
  tiling.set_oneTmpSize(each * padded);
  tiling.set_factor(each && size ? 1.0f / static_cast<float>(each * size) : 0);
}

// Of [B, S, H], and what of it counts.
inline bool GetBatchNormMaxMinTmpSize(const ge::Shape& shape, const ge::Shape&, const uint32_t type_size, const bool,
                                      uint32_t& max, uint32_t& min, const bool = false) {
  mco_host_detail::Sizes(shape, type_size, max, min);
  return true;
}
inline bool GetBatchNormNDTilingInfo(const ge::Shape& shape, const ge::Shape& original, const uint32_t,
                                     const uint32_t type_size, const bool, optiling::BatchNormTiling& tiling,
                                     const bool = false) {
  const uint32_t each = mco_host_detail::At(shape, 1) * mco_host_detail::At(shape, 2);
  if (!type_size || each * type_size % mco_host_detail::kBlock) return false;
  tiling.set_originalBLength(mco_host_detail::At(original, 0)), tiling.set_meanVarSize(each);
  return true;
}
inline bool GetDeepNormMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool, const bool,
                                     uint32_t& max, uint32_t& min) {
  mco_host_detail::Sizes(shape, type_size, max, min);
  return true;
}
inline bool GetDeepNormTilingInfo(const ge::Shape& shape, const ge::Shape& original, const uint32_t size,
                                  const uint32_t type_size, const bool reuse, const bool,
                                  optiling::DeepNormTiling& tiling) {
  return GetNormNDTilingInfo(shape, original, size, type_size, reuse, tiling);
}
inline void GetNormalizeMaxMinTmpSize(const ge::Shape& shape, const uint32_t, const uint32_t type_size, const bool,
                                      const bool, const bool, uint32_t& max, uint32_t& min) {
  mco_host_detail::Sizes(shape, type_size, max, min);
}
inline void GetWelfordUpdateMaxMinTmpSize(const ge::Shape& shape, const uint32_t, const uint32_t type_size, const bool,
                                          const bool, uint32_t& max, uint32_t& min) {
  mco_host_detail::Sizes(shape, type_size, max, min);
}
inline void GetWelfordFinalizeMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool, uint32_t& max,
                                            uint32_t& min) {
  mco_host_detail::Sizes(shape, type_size, max, min);
}

inline void GetDropOutMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool, uint32_t& max,
                                    uint32_t& min) {
  mco_host_detail::Sizes(shape, type_size, max, min);
}
inline uint32_t GetDropOutMaxTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool) {
  return mco_host_detail::Bytes(shape, type_size);
}
inline uint32_t GetDropOutMinTmpSize(const ge::Shape&, const uint32_t, const bool) { return mco_host_detail::kBlock; }

inline uint32_t GetLogSoftMaxMaxTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool) {
  return mco_host_detail::Bytes(shape, type_size);
}
inline uint32_t GetLogSoftMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool) {
  return mco_host_detail::Columns(shape) * type_size;
}
inline void LogSoftMaxTilingFunc(const ge::Shape& shape, const uint32_t, const uint32_t,
                                 optiling::LogSoftMaxTiling& tiling) {
  const uint32_t rows = mco_host_detail::Rows(shape), columns = mco_host_detail::Columns(shape);
  tiling.set_srcM(rows), tiling.set_srcK(columns), tiling.set_srcSize(rows * columns);
}

}  // namespace AscendC

#endif  // MCO_HOST_NORM_TILING_H_
