// SPDX-License-Identifier: Apache-2.0
// TPipe, queues, buffers, pools, events between pipes.
#pragma once

#include "mco/tensor.h"

namespace AscendC {

class TPipe;

// What a queue is told beyond its depth: a constant of it may be the last template argument. Nothing of it is needed
// here.
struct TQueConfig {
  bool nd2nz = false;
  bool nz2nd = false;
  bool scmBlockGroup = false;
  uint32_t bufferLen = 0;
  uint32_t bufferNumber = 0;
  uint32_t consumerSize = 0;
  TPosition consumer[8] = {};
  bool enableStaticEvtId = false;
  bool enableLoopQueue = false;
};

template <TPosition source, TPosition destination, int32_t depth, auto mask = 0>
class TQueBind {
 public:
  static constexpr int mco_position = int(source == TPosition::GM ? destination : source);
  static constexpr int mco_depth = depth;
  static constexpr TPosition srcPosition = source;
  static constexpr TPosition dstPosition = destination;

  template <class T>
  LocalTensor<T> AllocTensor(mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("AllocTensor");
    return mco_tensor<T>(mco_asc_alloc(&here, queue_));
  }
  template <class T>
  void AllocTensor(LocalTensor<T>& tensor, mco_asc::Where where = mco_asc::Where::here()) {
    tensor = AllocTensor<T>(where);
  }
  template <class T>
  bool EnQue(const LocalTensor<T>& tensor, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("EnQue");
    mco_asc_enqueue(&here, queue_, tensor.mco_home(), -1);
    return true;
  }
  template <TPosition from, TPosition to, class T>
  bool EnQue(const LocalTensor<T>& tensor, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("EnQue");
    mco_asc_enqueue(&here, queue_, tensor.mco_home(), int(from) * 16 + int(to));
    return true;
  }
  template <class T>
  LocalTensor<T> DeQue(mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("DeQue");
    return mco_tensor<T>(mco_asc_dequeue(&here, queue_, -1));
  }
  template <class T>
  void DeQue(LocalTensor<T>& tensor, mco_asc::Where where = mco_asc::Where::here()) {
    tensor = DeQue<T>(where);
  }
  template <TPosition from, TPosition to, class T>
  LocalTensor<T> DeQue(mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("DeQue");
    return mco_tensor<T>(mco_asc_dequeue(&here, queue_, int(from) * 16 + int(to)));
  }
  template <class T>
  void FreeTensor(const LocalTensor<T>& tensor, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("FreeTensor");
    mco_asc_free(&here, queue_, tensor.mco_home());
  }
  bool VacantInQue(mco_asc::Where where = mco_asc::Where::here()) {
    return mco_ask("VacantInQue", MCO_ASC_VACANT, where) != 0;
  }
  bool HasTensorInQue(mco_asc::Where where = mco_asc::Where::here()) {
    return mco_ask("HasTensorInQue", MCO_ASC_QUEUED, where) > 0;
  }
  int32_t GetTensorCountInQue(mco_asc::Where where = mco_asc::Where::here()) {
    return mco_ask("GetTensorCountInQue", MCO_ASC_QUEUED, where);
  }
  bool HasIdleBuffer(mco_asc::Where where = mco_asc::Where::here()) {
    return mco_ask("HasIdleBuffer", MCO_ASC_IDLE, where) != 0;
  }
  void FreeAllEvent() {}
  void InitStartBufHandle(...) {}

  void mco_set(mco_asc_queue* queue) { queue_ = queue; }
  mco_asc_queue* mco_queue() const { return queue_; }

 protected:
  template <class T>
  static LocalTensor<T> mco_tensor(const mco_asc_home* home) {
    return LocalTensor<T>(home->base, home, uint32_t(home->bytes * 8 / mco_asc::bits_of<T>));
  }
  int mco_ask(const char* call, int what, mco_asc::Where where) {
    const mco_asc_where here = where.of(call);
    return mco_asc_ask(&here, queue_, what);
  }

