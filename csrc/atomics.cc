// SPDX-License-Identifier: Apache-2.0
#include "atomics.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "forksafe.h"
#include "number.h"
#include "simd/kernels.h"

namespace mco {

namespace {

template <int Bytes>
struct Word;
template <>
struct Word<1> {
  typedef uint8_t type;
};
template <>
struct Word<2> {
  typedef uint16_t type;
};
template <>
struct Word<4> {
  typedef uint32_t type;
};

template <DType T, class Bits>
Bits added(Bits old, Bits more, bool saturate) {
  if constexpr (is_float(T)) {
    Bits out;
    store_float(&out, load_float(&old, T) + load_float(&more, T), T, saturate);
    return out;
  } else {
    return Bits(old + more);
  }
}

template <DType T>
void add_all(uint8_t* at, const uint8_t* bytes, int64_t size, bool saturate, bool concurrent) {
  typedef typename Word<kSize[T]>::type Bits;
  for (int64_t i = 0; i < size; i += int64_t(sizeof(Bits))) {
    Bits old, more;
    std::memcpy(&more, bytes + i, sizeof more);
    if (!concurrent) {
      std::memcpy(&old, at + i, sizeof old);
      old = added<T>(old, more, saturate);
      std::memcpy(at + i, &old, sizeof old);
      continue;
    }
    Bits* element = reinterpret_cast<Bits*>(at + i);
    old = __atomic_load_n(element, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(element, &old, added<T>(old, more, saturate), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
  }
}

}  // namespace

void atomic_add(uint8_t* at, const uint8_t* bytes, int64_t size, DType t, bool saturate, bool concurrent) {
  if (concurrent && reinterpret_cast<uintptr_t>(at) % kSize[t]) {
    fail("an atomic add at an address that is no multiple of the element size needs deterministic=1");
  }
  if (t == F32 && !concurrent) return kernels().add_floats(at, bytes, size);
  switch (t) {
    case F32:
      return add_all<F32>(at, bytes, size, saturate, concurrent);
    case F16:
      return add_all<F16>(at, bytes, size, saturate, concurrent);
    case BF16:
      return add_all<BF16>(at, bytes, size, saturate, concurrent);
    case I8:
      return add_all<I8>(at, bytes, size, saturate, concurrent);
    case I16:
      return add_all<I16>(at, bytes, size, saturate, concurrent);
    case I32:
      return add_all<I32>(at, bytes, size, saturate, concurrent);
    default:
      fail("an atomic add of %s; accepted: float32, float16, bfloat16, int8, int16, int32", kDTypeName[t]);
  }
}

void AtomicLog::add(uint32_t buffer, uint8_t* at, const uint8_t* bytes, int64_t size, DType t) {
  entries_.push_back({at, size, t});
  data_.insert(data_.end(), bytes, bytes + size);
  if (!touches(buffer)) buffers_.push_back(buffer);
}

bool AtomicLog::touches(uint32_t buffer) const {
  return std::find(buffers_.begin(), buffers_.end(), buffer) != buffers_.end();
}

void AtomicLog::apply(bool saturate) {
  const uint8_t* bytes = data_.data();
  for (const Entry& e : entries_) {
    atomic_add(e.at, bytes, e.size, e.dtype, saturate, false);
    bytes += e.size;
  }
  clear();
}

void AtomicLog::clear() {
  entries_.clear();
  data_.clear();
  buffers_.clear();
}

namespace {

constexpr int64_t kKeptLogBytes = int64_t(64) << 20;

struct Logs {
  std::mutex mutex;
  std::vector<AtomicLog> spare;
  int64_t bytes = 0;
};

}  // namespace

AtomicLog take_log() {
  Logs& logs = fork_safe<Logs>();
  std::lock_guard<std::mutex> lock(logs.mutex);
  if (logs.spare.empty()) return AtomicLog();
  AtomicLog log = std::move(logs.spare.back());
  logs.spare.pop_back();
  logs.bytes -= log.capacity();
  return log;
}

void give_log(AtomicLog&& log) {
  Logs& logs = fork_safe<Logs>();
  std::lock_guard<std::mutex> lock(logs.mutex);
  if (log.capacity() == 0 || logs.bytes + log.capacity() > kKeptLogBytes) return;
  log.clear();
  logs.bytes += log.capacity();
  logs.spare.push_back(std::move(log));
}

BlockOrder::BlockOrder(int64_t blocks, bool saturate)
    : state_(size_t(blocks), State::Running), pending_(size_t(blocks)), saturate_(saturate) {}

bool BlockOrder::has_turn(int64_t block) {
  std::lock_guard<std::mutex> lock(mutex_);
  return next_ >= block;
}

void BlockOrder::wait_turn(int64_t block) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return next_ >= block || aborted_; });
  if (next_ < block) throw Aborted();
}

// Takes what a block has logged and leaves it an empty log.
void BlockOrder::hand_over(int64_t block, AtomicLog& log) {
  if (log.empty()) return;
  pending_[size_t(block)] = std::move(log);
  log = take_log();
}

// Lands what the blocks left behind, in their order.
void BlockOrder::advance() {
  const int64_t before = next_;
  while (next_ < int64_t(state_.size()) && state_[size_t(next_)] != State::Running) {
    AtomicLog& log = pending_[size_t(next_)];
    if (!log.empty()) {
      log.apply(saturate_);
      give_log(std::move(log));
    }
    ++next_;
  }
  if (next_ != before) changed_.notify_all();
}

// After an error of a block that one is what went wrong, not that the others wait in vain.
void BlockOrder::check_stuck() {
  if (!aborted_ && !stuck_ && arrived_ && ended_ && arrived_ + ended_ == int64_t(state_.size())) {
    stuck_ = true;
    stuck_by_ = ended_blocks();  // before those that wait give up and end, too
    changed_.notify_all();
  }
}

std::string BlockOrder::ended_blocks() const {
  std::string text;
  for (size_t i = 0; i < state_.size(); ++i) {
    if (state_[i] == State::Ended) text += (text.empty() ? "" : ", ") + std::to_string(i);
  }
  return text;
}

void BlockOrder::arrive(int64_t block, AtomicLog& log, const std::string& kernel, const std::string& where) {
  std::unique_lock<std::mutex> lock(mutex_);
  hand_over(block, log);
  state_[size_t(block)] = State::Arrived;
  ++arrived_;
  advance();
  if (arrived_ == int64_t(state_.size())) {
    std::fill(state_.begin(), state_.end(), State::Running);
    arrived_ = 0;
    next_ = 0;
    ++stage_;
    changed_.notify_all();
    return;
  }
  check_stuck();
  const uint64_t stage = stage_;
  changed_.wait(lock, [&] { return stage_ != stage || aborted_ || stuck_; });
  if (stage_ != stage) return;
  if (!stuck_) throw Aborted();
  fail("block_barrier: blocks [%s] of %s ended while block %lld waits; accepted: every block arrives [%s]",
       stuck_by_.c_str(), kernel.c_str(), (long long)block, where.c_str());
}

void BlockOrder::end(int64_t block, AtomicLog& log) {
  std::lock_guard<std::mutex> lock(mutex_);
  hand_over(block, log);
  state_[size_t(block)] = State::Ended;
  ++ended_;
  advance();
  check_stuck();
}

void BlockOrder::abort() {
  std::lock_guard<std::mutex> lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

}  // namespace mco
