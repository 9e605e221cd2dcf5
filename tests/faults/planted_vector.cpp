// SPDX-License-Identifier: Apache-2.0
// Planted faults of vector cores: a function each, whose fault is there where `bad` is. `// AT` stands on the line of
// the finding, `// WITH` on the second line. Every core writes its 64 elements of y.
#include "kernel_operator.h"
using namespace AscendC;

constexpr int32_t N = 64;

struct Kit {
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> in;
  TQue<QuePosition::VECOUT, 1> out;
  TBuf<> buffer, other;
  GlobalTensor<float> x, y, work;
  LocalTensor<float> b, c;  // of the buffers: 256 and 64 elements
  int32_t me;

  __aicore__ inline void Init(GM_ADDR x_, GM_ADDR y_, GM_ADDR workspace) {
    me = GetBlockIdx();
    x.SetGlobalBuffer((__gm__ float*)x_);
    y.SetGlobalBuffer((__gm__ float*)y_ + me * N);
    work.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(workspace));
    pipe.InitBuffer(in, 1, N * sizeof(float));
    pipe.InitBuffer(out, 1, N * sizeof(float));
    pipe.InitBuffer(buffer, 1024);
    pipe.InitBuffer(other, N * sizeof(float));
    b = buffer.Get<float>();
    c = other.Get<float>();
  }
  __aicore__ inline LocalTensor<float> Load() {
    LocalTensor<float> t = in.AllocTensor<float>();
    DataCopy(t, x, N);
    in.EnQue(t);
    return in.DeQue<float>();
  }
  __aicore__ inline void Store(const LocalTensor<float>& result) {
    LocalTensor<float> t = result;
    out.EnQue(t);
    t = out.DeQue<float>();
    DataCopy(y, t, N);
    out.FreeTensor(t);
  }
  __aicore__ inline void StoreInput() {
    LocalTensor<float> t = Load(), o = out.AllocTensor<float>();
    Adds(o, t, 0.0f, N);
    in.FreeTensor(t);
    Store(o);
  }
  // After this nothing is left to order.
  __aicore__ inline void StoreZeros() {
    PipeBarrier<PIPE_ALL>();
    Duplicate(c, 0.0f, N);
    PipeBarrier<PIPE_ALL>();
    DataCopy(y, c, N);
    PipeBarrier<PIPE_ALL>();
  }
};

