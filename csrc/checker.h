// SPDX-License-Identifier: Apache-2.0
// The observer of mode "checked": looks at every access before it happens, byte by byte, and goes on after a finding
// where that is safe.
//
// A byte that no instruction wrote may be read: lanes beyond a tail are computed and thrown away. What is computed from
// it carries its mark (shadow.h), and a finding is made where such bytes decide something (a scalar, an offset) or are
// what an output holds at the end; it names the line that read them first.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cores.h"
#include "findings.h"
#include "pipes.h"
#include "shadow.h"
#include "walk.h"

namespace mco {

constexpr uint8_t kPoison = 0xFF;  // NaN as a float, -1 or the largest as an integer

class GmOrder;

struct CheckOptions {
  int64_t events = 8;        // flags between two pipes
  bool values = false;       // also results that are no number, or saturated
  bool manual_sync = false;  // nothing orders the pipes but flags and barriers, everywhere
  bool within_pipe = false;  // an instruction may start before the one ahead of it in its pipe has ended
  // Of a front end that runs its kernel while it reads it, all cores on one thread: any tensor in GM may be written,
  // the scalar unit is ordered with the pipes, moves land at once, and the cores' accesses go to `order`.
  GmOrder* order = nullptr;
};

// An access that is no instruction of the table.
struct DirectAccess {
  uint32_t buffer = 0;
  int64_t start = 0, bytes = 0;
  bool reads = false, writes = false;
  int pipe = 0;
  uint32_t loc = 0;
  int64_t element = 1;  // bytes of an element, of a library function
};

// One operand of one execution.
struct OperandUse {
  uint32_t buffer = 0;
  int64_t start = 0;  // bytes into the buffer
  bool reads = false, writes = false;
  bool again = false;  // writes over bytes in GM that hold something
  const Touched* touched = nullptr;
  Mark* marks = nullptr;  // shadow of byte `start`; null: held, and nothing is noted
};

void set_marks(const OperandUse& o, Mark value);
bool all_held(const OperandUse& o);
bool any_held(const OperandUse& o);
bool constant_arguments(const Program& p, const Instr& in);

// What the blocks of a run share.
class CheckRun {
 public:
  CheckRun(const Program& p, const std::vector<View>& gm, const CheckOptions& options);

  const CheckOptions options;
  GmShadow gm;
  Cores cores;

  void take(Findings&& found);
  // Held by a block from before it looks at what lies in GM until its own write is there.
  std::unique_lock<std::mutex> in_turn() { return std::unique_lock<std::mutex>(turn_); }
  void next_stage();
  // After the last block. `complete`: every block came to its end.
  void finish(const std::vector<View>& gm_views, bool complete);
  std::vector<Finding> findings() const;
  int64_t dropped() const { return found_.dropped(); }

  // Accesses of the steps whose arguments are constants, made once.
  struct Known {
    std::vector<Touched> touched;
  };
  const Known* known(size_t step) const { return known_[step].load(std::memory_order_acquire); }
  const Known* keep(size_t step, std::unique_ptr<Known> known);

 private:
  const Program& program_;
  std::mutex mutex_, turn_;
  Findings found_;
  std::vector<std::atomic<const Known*>> known_;
  std::vector<std::unique_ptr<const Known>> kept_;
};

class Checker final : public ObserverOf<Checker> {
 public:
  static constexpr bool kGuards = true;

  Checker(CheckRun& run, const Program& p);

  bool wants_access() const override { return false; }
  void on_start(const Machine& m) override;
  void on_end(const Machine& m) override;
  void on_step(const Machine& m, const Step& s);
  void on_loop(const Machine& m, const Step& s, int64_t i);
  void on_sync(const Machine&, const Step&) {}

  Outcome walk(Machine& m) override;
  void step(Machine& m, const Step& s) override;
  void execute(Machine& m, const Step& s);
  void load(Machine& m, const Step& s);
  void store(Machine& m, const Step& s);

  // For front ends without a stream (checker_direct.cc). The name of the call that is looked at, for messages.
  void call(const char* name) { call_ = name; }
  void find(Fault kind, uint32_t loc, uint32_t other, uint32_t buffer, int64_t lo, int64_t hi, const std::string& text);
  void refused(const std::string& text, uint32_t loc) { lost(text, loc); }
  // A scalar access, and one of a library function, whose results come from what it has read before.
  void scalar(const DirectAccess& a);
  void library(const DirectAccess& a);
  // The rows that the library function at hand computes one by one; 0: element by element.
  void rows(int64_t rows, int64_t columns, int64_t pitch) { rows_of_ = {rows, columns, pitch}; }
  // Bytes of a memory on the chip that hold nothing from now on; that hold what nobody can know.
  void fresh(Scope scope, int64_t address, int64_t bytes);
  void exposed(uint32_t buffer, int64_t start, int64_t bytes);
  // A write that is left out, so that one fault is one finding.
  void assume_written(uint32_t buffer, int64_t start) { exposed(buffer, start, INT64_MAX); }
  Pipes& pipes() { return pipes_; }
  void flag(bool set, int pipe, int trigger, int64_t event, uint32_t loc);
  void end(const Machine& m, bool complete);

