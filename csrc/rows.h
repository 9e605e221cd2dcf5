// SPDX-License-Identifier: Apache-2.0
// Moves of single rows in a loop: a kernel that gathers rows of GM, or adds rows to GM, by indices of its own makes one
// short move after the other, each to memory that no processor foresees. Such a move waits while the loop goes on:
// its bytes in GM are on their way into the cache meanwhile, and gathered rows that lie side by side on chip are copied
// together, whole cache lines at a time. Every check is made where the move stands; what waits is done before any
// other instruction, store or barrier, adds in their order.
#pragma once

#include "program.h"
#include "simd/kernels.h"

namespace mco {

// What is known while loading of a move that may wait.
struct Row {
  bool adds = false;   // from UB to GM, where it is an atomic add; else from GM to another on-chip memory than UB
  int64_t bytes = 0;   // of the row
  int64_t blocks = 1;  // of a gathered one, 32 bytes each
  int64_t step = 0;    // bytes between them on chip
  Scope scope = L1;    // where a gathered one lies: bytes [lo, hi), those of a buffer
  int64_t lo = 0, hi = 0;
  int64_t extent() const { return (blocks - 1) * step + kBlockBytes; }
  bool meets(const Row& o) const { return scope == o.scope && lo < o.hi && o.lo < hi; }
};

// Finds the moves that may wait.
void make_rows(Program& p);

// The rows of a block that wait: gathered ones, or adds of float32.
class RowQueue {
 public:
  bool empty() const { return !waits_; }
  bool has_adds() const { return adds_ != 0; }
  bool has_gathers() const { return waits_ && !adds_; }
  void gather(const Kernels& k, const Row& row, uint8_t* dst, const uint8_t* src);
  void add(const Kernels& k, uint8_t* dst, const uint8_t* src, int64_t bytes);
  // Does what waits.
  void run(const Kernels& k);
  void clear();

 private:
  static constexpr int kGroups = 4, kMost = 16, kAdds = 8;
  // Gathered rows side by side on chip.
  struct Group {
    const Row* row;
    uint8_t* dst;
    int count, most;
    const uint8_t* src[kMost];
  };
  struct Add {
    uint8_t* dst;
    const uint8_t* src;
    int64_t bytes;
  };
  Group* group_for(const Row& row, uint8_t* dst);
  static void copy(const Kernels& k, Group& g, int rows);

  bool waits_ = false;
  int groups_ = 0;
  Group group_[kGroups];
  int first_ = 0, adds_ = 0;  // of a ring
  Add add_[kAdds];
};

}  // namespace mco
