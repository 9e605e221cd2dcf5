// SPDX-License-Identifier: Apache-2.0
// Tilings and temporary buffers of library functions. The functions of this project need no temporary buffer, so that
// sizes are those of the shapes they are asked for: enough for a caller that divides by them.
#ifndef MCO_HOST_LIBRARY_TILING_H_
#define MCO_HOST_LIBRARY_TILING_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "mco_host/ge_shape.h"
#include "mco_host/platform_infos.h"
#include "mco_host/tiling_data.h"

namespace optiling {

#define MCO_TILING_BEGIN(name) BEGIN_TILING_DATA_DEF(name)
#define MCO_TILING_FIELD(name) TILING_DATA_FIELD_DEF(uint32_t, name)
#define MCO_TILING_FLOAT(name) TILING_DATA_FIELD_DEF(float, name)
#define MCO_TILING_END(name) END_TILING_DATA_DEF
#include "mco_host/library_tilings.inc"
#undef MCO_TILING_BEGIN
#undef MCO_TILING_FIELD
#undef MCO_TILING_FLOAT
#undef MCO_TILING_END

}  // namespace optiling

namespace AscendC {

#ifndef MCO_TOPK_MODE  // a source may include the headers of host and kernel
#define MCO_TOPK_MODE
enum class TopKMode { TOPK_NORMAL, TOPK_NSMALL };
#endif

namespace mco_host_detail {
constexpr uint32_t kBlock = 32;
inline uint32_t Bytes(const ge::Shape& shape, uint32_t type_size) {
  const uint64_t bytes = static_cast<uint64_t>(shape.GetShapeSize()) * type_size;
  return static_cast<uint32_t>((bytes + kBlock - 1) / kBlock * kBlock);
}
inline uint32_t Columns(const ge::Shape& shape) {
  return shape.GetDimNum() ? static_cast<uint32_t>(shape.GetDim(shape.GetDimNum() - 1)) : 1;
}
inline uint32_t Rows(const ge::Shape& shape) {
  return Columns(shape) ? static_cast<uint32_t>(shape.GetShapeSize() / Columns(shape)) : 0;
}
}  // namespace mco_host_detail

// clang-format off
#define MCO_HOST_TMP_SIZE(name)                                                                               \
  inline void Get##name##MaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool,          \
                                       uint32_t& max, uint32_t& min) {                                        \
    max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::kBlock;                            \
  }                                                                                                           \
  MCO_HOST_TMP_FACTOR(name)
#define MCO_HOST_TMP_FACTOR(name)                                                                             \
  inline void Get##name##TmpBufferFactorSize(const uint32_t, uint32_t& factor, uint32_t& extra) {             \
    factor = 1, extra = 0;                                                                                    \
  }
