// SPDX-License-Identifier: Apache-2.0
// What a core is, state of its registers, order between cores, atomic moves, printing.
#pragma once

#include <cstdio>

#include "mco/pipe.h"

#define KERNEL_TASK_TYPE_DEFAULT(type)                                               \
  do {                                                                               \
    const mco_asc_where mco_here = {"KERNEL_TASK_TYPE_DEFAULT", __FILE__, __LINE__}; \
    mco_asc_task_type(&mco_here, int(AscendC::type));                                \
  } while (0)
#define KERNEL_TASK_TYPE(key, type)                                           \
  do {                                                                        \
    const mco_asc_where mco_here = {"KERNEL_TASK_TYPE", __FILE__, __LINE__};  \
    if (mco_asc_this_core("KERNEL_TASK_TYPE")->tiling_key == uint64_t(key)) { \
      mco_asc_task_type(&mco_here, int(AscendC::type));                       \
    }                                                                         \
  } while (0)

#define ASCEND_IS_AIV (mco_asc::note<mco_asc::USES_CORE_TYPE>() && mco_asc::is_vector_core())
#define ASCEND_IS_AIC (mco_asc::note<mco_asc::USES_CORE_TYPE>() && mco_asc::is_cube_core())
#define ASCEND_IS_NOT_AIV (!ASCEND_IS_AIV)
#define ASCEND_IS_NOT_AIC (!ASCEND_IS_AIC)

namespace mco_asc {

inline bool is_vector_core() {
  const mco_asc_core* core = mco_asc_this_core("ASCEND_IS_AIV");
  return !core->split || !core->is_cube;
}
inline bool is_cube_core() {
  const mco_asc_core* core = mco_asc_this_core("ASCEND_IS_AIC");
  return !core->split || core->is_cube;
}

}  // namespace mco_asc

namespace AscendC {

inline int64_t GetBlockIdx() { return mco_asc_this_core("GetBlockIdx")->block; }
inline int64_t GetBlockNum() { return mco_asc_this_core("GetBlockNum")->blocks; }
inline int64_t GetSubBlockIdx() { return mco_asc_this_core("GetSubBlockIdx")->sub; }
inline int64_t GetSubBlockNum() { return mco_asc_this_core("GetSubBlockNum")->subs; }
inline int64_t GetTaskRatio() {
  const mco_asc_core* core = mco_asc_this_core("GetTaskRatio");
  return core->is_cube || !core->ratio ? 1 : core->ratio;
}
inline int64_t GetTaskRation() { return GetTaskRatio(); }  // as older kernels spell it
// 220 or 200 where it is printed as a hexadecimal number.
inline void GetArchVersion(uint32_t& coreVersion) { coreVersion = __NPU_ARCH__ == 2201 ? 0x220 : 0x200; }
inline int64_t GetSystemCycle() { return mco_asc_cycles(); }
inline uint16_t GetDataBlockSizeInBytes() { return 32; }
inline constexpr uint32_t GetVecLen() { return 256; }
inline constexpr uint32_t GetUBSizeInBytes() { return TOTAL_UB_SIZE; }

// Core types of older kernels.
enum CoreType { AIV, AIC, MIX };
struct MixCoreType {
  operator CoreType() const { return mco_asc_this_core("g_coreType")->is_cube ? AIC : AIV; }
};
inline const MixCoreType g_coreType{};
template <class T>
inline bool operator==(const MixCoreType& core, T type) {
  return mco_asc::note<mco_asc::USES_CORE_TYPE>() && CoreType(core) == type;
}
template <class T>
inline bool operator!=(const MixCoreType& core, T type) {
  return !(core == type);
}

// Mask register.
template <class T, MaskMode mode = MaskMode::NORMAL>
inline void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow) {
  mco_asc_set_mask(maskLow, maskHigh);
}
template <class T, MaskMode mode = MaskMode::NORMAL>
inline void SetVectorMask(int32_t length) {
  if (mode == MaskMode::COUNTER) {
    mco_asc_set_mask(uint64_t(length), 0);
    return;
  }
  const auto first = [](int32_t n) { return n <= 0 ? 0 : n >= 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1; };
  mco_asc_set_mask(first(length), first(length - 64));
}
inline void SetMaskCount() { mco_asc_set_mask_mode(1); }
inline void SetMaskNorm() { mco_asc_set_mask_mode(0); }
inline void ResetMask() { mco_asc_set_mask(~uint64_t(0), ~uint64_t(0)); }