  mco_asc_queue* queue_ = nullptr;
};

template <TPosition position, int32_t depth, auto mask = 0>
class TQue : public TQueBind<position, position, depth, mask> {};

// Memory of L1 that also vector cores fill, for operands of their Matmul objects.
template <TPosition position, int32_t depth = 1, auto mask = 0>
class TSCM : public TQueBind<TPosition::GM, TPosition::TSCM, depth, mask> {
  static_assert(position == TPosition::GM, "AscendC::TSCM: the position is not accepted; accepted: GM");
};

// A buffer without a queue: the same memory at every Get.
template <TPosition position = TPosition::VECCALC>
class TBuf {
 public:
  static constexpr int mco_position = int(position);

  template <class T>
  LocalTensor<T> Get(mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_home* home = mco_home("Get", where);
    return LocalTensor<T>(home->base, home, uint32_t(home->bytes * 8 / mco_asc::bits_of<T>));
  }
  template <class T>
  LocalTensor<T> Get(uint32_t elements, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_home* home = mco_home("Get", where);
    return mco_part<T>("Get", home, elements, 0, where);
  }
  template <class T>
  LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t offset, mco_asc::Where where = mco_asc::Where::here()) {
    return mco_part<T>("GetWithOffset", mco_home("GetWithOffset", where), elements, offset, where);
  }
  uint32_t GetBufLen(mco_asc::Where where = mco_asc::Where::here()) {
    return uint32_t(mco_home("GetBufLen", where)->bytes);
  }
  template <class T>
  LocalTensor<T> AllocTensor(mco_asc::Where where = mco_asc::Where::here()) {
    return Get<T>(where);
  }
  template <class T>
  void FreeTensor(const LocalTensor<T>&) {}
  template <class T>
  void EnQue(const LocalTensor<T>&) {}
  template <class T>
  LocalTensor<T> DeQue(mco_asc::Where where = mco_asc::Where::here()) {
    return Get<T>(where);
  }

  void mco_set(mco_asc_queue* queue) { queue_ = queue; }
  mco_asc_queue* mco_queue() const { return queue_; }

 private:
  const mco_asc_home* mco_home(const char* call, mco_asc::Where where) {
    const mco_asc_where here = where.of(call);
    return mco_asc_whole(&here, queue_);
  }
  template <class T>
  LocalTensor<T> mco_part(const char* call, const mco_asc_home* home, uint32_t elements, uint32_t offset,
                          mco_asc::Where where) {
    const mco_asc_where here = where.of(call);
    const int64_t end = int64_t(offset) + mco_asc::bytes_for<T>(elements);
    if (home->base && end > home->bytes) {
      mco_asc_fault(&here, "bytes [%u, %lld) of a buffer of %lld; accepted: bytes within it", offset, (long long)end,
                    (long long)home->bytes);
    }
    if (offset % 32) mco_asc_fault(&here, "offset is %u bytes; accepted: a multiple of 32", offset);
    return LocalTensor<T>(mco_asc::moved(home->base, offset), home, elements);
  }

  mco_asc_queue* queue_ = nullptr;
};

// A position that stands for the memory of another: a pool gives buffers of its own memory.
constexpr TPosition mco_memory(TPosition p) {
  using P = TPosition;
  if (p == P::B1 || p == P::C1 || p == P::TSCM) return P::A1;
  if (p == P::VECIN || p == P::VECOUT || p == P::SHM || (p == P::CO2 && __NPU_ARCH__ != 2201)) return P::VECCALC;
  return p;
}
#define MCO_ASC_OF_POOL(p)                                                                                       \
  static_assert(mco_memory(p) == mco_memory(position),                                                           \
                "AscendC::TBufPool: the position of the buffer is not accepted; accepted: one in the memory of " \
                "the pool")

// A part of on-chip memory out of which further buffers are made.
template <TPosition position, uint32_t capacity = 16>
class TBufPool {
 public:
  static constexpr int mco_position = int(position);