// What nobody wrote.
__aicore__ inline void unwritten_buffer(Kit& k, bool bad) {
  LocalTensor<float> o = k.out.AllocTensor<float>();
  if (!bad) Duplicate(k.b, 1.0f, N);
  Adds(o, k.b, 1.0f, N);  // AT
  k.Store(o);
}
__aicore__ inline void unwritten_tail(Kit& k, bool bad) {
  LocalTensor<float> o = k.out.AllocTensor<float>();
  Duplicate(k.b, 1.0f, bad ? N - 1 : N);
  Muls(o, k.b, 2.0f, N);  // AT
  k.Store(o);
}
__aicore__ inline void block_of_a_queue_again(Kit& k, bool bad) {
  LocalTensor<float> t = k.Load();
  k.in.FreeTensor(t);
  t = k.in.AllocTensor<float>();
  if (!bad) DataCopy(t, k.x, N);
  k.in.EnQue(t);
  t = k.in.DeQue<float>();
  LocalTensor<float> o = k.out.AllocTensor<float>();
  Adds(o, t, 1.0f, N);  // AT
  k.in.FreeTensor(t);
  k.Store(o);
}
__aicore__ inline void unwritten_scalar(Kit& k, bool bad) {
  if (!bad) k.b.SetValue(3, 1.0f);
  const float value = k.b.GetValue(3);  // AT
  Duplicate(k.b, value, N);
  k.StoreInput();
}
__aicore__ inline void unwritten_in_a_library_function(Kit& k, bool bad) {
  LocalTensor<float> o = k.out.AllocTensor<float>();
  Duplicate(k.b, 1.0f, bad ? N - 8 : N);
  Sin(o, k.b, N);  // AT
  k.Store(o);
}
__aicore__ inline void unwritten_in_a_sum(Kit& k, bool bad) {
  LocalTensor<float> o = k.out.AllocTensor<float>();
  Duplicate(k.b, 1.0f, bad ? 3 * N - 1 : 3 * N);
  Duplicate(o, 0.0f, N);
  ReduceSum(o, k.b, k.b, 3 * N);  // AT
  k.Store(o);
}
__aicore__ inline void unwritten_in_maxima(Kit& k, bool bad) {  // of rows, from the second number of the result on
  LocalTensor<float> o = k.out.AllocTensor<float>();
  Duplicate(k.b, 1.0f, bad ? 3 * N - 1 : 3 * N);
  Duplicate(o, 0.0f, N);
  WholeReduceMax(o[1], k.b, N, 3, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);  // AT
  WholeReduceMin(o[5], o, N, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_INDEX);
  k.Store(o);
}
__aicore__ inline void unwritten_columns(Kit& k, bool bad) {
  LocalTensor<float> o = k.out.AllocTensor<float>();
  SoftMaxShapeInfo shape{4, 16, 4, uint32_t(bad ? 16 : 15)};
  Duplicate(o, 0.0f, N);
  for (int32_t r = 0; r < 4; ++r) Duplicate(k.b[r * 16], 1.0f, 15);
  SoftMax(o, k.b, SoftMaxTiling(), shape);  // AT
  k.Store(o);
}
__aicore__ inline void unwritten_workspace(Kit& k, bool bad) {
  LocalTensor<float> t = k.in.AllocTensor<float>(), o = k.out.AllocTensor<float>();
  DataCopy(t, bad ? k.work : k.x, N);  // AT
  k.in.EnQue(t);
  t = k.in.DeQue<float>();
  Adds(o, t, 0.0f, N);
  k.in.FreeTensor(t);
  k.Store(o);
}
__aicore__ inline void padding_that_is_not_given(Kit& k, bool bad) {
  LocalTensor<float> o = k.out.AllocTensor<float>();
  DataCopyExtParams row{1, 5 * sizeof(float), 0, 0, 0};
  DataCopyPadExtParams<float> padding{!bad, 0, 3, 0.0f};
  DataCopyPad(k.b, k.x, row, padding);
  Duplicate(o, 0.0f, N);
  PipeBarrier<PIPE_ALL>();
  Adds(o, k.b, 1.0f, 8);  // AT
  k.Store(o);
}
__aicore__ inline void output_in_part(Kit& k, bool bad) {
  LocalTensor<float> t = k.Load(), o = k.out.AllocTensor<float>();
  Adds(o, t, 0.0f, N);
  k.in.FreeTensor(t);
  k.out.EnQue(o);
  o = k.out.DeQue<float>();
  DataCopy(k.y, o, bad ? N / 2 : N);
  k.out.FreeTensor(o);
}