MCO_HOST_TMP_SIZE(Sin) MCO_HOST_TMP_SIZE(Cos) MCO_HOST_TMP_SIZE(Tan) MCO_HOST_TMP_SIZE(Asin)
MCO_HOST_TMP_SIZE(Acos) MCO_HOST_TMP_SIZE(Atan) MCO_HOST_TMP_SIZE(Sinh) MCO_HOST_TMP_SIZE(Cosh)
MCO_HOST_TMP_SIZE(Tanh) MCO_HOST_TMP_SIZE(Asinh) MCO_HOST_TMP_SIZE(Acosh) MCO_HOST_TMP_SIZE(Atanh)
MCO_HOST_TMP_SIZE(Exp) MCO_HOST_TMP_SIZE(Log) MCO_HOST_TMP_SIZE(Sign) MCO_HOST_TMP_SIZE(Floor)
MCO_HOST_TMP_SIZE(Ceil) MCO_HOST_TMP_SIZE(Round) MCO_HOST_TMP_SIZE(Trunc) MCO_HOST_TMP_SIZE(Frac)
MCO_HOST_TMP_SIZE(Fmod) MCO_HOST_TMP_SIZE(Erf) MCO_HOST_TMP_SIZE(Erfc) MCO_HOST_TMP_SIZE(Lgamma)
MCO_HOST_TMP_SIZE(Digamma) MCO_HOST_TMP_SIZE(Sigmoid) MCO_HOST_TMP_SIZE(Silu) MCO_HOST_TMP_SIZE(Swish)
MCO_HOST_TMP_FACTOR(SwiGLU) MCO_HOST_TMP_SIZE(Gelu) MCO_HOST_TMP_SIZE(GeGLU) MCO_HOST_TMP_SIZE(ReGlu)
MCO_HOST_TMP_SIZE(Power) MCO_HOST_TMP_SIZE(Xor) MCO_HOST_TMP_SIZE(Clamp)
MCO_HOST_TMP_SIZE(Log2) MCO_HOST_TMP_SIZE(Log10) MCO_HOST_TMP_SIZE(Rint) MCO_HOST_TMP_SIZE(Hypot)
MCO_HOST_TMP_SIZE(Axpy) MCO_HOST_TMP_FACTOR(Mean) MCO_HOST_TMP_FACTOR(AscendQuant) MCO_HOST_TMP_FACTOR(AscendDequant)
inline void GetSwiGLUMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, uint32_t& max,
                                   uint32_t& min, const bool) {
  max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::kBlock;
}
// Their sizes go by shorter names too.
inline void GetSiluTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool reuse, uint32_t& max,
                           uint32_t& min) {
  GetSiluMaxMinTmpSize(shape, type_size, reuse, max, min);
}
inline void GetSwishTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool reuse, uint32_t& max,
                            uint32_t& min) {
  GetSwishMaxMinTmpSize(shape, type_size, reuse, max, min);
}
inline void GetArithProgressionMaxMinTmpSize(uint32_t& max, uint32_t& min) { max = min = 0; }
inline void GetArangeMaxMinTmpSize(uint32_t& max, uint32_t& min) { max = min = 0; }
// clang-format on
#undef MCO_HOST_TMP_SIZE
#undef MCO_HOST_TMP_FACTOR

inline void GetBroadCastMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const ge::Shape&,
                                      const ge::Shape& shape, uint32_t type_size, const bool, uint32_t& max,
                                      uint32_t& min) {
  max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::kBlock;
}
inline void GetSumMaxMinTmpSize(const uint32_t count, const uint32_t type_size, const bool, uint32_t& max,
                                uint32_t& min) {
  max = min = mco_host_detail::Bytes({count}, type_size);
}
inline void GetMeanMaxMinTmpSize(const uint32_t count, const uint32_t, const uint32_t sum_type_size, const bool,
                                 uint32_t& max, uint32_t& min) {
  max = min = mco_host_detail::Bytes({count}, sum_type_size);
}

inline uint32_t GetSoftMaxMaxTmpSize(const ge::Shape& shape, uint32_t type_size, bool) {
  return mco_host_detail::Bytes(shape, type_size);
}
inline uint32_t GetSoftMaxMinTmpSize(const ge::Shape& shape, uint32_t type_size, bool) {
  return mco_host_detail::Columns(shape) * type_size;
}
inline void SoftMaxTilingFunc(const ge::Shape& shape, uint32_t type_size, uint32_t, optiling::SoftMaxTiling& tiling) {
  const uint32_t rows = mco_host_detail::Rows(shape), columns = mco_host_detail::Columns(shape);
  const uint32_t block = type_size ? mco_host_detail::kBlock / type_size : 0;
  tiling.set_srcM(rows), tiling.set_srcK(columns), tiling.set_srcSize(rows * columns);
  tiling.set_outMaxM(rows), tiling.set_outMaxK(block), tiling.set_outMaxSize(rows * block);
  tiling.set_splitM(rows), tiling.set_splitK(columns), tiling.set_splitSize(rows * columns);
  tiling.set_reduceM(rows), tiling.set_reduceK(block), tiling.set_reduceSize(rows * block);
  tiling.set_rangeM(1);
}
// Rows of whole repeats, shorter than 2048, eight by eight.
inline bool IsBasicBlockInSoftMax(optiling::SoftMaxTiling& tiling, const std::string = "ND") {
  return tiling.get_srcK() % 64 == 0 && tiling.get_srcK() < 2048 && tiling.get_srcM() % 8 == 0;
}
inline uint32_t GetSoftMaxFlashV2MaxTmpSize(const ge::Shape& shape, uint32_t type_size, uint32_t, bool, bool = false) {
  return mco_host_detail::Bytes(shape, type_size);
}
inline uint32_t GetSoftMaxFlashV2MinTmpSize(const ge::Shape& shape, uint32_t type_size, uint32_t, bool, bool = false) {
  return mco_host_detail::Columns(shape) * type_size;
}
inline void SoftMaxFlashV2TilingFunc(const ge::Shape& shape, uint32_t type_size, uint32_t, uint32_t size, bool,
                                     optiling::SoftMaxTiling& tiling) {
  SoftMaxTilingFunc(shape, type_size, size, tiling);
}
inline void SoftMaxFlashV2TilingFunc(const ge::Shape& shape, uint32_t type_size, uint32_t, uint32_t size,
                                     optiling::SoftMaxTiling& tiling, bool = false, bool = false) {
  SoftMaxTilingFunc(shape, type_size, size, tiling);
}

