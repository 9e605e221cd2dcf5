// SPDX-License-Identifier: Apache-2.0
// Names of the manual that are not here: a use of one is a compile error that says why.
#pragma once

#include "mco/tensor.h"

namespace mco_asc {
template <class...>
constexpr bool never = false;
}  // namespace mco_asc

namespace AscendC {

// With and without template arguments. A kernel's own function of the name fits better than `...`.
#define MCO_ASC_ABSENT(NAME, WHY)                                                        \
  template <class... A>                                                                  \
  inline void NAME(...) {                                                                \
    static_assert(mco_asc::never<A...>, "AscendC::" #NAME " is not there: " WHY);        \
  }                                                                                      \
  template <auto V, auto... Vs>                                                          \
  inline void NAME(...) {                                                                \
    static_assert(mco_asc::never<decltype(V)>, "AscendC::" #NAME " is not there: " WHY); \
  }                                                                                      \
  template <class A, auto V, auto... Vs>                                                 \
  inline void NAME(...) {                                                                \
    static_assert(mco_asc::never<A>, "AscendC::" #NAME " is not there: " WHY);           \
  }

#define MCO_ASC_ON_950(NAME) MCO_ASC_ABSENT(NAME, "it exists on Ascend950 alone; accepted: calls of 910B, 910_93, 310P")
MCO_ASC_ON_950(Interleave)
MCO_ASC_ON_950(DeInterleave)
MCO_ASC_ON_950(DataCopyGather)
MCO_ASC_ON_950(PhiloxRandom)
MCO_ASC_ON_950(AtomicAdd)
MCO_ASC_ON_950(AtomicMax)
MCO_ASC_ON_950(AtomicMin)
MCO_ASC_ON_950(AtomicCas)
MCO_ASC_ON_950(AtomicExch)
MCO_ASC_ON_950(MmadMx)
MCO_ASC_ON_950(GetSpr)
MCO_ASC_ON_950(ExpSub)
MCO_ASC_ON_950(AbsSub)
MCO_ASC_ON_950(MulsCast)
MCO_ASC_ON_950(Fma)
#undef MCO_ASC_ON_950

#define MCO_ASC_NOT_YET(NAME) \
  MCO_ASC_ABSENT(NAME, "no public kernel was found that uses it; see docs/ascendc.md for what is")
MCO_ASC_NOT_YET(TransData)
MCO_ASC_NOT_YET(VectorPadding)
MCO_ASC_NOT_YET(MmadWithSparse)
MCO_ASC_NOT_YET(LoadDataWithSparse)
MCO_ASC_NOT_YET(LoadDataUnzip)
MCO_ASC_NOT_YET(SetFixPipeClipRelu)
MCO_ASC_NOT_YET(Conv2D)
MCO_ASC_NOT_YET(Gemm)
MCO_ASC_NOT_YET(BroadCastVecToMM)
MCO_ASC_NOT_YET(LoadDataWithStride)
#undef MCO_ASC_NOT_YET
MCO_ASC_ABSENT(SoftmaxFlashV3, "the manual does not say which columns share a mean; accepted: SoftmaxFlashV2")

// Classes: an object of one.
#define MCO_ASC_NO_CLASS(NAME, PARAMETER, WHY)                                     \
  template <PARAMETER, class Never = void>                                         \
  struct NAME {                                                                    \
    template <class... A>                                                          \
    explicit NAME(const A&...) {}                                                  \
    static_assert(mco_asc::never<Never>, "AscendC::" #NAME " is not there: " WHY); \
  };
enum class PipeMode { MTE3_MODE };
MCO_ASC_NO_CLASS(CubeResGroupHandle, class Message,
                 "groups of cube cores with queues; accepted: Matmul, CrossCoreSetFlag")
MCO_ASC_NO_CLASS(GroupBarrier, PipeMode mode, "groups of cores; accepted: CrossCoreSetFlag, IBSet and IBWait, SyncAll")
#undef MCO_ASC_NO_CLASS

#define MCO_ASC_NEWER(NAME, OLDER) \
  MCO_ASC_ABSENT(NAME, "a name of CANN 9 that no public kernel was found to use; accepted: " OLDER)
MCO_ASC_NEWER(Quantize, "AscendQuant")
MCO_ASC_NEWER(Dequantize, "AscendDequant")
MCO_ASC_NEWER(AntiQuantize, "Cast, Adds and Muls")
MCO_ASC_NEWER(Ands, "Duplicate and And")
MCO_ASC_NEWER(Ors, "Duplicate and Or")
MCO_ASC_NEWER(BitwiseAnd, "And")
MCO_ASC_NEWER(BitwiseOr, "Or")
MCO_ASC_NEWER(BitwiseNot, "Not")
MCO_ASC_NEWER(BitwiseXor, "Xor")
MCO_ASC_NEWER(LogicalAnd, "Compares and And")
MCO_ASC_NEWER(LogicalOr, "Compares and Or")
MCO_ASC_NEWER(LogicalNot, "Compares")
MCO_ASC_NEWER(LogicalXor, "Compares and Xor")
MCO_ASC_NEWER(Where, "Select")
#undef MCO_ASC_NEWER
#undef MCO_ASC_ABSENT

}  // namespace AscendC

// Calls of the register interface of Ascend950.
template <class... T>
inline void asc_vf_call(const T&...) {
  static_assert(mco_asc::never<T...>, "asc_vf_call is not there: the register interface exists on Ascend950 alone");
}
// Raw moves and cross-core intrinsics.
template <class... T>
inline void copy_gm_to_ubuf(const T&...) {
  static_assert(mco_asc::never<T...>, "copy_gm_to_ubuf is not there: a raw intrinsic; accepted: DataCopy");
}
template <class... T>
inline void copy_ubuf_to_gm(const T&...) {
  static_assert(mco_asc::never<T...>, "copy_ubuf_to_gm is not there: a raw intrinsic; accepted: DataCopy");
}
inline void set_ffts_base_addr(uint64_t) {}