 private:
  friend class Flow;
  struct Round {  // of a loop with thread_num
    uint32_t step, threads;
    int64_t number;
  };

  bool before(Machine& m, const Step& s);
  void leave_region(const Machine& m);
  // Transfers whose order the kernel says: what they write is poison until some pipe has waited for them.
  struct Late {
    int pipe;
    uint32_t time;
    uint32_t buffer;
    int64_t start;
    Touched touched;
    std::vector<uint8_t> bytes;
  };
  void hold_back(const Machine& m, int pipe);
  void land_same_pipe(const Machine& m, int pipe);
  void land(const Machine& m, bool all);
  void land(const Machine& m, Late& late);
  // Values that are no number, and float16 values at the end of their range.
  struct Values {
    int64_t not_numbers = 0, ends = 0;
  };
  static void count(const Machine& m, const OperandUse& o, DType t, Values& found);
  void weigh(const Machine& m, const Instr& in);
  void after(const Machine& m, const Instr& in);
  bool bound(Machine& m, const Instr& in, int i, OperandUse& o, bool& tail);
  bool check_start(const Instr& in, int i, const OperandUse& o);
  void check_overlap(const Instr& in, const Use& use);
  void check_mask(const Machine& m, const Instr& in);
  void sync(Machine& m, const Instr& in);
  void alive(uint32_t buffer, uint32_t loc);
  void note_order(const Instr& in, int pipe, const OperandUse& o, bool write);
  void log(uint32_t buffer, GmUse use, uint32_t loc, int64_t start, const Touched& touched);
  std::unique_lock<std::mutex> write_in_turn(const Step& s);
  void keep_old(const Machine& m);
  void note_writes(const Machine& m, const Instr& in);
  const CheckRun::Known* find_touched(const Use& use, bool in_stream, size_t step);
  bool watches(uint32_t buffer) const;
  const char* name_of(const Instr& in) const { return call_ ? call_ : in.op->name.c_str(); }
  void order_direct(const DirectAccess& a, const Touched& touched);
  void find_unwritten(const DirectAccess& a, const Mark* marks);
  void order_scalar(const Step& s, const OperandUse& o, bool write);
  void alloc(const Step& s);
  void lost(const std::string& text, uint32_t loc);
  bool scalar_place(Machine& m, const Step& s, int64_t bytes, OperandUse& o, Touched& touched);
  Mark* marks_of(uint32_t buffer) const;
  int64_t copy_shift(uint32_t buffer) const;
  Span64 span_of(uint32_t buffer, int64_t start) const;
  void flush(std::vector<Pipes::Report>& reports);
  const char* name(uint32_t buffer) const { return program_.buffers[buffer].name.c_str(); }
  std::string place(uint32_t buffer, int64_t lo, int64_t hi) const;
  // Bits of a comparison of which only some lack content: of a marked byte those that are noted, else all.
  bool lacks_bit(const Mark* byte, int bit) const {
    const auto found = bits_.find(byte);
    return found == bits_.end() || (found->second >> bit & 1);
  }
  void note_bits(const Mark* byte, uint8_t lacking) {
    if (!lacking || lacking == 0xFF || bits_.size() > kMostBits) {
      bits_.erase(byte);
    } else {
      bits_[byte] = lacking;
    }
  }

  template <class F>
  void add(Fault kind, uint32_t loc, uint32_t other, uint32_t buffer, int64_t lo, int64_t hi, F text) {
    found_.add(kind, loc, other, buffer, block_, lo, hi, text);
  }

  CheckRun& run_;
  const Program& program_;
  ChipShadow chip_;
  Findings found_;
  CoreLog log_;
  Pipes pipes_;
  std::vector<Pipes::Report> reports_;
  std::vector<uint8_t> life_;       // of each buffer: 0 not yet, 1 alive, 2 over
  std::vector<uint32_t> life_loc_;  // where it began or ended
  std::vector<uint8_t> copy_;       // which copy of it this round uses
  std::vector<Round> rounds_;       // loops with thread_num that are walked, outermost first
  const Step* at_ = nullptr;
  const Step *region_first_ = nullptr, *region_last_ = nullptr;
  int64_t block_ = 0;
  std::unordered_map<const Mark*, uint8_t> bits_;
  static constexpr size_t kMostBits = 1 << 16;
  std::vector<OperandUse> operands_;
  Values given_;  // what the operands of the instruction at hand hold
  static constexpr int kFirstTransferPipe = 3;
  static constexpr size_t kMostHeldBytes = 4 << 20;
  std::vector<Late> held_back_;
  size_t held_bytes_ = 0;
  std::vector<uint8_t> old_;  // bytes before the instruction, of its operands that write again
  std::vector<Touched> touched_;
  // Of front ends without a stream.
  const char* call_ = nullptr;
  int pipe_ = kNoPipe;  // of the instruction at hand
  struct Taken {        // what a library function has read: marks of its elements; empty: all hold something
    int64_t elements;
    std::vector<Mark> marks;
  };
  struct Rows {
    int64_t rows = 0, columns = 0, pitch = 0;
  };
  std::vector<Taken> taken_;
  uint32_t taken_at_ = 0;
  bool taken_done_ = true;
  Rows rows_of_;
};

}  // namespace mco
