// SPDX-License-Identifier: Apache-2.0
// Matmul objects of a kernel: which cores serve them, from REGIST_MATMUL_OBJ on.
#pragma once

#include "mco/matmul_object.h"

#ifdef ASCENDC_CUBE_ONLY
#define MCO_ASC_CUBE_ONLY true
#else
#define MCO_ASC_CUBE_ONLY false
#endif

namespace AscendC {

template <class A, class B, class C, class BIAS = C, const auto& config = CFG_NORM,
          class CALLBACK = MatmulCallBackFunc<>, class POLICY = MatmulPolicy>
using MatmulImpl = Matmul<A, B, C, BIAS, config, CALLBACK, POLICY>;

}  // namespace AscendC

namespace mco_asc {

inline void regist_objects(const Where&) {}
template <class M, class... Rest>
inline void regist_objects(const Where& where, M& object, Rest&&... rest);
template <class M, class T, class... Rest>
inline void regist_tiled(const Where& where, M& object, T* tiling, Rest&&... rest) {
  if (tiling || M::kComplete) object.Init((const TCubeTiling*)tiling, nullptr, where);
  regist_objects(where, rest...);
}
template <class M, class... Rest>
inline void regist_untiled(const Where& where, M& object, std::nullptr_t, Rest&&... rest) {
  regist_tiled(where, object, static_cast<const TCubeTiling*>(nullptr), rest...);
}
template <class M, class... Rest>
inline void regist_objects(const Where& where, M& object, Rest&&... rest) {
  if constexpr (sizeof...(Rest) > 0) {
    using given_t = std::decay_t<std::tuple_element_t<0, std::tuple<Rest...>>>;
    if constexpr (std::is_pointer<given_t>::value) return regist_tiled(where, object, rest...);
    if constexpr (std::is_null_pointer<given_t>::value) return regist_untiled(where, object, rest...);
  }
  regist_objects(where, rest...);
}

// The vector cores of a block register their objects; its cube core serves them, and has nothing else to do.
template <bool cube_only, class Pipe, class... Args>
inline void regist(const Where& where, Pipe, const void*, Args&&... args) {
  note<cube_only ? USES_CUBE : USES_MATMUL>();
  const mco_asc_core* core = mco_asc_this_core("REGIST_MATMUL_OBJ");
  if (core->split && core->is_cube && !cube_only) {
    const mco_asc_where here = where.of("REGIST_MATMUL_OBJ");
    mco_asc_serve(&here);
    mco_asc_leave();
  }
  regist_objects(where, args...);
}

}  // namespace mco_asc

#define REGIST_MATMUL_OBJ(pipe, workspace, ...)                                                            \
  mco_asc::regist<MCO_ASC_CUBE_ONLY>(mco_asc::Where(mco_asc::Where::At::source, __FILE__, __LINE__), pipe, \
                                     (const void*)(workspace), __VA_ARGS__)
#define REGIST_CUBE_OBJ REGIST_MATMUL_OBJ

namespace matmul {
using namespace AscendC;  // kernels say matmul::GetBlockIdx() too
template <class T, class U>
inline auto CeilDiv(T value, U by) {
  return by == 0 ? decltype(value / by)(0) : (value + by - 1) / by;
}
using AscendC::CFG_IBSHARE_NORM;
using AscendC::CFG_MDL;
using AscendC::CFG_NORM;
using AscendC::CubeFormat;
using AscendC::GetBasicConfig;
using AscendC::GetIBShareNormConfig;
using AscendC::GetMatmulApiTiling;
using AscendC::GetMDLConfig;
using AscendC::GetMMConfig;
using AscendC::GetNormalConfig;
using AscendC::GetSpecialBasicConfig;
using AscendC::GetSpecialMDLConfig;
using AscendC::LayoutMode;
using AscendC::Matmul;
using AscendC::MatmulApiStaticTiling;
using AscendC::MatmulBatchParams;
using AscendC::MatmulCallBackFunc;
using AscendC::MatmulConfig;
using AscendC::MatmulConfigMode;
using AscendC::MatmulFuncParams;
using AscendC::MatmulImpl;
using AscendC::MatmulQuantParams;
using AscendC::MatmulShapeParams;
using AscendC::MatmulType;
using AscendC::TPosition;
}  // namespace matmul

using namespace AscendC;