// Moves to GM that combine instead of store.
template <class T>
inline void SetAtomicAdd(mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(mco_asc::one_of<T, float, half, int16_t, int32_t, int8_t, bfloat16_t>,
                "AscendC::SetAtomicAdd: the type is not accepted; accepted: float, half, int16_t, int32_t, int8_t, "
                "bfloat16_t");
  const mco_asc_where here = where.of("SetAtomicAdd");
  mco_asc_atomic(&here, 1, mco_asc::dtype_of<T>::value);
}
template <class T>
inline void SetAtomicMax(mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(mco_asc::one_of<T, float, half, int16_t, int32_t, int8_t, bfloat16_t>,
                "AscendC::SetAtomicMax: the type is not accepted; accepted: float, half, int16_t, int32_t, int8_t, "
                "bfloat16_t");
  const mco_asc_where here = where.of("SetAtomicMax");
  mco_asc_atomic(&here, 2, mco_asc::dtype_of<T>::value);
}
template <class T>
inline void SetAtomicMin(mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(mco_asc::one_of<T, float, half, int16_t, int32_t, int8_t, bfloat16_t>,
                "AscendC::SetAtomicMin: the type is not accepted; accepted: float, half, int16_t, int32_t, int8_t, "
                "bfloat16_t");
  const mco_asc_where here = where.of("SetAtomicMin");
  mco_asc_atomic(&here, 3, mco_asc::dtype_of<T>::value);
}
// The type of an operation that was set before.
template <class T>
inline void SetAtomicType(mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("SetAtomicType");
  mco_asc_atomic(&here, -1, mco_asc::dtype_of<T>::value);
}
inline void SetAtomicNone(mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("SetAtomicNone");
  mco_asc_atomic(&here, 0, 0);
}
inline void DisableDmaAtomic(mco_asc::Where where = mco_asc::Where::here()) { SetAtomicNone(where); }

// Caches hold nothing back here; a loop that looks at GM lets other cores go on.
template <class T, CacheLine line = CacheLine::SINGLE_CACHE_LINE, DcciDst destination = DcciDst::CACHELINE_ALL>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T>&) {
#ifndef MCO_ASC_NO_PAUSE  // kernels that do not wait in loops: their blocks run in order on one thread
  mco_asc_pause();
#endif
}
template <class T, CacheLine line = CacheLine::SINGLE_CACHE_LINE, DcciDst destination = DcciDst::CACHELINE_ALL>
inline void DataCacheCleanAndInvalid(const LocalTensor<T>&) {}
template <class T>
inline void DataCachePreload(const GlobalTensor<T>&, int64_t) {}
inline void ICachePreLoad(int64_t) {}

// Order between cores.
template <bool isAIVOnly = true>
inline void SyncAll(mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("SyncAll");
  mco_asc_sync_all(&here, isAIVOnly ? MCO_ASC_ALL_VECTOR : MCO_ASC_ALL_CORES, 0);
}
template <bool isAIVOnly = true>
inline void SyncAll(const GlobalTensor<int32_t>&, const LocalTensor<int32_t>&, const int32_t usedCores = 0,
                    mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("SyncAll");
  mco_asc_sync_all(&here, isAIVOnly ? MCO_ASC_ALL_VECTOR : MCO_ASC_ALL_CORES, usedCores);
}
template <uint8_t mode, pipe_t pipe>
inline void CrossCoreSetFlag(uint16_t flag, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("CrossCoreSetFlag");
  mco_asc_cross_set(&here, int(pipe), mode, flag);
}
template <uint8_t mode = 0, pipe_t pipe = PIPE_S>
inline void CrossCoreWaitFlag(uint16_t flag, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("CrossCoreWaitFlag");
  mco_asc_cross_wait(&here, flag);
}

// Slots of 32 bytes, one for each event of each block.
template <bool isAIVOnly = true>
inline void IBSet(const GlobalTensor<int32_t>& gm, const LocalTensor<int32_t>&, int32_t block, int32_t event,
                  mco_asc::Where where = mco_asc::Where::here()) {
  const int64_t slot = (int64_t(event) * GetBlockNum() + block) * 8;
  int32_t* at =
      mco_asc::element<int32_t>(gm.mco_at(), gm.mco_home(), slot * 4, MCO_ASC_GM | MCO_ASC_WORD, "IBSet", where);
  const mco_asc_where here = where.of("IBSet");
  mco_asc_wait_word(&here, at, 0, 0);
  __atomic_store_n(at, 1, __ATOMIC_RELEASE);
  mco_asc_wake(at);
}
template <bool isAIVOnly = true>
inline void IBWait(const GlobalTensor<int32_t>& gm, const LocalTensor<int32_t>&, int32_t block, int32_t event,
                   mco_asc::Where where = mco_asc::Where::here()) {
  const int64_t slot = (int64_t(event) * GetBlockNum() + block) * 8;
  int32_t* at =
      mco_asc::element<int32_t>(gm.mco_at(), gm.mco_home(), slot * 4, MCO_ASC_GM | MCO_ASC_WORD, "IBWait", where);
  const mco_asc_where here = where.of("IBWait");
  mco_asc_wait_word(&here, at, 1, 1);
  mco_asc_wake(at);
}