  template <class Q>
  bool InitBuffer(Q& queue, uint8_t number, uint32_t bytes, mco_asc::Where where = mco_asc::Where::here()) {
    MCO_ASC_OF_POOL(TPosition(Q::mco_position));
    const mco_asc_where here = where.of("InitBuffer");
    queue.mco_set(
        mco_asc_pool_buffer(&here, queue_, Q::mco_position, int(Q::dstPosition), Q::mco_depth, number, bytes));
    return true;
  }
  template <TPosition p>
  bool InitBuffer(TBuf<p>& buffer, uint32_t bytes, mco_asc::Where where = mco_asc::Where::here()) {
    MCO_ASC_OF_POOL(p);
    const mco_asc_where here = where.of("InitBuffer");
    buffer.mco_set(mco_asc_pool_buffer(&here, queue_, int(p), int(p), -1, 1, bytes));
    return true;
  }
  template <class Pool>
  bool InitBufPool(Pool& pool, uint32_t bytes, mco_asc::Where where = mco_asc::Where::here()) {
    MCO_ASC_OF_POOL(TPosition(Pool::mco_position));
    const mco_asc_where here = where.of("InitBufPool");
    pool.mco_set(mco_asc_pool_buffer(&here, queue_, Pool::mco_position, Pool::mco_position, -1, 1, bytes));
    return true;
  }
  template <class Pool, class Shared>
  bool InitBufPool(Pool& pool, uint32_t, Shared& shared) {
    pool.mco_set(shared.mco_queue());
    return true;
  }
  void Reset(mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("Reset");
    mco_asc_pipe_barrier(&here, int(PIPE_ALL));  // what is under way in its buffers ends, as at the Reset of a TPipe
    mco_asc_pool_reset(&here, queue_);
  }

  void mco_set(mco_asc_queue* queue) { queue_ = queue; }
  mco_asc_queue* mco_queue() const { return queue_; }

 private:
  mco_asc_queue* queue_ = nullptr;
};
#undef MCO_ASC_OF_POOL

class TPipe {
 public:
  explicit TPipe(mco_asc::Where where = mco_asc::Where::here()) { Init(where); }
  ~TPipe() { Destroy(); }
  // A copy hands out the same memory, and ends nothing.
  TPipe(const TPipe& other) : pipe_(other.pipe_), copy_(true) { mco_asc_this_core("TPipe")->pipe = this; }
  TPipe& operator=(const TPipe& other) {
    if (this == &other) return *this;
    Destroy();
    pipe_ = other.pipe_, copy_ = true;
    mco_asc_this_core("TPipe")->pipe = this;
    return *this;
  }

  void Init(mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("TPipe");
    Destroy();
    pipe_ = mco_asc_pipe_new(&here);
    copy_ = false;
    mco_asc_this_core("TPipe")->pipe = this;
  }
  void Destroy() {
    if (pipe_ && !copy_) mco_asc_pipe_end(pipe_);
    pipe_ = nullptr;
  }
  void Reset(mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("Reset");
    if (pipe_) mco_asc_pipe_reset(&here, pipe_);
  }
  template <TPosition source, TPosition destination, int32_t depth, auto mask>
  bool InitBuffer(TQueBind<source, destination, depth, mask>& queue, uint8_t number, uint32_t bytes,
                  mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("InitBuffer");
    queue.mco_set(mco_asc_init_buffer(&here, pipe_, queue.mco_position, int(destination), depth, number, bytes));
    return true;
  }
  template <TPosition position>
  bool InitBuffer(TBuf<position>& buffer, uint32_t bytes, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("InitBuffer");
    buffer.mco_set(mco_asc_init_buffer(&here, pipe_, int(position), int(position), -1, 1, bytes));
    return true;
  }
  template <TPosition position, uint32_t capacity>
  bool InitBufPool(TBufPool<position, capacity>& pool, uint32_t bytes, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("InitBufPool");
    pool.mco_set(mco_asc_init_buffer(&here, pipe_, int(position), int(position), -1, 1, bytes));
    return true;
  }
  template <TPosition position, uint32_t capacity, class Shared>
  bool InitBufPool(TBufPool<position, capacity>& pool, uint32_t, Shared& shared) {
    pool.mco_set(shared.mco_queue());
    return true;
  }
  template <HardEvent event>
  TEventID AllocEventID(mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("AllocEventID");
    return TEventID(mco_asc_take_event(&here, int(event), 1));
  }
  template <HardEvent event>
  void ReleaseEventID(int32_t id, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("ReleaseEventID");
    mco_asc_release_event(&here, int(event), id);
  }
  template <HardEvent event>
  TEventID FetchEventID(mco_asc::Where where = mco_asc::Where::here()) {
    return FetchEventID(event, where);
  }
  TEventID FetchEventID(HardEvent event, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("FetchEventID");
    return TEventID(mco_asc_take_event(&here, int(event), 0));
  }
  mco_asc_pipe* mco_pipe() const { return pipe_; }

