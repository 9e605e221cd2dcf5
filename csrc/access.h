// SPDX-License-Identifier: Apache-2.0
// Which bytes an instruction touches: ms_custom_ops/program/access in C++, function by function. The rows name their
// function there and here (isa_rows.inc); a test compares both.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "instruction.h"
#include "lanes.h"

namespace mco {

// Bytes start + i * step + j * outer_step + [0, bytes) for i < count, j < outer_count, from the start of an operand.
struct Box {
  int64_t start = 0, bytes = 0, count = 1, step = 0, outer_count = 1, outer_step = 0;
  Wide end() const { return Wide(start) + Wide(count - 1) * step + Wide(outer_count - 1) * outer_step + bytes; }
};

struct Touched {
  std::vector<Box> boxes;
  bool exact = true;  // else at most these bytes

  // Adds a box, or nothing where it would be empty; runs that follow each other become one.
  void add(int64_t start, int64_t bytes, int64_t count = 1, int64_t step = 0, int64_t outer_count = 1,
           int64_t outer_step = 0);
  // Boxes of runs of `bytes` bytes at `starts`, in any order, repeated or not.
  void scatter(std::vector<int64_t>& starts, int64_t bytes);
  // First byte and one past the last; (0, 0) when there are none.
  void hull(Wide& lo, Wide& hi) const;
  void clear() {
    boxes.clear();
    exact = true;
  }
};

// f(first, end) for every run of bytes of a box, in order.
template <class F>
void each_run(const Box& b, F f) {
  for (int64_t j = 0; j < b.outer_count; ++j) {
    int64_t at = b.start + j * b.outer_step;
    for (int64_t i = 0; i < b.count; ++i, at += b.step) f(at, at + b.bytes);
  }
}
template <class F>
void each_run(const Touched& t, F f) {
  for (const Box& b : t.boxes) each_run(b, f);
}

// Repeats [first, first + repeats) whose lanes `runs` ([first, end) each) are on.
struct LaneGroup {
  int64_t first = 0, repeats = 0;
  std::vector<std::pair<int64_t, int64_t>> runs;
};
using LaneGroups = std::vector<LaneGroup>;

// Values of one execution of an instruction by the names of its row.
class Use {
 public:
  // Throws Error where an argument has no value.
  Use(const Machine& m, const Instr& in);

  // Whether the numbers are small enough that no byte of an access is further than 63 bits away. Others fit no memory.
  bool sane() const { return sane_; }
  int64_t arg(const char* name) const { return values_[size_t(index(name))]; }
  bool has(const char* name) const { return find(name) >= 0; }
  int64_t attr(const char* name) const;
  bool has_attr(const char* name) const { return find_attr(name) >= 0; }
  int64_t size(int operand) const { return in.tensors[size_t(operand)].size; }
  const char* name(int operand) const { return in.op->tensors[size_t(operand)].name; }
  int operand(const char* name) const;  // -1: there is none
  Scope scope(int operand) const;
  // Of an argument that an operand has for itself: <operand>_<what>.
  int64_t of(int operand, const char* what) const;
  bool has_of(int operand, const char* what) const;
  // Bytes from the start of an operand to the end of its tensor.
  int64_t room(int operand) const;
  // Lanes, for rows with a mask or block strides.
  const Plan& plan() const;
  const LaneGroups& groups() const;

  const Machine& machine;
  const Instr& in;

 private:
  int find(const char* name) const;
  int find_attr(const char* name) const;
  int index(const char* name) const;

  std::vector<int64_t> values_;
  bool sane_ = true;
  mutable PlanRoom room_;
  mutable const Plan* plan_ = nullptr;
  mutable LaneGroups groups_;
  mutable bool grouped_ = false;
};

// The bytes operand number `operand` is touched on. Throws Error as Use does.
void touched_bytes(const Use& use, int operand, Touched& out);
// Of an operand whose bytes depend on data that is in memory now: those bytes, exactly. False where the data cannot be
// read, or is not known before the instruction runs.
bool touched_by_data(const Use& use, int operand, Touched& out);
bool reads(const Instr& in, int operand);
inline bool writes(const Instr& in, int operand) { return in.op->tensors[size_t(operand)].written; }

namespace access {
namespace lanes {
void lanes(const Use&, int, Touched&);
void compare(const Use&, int, Touched&);
void select(const Use&, int, Touched&);
void half_blocks(const Use&, int, Touched&);
void border(const Use&, int, Touched&);
void reductions(const Use&, int, Touched&);
void compaction(const Use&, int, Touched&);
}  // namespace lanes
namespace gather {
void gather(const Use&, int, Touched&);
void blocks(const Use&, int, Touched&);
void bilinear(const Use&, int, Touched&);
}  // namespace gather
namespace groups {
void field(const Use&, int, Touched&);
void sort16(const Use&, int, Touched&);
void sort32(const Use&, int, Touched&);
void merge(const Use&, int, Touched&);
void areas(const Use&, int, Touched&);
void square(const Use&, int, Touched&);
void heads(const Use&, int, Touched&);
void suppression(const Use&, int, Touched&);
}  // namespace groups
namespace bursts {
void bursts(const Use&, int, Touched&);
void padded_bursts(const Use&, int, Touched&);
void l0c_bursts(const Use&, int, Touched&);
void fixpipe(const Use&, int, Touched&);
void matrices(const Use&, int, Touched&);
void fractals(const Use&, int, Touched&);
void squares(const Use&, int, Touched&);
void fill(const Use&, int, Touched&);
void filled_blocks(const Use&, int, Touched&);
void transpose(const Use&, int, Touched&);
void rows_of_16(const Use&, int, Touched&);
void crop(const Use&, int, Touched&);
void nothing(const Use&, int, Touched&);
}  // namespace bursts
namespace cube {
void mmad(const Use&, int, Touched&);
void matmul(const Use&, int, Touched&);
void broadcast(const Use&, int, Touched&);
void l0c_out(const Use&, int, Touched&);
void l0c_matrix(const Use&, int, Touched&);
}  // namespace cube
namespace image {
void load3dv1(const Use&, int, Touched&);
void load3dv2(const Use&, int, Touched&);
void col2img(const Use&, int, Touched&);
void conv2d(const Use&, int, Touched&);
}  // namespace image
}  // namespace access

}  // namespace mco