// Places and parameters.
__aicore__ inline void beyond_a_block(Kit& k, bool bad) {
  LocalTensor<float> t = k.Load();
  Adds(k.b, t, 1.0f, bad ? N + 1 : N);  // AT
  k.in.FreeTensor(t);
  k.StoreInput();
}
__aicore__ inline void beyond_by_repeats(Kit& k, bool bad) {
  Duplicate(k.b, 0.0f, N);
  Adds(k.c, k.b, 1.0f, 64, 1, {1, 1, 8, 8});
  Adds(k.c, k.b, 1.0f, 64, bad ? 2 : 1, {1, 1, 8, 0});  // AT
  k.StoreInput();
}
__aicore__ inline void scalar_beyond(Kit& k, bool bad) {
  k.b.SetValue(bad ? 256 : 255, 1.0f);  // AT
  k.StoreInput();
}
__aicore__ inline void gm_beyond(Kit& k, bool bad) {
  DataCopy(k.b, k.x[bad ? 3 * N : 0], N);  // AT
  k.StoreInput();
}
__aicore__ inline void library_function_beyond(Kit& k, bool bad) {
  Duplicate(k.b, 1.0f, 256);
  if (!bad) k.StoreInput();
  Sin(k.b, k.b, bad ? 257 : 256);  // AT
}
__aicore__ inline void blocks_behind_gm(Kit& k, bool bad) {
  if (bad) {
    DataCopy(k.b, k.x[2 * N - 4], 8);  // AT
  } else {
    DataCopyPad(k.b, k.x[2 * N - 4], {1, 16, 0, 0}, {false, 0, 0, 0});
  }
  k.StoreInput();
}
__aicore__ inline void start_off_the_grid(Kit& k, bool bad) {
  Duplicate(k.b, 1.0f, 256);
  Adds(k.b[bad ? 3 : 8], k.b[128], 1.0f, 8);  // AT
  k.StoreInput();
}
__aicore__ inline void overlapping_operands(Kit& k, bool bad) {
  Duplicate(k.b, 1.0f, 256);
  Adds(k.b[bad ? 8 : 128], k.b, 1.0f, 64, 2, {1, 1, 8, 8});  // AT
  k.StoreInput();
}
__aicore__ inline void a_length_of_half_an_element(Kit& k, bool bad) {
  if (!bad) k.StoreInput();
  DataCopyPad(k.b, k.x, {1, uint32_t(bad ? 6 : 8), 0, 0, 0}, {false, 0, 0, 0});  // AT
}
__aicore__ inline void more_than_ub(Kit& k, bool bad) {
  TBuf<> large;
  k.StoreInput();
  k.pipe.InitBuffer(large, bad ? 200000 : 2000);  // AT
}
__aicore__ inline void not_a_number(Kit& k, bool bad) {
  Duplicate(k.b, bad ? -1.0f : 1.0f, N);
  Ln(k.b, k.b, N);  // AT
  k.StoreInput();
}

// Order of pipes.
__aicore__ inline void read_after_write(Kit& k, bool bad) {
  DataCopy(k.b, k.x, N);  // WITH
  if (!bad) {
    SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
  }
  Adds(k.b, k.b, 1.0f, N);  // AT
  k.StoreInput();
}
__aicore__ inline void write_after_read(Kit& k, bool bad) {
  Duplicate(k.b, 1.0f, N);
  PipeBarrier<PIPE_ALL>();
  Adds(k.c, k.b, 1.0f, N);  // WITH
  if (!bad) PipeBarrier<PIPE_ALL>();
  DataCopy(k.b, k.x, N);  // AT
  k.StoreZeros();
}
__aicore__ inline void result_moved_too_early(Kit& k, bool bad) {
  Duplicate(k.c, 1.0f, N);  // WITH
  if (!bad) {
    SetFlag<HardEvent::V_MTE3>(EVENT_ID1);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID1);
  }
  DataCopy(k.y, k.c, N);  // AT
}
__aicore__ inline void barrier_of_the_wrong_pipe(Kit& k, bool bad) {
  Duplicate(k.c, 1.0f, N);  // WITH
  bad ? PipeBarrier<PIPE_V>() : PipeBarrier<PIPE_ALL>();
  DataCopy(k.y, k.c, N);  // AT
}
__aicore__ inline void flag_of_the_wrong_pipes(Kit& k, bool bad) {
  DataCopy(k.b, k.x, N);  // WITH
  if (bad) {
    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
  } else {
    SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
  }
  Adds(k.b, k.b, 1.0f, N);  // AT
  k.StoreInput();
}
__aicore__ inline void written_after_enque(Kit& k, bool bad) {
  LocalTensor<float> t = k.Load(), o = k.out.AllocTensor<float>();
  Adds(o, t, 1.0f, N);
  if (!bad) Muls(o, o, 2.0f, N);
  k.out.EnQue(o);
  if (bad) Muls(o, o, 2.0f, N);  // WITH
  o = k.out.DeQue<float>();
  DataCopy(k.y, o, N);  // AT
  k.out.FreeTensor(o);
  k.in.FreeTensor(t);
}
__aicore__ inline void library_function_too_early(Kit& k, bool bad) {
  DataCopy(k.b, k.x, N);  // WITH
  if (!bad) PipeBarrier<PIPE_ALL>();
  Sin(k.b, k.b, N);  // AT
  k.StoreInput();
}
__aicore__ inline void gm_read_back_too_early(Kit& k, bool bad) {
  Duplicate(k.b, 1.0f, N);
  PipeBarrier<PIPE_ALL>();
  DataCopy(k.work, k.b, N);  // WITH
  if (!bad) {
    SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
    WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
  }
  DataCopy(k.c, k.work, N);  // AT
  k.StoreZeros();
}

