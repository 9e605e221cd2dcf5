// SPDX-License-Identifier: Apache-2.0
// Vector instructions and moves over whole tiles, executed in pieces that stay in the first-level cache: instructions
// that follow each other wait until another one needs what they touch, and then a piece of a tile goes through all of
// them before the next one does. Conditions and assignments may lie between them. Every check is made where the
// instruction stands, every lane is computed as before, and what reads or overwrites bytes comes after what goes before
// it there. A move out of GM is left out where all that is read of its copy is read before it is overwritten.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "program.h"
#include "simd/kernels.h"

namespace mco {

class Machine;

// Bytes [lo, hi) of UB, or some bytes of GM. Element e is the bytes from lo + e * step on; step 0: all at once.
struct Reach {
  int64_t lo = 0, hi = 0;
  int32_t step = 0;
  bool write = false, gm = false;
  bool meets(const Reach& o) const { return (write || o.write) && gm == o.gm && (gm || (lo < o.hi && o.lo < hi)); }
};

// What is known while loading of an instruction that may wait.
struct Waiter {
  enum Kind : uint8_t { Lanes, Convert, In, Out, Whole };  // In, Out: moves from and to GM; Whole: never cut
  static constexpr int kMost = 4;

  Kind kind = Whole;
  bool begins = false;  // other instructions wait for it
  int reaches = 0;
  int sources = 0;     // of Lanes; a dst that is read as well is none
  int64_t count = 1;   // elements
  int64_t piece = 1;   // elements of a piece
  Reach reach[kMost];  // first what is written; of Lanes and moves then the sources in their order
  bool is_source(int number) const { return kind == Lanes && number >= 1 && number <= sources; }
};

// `count` elements from `first` on of a member of a sequence. Where `from` is not kOwn, a source lies in GM yet, where
// the move with that number would have copied it from.
struct Piece {
  static constexpr uint8_t kOwn = 255;
  uint8_t member = 0;
  uint8_t from[2] = {kOwn, kOwn};
  int32_t first = 0, count = 0;
};

// How a member is executed: an operation of lanes, or a conversion or move from s0 to dst. Places are bytes from the
// start of UB; the far side of a move is that of the moment.
struct Still {
  static constexpr int64_t kNone = -1;
  Waiter::Kind kind = Waiter::Whole;
  uint8_t op = 0;              // LaneOp
  DType to = F32, from = F32;  // of dst and s0
  int32_t step = 0;            // bytes of an element of dst
  float scalar = 0;
  int64_t iscalar = 0;
  int64_t dst = kNone, source[2] = {kNone, kNone};
  int64_t shift[2] = {0, 0};  // of a source from the start of the copy that it would lie in
};

struct Order {
  std::vector<Piece> pieces;
  std::vector<Still> members;
};

// The sequences of instructions that have waited together, as paths of a tree, with the order of their pieces. Blocks
// of all threads share them. Both numbers are limited.
class Sequences {
 public:
  static constexpr size_t kMostMembers = 64;
  struct Node {
    const Instr* instr = nullptr;
    Node* before = nullptr;
    size_t depth = 0;
    std::atomic<Node*> first{nullptr};
    Node* other = nullptr;  // with the same one before it
    std::atomic<const Order*> order{nullptr};
  };

  Node* begin() { return &root_; }
  // The sequence with one more instruction; null where there is no room for it.
  Node* longer(Node* node, const Instr& in);
  // The order of its pieces, made with the machine that comes first; null: one instruction after the other.
  const Order* order(Node* node, Machine& m);

 private:
  static constexpr size_t kMostNodes = 4096, kMostOrders = 256;
  std::mutex mutex_;
  Node root_;
  std::deque<Node> nodes_;
  std::deque<Order> orders_;
};

// Finds the instructions that may wait.
void make_pieces(Program& p);
// How an instruction is executed, with addresses.
Still still_of(Machine& m, const Instr& in);

}  // namespace mco
