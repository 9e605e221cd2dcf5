// SPDX-License-Identifier: Apache-2.0
#include "atomics.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "forksafe.h"
#include "number.h"
#include "prefetch.h"
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
Bits added(Bits old, Bits more, bool saturate, AtomicOp op) {
  if (op != AtomicOp::Add) {
    const bool largest = op == AtomicOp::Max;
    if constexpr (is_float(T)) {
      const float x = load_float(&old, T), y = load_float(&more, T);
      return (largest ? y > x : y < x) ? more : old;
    } else {
      const int64_t x = load_int(&old, T), y = load_int(&more, T);
      return (largest ? y > x : y < x) ? more : old;
    }
  }
  if constexpr (is_float(T)) {
    Bits out;
    store_float(&out, load_float(&old, T) + load_float(&more, T), T, saturate);
    return out;
  } else {
    return Bits(old + more);
  }
}

template <DType T>
void add_all(uint8_t* at, const uint8_t* bytes, int64_t size, bool saturate, bool concurrent, AtomicOp op) {
  typedef typename Word<kSize[T]>::type Bits;
  for (int64_t i = 0; i < size; i += int64_t(sizeof(Bits))) {
    Bits old, more;
    std::memcpy(&more, bytes + i, sizeof more);
    if (!concurrent) {
      std::memcpy(&old, at + i, sizeof old);
      old = added<T>(old, more, saturate, op);
      std::memcpy(at + i, &old, sizeof old);
      continue;
    }
    Bits* element = reinterpret_cast<Bits*>(at + i);
    old = __atomic_load_n(element, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(element, &old, added<T>(old, more, saturate, op), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
  }
}

}  // namespace

void atomic_add(uint8_t* at, const uint8_t* bytes, int64_t size, DType t, bool saturate, bool concurrent, AtomicOp op) {
  if (t == F32 && !concurrent && op == AtomicOp::Add) return kernels().add_floats(at, bytes, size);
  switch (t) {
    case F32:
      return add_all<F32>(at, bytes, size, saturate, concurrent, op);
    case F16:
      return add_all<F16>(at, bytes, size, saturate, concurrent, op);
    case BF16:
      return add_all<BF16>(at, bytes, size, saturate, concurrent, op);
    case I8:
      return add_all<I8>(at, bytes, size, saturate, concurrent, op);
    case I16:
      return add_all<I16>(at, bytes, size, saturate, concurrent, op);
    case I32:
      return add_all<I32>(at, bytes, size, saturate, concurrent, op);
    default:
      fail("an atomic add of %s; accepted: float32, float16, bfloat16, int8, int16, int32", kDTypeName[t]);
  }
}

namespace {

constexpr int64_t kKeptLogBytes = int64_t(64) << 20;
constexpr int64_t kChunkBytes = int64_t(1) << 20;

// What logs have left behind: what was used last is given out first.
struct Logs {
  std::mutex mutex;
  std::vector<AtomicLog> spare;
  std::vector<LogChunk> chunks;
  int64_t bytes = 0;
};

LogChunk take_chunk(int64_t size) {
  if (size == kChunkBytes) {
    Logs& logs = fork_safe<Logs>();
    std::lock_guard<std::mutex> lock(logs.mutex);
    if (!logs.chunks.empty()) {
      LogChunk chunk = std::move(logs.chunks.back());
      logs.chunks.pop_back();
      logs.bytes -= chunk.size;
      return chunk;
    }
  }
  return {std::unique_ptr<uint8_t[]>(new uint8_t[size_t(size)]), size};
}

void give_chunks(std::vector<LogChunk>& chunks) noexcept {
  Logs& logs = fork_safe<Logs>();
  std::lock_guard<std::mutex> lock(logs.mutex);
  for (; !chunks.empty(); chunks.pop_back()) {
    const int64_t size = chunks.back().size;
    if (size != kChunkBytes || logs.bytes + size > kKeptLogBytes) continue;
    try {
      logs.chunks.push_back(std::move(chunks.back()));
      logs.bytes += size;
    } catch (const std::bad_alloc&) {
      // then it is freed
    }
  }
}

}  // namespace

// Whole or not at all: what a block has logged lands also when it fails.
void AtomicLog::add(uint32_t buffer, uint8_t* at, const uint8_t* bytes, int64_t size, DType t) {
  if (chunks_.empty() || left_ < size) {
    chunks_.reserve(chunks_.size() + 1);
    // As much again as there is: many blocks may wait that have logged little.
    chunks_.push_back(take_chunk(std::max(size, std::min(bytes_, kChunkBytes))));
    left_ = chunks_.back().size;
  }
  uint8_t* const place = chunks_.back().memory.get() + chunks_.back().size - left_;
  if (!touches(buffer)) buffers_.push_back(buffer);
  entries_.push_back({at, place, size, t});
  std::memcpy(place, bytes, size_t(size));
  left_ -= size;
  bytes_ += size;
}

bool AtomicLog::touches(uint32_t buffer) const {
  return std::find(buffers_.begin(), buffers_.end(), buffer) != buffers_.end();
}

void AtomicLog::apply(bool saturate) {
  if (empty()) return;
  constexpr size_t kAhead = 4;
  constexpr int64_t kMostHinted = 4 << 10;  // the processor foresees the rest
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (i + kAhead < entries_.size()) {
      const Entry& later = entries_[i + kAhead];
      prefetch_to_write(later.at, std::min(later.size, kMostHinted));
    }
    const Entry& e = entries_[i];
    atomic_add(e.at, e.bytes, e.size, e.dtype, saturate, false);
  }
  clear();
}

