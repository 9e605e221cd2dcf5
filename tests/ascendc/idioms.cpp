// SPDX-License-Identifier: Apache-2.0
// What public kernels do that a strict implementation breaks on; o is int32 or float, 64 elements for each case.
#include <cmath>
#include <type_traits>

#include "acl/acl.h"
#include "kernel_operator.h"
#include "kernel_tensor_impl.h"
#include "kernel_tiling/kernel_tiling.h"
#include "kernel_tpipe_impl.h"
#include "kernel_type.h"

using namespace tik2;

// The mask register decides where isSetMask is false.
__aicore__ inline void register_mask(GM_ADDR o) {
  TPipe pipe;
  TBuf<QuePosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, 1024);
  const auto x = buffer.Get<int32_t>(64), y = buffer.GetWithOffset<int32_t>(64, 256);
  const UnaryRepeatParams params;
  Duplicate<int32_t, false>(x, 5, (uint64_t)0, 1, 1, 8);  // all ones at the start
  Duplicate(y, 0, 10);                                    // a count leaves the register full
  Adds<int32_t, false>(y, x, 1, (uint64_t)0, 1, params);
  GlobalTensor<int32_t> out;
  out.SetGlobalBuffer((__gm__ int32_t*)o);
  DataCopy(out, y, 64);
}

// dst and src are one tensor, over several repeats.
__aicore__ inline void reduce_in_place(GM_ADDR o) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 4096);
  const auto x = buffer.Get<float>();
  ArithProgression(x, 0.0f, 1.0f, 512);
  BlockReduceSum(x, x, 8, 64, 1, 1, 8);
  PairReduceSum(x, x, 1, 64, 1, 1, 8);
  GlobalTensor<float> out;
  out.SetGlobalBuffer((__gm__ float*)o);
  DataCopy(out, x, 32);
}

// A tensor that was never set lies at address 0 of UB.
__aicore__ inline void unset_tensor(GM_ADDR o) {
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 256);
  LocalTensor<half> t;
  const auto x = buffer.Get<half>();
  Duplicate(t, half(3), 64);
  t.SetValue(1, half(4));
  GlobalTensor<half> out;
  out.SetGlobalBuffer((__gm__ half*)o);
  DataCopy(out, x, 64);
}

// A pipe that is a member, reset by the destructor, and initialised again and again.
class Again {
 public:
  __aicore__ inline Again() {}
  __aicore__ inline ~Again() { pipe_.Reset(); }
  __aicore__ inline void Init(GM_ADDR o, int round) {
    pipe_.Reset();
    out_.SetGlobalBuffer((__gm__ float*)o + 8 * round);
    pipe_.InitBuffer(queue_, 1, 150000);
  }
  __aicore__ inline void Process(float value) {
    auto t = queue_.AllocTensor<float>();
    Duplicate(t, value, 8);
    queue_.EnQue(t);
    t = queue_.DeQue<float>();
    DataCopy(out_, t, 8);
    queue_.FreeTensor(t);
  }

 private:
  TPipe pipe_;
  TQue<QuePosition::VECOUT, 1> queue_;
  GlobalTensor<float> out_;
};

// A queue as plain memory, never freed at the end; scalars through pointers; intrinsics.
__aicore__ inline void scratch_and_pointers(__gm__ int32_t* o, __gm__ int32_t* x) {
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> queue;
  pipe.InitBuffer(queue, 2, 256);
  const auto a = queue.AllocTensor<int32_t>();
  queue.FreeTensor(a);
  const auto b = queue.AllocTensor<int32_t>();
  Duplicate(b, x[3] + int32_t(get_block_idx() + get_block_num() + get_subblockid() + GetTaskRation()), 64);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  const event_t id = static_cast<event_t>(GetTPipePtr()->FetchEventID(HardEvent::V_MTE3));
  SetFlag<HardEvent::V_MTE3>(id);
  WaitFlag<HardEvent::V_MTE3>(id);
  const TEventID taken = GetTPipePtr()->AllocEventID<HardEvent::MTE3_V>();
  GetTPipePtr()->ReleaseEventID<HardEvent::MTE3_V>(taken);
  pipe_barrier(PIPE_ALL);
  GlobalTensor<int32_t> out;
  out.SetGlobalBuffer(o);
  ASSERT(out.GetSize() == 0);
  const uint32_t tiles = 3 ASSERT(out.GetSize() == 0 && "no size is given");
  if (tiles == 0)
    ASSERT(false);
  else
    ASSERT(tiles == 3);
  DataCopy(out, b, 64);
  out.SetValue(0, static_cast<int32_t>(std::sqrt(16.0f)));
}

// Types and tiling keys of a build.
template <typename T>
class Typed {
 public:
  __aicore__ inline void Run(GM_ADDR o) {
    TPipe pipe;
    TQue<QuePosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 1, 64 * sizeof(DTYPE_X));
    auto t = queue.AllocTensor<T>();
    if constexpr (std::is_same_v<T, float>) Duplicate(t, T(1.5f), 64);
    if constexpr (std::is_same_v<T, int32_t>) Duplicate(t, T(7), 64);
    GlobalTensor<T> out;
    out.SetGlobalBuffer((__gm__ T*)o);
    DataCopy(out, t, 64);
  }
};

struct MyTiling {
  uint32_t which;
  float values[3];
};

extern "C" __global__ __aicore__ void idioms(GM_ADDR x, GM_ADDR o, GM_ADDR workspace, GM_ADDR tiling) {
  SetSysWorkspace(workspace);
  if (GetUserWorkspace(workspace) == nullptr) return;
  REGISTER_TILING_DEFAULT(MyTiling);
  GET_TILING_DATA(data, tiling);
  GET_TILING_DATA_WITH_STRUCT(MyTiling, again, tiling);
  GET_TILING_DATA_MEMBER(MyTiling, which, which, tiling);
  ASSERT(again.which == data.which && which == 3);
  if (TILING_KEY_IS(1)) {
    Typed<DTYPE_X> op;
    op.Run(o);
  } else if (TILING_KEY_IS(2)) {
    Typed<int32_t> op;
    op.Run(o);
  } else if (TILING_KEY_IS(3)) {
    register_mask(o);
  } else if (TILING_KEY_IS(4)) {
    reduce_in_place(o);
  } else if (TILING_KEY_IS(5)) {
    unset_tensor(o);
  } else if (TILING_KEY_IS(6)) {
    Again op;
    for (int i = 0; i < 8; ++i) {
      op.Init(o, i);
      op.Process(data.values[1] + i);
    }
  } else {
    scratch_and_pointers((__gm__ int32_t*)o, (__gm__ int32_t*)x);
  }
}

// Kernels that a macro stamps out.
#define KERNEL(TYPE)                                                                           \
  extern "C" __global__ __aicore__ void stamped_##TYPE(__gm__ void* o, uint32_t n, float v) {  \
    TPipe pipe;                                                                                \
    TBuf<> buffer;                                                                             \
    pipe.InitBuffer(buffer, n * sizeof(TYPE));                                                 \
    Duplicate(buffer.Get<TYPE>(), static_cast<TYPE>(v), n);                                    \
    GlobalTensor<TYPE> out;                                                                    \
    out.SetGlobalBuffer((__gm__ TYPE*)o);                                                      \
    DataCopy(out, buffer.Get<TYPE>(), n);                                                      \
  }
KERNEL(half)
#if !defined(__CCE_AICORE__) || (__CCE_AICORE__ >= 220)
KERNEL(bfloat16_t)
#endif
