// SPDX-License-Identifier: Apache-2.0
// The observer of a timed run: an event-driven model of the pipes of one core.
//
// The scalar unit takes the statements in order and puts instructions into the queues of their pipes. A pipe starts an
// instruction when it is free, when the instruction was issued, and when the bytes it touches are ready: outside
// disable_sync every instruction of another pipe that wrote (or, for a write, touched) them has ended; inside, only
// flags and barriers count.
#pragma once

#include <deque>
#include <map>
#include <tuple>

#include "timing.h"
#include "walk.h"

namespace mco {

// Bytes [lo, hi) of a memory that an instruction touches; addresses in GM are those of this process.
struct Touch {
  Scope scope;
  bool write;
  int64_t lo, hi;
};

// Of every buffer the distance of the copy in use from the first one (loops with thread_num take them in turn).
using Shifts = std::vector<int64_t>;

// What an instruction costs alone.
struct Work {
  int lane = kS;
  double occupies = 0;  // until the pipe can start the next one
  double lasts = 0;     // until its results are there
  double bank = 0;      // of that, cycles of bank conflicts
  Scope dst = GM, src = GM;
  int64_t bytes = 0, macs = 0, vector_bytes = 0;
  double cube = 0;  // cycles of its products alone
  // A move between GM and the chip.
  bool gm = false, to_gm = false;
  double gm_bytes = 0, miss_bytes = 0, waste = 1, rate = 0, latency = 0;
  double gap = 0;  // cycles between starts at the least
};

// An access that is no instruction of the table.
struct CoreAccess {
  uint32_t buffer = 0;
  Scope scope = GM;
  const uint8_t* at = nullptr;
  int64_t bytes = 0;
  bool write = false;
  View memory;           // that it lies in
  bool scratch = false;  // what the library's headers compute with themselves
};

class Timer final : public ObserverOf<Timer> {
 public:
  explicit Timer(Timing& timing);
  Outcome walk(Machine& machine) override;
  void on_step(const Machine& machine, const Step& step);
  void on_loop(const Machine& machine, const Step& step, int64_t i);
  void on_sync(const Machine& machine, const Step& step);
  void on_access(const Machine& machine, const Access& access) override;
  bool executes(const Machine& machine, const Step& step);

  // For front ends without a stream (timer_direct.cc). A core begins; `cube`: it is the cube's of a split core.
  void open(const Machine& machine, int64_t core, bool cube);
  // Its kernel has ended; all it was given runs to its end.
  void shut();
  // The step that what follows belongs to.
  void at(uint32_t step) { at_ = step; }
  void step(Machine& machine, const Step& step) override;
  // The scalar unit works for so many cycles.
  void work(double cycles);
  // An access of the scalar unit. One of a library function: it computes what it writes from what it has read before.
  void scalar(Machine& machine, const CoreAccess& access);
  void library(Machine& machine, const CoreAccess& access);
  // Flags of event `id` between two pipes.
  void flag(bool set, int pipe, int trigger, int64_t id);
  // When all that a pipe was given until now is over; nothing of a pipe starts before `at`; waits for a pipe, or all.
  double mark(int64_t pipe) const;
  void hold(int64_t pipe, double at, int reason);
  void drain(int64_t pipe);
  void rest() { hold(kAllPipes, mark(kAllPipes), kBarrier); }  // until all pipes are done
  // The scalar unit waits for what another core did by `at`.
  void meet(double at, int reason) {
    if (timing_.timing()) wait_until(at, reason);
  }
  double now() const { return std::max(issue_[0], issue_[1]); }
  // Library code whose own order of pipes is that of its data.
  void ordered(bool on);
  bool timing() const { return timing_.timing(); }
  const Chip& chip() const { return chip_; }

 private:
  struct LaneState {
    double free = 0, done = 0, held = 0;  // held: by flags and barriers
    int held_by = kFlag;
    double slice_end = 0;  // of the last slice, which the start of the next may cut
    bool open = false;     // the last slice is not recorded yet
    TimeSpan last{};
    std::vector<double> starts;  // of the last instructions, a ring
    size_t at = 0;
    std::vector<Touch> touched;  // by the last instruction
  };
  struct Pending {
    Touch touch;
    double end;
    int lane;
  };