inline bool GetTopKMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, int32_t inner, int32_t outter, bool, bool,
                                 TopKMode, bool, uint32_t type_size, uint32_t& max, uint32_t& min) {
  max = mco_host_detail::Bytes({outter, inner}, type_size), min = mco_host_detail::Bytes({1, inner}, type_size);
  return inner > 0 && outter > 0;
}
inline bool TopKTilingFunc(const platform_ascendc::PlatformAscendC&, int32_t inner, int32_t outter, int32_t k,
                           uint32_t type_size, bool, TopKMode, bool, optiling::TopkTiling& tiling) {
  if (inner <= 0 || outter <= 0 || k <= 0 || k > inner) return false;
  tiling.set_tmpLocalSize(mco_host_detail::Bytes({outter, inner}, type_size));
  tiling.set_allDataSize(static_cast<uint32_t>(inner) * static_cast<uint32_t>(outter));
  tiling.set_innerDataSize(static_cast<uint32_t>(inner));
  tiling.set_outter(static_cast<uint32_t>(outter));
  tiling.set_k(static_cast<uint32_t>(k));
  return true;
}
inline uint32_t GetConcatTmpSize(const platform_ascendc::PlatformAscendC&, uint32_t count, uint32_t type_size) {
  return mco_host_detail::Bytes({count}, 4 * type_size);
}

inline uint32_t GetSortTmpSize(const platform_ascendc::PlatformAscendC&, uint32_t count, uint32_t type_size) {
  return mco_host_detail::Bytes({count}, 4 * type_size);
}

inline bool GetLayerNormMaxMinTmpSize(const ge::Shape& shape, uint32_t type_size, bool, uint32_t& max, uint32_t& min) {
  const bool stored = shape.GetDimNum() == 4;  // [B, S, H as stored, H]
  const ge::Shape rows = stored ? ge::Shape({shape.GetDim(0), shape.GetDim(1), shape.GetDim(2)}) : shape;
  max = mco_host_detail::Bytes(rows, type_size), min = mco_host_detail::Columns(shape) * type_size;
  return true;
}
template <typename T>
bool GetNormNDTilingInfo(const ge::Shape& shape, const ge::Shape& original, uint32_t, uint32_t, bool, T& tiling) {
  if (shape.GetDimNum() < 3) return false;
  tiling.set_bLength(static_cast<uint32_t>(shape.GetDim(0))),
      tiling.set_sLength(static_cast<uint32_t>(shape.GetDim(1)));
  tiling.set_hLength(static_cast<uint32_t>(shape.GetDim(2)));
  tiling.set_originalHLength(static_cast<uint32_t>(original.GetDim(original.GetDimNum() - 1)));
  return true;
}
inline void GetLayerNormNDTilingInfo(const ge::Shape& shape, uint32_t size, uint32_t type_size, bool reuse,
                                     optiling::LayerNormTiling& tiling) {
  GetNormNDTilingInfo(shape, shape, size, type_size, reuse, tiling);
}
// The manual's older name.
inline void GetLayerNormNDTillingInfo(const ge::Shape& shape, uint32_t size, uint32_t type_size, bool reuse,
                                      optiling::LayerNormTiling& tiling) {
  GetLayerNormNDTilingInfo(shape, size, type_size, reuse, tiling);
}
// Of [A, R], with means and reciprocals of standard deviations.
inline void GetLayerNormMaxMinTmpSize(const ge::Shape& shape, uint32_t type_size, bool, bool, bool, uint32_t& max,
                                      uint32_t& min) {
  max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::Columns(shape) * type_size;
}
inline void GetLayerNormNDTilingInfo(const ge::Shape& shape, uint32_t, uint32_t, bool, bool,
                                     optiling::LayerNormSeparateTiling& tiling) {
  tiling.set_aLength(mco_host_detail::Rows(shape)), tiling.set_rLength(mco_host_detail::Columns(shape));
}
inline bool GetRmsNormMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, uint32_t& max, uint32_t& min,
                                    const bool = false) {
  max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::Columns(shape) * type_size;
  return true;
}
inline bool GetRmsNormTilingInfo(const ge::Shape& shape, const ge::Shape& original, uint32_t size, uint32_t type_size,
                                 optiling::RmsNormTiling& tiling, bool reuse = false) {
  return GetNormNDTilingInfo(shape, original, size, type_size, reuse, tiling);
}