// Blocks one after another.
inline void InitDetermineComputeWorkspace(GlobalTensor<int32_t>& gm, LocalTensor<int32_t>& ub,
                                          mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("InitDetermineComputeWorkspace");
  int32_t* at = mco_asc::element<int32_t>(gm.mco_at(), gm.mco_home(), GetBlockIdx() * 32, MCO_ASC_GM | MCO_ASC_WORD,
                                          here.call, where);
  (void)ub;
  __atomic_store_n(at, GetBlockIdx() ? 0 : 1, __ATOMIC_RELEASE);
  mco_asc_sync_all(&here, MCO_ASC_ALL_VECTOR, 0);
}
inline void WaitPreBlock(GlobalTensor<int32_t>& gm, LocalTensor<int32_t>&,
                         mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("WaitPreBlock");
  int32_t* at = mco_asc::element<int32_t>(gm.mco_at(), gm.mco_home(), GetBlockIdx() * 32, MCO_ASC_GM | MCO_ASC_WORD,
                                          here.call, where);
  mco_asc_wait_word(&here, at, 1, 1);
}
inline void NotifyNextBlock(GlobalTensor<int32_t>& gm, LocalTensor<int32_t>&,
                            mco_asc::Where where = mco_asc::Where::here()) {
  const int64_t next = (GetBlockIdx() + 1) % GetBlockNum();
  int32_t* at = mco_asc::element<int32_t>(gm.mco_at(), gm.mco_home(), next * 32, MCO_ASC_GM | MCO_ASC_WORD,
                                          "NotifyNextBlock", where);
  __atomic_store_n(at, 1, __ATOMIC_RELEASE);
  mco_asc_wake(at);
}

// Workspace: what the system takes of it comes first.
constexpr int64_t mco_system_workspace = int64_t(16) << 20;
inline uint8_t* GetUserWorkspace(GM_ADDR workspace) { return workspace ? workspace + mco_system_workspace : nullptr; }
inline void SetSysWorkspace(GM_ADDR workspace) { mco_asc_this_core("SetSysWorkspace")->user[0] = workspace; }
inline void SetSysWorkspaceForce(GM_ADDR workspace) { SetSysWorkspace(workspace); }
// Nothing here needs the system's part of a workspace. Where a launch gives its own arguments, none is known: the
// address is then nobody's memory, and not null, since kernels that the chip's launcher tells it end where it is.
inline uint8_t* GetSysWorkSpacePtr() {
  static const uint8_t nobodys[32] = {1};  // not to be written
  void* told = mco_asc_this_core("GetSysWorkSpacePtr")->user[0];
  return told ? static_cast<uint8_t*>(told) : const_cast<uint8_t*>(nobodys);
}
inline uint8_t* GetSysWorkspace() { return GetSysWorkSpacePtr(); }
inline void InitSocState() {
  SetAtomicNone();
  SetMaskNorm();
  ResetMask();
}

}  // namespace AscendC

using AscendC::AIC;
using AscendC::AIV;
using AscendC::g_coreType;

// Intrinsics that kernels mix with the API.
inline int64_t get_block_idx() {
  const mco_asc_core* core = mco_asc_this_core("get_block_idx");
  return core->is_cube || !core->ratio ? core->block : core->block / core->ratio;
}
// The compiler of the chip knows this name as a number.
struct mco_asc_block_idx {
  operator int64_t() const { return get_block_idx(); }
};
inline constexpr mco_asc_block_idx block_idx{};
struct mco_asc_block_num {
  operator int64_t() const { return AscendC::GetBlockNum(); }
};
inline constexpr mco_asc_block_num block_num{};
#ifndef PRELOAD
#define PRELOAD(lines) AscendC::ICachePreLoad(lines)  // of instructions, as kernels before it had a name
#endif
inline int64_t get_block_num() { return AscendC::GetBlockNum(); }
inline int64_t get_subblockid() { return AscendC::GetSubBlockIdx(); }
inline int64_t get_subblockdim() { return AscendC::GetSubBlockNum(); }
inline void set_flag(pipe_t from, pipe_t to, int32_t id, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("set_flag");
  mco_asc_set_flag(&here, from * 8 + to, id);
}
inline void wait_flag(pipe_t from, pipe_t to, int32_t id, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("wait_flag");
  mco_asc_wait_flag(&here, from * 8 + to, id);
}
inline void pipe_barrier(pipe_t pipe, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("pipe_barrier");
  mco_asc_pipe_barrier(&here, int(pipe));
}
// Flags between cores as the intrinsics say them: bits 4 and 5 of the word are the mode, 8 to 11 the flag.
inline void ffts_cross_core_sync(pipe_t pipe, uint64_t config, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("ffts_cross_core_sync");
  mco_asc_cross_set(&here, int(pipe), int(config >> 4 & 3), int(config >> 8 & 15));
}
inline void wait_flag_dev(int64_t flag, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("wait_flag_dev");
  mco_asc_cross_wait(&here, int(flag));
}
