// SPDX-License-Identifier: Apache-2.0
// The observer of mode "measured": how long the steps of a run take on this machine, or what they move.
#pragma once

#include <chrono>
#include <vector>

#include "walk.h"

namespace mco {

// Numbers of each step, shared by the blocks of a run.
struct Measures {
  int64_t* counts = nullptr;       // executions
  int64_t* nanoseconds = nullptr;  // null: time is not taken
  int64_t* work = nullptr;         // bytes read, bytes written, operations of products; null: not counted
};

// Time runs from the start of a step to the start of the next one, so that what the walk costs is in it; what a look
// at the clock costs is not.
class Stopwatch final : public ObserverOf<Stopwatch> {
 public:
  static constexpr int kWork = 3;

  Stopwatch(const Program& program, const Measures& measures);
  bool wants_access() const override { return false; }
  bool passive() const override { return true; }
  Outcome walk(Machine& machine) override;
  void on_start(const Machine&) override { last_ = nullptr; }
  void on_end(const Machine&) override;
  void on_step(const Machine& machine, const Step& step);
  void on_loop(const Machine& machine, const Step& step, int64_t i);

 private:
  using Clock = std::chrono::steady_clock;
  void close();
  void add_work(const Machine& machine, const Instr& instr, int64_t* sums) const;

  const Step* const first_;
  const Measures measures_;
  const int64_t look_;                                // what a look at the clock takes, in ns
  std::vector<int64_t> counts_, nanoseconds_, work_;  // of this block
  const Step* last_ = nullptr;
  Clock::time_point since_;
};

}  // namespace mco
