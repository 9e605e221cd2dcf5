// SPDX-License-Identifier: Apache-2.0
// Atomic adds of the blocks: the arithmetic, the log of a block whose turn has not come, and the order of blocks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "program.h"
#include "watch.h"

namespace mco {

enum class AtomicOp : uint8_t { Add, Max, Min };

// at[i] += bytes[i] in dtype t, or the larger or smaller of both. `concurrent`: other threads do so with the same
// elements at the same time.
void atomic_add(uint8_t* at, const uint8_t* bytes, int64_t size, DType t, bool saturate, bool concurrent,
                AtomicOp op = AtomicOp::Add);

struct LogChunk {
  std::unique_ptr<uint8_t[]> memory;
  int64_t size = 0;
};

// Adds of one block that wait until every lower block is done. What they add lies in chunks that all logs share: a log
// never moves what it holds, and the next one finds the chunks in the cache.
class AtomicLog {
 public:
  AtomicLog() = default;
  AtomicLog(AtomicLog&&) = default;
  AtomicLog& operator=(AtomicLog&&) = default;
  ~AtomicLog() { clear(); }
  void add(uint32_t buffer, uint8_t* at, const uint8_t* bytes, int64_t size, DType t);
  void apply(bool saturate);
  void clear() noexcept;
  bool empty() const { return entries_.empty(); }
  bool touches(uint32_t buffer) const;
  int64_t bytes() const { return bytes_; }
  int64_t capacity() const { return int64_t(entries_.capacity() * sizeof(Entry)); }

 private:
  struct Entry {
    uint8_t* at;
    const uint8_t* bytes;
    int64_t size;
    DType dtype;
  };
  std::vector<Entry> entries_;
  std::vector<LogChunk> chunks_;
  std::vector<uint32_t> buffers_;
  int64_t left_ = 0, bytes_ = 0;  // in the last chunk; logged
};

// An empty log with memory that an earlier one has grown, and back.
AtomicLog take_log();
void give_log(AtomicLog&& log) noexcept;

// Progress of the blocks of one run. A block's turn comes when every lower block has ended or waits at the barrier:
// then all adds of the lower blocks (of this stage between two barriers) have landed.
class BlockOrder {
 public:
  BlockOrder(int64_t blocks, bool saturate);

  bool has_turn(int64_t block) const { return next_.load(std::memory_order_acquire) >= block; }
  void wait_turn(int64_t block, Watch& watch);
  // The block rests at the barrier at location `loc` until the next stage.
  void arrive(int64_t block, AtomicLog& log, uint32_t loc) noexcept;
  void end(int64_t block, AtomicLog& log) noexcept;
  bool has_ended(int64_t block) const { return state_[size_t(block)].progress == Progress::Ended; }
  // When every block has arrived or ended: whether there is a next stage, which then begins. Throws when only some
  // have arrived.
  bool next_stage(const Program& program);

 private:
  enum class Progress : uint8_t { Running, Arrived, Ended };
  struct State {
    Progress progress = Progress::Running;
    uint32_t loc = 0;
  };
  void hand_over(int64_t block, AtomicLog& log);
  void advance();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> state_;
  std::vector<AtomicLog> pending_;
  const bool saturate_;
  std::atomic<int64_t> next_{0};  // lowest block that is still running; changed under the mutex
};

}  // namespace mco