 private:
  mco_asc_pipe* pipe_ = nullptr;
  bool copy_ = false;
};

inline TPipe* GetTPipePtr() { return static_cast<TPipe*>(mco_asc_this_core("GetTPipePtr")->pipe); }

// All on-chip memory that no buffer has taken yet.
template <class T, TPosition position>
inline bool PopStackBuffer(LocalTensor<T>& tensor, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("PopStackBuffer");
  const mco_asc_home* home = mco_asc_rest(&here, int(position));
  tensor = LocalTensor<T>(home->base, home, uint32_t(home->bytes * 8 / mco_asc::bits_of<T>));
  return true;
}

template <HardEvent event>
inline void SetFlag(int32_t id, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("SetFlag");
  mco_asc_set_flag(&here, int(event), id);
}
template <HardEvent event>
inline void WaitFlag(int32_t id, mco_asc::Where where = mco_asc::Where::here()) {
  const mco_asc_where here = where.of("WaitFlag");
  mco_asc_wait_flag(&here, int(event), id);
}
template <pipe_t pipe>
inline void PipeBarrier(mco_asc::Where where = mco_asc::Where::here()) {
  static_assert(pipe != PIPE_S, "AscendC::PipeBarrier: PIPE_S is not accepted; accepted: another pipe, or PIPE_ALL");
  const mco_asc_where here = where.of("PipeBarrier");
  mco_asc_pipe_barrier(&here, int(pipe));
}
template <MemDsbT kind>
inline void DataSyncBarrier() {}

// A flag between two pipes.
template <pipe_t source, pipe_t destination>
class TQueSync {
  static_assert(source != PIPE_ALL && destination != PIPE_ALL && source != destination,
                "AscendC::TQueSync: these pipes are not accepted; accepted: two different ones, not PIPE_ALL");

 public:
  void SetFlag(TEventID id, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("TQueSync::SetFlag");
    mco_asc_set_flag(&here, mco_event(), id);
  }
  void WaitFlag(TEventID id, mco_asc::Where where = mco_asc::Where::here()) {
    const mco_asc_where here = where.of("TQueSync::WaitFlag");
    mco_asc_wait_flag(&here, mco_event(), id);
  }

 private:
  static constexpr int mco_event() { return int(source) * 8 + int(destination); }
};

enum class Hardware { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };

// Hands out places of a memory one behind the other, without a TPipe.
template <Hardware hardware = Hardware::UB>
class LocalMemAllocator {
 public:
  template <class T, uint32_t elements>
  LocalTensor<T> Alloc(mco_asc::Where where = mco_asc::Where::here()) {
    return Alloc<mco_default(), T>(elements, where);
  }
  template <class T>
  LocalTensor<T> Alloc(uint32_t elements, mco_asc::Where where = mco_asc::Where::here()) {
    return Alloc<mco_default(), T>(elements, where);
  }
  template <TPosition position, class T, uint32_t elements>
  LocalTensor<T> Alloc(mco_asc::Where where = mco_asc::Where::here()) {
    return Alloc<position, T>(elements, where);
  }
  template <TPosition position, class T>
  LocalTensor<T> Alloc(uint32_t elements, mco_asc::Where where = mco_asc::Where::here()) {
    const uint32_t at = next_;
    next_ += uint32_t((mco_asc::bytes_for<T>(elements) + 31) / 32 * 32);
    return LocalTensor<T>(position, at, elements, where);
  }
  uint32_t GetCurAddr() const { return next_; }

 private:
  static constexpr TPosition mco_default() {
    return hardware == Hardware::L1    ? TPosition::A1
           : hardware == Hardware::L0A ? TPosition::A2
           : hardware == Hardware::L0B ? TPosition::B2
           : hardware == Hardware::L0C ? TPosition::CO1
                                       : TPosition::VECCALC;
  }
  uint32_t next_ = 0;
};

}  // namespace AscendC

using AscendC::GetTPipePtr;  // kernels without `using namespace` call it so