inline void GetUnPadMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const ge::Shape& shape, uint32_t type_size,
                                  uint32_t& max, uint32_t& min) {
  max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::Columns(shape) * type_size;
}
inline void UnPadTilingFunc(const ge::Shape shape, const uint32_t, const uint32_t, optiling::UnPadTiling& tiling) {
  tiling.set_srcHeight(mco_host_detail::Rows(shape)), tiling.set_srcWidth(mco_host_detail::Columns(shape));
}
inline void GetPadMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, uint32_t& max, uint32_t& min) {
  max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::Columns(shape) * type_size;
}
inline void PadTilingFunc(const ge::Shape shape, const ge::Shape original, const uint32_t, const uint32_t,
                          optiling::PadTiling& tiling) {
  tiling.set_srcHeight(mco_host_detail::Rows(shape)), tiling.set_srcWidth(mco_host_detail::Columns(shape));
  tiling.set_srcOriWidth(mco_host_detail::Columns(original));
}
inline void GetCumSumMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool, const bool,
                                   uint32_t& max, uint32_t& min) {
  max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::kBlock;
}
inline void GetAscendQuantMaxMinTmpSize(const ge::Shape& shape, uint32_t type_size, uint32_t& max, uint32_t& min) {
  max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::kBlock;
}
inline void GetAscendDequantMaxMinTmpSize(const ge::Shape& shape, uint32_t type_size, uint32_t& max, uint32_t& min) {
  max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::kBlock;
}
inline void GetAscendAntiQuantMaxMinTmpSize(const ge::Shape& shape, const ge::Shape&, bool, ge::DataType,
                                            ge::DataType type, uint32_t& max, uint32_t& min) {
  max = mco_host_detail::Bytes(shape, static_cast<uint32_t>(ge::GetSizeByDataType(type)));
  min = mco_host_detail::kBlock;
}
inline void GetSelectWithBytesMaskMaxMinTmpSize(const ge::Shape& shape, const ge::Shape&, const uint32_t type_size,
                                                const ge::Shape& mask, const uint32_t mask_size, const bool,
                                                uint32_t& max, uint32_t& min) {
  max = mco_host_detail::Bytes(shape, type_size) + mco_host_detail::Bytes(mask, mask_size);
  min = mco_host_detail::kBlock;
}
inline uint32_t GetSelectWithBytesMaskMaxTmpSize(const ge::Shape& shape, const ge::Shape& other,
                                                 const uint32_t type_size, const ge::Shape& mask,
                                                 const uint32_t mask_size, const bool reuse) {
  uint32_t max = 0, min = 0;
  GetSelectWithBytesMaskMaxMinTmpSize(shape, other, type_size, mask, mask_size, reuse, max, min);
  return max;
}
inline uint32_t GetSelectWithBytesMaskMinTmpSize(const ge::Shape&, const ge::Shape&, const uint32_t, const ge::Shape&,
                                                 const uint32_t, const bool) {
  return mco_host_detail::kBlock;
}
// Along an axis.
#ifndef MCO_REDUCE_PATTERN
#define MCO_REDUCE_PATTERN
enum class ReducePattern : uint32_t { AR, RA };
#endif
#define MCO_HOST_REDUCE(name)                                                                                      \
  inline void Get##name##MaxMinTmpSize(const ge::Shape& shape, const ge::DataType type, ReducePattern, bool, bool, \
                                       uint32_t& max, uint32_t& min) {                                             \
    max = mco_host_detail::Bytes(shape, static_cast<uint32_t>(ge::GetSizeByDataType(type)));                       \
    min = mco_host_detail::kBlock;                                                                                 \
  }