  void begin(const Machine& machine);
  void finish();
  void flush();
  int32_t number_of(const Step& step) const {
    return timing_.direct ? int32_t(at_) : int32_t(&step - timing_.program.stream.steps.data());
  }
  StepSum& step_sum(int32_t number) {
    if (size_t(number) >= steps_.size()) steps_.resize(size_t(number) + 1);
    return steps_[size_t(number)];
  }
  void wait_until(double at, int reason);
  void grow();
  void see(Machine& machine, const CoreAccess& access);
  double issue(int lane) const { return issue_[lane == kM || lane == kMte1 || lane >= kFix ? cube_ : 0]; }
  double& issue(int lane) { return issue_[lane == kM || lane == kMte1 || lane >= kFix ? cube_ : 0]; }
  void spend(double cycles, int32_t step);
  void take_copy(uint32_t buffer);
  void start(Work& work, int32_t step, double cost);
  void scalar_access(int32_t step);
  double dispatch_cost(const Machine& m, const Instr& in);
  void set_flag(const Machine& m, const Instr& in);
  void wait_flag(const Machine& m, const Instr& in);
  void pipe_barrier(const Instr& in);
  double ready(const std::vector<Touch>& touches, int lane, double from, int& reason);
  bool meets_last(const LaneState& lane) const;
  void move_through_gm(Work& work, double start, double& shared);
  double misses(const Touch& touch, double bytes);
  void find_misses(const Machine& m, Work& work);
  void note_pages(const Machine& m);
  void record(int lane, int32_t step, double start, double occupied, double ends, double wait, int reason,
              double bytes);
  void close(LaneState& lane, double end);
  void remember(int lane, double end);
  std::vector<int> lanes_of(int64_t pipe) const;

  Timing& timing_;
  const Chip& chip_;
  const int cube_;  // number of the scalar unit of the cube
  const Machine* machine_ = nullptr;
  const Step* step_ = nullptr;  // an instruction that waits for its accesses
  std::vector<Touch> touches_;
  std::vector<std::pair<uint32_t, Touch>> seen_;  // the accesses of that instruction, with their buffers
  LaneState lanes_[kLanes];
  double issue_[2] = {};
  std::vector<Pending> pending_[kScopes];
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::deque<double>> flags_;
  Shifts shifts_;
  std::vector<uint32_t> lives_;  // how often a buffer came to life
  int64_t mask_[3] = {-1, -1, -1};
  bool nosync_ = false;
  double gm_tokens_ = 0, l2_tokens_ = 0, tokens_at_ = 0;
  int64_t block_ = -1, stage_ = 0;
  bool after_barrier_ = false;
  BlockSum sum_;
  std::vector<StepSum> steps_;
  std::vector<TimeSpan> slices_;
  struct Page {
    float touched = 0;  // bytes of it
    double last = 0;    // bytes that this block had moved when it was touched last
  };
  std::vector<Page>& pages_at(uint32_t buffer);
  std::vector<std::vector<Page>> pages_;
  double moved_ = 0;
  double ended_ = 0;  // the latest end so far
  // Of front ends without a stream.
  int unit_ = 0;  // the scalar unit that the core has
  uint32_t at_ = 0;
  struct Library {  // a function of it that reads, and then writes
    uint32_t step = kNone;
    bool wrote = false;
    double bytes = 0;  // of its largest operand
    std::vector<std::pair<uint32_t, Touch>> reads;
  } library_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> owed_;  // waits that came before their set
};

// Cost of an instruction with these accesses.
Work work_of(const Machine& m, const Instr& in, const Costs& costs, const Shifts& shifts);
// What a library function costs that writes `bytes` there, its largest operand having `most`.
Work library_work(const Costs& costs, Scope dst, double bytes, double most, bool scratch);
// Cycles that bank conflicts add to a vector instruction with lanes.
double bank_cycles(const Machine& m, const Instr& in, const Chip& chip, const Shifts& shifts);
// The accesses of an instruction that is not executed; false when only executing it tells them.
bool touches_of(const Machine& m, const Instr& in, std::vector<std::pair<uint32_t, Touch>>& out);
// A touch of bytes [lo, hi) of operand `tensor`.
Touch touch_of(const Machine& m, const Instr& in, int tensor, int64_t lo, int64_t hi, bool write);

}  // namespace mco