// Flags.
__aicore__ inline void set_without_wait(Kit& k, bool bad) {
  k.StoreInput();
  SetFlag<HardEvent::MTE2_V>(EVENT_ID3);  // AT
  if (!bad) WaitFlag<HardEvent::MTE2_V>(EVENT_ID3);
}
__aicore__ inline void wait_without_set(Kit& k, bool bad) {
  k.StoreInput();
  if (!bad) SetFlag<HardEvent::MTE2_V>(EVENT_ID3);
  WaitFlag<HardEvent::MTE2_V>(EVENT_ID3);  // AT
}
__aicore__ inline void set_twice(Kit& k, bool bad) {
  k.StoreInput();
  SetFlag<HardEvent::MTE2_V>(EVENT_ID3);  // WITH
  if (!bad) WaitFlag<HardEvent::MTE2_V>(EVENT_ID3);
  SetFlag<HardEvent::MTE2_V>(EVENT_ID3);  // AT
  WaitFlag<HardEvent::MTE2_V>(EVENT_ID3);
  if (bad) WaitFlag<HardEvent::MTE2_V>(EVENT_ID3);
}
__aicore__ inline void wait_before_set(Kit& k, bool bad) {
  k.StoreInput();
  if (bad) WaitFlag<HardEvent::V_S>(EVENT_ID2);  // AT
  SetFlag<HardEvent::V_S>(EVENT_ID2);            // WITH
  if (!bad) WaitFlag<HardEvent::V_S>(EVENT_ID2);
}
__aicore__ inline void an_event_too_many(Kit& k, bool bad) {
  k.StoreInput();
  SetFlag<HardEvent::V_MTE3>(bad ? 8 : 7);  // AT
  WaitFlag<HardEvent::V_MTE3>(7);
}

// Lives of tensors and queues.
__aicore__ inline void used_after_free(Kit& k, bool bad) {
  LocalTensor<float> t = k.Load(), o = k.out.AllocTensor<float>();
  if (bad) k.in.FreeTensor(t);  // WITH
  Adds(o, t, 1.0f, N);          // AT
  if (!bad) k.in.FreeTensor(t);
  k.Store(o);
}
__aicore__ inline void used_after_reset(Kit& k, bool bad) {
  k.StoreInput();
  if (bad) k.pipe.Reset();  // WITH
  Duplicate(k.b, 1.0f, N);  // AT
}
__aicore__ inline void empty_queue(Kit& k, bool bad) {
  k.StoreInput();
  if (bad) k.in.DeQue<float>();  // AT
}
__aicore__ inline void freed_twice(Kit& k, bool bad) {
  k.StoreInput();
  LocalTensor<float> t = k.Load();
  k.in.FreeTensor(t);
  if (bad) k.in.FreeTensor(t);  // AT
}
__aicore__ inline void tensor_of_another_queue(Kit& k, bool bad) {
  k.StoreInput();
  LocalTensor<float> t = k.Load(), o = k.out.AllocTensor<float>();
  Adds(o, t, 1.0f, N);
  k.in.FreeTensor(bad ? o : t);  // AT
}

