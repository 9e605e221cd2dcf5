// SPDX-License-Identifier: Apache-2.0
// Tilings of library functions into structures of kernel_tiling/kernel_tiling.h, which hosts of launches fill in place
// of those of namespace optiling. Included by library_tiling.h.
#ifndef MCO_HOST_PLAIN_TILING_H_
#define MCO_HOST_PLAIN_TILING_H_

#include <type_traits>
#include <utility>

#include "mco_host/library_tiling.h"

#define MCO_HOST_PLAIN_STRUCTS(EACH)                                                                               \
  EACH(SoftMaxTiling)                                                                                              \
  EACH(LayerNormTiling)                                                                                            \
  EACH(LayerNormSeparateTiling)                                                                                    \
  EACH(RmsNormTiling)                                                                                              \
  EACH(LayerNormGradTiling) EACH(LayerNormGradBetaTiling) EACH(DeepNormTiling) EACH(GroupNormTiling)               \
      EACH(BatchNormTiling) EACH(LogSoftMaxTiling) EACH(TopkTiling) EACH(ConfusionTransposeTiling) EACH(PadTiling) \
          EACH(UnPadTiling)

namespace AscendC {

namespace tiling {
#define MCO_HOST_PLAIN(name) struct name;
MCO_HOST_PLAIN_STRUCTS(MCO_HOST_PLAIN)
#undef MCO_HOST_PLAIN
}  // namespace tiling

namespace mco_host_detail {

// What of namespace optiling has the layout of a structure; void where it is none.
template <typename T>
struct FullOf {
  using type = void;
};
#define MCO_HOST_PLAIN(name)     \
  template <>                    \
  struct FullOf<tiling::name> {  \
    using type = optiling::name; \
  };
MCO_HOST_PLAIN_STRUCTS(MCO_HOST_PLAIN)
#undef MCO_HOST_PLAIN
template <typename A>
using Full = typename FullOf<std::remove_cv_t<std::remove_reference_t<A>>>::type;
template <typename... A>
using IfPlain = std::enable_if_t<(!std::is_void<Full<A>>::value || ...), int>;

// Takes a tiling's place in a call, and hands over what it was set to.
template <typename Plain>
class Through {
 public:
  explicit Through(Plain& to) : to_(to) {}
  ~Through() { full_.SaveToBuffer(&to_, sizeof(Plain)); }
  Through(const Through&) = delete;
  Through& operator=(const Through&) = delete;
  operator Full<Plain>&() { return full_; }

 private:
  Plain& to_;
  Full<Plain> full_;
};
template <typename A>
decltype(auto) PassThrough(A&& a) {
  if constexpr (std::is_void<Full<A>>::value) {
    return static_cast<A&&>(a);
  } else {
    return Through<std::remove_reference_t<A>>(a);
  }
}

}  // namespace mco_host_detail

#define MCO_HOST_PLAIN(name)                                          \
  template <typename... A, mco_host_detail::IfPlain<A...> = 0>        \
  auto name(A&&... a) {                                               \
    return name(mco_host_detail::PassThrough(std::forward<A>(a))...); \
  }
MCO_HOST_PLAIN(SoftMaxTilingFunc)
MCO_HOST_PLAIN(SoftMaxFlashTilingFunc)
MCO_HOST_PLAIN(SoftMaxFlashV2TilingFunc)
MCO_HOST_PLAIN(SoftMaxGradTilingFunc)
MCO_HOST_PLAIN(LogSoftMaxTilingFunc)

MCO_HOST_PLAIN(GetLayerNormNDTilingInfo)
MCO_HOST_PLAIN(GetLayerNormNDTillingInfo)
MCO_HOST_PLAIN(GetLayerNormGradNDTilingInfo)
MCO_HOST_PLAIN(GetLayerNormGradBetaNDTilingInfo)
MCO_HOST_PLAIN(GetRmsNormTilingInfo)
MCO_HOST_PLAIN(GetDeepNormTilingInfo)
MCO_HOST_PLAIN(GetGroupNormNDTilingInfo)
MCO_HOST_PLAIN(GetBatchNormNDTilingInfo)
MCO_HOST_PLAIN(TopKTilingFunc)
MCO_HOST_PLAIN(GetTransposeTilingInfo)
MCO_HOST_PLAIN(GetConfusionTransposeTilingInfo)
MCO_HOST_PLAIN(GetConfusionTransposeOnlyTilingInfo)
MCO_HOST_PLAIN(PadTilingFunc)
MCO_HOST_PLAIN(UnPadTilingFunc)
#undef MCO_HOST_PLAIN
#undef MCO_HOST_PLAIN_STRUCTS

}  // namespace AscendC

#endif  // MCO_HOST_PLAIN_TILING_H_