MCO_HOST_REDUCE(ReduceSum)
MCO_HOST_REDUCE(ReduceMean)
MCO_HOST_REDUCE(ReduceProd)
MCO_HOST_REDUCE(ReduceMax)
MCO_HOST_REDUCE(ReduceMin)
MCO_HOST_REDUCE(ReduceAny)
MCO_HOST_REDUCE(ReduceAll)
#undef MCO_HOST_REDUCE
inline void GetReduceXorSumMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, const bool, uint32_t& max,
                                         uint32_t& min) {
  max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::kBlock;
}
// The shape is [B, N, S, H/N], or [H, W] of a matrix.
inline void GetTransposeMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, const uint32_t, uint32_t& max,
                                      uint32_t& min) {
  max = mco_host_detail::Bytes(shape, type_size), min = mco_host_detail::kBlock;
}
inline void GetTransposeTilingInfo(const ge::Shape& shape, const uint32_t, const uint32_t, const uint32_t,
                                   optiling::ConfusionTransposeTiling& tiling) {
  const size_t axes = shape.GetDimNum();
  const auto size = [&](size_t from_last) {
    return from_last < axes ? static_cast<uint32_t>(shape.GetDim(axes - 1 - from_last)) : 1;
  };
  tiling.set_b(size(3)), tiling.set_n(size(2)), tiling.set_s(size(1)), tiling.set_d(size(0));
}
inline void GetConfusionTransposeMaxMinTmpSize(const ge::Shape& shape, const uint32_t type_size, const uint32_t type,
                                               uint32_t& max, uint32_t& min) {
  GetTransposeMaxMinTmpSize(shape, type_size, type, max, min);
}
inline void GetConfusionTransposeTilingInfo(const ge::Shape& shape, const uint32_t size, const uint32_t type_size,
                                            const uint32_t type, optiling::ConfusionTransposeTiling& tiling) {
  GetTransposeTilingInfo(shape, size, type_size, type, tiling);
}
inline void GetConfusionTransposeOnlyTilingInfo(const ge::Shape& shape, const uint32_t size, const uint32_t type_size,
                                                optiling::ConfusionTransposeTiling& tiling) {
  GetTransposeTilingInfo(shape, size, type_size, 0, tiling);
}
// The gradient and the flash form ask for what the plain one does.
#define MCO_HOST_SOFTMAX(form)                                                                           \
  inline uint32_t GetSoftMax##form##MaxTmpSize(const ge::Shape& shape, uint32_t type_size, bool, bool) { \
    return mco_host_detail::Bytes(shape, type_size);                                                     \
  }                                                                                                      \
  inline uint32_t GetSoftMax##form##MinTmpSize(const ge::Shape& shape, uint32_t type_size, bool, bool) { \
    return mco_host_detail::Columns(shape) * type_size;                                                  \
  }                                                                                                      \
  inline void SoftMax##form##TilingFunc(const ge::Shape& shape, uint32_t type_size, uint32_t size,       \
                                        optiling::SoftMaxTiling& tiling, bool = false) {                 \
    SoftMaxTilingFunc(shape, type_size, size, tiling);                                                   \
  }
MCO_HOST_SOFTMAX(Grad)
MCO_HOST_SOFTMAX(Flash)
#undef MCO_HOST_SOFTMAX

}  // namespace AscendC

#include "mco_host/norm_tiling.h"
#include "mco_host/plain_tiling.h"

#endif  // MCO_HOST_LIBRARY_TILING_H_
