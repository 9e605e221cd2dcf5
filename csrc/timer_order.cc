// SPDX-License-Identifier: Apache-2.0
// Order of the pipes of a timed core: flags, barriers, and what waits for them.
#include <algorithm>

#include "timer.h"

namespace mco {

std::vector<int> Timer::lanes_of(int64_t pipe) const {
  switch (pipe) {
    case kMte2:
      return {kMte2, kCubeMte2};
    case kMte3:
      return {kMte3, kCubeMte3};
    case kAllPipes:
      return {kV, kM, kMte1, kMte2, kMte3, kFix, kCubeMte2, kCubeMte3};
    default:
      return {int(pipe)};
  }
}

void Timer::on_sync(const Machine& m, const Step& step) {
  if (step.what == What::Barrier || !timing_.timing()) return;
  spend(chip_.dispatch, number_of(step));
  const Instr& in = *step.instr;
  if (in.op->name == "pipe_barrier") return pipe_barrier(in);
  if (!nosync_) return;
  if (in.op->name == "set_flag") {
    set_flag(m, in);
  } else {
    wait_flag(m, in);
  }
}

// When all that a pipe was given until now is over.
double Timer::mark(int64_t pipe) const {
  double done = 0;
  for (const int lane : lanes_of(pipe)) {
    const double issued = lane == kS || pipe == kAllPipes ? std::max(issue_[0], issue_[1]) : issue(lane);
    done = std::max(done, lane == kS ? issued : std::max(lanes_[lane].done, issued));
  }
  return done;
}

void Timer::set_flag(const Machine& m, const Instr& in) {
  const int64_t pipe = in.attrs[isa::set_flag::pipe];
  const double done = mark(pipe);
  flags_[{pipe, in.attrs[isa::set_flag::trigger], m.arg(in, isa::set_flag::event)}].push_back(done);
}

void Timer::wait_flag(const Machine& m, const Instr& in) {
  const int64_t target = in.attrs[isa::wait_flag::trigger];
  auto& set = flags_[{in.attrs[isa::wait_flag::pipe], target, m.arg(in, isa::wait_flag::event)}];
  if (set.empty()) {
    ++sum_.unpaired;
    return;
  }
  const double at = set.front() + chip_.handoff;
  set.pop_front();
  hold(target, at, kFlag);
}

// Nothing of a pipe starts before `at`.
void Timer::hold(int64_t pipe, double at, int reason) {
  for (const int lane : lanes_of(pipe)) {
    if (lane == kS) {
      wait_until(at, reason);
    } else if (at > lanes_[lane].held) {
      lanes_[lane].held = at;
      lanes_[lane].held_by = reason;
    }
  }
}

// The scalar units issue nothing before `at`.
void Timer::wait_until(double at, int reason) {
  for (int unit = 0; unit <= cube_; ++unit) {
    if (!timing_.direct || unit == unit_) {
      sum_.stall[size_t(unit && timing_.direct ? kCubeS : kS)][size_t(reason)] +=
          units(std::max(0.0, at - issue_[unit]));
    }
  }
  for (double& issue : issue_) issue = std::max(issue, at);
}

// Where synchronisation is automatic a barrier has no effect of its own.
void Timer::pipe_barrier(const Instr& in) {
  if (nosync_) drain(in.attrs[isa::pipe_barrier::pipe]);
}

void Timer::drain(int64_t pipe) {
  const std::vector<int> lanes = lanes_of(pipe);
  double done = 0;
  for (const int lane : lanes) done = std::max(done, lanes_[lane].done);
  for (const int lane : lanes) {
    if (done + chip_.barrier <= lanes_[lane].held) continue;
    lanes_[lane].held = done + chip_.barrier;
    lanes_[lane].held_by = kBarrier;
  }
  if (pipe == kAllPipes) wait_until(done + chip_.barrier, kBarrier);
}

}  // namespace mco
