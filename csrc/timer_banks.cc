// SPDX-License-Identifier: Apache-2.0
// Bank conflicts of UB. Memory is cut into rows of 32 bytes; row r belongs to group r mod `bank_groups`, and within its
// group to bank (address / (bank_bytes * groups)) mod `banks_per_group`. A group serves one read or one write a cycle.
#include <algorithm>

#include "handlers.h"
#include "lanes.h"
#include "timer.h"

namespace mco {

namespace {

constexpr int kMaxGroups = 32, kMaxRows = 64;

// Rows that one repeat reads or writes.
class BankRows {
 public:
  void add(int64_t row) {
    for (int i = 0; i < count_; ++i) {
      if (rows_[i] == row) return;  // read once for both
    }
    if (count_ < kMaxRows) rows_[count_++] = row;
  }
  void clear() { count_ = 0; }
  // Cycles until each group has served its rows.
  int cycles(const Chip& chip) const {
    int in_group[kMaxGroups] = {}, most = 0;
    const int groups = int(chip.bank_groups);
    for (int i = 0; i < count_; ++i) most = std::max(most, ++in_group[rows_[i] % groups]);
    const int ports = int(chip.group_ports);
    return (most + ports - 1) / ports;
  }
  bool shares_bank(const BankRows& other, const Chip& chip) const {
    for (int i = 0; i < count_; ++i) {
      for (int j = 0; j < other.count_; ++j) {
        if (same_bank(rows_[i], other.rows_[j], chip)) return true;
      }
    }
    return false;
  }
  static bool same_bank(int64_t a, int64_t b, const Chip& chip) {
    const int64_t groups = int64_t(chip.bank_groups), rows = int64_t(chip.bank_bytes) / kBlockBytes * groups;
    return a % groups == b % groups && a / rows == b / rows;
  }
  bool empty() const { return count_ == 0; }

 private:
  int64_t rows_[kMaxRows];
  int count_ = 0;
};

int64_t row_of(const Machine& m, const Instr& in, int tensor, const Shifts& shifts) {
  const uint8_t* base = m.view(in.tensors[size_t(tensor)].buffer).base;
  const uint8_t* scope = m.arena.base(m.scope(in, tensor));
  return (base - scope + shifts[in.tensors[size_t(tensor)].buffer] + m.place(in, tensor)) / kBlockBytes;
}

// Cycles beyond one for a repeat.
double extra(const BankRows& reads, const BankRows& writes, bool in_line, const Chip& chip, bool& conflict) {
  const double more = std::max({reads.cycles(chip), writes.cycles(chip), 1}) - 1;
  const bool crossed = !in_line && reads.shares_bank(writes, chip);
  const double found = more + (crossed ? chip.conflict_read_write : 0);
  const double all = found + (more > 0 && !conflict ? chip.conflict_switch : 0);
  conflict = more > 0;
  return all;
}

double nchw(const Machine& m, const Instr& in, const Chip& chip, const Shifts& shifts) {
  const int64_t repeats = m.arg(in, isa::vnchwconv::repeat);
  BankRows reads, writes;
  for (int i = 0; i < 16; ++i) {
    writes.add(row_of(m, in, i, shifts));
    reads.add(row_of(m, in, 16 + i, shifts));
  }
  // 512 bytes take two cycles each way without a conflict, which the cost of the row has.
  return double(repeats) * std::max(0, std::max(reads.cycles(chip), writes.cycles(chip)) - 2);
}

}  // namespace

double bank_cycles(const Machine& m, const Instr& in, const Chip& chip, const Shifts& shifts) {
  if (in.op->run == run_nchw) return nchw(m, in, chip, shifts);
  const LaneShape& shape = in.op->shape;
  PlanRoom room;
  if (shape.operands == 0 || in.op->run == run_vreduce) return 0;
  const Plan& plan = plan_of(m, in, room);
  if (plan.empty()) return 0;
  struct Side {
    int64_t row, blk, rep;
    int blocks;
    bool read, written;
  } sides[4];
  int count = 0;
  bool in_line = false;
  for (int i = 0; i < plan.operands; ++i) {
    const int tensor = shape.tensor[i];
    if (m.scope(in, tensor) != UB) continue;
    const OperandRow& row = in.op->tensors[size_t(tensor)];
    const Lanes& l = plan.operand[i];
    const int64_t lanes = plan.by_bits ? plan.lanes : std::max(plan.count, plan.last);
    const int64_t per_block = kBlockBytes / l.size;
    sides[count++] = {row_of(m, in, tensor, shifts),
                      l.blk / kBlockBytes,
                      l.rep / kBlockBytes,
                      l.blk == 0 ? 1 : int(ceil_div(lanes, per_block)),
                      row.read,
                      row.written};
  }
  for (int i = 1; i < count; ++i) {
    const bool lined = (sides[i].row - sides[0].row) % int64_t(chip.bank_groups) == 0;
    in_line = in_line || (sides[0].written && lined && BankRows::same_bank(sides[i].row, sides[0].row, chip));
  }
  constexpr int64_t kSample = 32;  // the groups of repeats recur
  const int64_t sampled = std::min(plan.repeats, kSample);
  bool conflict = false;
  double sum = 0;
  BankRows reads, writes;
  for (int64_t r = 0; r < sampled; ++r) {
    reads.clear();
    writes.clear();
    for (int i = 0; i < count; ++i) {
      const Side& s = sides[i];
      for (int b = 0; b < s.blocks; ++b) {
        const int64_t row = s.row + r * s.rep + b * s.blk;
        if (s.read && (r == 0 || s.rep != 0)) reads.add(row);
        if (s.written) writes.add(row);
      }
    }
    sum += extra(reads, writes, in_line, chip, conflict);
  }
  return sum / double(sampled) * double(plan.repeats);
}

}  // namespace mco