void AtomicLog::clear() noexcept {
  entries_.clear();
  if (!chunks_.empty()) give_chunks(chunks_);
  buffers_.clear();
  left_ = bytes_ = 0;
}

AtomicLog take_log() {
  Logs& logs = fork_safe<Logs>();
  std::lock_guard<std::mutex> lock(logs.mutex);
  if (logs.spare.empty()) return AtomicLog();
  AtomicLog log = std::move(logs.spare.back());
  logs.spare.pop_back();
  logs.bytes -= log.capacity();
  return log;
}

void give_log(AtomicLog&& log) noexcept {
  log.clear();
  Logs& logs = fork_safe<Logs>();
  std::lock_guard<std::mutex> lock(logs.mutex);
  const int64_t bytes = log.capacity();
  if (bytes == 0 || logs.bytes + bytes > kKeptLogBytes) return;
  try {
    logs.spare.push_back(std::move(log));
    logs.bytes += bytes;
  } catch (const std::bad_alloc&) {
    // then it is freed
  }
}

BlockOrder::BlockOrder(int64_t blocks, bool saturate)
    : state_(size_t(blocks)), pending_(size_t(blocks)), saturate_(saturate) {}

// The lower blocks are on other threads, which stop when the watch says so.
void BlockOrder::wait_turn(int64_t block, Watch& watch) {
  constexpr std::chrono::milliseconds kLook(20);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [&] { return next_ >= block; })) {
    lock.unlock();
    watch.look();
    lock.lock();
  }
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
  while (next_ < int64_t(state_.size()) && state_[size_t(next_)].progress != Progress::Running) {
    AtomicLog& log = pending_[size_t(next_)];
    if (!log.empty()) {
      log.apply(saturate_);
      give_log(std::move(log));
    }
    ++next_;
  }
  if (next_ != before) changed_.notify_all();
}

void BlockOrder::arrive(int64_t block, AtomicLog& log, uint32_t loc) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  hand_over(block, log);
  state_[size_t(block)] = {Progress::Arrived, loc};
  advance();
}

void BlockOrder::end(int64_t block, AtomicLog& log) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  hand_over(block, log);
  state_[size_t(block)].progress = Progress::Ended;
  advance();
}

bool BlockOrder::next_stage(const Program& program) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t blocks = int64_t(state_.size());
  int64_t first = blocks;
  std::string ended;
  for (int64_t i = blocks - 1; i >= 0; --i) {
    if (!has_ended(i)) first = i;
  }
  if (first == blocks) return false;
  for (int64_t i = 0; i < blocks; ++i) {
    if (has_ended(i)) ended += (ended.empty() ? "" : ", ") + std::to_string(i);
  }
  if (!ended.empty()) {
    fail("block_barrier: blocks [%s] of %s ended while block %lld waits; accepted: every block arrives [%s]",
         ended.c_str(), program.name.c_str(), (long long)first, program.location(state_[size_t(first)].loc).c_str());
  }
  std::fill(state_.begin(), state_.end(), State());
  next_ = 0;
  return true;
}

}  // namespace mco
