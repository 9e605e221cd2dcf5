// SPDX-License-Identifier: Apache-2.0
// What a block executes: one flat array of steps with their jump targets, made once while a Program is decoded. The
// instructions lie one behind the other in memory, each followed by its operands, arguments, attributes and plan.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "base.h"

namespace mco {

// Memory that is given out piece by piece and lives as long as its owner.
class Chunks {
 public:
  template <class T>
  T* make(size_t n) {
    static_assert(std::is_trivially_destructible<T>::value, "what lies in chunks is never destroyed");
    T* first = static_cast<T*>(take(n * sizeof(T), alignof(T)));
    for (size_t i = 0; i < n; ++i) new (first + i) T();
    return first;
  }

 private:
  void* take(size_t bytes, size_t alignment);

  std::vector<std::unique_ptr<unsigned char[]>> chunks_;
  unsigned char* at_ = nullptr;
  size_t left_ = 0, next_ = 1024;
};

template <class T>
class Slice {
 public:
  Slice() = default;
  Slice(T* first, size_t count) : first_(first), count_(uint32_t(count)) {}
  T& operator[](size_t i) { return first_[i]; }
  const T& operator[](size_t i) const { return first_[i]; }
  const T& back() const { return first_[count_ - 1]; }
  size_t size() const { return count_; }
  T* begin() { return first_; }
  T* end() { return first_ + count_; }
  const T* begin() const { return first_; }
  const T* end() const { return first_ + count_; }

 private:
  T* first_ = nullptr;
  uint32_t count_ = 0;
};

// A tensor operand: `offset` (a root expression) elements of `dtype` into a buffer.
struct Operand {
  uint32_t buffer = 0;
  uint32_t offset = 0;
  DType dtype = F16;
  uint8_t size = 2;
  uint16_t off_grid = 0;  // bits that the start of an on-chip operand must not have, if it is known only while running
  // A place that loading has settled: a constant one in on-chip memory. `room` is 0 for any other.
  uint32_t start = 0;  // bytes into the buffer
  uint32_t room = 0;   // bytes from there to its end
  bool holds(Wide lo, Wide hi) const { return lo >= 0 && lo < hi && hi <= room; }
};

struct OpInfo;
struct Plan;    // what an instruction with constant arguments computed once
struct Waiter;  // what is known of one that may wait (pieces.h)
struct Row;     // and of one of a row (rows.h)

struct Instr {
  const OpInfo* op = nullptr;
  const Plan* plan = nullptr;  // null when an argument is known only at run time
  Slice<Operand> tensors;
  Slice<uint32_t> args;
  Slice<int64_t> attrs;
  uint32_t loc = 0;
  uint8_t straight = 0;            // bits of straight.h
  const Instr* partner = nullptr;  // with kLeaves
  const Waiter* waiter = nullptr;  // null where it may not wait
  const Row* row = nullptr;        // null where it is no row that may wait
};

enum class What : uint8_t {
  Instr,
  Sync,     // an instruction that orders pipes: flags and pipe barriers
  Barrier,  // block_barrier: the block waits for the others behind it
  Begin,    // of a loop: `index` counts from root a to root b; target: behind it
  Blocks,   // of the multi-core loop: one round, for the number of this block
  Next,     // end of a round; target: the first step of the loop
  Test,     // target: where to go on when root a is zero
  Goto,
  Assign,  // register `index` = root a
  Load,    // register `index` = *place
  Store,  // *place = root a; `b` not 0: so many stores from here on are the `target` ones of Stream::stored from number
          // `index` on
  Alloc,  // buffer `index` comes to life
  Free,   // its scope ended; a jump out of the scope goes past it
  NoSync,  // a disable_sync region begins
  Resync,  // it ends; a jump out of the region goes past it
  End,
};

struct Step {
  What what = What::End;
  DType from = I32, to = I32;  // of the root a; of the register or place
  uint32_t loc = 0;
  uint32_t index = 0;
  uint32_t a = 0, b = 0;
  uint32_t target = 0;
  union {
    const Instr* instr;  // Instr, Sync, Barrier
    const Operand* place;
    struct {             // Begin, Blocks, Next
      uint32_t depth;    // number of loops around this one
      uint32_t threads;  // thread_num: rounds that may overlap, each with its own copy of what is made inside
    } loop = {0, 1};
  };
};
static_assert(sizeof(Step) == 32, "two steps in a cache line");

// Bytes [from, from + bytes) of Stream::stored, which belong to byte `at` of an on-chip scope.
struct Stored {
  uint32_t at, bytes, from;
  Scope scope;
};

struct Stream {
  std::vector<Step> steps;
  std::vector<Stored> stored;  // of stores that are made together (stores.h)
  std::vector<uint8_t> stored_bytes;
  Chunks memory;          // of the instructions
  size_t loops = 0;       // the deepest nesting
  uint32_t blocks = ~0u;  // step that begins the multi-core loop; ~0: there is none
  bool has_barrier = false;
};

// Appends steps in the order of the kernel's text and resolves the jumps.
class StreamWriter {
 public:
  explicit StreamWriter(Stream& stream) : stream_(stream) {}

  Step& add(What what, uint32_t loc);
  // Step number of the loop for end_loop. `what` is Begin or Blocks.
  uint32_t begin_loop(What what, uint32_t loc, uint32_t reg, DType dtype, uint32_t from, uint32_t to, uint32_t threads);
  void end_loop(uint32_t begin);
  uint32_t begin_if(uint32_t loc, uint32_t root, DType dtype);
  uint32_t begin_else(uint32_t test);
  void end_if(uint32_t test, uint32_t otherwise);
  void leave_loop(uint32_t loc) { jump(loc, loops_.back().leaving); }
  void next_round(uint32_t loc) { jump(loc, loops_.back().going_on); }
  bool in_loop() const { return !loops_.empty(); }

 private:
  // Jumps to a place that is not known yet form a list through their targets.
  struct Loop {
    uint32_t leaving = kNoStep, going_on = kNoStep;
  };
  static constexpr uint32_t kNoStep = ~0u;
  uint32_t here() const { return uint32_t(stream_.steps.size()); }
  void jump(uint32_t loc, uint32_t& list);
  void land(uint32_t list);

  Stream& stream_;
  std::vector<Loop> loops_;
};

}  // namespace mco