// Order of cores: two of them.
__aicore__ inline void two_write_one_row(Kit& k, bool bad) {
  k.StoreZeros();
  Duplicate(k.b, float(k.me), N);
  PipeBarrier<PIPE_ALL>();
  DataCopy(k.work[bad ? 0 : k.me * N], k.b, N);  // AT
}
__aicore__ inline void row_of_the_other(Kit& k, bool bad) {
  Duplicate(k.b, float(k.me), N);
  PipeBarrier<PIPE_ALL>();
  DataCopy(k.work[k.me * N], k.b, N);  // WITH
  PipeBarrier<PIPE_ALL>();
  if (!bad) SyncAll();
  DataCopy(k.b, k.work[(1 - k.me) * N], N);  // AT
  if (bad) SyncAll();
  k.StoreZeros();
}
__aicore__ inline void row_written_again(Kit& k, bool bad) {
  DataCopy(k.b, k.x[(1 - k.me) * N], N);
  PipeBarrier<PIPE_ALL>();
  DataCopy(k.work[k.me * N], k.b, N);
  SyncAll();
  DataCopy(k.c, k.work[(1 - k.me) * N], N);  // AT
  if (!bad) SyncAll();
  Duplicate(k.b, 5.0f + float(k.me), N);
  PipeBarrier<PIPE_ALL>();
  DataCopy(k.work[k.me * N], k.b, N);  // WITH
  k.StoreZeros();
}
__aicore__ inline void flag_of_a_pipe_that_has_done_nothing(Kit& k, bool bad) {
  Duplicate(k.b, float(k.me), N);
  PipeBarrier<PIPE_ALL>();
  DataCopy(k.work[k.me * N], k.b, N);  // WITH
  if (bad) {
    CrossCoreSetFlag<0, PIPE_MTE2>(3);
  } else {
    CrossCoreSetFlag<0, PIPE_MTE3>(3);
  }
  CrossCoreWaitFlag(3);
  DataCopy(k.c, k.work[(1 - k.me) * N], N);  // AT
  k.StoreZeros();
}
__aicore__ inline void sums_without_atomics(Kit& k, bool bad) {
  k.StoreZeros();
  if (k.me == 0) DataCopy(k.work, k.c, N);
  SyncAll();
  Duplicate(k.b, 1.0f + float(k.me), N);
  PipeBarrier<PIPE_ALL>();
  if (!bad) SetAtomicAdd<float>();
  DataCopy(k.work, k.b, N);  // AT
  SetAtomicNone();
}
__aicore__ inline void scalars_of_two_cores(Kit& k, bool bad) {
  k.StoreZeros();
  k.work.SetValue(bad ? 0 : k.me, float(k.me));  // AT
}
__aicore__ inline void a_core_that_does_not_come(Kit& k, bool bad) {
  k.StoreInput();
  if (!bad || k.me == 0) SyncAll();  // AT
}

#define FAULTS(F)                                                                                                    \
  F(unwritten_buffer) F(unwritten_tail) F(block_of_a_queue_again) F(unwritten_scalar)                                \
  F(unwritten_in_a_library_function) F(unwritten_in_a_sum) F(unwritten_in_maxima) F(unwritten_columns) F(unwritten_workspace) F(padding_that_is_not_given) F(output_in_part) F(beyond_a_block) F(beyond_by_repeats) \
  F(scalar_beyond) F(gm_beyond) F(library_function_beyond) F(blocks_behind_gm) F(start_off_the_grid)                 \
  F(overlapping_operands) F(a_length_of_half_an_element) F(more_than_ub) F(not_a_number) \
  F(read_after_write) F(write_after_read) F(result_moved_too_early) F(barrier_of_the_wrong_pipe)                     \
  F(flag_of_the_wrong_pipes) F(written_after_enque) F(library_function_too_early) F(gm_read_back_too_early)          \
  F(set_without_wait) F(wait_without_set) F(set_twice) F(wait_before_set) F(an_event_too_many) F(used_after_free)    \
  F(used_after_reset) F(empty_queue) F(freed_twice) F(tensor_of_another_queue) F(two_write_one_row)                  \
  F(row_of_the_other) F(row_written_again) F(flag_of_a_pipe_that_has_done_nothing) F(sums_without_atomics)           \
  F(scalars_of_two_cores) F(a_core_that_does_not_come)
#define NUMBER(name) number_of_##name,
enum Number { FAULTS(NUMBER) };

extern "C" __global__ __aicore__ void planted(GM_ADDR x, GM_ADDR y, int32_t which, int32_t bad, GM_ADDR workspace) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  Kit k;
  k.Init(x, y, workspace);
  switch (which) {
#define RUN(name)          \
  case number_of_##name:   \
    name(k, bad != 0);     \
    break;
    FAULTS(RUN)
  }
}
